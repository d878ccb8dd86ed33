"""Readers of format("kafka08") for Spark: a batch, a batch by an exact plan, a stream.

Readers hold values only: they are pickled into every task.  A batch is planned once, on the driver.  Spark keeps one
stream reader in a process of the driver for as long as the query runs; what tasks read with is another one, made for
them.  A stream's offsets are Spark's own JSON, that of its kafka format, so that a checkpoint stays readable when a
cluster moves on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import coded
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.source.offsetbounds import by_topic, parse_offsets
from sparkpipeline.source.querycluster import access_of, brokers_of, group_offsets
from sparkpipeline.source.readtasks import RangesPartition, partitions_of, read_partition, read_ranges_of
from sparkpipeline.source.schema import columns_of
from sparkpipeline.source.sourceoptions import SourceOptions, checked_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from sparkpipeline.source.exactplan import ExactPlan
    from sparkpipeline.source.microbatches import MicroBatches

Json = dict[str, dict[str, int]]


# ---- batches ---------------------------------------------------------------------------------------------------------


class Kafka08Reader(DataSourceReader):
    """Reader of a batch.  It holds only values, because it is pickled into every task."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self.options = options
        self.columns = columns

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "options": self.options.for_tasks}

    @staticmethod
    def of(options: Mapping[str, str], schema: StructType) -> Kafka08Reader:
        """Make a reader.  Raises OptionRefused."""
        known = checked_options(options, streaming=False)
        ranges_given = known.offset_ranges is not None
        return Kafka08Reader(known, columns_of(schema, known.include_headers, ranges_given, known.by_broker))

    @coded
    def partitions(self) -> list[RangesPartition]:
        """Return the tasks.  Called once for each loaded DataFrame, so all queries on it read the same ranges."""
        with brokers_of(self.options, access_of(self.options)) as brokers:
            return partitions_of(self._ranges(brokers), self.options, brokers)

    def _ranges(self, brokers: Brokers) -> Sequence[OffsetRange]:
        """Return the ranges without storing anything here: Spark pickles this object and its partitions."""
        if self.options.offset_ranges is not None:
            return self.options.offset_ranges
        from sparkpipeline.source.resolver import resolve_batch

        found = resolve_batch(self.options, brokers, group_offsets(self.options, brokers.access))
        return [OffsetRange(tp.topic, tp.partition, start, until) for tp, start, until in found]

    @coded
    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self.options, self.columns)


class PlannedReader(DataSourceReader):
    """Reader of an ExactPlan.  Pickled into every task, without the ranges: each task has its own in its partition."""

    def __init__(self, plan: ExactPlan) -> None:
        self.plan = plan

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "plan": replace(self.plan, tasks=())}

    @coded
    def partitions(self) -> list[RangesPartition]:
        """Return the tasks as planned, including empty ranges.  Raises NoLeader, UnknownPartition, Unreachable."""
        plan, now_ms = self.plan, time.time_ns() // 1_000_000
        with Brokers(plan.access) as brokers:
            leaders = brokers.leaders({rng.tp for task in plan.tasks for rng in task if rng.count > 0})
        return [
            RangesPartition([replace(rng, leader=leaders.get(rng.tp)) for rng in task], plan.access, now_ms)
            for task in plan.tasks
        ]

    @coded
    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of a task; nothing for the partition that Spark adds to an empty plan."""
        return read_ranges_of(partition, lambda _: self.plan.read)


# ---- streams ---------------------------------------------------------------------------------------------------------


class Kafka08StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of a stream.  It holds only values until its first call, because it is pickled for the tasks."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Check the options.  Raises OptionRefused."""
        self.options = checked_options(options, streaming=True)
        self.columns = columns_of(schema, self.options.include_headers, False, self.options.by_broker)
        self._batches: MicroBatches | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "options": self.options.for_tasks}

    @coded
    def initialOffset(self) -> Json:
        return by_topic(self._micro_batches().start())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the progress of a query shows; latestOffset keeps to all limits of the options."""
        options = self.options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @coded
    def latestOffset(self, start: Json | None = None, limit: ReadLimit | None = None) -> Json:
        """Return the end of the batch that begins at `start`; `start` itself if there is nothing for a batch."""
        begin = self._micro_batches().start() if start is None else _offsets(start)
        everything = limit is None or isinstance(limit, ReadAllAvailable)
        return by_topic(self._micro_batches().ends(begin, everything))

    def reportLatestOffset(self) -> Json | None:
        """Return the ends of the logs as they were last seen: what a query's progress calls latestOffset."""
        latest = self._batches.latest if self._batches is not None else None
        return None if latest is None else by_topic(latest)

    @coded
    def prepareForTriggerAvailableNow(self) -> None:
        self._micro_batches().freeze()

    @coded
    def partitions(self, start: Json, end: Json) -> list[RangesPartition]:
        if start == end:
            return []
        batches = self._micro_batches()
        return partitions_of(batches.ranges(_offsets(start), _offsets(end)), self.options, batches.brokers)

    @coded
    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self.options, self.columns)

    def commit(self, end: Json) -> None:
        """Do nothing: it is called when the next batch is built, and never for the last one of AvailableNow."""

    def stop(self) -> None:
        if self._batches is not None:
            self._batches.close()

    def _micro_batches(self) -> MicroBatches:
        if self._batches is None:
            from sparkpipeline.source.microbatches import MicroBatches

            access = access_of(self.options)
            self._batches = MicroBatches(
                self.options, brokers_of(self.options, access), group_offsets(self.options, access)
            )
        return self._batches


def _offsets(text: Json) -> dict[Any, int]:
    return dict(parse_offsets(json.dumps(text), "checkpoint"))
