"""`sparkpipeline load`: one load job, described by a YAML file.

run       finish what an earlier run left, then load what is new
plan      what the next run would do
status    where the job stands, and how far behind
files     the files that readers of a batch see
verify    what is on the disk against what the manifests say, and the footers against both
init, rewind, compact, abandon: commands/loadchanges.py
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from groundwork.output import EXIT, fail, write
from groundwork.plural import counted
from sparkpipeline.commands import loadrows
from sparkpipeline.commands.loadchanges import CHANGES, job_argument, tell
from sparkpipeline.commands.options import (
    failure_reported,
    output_option,
    report_option,
    session,
    spark_options,
    write_report,
)
from sparkpipeline.commands.progress import SparkProgress
from sparkpipeline.ledger.base import needs_spark
from sparkpipeline.ledger.reports import files_of, status_of
from sparkpipeline.load.cluster import connected, look, must_answer
from sparkpipeline.load.config import LoadConfig, read_config
from sparkpipeline.load.facts import Standing
from sparkpipeline.load.job import open_ledger, run_load
from sparkpipeline.load.operations import preview_load
from sparkpipeline.load.operations import verify as verify_load


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def load() -> None:
    """Exactly-once loads of topics into Parquet files.

    \b
    sparkpipeline load plan  orders.yaml
    sparkpipeline load run   orders.yaml
    sparkpipeline load status orders.yaml --max-lag 1000000
    """


for change in CHANGES:
    load.add_command(change)


@contextmanager
def reading(config: LoadConfig, master: str | None, conf: dict[str, str]) -> Iterator[Any | None]:
    """A session where the base needs one, for commands that run no job of Spark's."""
    if not needs_spark(config.base):
        yield None
        return
    with session(f"{config.name} (reading)", master or "local[1]", conf) as spark:
        yield spark


@load.command()
@job_argument
@spark_options
@output_option
@report_option
def run(job: Path, master: str | None, conf: dict[str, str], output: str, report: Path | None) -> int:
    """Load what is new.

    An interrupted run is finished first, exactly as it was planned.  Ends with 3 when another driver is at the same
    job."""
    config = read_config(job)
    began = time.monotonic()
    told: list[str] = []

    def say(sentence: str) -> None:
        told.append(sentence)
        tell(sentence)

    with failure_reported(report, job=config.name, base=config.base):
        must_answer(config)
        with session(config.name, master, conf) as spark:
            outcome = run_load(config, spark, say, SparkProgress(spark).watch)
    rows = loadrows.of_outcome(outcome)
    write(rows, loadrows.BATCH, output)
    if not rows and not outcome.lost:
        say("nothing new")
    write_report(report, {
        "job": config.name,
        "base": config.base,
        "outcome": outcome.outcome.value,
        "seconds": round(time.monotonic() - began, 3),
        "batches": rows,
        "closed": list(outcome.closed),
        "told": told,
    })  # fmt: skip
    return EXIT["refused"] if outcome.lost else EXIT["done"]


@load.command()
@job_argument
@click.option("--dry-run", is_flag=True, help="No effect: plan never writes.")
@spark_options
@output_option
def plan(job: Path, dry_run: bool, master: str | None, conf: dict[str, str], output: str) -> None:
    """Show what the next run would load; nothing is written."""
    config = read_config(job)
    must_answer(config)
    with session(config.name, master, conf) as spark:
        found = preview_load(config, spark, tell)
    rows = [] if found is None else loadrows.of_plan(found)
    write(rows, loadrows.RANGE, output)
    if found is None:
        tell("nothing new")


@load.command()
@job_argument
@click.option("--offline", is_flag=True, help="Only the ledger: the cluster is not asked.")
@click.option("--max-lag", type=click.IntRange(0), help="Exit 6 when more messages (of 0.7: bytes) than this wait.")
@click.option("--max-age", type=click.IntRange(0), metavar="MINUTES",
              help="Exit 6 when messages wait and the last batch is older.")  # fmt: skip
@click.option("--max-plan-age", type=click.IntRange(0), metavar="MINUTES",
              help="Exit 6 when a plan is open for longer: its runs fail.")  # fmt: skip
@spark_options
@output_option
def status(
    job: Path, offline: bool, max_lag: int | None, max_age: int | None, max_plan_age: int | None,
    master: str | None, conf: dict[str, str], output: str,
) -> None:  # fmt: skip
    """Show where the job stands, topic by topic: rows behind, and how much of what is loaded the log still has.

    kept 0 in a topic that is behind: messages are being deleted before they are loaded.  Of Kafka 0.7, whose offsets
    are bytes, lags are bytes too."""
    config = read_config(job)
    with reading(config, master, conf) as spark:
        ledger = open_ledger(config, spark)
        state, now = status_of(ledger), ledger.clock()
        standing = Standing.of(state.newest)
    logs = None
    if not offline:
        with connected(config) as cluster:
            logs = look(config, cluster.brokers, standing.positions).logs
    topics = loadrows.of_topics(standing, logs)
    summary = loadrows.of_status(state, now)
    if output == "json":
        click.echo(json.dumps({**summary, "topics": topics}, indent=2, sort_keys=True))
    else:
        write([{"what": name, "value": value} for name, value in summary.items()], ("what", "value"), output)
        click.echo()
        write(topics, loadrows.TOPIC, output)
    unit = config.spoken.offsets.unit if config.spoken is not None else "messages"
    alarms = loadrows.alarms(summary, topics, max_lag, max_age, max_plan_age, unit)
    if alarms:
        fail("; ".join(alarms), EXIT["exceeded"])


@load.command()
@job_argument
@click.option("--as-of", type=click.IntRange(0), metavar="BATCH", help="As readers saw it after this batch.")
@spark_options
@output_option
def files(job: Path, as_of: int | None, master: str | None, conf: dict[str, str], output: str) -> None:
    """List the files of the job: each row exactly once, also while a batch is being published.

    For readers that must not see half a batch, or half a rewind."""
    config = read_config(job)
    with reading(config, master, conf) as spark:
        rows = files_of(open_ledger(config, spark), as_of)
    write(
        [
            {"path": row.path, "rows": row.rows, "bytes": row.bytes, "batch": row.batch, "where": row.where}
            for row in rows
        ],
        ("path", "rows", "bytes", "batch", "where"),
        output,
    )


@load.command()
@job_argument
@click.option("--footers/--no-footers", default=True, show_default=True, help="Read the footer of every file, too.")
@spark_options
@output_option
def verify(job: Path, footers: bool, master: str | None, conf: dict[str, str], output: str) -> None:
    """Hold the disk against the manifests.  Ends with 4 when something is missing, too much, or different."""
    config = read_config(job)
    with reading(config, master, conf) as spark:
        verdict = verify_load(open_ledger(config, spark), spark, footers)
    write(
        [{"what": f.what, "file": f.file, "detail": f.detail} for f in verdict.findings],
        ("what", "file", "detail"),
        output,
    )
    tell(
        f"{counted(verdict.batches, 'batch', 'batches')}, {counted(verdict.files, 'file')}, "
        f"{counted(verdict.rows, 'row', form=',')}, {counted(verdict.bytes, 'byte', form=',')}"
    )
    if verdict.busy:
        tell("a driver is at work: files on their way may be among the findings")
    if not verdict.good:
        fail(f"{sum(not f.harmless for f in verdict.findings)} findings that matter", EXIT["partly"])
