"""Reader of adjacent entries of one size, which many topics have, by a few calls for all of them.

    entry = length:int32  magic:int8  [attributes:int8 in magic 1]  crc:uint32  payload

Two entries have one shape if length, magic and attributes are equal: then all fields are at the same positions, and
struct reads a thousand of them without a line of Python for each.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache

from kafkawire import columns
from kafkawire.columns import FEW, alike
from kafkawire.formats.v07.layout import CODEC, ENTRY_OVERHEAD, HEAD, LOG_OVERHEAD, MAGIC_1, nonsense
from kafkawire.primitives import Bytes

_MANY = 32  # entries; for fewer, one checksum over all of them costs more than it saves
_PIECE = 128 << 10  # bytes read at once, so that they stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Alike:
    """Shape of `count` plain entries of `step` bytes from `begin`."""

    begin: int
    count: int
    step: int
    overhead: int

    @property
    def end(self) -> int:
        return self.begin + self.count * self.step

    @property
    def value_size(self) -> int:
        return self.step - self.overhead


def find(data: Bytes, begin: int, end: int, magic: int) -> Alike | None:
    """Return the shape of the plain entries of a format that begin at `begin`; None if too few have one shape, or they
    are not of this kind."""
    if end - begin < ENTRY_OVERHEAD[magic] * FEW:
        return None
    length, number, attributes = HEAD.unpack_from(data, begin)
    if nonsense(begin, length, number, 0) or number != magic + 2 or (number and attributes & CODEC):
        return None
    step, kind = LOG_OVERHEAD + length, 6 if magic == MAGIC_1 else 5  # length, magic, attributes must be equal
    count = (end - begin) // step
    if count < FEW or data[begin : begin + kind] != data[begin + step : begin + step + kind]:
        return None
    count = alike(data, begin, step, count, reversed(range(kind)))
    return Alike(begin, count, step, ENTRY_OVERHEAD[magic]) if count >= FEW else None


def hop(buffer: Bytes, at: int, magic: int, limit: int) -> tuple[int, int]:
    """Skip entries of one shape begun before `limit`, if there are at least eight; parameters and result as in
    Kernels.hop07."""
    entries = 0
    while at + HEAD.size < limit:
        behind = at + LOG_OVERHEAD + HEAD.unpack_from(buffer, at)[0]
        if buffer[at : at + 5] != buffer[behind : behind + 5]:
            break  # the usual result if sizes differ
        piece = bytes(buffer[at : min(limit, at + _PIECE)])
        same = find(piece, 0, len(piece), magic)
        if same is None:
            break
        at, entries = at + same.end, entries + same.count
    return at, entries


def values(data: Bytes, found: Alike) -> list[bytes]:
    """Return their payloads."""
    return columns.column(f"{found.overhead}x{found.value_size}s", memoryview(data)[found.begin : found.end])


def are_right(data: bytes, found: Alike) -> bool:
    """True if all their checksums are right."""
    crc_at = found.overhead - 4
    if found.count >= _MANY:
        return columns.are_right(data, found.begin, found.step, found.count, crc_at)
    crc32, rows = zlib.crc32, _struct(f">{crc_at}xI{found.value_size}s")
    return all(crc32(value) == crc for crc, value in rows.iter_unpack(memoryview(data)[found.begin : found.end]))


_struct = lru_cache(maxsize=256)(struct.Struct)
