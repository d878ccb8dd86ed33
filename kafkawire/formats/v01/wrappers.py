"""Entries of formats v0 and v1 that have a codec: read as an entry, and opened.  The layout is that of messages.py.

A wrapper's value, opened, is again a set of the same format: complete entries only, wrappers among them to a fixed
depth.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from kafkawire import compression
from kafkawire.errors import CorruptMessage, UnknownMagic
from kafkawire.formats.layouts import MAX_DEPTH
from kafkawire.formats.v01.scan import CODEC, ENTRY_OVERHEAD, LOG_APPEND_TIME, LOWEST, Scan, scan
from kafkawire.primitives import Bytes

_V0 = struct.Struct(">qiIBBii")
_V1 = struct.Struct(">qiIBBqii")
_INT32 = struct.Struct(">i")
_CRC_FROM = 16


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A compressed entry's own fields, and its value still compressed."""

    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp: int | None
    value: memoryview

    @property
    def codec(self) -> int:
        return self.attributes & CODEC

    @property
    def appended_ms(self) -> int | None:
        """The broker's time for every message in it, where the broker stamped it."""
        return self.timestamp if self.magic and self.attributes & LOG_APPEND_TIME else None


def wrapper(buffer: Bytes, begin: int, end: int, check_crcs: bool = True) -> Wrapper:
    """The compressed entry at begin.  Raises CorruptMessage; a key is legal there, and of no use."""
    view = memoryview(buffer)
    offset, _, crc, magic, attributes, key_size, value_size = _V0.unpack_from(view, begin)
    timestamp = None
    if magic == 1:
        offset, _, crc, magic, attributes, timestamp, key_size, value_size = _V1.unpack_from(view, begin)
    if check_crcs and zlib.crc32(view[begin + _CRC_FROM : end]) != crc:
        computed = zlib.crc32(view[begin + _CRC_FROM : end])
        raise CorruptMessage(f"crc mismatch, stored {crc:08x}, computed {computed:08x}", begin, offset)
    value_at = begin + ENTRY_OVERHEAD[magic]
    if key_size != -1:
        value_at += key_size
        if key_size < 0 or value_at > end:
            raise CorruptMessage(f"a key of {key_size} bytes does not fit", begin, offset)
        (value_size,) = _INT32.unpack_from(view, value_at - 4)
    if value_size < 0 or value_at + value_size != end:
        raise CorruptMessage(f"a compressed value of {value_size} bytes where {end - value_at} are", begin, offset)
    return Wrapper(offset, crc, magic, attributes, timestamp, view[value_at:end])


def opened(outer: Wrapper, depth: int, left: list[int]) -> tuple[Bytes, Scan]:
    """A wrapper's value decompressed, and its entries found: all complete, all of the wrapper's format.

    left: bytes that may still be opened, counted down here.  Raises CorruptMessage with a position in the opened bytes,
    or RemoteError for what does not decompress.
    """
    if depth > MAX_DEPTH:
        raise CorruptMessage(f"wrappers nested deeper than {MAX_DEPTH}", 0, outer.offset)
    data = compression.opened(outer.codec, outer.value, left[0])
    left[0] -= len(data)
    found = scan(data, LOWEST)
    if found.damage:
        raise found.damage
    if found.end != len(data):
        raise CorruptMessage(f"cut {len(data) - found.end} bytes after its beginning", found.end)
    for run in found.runs:
        if run.magic != outer.magic:
            raise UnknownMagic(f"format v{run.magic} in a wrapper of format v{outer.magic}", run.begin)
    return data, found
