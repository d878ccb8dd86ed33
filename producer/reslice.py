"""Parts for target partitions out of columns: a fetched set is shared out without an object a message.

    resliced(groups, share)   steps of parts, of the messages of neighbouring sets

share() says which rows of a piece go to which target partition.  The rows of one partition are then written side by
side in the target's format: copied with their checksums where they stand in plain entries of that format, else
encoded; compressed where the sets' codec at the target says so.  Pieces of neighbouring sets of one codec share a part,
as far as it may grow.  Pure: no socket, no clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import NamedTuple

from kafkawire.columns import Columns, as_list
from kafkawire.columns import Part as Stretch
from kafkawire.dialects import ENTRY_OVERHEAD, Dialect
from kafkawire.grouping import row_sizes
from kafkawire.model import MessageSet, Part, TopicPartition
from producer.errors import MessageRefused
from producer.steps import READ_BYTES, STEP_BYTES, Step, part_limit


class Share(NamedTuple):
    """Rows for one target partition.  nbytes: of their keys, values and headers, at least."""

    target: TopicPartition
    rows: Stretch
    nbytes: int


Sharing = Callable[[Columns, int], Iterable[Share]]  # the first rows of some columns, shared out


def resliced(
    groups: Iterable[tuple[MessageSet, int]], share: Sharing, dialect: Dialect, message_max_bytes: int
) -> Iterator[Step]:
    """The messages of sets, each with its codec at the target, as share() shares them out.  dialect: the target's.

    Messages that share an offset (those of a wrapper of 0.7) are in one step, or in none.
    Raises CorruptMessage, and MessageRefused that share() raises, after everything before it was yielded.
    """
    made = StretchBuilder(dialect, message_max_bytes)
    for alone, codec in groups:
        if codec != made.codec:
            yield from made.build()
            made.codec = codec
        made.reached = alone.start if made.reached is None else made.reached
        # Large ones: what a piece costs by itself is more than what a smaller one's place in the cache saves.  One
        # is about a step.
        for columns in alone.pieces(most_bytes=STEP_BYTES):
            try:
                _add(made, share, columns)
            except MessageRefused:
                yield from made.build()
                raise
            made.read += len(columns.data)
            if made.full or made.size > STEP_BYTES // 2 or columns.damage is not None:
                yield from made.build()
            if columns.damage is not None:
                raise columns.damage
    yield from made.build()


def _add(made: StretchBuilder, share: Sharing, columns: Columns) -> None:
    """Add the rows of a piece; of an entry that is damaged inside none.

    Raises MessageRefused for a row; those before it are added.
    """
    end = rows_before_damage(columns)
    try:
        made.add_shares(share(columns, end) if end else (), columns.resume_at)
    except MessageRefused as refused:
        if refused.offset is not None:
            before = bisect_left(as_list(columns.offsets[:end]), refused.offset)
            if before:
                made.add_shares(share(columns, before), refused.offset)
        raise


@dataclass(slots=True)
class _Target:
    """Rows for one target partition."""

    parts: list[Part] = field(default_factory=list)  # that are full
    open: list[Stretch] = field(default_factory=list)  # rows of the next one
    size: int = 0  # bytes of those rows as entries, at most


@dataclass(slots=True)
class StretchBuilder:
    """Collects rows of one codec until they fill a step."""

    dialect: Dialect
    message_max_bytes: int
    codec: int = 0
    resume_at: int | None = None
    reached: int | None = None  # resume_at of the step before, or the start of the set
    size: int = 0  # bytes of their entries
    read: int = 0  # bytes of what they were read from
    targets: dict[TopicPartition, _Target] = field(default_factory=dict)

    @property
    def limit(self) -> int:
        return part_limit(self.dialect, self.codec, self.message_max_bytes)

    @property
    def full(self) -> bool:
        return self.size >= min(self.limit, STEP_BYTES) or self.read >= READ_BYTES

    def build(self) -> Iterator[Step]:
        """Yield the collected rows as one step, if there are any, and start over."""
        self.read = 0
        if self.resume_at is None or self.resume_at == self.reached:
            return
        parts = tuple(self.parts())
        self.size, self.reached = 0, self.resume_at
        yield Step(self.resume_at, parts)

    def target(self, tp: TopicPartition) -> _Target:
        found = self.targets.get(tp)
        if found is None:
            found = self.targets[tp] = _Target()
        return found

    def add_shares(self, shares: Iterable[Share], resume_at: int) -> None:
        """Add rows; resume_at: of the source, once all that was added is stored."""
        overhead, limit = ENTRY_OVERHEAD[self.dialect.magic], self.limit
        for tp, rows, nbytes in shares:
            nbytes += overhead * (rows.until - rows.since)
            target = self.target(tp)
            if target.size + nbytes <= limit:
                target.open.append(rows)
                target.size += nbytes
            else:
                self._fill(tp, target, rows, overhead, limit)
            self.size += nbytes
        self.resume_at = resume_at

    def _fill(self, tp: TopicPartition, target: _Target, rows: Stretch, overhead: int, limit: int) -> None:
        """Add rows that may not all fit into the part that is open."""
        columns, since, end = rows
        ends = list(accumulate((size + overhead for size in row_sizes(columns, end)), initial=0))
        while since < end:
            until = bisect_right(ends, ends[since] + limit - target.size) - 1
            if until <= since and target.open:
                self.close(tp)
                continue
            until = min(max(until, since + 1), end)  # a message that is larger by itself goes alone
            target.open.append(Stretch(columns, since, until))
            target.size += ends[until] - ends[since]
            since = until

    def close(self, tp: TopicPartition) -> None:
        """Make a part of the rows that are open for a partition, if there are any."""
        target = self.targets.get(tp)
        if target is None or not target.open:
            return
        magic = self.dialect.magic
        entries = self.dialect.messages.encode_columns(target.open, self.codec, magic)
        count = sum(until - since for _, since, until in target.open)
        origins = tuple(columns.offsets[since:until] for columns, since, until in target.open)
        target.parts.append(Part(tp, entries, magic, self.codec, count, resume_at=None, origins=origins))
        target.open, target.size = [], 0

    def parts(self) -> Iterator[Part]:
        """Yield the collected rows as parts, and start over."""
        for tp in self.targets:
            self.close(tp)
        targets, self.targets = self.targets, {}
        return chain.from_iterable(target.parts for target in targets.values())


def rows_before_damage(columns: Columns) -> int:
    """Rows of a piece that may be sent: none of an entry that is damaged inside, which may share an offset."""
    if columns.damage is None:
        return len(columns)
    return bisect_left(as_list(columns.offsets), columns.resume_at)
