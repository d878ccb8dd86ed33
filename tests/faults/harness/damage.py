"""Broken entries of a log of format v0, as a disk, a bad broker or a foreign producer might leave them.

Each is as long as it says, and most have a right checksum: what is wrong lies behind it.  Whole messages stand between.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kafkawire.formats.v01.messages import encode

PLAIN, GZIP, SNAPPY = 0, 1, 2
_ENTRY = struct.Struct(">qi")
CRC_AT, CRC_FROM, MAGIC_AT, ATTRIBUTES_AT, KEY_AT = 12, 16, 16, 17, 18
WRONG_SIZES = (-2, -1, -(2**31), 2**31 - 1, 0x0100_0000, 65_536)
Edit = Callable[[random.Random, bytearray], None]


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """A log: its bytes, how many entries were broken, and the values of the messages that are whole."""

    data: bytes
    broken: int
    whole: frozenset[bytes]


def fuzzed_log(rng: random.Random, broken: int, name: bytes, whole_every: int = 10) -> Fuzzed:
    """A log with so many broken entries, and a whole one behind every `whole_every` of them.  Offsets count from 0."""
    data, offset = bytearray(), 0
    whole = set()
    for number in range(broken):
        offset, entry = _made(rng, name, offset)
        _broken(rng, entry)
        data += entry
        if number % whole_every == whole_every - 1:
            values = [b"%s whole %d %d" % (name, number, n) for n in range(3)]
            data += encode([(offset + n, b"k", value, None) for n, value in enumerate(values)], rng.choice([0, 1, 2]))
            whole |= {*values}
            offset += 3
    return Fuzzed(bytes(data), broken, frozenset(whole))


def _made(rng: random.Random, name: bytes, offset: int) -> tuple[int, bytearray]:
    """(Next offset, an entry that is whole): a plain message, or a wrapper of three."""
    codec = rng.choice([PLAIN, GZIP, SNAPPY])
    count = 1 if codec == PLAIN else 3
    rows = [(offset + n, b"key", b"%s fuzzed %d" % (name, offset + n), None) for n in range(count)]
    return offset + count, bytearray(encode(rows, codec))


def _broken(rng: random.Random, entry: bytearray) -> None:
    rng.choice(EDITS)(rng, entry)
    if rng.random() < 0.95:
        struct.pack_into(">I", entry, CRC_AT, zlib.crc32(entry[CRC_FROM:]))
    else:
        entry[CRC_AT] ^= 0xFF


def _other_magic(rng: random.Random, entry: bytearray) -> None:
    entry[MAGIC_AT] = rng.choice([1, 2, 3, 127, 255])


def _other_codec(rng: random.Random, entry: bytearray) -> None:
    entry[ATTRIBUTES_AT] = rng.choice([1, 2, 3, 4, 7, 0x81, 0xFF])


def _key_size(rng: random.Random, entry: bytearray) -> None:
    struct.pack_into(">i", entry, KEY_AT, rng.choice(WRONG_SIZES))


def _value_size(rng: random.Random, entry: bytearray) -> None:
    key = struct.unpack_from(">i", entry, KEY_AT)[0]
    struct.pack_into(">i", entry, KEY_AT + 4 + max(0, key), rng.choice(WRONG_SIZES))


def _bytes(rng: random.Random, entry: bytearray) -> None:
    for _ in range(rng.randrange(1, 6)):
        entry[rng.randrange(MAGIC_AT, len(entry))] = rng.randrange(256)


def _zeroed(rng: random.Random, entry: bytearray) -> None:
    start = rng.randrange(KEY_AT + 8, len(entry))
    entry[start:] = bytes(len(entry) - start)


def _inner(rng: random.Random, entry: bytearray) -> None:
    """A gzip wrapper that opens well, and what is in it is broken."""
    (offset,) = struct.unpack_from(">q", entry)
    inside = bytearray(b"".join(_rows(offset)))
    for _ in range(rng.randrange(1, 4)):
        inside[rng.randrange(len(inside))] = rng.randrange(256)
    packer = zlib.compressobj(wbits=31)
    value = packer.compress(bytes(inside)) + packer.flush()
    body = struct.pack(">bbii", 0, GZIP, -1, len(value)) + value
    entry[:] = _ENTRY.pack(offset, 4 + len(body)) + bytes(4) + body


def _rows(offset: int) -> Iterator[bytes]:
    for n in (offset - 2, offset - 1, offset):
        yield bytes(encode([(max(n, 0), None, b"inside", None)], PLAIN))


EDITS: tuple[Edit, ...] = (_other_magic, _other_codec, _key_size, _value_size, _bytes, _zeroed, _inner)
