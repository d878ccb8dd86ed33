"""Tasks of a query: ranges cut and packed by the options, with facts found by the driver.

taskplan.py decides.  This module finds its input: leaders, places where ranges of bytes can be cut, and average message
sizes, by a small fetch for each topic.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from kafkawire import kernels
from kafkawire.model import Broker, TopicPartition
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.boundaries import EntryBoundaries, cut_at_boundaries, offsets_are_bytes
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.readoptions import ReadOptions
from sparkpipeline.source.sourceoptions import Limits, SourceOptions, read_options
from sparkpipeline.source.taskplan import AVERAGE_BYTES, LEAST_BYTES, plan

MAX_SAMPLED_TOPICS = 20  # asked; the others are taken for their average
OVERHEAD = 26  # of an entry in format v0


class RangesPartition(InputPartition):
    """Input of one task, with facts found by the driver.

    ranges        read in this order
    access        the cluster, its release known: also where the driver had it from ZooKeeper
    plan_time_ms  when the query was planned: the timestamp of messages without, where timestampFallback says so
    """

    def __init__(self, ranges: Sequence[OffsetRange], access: ClusterAccess, plan_time_ms: int) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)
        self.access = access
        self.plan_time_ms = plan_time_ms


def partitions_of(ranges: Sequence[OffsetRange], options: SourceOptions, brokers: Brokers) -> list[RangesPartition]:
    """Return the tasks for these ranges of a batch or stream, cut and packed by the options.

    Raises NoLeader, UnknownPartition, Unreachable.
    """
    full = [rng for rng in ranges if rng.count > 0]
    leaders = brokers.leaders({rng.tp for rng in full})
    if options.ranges_per_task is not None:
        return _as_told(ranges, options.ranges_per_task, leaders, brokers.access)
    led = [replace(rng, leader=leaders[rng.tp]) for rng in full]
    limits = options.limits
    tasks = plan(
        led,
        min_partitions=limits.min_partitions,
        max_records=limits.max_records,
        max_bytes=limits.max_bytes,
        pack_bytes=limits.pack_bytes,
        cores=os.cpu_count() or 1,
        sizes=sample_sizes(led, brokers.access) if _sizes_matter(led, limits) else {},
        aligned=partial(cut_at_boundaries, border=EntryBoundaries.of(brokers, options.fetch_bytes))
        if offsets_are_bytes(brokers)
        else list,
    )
    now_ms = time.time_ns() // 1_000_000
    return [RangesPartition(task, brokers.access, now_ms) for task in tasks]


def _sizes_matter(ranges: Sequence[OffsetRange], limits: Limits) -> bool:
    """True if sizes matter: ranges that fit into one task anyway, as in many batches of a stream, are not worth a
    fetch."""
    much = sum(rng.count for rng in ranges) * AVERAGE_BYTES > LEAST_BYTES
    return limits.max_bytes is not None or (limits.pack_bytes > 0 and len(ranges) > 1 and much)


def _as_told(
    ranges: Sequence[OffsetRange],
    counts: Sequence[int],
    leaders: Mapping[TopicPartition, Broker],
    access: ClusterAccess,
) -> list[RangesPartition]:
    """Return tasks by rangesPerTask, including empty ranges, since its user counts by task numbers."""
    led = iter(replace(rng, leader=leaders.get(rng.tp)) for rng in ranges)
    now_ms = time.time_ns() // 1_000_000
    return [RangesPartition(list(islice(led, count)), access, now_ms) for count in counts]


def read_partition(partition: InputPartition, options: SourceOptions, columns: tuple[str, ...]) -> Iterator[Any]:
    """Yield the record batches of a task; nothing for the partition that Spark adds to an empty plan."""
    yield from read_ranges_of(partition, lambda ranges: read_options(options, columns, ranges.plan_time_ms))


def read_ranges_of(partition: InputPartition, options_of: Callable[[RangesPartition], ReadOptions]) -> Iterator[Any]:
    """Yield the record batches of a task, read with the options that options_of returns."""
    if isinstance(partition, RangesPartition):
        from sparkpipeline.reading.arrow import read_ranges  # imported here: the driver's planner does not need it

        if TaskContext.get() is not None:
            _WORKER.begin_task()
        yield from read_ranges(partition.ranges, partition.access, options_of(partition))


class _Worker:
    """State of this process as one of Spark's workers, which run task after task."""

    def __init__(self) -> None:
        self._frozen: bool | None = None  # with the compiled kernels, or without

    def begin_task(self) -> None:
        """Freeze imported objects for the garbage collector: once, and again when the kernels are loaded.

        PySpark collects garbage after each task, and looked at all of numba, pyarrow and pyspark (135,000 objects) each
        time: half of what a small task costs."""
        loaded = kernels.ready() is not None
        if self._frozen is None or loaded > self._frozen:
            gc.freeze()
            self._frozen = loaded


_WORKER = _Worker()


# ---- sizes of messages -----------------------------------------------------------------------------------------------


def sample_sizes(ranges: Sequence[OffsetRange], access: ClusterAccess) -> dict[TopicPartition, float]:
    """Return the average bytes per offset by partition, from the first messages of each topic's largest range.

    Where offsets are bytes there is nothing to measure.  Never raises: the task that reads a partition reports what is
    wrong with it.
    """
    offsets = access.spoken.offsets
    if not offsets.count_messages:
        return {rng.tp: offsets.log_bytes(AVERAGE_BYTES) for rng in ranges}
    largest: dict[str, OffsetRange] = {}
    for rng in ranges:
        if rng.count > 0 and (rng.topic not in largest or rng.count > largest[rng.topic].count):
            largest[rng.topic] = rng
    asked = sorted(largest.values(), key=lambda rng: -rng.count)[:MAX_SAMPLED_TOPICS]
    with Brokers(access, {rng.tp: rng.leader for rng in asked if rng.leader is not None}) as brokers:
        known = {rng.topic: size for rng in asked if (size := _size(brokers, rng)) is not None}
    others = sum(known.values()) / len(known) if known else AVERAGE_BYTES
    return {rng.tp: known.get(rng.topic, others) for rng in ranges}


def _size(brokers: Brokers, rng: OffsetRange) -> float | None:
    """Return the average bytes per offset; None if nothing can be read.

    Gaps count as offsets, because ranges are measured in offsets, too."""
    from sparkpipeline.reading.rangefetcher import first_columns  # imported here: only where something is measured

    columns = first_columns(brokers, rng)
    if columns is None:
        return None
    content = sum(max(size, 0) for column in (columns.key_size, columns.value_size) for size in column)
    offsets = columns.offsets[-1] - rng.start + 1
    return (content + OVERHEAD * len(columns)) / max(offsets, len(columns))
