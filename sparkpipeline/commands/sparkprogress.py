"""Spark jobs on the terminal while they run: tasks, rows, MB/s, time left.  Silent if stderr is not a terminal.

    progress = SparkProgress(spark)
    with progress.watch("batch 17: loading", tasks=8, rows=3_200_000, size=320 << 20):
        frame.write.parquet(..)

    batch 7: loading: 3/8 tasks, 1,523,000 of 3,200,000 rows read (47 %), 410,000 rows/s, 39.1 MB/s, 4 s of reading left

Executors report the rows that a running task has read with their heartbeats (spark.executor.heartbeatInterval, 10 s).
Spark keeps them as a metric of the query, in its SQL status store: also where the web UI is off, and without the rows
of attempts that failed.  Until the first report, and where the store cannot be read, rows are estimated from finished
tasks:

    batch 17: loading: 3/8 tasks, about 1,200,000 of 3,200,000 rows (37 %), 410,000 rows/s, 39.1 MB/s, 5 s left
"""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic as now
from typing import Any, TextIO

from groundwork.output import Progress

EVERY_S = 0.5
SCANS = ("BatchScan", "Scan ")  # prefixes of the names of a plan's nodes that read Kafka, or files
ROWS = "number of output rows"


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Rows that running and finished tasks have read.  rows: 0 while no executor has reported any; at_s: seconds from
    the start to the report that changed the number last."""

    rows: int = 0
    at_s: float = 0.0


class SparkProgress:
    """Display of the jobs that a block starts, in a separate Spark job group."""

    def __init__(self, spark: Any, out: TextIO | None = None) -> None:
        self._spark = spark
        self._context = spark.sparkContext
        self._out = out if out is not None else sys.stderr
        self._readable = True  # whether the SQL status store has the rows read by tasks

    @contextmanager
    def watch(self, what: str, tasks: int = 0, rows: int = 0, size: int = 0) -> Iterator[None]:
        """Show the jobs of the block, and name them on Spark's own pages. tasks: their number (0: Spark reports it);
        rows and size (bytes): totals, 0 if unknown."""
        group = f"sparkpipeline-{uuid.uuid4().hex}"
        self._context.setJobGroup(group, what)
        ended = threading.Event()
        follower = threading.Thread(
            target=self._follow, args=(group, what, tasks, rows, size, ended), name="progress", daemon=True
        )
        if self._out.isatty():
            follower.start()
        try:
            yield
        except KeyboardInterrupt:
            with suppress(Exception):  # if the JVM is gone there is nothing to end
                self._context.cancelJobGroup(group)  # its tasks write where the clean-up deletes
            raise
        finally:
            ended.set()
            if follower.ident is not None:
                follower.join()
            with suppress(Exception):  # if the JVM is gone there is no group; the next call finds out
                self._context.setLocalProperty("spark.jobGroup.id", None)
                self._context.setLocalProperty("spark.job.description", None)

    def _follow(self, group: str, what: str, tasks: int, rows: int, size: int, ended: threading.Event) -> None:
        began, read = now(), RowsRead()
        with Progress(what, out=self._out) as shown:
            while not ended.wait(EVERY_S):
                done, known = self._tasks(group)
                count, seconds = self._rows_read(group, shown), now() - began
                if count is not None and count != read.rows:
                    read = RowsRead(count, seconds)
                told = None if count is None else read
                shown.line(line(what, done, max(tasks, known), rows=rows, size=size, seconds=seconds, read=told))

    def _tasks(self, group: str) -> tuple[int, int]:
        """Return the finished tasks and all known tasks of the group's jobs."""
        tracker = self._context.statusTracker()
        done = known = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage_id in info.stageIds if info is not None else ():
                stage = tracker.getStageInfo(stage_id)
                if stage is not None:
                    done += stage.numCompletedTasks
                    known += stage.numTasks
        return done, known

    def _rows_read(self, group: str, shown: Progress) -> int | None:
        """Return the rows that the tasks of the group's jobs have read, or None if Spark's status store cannot be read.

        The store is not a public interface of Spark: an error in it is reported once, and ignored."""
        if not self._readable:
            return None
        try:
            jobs = self._context.statusTracker().getJobIdsForGroup(group)
            store = self._context._jsc.sc().statusStore()
            queries = [store.jobWithAssociatedSql(job)._2() for job in jobs]
            return sum(self._query_rows(query) for query in {one.get() for one in queries if one.isDefined()})
        except Exception as exc:
            self._readable = False
            shown.close()
            with suppress(OSError):  # a closed terminal must not end the work
                self._out.write(f"Spark does not report what running tasks have read ({type(exc).__name__}): rows are"
                                " estimated from finished tasks\n")  # fmt: skip
            return None

    def _query_rows(self, query: int) -> int:
        """Return the rows that the scans of a query have read: 0 until an executor has reported any."""
        store = self._spark._jsparkSession.sharedState().statusStore()
        values = store.executionMetrics(query)
        rows = 0
        for node in _each(store.planGraph(query).allNodes()):
            if node.name().startswith(SCANS):
                found = [values.get(one.accumulatorId()) for one in _each(node.metrics()) if one.name() == ROWS]
                rows += sum(int(value.get().replace(",", "")) for value in found if value.isDefined())
        return rows


def _each(items: Any) -> Iterator[Any]:
    """Yield the items of a Seq of Scala."""
    return (items.apply(index) for index in range(items.size()))


def line(what: str, done: int, tasks: int, rows: int, size: int, seconds: float, read: RowsRead | None = None) -> str:
    """Return the text for the terminal.  read: None if Spark cannot say what running tasks have read.  Pure."""
    text = f"{what}: {done}/{tasks} tasks" if tasks else what
    if read is not None and read.rows > 0 and rows:
        share, rate = min(read.rows / rows, 1.0), read.rows / read.at_s
        text += f", {read.rows:,} of {rows:,} rows read ({int(100 * share)} %), {rate:,.0f} rows/s"
        if size:
            text += f", {size * share / read.at_s / 1e6:,.1f} MB/s"
        left = (rows - read.rows) / rate - (seconds - read.at_s)
        return f"{text}, {max(left, 0):,.0f} s of reading left" if share < 1 else f"{text}, tasks are finishing"
    if read is not None and read.rows > 0:  # offsets of 0.7 are bytes, so the number of rows is unknown
        text += f", {read.rows:,} rows read, {read.rows / read.at_s:,.0f} rows/s"
    if not done or not tasks:
        unknown = ", no rows reported yet" if rows and read is not None else ""
        return f"{text}{unknown}, {seconds:,.0f} s"
    share = min(done / tasks, 1.0)
    if rows:
        text += f", about {int(rows * share):,} of {rows:,} rows ({100 * share:.0f} %)"
        text += f", {rows * share / seconds:,.0f} rows/s"
    if size:
        text += f", {size * share / seconds / 1e6:,.1f} MB/s"
    return f"{text}, {seconds / share - seconds:,.0f} s left"
