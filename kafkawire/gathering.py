"""Keys or values of messages side by side in one buffer, as Arrow's binary arrays have them.

    part = Part(columns, 0, len(columns))           rows since..until of a set's columns
    found = gather([part, ...], Field.VALUE)
    found.data[found.ends[n] : found.ends[n + 1]]   of row n: ends are int32 of this machine

Two forms with the same results (kernels.py): the compiled one copies 8 GB/s and more and holds no GIL.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from kafkawire.columns import Column, Columns, as_list, cut
from kafkawire.errors import LocalError
from kafkawire.kernels import ready
from kafkawire.primitives import Bytes

if TYPE_CHECKING:
    from kafkawire.formats.compiled import Kernels, Slices

MOST_BYTES = (1 << 31) - 1  # what ends can say


class Field(Enum):
    KEY = "key"
    VALUE = "value"


class Part(NamedTuple):
    """Rows since..until of some columns."""

    columns: Columns
    since: int
    until: int

    def places(self, field: Field) -> tuple[Column, Column]:
        """Where all of them begin, and their sizes."""
        columns = self.columns
        if field is Field.KEY:
            return columns.key_at, columns.key_size
        return columns.value_at, columns.value_size


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """validity: a bit a row, lowest first, 0 for null; None where nothing is null."""

    data: Bytes
    ends: Bytes  # int32 from 0 on, one more than rows
    validity: Bytes | None
    nulls: int


@dataclass(frozen=True, slots=True, eq=False)
class Checksums:
    """CRC-32 of each key or value as int64; 0 of a null.  validity as in Gathered."""

    numbers: Bytes
    validity: Bytes | None
    nulls: int


def _fresh(size: int) -> memoryview:
    return memoryview(bytearray(size))


def gather(parts: Sequence[Part], field: Field, room: Callable[[int], memoryview] = _fresh) -> Gathered:
    """Keys or values of all rows of the parts.  room(size) gives the memory they are copied to, if it is asked.

    LocalError where they are 2 GiB or more.
    """
    return gather_by(ready(), parts, field, room)


def gather_by(
    kernels: Kernels | None, parts: Sequence[Part], field: Field, room: Callable[[int], memoryview] = _fresh
) -> Gathered:
    """The same by a form of one's choice; None: in pure Python."""
    if kernels is None:
        return _in_python(parts, field)
    slices = _slices(parts, field)
    size = kernels.total(slices)
    if size > MOST_BYTES:
        raise too_many(size)
    data = room(size) if size else memoryview(b"")
    return Gathered(data, *kernels.gather(slices, data))


def checksums(parts: Sequence[Part], field: Field = Field.VALUE) -> Checksums:
    """Those of the keys or values of all rows of the parts."""
    return checksums_by(ready(), parts, field)


def checksums_by(kernels: Kernels | None, parts: Sequence[Part], field: Field = Field.VALUE) -> Checksums:
    """The same by a form of one's choice; None: in pure Python."""
    if kernels is not None:
        return Checksums(*kernels.checksums(_slices(parts, field)))
    values = [value for part in parts for value in _items(part, field)]
    validity, nulls = _validity([-1 if value is None else 0 for value in values])
    return Checksums(array("q", [zlib.crc32(value or b"") for value in values]).tobytes(), validity, nulls)


def ascending(part: Part) -> bool:
    """Whether no offset of a part is smaller than the one before it, as offsets of a log are."""
    offsets, kernels = part.columns.offsets, ready()
    if kernels is not None and isinstance(offsets, memoryview):
        return kernels.ascending(offsets, part.since, part.until)
    numbers = as_list(offsets[part.since : part.until])
    return numbers == sorted(numbers)


def _slices(parts: Sequence[Part], field: Field) -> list[Slices]:
    return [(part.columns.data, *part.places(field), part.since, part.until) for part in parts]


def too_many(size: int) -> LocalError:
    return LocalError(f"{size} bytes of keys or values do not fit into one array of at most {MOST_BYTES}")


# ---- in pure Python --------------------------------------------------------------------------------------------


def _in_python(parts: Sequence[Part], field: Field) -> Gathered:
    data: list[bytes] = []
    sizes: list[int] = []
    for part in parts:
        more = as_list(part.places(field)[1][part.since : part.until])
        if more and max(more) > 0:
            data += filter(None, _items(part, field))
        sizes += more
    validity, nulls = _validity(sizes)
    return Gathered(b"".join(data), _ends(sizes, nulls), validity, nulls)


def _items(part: Part, field: Field) -> list[bytes | None]:
    starts, sizes = part.places(field)
    return cut(part.columns.data, starts[part.since : part.until], sizes[part.since : part.until])


def _ends(sizes: list[int], nulls: int) -> bytes:
    if nulls == len(sizes):
        return bytes(4 * (len(sizes) + 1))
    if nulls:
        sizes = [max(0, size) for size in sizes]
    if sizes[0] and sizes.count(sizes[0]) == len(sizes):
        ends: Sequence[int] = range(0, sizes[0] * len(sizes) + 1, sizes[0])
    else:
        ends = list(accumulate(sizes, initial=0))
    if ends[-1] > MOST_BYTES:
        raise too_many(ends[-1])
    return array("i", ends).tobytes()


def _validity(sizes: list[int]) -> tuple[bytes | None, int]:
    nulls = sizes.count(-1)
    if not nulls:
        return None, 0
    room = (len(sizes) + 7) // 8
    if nulls == len(sizes):
        return bytes(room), nulls
    bits = "".join("0" if size < 0 else "1" for size in reversed(sizes))
    return int(bits, 2).to_bytes(room, "little"), nulls
