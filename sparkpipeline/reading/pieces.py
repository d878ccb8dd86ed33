"""Rows of a range within the columns of one of its sets: cut at the range's end, and into what makes a record batch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafkawire.columns import Columns, Part
from sparkpipeline.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows since..until of the columns; before is how many rows of the range came before the first row of these.

    Where offsets are bytes the columns cover the log from covered_from to covered_to: entries without a message too.
    """

    range: OffsetRange
    columns: Columns
    since: int
    until: int
    before: int
    covered_from: int = 0
    covered_to: int = 0

    def __len__(self) -> int:
        return self.until - self.since

    @property
    def part(self) -> Part:
        return Part(self.columns, self.since, self.until)

    @property
    def first_row(self) -> int:
        """The number of its first row within the range."""
        return self.before + self.since

    @property
    def bytes(self) -> int:
        """Of keys and values, about: their distance in what was fetched."""
        return max(0, self._end(self.until - 1) - self.columns.value_at[self.since]) if len(self) else 0

    def within(self, until: int) -> Piece:
        """Its rows before an offset.  Offsets ascend: see kafkawire.columns.ascending."""
        offsets = self.columns.offsets
        if not len(self) or offsets[self.until - 1] < until:
            return self
        return replace(self, until=bisect_left(offsets, until, self.since, self.until))

    def cut(self, most_bytes: int, most_rows: int) -> Iterator[Piece]:
        """The same rows in pieces of at most so many bytes and rows; in each at least one row."""
        places, since = self.columns.value_at, self.since
        while since < self.until:
            limit, most = places[since] + most_bytes, min(self.until, since + most_rows)
            end = bisect_right(places, limit, since + 1, most)  # all before it begin within the limit
            if end > since + 1 and self._end(end - 1) > limit:
                end -= 1
            yield replace(self, since=since, until=end)
            since = end

    def _end(self, row: int) -> int:
        return self.columns.value_at[row] + max(0, self.columns.value_size[row])
