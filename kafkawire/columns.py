"""Message set as columns: positions of its offsets, keys and values, without one object per message.

    columns = message_set.index()
    columns.offsets[n]                                              of message n
    columns.data[columns.value_at[n] :][: columns.value_size[n]]    its value; a size of -1 is null
    columns.values()                                                all of them as bytes

    part = Part(columns, 0, len(columns))           rows since..until of a set's columns
    found = gather([part, ...], Field.VALUE)        keys or values side by side, as Arrow's binary arrays have them
    found.data[found.ends[n] : found.ends[n + 1]]   of row n: ends are int32 of this machine

Both have two implementations with the same results (tests compare them), pure Python and compiled; kernels.py chooses.
The compiled copy does 8 GB/s and more and holds no GIL.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import accumulate, chain, compress, count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from kafkawire.errors import CorruptMessage, LocalError
from kafkawire.kernels import ready
from kafkawire.primitives import Bytes

if TYPE_CHECKING:
    from kafkawire.formats.compiled import Kernels, Slices

T = TypeVar("T")

FEW = 8  # entries; fewer are quicker to read one by one
_BLOCK = 64
_FEW_KINDS = 4  # for more, one loop over the items is faster than one pass per kind
_GLANCE = 64  # entries that are compared first
_BEHIND_ITSELF = 0x2144DF1C  # CRC-32 of any bytes followed by their own CRC-32, lowest byte first
_TO_BEGIN = 0x6DD90A9D  # four bytes must equal this xor the CRC-32 of all before them for the CRC-32 after them to be 0


def alike(data: Bytes, at: int, step: int, count: int, places: Iterable[int]) -> int:
    """Return how many of the first `count` entries of `step` bytes have the same bytes as the first one at these
    places."""
    places = tuple(places)
    if count > _GLANCE:  # if sizes change every few entries, all following entries would be compared repeatedly
        few = _alike(data, at, step, _GLANCE, places)
        if few < _GLANCE:
            return few
    return _alike(data, at, step, count, places)


def _alike(data: Bytes, at: int, step: int, count: int, places: Iterable[int]) -> int:
    for place in places:
        first = bytes(data[at + place : at + place + 1])
        column = bytes(data[at + place : at + count * step : step])
        if column != first * count:  # comparing all at once is quicker than one by one
            count = len(column) - len(column.lstrip(first))
    return count


def column(layout: str, view: Bytes) -> list[Any]:
    """Return one field of each struct of this layout, laid side by side in a view."""
    one, many = _structs(layout)
    view = memoryview(view)
    blocks = len(view) // many.size * many.size
    found: list[Any] = []
    for block in many.iter_unpack(view[:blocks]):  # avoids a tuple and a loop step per struct
        found += block
    found += [field for (field,) in one.iter_unpack(view[blocks:])]
    return found


def sorted_out(items: Iterable[T], kinds: Column, count: int) -> list[list[T]]:
    """Return the items of each of `count` kinds, in order. kinds: the number of each item's kind, starting at 0."""
    if isinstance(kinds, bytes) and count <= _FEW_KINDS:
        return [list(compress(items, kinds.translate(_chosen(kind)))) for kind in range(count)]
    found: list[list[T]] = [[] for _ in range(count)]
    for add, item in zip(map([one.append for one in found].__getitem__, kinds), items, strict=False):
        add(item)
    return found


@lru_cache(maxsize=8)
def _chosen(kind: int) -> bytes:
    return bytes(n == kind for n in range(256))


def in_order(columns: Sequence[Iterable[T]], kinds: bytes | None) -> list[T]:
    """Return fields of each kind as one column. kinds: the kind of each row; None: there is one kind."""
    if kinds is None:
        return list(columns[0])
    return list(map(next, map([iter(column) for column in columns].__getitem__, kinds)))


@lru_cache(maxsize=256)
def _structs(layout: str) -> tuple[struct.Struct, struct.Struct]:
    return struct.Struct(">" + layout), struct.Struct(">" + layout * _BLOCK)


def are_right(data: bytes, begin: int, step: int, count: int, crc_at: int, unlike: Iterable[int] = ()) -> bool:
    """True if the checksums of adjacent entries are right; each is at crc_at and covers the bytes after it.  One
    checksum over all entries checks them, in a third of the time for short ones.

    unlike: the places before crc_at, beginning with the fourth, whose bytes differ between entries.

    Bytes followed by their own CRC leave the CRC register in a constant state, and four suitable bytes lead from there
    back to the initial state.  So, in a copy, each checksum is put after the bytes that it covers, and those four bytes
    take its place; then the checksum of the whole equals that of the last entry alone.  A single wrong checksum is
    always found; several at once cancel each other with a probability of 2^-32.
    """
    end, head = begin + count * step, crc_at + 4
    run = bytearray(memoryview(data)[begin + head : end])
    gap = step - head  # where the bytes that the first checksum covers end
    for n in range(4):
        run[gap + n :: step] = data[begin + crc_at + 3 - n : end - step : step]
    nothing = bytes(count - 1)
    for place in unlike:
        run[gap + place :: step] = nothing
    reached = zlib.crc32(run[gap + 4 : gap + crc_at], _BEHIND_ITSELF)
    for n, byte in enumerate((reached ^ _TO_BEGIN).to_bytes(4, "little")):
        run[gap + crc_at + n :: step] = bytes((byte,)) * (count - 1)
    return zlib.crc32(run) == int.from_bytes(data[end - step + crc_at : end - step + head], "big")


class Later(Sequence[T]):
    """Column of a given length that is computed when an item is first read."""

    __slots__ = ("_count", "_made", "_make")

    def __init__(self, count: int, make: Callable[[], list[T]]) -> None:
        self._count, self._make = count, make
        self._made: list[T] | None = None

    def made(self) -> list[T]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return iter(self.made())

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        return self.made()[at]


Column = Sequence[int]


@dataclass(frozen=True, slots=True)
class Alike:
    """Shape of `count` entries of `step` bytes starting at byte `begin`; places are relative to the beginning of an
    entry."""

    begin: int
    count: int
    step: int
    key_at: int
    key_size: int  # -1: null
    value_at: int
    value_size: int  # -1: null

    @property
    def end(self) -> int:
        return self.begin + self.count * self.step


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Plain entries, without attributes, that contain the rows, as the pure Python implementation separates them.

    all: an entry a row; overhead: bytes of one besides key and value.  alike: for each shape, the bytes of its entries
    side by side in order. kinds: the shape of each row, None if there is one shape.  Both are missing once rows were
    reordered.
    """

    all: Sequence[bytes]
    overhead: int
    alike: Sequence[tuple[bytes, Alike]] = ()
    kinds: bytes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Messages of one set, from its start, as columns of equal length.

    A column is a list, a range, or a memoryview of int64 if compiled code made it.  All three are indexed, sliced and
    iterated the same way; list(column) is a list of ints, and numpy.asarray() of a memoryview copies nothing.
    """

    offsets: Column
    key_at: Column  # first byte in data
    key_size: Column  # -1: null
    value_at: Column
    value_size: Column  # -1: null
    timestamps_ms: Column | None  # None if no message has one (format v0); -1 for a message without
    timestamp_types: Column | None  # 0 as created, 1 as appended, -1 for a message without; None as timestamps_ms
    data: Bytes  # bytes that the positions refer to: the set's plain entries and its decompressed wrappers
    resume_at: int  # offset to commit once all of these are done
    damage: CorruptMessage | None  # what messages() would raise after the last of them
    header_at: Column | None = None  # first byte in data of a message's block of headers; None: no headers
    header_size: Column | None = None  # 0: no headers; otherwise see kafkawire.headers
    entry_magic: int | None = None  # format (v0 or v1) if all rows are in plain entries in data; None: otherwise
    entries: Entries | None = None  # those entries, if they are separated already

    def __len__(self) -> int:
        return len(self.offsets)

    def keys(self) -> list[bytes | None]:
        return cut(self.data, self.key_at, self.key_size)

    def values(self) -> list[bytes | None]:
        return cut(self.data, self.value_at, self.value_size)

    def headers(self) -> list[bytes | None] | None:
        """Return the blocks of headers, None for a message without; None alone: no message has headers."""
        return Part(self, 0, len(self)).headers()


def laid(
    kernels: Kernels,
    keys: Sequence[Bytes | None],
    values: Sequence[Bytes | None],
    timestamps_ms: Sequence[int] | None,
    headers: Sequence[Bytes | None] | None,
) -> Columns:
    """Return messages in lists of equal length as columns, their bytes side by side, offsets starting at 0.

    timestamps_ms, headers: None: no message has any.
    """
    count = len(keys)
    key, value = kernels.laid(keys), kernels.laid(values)
    block = None if headers is None else kernels.laid(headers)
    pieces = [one.data for one in (key, value, block) if one is not None and one.data]
    value_at = kernels.moved(value.starts, len(key.data)) if key.data else value.starts
    return Columns(
        offsets=range(count),
        key_at=key.starts,
        key_size=key.sizes,
        value_at=value_at,
        value_size=value.sizes,
        timestamps_ms=None if timestamps_ms is None else kernels.numbers(timestamps_ms),
        timestamp_types=None if timestamps_ms is None else kernels.numbers([0] * count),
        data=pieces[0] if len(pieces) == 1 else b"".join(pieces),
        resume_at=count,
        damage=None,
        header_at=None if block is None else kernels.moved(block.starts, len(key.data) + len(value.data)),
        header_size=None if block is None else block.sizes,
    )


def cut(data: Bytes, starts: Column, sizes: Column) -> list[bytes | None]:
    """Return the slices of data with these starts and sizes; None for a size of -1."""
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
        return _evenly_cut(data, starts, sizes[0])  # these starts belong to entries of one shape
    starts, data = as_list(starts), bytes(data)  # lists are walked faster than memoryviews, bytes sliced faster
    if min(sizes) >= 0:
        return [data[at : at + size] for at, size in zip(starts, sizes, strict=True)]
    return [data[at : at + size] if size >= 0 else None for at, size in zip(starts, sizes, strict=True)]


def _evenly_cut(data: Bytes, starts: range, size: int) -> list[bytes | None]:
    """Return equal slices at equal distances."""
    view = memoryview(data)[starts[0] : starts[-1] + size]
    found = column(f"{size}s{starts.step - size}x", view[: (len(starts) - 1) * starts.step])
    found.append(bytes(view[-size:]) if size else b"")
    return found


def as_list(column: Column) -> list[int]:
    """Return a column as a list: the column itself if it is one."""
    if isinstance(column, memoryview):
        return column.tolist()
    if isinstance(column, Later):
        return column.made()
    return column if isinstance(column, list) else list(column)


MOST_BYTES = (1 << 31) - 1  # largest value of `ends`


class Field(Enum):
    KEY = "key"
    VALUE = "value"


class Part(NamedTuple):
    """Rows since..until of a set's columns."""

    columns: Columns
    since: int
    until: int

    def places(self, field: Field) -> tuple[Column, Column]:
        """Return where the keys or values of the rows begin, and their sizes."""
        columns = self.columns
        if field is Field.KEY:
            return columns.key_at, columns.key_size
        return columns.value_at, columns.value_size

    def keys(self) -> list[bytes | None]:
        return _items(self, Field.KEY)

    def values(self) -> list[bytes | None]:
        return _items(self, Field.VALUE)

    def timestamps_ms(self) -> Sequence[int | None]:
        """Return timestamps: None for each message if the format has none, -1 for a message without."""
        stamps = self.columns.timestamps_ms
        return [None] * (self.until - self.since) if stamps is None else as_list(stamps[self.since : self.until])

    def headers(self) -> list[bytes | None] | None:
        """Return the blocks of headers, None for a message without; None alone: no message has headers."""
        starts, sizes = self.columns.header_at, self.columns.header_size
        if starts is None or sizes is None:
            return None
        data, rows = memoryview(self.columns.data), slice(self.since, self.until)
        places = zip(as_list(starts[rows]), as_list(sizes[rows]), strict=True)
        return [bytes(data[at : at + size]) if size > 0 else None for at, size in places]


def numbered(parts: Sequence[Part]) -> list[tuple[int, bytes | None, bytes | None, int | None]]:
    """Return rows as formats encode them: a number starting at 0, key, value, timestamp."""
    columns = (chain.from_iterable(map(of, parts)) for of in (Part.keys, Part.values, Part.timestamps_ms))
    return list(zip(count(), *columns, strict=False))


def headers_of(parts: Sequence[Part]) -> list[bytes | None] | None:
    """Return the blocks of headers of all rows; None: no message has headers."""
    blocks = [part.headers() for part in parts]
    if all(one is None for one in blocks):
        return None
    rows = (part.until - part.since for part in parts)
    return [block for one, n in zip(blocks, rows, strict=True) for block in (one or [None] * n)]


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """Keys or values side by side. validity: one bit per row, lowest first, 0 for null; None if nothing is null."""

    data: Bytes
    ends: Bytes  # int32 starting at 0, one more than rows
    validity: Bytes | None
    nulls: int


@dataclass(frozen=True, slots=True, eq=False)
class Checksums:
    """CRC-32 of each key or value as int64, 0 for a null. validity: one bit per row, 0 for null; None if nothing is
    null."""

    numbers: Bytes
    validity: Bytes | None
    nulls: int


def _fresh(size: int) -> memoryview:
    return memoryview(bytearray(size))


def gather(parts: Sequence[Part], field: Field, room: Callable[[int], memoryview] = _fresh) -> Gathered:
    """Copy the keys or values of all rows of the parts side by side. room(size) is called for the memory to copy to.

    Raises LocalError for 2 GiB or more.
    """
    return gather_by(ready(), parts, field, room)


def gather_by(
    kernels: Kernels | None, parts: Sequence[Part], field: Field, room: Callable[[int], memoryview] = _fresh
) -> Gathered:
    """Copy the keys or values of all rows of the parts side by side with these kernels; None: in pure Python."""
    if kernels is None:
        return _in_python(parts, field)
    slices = _slices(parts, field)
    size = kernels.total(slices)
    if size > MOST_BYTES:
        raise too_many(size)
    data = room(size) if size else memoryview(b"")
    return Gathered(data, *kernels.gather(slices, data))


def checksums(parts: Sequence[Part], field: Field = Field.VALUE) -> Checksums:
    """Return checksums of the keys or values of all rows of the parts."""
    return checksums_by(ready(), parts, field)


def checksums_by(kernels: Kernels | None, parts: Sequence[Part], field: Field = Field.VALUE) -> Checksums:
    """Return checksums of the keys or values of all rows of the parts, with these kernels; None: in pure Python."""
    if kernels is not None:
        return Checksums(*kernels.checksums(_slices(parts, field)))
    values = [value for part in parts for value in _items(part, field)]
    validity, nulls = _validity([-1 if value is None else 0 for value in values])
    return Checksums(array("q", [zlib.crc32(value or b"") for value in values]).tobytes(), validity, nulls)


def ascending(part: Part) -> bool:
    """True if the offsets of a part never decrease, as in a log."""
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
