"""Parts for target partitions from columns: a fetched set is distributed without one object per message.

    resliced(groups, share)   steps of parts, from the messages of adjacent sets

share() says which rows of a piece go to which target partition.  The rows of one partition are then written side by
side in the target's format: copied with their checksums if they are plain entries of that format, else encoded; and
compressed with the sets' codec at the target.  Pieces of adjacent sets of one codec share a part, up to its size limit.
Pure: no socket, no clock.
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
    """Rows for one target partition. nbytes: bytes of at least their keys, values and headers."""

    target: TopicPartition
    rows: Stretch
    nbytes: int


Sharing = Callable[[Columns, int], Iterable[Share]]  # distributes the first rows of columns


def resliced(
    groups: Iterable[tuple[MessageSet, int]], share: Sharing, dialect: Dialect, message_max_bytes: int
) -> Iterator[Step]:
    """Yield the messages of sets, each with its codec at the target, as share() distributes them. dialect: the
    target's.

    Messages that share an offset (those of a wrapper of 0.7) are in the same step, or in none.  Raises CorruptMessage,
    and MessageRefused from share(), after everything before was yielded.
    """
    made = StretchBuilder(dialect, message_max_bytes)
    for alone, codec in groups:
        if codec != made.codec:
            yield from made.build()
            made.codec = codec
        made.reached = alone.start if made.reached is None else made.reached
        # Large pieces: the fixed cost of a piece exceeds what a smaller one saves by staying in the cache.  One piece
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
    """Add the rows of a piece, without those of an entry with damage inside.

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

    parts: list[Part] = field(default_factory=list)  # full parts
    open: list[Stretch] = field(default_factory=list)  # rows of the next part
    size: int = 0  # maximum bytes of those rows as entries


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
        """Add rows. resume_at: of the source, once all added rows are stored."""
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
        """Add rows that may not all fit into the open part."""
        columns, since, end = rows
        ends = list(accumulate((size + overhead for size in row_sizes(columns, end)), initial=0))
        while since < end:
            until = bisect_right(ends, ends[since] + limit - target.size) - 1
            if until <= since and target.open:
                self.close(tp)
                continue
            until = min(max(until, since + 1), end)  # a larger message is a part of its own
            target.open.append(Stretch(columns, since, until))
            target.size += ends[until] - ends[since]
            since = until

    def close(self, tp: TopicPartition) -> None:
        """Make a part of the open rows for a partition, if there are any."""
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
    """Return the number of rows of a piece that may be sent: none of an entry with damage inside, since they may share
    an offset."""
    if columns.damage is None:
        return len(columns)
    return bisect_left(as_list(columns.offsets), columns.resume_at)
