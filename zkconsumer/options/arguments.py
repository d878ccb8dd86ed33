"""Command-line arguments: partitions, positions, times and durations as an operator types them.

    partitions    orders            all of the topic             orders:0,3     these two (0.7: orders:1-0)
    assignments   orders:0=123      the next position to read    orders:0,3=123
    time          2026-11-21T15:04:05.250  2026-11-21 15:04  2026-11-21  with Z, +01:00 or without (then UTC, with a
                  note) 1700000000 (s: 9 to 11 digits)  1700000000000 (ms: 12 to 14)  1700000000000000000 (ns: 18 to 20)
    duration      PT1H30M  P2DT3H (as kafka-consumer-groups takes them)  90m  1h30m  2d  500ms

Anything else is WrongUsage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from groundwork.decimals import decimal_int
from groundwork.sentences import counted, iso
from kafkawire.model import PartitionId, TopicPartition, partition_named
from zkconsumer.errors import ConsumerError

TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
LARGEST = 2**63 - 1  # a position is an int64 in every form it travels in
DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS = 86_400_000, 3_600_000, 60_000, 1000
UNITS_MS = {"d": DAY_MS, "h": HOUR_MS, "m": MINUTE_MS, "s": SECOND_MS, "ms": 1}
NUMBER = r"(\d+(?:\.\d+)?)"
ISO_DURATION = re.compile(rf"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:{NUMBER}S)?)?", re.IGNORECASE)
WITH_UNITS = re.compile(rf"(?:{NUMBER}(?:ms|[dhms]))+")
ISO_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?))?\s?(Z|[+-]\d\d:?\d\d|[+-]\d\d)?", re.IGNORECASE
)


class WrongUsage(ConsumerError):
    """The arguments make no sense, whatever the stores hold: a command ends with its usage code."""


class NotThere(WrongUsage):
    """A named topic or partition that the cluster does not have: a command ends as for unknown groups."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A topic and some of its partitions, in the order typed; None: all of them."""

    topic: str
    partitions: tuple[PartitionId, ...] | None


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time; note: how the text was read, empty where it left no choice."""

    ms: int  # since 1970
    note: str = ""


def parse_partition(text: str) -> PartitionId:
    """A partition's number, or broker-index of 0.7.  Raises WrongUsage."""
    partition = partition_named(text)
    if partition is None:
        raise WrongUsage(f"{text!r} names no partition: a number is expected, or broker-index for 0.7")
    return partition


def parse_partitions(text: str) -> Chosen:
    """`t` or `t:0,1`, as --topic takes it.  Raises WrongUsage."""
    topic, colon, listed = text.strip().partition(":")
    if not TOPIC.fullmatch(topic):
        raise WrongUsage(f"{text!r} names no topic: TOPIC or TOPIC:0,1 is expected")
    if not colon:
        return Chosen(topic, None)
    if not listed.strip():
        raise WrongUsage(f"{text!r} names no partition after the colon; leave the colon out for all of {topic}")
    return Chosen(topic, tuple(dict.fromkeys(parse_partition(each.strip()) for each in listed.split(","))))


def parse_assignments(texts: Iterable[str]) -> dict[TopicPartition, int]:
    """`t:0=123` each.  Raises WrongUsage: also for a topic without partitions, and for two values of one."""
    found: dict[TopicPartition, int] = {}
    for text in texts:
        name, equals, value = text.strip().rpartition("=")
        if not equals:
            raise WrongUsage(f"{text!r} sets nothing: TOPIC:PARTITION=POSITION is expected")
        chosen, position = parse_partitions(name), parse_position(value)
        if chosen.partitions is None:
            raise WrongUsage(
                f"{text!r} does not say which partitions of {chosen.topic}: write {chosen.topic}:0={value}"
            )
        for partition in chosen.partitions:
            tp = TopicPartition(chosen.topic, partition)
            if found.setdefault(tp, position) != position:
                raise WrongUsage(f"{tp} is given two positions, {found[tp]} and {position}")
    return found


def parse_position(text: str) -> int:
    """A position of 0 or more.  Raises WrongUsage."""
    text = text.strip()
    if re.fullmatch(r"-[0-9]+", text):
        raise WrongUsage(
            f"{text} is negative, and positions are not; `zkconsumer offsets delete` takes a position away"
        )
    found = decimal_int(text, most=LARGEST)
    if found is None:
        raise WrongUsage(f"{text!r} is not a position: a number from 0 to {LARGEST} is expected")
    return found


def parse_shift(text: str) -> int:
    """A signed number of messages, as --shift-by takes it.  Raises WrongUsage."""
    if not re.fullmatch(r"[+-]?[0-9]{1,40}", text.strip()) or abs(int(text)) > LARGEST:
        raise WrongUsage(f"{text!r} is not a number of messages; write 100 or -100")
    return int(text)


def existing(chosen: Iterable[Chosen], topics: Mapping[str, Sequence[PartitionId]]) -> list[TopicPartition]:
    """The partitions that were named, each once.  Raises NotThere with all that the cluster does not have."""
    found: dict[TopicPartition, None] = {}
    missing: list[str] = []
    for each in chosen:
        known = topics.get(each.topic)
        if known is None:
            missing.append(f"topic {each.topic} does not exist")
            continue
        for partition in known if each.partitions is None else each.partitions:
            if partition in known:
                found[TopicPartition(each.topic, partition)] = None
            else:
                missing.append(
                    f"{TopicPartition(each.topic, partition)} does not exist ({counted(len(known), 'partition')})"
                )
    if missing:
        raise NotThere("; ".join(dict.fromkeys(missing)))
    return list(found)


def parse_time(text: str) -> Moment:
    """A point in time: ISO, or a number since 1970 whose digits give its unit.  Raises WrongUsage."""
    text = text.strip()
    if re.fullmatch(r"[0-9]{1,40}", text):
        return _since_1970(text)
    found = ISO_TIME.fullmatch(text)
    if not found:
        raise _no_time(text)
    day, clock, zone = found[1], found[2] or "00:00", found[3] or ""
    if len(zone) == 3:  # +01
        zone += ":00"
    whole, _, fraction = clock.partition(".")
    try:
        moment = datetime.fromisoformat(f"{day}T{whole}{zone.upper() or 'Z'}")
    except ValueError:
        raise _no_time(text) from None
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // _SECOND
    ms = seconds * SECOND_MS + int(fraction.ljust(3, "0")[:3] or 0)
    if ms < 0:
        raise WrongUsage(f"{text!r} is before 1970, and no message is that old")
    return Moment(ms, "" if zone else f"{text!r} names no zone and is taken as UTC")


def _since_1970(text: str) -> Moment:
    digits, value = len(text.lstrip("0")), int(text)
    if len(text) == digits:
        if 9 <= digits <= 11:
            return Moment(value * SECOND_MS, f"{text} is taken as seconds since 1970, {iso(value * SECOND_MS)}")
        if 12 <= digits <= 14:
            return Moment(value, f"{text} is taken as milliseconds since 1970, {iso(value)}")
        if 18 <= digits <= 20:
            ms = value // 1_000_000
            return Moment(ms, f"{text} is taken as nanoseconds since 1970, {iso(ms)}")
    raise WrongUsage(
        f"{text!r} is not a time: seconds since 1970 have 9 to 11 digits, milliseconds 12 to 14, nanoseconds 18 to 20; "
        "a day is written 2026-11-21"
    )


def _no_time(text: str) -> WrongUsage:
    return WrongUsage(
        f"{text!r} is not a time: 2026-11-21T15:04:05Z (without a zone: UTC) or a number since 1970 is expected"
    )


def parse_duration(text: str) -> int:
    """A duration in ms, more than 0.  Raises WrongUsage, also for a number without a unit."""
    text = text.strip()
    if re.fullmatch(r"[0-9.]+", text):
        raise WrongUsage(f"{text!r} has no unit: 90m, 2d or PT1H30M is expected")
    found = ISO_DURATION.fullmatch(text)
    ms = 0.0
    if found and any(found.groups()) and not text.upper().endswith("T"):
        ms = sum(float(n or 0) * unit for n, unit in zip(found.groups(), UNITS_MS.values(), strict=False))
    elif WITH_UNITS.fullmatch(text):
        ms = sum(float(n) * UNITS_MS[unit] for n, unit in re.findall(NUMBER + r"(ms|[dhms])", text))
    if not 1 <= ms < LARGEST:
        raise WrongUsage(f"{text!r} is not a length of time: 90m, 1h30m, 2d or PT1H30M is expected, more than 0")
    return round(ms)


_SECOND = datetime(1970, 1, 1, 0, 0, 1) - datetime(1970, 1, 1)
