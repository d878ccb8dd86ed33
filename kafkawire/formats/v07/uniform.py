"""Neighbouring entries of one size, read by a few calls for all of them: what many topics hold.

    entry = length:int32  magic:int8  [attributes:int8 in magic 1]  crc:uint32  payload

Two entries are alike when length, magic and attributes are the same: then everything stands at the same places, and
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

_MANY = 32  # entries: for less, one checksum over all of them costs more than it saves
_PIECE = 128 << 10  # bytes looked at at once: they stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Alike:
    """`count` plain entries of `step` bytes from `begin` on."""

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
    """The plain entries of a format from begin on that are alike; None: too few to be worth it, or not of this kind."""
    if end - begin < ENTRY_OVERHEAD[magic] * FEW:
        return None
    length, number, attributes = HEAD.unpack_from(data, begin)
    if nonsense(begin, length, number, 0) or number != magic + 2 or (number and attributes & CODEC):
        return None
    step, kind = LOG_OVERHEAD + length, 6 if magic == MAGIC_1 else 5  # what must be the same: length, magic, attributes
    count = (end - begin) // step
    if count < FEW or data[begin : begin + kind] != data[begin + step : begin + step + kind]:
        return None
    count = alike(data, begin, step, count, reversed(range(kind)))
    return Alike(begin, count, step, ENTRY_OVERHEAD[magic]) if count >= FEW else None


def hop(buffer: Bytes, at: int, magic: int, limit: int) -> tuple[int, int]:
    """Past entries that are alike, none of fewer than eight, begun before `limit`.  Else as Kernels.hop07."""
    entries = 0
    while at + HEAD.size < limit:
        behind = at + LOG_OVERHEAD + HEAD.unpack_from(buffer, at)[0]
        if buffer[at : at + 5] != buffer[behind : behind + 5]:
            break  # the usual answer where sizes differ
        piece = bytes(buffer[at : min(limit, at + _PIECE)])
        same = find(piece, 0, len(piece), magic)
        if same is None:
            break
        at, entries = at + same.end, entries + same.count
    return at, entries


def values(data: Bytes, found: Alike) -> list[bytes]:
    """Their payloads."""
    return columns.column(f"{found.overhead}x{found.value_size}s", memoryview(data)[found.begin : found.end])


def are_right(data: bytes, found: Alike) -> bool:
    """Whether all their checksums are."""
    crc_at = found.overhead - 4
    if found.count >= _MANY:
        return columns.are_right(data, found.begin, found.step, found.count, crc_at)
    crc32, rows = zlib.crc32, _struct(f">{crc_at}xI{found.value_size}s")
    return all(crc32(value) == crc for crc, value in rows.iter_unpack(memoryview(data)[found.begin : found.end]))


_struct = lru_cache(maxsize=256)(struct.Struct)
