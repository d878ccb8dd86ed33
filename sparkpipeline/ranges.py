"""Offset ranges: input of tasks, and cutting and packing of ranges into tasks.  Pure; light enough for each task."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from groundwork.jsontext import json_value
from kafkawire.model import Broker, BrokerPartition, PartitionId, TopicPartition, partition_named
from sparkpipeline.errors import OptionRefused

_FIELDS = {"topic", "partition", "start", "until"}


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Messages of one partition with start <= offset < until; offsets are bytes of the log in 0.7.

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
        """Return the number of offsets in it: the maximum of messages, and for 0.7 the bytes."""
        return self.until - self.start

    def __str__(self) -> str:
        return f"{self.tp} [{self.start}, {self.until})"


def ranges_text(ranges: Iterable[OffsetRange]) -> str:
    """Return the value of the option offsetRanges: a JSON list of {topic, partition, start, until}, in the order
    given."""
    return json.dumps([range_row(rng) for rng in ranges])


def range_row(rng: OffsetRange) -> dict[str, Any]:
    """Return a range for JSON: {topic, partition, start, until}."""
    return {"topic": rng.topic, "partition": partition_key(rng.partition), "start": rng.start, "until": rng.until}


def partition_of(key: object) -> PartitionId:
    """Return a partition id from JSON: a number, also as text, or "broker-index" of 0.7.  Raises ValueError."""
    if isinstance(key, int) and not isinstance(key, bool):
        return key
    partition = partition_named(str(key))
    if partition is None:
        raise ValueError(f"{key!r} is not a partition")
    return partition


def partition_key(partition: PartitionId) -> int | str:
    """Return the JSON value of a partition id: a number, or "broker-index" of 0.7."""
    return partition if isinstance(partition, int) else str(partition)


def unit_of(partition: PartitionId) -> str:
    """Return the unit of differences of its offsets, in words."""
    return "bytes" if isinstance(partition, BrokerPartition) else "messages"


def parse_ranges(text: str) -> list[OffsetRange]:
    """Return the ranges of such a list.  Raises OptionRefused, naming the entry."""
    try:
        rows = json_value(text)
    except ValueError as exc:
        raise OptionRefused(f"is not JSON: {exc}", option="offsetRanges") from None
    if not isinstance(rows, list):
        raise OptionRefused("is not a JSON list of {topic, partition, start, until}", option="offsetRanges")
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
    """True for broker-index, of 0.7."""
    return isinstance(value, str) and isinstance(partition_named(value), BrokerPartition)


# ---- limited, cut, and packed into tasks ----------------------------------------------------------------------------


def limited_by_lag(
    ranges: Iterable[OffsetRange], most: float | None, size: Callable[[OffsetRange], float] = lambda rng: 1.0
) -> list[OffsetRange]:
    """Return the ranges, shortened so that together they have at most `most`, shared by lag; None: no limit.

    size: of an offset of a range, above 0.  As Spark's kafka source: rounded down, but at least one offset of each
    range, so that the small are not starved (with more ranges than `most` it is more).
    """
    listed = list(ranges)
    total = float(sum(rng.count * size(rng) for rng in listed))
    if most is None or total <= most:
        return listed
    shares = [(rng, most * (rng.count * size(rng) / total) / size(rng)) for rng in listed]
    return [replace(rng, until=rng.start + min(rng.count, max(1, int(share)))) for rng, share in shares]


def in_parts(rng: OffsetRange, parts: int) -> Iterator[OffsetRange]:
    """Yield a range in `parts` parts of equal size, the last ones larger by the rounding remainder; none is empty."""
    start, parts = rng.start, min(parts, rng.count)
    for part in range(parts):
        until = start + (rng.until - start) // (parts - part)
        if until > start:
            yield replace(rng, start=start, until=until)
        start = until


def in_steps(rng: OffsetRange, count: int) -> Iterator[OffsetRange]:
    """Yield a range in steps of `count` offsets; the last one may be shorter."""
    for start in range(rng.start, rng.until, count):
        yield replace(rng, start=start, until=min(start + count, rng.until))


class Counted(Protocol):
    """Object that can be packed: an OffsetRange, or one with a range."""

    @property
    def count(self) -> int:
        """Return the number of offsets."""
        ...


P = TypeVar("P", bound=Counted)


def packed(
    pieces: Iterable[P],
    tasks: int,
    *,
    size: Callable[[P], float],
    max_size: float | None = None,
    max_count: int | None = None,
    apart: Callable[[P], Hashable] = lambda piece: None,
) -> list[list[P]]:
    """Return the pieces of each task: the largest remaining piece goes to the task with least, starting with `tasks`
    tasks.

    max_size, max_count   bounds of a task's sizes and offsets: a piece beyond them begins a new task
    apart                 pieces of the same value (but None) are never in one task; the next lighter one takes it
    """
    heap: list[_Task[P]] = [_Task(0, number) for number in range(tasks)]
    for weight, piece in sorted(((size(piece), piece) for piece in pieces), key=lambda pair: -pair[0]):
        key = apart(piece)
        passed: list[_Task[P]] = []
        while heap and key is not None and key in heap[0].keys:
            passed.append(heapq.heappop(heap))
        if heap and heap[0].takes(weight, piece.count, max_size, max_count):
            heapq.heapreplace(heap, heap[0].put(piece, weight, key))
        else:
            heapq.heappush(heap, _Task[P](0, len(heap) + len(passed)).put(piece, weight, key))
        for task in passed:
            heapq.heappush(heap, task)
    return [task.pieces for task in sorted(heap, key=lambda task: task.number)]


@dataclass(order=True, slots=True)
class _Task(Generic[P]):
    size: float  # what it is compared by, then by number: plans are the same each time
    number: int
    count: int = 0
    pieces: list[P] = field(default_factory=list, compare=False)
    keys: set[Hashable] = field(default_factory=set, compare=False)

    def takes(self, size: float, count: int, max_size: float | None, max_count: int | None) -> bool:
        fits = max_size is None or self.size + size <= max_size
        return not self.pieces or (fits and (max_count is None or self.count + count <= max_count))

    def put(self, piece: P, size: float, key: Hashable) -> _Task[P]:
        self.pieces.append(piece)
        self.keys.add(key)
        self.size += size
        self.count += piece.count
        return self
