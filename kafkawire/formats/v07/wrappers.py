"""Wrappers of 0.7: compressed entries. messages.py describes the bytes of an entry.

A wrapper's decompressed payload is again a set: entries of either format, with nested wrappers to a fixed depth.  The
last entry may be truncated: brokers accept such a wrapper, and that entry is not a message.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace

from kafkawire.compression import GZIP, SNAPPY
from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.formats.layouts import MAX_DEPTH, OpenBudget
from kafkawire.formats.v07.layout import CODEC, ENTRY_OVERHEAD, LENGTH, LOG_OVERHEAD, MAGIC_1
from kafkawire.formats.v07.scan import scan
from kafkawire.model import Scan
from kafkawire.primitives import Bytes

_HEAD = struct.Struct(">4xBBI")


@dataclass(frozen=True, slots=True)
class Wrapper:
    """Fields of a compressed entry, with its payload still compressed.  Its magic is always 1."""

    crc: int
    attributes: int
    value: memoryview
    magic: int = MAGIC_1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC


def wrapper(buffer: Bytes, begin: int, end: int, check_crcs: bool = True, offset: int | None = None) -> Wrapper:
    """Read the compressed entry at byte begin, whose offset in the log is `offset`.  Raises CorruptMessage."""
    view = memoryview(buffer)
    _, attributes, crc = _HEAD.unpack_from(view, begin)
    value = view[begin + ENTRY_OVERHEAD[MAGIC_1] : end]
    if check_crcs and zlib.crc32(value) != crc:
        raise bad_crc(value, crc, begin, offset)
    return Wrapper(crc, attributes, value)


def opened(outer: Wrapper, depth: int, budget: OpenBudget) -> tuple[Bytes, Scan]:
    """Decompress a wrapper's payload and find its complete entries; the caller raises their damage after reading them.

    Raises CorruptMessage with a position in the decompressed bytes, or RemoteError if it cannot be decompressed.
    """
    if depth > MAX_DEPTH:
        raise CorruptMessage(f"wrappers nested deeper than {MAX_DEPTH}", 0)
    if outer.codec not in (GZIP, SNAPPY):  # 3 is lz4 in 0.8.2 and later, and undefined in 0.7
        raise RemoteError(f"unknown codec {outer.codec}")
    data = budget.opened(outer.codec, outer.value)
    found = scan(data, 0)
    return data, found if found.end == len(data) else replace(found, damage=_damaged_tail(data, found))


def _damaged_tail(data: Bytes, found: Scan) -> CorruptMessage | None:
    """Return what is wrong with the bytes after the complete entries; None if the original's iterator just ends there.

    That iterator ends at a truncated length, and at one beyond the remaining bytes, whatever magic follows; but not at
    a length larger than the whole buffer (ByteBufferMessageSet.internalIterator of 0.7.2).
    """
    at, left = found.end, len(data) - found.end
    if left < LOG_OVERHEAD or (at and LOG_OVERHEAD + LENGTH.unpack_from(data, at)[0] > left):
        return None
    damage = found.damage or CorruptMessage(f"truncated {left} bytes after its beginning", at)
    return type(damage)(damage.why, at)  # bytes in here have no offset in the log


def bad_crc(value: Bytes, stored: int, position: int, offset: int | None) -> CorruptMessage:
    return CorruptMessage(f"crc mismatch, stored {stored:08x}, computed {zlib.crc32(value):08x}", position, offset)


def within(damage: RemoteError, wrapper_at: int, offset: int) -> CorruptMessage:
    """Return damage inside a wrapper as damage at the wrapper's own byte and offset."""
    if not isinstance(damage, CorruptMessage):
        return CorruptMessage(str(damage), wrapper_at, offset)
    return type(damage)(f"inside the wrapper, {damage}", wrapper_at, offset)
