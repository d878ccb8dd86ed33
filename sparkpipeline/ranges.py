"""Offset ranges: what a task reads.  Pure, and light enough to be pickled into each task."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from kafkawire.model import Broker, PartitionId, TopicPartition
from sparkpipeline.errors import OptionRefused

_FIELDS = {"topic", "partition", "start", "until"}


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The messages of one partition with start <= offset < until.

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
        """Offsets in it: how many messages it holds at most."""
        return self.until - self.start

    def __str__(self) -> str:
        return f"{self.tp} [{self.start}, {self.until})"


def ranges_text(ranges: Iterable[OffsetRange]) -> str:
    """The value of the option offsetRanges: a JSON list of {topic, partition, start, until}, in the order given."""
    rows = [{"topic": r.topic, "partition": r.partition, "start": r.start, "until": r.until} for r in ranges]
    return json.dumps(rows)


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
    numbers = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in (partition, start, until))
    if not isinstance(topic, str) or not topic or not numbers:
        raise OptionRefused(
            f"entry {number} needs a topic and numbers from 0 on: {json.dumps(row)}", option="offsetRanges"
        )
    if start > until:
        raise OptionRefused(f"entry {number} begins at {start}, behind its end {until}", option="offsetRanges")
    return OffsetRange(topic, partition, start, until)
