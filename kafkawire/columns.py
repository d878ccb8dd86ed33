"""A message set as columns: where the offsets, keys and values of its messages stand, without an object a message.

    columns = message_set.index()
    columns.offsets[n]                                          of message n
    columns.data[columns.value_at[n] :][: columns.value_size[n]]    its value; a size of -1 is null
    columns.values()                                            all of them as bytes

There are two forms of what finds them, with the same results (tests hold them equal).  The pure Python form always
works.  The compiled form comes with the extra `fast` (numba), is 10 to 60 times as quick and holds no GIL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkawire.errors import CorruptMessage

Column = Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The messages of one set, from its start on, as columns of equal length.

    A column is a list, or a memoryview of int64 where the compiled form made it: both are indexed, sliced and iterated
    alike, list(column) is a list of ints, and numpy.asarray(column) of the latter copies nothing.
    """

    offsets: Column
    key_at: Column  # first byte in data
    key_size: Column  # -1: null
    value_at: Column
    value_size: Column  # -1: null
    timestamps_ms: Column | None  # None where no message has one (format v0); -1 for a message without
    data: bytes  # what the positions point into: the set's plain entries and what its wrappers hold, opened
    resume_at: int  # what to commit once all of these are done
    damage: CorruptMessage | None  # what messages() would raise behind the last of them

    def __len__(self) -> int:
        return len(self.offsets)

    def keys(self) -> list[bytes | None]:
        return _cut(self.data, self.key_at, self.key_size)

    def values(self) -> list[bytes | None]:
        return _cut(self.data, self.value_at, self.value_size)


def _cut(data: bytes, starts: Column, sizes: Column) -> list[bytes | None]:
    return [data[at : at + size] if size >= 0 else None for at, size in zip(starts, sizes, strict=True)]


def kernels() -> str:
    """Which form runs: "python", or "numba" and its version."""
    return "python"
