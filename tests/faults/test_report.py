"""The figures of docs/reliability.md are what the verdicts of the last full run say."""

from __future__ import annotations

import dataclasses

import pytest

from tests.faults import report
from tests.faults.harness.oracles import Verdict

ONE = Verdict(
    row="F3", title="kill -9", seed=1, messages=1000, lost=0, phantoms=0, damaged=0,
    duplicates=40, duplicates_bound=900, outside=0, inversions=0, unsafe_commits=0, decreases=0, samples=50,
    overlap_s=0.0, recovery_s=6.5, recovery_bound_s=13, catch_up_s=1.0, rebalances=2,
    grown_bytes=3_000_000, grown_descriptors=2,
)  # fmt: skip


def test_runs_of_a_row_are_one_line_in_the_order_of_the_matrix() -> None:
    runs = [ONE, dataclasses.replace(ONE, seed=2, duplicates=70, recovery_s=7.5, failures=("late",))]
    runs += [dataclasses.replace(ONE, row="F12b", title="slow"), dataclasses.replace(ONE, row="F2", recovery_s=None)]
    lines = report.table([dataclasses.asdict(run) for run in runs]).splitlines()[2:]
    assert lines == [
        "| F2 | kill -9 | 1 | 1,000 | 0 | 40 ≤ 900 | 0 | 0 |  | 3 | 1 of 1 |",
        "| F3 | kill -9 | 2 | 2,000 | 0 | 70 ≤ 900 | 0 | 0 | 7.0, 7.5 ≤ 13 | 3 | 1 of 2 |",
        "| F12b | slow | 1 | 1,000 | 0 | 40 ≤ 900 | 0 | 0 | 6.5, 6.5 ≤ 13 | 3 | 1 of 1 |",
    ]


def test_a_verdict_that_is_noted_is_read_again(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT_REPORT", str(tmp_path / "verdicts"))
    report.note(ONE)
    report.note(dataclasses.replace(ONE, figures={"exit s": (0.5, 10.0)}))
    first, second = report.read(tmp_path / "verdicts")
    assert (first["row"], second["figures"]) == ("F3", {"exit s": [0.5, 10.0]})
    monkeypatch.delenv("FAULT_REPORT")
    report.note(ONE)
    assert len(report.read(tmp_path / "verdicts")) == 2


def test_the_page_is_what_the_verdicts_say() -> None:
    page = report.PAGE.read_text(encoding="utf-8")
    verdicts = report.read(report.RESULTS)
    assert report.made(page, verdicts) == page, "run python -m tests.faults.report"
    assert report.TABLE.read_text(encoding="utf-8") == report.whole_table(verdicts), "run python -m tests.faults.report"


def test_the_sums_are_those_of_all_runs() -> None:
    runs = [ONE, dataclasses.replace(ONE, row="F6a", recovery_s=None)]
    runs.append(dataclasses.replace(ONE, row="F6b", lost=1, duplicates=70, recovery_s=7.5, failures=("lost",)))
    verdicts = [dataclasses.asdict(run) for run in runs]
    assert report.summary(verdicts).startswith("2 of 3 runs passed.  Of 3,000 messages 1 were lost; 0 commits")
