"""The frame of the benchmarks: runs, ratios, targets, the JSON file, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.common import CLOCK, PER_CPU, Figure, Report, Run, table, turns

WORK = "plain, 100 B"


def run(who: str, cpu_s: float | None, clock_s: float | None, checked: bool = True, **also: float) -> Run:
    return Run(work=WORK, who=who, messages=1000, bytes=100, cpu_s=cpu_s, clock_s=clock_s, checked=checked, also=also)


def test_a_ratio_is_of_the_medians_of_the_runs_and_has_its_target() -> None:
    report = Report("mirror")
    for cpu_s in (1.0, 2.0, 50.0):  # an outlier changes nothing
        report.add(run("jvm", cpu_s, 4.0))
        report.add(run("ours", cpu_s / 10, 2.0))
    report.compare(WORK, "ours", "jvm", per_cpu=15, clock=2)
    per_cpu, clock = report.figures
    assert (per_cpu.what, round(per_cpu.value, 6), per_cpu.target, per_cpu.reached) == (PER_CPU, 10, 15, False)
    assert (clock.what, clock.value, clock.target, clock.reached) == (CLOCK, 2, 2, True)
    assert per_cpu.sentence() == f"{WORK}: ours 10.0 times jvm, {PER_CPU} (at least 15: NOT REACHED)"


def test_what_nobody_ran_or_measured_has_no_ratio() -> None:
    report = Report("mirror")
    report.add(run("ours", None, 1.0))
    report.add(run("jvm", 1.0, 2.0))
    report.compare(WORK, "ours", "jvm", per_cpu=15, clock=2)
    report.compare("another", "ours", "jvm", per_cpu=15)
    assert [figure.what for figure in report.figures] == [CLOCK]


def test_what_else_was_measured_has_a_median() -> None:
    report = Report("latency")
    for ms in (3.0, 1.0, 2.0):
        report.add(run("ours", 1, 1, p99=ms))
    assert (report.median(WORK, "ours", "p99"), report.median(WORK, "ours", "p50")) == (2.0, None)


@pytest.mark.parametrize(
    ("value", "at_most", "reached"), [(5.0, True, True), (5.1, True, False), (5.0, False, True), (4.9, False, False)]
)
def test_a_target_is_a_bound_of_either_side(value: float, at_most: bool, reached: bool) -> None:
    figure = Figure("idle", "% of a core", value, target=5, at_most=at_most)
    assert figure.reached is reached
    assert ("at most 5" if at_most else "at least 5") in figure.sentence()
    assert Figure("idle", "% of a core", value).reached is None


def test_the_file_holds_runs_figures_and_how_they_were_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report("mirror", short=True, about={"kernels": "python"})
    report.absent["mirror of others"] = "not installed"
    report.add(run("ours", 0.5, 2.0, p99=41.5))
    report.figure(WORK, "ms", 41.5, target=100, at_most=True)
    with pytest.raises(SystemExit) as ended:
        report.end(tmp_path / "results" / "mirror.json")
    assert ended.value.code == 0
    document = json.loads((tmp_path / "results" / "mirror.json").read_text())
    assert (document["benchmark"], document["short"], document["about"]) == ("mirror", True, {"kernels": "python"})
    assert document["runs"] == [
        {"work": WORK, "who": "ours", "messages": 1000, "bytes": 100, "cpu_s": 0.5, "clock_s": 2.0, "checked": True}
        | {"also": {"p99": 41.5}}
    ]
    assert document["figures"][0] == {
        "work": WORK,
        "what": "ms",
        "value": 41.5,
        "who": "ours",
        "peer": None,
        "target": 100,
        "at_most": True,
        "reached": True,
    }
    printed = capsys.readouterr()
    assert "without mirror of others: not installed" in printed.out
    assert "at most 100: reached" in printed.out
    assert "2,000" in printed.out  # per CPU second
    assert WORK in printed.err


@pytest.mark.parametrize("checks", [[], [True, False]])
def test_no_runs_and_lost_messages_end_with_1(checks: list[bool]) -> None:
    report = Report("mirror")
    for each in checks:
        report.add(run("ours", 1, 1, checked=each))
    with pytest.raises(SystemExit) as ended:
        report.end()
    assert ended.value.code == 1


def test_each_round_is_begun_by_another_contestant() -> None:
    assert list(turns(["jvm", "ours", "bare loop"], 3)) == [
        *("jvm", "ours", "bare loop"),
        *("ours", "bare loop", "jvm"),
        *("bare loop", "jvm", "ours"),
    ]


def test_a_table_aligns_numbers_to_the_right() -> None:
    rows = [{"who": "ours", "messages": 1000}, {"who": "the JVM's"}]
    assert table(rows, ["who", "messages"]).splitlines() == [
        "who        messages",
        "ours          1,000",
        "the JVM's         -",
    ]
