"""Which offsets an audit reads of each cluster.  Driver side; needs no Spark."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafkawire.model import TopicPartition
from sparkpipeline.audit.windows import Windows, parse_time
from sparkpipeline.brokers import Brokers
from sparkpipeline.errors import OffsetOutOfRange, OptionRefused

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Limit:
    """One end of what is compared: a time, or offsets of one side; none of both: where the log ends."""

    time_ms: int | None = None
    offsets: Offsets | None = None


def parse_limit(text: str | None, option: str) -> Limit:
    """What a user gave: an ISO time, JSON offsets {"topic": {"0": 17}}, or nothing.  Raises OptionRefused."""
    if text is None:
        return Limit()
    time_ms = parse_time(text)
    if time_ms is not None:
        return Limit(time_ms=time_ms)
    try:
        found = json.loads(text)
        offsets = {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in found.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError):
        offsets = {}
    numbers = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in offsets.values())
    if not offsets or not numbers:
        raise OptionRefused(
            f'{text!r} is neither a time (2026-01-31T10:00Z) nor offsets ({{"topic": {{"0": 17}}}})', option=option
        )
    return Limit(offsets=offsets)


def windows_of(kind: str, start: Limit, until: Limit) -> Windows:
    """The windows of the first pass.  Raises OptionRefused for a time bound where times are not to count."""
    timed = start.time_ms is not None or until.time_ms is not None
    if timed and kind == "blocks":
        raise OptionRefused("windows are blocks of offsets, and --from or --to is a time", option="window")
    return Windows(kind != "blocks", 0, start.time_ms, until.time_ms)


@dataclass(frozen=True, slots=True)
class Ranges:
    """bounds: what is read of each partition; cut: those read from where a log begins, behind offset 0."""

    bounds: dict[TopicPartition, tuple[int, int]]
    cut: frozenset[TopicPartition]


def ranges_of(brokers: Brokers, tps: Collection[TopicPartition], start: Limit, until: Limit, side: str) -> Ranges:
    """What to read of one cluster now.  Raises OffsetOutOfRange for offsets that the log does not hold, OptionRefused
    for partitions without one where others have one, and what Brokers raise."""
    if not tps:
        return Ranges({}, frozenset())
    last = brokers.latest(tps)  # before the start, which only moves on
    first = brokers.earliest(tps)
    at: dict[TopicPartition, int] = dict(first)
    if start.offsets is not None:
        at = _given(start.offsets, tps, side, "from")
    elif start.time_ms is not None:
        asked = brokers.at_time(dict.fromkeys(tps, start.time_ms))
        # No answer may also mean that clocks differ: the messages themselves decide then.
        at = {tp: first[tp] if offset is None else offset for tp, offset in asked.items()}
    to = dict(last) if until.offsets is None else _given(until.offsets, tps, side, "to")
    for tp in tps:
        if not first[tp] <= at[tp] <= max(at[tp], to[tp]) <= last[tp]:
            raise OffsetOutOfRange(
                f"the log of the {side} does not hold what is to be compared",
                topic=tp.topic, partition=tp.partition, start=at[tp], until=to[tp], earliest=first[tp], latest=last[tp],
            )  # fmt: skip
    cut = frozenset(tp for tp in tps if start.offsets is None and at[tp] == first[tp] > 0)
    return Ranges({tp: (at[tp], max(at[tp], to[tp])) for tp in tps}, cut)


def _given(offsets: Offsets, tps: Collection[TopicPartition], side: str, end: str) -> dict[TopicPartition, int]:
    missing = sorted({*tps} - {*offsets})
    if missing:
        raise OptionRefused(f"says no offset of {missing[0]} of the {side}; name every partition", option=end)
    return {tp: offsets[tp] for tp in tps}


def check_limits(start: Limit, until: Limit, target_start: Limit, target_until: Limit) -> None:
    """Offsets of one side need those of the other, whose offsets are others.  Raises OptionRefused."""
    for ours, theirs, end in ((start, target_start, "from"), (until, target_until, "to")):
        if (ours.offsets is None) != (theirs.offsets is None):
            given, other = (f"--{end}", f"--target-{end}")
            if ours.offsets is None:
                given, other = other, given
            raise OptionRefused(f"{given} names offsets of one cluster: {other} has to name the other's", option=end)
        if theirs.time_ms is not None:
            raise OptionRefused(f"--{end} takes the time, which is the same for both", option=f"target-{end}")
