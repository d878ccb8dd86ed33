"""docs/performance.md, benchmarks/results/README.md and their charts say what the JSON files of the benchmarks say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))  # a benchmark imports its neighbours by their names

from benchmarks import page, run
from benchmarks.common import Report, Run

KNOWN = page.read()


def document(**more: Any) -> dict[str, Any]:
    report = Report("mirror", short=True, about={"kernels": "python"})
    for who, cpu_s in (("jvm", 10.0), ("ours", 0.5)):
        report.add(Run(work="plain <1>", who=who, messages=10_000, bytes=100, cpu_s=cpu_s, clock_s=cpu_s))
    report.compare("plain <1>", "ours", "jvm", per_cpu=15, clock=40)
    report.figure("idle", "% of a core", 2.5, target=5, at_most=True)
    report.figure("start", "s", 1.25)
    return {**json.loads(json.dumps(report.document())), **more}


def test_the_page_and_its_charts_are_what_the_results_say() -> None:
    """`python benchmarks/page.py` makes them so."""
    assert page.differing(KNOWN) == []


@pytest.mark.parametrize("each", KNOWN, ids=lambda each: str(each["benchmark"]))
def test_every_figure_of_the_results_stands_in_the_tables(each: dict[str, Any]) -> None:
    lines = page.TABLES.read_text().splitlines()
    for figure in each["figures"]:
        row = [line for line in lines if line.startswith(f"| {figure['work']} | {figure['who']} |")]
        assert any(page.number(figure["value"]) in line and figure["what"] in line for line in row), figure
    assert all(one["checked"] for one in each["runs"])


def test_the_page_shows_ten_figures_each_with_a_target() -> None:
    figures = page.chosen(KNOWN)["figures"]
    assert len(figures) == len(page.FIGURES) == 10
    assert page.aimed(page.chosen(KNOWN)) == figures
    text = page.summary(KNOWN)
    for figure in figures:
        assert f"| {figure['work']} | {page.measured(figure)} | {figure['what']} | {page.target(figure)} |" in text


def test_a_table_has_figures_targets_and_what_was_not_reached() -> None:
    text = page.tables([document()])
    assert "| plain <1> | ours | 20 × jvm | messages per CPU second | ≥ 15 | yes |" in text
    assert "| plain <1> | ours | 20 × jvm | messages per second | ≥ 40 | **no** |" in text
    assert "| idle | ours | 2.5 | % of a core | ≤ 5 | yes |" in text
    assert "| start | ours | 1.25 | s |  |  |" in text
    assert "| plain <1> | ours | 10,000 | 0.5 | 0.5 | 20,000 | 20,000 |  |" in text
    assert "short form" in text


@pytest.mark.parametrize("colours", [page.LIGHT, page.DARK])
def test_a_chart_has_a_bar_for_each_target_as_long_as_its_share(colours: page.Colours) -> None:
    chart = ElementTree.fromstring(page.chart(document(), colours))
    bars = chart.findall("{http://www.w3.org/2000/svg}rect")
    line = page.BARS / page.MOST
    assert [float(bar.get("width", "0")) / line for bar in bars] == pytest.approx([20 / 15, 0.5, 2.0], abs=0.01)
    assert [bar.get("fill") for bar in bars] == [colours.reached, colours.missed, colours.reached]


def test_a_changed_result_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own, tables, folder = tmp_path / "performance.md", tmp_path / "results" / "README.md", tmp_path / "performance"
    own.write_text(f"before\n{page.BEGIN}{page.END}after\n")
    tables.parent.mkdir()
    for name, path in (("PAGE", own), ("TABLES", tables), ("CHARTS", folder)):
        monkeypatch.setattr(page, name, path)
    monkeypatch.setattr(page, "FIGURES", {("mirror", "plain <1>", "ours", page.PER_CPU, "jvm"): "mirror, plain"})
    page.write([document()])
    assert own.read_text().startswith("before\n")
    assert own.read_text().endswith("after\n")
    assert page.differing([document()]) == []
    other = document()
    other["figures"][0]["value"] = 14.0
    other["figures"][0]["reached"] = False
    charts = {
        *(folder / f"figures-{name}.svg" for name in ("light", "dark")),
        *(tables.parent / f"mirror-{name}.svg" for name in ("light", "dark")),
    }
    assert set(page.differing([other])) == {own, tables, *charts}
    page.write([])
    assert [*folder.iterdir(), *tables.parent.glob("*.svg")] == []


def test_the_summary_counts_targets_and_names_what_is_wrong() -> None:
    text = run.summary([document()])
    assert "2 of 3 targets reached" in text
    assert [line.split()[-1] for line in text.splitlines()[1:4]] == ["yes", "NO", "yes"]
    assert "short form: mirror" in text
    lost = document()
    lost["runs"][0]["checked"] = False
    assert "MESSAGES DIFFER in mirror" in run.summary([lost])
