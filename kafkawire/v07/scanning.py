"""Which entries of a fetched set are complete, and how they may travel: by hopping over their lengths, opening nothing.

    entry = length:int32  magic:int8  [attributes:int8 in magic 1]  crc:uint32  payload
            length counts all that follows it; attributes: bits 0-1 codec

An entry has no offset of its own: its position in the log is that of the set and the bytes before it.  The two formats
are numbered -2 (magic 0) and -1 (magic 1) here, so that no entry of 0.7 is ever taken for one of 0.8, whose magic 0 and
1 are other formats.
"""

from __future__ import annotations

import struct

from kafkawire.errors import CorruptMessage, UnknownMagic
from kafkawire.model import Run
from kafkawire.model import Scan as Scan
from kafkawire.primitives import Bytes

MAGIC_0, MAGIC_1 = -2, -1  # the formats' numbers
LOG_OVERHEAD = 4  # the length: what stands in front of the bytes that length counts
ENTRY_OVERHEAD = {MAGIC_0: 9, MAGIC_1: 10}  # bytes of an entry besides its payload, by format
LEAST = (5, 6)  # the smallest length field, by format
LOWEST = 0  # as a start: positions are counted from the first byte
CODEC = 0x03
LOG_APPEND_TIME = 0x00  # no format of 0.7 has a time

HEAD = struct.Struct(">iBB")  # length, magic, attributes (in magic 0 a byte of the checksum)
_INT32 = struct.Struct(">i")
_SMALLEST = ENTRY_OVERHEAD[MAGIC_0]


def scan(buffer: Bytes, start: int) -> Scan:
    """Find the complete entries of a set whose first byte has position start, without opening or checking any of them.

    A cut last entry is no damage.  One whose first bytes make no sense is, cut or not: who fetches from a position
    inside an entry reads such bytes, and must not be told to fetch two gigabytes.
    """
    unpack, total = HEAD.unpack_from, len(buffer)
    at = begin = entries = plain = 0
    runs: list[Run] = []
    damage = None
    while at + _SMALLEST <= total:
        length, magic, attributes = unpack(buffer, at)
        end = at + LOG_OVERHEAD + length
        damage = nonsense(at, length, magic, start)
        if damage is not None or end > total:
            break
        codec, form = (attributes & CODEC, MAGIC_1) if magic else (0, MAGIC_0)
        if entries and (codec or form != plain):
            runs.append(Run(begin, at, 0, plain, entries, start + at))
            begin, entries = at, 0
        if codec:
            runs.append(Run(at, end, codec, form, 1, start + end))
            begin = end
        else:
            plain, entries = form, entries + 1
        at = end
    else:
        damage = _short_tail(buffer, at, start)
    if entries:
        runs.append(Run(begin, at, 0, plain, entries, start + at))
    needed = 0 if runs or damage else _needed(buffer)
    return Scan(at, start + at, tuple(runs), needed, damage)


def nonsense(at: int, length: int, magic: int, start: int) -> CorruptMessage | None:
    """What is wrong with an entry as far as its first five bytes tell."""
    if length < LEAST[MAGIC_0]:
        return CorruptMessage(f"impossible length {length}, the smallest is {LEAST[MAGIC_0]}", at, start + at)
    if magic > 1:
        return UnknownMagic(f"unknown magic {magic} of a message of 0.7", at, start + at)
    if magic and length < LEAST[MAGIC_1]:
        return CorruptMessage(f"impossible length {length} for magic 1", at, start + at)
    return None


def _short_tail(buffer: Bytes, at: int, start: int) -> CorruptMessage | None:
    """The same for a tail too short for the smallest entry."""
    left = len(buffer) - at
    if left < LOG_OVERHEAD:
        return None
    (length,) = _INT32.unpack_from(buffer, at)
    return nonsense(at, length, buffer[at + LOG_OVERHEAD] if left > LOG_OVERHEAD else 0, start)


def _needed(buffer: Bytes) -> int:
    """Bytes of the first entry; where not even its length came, enough for that."""
    if len(buffer) < LOG_OVERHEAD:
        return _SMALLEST if len(buffer) else 0
    return LOG_OVERHEAD + int(_INT32.unpack_from(buffer)[0])
