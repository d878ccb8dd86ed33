"""Cluster of a job for its driver: connections, messages to load, begins and ends of logs, and division of ranges into
tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from groundwork.javaregex import to_python
from kafkawire.cluster.view import ClusterView
from kafkawire.columns import Columns, as_list
from kafkawire.model import TopicPartition
from kafkawire.topicnames import INTERNAL_TOPICS
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.boundaries import EntryBoundaries, cut_at_boundaries, ends_at_boundaries, offsets_are_bytes
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.driver.brokeraddresses import find_access, registry_of
from sparkpipeline.driver.zkclient import zookeeper_of
from sparkpipeline.errors import NoLeader, UnknownPartition
from sparkpipeline.load.config import LoadConfig
from sparkpipeline.load.loadplan import LogBounds, Positions, in_order
from sparkpipeline.load.nextbatch import cut, limited, tasks_of
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.rangefetcher import first_columns
from sparkpipeline.source.taskplan import AVERAGE_BYTES


@dataclass(frozen=True, slots=True)
class Cluster:
    """zk: a started client, None without zookeeper.connect.  brokers: the driver's own links."""

    access: ClusterAccess
    brokers: Brokers
    zk: Any | None


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Messages to load. missing: partitions that were loaded before and do not exist any more."""

    logs: Mapping[TopicPartition, LogBounds]
    missing: tuple[TopicPartition, ...]


@contextmanager
def connected(config: LoadConfig) -> Iterator[Cluster]:
    """Yield the cluster, for the duration of a run.  Raises Unreachable, OptionRefused."""
    with ExitStack() as stack:
        zk = None if config.zookeeper_connect is None else stack.enter_context(zookeeper_of(config))
        registry = registry_of(config)
        access = find_access(
            config,
            config.socket_timeout_ms,
            brokers=() if registry is None else registry.brokers(),
            retries=config.retries,
            retry_interval_ms=config.retry_interval_ms,
            committed=config.committed,
        )
        yield Cluster(access, stack.enter_context(Brokers(access, leaders=registry)), zk)


def must_answer(config: LoadConfig) -> None:
    """Check that the cluster of a job answers, before Spark is started for it.  Raises Unreachable, OptionRefused."""
    with connected(config) as cluster:
        cluster.brokers.view(refresh=True)


def take_snapshot(config: LoadConfig, brokers: Brokers, positions: Positions) -> ClusterSnapshot:
    """Return the current begins and ends of the logs of the job's partitions. positions: the job's offsets.

    Raises UnknownPartition for a partition that the job names and never loaded, and that does not exist; NoLeader;
    Unreachable.
    """
    view = brokers.view(refresh=True)
    there, missing = chosen(config, view, positions)
    earliest = brokers.earliest(there) if there else {}
    latest = brokers.latest(there, positions) if there else {}
    return ClusterSnapshot({tp: LogBounds(earliest[tp], latest[tp]) for tp in there}, tuple(missing))


def chosen(
    config: LoadConfig, view: ClusterView, positions: Iterable[TopicPartition]
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Return the job's existing partitions, and those that were loaded and do not exist any more.  Pure."""
    loaded = set(positions)
    if config.partitions:
        wanted = set(config.partitions)
    else:
        topics = _topics(config, view)
        wanted = {TopicPartition(topic, p) for topic in topics for p in view.partitions(topic)}
        wanted |= {tp for tp in loaded if _is_of(config, tp.topic)}
        for topic in sorted(topics - {tp.topic for tp in wanted}):
            raise UnknownPartition("the cluster does not have the topic", topic=topic)
    there = {tp for tp in wanted if tp.partition in view.topics.get(tp.topic, {})}
    for tp in in_order(wanted - there):
        if tp.topic in view.errors:
            raise NoLeader(
                f"the cluster returns no partitions of the topic now (error {view.errors[tp.topic]})",
                topic=tp.topic, partition=tp.partition,
            )  # fmt: skip
        if tp not in loaded:
            raise UnknownPartition("the cluster does not have the partition", topic=tp.topic, partition=tp.partition)
    return in_order(there), in_order(wanted - there)


def _topics(config: LoadConfig, view: ClusterView) -> set[str]:
    if config.topics_pattern is None:
        return set(config.topics)
    pattern = to_python(config.topics_pattern)
    return {topic for topic in view.topics.keys() - INTERNAL_TOPICS if pattern.matches(topic)}


def _is_of(config: LoadConfig, topic: str) -> bool:
    """True if a topic that may be gone belongs to the job.  No pattern matches the brokers' internal topics."""
    if config.topics_pattern is None:
        return topic in config.topics
    return topic not in INTERNAL_TOPICS and to_python(config.topics_pattern).matches(topic)


def foreign_to(config: LoadConfig, tps: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return those of the partitions that the job's options do not choose, in order.  Pure."""
    found = set(tps)
    if config.partitions:
        return in_order(found - set(config.partitions))
    own = {topic for topic in {tp.topic for tp in found} if _is_of(config, topic)}
    return in_order(tp for tp in found if tp.topic not in own)


def sampled_averages(brokers: Brokers, ranges: Iterable[OffsetRange], cap_bytes: int) -> dict[str, float]:
    """Return the average message size of each topic, from the first messages of its largest range, for topics that were
    never loaded and whose first batch would depend on a guess.  Topics whose messages cannot be read are left out.

    cap_bytes: maximum size of a fetch."""
    largest: dict[str, OffsetRange] = {}
    for rng in () if offsets_are_bytes(brokers) else ranges:
        if rng.topic not in largest or rng.count > largest[rng.topic].count:
            largest[rng.topic] = rng
    sampled = {topic: first_columns(brokers, rng, cap_bytes) for topic, rng in largest.items()}
    return {topic: _average(columns) for topic, columns in sampled.items() if columns is not None}


def _average(columns: Columns) -> float:
    sizes = [max(0, n) for sizes in (columns.key_size, columns.value_size) for n in as_list(sizes)]
    return max(1.0, sum(sizes) / len(columns))


@dataclass(frozen=True, slots=True)
class TaskPlanner:
    """Planner of tasks: limits, cuts and packs ranges by nextbatch.py, with facts of the cluster.

    averages: bytes of a message by topic, as last loaded; cores: tasks that run at once.  Where offsets are bytes (0.7)
    they are the sizes themselves, and ranges can only be cut where entries begin: this is looked up.
    """

    config: LoadConfig
    brokers: Brokers
    averages: Mapping[str, float]
    cores: int

    @property
    def of_bytes(self) -> bool:
        """True if offsets are bytes."""
        return offsets_are_bytes(self.brokers)

    @property
    def borders(self) -> EntryBoundaries:
        """Return the boundaries at which ranges of bytes may be cut."""
        return EntryBoundaries.of(self.brokers, self.config.fetch_bytes)

    def size(self, ranges: Iterable[OffsetRange]) -> int:
        """Return the approximate bytes."""
        listed = list(ranges)
        weights = self._weights(listed)
        return sum(int(rng.count * weights.get(rng.topic, AVERAGE_BYTES)) for rng in listed)

    def limited(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return the ranges of a run, within limit.rows and limit.bytes.  Raises the exceptions of EntryBoundaries."""
        return self._within(ranges, self.config.limit_rows, self.config.limit_bytes)

    def bounded(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return the ranges of the next batch, within batch.rows and batch.bytes.  Raises the exceptions of
        EntryBoundaries."""
        return self._within(ranges, self.config.batch_rows, self.config.batch_bytes)

    def _within(self, ranges: Sequence[OffsetRange], rows: int | None, size: int | None) -> list[OffsetRange]:
        found = limited(ranges, rows, size, self._weights(ranges))
        if not self.of_bytes:
            return found
        begins, ends = {rng.tp: rng.start for rng in found}, {rng.tp: rng.until for rng in found}
        moved = ends_at_boundaries(begins, ends, {rng.tp: rng.until for rng in ranges}, self.borders)
        return [replace(rng, until=moved[rng.tp]) for rng in found]

    def cut_and_packed(self, ranges: Sequence[OffsetRange]) -> tuple[list[OffsetRange], list[int]]:
        """Return the ranges in the order of their tasks, and the number of ranges per task.  Raises the exceptions of
        EntryBoundaries."""
        weights = self._weights(ranges)
        pieces = cut(ranges, self.config.split_bytes, weights)
        if self.of_bytes:
            pieces = cut_at_boundaries(pieces, self.borders)
        return tasks_of(pieces, self.config.pack_bytes, weights, self.cores)

    def _weights(self, ranges: Iterable[OffsetRange]) -> Mapping[str, float]:
        """Return the bytes per offset by topic."""
        return {rng.topic: 1.0 for rng in ranges} if self.of_bytes else self.averages
