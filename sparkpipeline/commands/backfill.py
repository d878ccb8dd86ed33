"""`sparkpipeline backfill`: copies topic ranges of one cluster into another, and sets the offsets of a group at the
end."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from groundwork.commands import Command, execute_option, go_ahead, output_option
from groundwork.output import EXIT, Progress, fail, write
from groundwork.sentences import counted
from kafkawire.dialects import dialect
from sparkpipeline.backfill.backfilljob import Backfill, bound
from sparkpipeline.backfill.backfillplan import BYTES_OF_07, Done, Lane, Request
from sparkpipeline.cluster.access import AUTO, release_or_auto
from sparkpipeline.commands.common import (
    report_option,
    session,
    side_of,
    side_options,
    spark_options,
    tell,
    whole_name,
    write_report,
)
from sparkpipeline.errors import EXIT_OF, PipelineError
from sparkpipeline.ledger.base import needs_spark, normal_base, open_files

COLUMNS = ("topic", "partition", "start", "until", "copied_to", "messages", "bytes", "kept", "may_repeat",
           "target_partition", "target_start", "target_until", "state")  # fmt: skip


@click.command(
    cls=Command,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=[
        "sparkpipeline backfill backfills/orders --source-zookeeper old:2181 --target-brokers new:9092 --topics orders",
        "sparkpipeline backfill backfills/orders --execute  # as planned; again after a crash",
        "sparkpipeline backfill hdfs://namenode/backfills/orders --report last.json --execute",
    ],
)
@click.argument("folder")
@side_options("source", "copied from", "Its ZooKeeper: instead, and for --group.")
@side_options("target", "copied to")
@click.option("--topics", metavar="A,B,…", help="What is copied: topics ..")
@click.option("--topics-pattern", metavar="REGEX", help=".. or those whose whole name a Java pattern matches ..")
@click.option("--partitions", metavar="JSON", help='.. or {"orders":[0,1]}.')
@click.option("--start", metavar="WHERE", help="earliest (the default), group, or Spark's offset JSON.")
@click.option("--until", metavar="WHERE", help="latest at the time of the plan (the default), or Spark's offset JSON.")
@click.option("--partitioning", type=click.Choice(("identity", "key")), help="identity (the default): the same number.")
@click.option("--partitioner", type=click.Choice(("default", "byte-array", "murmur2")), help="Rule for key.")
@click.option("--shared", is_flag=True, help="Others write the target partitions too: at least once, not exactly.")
@click.option("--codec", metavar="NAME", help="Of the target: none, gzip, snappy, lz4; as the source has it.")
@click.option("--chunk", type=click.IntRange(min=1), help="Offsets between two marks; 500000, of 0.7 64 MiB.")
@click.option("--group", metavar="GROUP", help="The mirror's group: its positions are written at the end.")
@click.option("--offsets-storage", type=click.Choice(("zookeeper", "kafka", "dual")), help="Where it keeps them.")
@click.option("--tasks", type=click.IntRange(min=1), help="Partitions copied at a time; as many as Spark has cores.")
@spark_options
@execute_option
@output_option()
@report_option
def backfill(folder: str, master: str | None, conf: dict[str, str], execute: bool, output: str, report: Path | None,
             tasks: int | None, **asked: Any) -> int:  # fmt: skip
    """Copy topic ranges of one cluster into another.

    With Spark, restartable; then the mirror takes over.

    FOLDER (of this machine, hdfs:// or s3a://) stores the plan and the progress: after a crash the same command, or
    FOLDER alone, continues.
    """
    began = time.monotonic()
    base = normal_base(folder)
    request, secrets = _request(asked)
    with ExitStack() as stack:
        spark: Any = None
        if needs_spark(base):
            spark = stack.enter_context(session("sparkpipeline backfill", master, conf))
        job = Backfill.open(open_files(base, spark), base, request, secrets)
        _show(job, output)
        if job.is_over:
            tell(f"nothing is left to do{'' if job.handed_over is None else f': handed over at {job.handed_over}'}")
            _report(job, {}, 0.0, report)
            return EXIT["done"]
        if not go_ahead(execute, _what(job)):
            return EXIT["done"]
        if spark is None:
            spark = stack.enter_context(session("sparkpipeline backfill", master, conf))
        parallel = tasks or int(spark.sparkContext.defaultParallelism)
        _tell_bound(job, parallel)
        shown = Shown(job)
        try:
            outcome = job.execute(spark, parallel, shown.marked)
        finally:
            shown.close()
        failures = {lane.number: outcome.failures[lane.number] for lane in job.left if lane.number in outcome.failures}
        if not failures and job.hand_over():
            tell(f"group {job.plan.request.group} is at the ends of all ranges: the mirror can be started")
    seconds = time.monotonic() - began
    _report(job, failures, seconds, report)
    return _end(job, failures, seconds, output)


# ---- the request -----------------------------------------------------------------------------------------------------


def _request(asked: dict[str, Any]) -> tuple[Request | None, Request]:
    """Return the request (None: only the folder is named), and all given options, for secrets and their clusters."""
    pattern = asked["topics_pattern"]
    read = {
        "subscribe": asked["topics"],
        "subscribePattern": None if pattern is None else whole_name(pattern),
        "assign": asked["partitions"],
        "startingOffsets": asked["start"],
        "endingOffsets": asked["until"],
    }
    source = side_of("source", asked, read)
    target = side_of("target", asked, {"partitioner": asked["partitioner"]})
    without_zookeeper = asked["group"] is not None and asked["source_zookeeper"] is None
    storage = asked["offsets_storage"] or ("kafka" if without_zookeeper else "zookeeper")
    if source.get("startingOffsets") == "group" and asked["group"] is not None:
        source |= {"kafka.group.id": asked["group"], "kafka.offsets.storage": storage}
    given = Request(
        source=source,
        target=target,
        partitioning=asked["partitioning"] or "identity",
        shared=asked["shared"],
        codec=asked["codec"] or "",
        chunk=asked["chunk"] or (BYTES_OF_07 if _of_07(source) else 500_000),
        group=asked["group"],
        storage=storage,
    )
    only_reached = given.without_connections() == Request(source={}, target={})
    if not only_reached:
        target.setdefault("kafka.request.timeout.ms", "10000")  # a run after a crash waits that long
    return (None if only_reached else given), given


def _of_07(source: dict[str, str]) -> bool:
    """True if offsets of the source are bytes."""
    try:
        release = release_or_auto(source.get("protocol", AUTO))
    except ValueError:
        return False  # checked_options() refuses it
    return release != AUTO and not dialect(release).offsets.count_messages


# ---- output ----------------------------------------------------------------------------------------------------------


class Shown:
    """Progress on the terminal; called from several threads."""

    def __init__(self, job: Backfill) -> None:
        self._lock = threading.Lock()
        self._bytes = 0
        self._before = {number: done.total_bytes for number, done in job.done.items()}
        self._reached = {lane.number: lane.start for lane in job.plan.lanes}
        self._reached |= {number: done.until for number, done in job.done.items()}
        self._first = sum(self._reached.values())
        self._total = sum(lane.until for lane in job.plan.lanes) - self._first
        self._began = time.monotonic()
        self._progress = Progress("backfill", self._total)

    def marked(self, lane: Lane, done: Done) -> None:
        """Show that a chunk is done."""
        with self._lock:
            self._bytes += done.total_bytes - self._before.get(lane.number, 0)
            self._before[lane.number] = done.total_bytes
            self._reached[lane.number] = done.until
            copied = sum(self._reached.values()) - self._first
            seconds = max(time.monotonic() - self._began, 1e-3)
            left_s = (self._total - copied) * seconds / max(copied, 1)
            note = f"{self._bytes / seconds / 1e6:.1f} MB/s, {left_s:,.0f} s left"
            self._progress.update(copied, f"{note}; {lane.tp} at {done.until}")

    def close(self) -> None:
        self._progress.close()


def _show(job: Backfill, output: str) -> None:
    write(_rows(job, {}), COLUMNS, output)
    request = job.plan.request
    kept = "the partition is kept" if job.sides.source.spoken.offsets.count_messages else "each has one of the target"
    how = kept if request.partitioning == "identity" else "the partition is chosen by key"
    tell(f"at most {_amount(job, job.plan.count)} in {counted(len(job.plan.lanes), 'partition')}; {how}")
    if request.exclusive:
        tell("no other program may write these partitions of the target; then nothing is repeated, even after a crash")
    if request.group is not None and job.handed_over is None:
        tell(
            f"at the end group {request.group} ({request.storage}) is set to the end of each range: start its mirror"
            " after that, not before"
        )


def _tell_bound(job: Backfill, parallel: int) -> None:
    request = job.plan.request
    if request.exclusive:
        return
    repeated = _amount(job, bound(job.plan, parallel))
    tell(
        f"at least once: a crash (of this command, of executors) repeats at most {repeated}"
        f" (a chunk for each of {parallel} tasks), a lost connection the messages in flight on it"
    )
    left = job.may_repeat()
    if left:
        tell(f"an earlier run did not finish: at most {_amount(job, left)} of it is repeated now")


def _what(job: Backfill) -> str:
    group = job.plan.request.group
    then = [f"hand over to group {group}"] if group is not None else []
    copy = [f"copy at most {_amount(job, job.count_left)}"] if job.left else []
    return " and ".join(copy + then)


def _amount(job: Backfill, distance: int) -> str:
    """Return a difference of source offsets in words: 1,000 messages; bytes for 0.7."""
    return counted(distance, job.sides.source.spoken.offsets.unit.removesuffix("s"), form=",")


def _rows(job: Backfill, failures: dict[int, Exception]) -> list[dict[str, Any]]:
    left = {lane.number for lane in job.left}
    return [
        _row(
            lane,
            job.done.get(lane.number),
            lane.number in left,
            lane.number in failures,
            by_key=job.plan.request.partitioning == "key",
        )
        for lane in job.plan.lanes
    ]


def _row(lane: Lane, done: Done | None, is_left: bool, has_failed: bool, *, by_key: bool) -> dict[str, Any]:
    state = "failed" if has_failed else "done" if not is_left else "planned" if done is None else "begun"
    return {
        "topic": lane.topic, "partition": lane.partition, "start": lane.start, "until": lane.until,
        "copied_to": lane.start if done is None else done.until,
        "messages": done.total_messages if done else 0, "bytes": done.total_bytes if done else 0,
        "kept": done.total_kept if done else 0, "may_repeat": done.total_may_repeat if done else 0,
        "target_partition": None if by_key else lane.target_tp.partition,
        "target_start": lane.target_start, "target_until": done.target_until if done else lane.target_start,
        "state": state,
    }  # fmt: skip


def _report(job: Backfill, failures: dict[int, Exception], seconds: float, report: Path | None) -> None:
    rows, request = _rows(job, failures), job.plan.request
    write_report(report, {
        "folder": job.state.folder, "partitions": rows, "seconds": seconds,
        "messages": sum(row["messages"] for row in rows), "bytes": sum(row["bytes"] for row in rows),
        "may_repeat": sum(row["may_repeat"] for row in rows), "handed_over": job.handed_over,
        "request": {"partitioning": request.partitioning, "shared": request.shared, "group": request.group,
                    "storage": request.storage},
        "failures": [str(exc) for exc in failures.values()],
    })  # fmt: skip


def _end(job: Backfill, failures: dict[int, Exception], seconds: float, output: str) -> int:
    rows = _rows(job, failures)
    write(rows, COLUMNS, output)
    messages, size = sum(row["messages"] for row in rows), sum(row["bytes"] for row in rows)
    tell(f"{counted(messages, 'message', form=',')}, {size / 1e6:,.1f} MB, copied; this run took {seconds:,.1f} s")
    if not failures:
        return EXIT["done"]
    first, *others = failures.values()
    for exc in others:
        tell(f"error: {exc}")
    if not isinstance(first, PipelineError):
        raise first
    all_failed = len(failures) == len(job.plan.lanes)
    return fail(str(first), EXIT[EXIT_OF[first.code]] if all_failed else EXIT["partly"])
