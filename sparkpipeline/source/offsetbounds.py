"""Offsets in options and checkpoints: Spark's own JSON, and the kinds of bounds of a query.

    {"orders":{"0":23,"1":-2},"payments":{"0":-1}}      -2 is the earliest offset there is, -1 the latest

A partition's key is its number; of 0.7, whose partitions belong to brokers, it is "broker-partition".  Pure.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from groundwork.jsontext import json_value
from kafkawire.model import BrokerPartition, PartitionId, TopicPartition, partition_named
from sparkpipeline.errors import OptionRefused

T = TypeVar("T")
EARLIEST = -2
LATEST = -1
_OFFSETS = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES = '{"topicA":{"0":1700000000000},"topicB":{"0":1700000000000}}'
_PARTITIONS = '{"topicA":[0,1],"topicB":[2,4]}'
_LONG = 1 << 63


class Fixed(enum.Enum):
    """Bound without a number."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"  # the offsets that a group has committed


@dataclass(frozen=True, slots=True)
class Offsets:
    """Number for each partition, including EARLIEST and LATEST."""

    at: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Times:
    """Time for each partition, in ms since 1970 UTC."""

    at_ms: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Time:
    """One time for all partitions, in ms since 1970 UTC."""

    ms: int


Bound = Fixed | Offsets | Times | Time


def bound_of(which: str, time: str | None, times: str | None, offsets: str | None) -> Bound | None:
    """Return the bound in the options: a time precedes times, times precede offsets; the others are ignored.

    which  "starting" or "ending": how the options' names begin.  Raises OptionRefused.
    """
    if time is not None:
        return Time(_time(time, f"{which}Timestamp"))
    if times is not None:
        name = f"{which}OffsetsByTimestamp"
        return Times(parse_times(times, name))
    if offsets is None:
        return None
    named = {bound.value: bound for bound in Fixed}.get(offsets.strip().lower())
    return named or Offsets(parse_offsets(offsets, f"{which}Offsets"))


def _time(text: str, option: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()):
        raise OptionRefused(f"expected a whole number of ms since 1970 UTC, got {text!r}", option=option)
    return int(text)


def parse_offsets(text: str, option: str) -> dict[TopicPartition, int]:
    """Parse offsets by partition, at least -2.  Raises OptionRefused, which names the option."""
    found = _numbers(text, option, _OFFSETS)
    for tp, offset in found.items():
        if offset < EARLIEST:
            raise OptionRefused(
                f"{offset} is not an offset of {tp}: numbers from 0 on, -1 for the latest, -2 for the earliest",
                option=option,
            )
    return found


def parse_times(text: str, option: str) -> dict[TopicPartition, int]:
    """Parse times by partition, in ms since 1970 UTC.  Raises OptionRefused."""
    found = _numbers(text, option, _TIMES)
    for tp, ms in found.items():
        if ms < 0:
            raise OptionRefused(f"{ms} is not a time for {tp}: ms since 1970 UTC", option=option)
    return found


def parse_partitions(text: str, option: str = "assign") -> list[TopicPartition]:
    """Return the partitions that {"topic":[0,1]} names, sorted, each once.  Raises OptionRefused."""
    found: set[TopicPartition] = set()
    for topic, ids in _topics(text, option, _PARTITIONS).items():
        if not isinstance(ids, list):
            raise _unlike(option, _PARTITIONS, text)
        found |= {TopicPartition(topic, _partition(_key(one), option, _PARTITIONS, text)) for one in ids}
    return in_order(found)


def offsets_text(offsets: Mapping[TopicPartition, int]) -> str:
    """Return the JSON of these offsets as Spark writes it, sorted by topic and partition: a checkpoint's line."""
    return json.dumps(by_topic(offsets), separators=(",", ":"))


def by_topic(values: Mapping[TopicPartition, T]) -> dict[str, dict[str, T]]:
    """Return {"orders": {"0": 17}} for {orders/0: 17}, sorted by topic and partition."""
    found: dict[str, dict[str, T]] = {}
    for tp in in_order(values):
        found.setdefault(tp.topic, {})[str(tp.partition)] = values[tp]
    return found


def in_order(tps: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return partitions by topic, then by number, as plans, checkpoints and messages show them."""
    return sorted(tps, key=lambda tp: (tp.topic, rank(tp.partition)))


def rank(partition: PartitionId) -> tuple[int, int]:
    """Return a sort key for partitions of either generation, by number."""
    return (partition.broker, partition.index) if isinstance(partition, BrokerPartition) else (0, partition)


def _topics(text: str, option: str, example: str) -> dict[str, object]:
    try:
        found = json_value(text, object_pairs_hook=lambda pairs: _once(pairs, option))
    except ValueError:
        raise _unlike(option, example, text) from None
    if not isinstance(found, dict) or not all(found):
        raise _unlike(option, example, text)
    return found


def _once(pairs: list[tuple[str, object]], option: str) -> dict[str, object]:
    """Return a JSON object; raise for a duplicate name, which would silently count once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise OptionRefused(f"names {next(n for n in names if names.count(n) > 1)!r} twice", option=option)
    return found


def _numbers(text: str, option: str, example: str) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, partitions in _topics(text, option, example).items():
        if not isinstance(partitions, dict):
            raise _unlike(option, example, text)
        for key, number in partitions.items():
            if not isinstance(number, int) or isinstance(number, bool) or not -_LONG <= number < _LONG:
                raise _unlike(option, example, text)
            tp = TopicPartition(topic, _partition(key, option, example, text))
            if tp in found:  # "0" and "00": one of the two would silently count
                raise OptionRefused(f"names {tp} twice", option=option)
            found[tp] = number
    return found


def _key(one: object) -> str:
    return str(one) if isinstance(one, (int, str)) and not isinstance(one, bool) else ""


def _partition(key: str, option: str, example: str, text: str) -> PartitionId:
    partition = partition_named(key)
    if partition is None:
        raise _unlike(option, example, text)
    return partition


def _unlike(option: str, example: str, text: str) -> OptionRefused:
    shown = text if len(text) <= 200 else text[:197] + "..."
    return OptionRefused(f"expected something like {example}, got {shown!r}", option=option)
