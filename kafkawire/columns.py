"""A message set as columns: where the offsets, keys and values of its messages stand, without an object a message.

    columns = message_set.index()
    columns.offsets[n]                                          of message n
    columns.data[columns.value_at[n] :][: columns.value_size[n]]    its value; a size of -1 is null
    columns.values()                                            all of them as bytes

Two forms find them, with the same results (tests hold them equal): pure Python, and compiled.  kernels.py chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkawire.errors import CorruptMessage
from kafkawire.kernels import ready
from kafkawire.neighbours import column
from kafkawire.primitives import Bytes

Column = Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The messages of one set, from its start on, as columns of equal length.

    A column is a list, a range, or a memoryview of int64 where the compiled form made it: all are indexed, sliced and
    iterated alike, list(column) is a list of ints, and numpy.asarray(column) of the last copies nothing.
    """

    offsets: Column
    key_at: Column  # first byte in data
    key_size: Column  # -1: null
    value_at: Column
    value_size: Column  # -1: null
    timestamps_ms: Column | None  # None where no message has one (format v0); -1 for a message without
    timestamp_types: Column | None  # 0 as created, 1 as appended, -1 for a message without; None as timestamps_ms
    data: Bytes  # what the positions point into: the set's plain entries and what its wrappers hold, opened
    resume_at: int  # what to commit once all of these are done
    damage: CorruptMessage | None  # what messages() would raise behind the last of them

    def __len__(self) -> int:
        return len(self.offsets)

    def keys(self) -> list[bytes | None]:
        return cut(self.data, self.key_at, self.key_size)

    def values(self) -> list[bytes | None]:
        return cut(self.data, self.value_at, self.value_size)


def cut(data: Bytes, starts: Column, sizes: Column) -> list[bytes | None]:
    """The slices of data that begin and are as large as said; None for a size of -1."""
    quick = ready()
    if quick is not None and isinstance(starts, memoryview) and isinstance(sizes, memoryview):
        of_one_size = quick.cut(data, starts, sizes)
        if of_one_size is not None:
            return of_one_size
    # Most topics have no nulls, or nothing but nulls, as keys.
    sizes = as_list(sizes)
    if sizes.count(-1) == len(sizes):
        return [None] * len(sizes)
    if isinstance(starts, range) and sizes[0] >= 0:
        return _evenly_cut(data, starts, sizes[0])  # such starts are those of entries that are all alike
    starts, data = as_list(starts), bytes(data)  # lists are walked faster than memoryviews, bytes sliced faster
    if min(sizes) >= 0:
        return [data[at : at + size] for at, size in zip(starts, sizes, strict=True)]
    return [data[at : at + size] if size >= 0 else None for at, size in zip(starts, sizes, strict=True)]


def _evenly_cut(data: Bytes, starts: range, size: int) -> list[bytes | None]:
    """Equal slices at equal distances."""
    view = memoryview(data)[starts[0] : starts[-1] + size]
    found = column(f"{size}s{starts.step - size}x", view[: (len(starts) - 1) * starts.step])
    found.append(bytes(view[-size:]) if size else b"")
    return found


def as_list(column: Column) -> list[int]:
    """A column as a list: itself where it is one."""
    if isinstance(column, memoryview):
        return column.tolist()
    return column if isinstance(column, list) else list(column)
