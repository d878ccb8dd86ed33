"""`sparkpipeline stages`: the batches of a pipeline's loads and stages, and giving one up.

list      what was planned, committed, published and abandoned
abandon   end an open plan of a stage that fails at every run
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from groundwork.output import EXIT, write
from sparkpipeline.commands.options import execute_option, go_ahead, output_option, session, spark_options
from sparkpipeline.commands.stages import only_option, pipeline_argument, tell
from sparkpipeline.errors import Refused
from sparkpipeline.ledger.base import needs_spark
from sparkpipeline.ledger.model import utc
from sparkpipeline.ledger.reports import OPEN, BatchRow, batches_of
from sparkpipeline.stages.config import Pipeline, read_pipeline
from sparkpipeline.stages.inputs import PipelineLedgers
from sparkpipeline.stages.run import check_names

BATCH_COLUMNS = ("name", "batch", "kind", "state", "at", "files", "rows", "bytes", "supersedes", "attempts", "why")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def stages() -> None:
    """The batches of a pipeline's loads and stages.

    \b
    sparkpipeline stages list    flow.yaml
    sparkpipeline stages abandon flow.yaml lines 17 --why 'its input is gone' --execute
    """


@stages.command("list")
@pipeline_argument
@only_option
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="So many batches of each.")
@spark_options
@output_option
def list_batches(
    pipeline: Path, only: tuple[str, ...], last: int, master: str | None, conf: dict[str, str], output: str
) -> None:
    """Show the newest batches of each node.

    open: planned, and carried out by the next run as it was planned; committed: its files are still to be moved;
    published; abandoned."""
    found = read_pipeline(str(pipeline))
    check_names(found.graph, only, "--only")
    names = [node.name for node in found.graph if not only or node.name in only]
    with _opened(found, names, master, conf) as opened:
        rows = [row_of(name, row) for name in names for row in batches_of(opened.ledger(name), last)]
    write(rows, BATCH_COLUMNS, output)


@stages.command()
@pipeline_argument
@click.argument("stage")
@click.argument("batch", type=click.IntRange(1))
@click.option("--why", default="by hand", show_default=True, help="Reason, kept in the ledger.")
@execute_option
@spark_options
def abandon(
    pipeline: Path, stage: str, batch: int, why: str, execute: bool, master: str | None, conf: dict[str, str]
) -> int:
    """Give an open plan of a stage up: one that fails at every run.

    Nothing of it is ever published, and the next run plans what it took anew.  What it had sent to a topic stays
    there.  For a load: sparkpipeline load abandon."""
    found = read_pipeline(str(pipeline))
    check_names(found.graph, [stage], "STAGE", stages_only=True)
    with _opened(found, [stage], master, conf) as opened:
        ledger = opened.ledger(stage)
        rows = batches_of(ledger, 1)
        if not rows or rows[0].state != OPEN or rows[0].batch != batch:
            raise Refused("it is not open; sparkpipeline stages list shows what is", stage=stage, batch=batch)
        write([row_of(stage, rows[0])], BATCH_COLUMNS)
        if go_ahead(f"abandon batch {batch} of {stage}", execute):
            ledger.abandon(batch, why)
            tell(f"batch {batch} of {stage} is abandoned")
    return EXIT["done"]


def row_of(name: str, row: BatchRow) -> dict[str, Any]:
    """For the table and JSON."""
    return {
        "name": name,
        "batch": row.batch,
        "kind": row.kind,
        "state": row.state,
        "at": None if row.at_ms is None else utc(row.at_ms),
        "files": row.files,
        "rows": row.rows,
        "bytes": row.bytes,
        "supersedes": row.supersedes,
        "attempts": row.attempts,
        "why": row.why,
    }


@contextmanager
def _opened(
    pipeline: Pipeline, names: list[str], master: str | None, conf: dict[str, str]
) -> Iterator[PipelineLedgers]:
    """With a session where a ledger needs Spark's Hadoop client."""
    if not any(needs_spark(PipelineLedgers(pipeline, None).base(name)) for name in names):
        yield PipelineLedgers(pipeline, None)
        return
    with session(f"{pipeline.file.name} (reading)", master or "local[1]", conf) as spark:
        yield PipelineLedgers(pipeline, spark)
