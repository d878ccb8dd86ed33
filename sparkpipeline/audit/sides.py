"""The two clusters of an audit as the driver reaches them, and what it reads of each."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafkawire.cluster.view import ClusterView
from kafkawire.model import TopicPartition
from sparkpipeline.access import ClusterAccess
from sparkpipeline.audit.bounds import Limit, Ranges, ranges_of
from sparkpipeline.audit.counting import Reading
from sparkpipeline.audit.matching import SOURCE, TARGET
from sparkpipeline.brokers import Brokers
from sparkpipeline.errors import OptionRefused, UnknownPartition
from sparkpipeline.source.cluster import access_of
from sparkpipeline.source.options import SourceOptions, read_options

BY_BROKER = (
    "an audit compares partitions and offsets that both sides have, and those of Kafka 0.7 are its own; compare counts"
    " and values of two loads in SQL instead"
)
ELSEWHERE = (  # what options of reading say that an audit is told otherwise, or that makes no sense in one
    "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp", "offsetRanges", "assign",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster: how it is read, and how it is reached."""

    options: SourceOptions
    access: ClusterAccess

    @staticmethod
    def of(options: Mapping[str, str]) -> Side:
        """From options of format kafka08.  Raises OptionRefused, Unreachable, Refused."""
        refuse_told_elsewhere(options)
        known = SourceOptions.of(options, streaming=False)
        refuse_by_broker(known)
        return Side(known, access_of(known))


def refuse_told_elsewhere(options: Mapping[str, str]) -> None:
    """Raises OptionRefused for an option of reading that says what is compared."""
    lower = {name.lower() for name in options}
    wrong = [name for name in ELSEWHERE if name.lower() in lower]
    if wrong:
        raise OptionRefused("an audit is told by --topics, --from and --to what it compares", option=wrong[0])


def refuse_by_broker(options: SourceOptions) -> None:
    """Raises OptionRefused for a cluster whose partitions belong to brokers: no other has such, nor such offsets."""
    if options.by_broker:
        raise OptionRefused(BY_BROKER, option="protocol")


def must_answer(options: Mapping[str, str]) -> None:
    """Ask the cluster that these options of format kafka08 name, before Spark is started for it.

    Raises OptionRefused, Unreachable, Refused."""
    refuse_told_elsewhere(options)
    known = SourceOptions.of({**options, "subscribe": "-"}, streaming=False)  # no topic is asked for by name
    refuse_by_broker(known)
    with Brokers(access_of(known)) as brokers:
        brokers.view()


def reading(sides: Mapping[str, Side]) -> Reading:
    """How tasks read them."""
    now_ms = time.time_ns() // 1_000_000
    options = {name: read_options(side.options, (), now_ms) for name, side in sides.items()}
    return Reading({name: side.access for name, side in sides.items()}, options)


@dataclass(frozen=True, slots=True)
class Look:
    """What there is to compare now: ranges by side, and topics that the target does not have."""

    ranges: Mapping[str, Ranges]
    missing: tuple[str, ...]

    @property
    def offsets(self) -> int:
        return sum(until - start for found in self.ranges.values() for start, until in found.bounds.values())


def look(sides: Mapping[str, Side], limits: Mapping[str, tuple[Limit, Limit]]) -> Look:
    """Ask both clusters, the target first: what comes in meanwhile is in the source then, and at most not yet in the
    target.  Raises UnknownPartition for a topic that the source has not, OffsetOutOfRange, OptionRefused, and what
    Brokers raise."""
    with Brokers(sides[SOURCE].access) as ours, Brokers(sides[TARGET].access) as theirs:
        if all(limit.offsets is None for limit in limits[TARGET]):
            _two_clusters(ours.view(), theirs.view())
        wanted = sides[SOURCE].options.subscription.partitions(ours.view())
        if not wanted:
            raise UnknownPartition(f"the source has no {sides[SOURCE].options.subscription}")
        topics = sorted({tp.topic for tp in wanted})
        there = partitions_of(theirs, topics)
        target = ranges_of(theirs, there, *limits[TARGET], TARGET)
        source = ranges_of(ours, wanted, *limits[SOURCE], SOURCE)
    missing = sorted({*topics} - {tp.topic for tp in there})
    return Look({SOURCE: source, TARGET: target}, tuple(missing))


def _two_clusters(source: ClusterView, target: ClusterView) -> None:
    """A cluster is always equal to itself: who asks that meant something else."""
    both = {(b.host, b.port) for b in source.brokers.values()} & {(b.host, b.port) for b in target.brokers.values()}
    if both:
        host, port = min(both)
        raise OptionRefused(f"source and target are one cluster: {host}:{port} is a broker of both", option="--target")


def partitions_of(brokers: Brokers, topics: Collection[str]) -> list[TopicPartition]:
    """Every partition of these topics that the cluster has."""
    view = brokers.view()
    return sorted(TopicPartition(topic, p) for topic in topics for p in view.topics.get(topic, {}))
