"""Entries of 0.7 that have a codec: read as an entry, and opened.  The layout is that of messages.py.

A wrapper's payload, opened, is again a set: entries of either format, wrappers among them to a fixed depth.  The last
one may be cut: brokers take such a wrapper, and what is cut is nobody's message.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace

from kafkawire import compression
from kafkawire.compression import GZIP, SNAPPY
from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.formats.layouts import MAX_DEPTH
from kafkawire.formats.v07.layout import CODEC, ENTRY_OVERHEAD, LENGTH, LOG_OVERHEAD, MAGIC_1
from kafkawire.formats.v07.scan import scan
from kafkawire.model import Scan
from kafkawire.primitives import Bytes

_HEAD = struct.Struct(">4xBBI")


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A compressed entry's own fields, and its payload still compressed.  Its format is always that of magic 1."""

    crc: int
    attributes: int
    value: memoryview
    magic: int = MAGIC_1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC


def wrapper(buffer: Bytes, begin: int, end: int, check_crcs: bool = True, offset: int | None = None) -> Wrapper:
    """The compressed entry at begin, whose position in the log is offset.  Raises CorruptMessage."""
    view = memoryview(buffer)
    _, attributes, crc = _HEAD.unpack_from(view, begin)
    value = view[begin + ENTRY_OVERHEAD[MAGIC_1] : end]
    if check_crcs and zlib.crc32(value) != crc:
        raise CorruptMessage(f"crc mismatch, stored {crc:08x}, computed {zlib.crc32(value):08x}", begin, offset)
    return Wrapper(crc, attributes, value)


def opened(outer: Wrapper, depth: int, left: list[int]) -> tuple[Bytes, Scan]:
    """A wrapper's payload decompressed, and its complete entries found; their damage is for who has done them to raise.

    left: bytes that may still be opened, counted down here.  Raises CorruptMessage with a position in the opened bytes,
    or RemoteError for what does not decompress.
    """
    if depth > MAX_DEPTH:
        raise CorruptMessage(f"wrappers nested deeper than {MAX_DEPTH}", 0)
    if outer.codec not in (GZIP, SNAPPY):  # 3 is lz4 from 0.8.2 on, and nothing in 0.7
        raise RemoteError(f"unknown codec {outer.codec}")
    data = compression.opened(outer.codec, outer.value, left[0])
    left[0] -= len(data)
    found = scan(data, 0)
    return data, found if found.end == len(data) else replace(found, damage=_damaged_tail(data, found))


def _damaged_tail(data: Bytes, found: Scan) -> CorruptMessage | None:
    """What is wrong with the bytes behind the complete entries; None: the original's iterator just ends there.

    It ends at a length that is cut, and at one beyond the bytes there are, whatever the magic behind it says; but not
    at one beyond the bytes in front of all (ByteBufferMessageSet.internalIterator of 0.7.2).
    """
    at, left = found.end, len(data) - found.end
    if left < LOG_OVERHEAD or (at and LOG_OVERHEAD + LENGTH.unpack_from(data, at)[0] > left):
        return None
    damage = found.damage or CorruptMessage(f"cut {left} bytes after its beginning", at)
    return type(damage)(damage.why, at)  # nothing in here has a position in the log
