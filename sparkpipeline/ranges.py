"""Offset ranges: what a task reads.  Pure, and light enough to be pickled into each task."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from kafkawire.model import Broker, BrokerPartition, PartitionId, TopicPartition, partition_named
from sparkpipeline.errors import OptionRefused

_FIELDS = {"topic", "partition", "start", "until"}


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The messages of one partition with start <= offset < until; offsets are bytes of the log in 0.7.

    leader is where the planner found the partition; a task asks again when that broker does not lead it (any more).
    """

    topic: str
    partition: PartitionId
    start: int
    until: int
    leader: Broker | None = None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def count(self) -> int:
        """Offsets in it: how many messages it holds at most, and in 0.7 how many bytes."""
        return self.until - self.start

    def __str__(self) -> str:
        return f"{self.tp} [{self.start}, {self.until})"


def ranges_text(ranges: Iterable[OffsetRange]) -> str:
    """The value of the option offsetRanges: a JSON list of {topic, partition, start, until}, in the order given."""
    return json.dumps([
        {"topic": r.topic, "partition": partition_key(r.partition), "start": r.start, "until": r.until} for r in ranges
    ])  # fmt: skip


def partition_of(key: object) -> PartitionId:
    """A partition id of what JSON has for it: a number, also as text, or "broker-index" of 0.7.  Raises ValueError."""
    if isinstance(key, int) and not isinstance(key, bool):
        return key
    partition = partition_named(str(key))
    if partition is None:
        raise ValueError(f"{key!r} names no partition")
    return partition


def partition_key(partition: PartitionId) -> int | str:
    """The other way."""
    return partition if isinstance(partition, int) else str(partition)


def unit_of(partition: PartitionId) -> str:
    """What the difference of two offsets of it is, for people."""
    return "bytes" if isinstance(partition, BrokerPartition) else "messages"


def parse_ranges(text: str) -> list[OffsetRange]:
    """The ranges of such a list.  Raises OptionRefused, naming the entry."""
    try:
        rows = json.loads(text)
    except ValueError as exc:
        raise OptionRefused(f"is no JSON: {exc}", option="offsetRanges") from None
    if not isinstance(rows, list):
        raise OptionRefused("is no JSON list of {topic, partition, start, until}", option="offsetRanges")
    return [_range(n, row) for n, row in enumerate(rows)]


def _range(number: int, row: object) -> OffsetRange:
    if not isinstance(row, dict) or set(row) != _FIELDS:
        raise OptionRefused(
            f"entry {number} is not an object of topic, partition, start and until: {json.dumps(row)}",
            option="offsetRanges",
        )
    topic, partition, start, until = row["topic"], row["partition"], row["start"], row["until"]
    numbers = all(_is_number(n) for n in (start, until)) and (_is_number(partition) or _is_pair(partition))
    if not isinstance(topic, str) or not topic or not numbers:
        raise OptionRefused(
            f"entry {number} needs a topic and numbers from 0 on: {json.dumps(row)}", option="offsetRanges"
        )
    if start > until:
        raise OptionRefused(f"entry {number} begins at {start}, behind its end {until}", option="offsetRanges")
    return OffsetRange(topic, partition_of(partition), start, until)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_pair(value: object) -> bool:
    """broker-index, of 0.7."""
    return isinstance(value, str) and isinstance(partition_named(value), BrokerPartition)
