"""Clusters of an audit for the driver, and the offsets to read from each.  Needs no Spark."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from groundwork.jsontext import json_value
from groundwork.sentences import iso_ms
from kafkawire.model import TopicPartition
from kafkawire.unmatched import SOURCE, TARGET
from sparkpipeline.audit.audittasks import Reading
from sparkpipeline.audit.windows import Windows
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.boundaries import EntryBoundaries, cut_at_boundaries
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import OffsetOutOfRange, OptionRefused, UnknownPartition
from sparkpipeline.ranges import OffsetRange, partition_of
from sparkpipeline.source.offsetbounds import in_order
from sparkpipeline.source.querycluster import access_of, brokers_of, must_differ
from sparkpipeline.source.sourceoptions import SourceOptions, checked_options, read_options

NO_TIMES = "messages of Kafka 0.7 have no time: give offsets of both sides, or leave it out"
ELSEWHERE = (  # options of reading that an audit sets itself, or that make no sense in one
    "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp", "offsetRanges", "assign",
)  # fmt: skip
Offsets = Mapping[TopicPartition, int]


# ---- from where to where ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limit:
    """One end of the comparison: a time, or offsets of one side; with neither, the end of the log."""

    time_ms: int | None = None
    offsets: Offsets | None = None


def parse_limit(text: str | None, option: str) -> Limit:
    """Parse a limit: an ISO time, JSON offsets {"topic": {"0": 17}}, or None.  Raises OptionRefused."""
    if text is None:
        return Limit()
    time_ms = iso_ms(text)
    if time_ms is not None:
        return Limit(time_ms=time_ms)
    try:
        found = json_value(text)
        offsets = {
            TopicPartition(topic, partition_of(partition)): offset
            for topic, partitions in found.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError):
        offsets = {}
    numbers = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in offsets.values())
    if not offsets or not numbers:
        raise OptionRefused(
            f'{text!r} is neither a time (2026-01-31T10:00Z) nor offsets ({{"topic": {{"0": 17}}}}, of 0.7 by broker'
            ' and index: {"topic": {"0-0": 17}})',
            option=option,
        )
    return Limit(offsets=offsets)


def check_limits(start: Limit, until: Limit, target_start: Limit, target_until: Limit) -> None:
    """Raise OptionRefused unless both sides have offsets, or neither: the same message has different offsets."""
    for ours, theirs, end in ((start, target_start, "from"), (until, target_until, "to")):
        if (ours.offsets is None) != (theirs.offsets is None):
            given, other = (f"--{end}", f"--target-{end}")
            if ours.offsets is None:
                given, other = other, given
            raise OptionRefused(f"{given} names offsets of one cluster: {other} has to name the other's", option=end)
        if theirs.time_ms is not None:
            raise OptionRefused(f"--{end} takes the time, which is the same for both", option=f"target-{end}")


def windows_of(kind: str, start: Limit, until: Limit, *, by_broker: bool = False) -> Windows:
    """Return the windows of the first pass.

    by_broker: one side is 0.7, whose messages have no time, so the times of the other side are ignored.  Raises
    OptionRefused for a time bound with windows of offsets."""
    timed = start.time_ms is not None or until.time_ms is not None
    if timed and kind == "blocks":
        raise OptionRefused("windows are blocks of offsets, and --from or --to is a time", option="window")
    return Windows(kind != "blocks" and not by_broker, 0, start.time_ms, until.time_ms)


# ---- a cluster -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster: options for reading it, and access to its brokers."""

    options: SourceOptions
    access: ClusterAccess

    @staticmethod
    def of(options: Mapping[str, str]) -> Side:
        """Make it from options of format kafka08.  Raises OptionRefused, Unreachable, Refused."""
        refuse_told_elsewhere(options)
        known = checked_options(options, streaming=False)
        return Side(known, access_of(known))

    @property
    def by_broker(self) -> bool:
        """True if its partitions belong to brokers (0.7): the other cluster has other partitions and offsets."""
        return self.options.by_broker

    def links(self) -> Brokers:
        """Return the driver's links to it; the caller closes them."""
        return brokers_of(self.options, self.access)

    def whole_entries(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return the ranges with their cuts moved to where entries begin, for offsets that are bytes.  Raises the
        exceptions of EntryBoundaries."""
        with self.links() as brokers:
            return cut_at_boundaries(ranges, EntryBoundaries.of(brokers, self.options.fetch_bytes))


def refuse_told_elsewhere(options: Mapping[str, str]) -> None:
    """Raise OptionRefused for an option of reading that would change what is compared."""
    lower = {name.lower() for name in options}
    wrong = [name for name in ELSEWHERE if name.lower() in lower]
    if wrong:
        raise OptionRefused("--topics, --from and --to say what an audit compares", option=wrong[0])


def must_answer(options: Mapping[str, str]) -> None:
    """Check that the cluster of these kafka08 options answers, before Spark is started.

    Raises OptionRefused, Unreachable, Refused."""
    with Side.of({**options, "subscribe": "-"}).links() as brokers:  # no topic is requested by name
        brokers.view()


def reading(sides: Mapping[str, Side]) -> Reading:
    """Return the settings with which tasks read both sides."""
    now_ms = time.time_ns() // 1_000_000
    options = {name: read_options(side.options, (), now_ms) for name, side in sides.items()}
    return Reading({name: side.access for name, side in sides.items()}, options)


# ---- what there is ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AuditBounds:
    """Ranges to compare now, by side, and topics that the target does not have."""

    ranges: Mapping[str, Ranges]
    missing: tuple[str, ...]

    @property
    def offsets(self) -> int:
        return sum(until - start for found in self.ranges.values() for start, until in found.bounds.values())


def look(sides: Mapping[str, Side], limits: Mapping[str, tuple[Limit, Limit]]) -> AuditBounds:
    """Return the ranges to compare.  Reads the target's ends first, so that a message that arrives meanwhile can only
    be missing in the target.

    Raises UnknownPartition for a topic that the source does not have, OffsetOutOfRange, OptionRefused, and the
    exceptions of Brokers."""
    for name, side in sides.items():
        if side.by_broker and any(limit.time_ms is not None for limit in limits[name]):
            raise OptionRefused(NO_TIMES, option="--from")
    with sides[SOURCE].links() as ours, sides[TARGET].links() as theirs:
        if all(limit.offsets is None for limit in limits[TARGET]):
            must_differ(ours.view(), theirs.view())
        wanted = sides[SOURCE].options.subscription.partitions(ours.view())
        if not wanted:
            raise UnknownPartition(f"the source has no {sides[SOURCE].options.subscription}")
        topics = sorted({tp.topic for tp in wanted})
        there = partitions_of(theirs, topics)
        target = ranges_of(theirs, there, *limits[TARGET], side=TARGET)
        source = ranges_of(ours, wanted, *limits[SOURCE], side=SOURCE)
    missing = sorted({*topics} - {tp.topic for tp in there})
    return AuditBounds({SOURCE: source, TARGET: target}, tuple(missing))


def partitions_of(brokers: Brokers, topics: Collection[str]) -> list[TopicPartition]:
    """Return all partitions of these topics that the cluster has."""
    view = brokers.view()
    return in_order(TopicPartition(topic, p) for topic in topics for p in view.topics.get(topic, {}))


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of one side.  bounds: offsets to read, by partition; cut: partitions whose log begins after offset 0."""

    bounds: dict[TopicPartition, tuple[int, int]]
    cut: frozenset[TopicPartition]


def ranges_of(brokers: Brokers, tps: Collection[TopicPartition], start: Limit, until: Limit, *, side: str) -> Ranges:
    """Return the ranges to read from one cluster now.

    Raises OffsetOutOfRange for offsets that the log does not have, OptionRefused if only some partitions have an
    offset, and the exceptions of Brokers."""
    if not tps:
        return Ranges({}, frozenset())
    to = None if until.offsets is None else _given(until.offsets, tps, side, "to")
    last = brokers.latest(tps, to)  # before the start, which only moves on
    first = brokers.earliest(tps)
    at: dict[TopicPartition, int] = dict(first)
    if start.offsets is not None:
        at = _given(start.offsets, tps, side, "from")
    elif start.time_ms is not None:
        asked = brokers.at_time(dict.fromkeys(tps, start.time_ms))
        # No answer may also mean that clocks differ: the messages themselves decide then.
        at = {tp: first[tp] if offset is None else offset for tp, offset in asked.items()}
    to = dict(last) if to is None else to
    for tp in tps:
        if not first[tp] <= at[tp] <= max(at[tp], to[tp]) <= last[tp]:
            raise OffsetOutOfRange(
                f"the log of the {side} does not hold the offsets to compare",
                topic=tp.topic, partition=tp.partition, start=at[tp], until=to[tp], earliest=first[tp], latest=last[tp],
            )  # fmt: skip
    cut = frozenset(tp for tp in tps if start.offsets is None and at[tp] == first[tp] > 0)
    return Ranges({tp: (at[tp], max(at[tp], to[tp])) for tp in tps}, cut)


def _given(offsets: Offsets, tps: Collection[TopicPartition], side: str, end: str) -> dict[TopicPartition, int]:
    missing = in_order({*tps} - {*offsets})
    if missing:
        raise OptionRefused(f"says no offset of {missing[0]} of the {side}; name every partition", option=end)
    return {tp: offsets[tp] for tp in tps}
