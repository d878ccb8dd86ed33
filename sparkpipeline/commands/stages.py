"""`sparkpipeline run` and `sparkpipeline plan`: a pipeline of loads and stages, described by a YAML file."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from groundwork.output import EXIT, write
from sparkpipeline.commands.options import (
    failure_reported,
    output_option,
    report_option,
    session,
    spark_options,
    write_report,
)
from sparkpipeline.commands.progress import SparkProgress
from sparkpipeline.stages.config import Pipeline, read_pipeline
from sparkpipeline.stages.inputs import wants_spark
from sparkpipeline.stages.preview import PREVIEW_COLUMNS, Preview
from sparkpipeline.stages.programs import program_of
from sparkpipeline.stages.run import NODE_COLUMNS, PipelineRun, check_names, exit_of, import_from_folder

pipeline_argument = click.argument("pipeline", type=click.Path(dir_okay=False, path_type=Path))
only_option = click.option(
    "--only", multiple=True, metavar="NAME", help="Only this load or stage, as its inputs stand; may be repeated."
)
again_option = click.option(
    "--again",
    multiple=True,
    metavar="STAGE",
    help="Write all that this stage has anew, from all that its inputs hold: after its query was changed.",
)


def tell(sentence: str) -> None:
    """What a run says to its operator."""
    click.echo(sentence, err=True)


@click.command()
@pipeline_argument
@only_option
@again_option
@spark_options
@output_option
@report_option
def run(
    pipeline: Path, only: tuple[str, ...], again: tuple[str, ...], master: str | None, conf: dict[str, str],
    output: str, report: Path | None,
) -> int:  # fmt: skip
    """PipelineRun a pipeline: its loads, then each stage over the batches that it has not taken.

    Interrupted batches are finished first.  A node that fails stops only what reads it.  Ends with 4 when some failed
    or another driver is at a load, with 1 when nothing went well."""
    found = read_pipeline(str(pipeline))
    for option, names in (("--only", only), ("--again", again)):
        check_names(found.graph, names, option, stages_only=option == "--again")
    began = time.monotonic()
    told: list[str] = []

    def say(sentence: str) -> None:
        told.append(sentence)
        tell(sentence)

    _quiet()
    about = {"pipeline": found.file.name, "base": found.file.base}
    with failure_reported(report, **about), session(found.file.name, master, conf) as spark:
        reports = PipelineRun(found, spark, say, only, again, SparkProgress(spark).watch).run()
    rows = [one.row() for one in reports]
    write(rows, NODE_COLUMNS, output)
    outcome = exit_of(reports)
    write_report(report, {
        **about,
        "outcome": outcome,
        "seconds": round(time.monotonic() - began, 3),
        "nodes": rows,
        "told": told,
    })  # fmt: skip
    return EXIT[outcome]


@click.command()
@pipeline_argument
@only_option
@again_option
@click.option("--parse", is_flag=True, help="Start Spark, and parse the queries too.")
@spark_options
@output_option
def plan(
    pipeline: Path, only: tuple[str, ...], again: tuple[str, ...], parse: bool, master: str | None,
    conf: dict[str, str], output: str,
) -> int:  # fmt: skip
    """Show the graph of a pipeline, and what a run would do now; nothing is written, no broker is asked.

    Ends with 3 when a stage would refuse to run."""
    found = read_pipeline(str(pipeline))
    for option, names in (("--only", only), ("--again", again)):
        check_names(found.graph, names, option, stages_only=option == "--again")
    _quiet()
    with _reading(found, parse, master, conf) as spark:
        if parse:
            import_from_folder(found, spark)
            for stage in found.file.stages:
                program_of(found, stage, spark)
        nodes = Preview(found, spark, only, again).nodes()
    write([node.row() for node in nodes], PREVIEW_COLUMNS, output)
    return EXIT["refused"] if any(node.refused for node in nodes) else EXIT["done"]


@contextmanager
def _reading(pipeline: Pipeline, parse: bool, master: str | None, conf: dict[str, str]) -> Iterator[Any | None]:
    """A session where something needs one."""
    if not parse and not wants_spark(pipeline):
        yield None
        return
    with session(f"{pipeline.file.name} (plan)", master or "local[1]", conf) as spark:
        yield spark


def _quiet() -> None:
    """A query that fails is one sentence here; PySpark would print the JVM's whole stack beside it."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
