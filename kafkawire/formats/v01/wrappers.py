"""Wrappers of formats v0 and v1: compressed entries. messages.py describes the bytes of an entry.

A wrapper's decompressed value is again a set of the same format: complete entries only, with nested wrappers to a fixed
depth.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from kafkawire import compression
from kafkawire.errors import CorruptMessage, RemoteError, UnknownMagic
from kafkawire.formats.layouts import MAX_DEPTH, OpenBudget
from kafkawire.formats.v01.scan import CODEC, ENTRY_OVERHEAD, LOG_APPEND_TIME, LOWEST, Scan, scan
from kafkawire.primitives import Bytes

_WRAPPER_V0 = struct.Struct(">qiIBBii")
_WRAPPER_V1 = struct.Struct(">qiIBBqii")
_INT32 = struct.Struct(">i")
CRC_FROM = 16


@dataclass(frozen=True, slots=True)
class Wrapper:
    """Fields of a compressed entry, with its value still compressed."""

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
        """Return the broker's timestamp for every message in it, if the broker set it."""
        return self.timestamp if self.magic and self.attributes & LOG_APPEND_TIME else None


def wrapper(buffer: Bytes, begin: int, end: int, check_crcs: bool = True) -> Wrapper:
    """Read the compressed entry at begin.  Raises CorruptMessage.  A key is legal there and ignored."""
    view = memoryview(buffer)
    offset, _, crc, magic, attributes, key_size, value_size = _WRAPPER_V0.unpack_from(view, begin)
    timestamp = None
    if magic == 1:
        offset, _, crc, magic, attributes, timestamp, key_size, value_size = _WRAPPER_V1.unpack_from(view, begin)
    if check_crcs and (computed := zlib.crc32(view[begin + CRC_FROM : end])) != crc:
        raise bad_crc(crc, computed, begin, offset)
    value_at = begin + ENTRY_OVERHEAD[magic]
    if key_size != -1:
        value_at += key_size
        if key_size < 0 or value_at > end:
            raise CorruptMessage(f"a key of {key_size} bytes does not fit", begin, offset)
        (value_size,) = _INT32.unpack_from(view, value_at - 4)
    if value_size < 0 or value_at + value_size != end:
        raise CorruptMessage(f"a compressed value of {value_size} bytes, with {end - value_at} left", begin, offset)
    return Wrapper(offset, crc, magic, attributes, timestamp, view[value_at:end])


def bad_crc(stored: int, computed: int, position: int, offset: int) -> CorruptMessage:
    return CorruptMessage(f"crc mismatch, stored {stored:08x}, computed {computed:08x}", position, offset)


def opened(outer: Wrapper, depth: int, budget: OpenBudget) -> tuple[Bytes, Scan]:
    """Decompress a wrapper's value and find its entries: all complete, all of the wrapper's format.

    Raises CorruptMessage with a position in the decompressed bytes, or RemoteError if it cannot be decompressed.
    """
    if depth > MAX_DEPTH:
        raise CorruptMessage(f"wrappers nested deeper than {MAX_DEPTH}", 0, outer.offset)
    if outer.codec > compression.LZ4:  # zstd came with record batches
        raise RemoteError(f"unknown codec {outer.codec}")
    data = budget.opened(outer.codec, outer.value)
    found = scan(data, LOWEST)
    if found.damage:
        raise found.damage
    if found.end != len(data):
        raise CorruptMessage(f"truncated {len(data) - found.end} bytes after its beginning", found.end)
    for run in found.runs:
        if run.magic != outer.magic:
            raise UnknownMagic(f"format v{run.magic} in a wrapper of format v{outer.magic}", run.begin)
    return data, found


def shift_of(outer: Wrapper, found: Scan, offset: int, depth: int) -> int | None:
    """Return the number to add to the offsets in a wrapper with absolute offset `offset`; None if the broker did not
    number them.

    Brokers number the content of a top-level wrapper up to the wrapper's own offset.  Raises CorruptMessage for other
    offsets: resuming after them would skip messages or repeat them forever.
    """
    last = found.resume_at - 1
    shift = offset - last if outer.magic else 0
    right = found.ascends and last + shift == offset
    if depth > 1:
        return shift if right else None
    if not found.ascends or last + shift > offset:
        raise CorruptMessage(f"offsets that do not ascend to that of the wrapper, {offset}", 0, offset)
    return shift
