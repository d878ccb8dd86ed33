"""Neighbouring entries of one size and layout: what is asked about all of them by a few calls, in pure Python."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from kafkawire.primitives import Bytes

FEW = 8  # entries: for less it is quicker to look at each
_BLOCK = 64
_BEHIND_ITSELF = 0x2144DF1C  # the CRC-32 of any bytes that are followed by their own, the lowest byte first
_TO_BEGIN = 0x6DD90A9D  # what four bytes have to be, xor the CRC-32 of all before them, for theirs to be 0


def alike(data: Bytes, at: int, step: int, count: int, places: Iterable[int]) -> int:
    """How many of `count` entries of `step` bytes have the bytes at these places that the first has."""
    for place in places:
        first = bytes(data[at + place : at + place + 1])
        column = bytes(data[at + place : at + count * step : step])
        if column != first * count:  # comparing them all is quicker than a look at each
            count = len(column) - len(column.lstrip(first))
    return count


def column(layout: str, view: Bytes) -> list[Any]:
    """The one field that a struct of this layout has, out of each of those side by side in a view."""
    one, many = _structs(layout)
    view = memoryview(view)
    blocks = len(view) // many.size * many.size
    found: list[Any] = []
    for block in many.iter_unpack(view[:blocks]):  # no tuple and no turn of a loop for each
        found += block
    found += [field for (field,) in one.iter_unpack(view[blocks:])]
    return found


@lru_cache(maxsize=256)
def _structs(layout: str) -> tuple[struct.Struct, struct.Struct]:
    return struct.Struct(">" + layout), struct.Struct(">" + layout * _BLOCK)


def are_right(data: bytes, begin: int, step: int, count: int, crc_at: int, unlike: Iterable[int] = ()) -> bool:
    """Whether the checksums of neighbours are right, each of which stands at crc_at and covers what follows it: by one
    checksum over all of them, in a third of the time where they are short.

    unlike: the places before it, from the fourth on, whose bytes are not the same in all of them.

    A CRC does not end with a message: bytes followed by their own checksum leave it in one and the same state, whatever
    they are, and four bytes of one's choice lead from there to where it began.  So, in a copy, each checksum is put
    behind what it covers and those four bytes in its place; then the checksum of the whole is that of the last one
    alone.  A single wrong one is found for sure, as by its own checksum; several at once cancel each other out one time
    in 2^32.
    """
    end, head = begin + count * step, crc_at + 4
    run = bytearray(memoryview(data)[begin + head : end])
    gap = step - head  # where the first one is covered to: now its checksum, then the next one's head
    for n in range(4):
        run[gap + n :: step] = data[begin + crc_at + 3 - n : end - step : step]
    nothing = bytes(count - 1)
    for place in unlike:
        run[gap + place :: step] = nothing
    reached = zlib.crc32(run[gap + 4 : gap + crc_at], _BEHIND_ITSELF)
    for n, byte in enumerate((reached ^ _TO_BEGIN).to_bytes(4, "little")):
        run[gap + crc_at + n :: step] = bytes((byte,)) * (count - 1)
    return zlib.crc32(run) == int.from_bytes(data[end - step + crc_at : end - step + head], "big")
