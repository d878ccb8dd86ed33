"""Pipelines of loads and stages, described by a YAML file.

`sparkpipeline run`              runs the loads, then each stage over the batches that it has not processed
`sparkpipeline plan`             shows what a run would do
`sparkpipeline stages list`      lists what was planned, committed, published and abandoned, batch by batch
`sparkpipeline stages abandon`   abandons an open plan of a stage that fails at every run
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from groundwork.commands import Command, Group, execute_option, go_ahead, output_option
from groundwork.output import EXIT, write
from sparkpipeline.commands.common import (
    Told,
    failure_reported,
    report_option,
    session,
    session_if,
    spark_options,
    tell,
    write_report,
)
from sparkpipeline.commands.sparkprogress import SparkProgress
from sparkpipeline.errors import Refused
from sparkpipeline.ledger.base import needs_spark
from sparkpipeline.ledger.manifests import utc
from sparkpipeline.ledger.reports import OPEN, BatchRow, batches_of
from sparkpipeline.stages.inputs import PipelineLedgers, wants_spark
from sparkpipeline.stages.pipelinefile import Pipeline, read_pipeline
from sparkpipeline.stages.pipelinerun import (
    NODE_COLUMNS,
    PipelineRun,
    check_names,
    exit_of,
    idle_reports,
    import_from_folder,
)
from sparkpipeline.stages.preview import PREVIEW_COLUMNS, Preview
from sparkpipeline.stages.stageprograms import program_of

BATCH_COLUMNS = ("name", "batch", "kind", "state", "at", "files", "rows", "bytes", "supersedes", "attempts", "why")
pipeline_argument = click.argument("pipeline", type=click.Path(dir_okay=False, path_type=Path))
only_option = click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Run only this load or stage, with its inputs as they are; repeatable.",
)
again_option = click.option(
    "--again",
    multiple=True,
    metavar="STAGE",
    help="Rewrite all output of this stage from all its inputs, after its query was changed.",
)


# ---- run and plan ----------------------------------------------------------------------------------------------------


@click.command(
    cls=Command,
    examples=[
        "sparkpipeline run pipeline.yaml",
        "sparkpipeline run pipeline.yaml --only revenue",
        "sparkpipeline run pipeline.yaml --master yarn --report last.json",
    ],
)
@pipeline_argument
@only_option
@again_option
@spark_options
@output_option()
@report_option
def run(
    pipeline: Path, only: tuple[str, ...], again: tuple[str, ...], master: str | None, conf: dict[str, str],
    output: str, report: Path | None,
) -> int:  # fmt: skip
    """Run the loads and the stages of a pipeline.

    Its loads run first, then each stage over the batches that it has not processed.

    If no load is to run and no stage has work, Spark is not started.

    Interrupted batches are finished first.  A node that fails stops only the nodes that read it.  Exits with 4 if some
    failed or another driver runs a load, with 1 if all failed.
    """
    found = read_pipeline(str(pipeline))
    for option, names in (("--only", only), ("--again", again)):
        check_names(found.graph, names, option, stages_only=option == "--again")
    began = time.monotonic()
    say = Told()
    _quiet()
    about = {"pipeline": found.file.name, "base": found.file.base}
    with failure_reported(report, **about):
        reports = None
        if not wants_spark(found):
            reports = idle_reports(Preview(pipeline=found, spark=None, only=only, again=again).nodes())
        if reports is None:
            with session(found.file.name, master, conf) as spark:
                reports = PipelineRun(
                    pipeline=found, spark=spark, tell=say, only=only, again=again, watch=SparkProgress(spark).watch
                ).run()
    rows = [one.row() for one in reports]
    write(rows, NODE_COLUMNS, output)
    outcome = exit_of(reports)
    write_report(report, {
        **about,
        "outcome": outcome,
        "seconds": round(time.monotonic() - began, 3),
        "nodes": rows,
        "told": say,
    })  # fmt: skip
    return EXIT[outcome]


@click.command(
    cls=Command,
    examples=[
        "sparkpipeline plan pipeline.yaml",
        "sparkpipeline plan pipeline.yaml --parse  # the SQL too",
        "sparkpipeline plan pipeline.yaml --only revenue -o json",
    ],
)
@pipeline_argument
@only_option
@again_option
@click.option("--parse", is_flag=True, help="Start Spark, and parse the queries too.")
@spark_options
@output_option()
def plan(
    pipeline: Path, only: tuple[str, ...], again: tuple[str, ...], parse: bool, master: str | None,
    conf: dict[str, str], output: str,
) -> int:  # fmt: skip
    """Show what a run of a pipeline would do; write nothing.

    Prints the graph too; no broker is asked.

    Exits with 3 if a stage would refuse to run.
    """
    found = read_pipeline(str(pipeline))
    for option, names in (("--only", only), ("--again", again)):
        check_names(found.graph, names, option, stages_only=option == "--again")
    _quiet()
    with session_if(parse or wants_spark(found), f"{found.file.name} (plan)", master, conf) as spark:
        if parse:
            import_from_folder(found, spark)
            for stage in found.file.stages:
                program_of(found, stage, spark)
        nodes = Preview(pipeline=found, spark=spark, only=only, again=again).nodes()
    write([node.row() for node in nodes], PREVIEW_COLUMNS, output)
    return EXIT["refused"] if any(node.refused for node in nodes) else EXIT["done"]


def _quiet() -> None:
    """Silence PySpark's log of query errors: a failing query is one sentence here, without the JVM's stack."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


# ---- batches, one by one ---------------------------------------------------------------------------------------------


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=[
        "sparkpipeline stages list pipeline.yaml",
        "sparkpipeline stages list pipeline.yaml --only revenue --last 50",
        "sparkpipeline stages abandon pipeline.yaml lines 17 --why 'its input is gone' --execute",
    ],
)
def stages() -> None:
    """List or abandon the batches of a pipeline."""


@stages.command(
    "list",
    examples=[
        "sparkpipeline stages list pipeline.yaml",
        "sparkpipeline stages list pipeline.yaml --only revenue -o json",
    ],
)
@pipeline_argument
@only_option
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="Number of batches of each.")
@spark_options
@output_option()
def list_batches(
    pipeline: Path, only: tuple[str, ...], last: int, master: str | None, conf: dict[str, str], output: str
) -> None:
    """Show the newest batches of each node.

    open: planned, and executed by the next run as planned; committed: its files still have to be moved; published;
    abandoned.
    """
    found = read_pipeline(str(pipeline))
    check_names(found.graph, only, "--only")
    names = [node.name for node in found.graph if not only or node.name in only]
    with _opened(found, names, master, conf) as opened:
        rows = [row_of(name, row) for name in names for row in batches_of(opened.ledger(name), last)]
    write(rows, BATCH_COLUMNS, output)


@stages.command(
    examples=[
        "sparkpipeline stages abandon pipeline.yaml lines 17 --why 'its input is gone'",
        "sparkpipeline stages abandon pipeline.yaml lines 17 --why 'its input is gone' --execute",
    ]
)
@pipeline_argument
@click.argument("stage")
@click.argument("batch", type=click.IntRange(1))
@click.option("--why", default="by hand", show_default=True, help="Reason, kept in the ledger.")
@execute_option
@spark_options
def abandon(
    pipeline: Path, stage: str, batch: int, why: str, execute: bool, master: str | None, conf: dict[str, str]
) -> int:
    """Give up an open plan of a stage that fails at every run.

    It will never be published, and the next run plans its input again.  Rows that it sent to a topic stay there.  For a
    load: sparkpipeline load abandon.
    """
    found = read_pipeline(str(pipeline))
    check_names(found.graph, [stage], "STAGE", stages_only=True)
    with _opened(found, [stage], master, conf) as opened:
        ledger = opened.ledger(stage)
        rows = batches_of(ledger, 1)
        if not rows or rows[0].state != OPEN or rows[0].batch != batch:
            raise Refused("it is not open; sparkpipeline stages list shows open batches", stage=stage, batch=batch)
        write([row_of(stage, rows[0])], BATCH_COLUMNS)
        if go_ahead(execute, f"abandon batch {batch} of {stage}"):
            ledger.abandon(batch, why)
            tell(f"batch {batch} of {stage} is abandoned")
    return EXIT["done"]


def row_of(name: str, row: BatchRow) -> dict[str, Any]:
    """Return a row for the table and JSON."""
    values = {**asdict(row), "name": name, "at": None if row.at_ms is None else utc(row.at_ms)}
    return {column: values[column] for column in BATCH_COLUMNS}


@contextmanager
def _opened(
    pipeline: Pipeline, names: list[str], master: str | None, conf: dict[str, str]
) -> Iterator[PipelineLedgers]:
    """Yield the ledgers, with a session if one needs Spark's Hadoop client."""
    needed = any(needs_spark(PipelineLedgers(pipeline, None).base(name)) for name in names)
    with session_if(needed, f"{pipeline.file.name} (reading)", master, conf) as spark:
        yield PipelineLedgers(pipeline, spark)
