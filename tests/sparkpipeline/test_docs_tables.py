"""docs/spark.md and docs/spark-jobs.md say what the code says: tables of options, codes, links."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from sparkpipeline.commands.audit import audit
from sparkpipeline.commands.backfill import backfill
from sparkpipeline.commands.cli import COMMANDS, cli
from sparkpipeline.commands.load import load
from sparkpipeline.commands.reference import load_table, sink_table, source_refused, source_table, stages_tables
from sparkpipeline.errors import EXIT_OF
from sparkpipeline.sink.options import ONLY, REFUSED, WITHOUT_EFFECT

DOCS = Path(__file__).parents[2] / "docs"
SPARK = (DOCS / "spark.md").read_text(encoding="utf-8")
JOBS = (DOCS / "spark-jobs.md").read_text(encoding="utf-8")
EVERYWHERE = ("master", "conf", "output", "report", "execute")  # told once, at the head of the page


def section(page: str, heading: str) -> str:
    """From a heading to the next one of its level or above."""
    level = heading.partition(" ")[0]
    begun = page.index(f"\n{heading}\n")
    end = re.compile(rf"^#{{1,{len(level)}}} ", re.MULTILINE).search(page, begun + len(heading) + 2)
    return page[begun : end.start() if end else len(page)]


@pytest.mark.parametrize(
    ("table", "text", "command"),
    [
        (source_table(), SPARK, "source"),
        (source_refused(), SPARK, "source"),
        (sink_table(), SPARK, "sink"),
        (load_table(), JOBS, "load"),
        (stages_tables(), JOBS, "stages"),
    ],
)
def test_each_table_of_options_is_the_one_that_its_command_prints(table: str, text: str, command: str) -> None:
    assert table.count("\n| `") > 5
    assert table in text, f"make it anew: python -m sparkpipeline.commands.reference {command}"
    assert f"`python -m sparkpipeline.commands.reference {command}`" in text


@pytest.mark.parametrize(
    ("command", "heading"), [(backfill, "### Options of backfill"), (audit, "### Options of audit")]
)
def test_every_option_of_a_command_is_in_its_table_and_no_other(command: click.Command, heading: str) -> None:
    told = {name for row in re.findall(r"^\| (.*)$", section(JOBS, heading), re.M)
            for name in re.findall(r"`(--[a-z-]+)", row)}  # fmt: skip
    there = {
        opt for param in command.params if isinstance(param, click.Option) for opt in param.opts if opt[:2] == "--"
    }
    assert told - {"--master", "--conf", "--report", "--execute"} == there - {f"--{name}" for name in EVERYWHERE}


def test_every_command_is_told() -> None:
    for name in COMMANDS:
        assert f"sparkpipeline {name}" in JOBS or f", `{name}`" in JOBS, name
    for name in load.commands:
        assert re.search(rf"(sparkpipeline load|`load) {name}\b", JOBS), name
    assert cli.commands == {}  # they are found by COMMANDS


def test_every_code_of_an_error_is_told_and_no_other() -> None:
    told = set(re.findall(r"KAFKA08_[A-Z_]+", section(SPARK, "## When it fails")))
    assert told == set(EXIT_OF)


def test_what_the_sink_passes_over_or_refuses_is_what_the_page_names() -> None:
    text = section(SPARK, "### Options of writing")
    ignored, _, refused = text.partition("Without effect, told")[2].partition("Refused with a reason")
    assert set(re.findall(r"`([\w.]+)`", ignored)) <= WITHOUT_EFFECT.keys()
    assert set(re.findall(r"`([\w.]+)(?:=\w+)?`", refused)) <= REFUSED.keys() | ONLY.keys()


@pytest.mark.parametrize("page", ["spark.md", "spark-jobs.md"])
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", (DOCS / page).read_text(encoding="utf-8"))
    assert links
    for name, anchor in links:
        text = (DOCS / (name or page)).read_text(encoding="utf-8")
        if anchor:
            headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}, (
                name,
                anchor,
            )
