"""Execution of a plan: lanes in parallel, the chunks of a lane one after the other, each as a Spark job.

A chunk is marked when all of it is acknowledged.  Messages of one source partition keep their order, and at most one
chunk of a lane can be half done when the driver dies.  A lane that fails stops; the others continue to their ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from groundwork.failpoints import failpoint
from kafkawire.compression import CODECS
from kafkawire.errors import LibraryMissing
from kafkawire.model import BrokerPartition, TopicPartition
from sparkpipeline.backfill.backfillplan import BackfillPlan, Chunk, Copied, Done, Lane
from sparkpipeline.backfill.chunkcopy import MAX_UNSTABLE_S, ChunkTask, copy_chunk
from sparkpipeline.backfill.clusters import Clusters
from sparkpipeline.backfill.folder import BackfillFolder
from sparkpipeline.backfill.stableends import stable_ends
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import KINDS, CodecMissing, PipelineError
from sparkpipeline.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class Failed:
    """PipelineError as returned by a task: Spark does not pass exceptions on intact."""

    code: str
    sentence: str
    coordinates: dict[str, Any]

    def error(self) -> PipelineError:
        return KINDS[self.code](self.sentence, **self.coordinates)


@dataclass(slots=True)
class CopyOutcome:
    """Result of a run. done: the newest mark of each lane; failures: why a lane stopped."""

    done: dict[int, Done] = field(default_factory=dict)
    failures: dict[int, Exception] = field(default_factory=dict)


class BackfillRun:
    """One run of a driver.

    copy     carries a task out somewhere; cancel ends all that are on their way
    on_mark  called with a lane and its newest mark, in any thread
    """

    def __init__(
        self,
        plan: BackfillPlan,
        state: BackfillFolder,
        sides: Clusters,
        *,
        copy: Callable[[ChunkTask], Copied],
        cancel: Callable[[], object] = lambda: None,
        on_mark: Callable[[Lane, Done], object] = lambda lane, done: None,
    ) -> None:
        self._plan, self._state, self._sides = plan, state, sides
        self._copy, self._cancel, self._on_mark = copy, cancel, on_mark
        self._outcome = CopyOutcome()
        self._stop = threading.Event()
        with Brokers(sides.target) as brokers:
            view = brokers.view()
        self._partitions = {lane.topic: len(view.partitions(lane.topic)) for lane in plan.lanes}

    def execute(self, who: str, parallel: int) -> CopyOutcome:
        """Copy all lanes to their ends, `parallel` at a time.

        Raises PipelineError if nothing could begin: another run is at work, or the target's logs keep moving.
        """
        self._outcome.done = self._state.last_done()
        done = self._outcome.done
        left = [
            lane for lane in self._plan.lanes
            if (lane.start if lane.number not in done else done[lane.number].until) < lane.until
        ]  # fmt: skip
        before = self._state.begin_run(who, _now_ms())
        if before and left:
            self._at_rest(left)
        failpoint("backfill before copy")
        with ThreadPoolExecutor(max(1, parallel), thread_name_prefix="lane") as pool:
            try:
                for future in [pool.submit(self._lane, lane) for lane in left]:
                    future.result()
            except BaseException:
                self._stop.set()
                self._cancel()
                raise
        return self._outcome

    def _chunks(self, lane: Lane) -> Iterator[Chunk]:
        """Yield the chunks without a mark."""
        done, size = self._outcome.done.get(lane.number), self._plan.request.chunk
        of_bytes = isinstance(lane.tp.partition, BrokerPartition)
        return lane.chunks(size, done, self._sides.boundary if of_bytes else None)

    def _at_rest(self, left: list[Lane]) -> None:
        """Wait until no request of an earlier run can still arrive."""
        if self._plan.request.shared:
            return  # others write there all the time
        tps = [lane.target_tp for lane in left]
        if self._plan.request.partitioning == "key":
            tps = [TopicPartition(topic, p) for topic in sorted({lane.topic for lane in left})
                   for p in range(self._partitions[topic])]  # fmt: skip
        with Brokers(self._sides.target) as brokers:
            stable_ends(brokers, tps, self._sides.producer.request_timeout_ms / 1000, MAX_UNSTABLE_S)

    def _lane(self, lane: Lane) -> None:
        try:
            for chunk in self._chunks(lane):
                if self._stop.is_set():
                    return
                copied = self._copy(self._task(lane, chunk))
                failpoint("backfill after copy")
                self._mark(lane, chunk, copied)
        except Exception as exc:
            self._outcome.failures[lane.number] = exc

    def _mark(self, lane: Lane, chunk: Chunk, copied: Copied) -> None:
        done = Done.after(self._outcome.done.get(lane.number), chunk, copied, _now_ms())
        self._state.put_done(done)
        self._outcome.done[lane.number] = done
        failpoint("backfill after mark")
        self._on_mark(lane, done)

    def _task(self, lane: Lane, chunk: Chunk) -> ChunkTask:
        request, before = self._plan.request, self._outcome.done.get(lane.number)
        return ChunkTask(
            rng=OffsetRange(lane.topic, lane.tp.partition, chunk.start, chunk.until),
            target_partition=lane.target,
            source=self._sides.source,
            target=self._sides.target,
            config=self._sides.producer,
            read=self._sides.read(_now_ms()),
            target_start=lane.target_start if before is None else before.target_until,
            is_stable=True,
            partitioner=self._sides.target_options.partitioner if request.partitioning == "key" else None,
            partitions=self._partitions[lane.topic],
            codec=CODECS[request.codec] if request.codec else None,
        )


def on_spark(spark: Any) -> Callable[[ChunkTask], Copied]:
    """Return a function that runs each task as a job of one task, from any thread.  It raises the task's
    PipelineError."""
    context = spark.sparkContext

    def copy(task: ChunkTask) -> Copied:
        [found] = context.parallelize([task], 1).map(handed_back).collect()
        if isinstance(found, Failed):
            raise found.error()
        copied: Copied = found
        return copied

    return copy


def handed_back(task: ChunkTask) -> Copied | Failed:
    """Run in a Spark task, and return the result.  Our errors are returned, so that Spark does not retry them; Spark
    retries after other errors."""
    from pyspark import TaskContext

    context = TaskContext.get()
    try:
        return copy_chunk(task, 0 if context is None else context.attemptNumber())
    except LibraryMissing as missing:
        where = {"topic": task.rng.topic, "partition": str(task.rng.partition)}
        return Failed(CodecMissing.code, f"{missing}; install it on every executor", where)
    except PipelineError as exc:
        return Failed(exc.code, exc.sentence, {name: _plain(value) for name, value in exc.coordinates.items()})


def _plain(value: object) -> object:
    return value if isinstance(value, int) else str(value)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
