"""Distinguish an entry with a damaged size from a truncated one.  Pure.

Both declare more bytes than are left, and no checksum covers the size.  The size is damaged if one of these holds:

    the checksum of the entry is right for fewer bytes than declared: up to an entry found after it, or up to the end
    an entry with a right checksum is found after it, with a higher offset if entries have offsets

The content of a wrapper may look uncompressed in it.  In 0.8 and later its offsets are not higher than the wrapper's;
0.7 entries have no offsets, so for a 0.7 wrapper only the first rule is used.  A cut message whose value is itself a
message set may be taken for one with a damaged size.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator

from kafkawire.castagnoli import crc32c
from kafkawire.errors import CorruptMessage
from kafkawire.formats.v01.scan import LEAST
from kafkawire.formats.v07 import layout as layout07
from kafkawire.formats.v07.borders import CHECKED_BYTES, next_border
from kafkawire.formats.v2 import layout
from kafkawire.formats.v2.layout import LOG_OVERHEAD, OVERHEAD
from kafkawire.model import RECORD_BATCH
from kafkawire.primitives import Bytes

_HEAD = struct.Struct(">qiIB")  # offset, size, checksum in v0 and v1, magic
_CRC = struct.Struct(">I")
_CRC_FROM = 16  # in v0 and v1
_REACH = 1 << 31  # offsets of one segment differ by less

Checksum = Callable[[Bytes, int], int]


def damaged_size(data: memoryview, at: int, reached: int | None) -> CorruptMessage | None:
    """Return what is wrong with the entry of 0.8 or later at byte `at`, which declares more bytes than are left; None
    if it is truncated. reached: the offset after the previous entry, if there is one."""
    left = len(data) - at
    if left < _HEAD.size:
        return None
    offset, size, _, magic = _HEAD.unpack_from(data, at)
    if offset == -1:  # padding of a broker that converted the set
        return None
    if magic > RECORD_BATCH:
        return CorruptMessage(f"unknown message format v{magic}", at, offset)
    if left < _smallest(magic):
        return None
    begin, crc, checksum = _checked(data, at, magic)
    trusted = offset if reached is None or 0 <= offset < reached + _REACH else reached - 1
    why = _reason(data, begin, crc, checksum, _entries_behind(data, at + _smallest(magic), trusted))
    return _damage(at, offset, size, left - LOG_OVERHEAD, why)


def damaged_length07(data: memoryview, at: int, position: int) -> CorruptMessage | None:
    """Return what is wrong with the entry of 0.7 at byte `at`, `position` of the log, which declares more bytes than
    are left; None if it is truncated."""
    left = len(data) - at
    if left < layout07.HEAD.size:
        return None
    length, magic, attributes = layout07.HEAD.unpack_from(data, at)
    form = layout07.MAGIC_1 if magic else layout07.MAGIC_0
    begin = at + layout07.ENTRY_OVERHEAD[form]
    if begin > len(data):
        return None
    _, crc = layout07.HEADS[form].unpack_from(data, at)
    wrapper = bool(magic and attributes & layout07.CODEC)
    why = _reason(data, begin, crc, zlib.crc32, ((border, not wrapper) for border in _borders07(data, begin)))
    return _damage(at, position, length, left - layout07.LOG_OVERHEAD, why)


def _damage(at: int, offset: int, size: int, left: int, why: str | None) -> CorruptMessage | None:
    if why is None:
        return None
    return CorruptMessage(f"damaged size, it declares {size} bytes, {left} are left, and {why}", at, offset)


def _reason(
    data: memoryview, begin: int, crc: int, checksum: Checksum, behind: Iterable[tuple[int, bool]]
) -> str | None:
    """Return how the size of an entry is known to be damaged; None if it is not.

    begin: the first byte that its checksum covers; behind: (position, checksum is right) of each possible entry after
    it.
    """
    if checksum(data[begin:], 0) == crc:
        return "its checksum is that of the bytes up to the end"
    so_far = 0
    for border, right in behind:
        so_far, begin = checksum(data[begin:border], so_far), border
        if so_far == crc:
            return f"its checksum is that of the bytes up to byte {border}, where another entry begins"
        if right:
            return f"an entry with a right checksum begins at byte {border}"
    return None


def _borders07(data: memoryview, begin: int) -> Iterator[int]:
    border = next_border(data, begin)
    while border is not None:
        yield border
        border = next_border(data, border + 1)


def _entries_behind(data: memoryview, begin: int, offset: int) -> Iterator[tuple[int, bool]]:
    """Yield (position, checksum is right) for each possible entry of 0.8 and later with a higher offset."""
    highs = {(bound >> 32 & 0xFFFFFFFF).to_bytes(4, "big") for bound in (offset, offset + _REACH)}
    high = b"|".join(map(re.escape, sorted(highs)))
    seems = re.compile(rb"(?=(?:" + high + rb")....[\x00-\x7f].......(?:[\x00\x01][\x00-\x0f]|\x02))", re.DOTALL)
    budget = CHECKED_BYTES
    for found in seems.finditer(data, begin):
        at = found.start()
        its_offset, size, _, magic = _HEAD.unpack_from(data, at)
        end = at + LOG_OVERHEAD + size
        if not 0 < its_offset - offset < _REACH or LOG_OVERHEAD + size < _smallest(magic):
            continue
        if end > len(data):
            yield at, False
            continue
        budget -= size
        if budget < 0:
            return
        begin, crc, checksum = _checked(data, at, magic)
        yield at, checksum(data[begin:end], 0) == crc


def _smallest(magic: int) -> int:
    return OVERHEAD if magic == RECORD_BATCH else LOG_OVERHEAD + LEAST[magic]


def _checked(data: memoryview, at: int, magic: int) -> tuple[int, int, Checksum]:
    """Return where the checksummed bytes of an entry begin, the checksum, and the function that computes it."""
    from_head, checksum = (layout.CRC_FROM, crc32c) if magic == RECORD_BATCH else (_CRC_FROM, zlib.crc32)
    (crc,) = _CRC.unpack_from(data, at + from_head - _CRC.size)
    return at + from_head, crc, checksum
