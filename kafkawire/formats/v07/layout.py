"""Layout of a 0.7 entry, and checks of its first bytes.

    entry = length:int32  magic:int8  [attributes:int8 in magic 1]  crc:uint32  payload
            length counts all that follows it; attributes: bits 0-1 codec

The two formats are numbered -2 (magic 0) and -1 (magic 1) here, so that a 0.7 entry is never mistaken for a 0.8 entry,
whose magic 0 and 1 are other formats.
"""

from __future__ import annotations

import struct

from kafkawire.errors import CorruptMessage, UnknownMagic

MAGIC_0, MAGIC_1 = -2, -1  # the formats' numbers
LOG_OVERHEAD = 4  # the length field: the bytes before those that length counts
ENTRY_OVERHEAD = {MAGIC_0: 9, MAGIC_1: 10}  # bytes of an entry besides its payload, by format
LEAST = {MAGIC_0: 5, MAGIC_1: 6}  # the smallest length, by format
LOWEST = 0  # as a start: positions begin at the first byte
CODEC = 0x03
LOG_APPEND_TIME = 0x00  # no format of 0.7 has a time

HEAD = struct.Struct(">iBB")  # length, magic, attributes (in magic 0 a byte of the checksum)
LENGTH = struct.Struct(">i")
HEADS = {MAGIC_0: struct.Struct(">ixI"), MAGIC_1: struct.Struct(">ixxI")}  # length and checksum, by format


def nonsense(at: int, length: int, magic: int, start: int) -> CorruptMessage | None:
    """Return what is wrong with an entry, judged by its first five bytes. start: the offset of byte 0."""
    if length < LEAST[MAGIC_0]:
        return CorruptMessage(f"impossible length {length}, the smallest is {LEAST[MAGIC_0]}", at, start + at)
    if magic > 1:
        return UnknownMagic(f"unknown magic {magic} of a message of 0.7", at, start + at)
    if magic and length < LEAST[MAGIC_1]:
        return CorruptMessage(f"impossible length {length} for magic 1", at, start + at)
    return None
