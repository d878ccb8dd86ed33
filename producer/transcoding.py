"""The messages of a set in another format, to one target partition: by columns, without an object a message.

What producer.steps.reencode does where every message goes to the same partition as it is, and several times as quick.
Pure: bytes and counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, count

from kafkawire.columns import Columns, as_list
from kafkawire.dialects import ENTRY_OVERHEAD, Dialect
from kafkawire.model import MessageSet, Part, TopicPartition
from producer.steps import Gathered, Step, coded_runs


def transcode(
    fetched: MessageSet, target: TopicPartition, dialect: Dialect, message_max_bytes: int, codec: int | None = None
) -> Iterator[Step]:
    """The messages of a set from its start on, in the target's format and in order.  dialect is the target's.

    codec None: neighbours that share a codec at the source share it at the target, as far as it knows it.
    Messages that share a position (those of a wrapper of 0.7) are in one step, or in none.
    Raises CorruptMessage only after everything before the damage was yielded.
    """
    gathered = _Rows(dialect, message_max_bytes, reached=fetched.start, target=target)
    for alone, wanted in coded_runs(fetched, dialect, codec):
        if wanted != gathered.codec:
            yield from gathered.step()
            gathered.codec = wanted
        for columns in alone.pieces():
            gathered.add(columns)
            if gathered.full or columns.damage is not None:
                yield from gathered.step()
            if columns.damage is not None:
                raise columns.damage
        gathered.resume_at = alone.resume_at
    yield from gathered.step()


@dataclass(slots=True)
class _Rows(Gathered):
    """Rows for one target partition."""

    target: TopicPartition = field(kw_only=True)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    stamps: list[int | None] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # of the entries they will be

    def add(self, columns: Columns) -> None:
        """Those of a piece that may be done; of an entry that is damaged inside none."""
        end = len(columns)
        if columns.damage is not None:
            end = bisect_left(as_list(columns.offsets), columns.resume_at)
        keys, values = columns.keys()[:end], columns.values()[:end]
        overhead = ENTRY_OVERHEAD[self.dialect.magic]
        sizes = [overhead + (len(k) if k else 0) + (len(v) if v else 0) for k, v in zip(keys, values, strict=True)]
        self.keys += keys
        self.values += values
        self.stamps += [None] * end if columns.timestamps_ms is None else as_list(columns.timestamps_ms[:end])
        self.sizes += sizes
        self.size += sum(sizes)
        self.resume_at = columns.resume_at

    def taken(self) -> Iterator[Part]:
        ends, at, total = list(accumulate(self.sizes)), 0, len(self.sizes)
        while at < total:
            before = ends[at - 1] if at else 0
            end = max(at + 1, bisect_left(ends, before + self.limit + 1, at))
            rows = zip(count(), self.keys[at:end], self.values[at:end], self.stamps[at:end], strict=False)
            yield self.part(self.target, rows, end - at)
            at = end
        self.keys, self.values, self.stamps, self.sizes = [], [], [], []
