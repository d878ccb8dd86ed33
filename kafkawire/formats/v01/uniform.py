"""Reader of adjacent entries of one size and one layout, which many topics have, by a few calls for all of them.

    entry = offset:int64  size:int32  crc:uint32  magic:int8  attributes:int8  [timestamp:int64 in v1]  key  value
            size counts all that follows it; key and value: length:int32 (-1 is null) and bytes

Two entries have one shape if size, magic, attributes and the lengths of key and value are equal: then all fields are at
the same positions, and struct reads a thousand of them without a line of Python for each.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache

from kafkawire import columns
from kafkawire.columns import FEW, Alike, alike
from kafkawire.formats.v01.scan import ENTRY_OVERHEAD, HEAD, LEAST, LOG_OVERHEAD

_INT32 = struct.Struct(">i")
_KIND = (8, 9, 10, 11, 16, 17)  # bytes of size, magic and attributes
_CRC_AT = 12
_LOWER = range(4, 8)  # bytes of an offset
_MANY = 32  # entries; for fewer it is faster to check them one by one


def find(data: bytes, begin: int, end: int, magic: int) -> Alike | None:
    """Return the shape of the entries that begin at `begin`; None if too few have one shape, or the bytes are not
    entries."""
    if end - begin < ENTRY_OVERHEAD[0] * FEW:
        return None
    _, size, _ = HEAD.unpack_from(data, begin)
    step, least = LOG_OVERHEAD + size, LEAST[magic]
    count = (end - begin) // step if size >= least else 0
    if count < FEW or data[begin + 8 : begin + 12] != data[begin + step + 8 : begin + step + 12]:
        return None
    found = _like_the_first(data, begin, count, step, magic)
    return found if found is not None and found.count >= FEW else None


def all_alike(data: bytes, step: int, magic: int) -> Alike | None:
    """Return the shape of all entries, each of `step` bytes; None if they differ, or are not entries."""
    count = len(data) // step
    found = _like_the_first(data, 0, count, step, magic) if step >= ENTRY_OVERHEAD[magic] else None
    return found if found is not None and found.count == count else None


def _like_the_first(data: bytes, begin: int, count: int, step: int, magic: int) -> Alike | None:
    key_at = ENTRY_OVERHEAD[magic] - 4
    (key_size,) = _INT32.unpack_from(data, begin + key_at - 4)
    value_at = key_at + max(0, key_size) + 4
    if key_size < -1 or value_at > step:
        return None
    (value_size,) = _INT32.unpack_from(data, begin + value_at - 4)
    if value_size != step - value_at and (value_size != -1 or value_at != step):
        return None
    lengths = (*range(key_at - 4, key_at), *range(value_at - 4, value_at))
    count = alike(data, begin, step, count, (*_KIND, *dict.fromkeys(reversed(lengths))))
    return Alike(begin, count, step, key_at, key_size, value_at, value_size)


def rows(data: bytes, found: Alike) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield (offset, key, value) of each; empty for null."""
    key, value = max(0, found.key_size), max(0, found.value_size)
    return _struct(f">q{found.key_at - 8}x{key}s4x{value}s").iter_unpack(memoryview(data)[found.begin : found.end])


def covered(data: bytes, found: Alike) -> Iterator[tuple[int, int, bytes]]:
    """Yield (offset, checksum, checksummed bytes) of each."""
    return _struct(f">q4xI{found.step - 16}s").iter_unpack(memoryview(data)[found.begin : found.end])


def are_right(data: bytes, found: Alike) -> bool:
    """True if all their checksums are right."""
    if found.count >= _MANY:
        return columns.are_right(data, found.begin, found.step, found.count, _CRC_AT, _LOWER)
    return all(zlib.crc32(body) == crc for _, crc, body in covered(data, found))


def offsets(data: bytes, found: Alike) -> list[int]:
    """Return their offsets."""
    return columns.column(f"q{found.step - 8}x", memoryview(data)[found.begin : found.end])


def timestamps(data: bytes, found: Alike) -> list[int]:
    """Return their timestamps, of format v1."""
    return columns.column(f"18xq{found.step - 26}x", memoryview(data)[found.begin : found.end])


_struct = lru_cache(maxsize=256)(struct.Struct)
