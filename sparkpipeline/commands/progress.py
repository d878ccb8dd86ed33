"""Spark jobs on the terminal while they run: tasks, rows, MB/s, time left.  Silent where stderr is no terminal.

    progress = SparkProgress(spark)
    with progress.watch("batch 17: loading", tasks=8, rows=3_200_000, size=320 << 20):
        frame.write.parquet(..)

    batch 17: loading: 3/8 tasks, about 1,200,000 of 3,200,000 rows (37 %), 410,000 rows/s, 39.1 MB/s, 5 s left

Rows are reckoned from tasks that are done: Spark tells no more until they are.
"""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic as now
from typing import Any, TextIO

from groundwork.output import Progress

EVERY_S = 0.5


class SparkProgress:
    """Shows the jobs that a block starts, by a Spark job group of its own."""

    def __init__(self, spark: Any, out: TextIO | None = None) -> None:
        self._context = spark.sparkContext
        self._out = out if out is not None else sys.stderr

    @contextmanager
    def watch(self, what: str, tasks: int = 0, rows: int = 0, size: int = 0) -> Iterator[None]:
        """tasks: how many there will be (0: Spark says when they begin); rows and size (bytes): of all, 0 when unknown.
        Also names the jobs on Spark's own pages."""
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
            with suppress(Exception):  # of a JVM that is gone there is nothing to end
                self._context.cancelJobGroup(group)  # its tasks write where the clean-up deletes
            raise
        finally:
            ended.set()
            if follower.ident is not None:
                follower.join()
            with suppress(Exception):  # a JVM that is gone has no group; whatever comes next finds that out
                self._context.setLocalProperty("spark.jobGroup.id", None)
                self._context.setLocalProperty("spark.job.description", None)

    def _follow(self, group: str, what: str, tasks: int, rows: int, size: int, ended: threading.Event) -> None:
        began = now()
        with Progress(what, out=self._out) as shown:
            while not ended.wait(EVERY_S):
                done, known = self._tasks(group)
                shown.line(line(what, done, max(tasks, known), rows, size, now() - began))

    def _tasks(self, group: str) -> tuple[int, int]:
        """Tasks that are done, and all that are known, of the group's jobs."""
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


def line(what: str, done: int, tasks: int, rows: int, size: int, seconds: float) -> str:
    """What the terminal shows.  Pure."""
    text = f"{what}: {done}/{tasks} tasks" if tasks else what
    if not done or not tasks:
        return f"{text}, {seconds:,.0f} s"
    share = min(done / tasks, 1.0)
    if rows:
        text += f", about {int(rows * share):,} of {rows:,} rows ({100 * share:.0f} %)"
        text += f", {rows * share / seconds:,.0f} rows/s"
    if size:
        text += f", {size * share / seconds / 1e6:,.1f} MB/s"
    return f"{text}, {seconds / share - seconds:,.0f} s left"
