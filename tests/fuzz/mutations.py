"""Mutations of valid inputs: pure functions of the input and a random generator, so that a seed gives the same bytes.

bits, bytes    one or a few are flipped or replaced
integers       a number of 1 to 8 bytes at any place becomes an extreme one: sizes, counts, offsets and versions
lengths        what looks like the size of what follows it becomes a little more, less, negative or huge
pieces         cut off, left out, doubled many times, moved, or taken from another valid input (splice)
text           a digit, quote, bracket or word becomes one that a parser has to think about
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random

MOST_BYTES = 64 << 10  # of an input: what doubles does not grow for ever

EXTREMES = (
    *(1 << power for power in (7, 8, 15, 16, 31, 32, 63)),
    *((1 << power) - 1 for power in (7, 8, 15, 16, 31, 32, 63)),
    *(-(1 << power) for power in (7, 8, 15, 16, 31, 32, 63)),
    *(0, 1, -1, 2, -2, 10, 100, 1000, 65537, 104_857_600, 0x7FFFFF00),
)
WORDS = (
    b"null", b"true", b"[]", b"{}", b'""', b"-1", b"0", b"1e999", b"NaN", b"-0", b"9" * 25, b"9" * 5000, b"\\ud800",
    b"\xff\xfe", b"\x00", b"\r\n", b"\r\n\r\n", b"%00", b"%2e%2e%2f", b"../", b"/", b"-", b":", b"0x7f", b"1_000", b" ",
    b"[" * 5000, b'{"a":' * 3000, b"{" * 3000, b"&a [*a]", b"*a", b"!!python/object:os.system", b"<<: *a", b"\xd9\xa3",
    b"2**31", b"\xc2\x85", b"\xe2\x80\xa8", b"\xed\xa0\x80", b"inf", b"1.5", b"'", b'"', b"\\", b"(" * 200, b"(a+)+$",
)  # fmt: skip
Mutation = Callable[[bytearray, Random, Sequence[bytes]], None]


def mutated(random: Random, corpus: Sequence[bytes], most: int = MOST_BYTES) -> bytes:
    """One of the corpus after one to six mutations, at most `most` bytes of it; now and then it is left as it is."""
    data = bytearray(random.choice(corpus))
    for _ in range(random.choice(_TIMES)):
        random.choice(_MUTATIONS)(data, random, corpus)
        if len(data) > most:
            del data[most:]
    return bytes(data)


def _flip_bits(data: bytearray, random: Random, corpus: Sequence[bytes]) -> None:
    for _ in range(random.choice((1, 1, 1, 2, 8)) if data else 0):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _replace_byte(data: bytearray, random: Random, corpus: Sequence[bytes]) -> None:
    if data:
        data[random.randrange(len(data))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))


def _set_integer(data: bytearray, random: Random, corpus: Sequence[bytes]) -> None:
    size = random.choice((1, 2, 4, 4, 8))
    if len(data) < size:
        return
    at = random.randrange(len(data) - size + 1)
    number = random.choice(EXTREMES) & (1 << 8 * size) - 1
    data[at : at + size] = number.to_bytes(size, random.choice(("big", "big", "big", "little")))


def _change_length(data: bytearray, random: Random, corpus: Sequence[bytes]) -> None:
    """A 32 or 16 bit number that could be the size or the count of what stands behind it."""
    size, layout = random.choice(((4, ">i"), (4, ">i"), (2, ">h")))
    for _ in range(16):
        if len(data) < size:
            return
        at = random.randrange(len(data) - size + 1)
        (number,) = struct.unpack_from(layout, data, at)
        if 0 < number <= len(data) - at:
            most = (1 << 8 * size - 1) - 1
            found = random.choice((number - 1, number + 1, 0, -1, -2, most, -most, len(data), 2 * number, most // 2))
            struct.pack_into(layout, data, at, max(-most - 1, min(most, found)))
            return


def _set_varint(data: bytearray, random: Random, corpus: Sequence[bytes]) -> None:
    if data:
        at = random.randrange(len(data))
        number = random.choice(
            (b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\x80" * 11, b"\x01")
        )
        data[at : at + random.choice((1, 2, 5))] = number


def _cut(data: bytearray, random: Random, corpus: Sequence[bytes]) -> None:
    if data:
        del data[random.randrange(len(data)) :]


def _leave_out(data: bytearray, random: Random, corpus: Sequence[bytes]) -> None:
    if data:
        at = random.randrange(len(data))
        del data[at : at + random.choice((1, 2, 4, 8, random.randrange(1, len(data) + 1)))]


def _double(data: bytearray, random: Random, corpus: Sequence[bytes]) -> None:
    if data:
        at = random.randrange(len(data))
        piece = bytes(data[at : at + random.choice((1, 4, 16, len(data)))])
        data[at:at] = piece * random.choice((1, 1, 1, 2, 50, 1000))


def _move(data: bytearray, random: Random, corpus: Sequence[bytes]) -> None:
    if len(data) > 1:
        at = random.randrange(len(data))
        piece = bytes(data[at : at + random.choice((1, 4, 8, 32))])
        to = random.randrange(len(data))
        data[to : to + random.choice((0, len(piece)))] = piece


def _splice(data: bytearray, random: Random, corpus: Sequence[bytes]) -> None:
    other = random.choice(corpus)
    at, since = random.randrange(len(data) + 1), random.randrange(len(other) + 1)
    data[at:] = other[since:] if random.random() < 0.7 else other[since : since + 64] + data[at:]


def _put_noise(data: bytearray, random: Random, corpus: Sequence[bytes]) -> None:
    at = random.randrange(len(data) + 1)
    data[at:at] = random.randbytes(random.choice((1, 2, 4, 17)))


def _put_word(data: bytearray, random: Random, corpus: Sequence[bytes]) -> None:
    at = random.randrange(len(data) + 1)
    data[at : at + random.choice((0, 1, 4))] = random.choice(WORDS)


def _replace_number(data: bytearray, random: Random, corpus: Sequence[bytes]) -> None:
    """The first run of decimal digits from a place on."""
    at = random.randrange(len(data) + 1)
    while at < len(data) and not 0x30 <= data[at] <= 0x39:
        at += 1
    end = at
    while end < len(data) and 0x30 <= data[end] <= 0x39:
        end += 1
    if end > at:
        data[at:end] = str(random.choice(EXTREMES)).encode()


_VARINTS = (b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\x80" * 11, b"\x01")
_TIMES = (0, *(1,) * 12, *(2,) * 8, *(3,) * 4, 4, 6)
_MUTATIONS: tuple[Mutation, ...] = (
    _flip_bits, _flip_bits, _replace_byte, _replace_byte, _set_integer, _set_integer, _change_length, _change_length,
    _set_varint, _cut, _leave_out, _double, _move, _splice, _put_noise, _put_word, _replace_number,
)  # fmt: skip
