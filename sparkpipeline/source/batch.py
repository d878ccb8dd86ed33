"""A batch over topics: planned once on the driver, read by tasks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkawire.model import Broker, TopicPartition
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.boundaries import Borders, cut_at_borders, needs_borders
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.source.cluster import access_of, brokers_of, group_positions
from sparkpipeline.source.optionrules import checked_options
from sparkpipeline.source.options import Limits, SourceOptions, read_options
from sparkpipeline.source.planning import AVERAGE_BYTES, LEAST_BYTES, plan
from sparkpipeline.source.schema import columns_of
from sparkpipeline.source.sizes import sampled

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from sparkpipeline.source.exactplan import ExactPlan


class RangesPartition(InputPartition):
    """What one task reads, and what the driver found out for it.

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
    """The tasks that read these ranges: cut and packed as the options say.  Also a stream's.

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
        sizes=sampled(led, brokers.access) if _sizes_matter(led, limits) else {},
        aligned=partial(cut_at_borders, border=Borders.of(brokers, options.fetch_bytes))
        if needs_borders(brokers)
        else list,
    )
    now_ms = time.time_ns() // 1_000_000
    return [RangesPartition(task, brokers.access, now_ms) for task in tasks]


def _sizes_matter(ranges: Sequence[OffsetRange], limits: Limits) -> bool:
    """So little that it is one task anyway is not worth a fetch; a stream's batches are often that small."""
    much = sum(rng.count for rng in ranges) * AVERAGE_BYTES > LEAST_BYTES
    return limits.max_bytes is not None or (limits.pack_bytes > 0 and len(ranges) > 1 and much)


def _as_told(
    ranges: Sequence[OffsetRange],
    counts: Sequence[int],
    leaders: Mapping[TopicPartition, Broker],
    access: ClusterAccess,
) -> list[RangesPartition]:
    """Task by task as rangesPerTask says, empty ranges too: whoever says it goes by the numbers of tasks."""
    led = iter(replace(rng, leader=leaders.get(rng.tp)) for rng in ranges)
    now_ms = time.time_ns() // 1_000_000
    return [RangesPartition(list(islice(led, count)), access, now_ms) for count in counts]


def read_partition(partition: InputPartition, options: SourceOptions, columns: tuple[str, ...]) -> Iterator[Any]:
    """The record batches of a task; nothing for the partition that Spark makes up where a plan is empty."""
    if isinstance(partition, RangesPartition):
        from sparkpipeline.reading.arrow import read_ranges  # here: the driver's planner needs none of it

        told = read_options(options, columns, partition.plan_time_ms)
        yield from read_ranges(partition.ranges, partition.access, told)


class Kafka08Reader(DataSourceReader):
    """Holds values only: it is pickled into every task."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self.options = options
        self.columns = columns

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "options": self.options.for_tasks}

    @staticmethod
    def of(options: Mapping[str, str], schema: StructType) -> Kafka08Reader:
        """Raises OptionRefused."""
        known = checked_options(options, streaming=False)
        ranges_given = known.offset_ranges is not None
        return Kafka08Reader(known, columns_of(schema, known.include_headers, ranges_given, known.by_broker))

    def partitions(self) -> list[RangesPartition]:
        """Asked once for each DataFrame that is loaded: what is made of it all reads the same ranges."""
        with brokers_of(self.options, access_of(self.options)) as brokers:
            return partitions_of(self._ranges(brokers), self.options, brokers)

    def _ranges(self, brokers: Brokers) -> Sequence[OffsetRange]:
        """Spark pickles this object and its partitions, so that nothing found here stays in it."""
        if self.options.offset_ranges is not None:
            return self.options.offset_ranges
        from sparkpipeline.source.resolver import resolve_batch

        found = resolve_batch(self.options, brokers, group_positions(self.options, brokers.access))
        return [OffsetRange(tp.topic, tp.partition, start, until) for tp, start, until in found]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self.options, self.columns)


class PlannedReader(DataSourceReader):
    """Reads an ExactPlan.  Pickled into every task, without the ranges: each task has its own in its partition."""

    def __init__(self, plan: ExactPlan) -> None:
        self.plan = plan

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "plan": replace(self.plan, tasks=())}

    def partitions(self) -> list[RangesPartition]:
        """Task by task as planned, empty ranges too.  Raises NoLeader, UnknownPartition, Unreachable."""
        plan, now_ms = self.plan, time.time_ns() // 1_000_000
        with Brokers(plan.access) as brokers:
            leaders = brokers.leaders({rng.tp for task in plan.tasks for rng in task if rng.count > 0})
        return [
            RangesPartition([replace(rng, leader=leaders.get(rng.tp)) for rng in task], plan.access, now_ms)
            for task in plan.tasks
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a task; nothing for the partition that Spark makes up where a plan is empty."""
        if isinstance(partition, RangesPartition):
            from sparkpipeline.reading.arrow import read_ranges

            yield from read_ranges(partition.ranges, partition.access, self.plan.read)
