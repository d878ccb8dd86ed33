"""The pages about Spark say what the code says: tables of options, commands, codes."""

from __future__ import annotations

import re

import click
import pytest

from sparkpipeline.commands.audit import audit
from sparkpipeline.commands.backfill import backfill
from sparkpipeline.commands.cli import COMMANDS, cli
from sparkpipeline.commands.load import load
from sparkpipeline.commands.reference import load_table, sink_table, source_refused, source_table, stages_tables
from sparkpipeline.errors import EXIT_OF
from sparkpipeline.sink.sinkoptions import ONLY, REFUSED, WITHOUT_EFFECT
from tests.docpages import PAGES, section, text_of

EVERYWHERE = ("master", "conf", "output", "report", "execute")  # told once, at the head of the page


@pytest.mark.parametrize(
    ("table", "page", "command"),
    [
        (source_table(), "spark-options.md", "source"),
        (source_refused(), "spark-options.md", "source"),
        (sink_table(), "spark-options.md", "sink"),
        (load_table(), "spark-load.md", "load"),
        (stages_tables(), "spark-stages.md", "stages"),
    ],
)
def test_each_table_of_options_is_the_one_that_its_command_prints(table: str, page: str, command: str) -> None:
    text = text_of(page)
    assert table.count("`") > 10
    assert table in text, f"make it anew: python -m sparkpipeline.commands.reference {command}"
    assert f"`python -m sparkpipeline.commands.reference {command}`" in text


@pytest.mark.parametrize(("command", "heading"), [(backfill, "Options of backfill"), (audit, "Options of audit")])
def test_every_option_of_a_command_is_in_its_table_and_no_other(command: click.Command, heading: str) -> None:
    told = {name for row in re.findall(r"^\| (.*)$", section("spark-backfill-audit.md", heading), re.M)
            for name in re.findall(r"`(--[a-z-]+)", row)}  # fmt: skip
    there = {
        opt for param in command.params if isinstance(param, click.Option) for opt in param.opts if opt[:2] == "--"
    }
    assert told - {"--master", "--conf", "--report", "--execute"} == there - {f"--{name}" for name in EVERYWHERE}


def test_every_command_is_told() -> None:
    told = "".join(text_of(page) for page in PAGES if page.startswith("spark"))
    for name in COMMANDS:
        assert f"sparkpipeline {name}" in told or f", `{name}`" in told, name
    for name in load.commands:
        assert re.search(rf"(sparkpipeline load|`load) {name}\b", told), name
    assert [*cli.commands] == ["completion"]  # all others are found by COMMANDS


def test_every_code_of_an_error_is_told_and_no_other() -> None:
    told = set(re.findall(r"KAFKA08_[A-Z_]+", section("spark.md", "When it fails")))
    assert told == set(EXIT_OF)


def test_what_the_sink_passes_over_or_refuses_is_what_the_page_names() -> None:
    text = section("spark-options.md", "Options of writing")
    ignored, _, refused = text.partition("Without effect, named")[2].partition("Refused with a reason")
    assert set(re.findall(r"`([\w.]+)`", ignored)) <= WITHOUT_EFFECT.keys()
    assert set(re.findall(r"`([\w.]+)(?:=\w+)?`", refused)) <= REFUSED.keys() | ONLY.keys()
