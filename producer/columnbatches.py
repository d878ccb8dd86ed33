"""Record batches out of columns: a fetched set becomes batches for one partition without an object a message.

    batches_of(groups, target)   steps of record batches, of the messages of neighbouring sets

Pieces of neighbouring sets of one codec share a batch, as far as it may grow.  Pure: no socket, no clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from kafkawire.columns import Columns, as_list
from kafkawire.columns import Part as Stretch
from kafkawire.dialects import ENTRY_OVERHEAD, Dialect
from kafkawire.model import MessageSet, Part, TopicPartition
from producer.steps import STEP_BYTES, Step, part_limit


def batches_of(
    groups: Iterable[tuple[MessageSet, int]], target: TopicPartition, dialect: Dialect, message_max_bytes: int
) -> Iterator[Step]:
    """The messages of sets, each with its codec at the target, as record batches for one partition.

    dialect: the target's, which takes record batches.  Raises CorruptMessage after everything before it was yielded.
    """
    made = _Made(target, dialect, message_max_bytes)
    for alone, codec in groups:
        if codec != made.codec:
            yield from made.step()
            made.codec = codec
        made.reached = alone.start if made.reached is None else made.reached
        for columns in alone.pieces():
            made.add(columns)
            if made.full or columns.damage is not None:
                yield from made.step()
            if columns.damage is not None:
                raise columns.damage
    yield from made.step()


@dataclass(slots=True)
class _Made:
    """Rows of one codec that are to become batches."""

    target: TopicPartition
    dialect: Dialect
    message_max_bytes: int
    codec: int = 0
    reached: int | None = None  # resume_at of the step before, or the start of the first set
    resume_at: int | None = None
    parts: list[Part] = field(default_factory=list)  # batches that are full
    open: list[Stretch] = field(default_factory=list)  # rows of the next one
    size: int = 0  # bytes of those rows as records, at most
    taken: int = 0  # bytes in parts

    @property
    def limit(self) -> int:
        return part_limit(self.dialect, self.codec, self.message_max_bytes)

    @property
    def full(self) -> bool:
        return self.taken + self.size >= min(self.limit, STEP_BYTES)

    def add(self, columns: Columns) -> None:
        """Add the rows of a piece; of an entry that is damaged inside none."""
        end, limit = rows_before_damage(columns), self.limit
        self.resume_at = columns.resume_at
        whole = len(columns.data) + ENTRY_OVERHEAD[self.dialect.magic] * end  # at least what they need
        if self.size + whole <= limit:
            self._take(columns, 0, end, whole)
            return
        ends, since = list(accumulate(record_sizes(columns, end, self.dialect), initial=0)), 0
        while since < end:
            until = bisect_right(ends, ends[since] + limit - self.size) - 1
            if until <= since and self.open:
                self._close()
                continue
            until = min(max(until, since + 1), end)  # a message that is larger by itself goes alone
            self._take(columns, since, until, ends[until] - ends[since])
            since = until

    def _take(self, columns: Columns, since: int, until: int, size: int) -> None:
        if since < until:
            self.open.append(Stretch(columns, since, until))
            self.size += size

    def _close(self) -> None:
        """Make a batch of the rows that are taken."""
        if not self.open:
            return
        magic = self.dialect.magic
        entries = self.dialect.messages.encode_columns(self.open, self.codec, magic)
        count = sum(stretch.until - stretch.since for stretch in self.open)
        self.parts.append(Part(self.target, entries, magic, self.codec, count, resume_at=None))
        self.taken += self.size
        self.open, self.size = [], 0

    def step(self) -> Iterator[Step]:
        """All that was added, as one step; then starts over."""
        self._close()
        if self.resume_at is not None and self.resume_at != self.reached:
            self.reached = self.resume_at
            yield Step(self.resume_at, tuple(self.parts))
        self.parts, self.taken = [], 0


def rows_before_damage(columns: Columns) -> int:
    """Rows of a piece that may be sent: none of an entry that is damaged inside, which may share an offset."""
    if columns.damage is None:
        return len(columns)
    return bisect_left(as_list(columns.offsets), columns.resume_at)


def record_sizes(columns: Columns, end: int, dialect: Dialect) -> list[int]:
    """Bytes of each of the first rows as records, at most."""
    overhead = ENTRY_OVERHEAD[dialect.magic]
    keys, values = as_list(columns.key_size[:end]), as_list(columns.value_size[:end])
    sizes = [overhead + max(key, 0) + max(value, 0) for key, value in zip(keys, values, strict=True)]
    if columns.header_size is not None:
        headers = as_list(columns.header_size[:end])
        sizes = [size + max(more, 0) for size, more in zip(sizes, headers, strict=True)]
    return sizes
