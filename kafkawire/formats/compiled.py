"""Compiled (numba, extra `fast`) loops over messages.  kernels.py imports it.

The loops hold no GIL.  Each format has its own loops over its entries (v07/loops.py, v01/loops.py); checksums.py has
CRC-32.  This module loads them, and copies keys and values side by side:

starts, sizes   of one column of kafkawire.columns, from row `since` to `until`; a size of -1 is null
out             bytes, filled from `at` on
ends            int32, one more than rows: row n is out[ends[n] : ends[n + 1]]
bits            one bit per row, lowest first, set if it is not null; must be zero initially
"""

from __future__ import annotations

import hashlib
import logging
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types

from groundwork.durable import FOLDER, make_folder
from kafkawire.errors import LocalError
from kafkawire.formats import checksums, keyloops, memory
from kafkawire.formats.checksums import best, tables
from kafkawire.formats.memory import copy
from kafkawire.formats.v01 import loops as v08
from kafkawire.formats.v01 import writeloops as v08write
from kafkawire.formats.v01.loops import DAMAGED, FIELDS, TIMED, TOO_LARGE, UNTIMED
from kafkawire.formats.v01.writeloops import ENTRY_BYTES
from kafkawire.formats.v07 import loops as v07
from kafkawire.formats.v2 import loops as v2
from kafkawire.formats.v2 import writeloops as v2write
from kafkawire.formats.v2.writeloops import RECORD_BYTES
from kafkawire.primitives import Bytes


def gather(
    data: Any, starts: Any, sizes: Any, since: Any, until: Any, out: Any, at: Any, ends: Any, row: Any, bits: Any
) -> tuple[Any, Any]:
    """Return (end of the filled part of out, number of nulls)."""
    nulls = 0
    for n in range(since, until):
        size = sizes[n]
        if size >= 0:
            copy(out, at, data, starts[n], size)
            at += size
            bits[row >> 3] |= np.uint8(1 << (row & 7))
        else:
            nulls += 1
        row += 1
        ends[row] = at
    return at, nulls


def total(sizes: Any, since: Any, until: Any) -> Any:
    """Return the total bytes of the values that are not null."""
    found = np.int64(0)
    for n in range(since, until):
        found += max(sizes[n], 0)
    return found


def alike(starts: Any, sizes: Any) -> tuple[Any, Any]:
    """Return (the common size of at least one slice, or -2; the common distance between starts, or 0)."""
    size, last = sizes[0], starts.shape[0] - 1
    step = starts[1] - starts[0] if last else max(size, 1)
    same, even = True, True
    for n in range(last):
        same &= sizes[n + 1] == size
        even &= starts[n + 1] - starts[n] == step
    return size if same else -2, step if even else 0


def ascends(numbers: Any, since: Any, until: Any) -> Any:
    """Return True if no number is smaller than the one before it."""
    down = 0
    for n in range(since + 1, until):
        down += numbers[n] < numbers[n - 1]
    return down == 0


log = logging.getLogger(__name__)

# Rows since..until of slices: (data, starts, sizes, since, until).  Row n begins at starts[n]; a size of -1 is null.
Slices = tuple[Bytes, Sequence[int], Sequence[int], int, int]

_SMALL = 512  # maximum size of a slice for this; larger ones would be copied twice in vain
_TABLES = tables()
_NOTHING = np.empty(0, np.int64)
_MODULES = (checksums, memory, keyloops, v07, v08, v08write, v2, v2write)  # modules with compiled functions


def _sums(data: Any, starts: Any, sizes: Any, since: Any, until: Any, out: Any, row: Any, bits: Any, table: Any) -> Any:
    """Write checksums of values to out from `row`, and set bits of those that are not null; return the number of
    nulls."""
    nulls = 0
    for n in range(since, until):
        if sizes[n] >= 0:
            out[row] = np.int64(_crc(data, starts[n], starts[n] + sizes[n], table))
            bits[row >> 3] |= np.uint8(1 << (row & 7))
        else:
            out[row] = 0
            nulls += 1
        row += 1
    return nulls


class Loops(NamedTuple):
    """Compiled functions."""

    entries: Callable[[Any, Any, Any, bool, Any], tuple[int, int, int, int]]
    hop: Callable[[Any, int, int, int, int, bool], tuple[int, int, int]]
    gather: Callable[[Any, Any, Any, int, int, Any, int, Any, int, Any], tuple[int, int]]
    total: Callable[[Any, int, int], int]
    alike: Callable[[Any, Any], tuple[int, int]]
    ascends: Callable[[Any, int, int], bool]
    sums: Callable[[Any, Any, Any, int, int, Any, int, Any, Any], int]
    entries07: Callable[[Any, Any, Any, bool, Any], tuple[int, int, int]]
    hop07: Callable[[Any, int, int, int], tuple[int, int]]
    records: Callable[..., tuple[int, int]]
    records2: Callable[[Any, Any, Any], tuple[int, int, int, int]]
    entries01: Callable[..., tuple[int, int]]
    indexes: Callable[..., int]
    grouped: Callable[..., None]


class Kernels:
    """Compiled loops, called with Python objects."""

    def __init__(self, loops: Loops) -> None:
        self._loops = loops

    def hop(self, buffer: Bytes, at: int, kind: int, least: int, last: int | None = None) -> tuple[int, int, int]:
        """Skip complete entries of one kind (magic and attributes) with a size of at least `least`: see v08.kernels.

        last: stop where offsets no longer ascend from it; None: do not check offsets.
        """
        return self._loops.hop(_octets(buffer), at, kind, least, last or 0, last is not None)

    def room(self, size: int) -> memoryview:
        """Return `size` uninitialized bytes: a bytearray would be filled with zeros first."""
        return np.empty(size, np.uint8).data

    def cut(self, data: Bytes, starts: memoryview, sizes: memoryview) -> list[bytes | None] | None:
        """Return slices of one size, in a third of the time of slicing; None if sizes differ or it would not help."""
        if not len(sizes):
            return None
        places = np.asarray(starts)
        size, step = self._loops.alike(places, np.asarray(sizes))
        if size == -1:
            return [None] * len(places)
        if size <= 0:
            return None
        if step:
            evenly: list[bytes | None] = np.ndarray((len(places),), f"V{size}", data, starts[0], (step,)).tolist()
            return evenly
        if size > _SMALL:
            return None
        # An item of `size` bytes at every byte: indexing copies each item at once.
        windows = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
        taken: list[bytes | None] = windows[places].tolist()
        return taken

    def index(self, data: Bytes, rows: list[tuple[int, ...]], most: int, check: bool, timed: bool) -> Found | None:
        """Index the messages of segments, at most `most`; None if an offset does not fit int64.

        timed: any of the segments has format v1.
        """
        try:
            segments = np.array(rows, dtype=np.int64).reshape(len(rows), FIELDS)
        except OverflowError:
            return None
        out = np.empty((TIMED if timed else UNTIMED, most), dtype=np.int64)
        count, outcome, segment, at = self._loops.entries(_octets(data), segments, out, check, _TABLES)
        if outcome == TOO_LARGE:
            return None
        columns = [row[:count].data for row in out]
        return Found(columns, (segment, at) if outcome == DAMAGED else None)

    def hop07(self, buffer: Bytes, at: int, magic: int, limit: int) -> tuple[int, int]:
        """Skip complete plain 0.7 entries of one format that begin before `limit`: see v07.kernels."""
        return self._loops.hop07(_octets(buffer), at, magic, limit)

    def index07(self, data: Bytes, rows: list[tuple[int, ...]], most: int, check: bool) -> Found | None:
        """Index the messages of all 0.7 segments; None if an offset does not fit int64."""
        try:
            segments = np.array(rows, dtype=np.int64).reshape(len(rows), v07.FIELDS)
        except OverflowError:
            return None
        out = np.empty((v07.COLUMNS, most), dtype=np.int64)
        count, segment, at = self._loops.entries07(_octets(data), segments, out, check, _TABLES)
        return Found([row[:count].data for row in out], None if segment < 0 else (segment, at))

    def index2(self, data: Bytes, rows: list[tuple[int, ...]], most: int) -> tuple[Found, bool]:
        """Index the messages of record batches, at most `most`, and return whether any has headers: see v2.loops.

        Every number has to fit int64.
        """
        segments = np.array(rows, dtype=np.int64).reshape(len(rows), v2.FIELDS)
        out = np.empty((v2.COLUMNS, most), dtype=np.int64)
        count, with_headers, segment, at = self._loops.records2(_octets(data), segments, out)
        return Found([row[:count].data for row in out], None if segment < 0 else (segment, at)), with_headers > 0

    def total(self, slices: Sequence[Slices]) -> int:
        """Return the total bytes of all slices."""
        return sum(self._loops.total(_numbers(sizes), since, until) for _, _, sizes, since, until in slices)

    def gather(self, slices: Sequence[Slices], data: memoryview) -> Gathered:
        """Copy all slices side by side into `data`, which is as large as total() says."""
        rows = sum(until - since for *_, since, until in slices)
        out = np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
        ends, bits = np.zeros(rows + 1, np.int32), np.zeros(-(-rows // 8), np.uint8)
        at = row = nulls = 0
        for source, starts, sizes, since, until in slices:
            columns = _octets(source), _numbers(starts), _numbers(sizes)
            at, more = self._loops.gather(*columns, since, until, out, at, ends, row, bits)
            row += until - since
            nulls += more
        return Gathered(ends.data, bits.data if nulls else None, nulls)

    def checksums(self, slices: Sequence[Slices]) -> Checksums:
        """Return the CRC-32 of each slice."""
        rows = sum(until - since for *_, since, until in slices)
        out, bits = np.empty(rows, np.int64), np.zeros(-(-rows // 8), np.uint8)
        row = nulls = 0
        for source, starts, sizes, since, until in slices:
            columns = _octets(source), _numbers(starts), _numbers(sizes)
            nulls += self._loops.sums(*columns, since, until, out, row, bits, _TABLES)
            row += until - since
        return Checksums(out.data, bits.data if nulls else None, nulls)

    def records(self, parts: Sequence[Any]) -> Records:
        """Encode rows of columns as the records of a batch."""
        laid, size, total = [], 0, self._loops.total
        for columns, since, until in parts:
            places = (columns.key_at, columns.key_size, columns.value_at, columns.value_size, columns.timestamps_ms)
            found = [_NOTHING if one is None else _numbers(one) for one in (*places, columns.header_at)]
            sizes = _NOTHING if columns.header_size is None else _numbers(columns.header_size)
            laid.append((_octets(columns.data), *found, sizes, since, until))
            size += (until - since) * RECORD_BYTES + total(found[1], since, until) + total(found[3], since, until)
            size += total(sizes, since, until) if len(sizes) else 0
        out = np.empty(size, np.uint8)
        stamps, since = laid[0][5], laid[0][8]
        first = max(int(stamps[since]), -1) if len(stamps) else -1
        at = number = 0
        newest = -1
        for rows in laid:
            at, largest = self._loops.records(*rows, number, first, out, at)
            newest = max(newest, largest)
            number += rows[9] - rows[8]
        return Records(out[:at].data, number, first, newest)

    def entries(self, parts: Sequence[Any], magic: int, numbered: bool) -> tuple[memoryview, int]:
        """Encode rows of columns as plain entries of format v0 or v1, and return the largest timestamp, too: see
        v08write."""
        laid, size, total = [], 0, self._loops.total
        for columns, since, until in parts:
            times = columns.timestamps_ms, columns.timestamp_types
            places = (columns.key_at, columns.key_size, columns.value_at, columns.value_size, *times)
            found = [_NOTHING if one is None else _numbers(one) for one in places]
            kept = columns.entry_magic == magic and (magic == 0 or None not in times)
            laid.append((_octets(columns.data), *found, kept, numbered, since, until))
            size += (until - since) * ENTRY_BYTES + total(found[1], since, until) + total(found[3], since, until)
        out = np.empty(size, np.uint8)
        at = number = 0
        newest = -1
        for rows in laid:
            at, largest = self._loops.entries01(*rows, magic, number, out, at, _TABLES)
            newest = max(newest, largest)
            number += rows[10] - rows[9]
        return out[:at].data, newest

    def laid(self, items: Sequence[Bytes | None]) -> Laid:
        """Lay the items of a list side by side."""
        nulls = items.count(None)
        if not nulls:
            data = b"".join(items)  # type: ignore[arg-type]  # as none is None
            sizes = np.fromiter(map(len, items), np.int64, len(items))  # type: ignore[arg-type]
            there = sizes
        elif nulls == len(items):
            nothing = np.full(nulls, -1, np.int64).data
            return Laid(b"", nothing, nothing)
        else:
            data = b"".join([item for item in items if item is not None])
            sizes = np.fromiter((-1 if item is None else len(item) for item in items), np.int64, len(items))
            there = np.maximum(sizes, 0)
        return Laid(data, (there.cumsum() - there).data, sizes.data)

    def moved(self, places: memoryview, by: int) -> memoryview:
        """Return positions shifted by `by` bytes."""
        moved: memoryview = (np.asarray(places) + by).data
        return moved

    def numbers(self, column: Sequence[int]) -> memoryview:
        """Return a column as an array.  Raises LocalError for a value that is not an integer of 64 bits."""
        try:
            found: memoryview = _numbers(column).data
        except (OverflowError, TypeError, ValueError) as exc:
            raise LocalError(f"a message does not fit: a timestamp is a whole number of 64 bits: {exc}") from exc
        return found

    def indexes(self, columns: Any, end: int, rule: int, groups: int, keyless: int) -> tuple[memoryview, int]:
        """Return the partition index of each key in the first rows, and the smallest index: see kafkawire.keyhashes.

        keyless: index for a row without a key.
        """
        out = np.empty(end, np.int64)
        places = _octets(columns.data), _numbers(columns.key_at), _numbers(columns.key_size)
        least = self._loops.indexes(*places, 0, end, rule, groups, keyless, out)
        return out.data, least

    def grouped(self, columns: Any, found: Sequence[int], groups: int) -> tuple[Any, list[int], list[int]]:
        """Return (the first rows ordered by group, the begins of the groups and the end of the last, bytes of each)."""
        rows, headed = _numbers(found), columns.header_size
        firsts, sizes = np.zeros(groups + 1, np.int64), np.zeros(groups, np.int64)
        order = np.empty(len(rows), np.int64)
        of_rows = _numbers(columns.key_size), _numbers(columns.value_size)
        self._loops.grouped(rows, *of_rows, _NOTHING if headed is None else _numbers(headed), firsts, sizes, order)
        return order, firsts.tolist(), sizes.tolist()

    def taken(self, column: Sequence[int], order: Any) -> memoryview:
        """Return the rows of a column in another order."""
        taken: memoryview = _numbers(column).take(order).data
        return taken

    def ascending(self, offsets: Sequence[int], since: int, until: int) -> bool:
        """Return True if no offset is smaller than the one before it."""
        return self._loops.ascends(_numbers(offsets), since, until)


class Gathered(NamedTuple):
    """Values side by side. ends: int32 starting at 0, one more than rows. validity: one bit per row, lowest first; None
    if nothing is null."""

    ends: memoryview
    validity: memoryview | None
    nulls: int


class Checksums(NamedTuple):
    """Checksums of values. numbers: int64, 0 for a null. validity: one bit per row, 0 for null; None if nothing is
    null."""

    numbers: memoryview
    validity: memoryview | None
    nulls: int


class Laid(NamedTuple):
    """Values side by side: their bytes, begins and sizes; size -1: null."""

    data: bytes
    starts: memoryview
    sizes: memoryview


class Records(NamedTuple):
    """Encoded records of a batch, their number, first and largest timestamp; -1: none."""

    data: memoryview
    rows: int
    first_timestamp_ms: int
    max_timestamp_ms: int


class Found(NamedTuple):
    columns: list[memoryview]
    damaged: tuple[int, int] | None  # segment and position of the first damage


def _octets(buffer: Bytes) -> Any:
    """Return a buffer in the form that the kernels were compiled for: read only."""
    octets = np.frombuffer(buffer, np.uint8)
    octets.flags.writeable = False
    return octets


def _numbers(column: Sequence[int]) -> Any:
    return np.asarray(column, dtype=np.int64)


def load(cache: Path | None) -> Kernels:
    """Compile the kernels (one to a few seconds), or load them from the folder `cache`, if any (0.2 s).

    Raises RuntimeError if a compiled kernel computes wrong results.
    """
    if cache is not None:
        before, own = numba.config.CACHE_DIR, cache / _sources()
        numba.config.CACHE_DIR = str(own)
        try:
            make_folder(own)
            own.chmod(FOLDER)  # numba creates folders by the umask, which may let a group write
            return _checked(_build(cache=True))
        except Exception as exc:  # a full disk, a file truncated by a crash: numba raises any exception
            log.warning("compiled kernels in %s cannot be used: %s; compiling for this process only", cache, exc)
        finally:
            numba.config.CACHE_DIR = before
    return _checked(_build(cache=False))


def _sources() -> str:
    """Return a name for the compiled sources. numba checks the file of a function, but not those of the functions that
    it calls."""
    files = [__file__, *(str(module.__file__) for module in _MODULES)]
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()[:16]


def _build(cache: bool) -> Kernels:
    global _crc
    octets = types.Array(types.uint8, 1, "C", readonly=True)
    table = types.Array(types.uint32, 2, "C")
    numbers = types.Array(types.int64, 2, "C")
    options = {"nogil": True, "cache": cache}
    _crc = v07.crc = v08.crc = v08write.crc = numba.njit(
        types.uint64(octets, types.int64, types.int64, table), **options
    )(best())
    column, i64, bits = types.int64[::1], types.int64, types.uint8[::1]
    two, three, four = (types.UniTuple(i64, n) for n in (2, 3, 4))
    of_rows = (octets, column, column, i64, i64)
    v2write.put_number = numba.njit(i64(bits, i64, i64), **options)(v2write.put)
    v2write.length_of = numba.njit(i64(i64), **options)(v2write.length)
    kinds = Loops(
        entries=four(octets, numbers, numbers, types.boolean, table),
        hop=three(octets, i64, i64, i64, i64, types.boolean),
        gather=two(*of_rows, bits, i64, types.int32[::1], i64, bits),
        total=i64(column, i64, i64),
        alike=two(column, column),
        ascends=types.boolean(column, i64, i64),
        sums=i64(*of_rows, column, i64, bits, table),
        entries07=three(octets, numbers, numbers, types.boolean, table),
        hop07=two(octets, i64, i64, i64),
        records=two(octets, *[column] * 7, i64, i64, i64, i64, bits, i64),
        records2=four(octets, numbers, numbers),
        entries01=two(octets, *[column] * 6, types.boolean, types.boolean, i64, i64, i64, i64, bits, i64, table),
        indexes=i64(octets, column, column, i64, i64, i64, i64, i64, column),
        grouped=types.void(*[column] * 7),
    )
    loops = Loops(
        v08.index,
        v08.hop,
        gather,
        total,
        alike,
        ascends,
        _sums,
        v07.index,
        v07.hop,
        v2write.records,
        v2.index,
        v08write.entries,
        keyloops.indexes,
        keyloops.grouped,
    )
    return Kernels(Loops(*(numba.njit(kind, **options)(loop) for kind, loop in zip(kinds, loops, strict=True))))


_crc: Any = None  # the compiled checksum that _sums calls; the loops of each generation have it, too


def _checked(made: Kernels) -> Kernels:
    """Return the kernels after one comparison with zlib: a cache may have been compiled elsewhere."""
    for size in (49, 1049):  # short and long messages use different algorithms
        value = bytes(n % 251 for n in range(size))
        body = b"\x00\x00\xff\xff\xff\xff" + size.to_bytes(4, "big") + value
        start = (7).to_bytes(8, "big") + (len(body) + 4).to_bytes(4, "big")
        entry = start + zlib.crc32(body).to_bytes(4, "big") + body
        found = made.index(entry, [(0, len(entry), 0, 0, 0, 0, 0, 0, 0)], 1, True, False)
        right = found is not None and not found.damaged and [x[0] for x in found.columns] == [7, 22, -1, 26, size]
        if not right or made.hop(entry, 0, 0, 14) != (len(entry), 1, 7):
            raise RuntimeError("a compiled kernel computes wrong results")
        entry = (size + 6).to_bytes(4, "big") + b"\1\0" + zlib.crc32(value).to_bytes(4, "big") + value
        found = made.index07(entry, [(0, len(entry), -1, 7, 0, 0)], 1, True)
        right = found is not None and not found.damaged and [x[0] for x in found.columns] == [7, 10, size]
        if not right or made.hop07(entry, 0, -1, 1) != (len(entry), 1):
            raise RuntimeError("a compiled kernel of 0.7 computes wrong results")
    record = bytes((24, 0, 1, 2, 2)) + b"k" + bytes((4,)) + b"vv" + bytes((2, 2)) + b"h" + bytes((1,))  # with a header
    packed, any_headers = made.index2(record, [(0, len(record), 1, 0, 7, 8, 1000, False, 0)], 1)
    if not any_headers or packed.damaged or [x[0] for x in packed.columns] != [8, 5, 1, 7, 2, 999, 0, 9, 4]:
        raise RuntimeError("a compiled kernel of record batches computes wrong results")
    return made
