"""Isolation: the messages of a set one by one, whatever they are in, and exactly what is damaged alone."""

from __future__ import annotations

import struct
import zlib

import pytest

from kafkawire import compression
from kafkawire.compression import GZIP, SNAPPY
from kafkawire.dialects import dialect
from kafkawire.errors import CorruptMessage
from kafkawire.model import MessageSet
from mirrormaker.badmessages import kind_of
from mirrormaker.isolation import Isolated, bad_message, isolated

NEW, OLD = dialect("0.8.2"), dialect("0.7.2")


def rows(*offsets: int) -> list[tuple[int, bytes | None, bytes | None, int | None]]:
    return [(n, b"k", b"v%d" % n, None) for n in offsets]


def fetched(data: bytes, start: int = 0, release: str = "0.8.2") -> MessageSet:
    return dialect(release).messages.message_set("t", 0, start, memoryview(data), 100)[0]


def entries(*groups: tuple[int, ...]) -> bytes:
    """Plain entries of offsets; a group of more than one is a gzip wrapper."""
    return b"".join(NEW.messages.encode(rows(*group), codec=GZIP if len(group) > 1 else 0) for group in groups)


def seen(found: list[Isolated]) -> list[tuple[int, ...] | int]:
    """Offsets: those of a single one as a number, of others together."""
    return [
        one.offset if one.single else tuple(message.offset for message in one.message_set.messages()) for one in found
    ]


def resealed(data: bytearray, begin: int, end: int) -> None:
    struct.pack_into(">I", data, begin + 12, zlib.crc32(data[begin + 16 : end]))


@pytest.mark.parametrize(
    ("begin", "until", "wanted"),
    [
        (2, 3, [(0, 1), 2, (3,), (4, 5, 6), (7,)]),
        (0, 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        (5, 6, [(0, 1, 2, 3), 4, 5, 6, (7,)]),  # a wrapper is opened as a whole
        (0, 1, [0, (1, 2, 3), (4, 5, 6), (7,)]),
        (7, 20, [(0, 1, 2, 3), (4, 5, 6), 7]),
        (20, 30, [(0, 1, 2, 3), (4, 5, 6), (7,)]),
    ],
)
def test_what_lies_inside_is_alone_and_the_rest_is_as_it_was(
    begin: int, until: int, wanted: list[tuple[int, ...] | int]
) -> None:
    found = list(isolated(fetched(entries((0,), (1,), (2,), (3,), (4, 5, 6), (7,))), begin, until, NEW))
    assert seen(found) == wanted
    assert [message.value for one in found for message in one.message_set.messages()] == [b"v%d" % n for n in range(8)]
    assert all(one.damage is None and not one.inner for one in found)
    assert [one.message_set.start for one in found[1:]] == [one.resume_at for one in found[:-1]]
    assert found[-1].resume_at == 8


def test_gaps_of_a_compacted_log_are_no_messages() -> None:
    found = list(isolated(fetched(entries((3,), (9,), (15,), (40,)), 1), 9, 16, NEW))
    assert seen(found) == [(3,), 9, 15, (40,)]
    assert [one.resume_at for one in found] == [9, 10, 16, 41]
    assert bad_message(found[1], "oversize", ValueError(), NEW).offsets == 1


def test_a_plain_message_with_a_wrong_checksum_is_alone_with_its_damage() -> None:
    data = bytearray(entries((0,), (1,), (2,)))
    data[2 * len(data) // 3 - 1] ^= 1
    found = list(isolated(fetched(bytes(data)), 0, 3, NEW))
    assert [one.offset for one in found if one.damage is not None] == [1]
    reason = found[1].damage
    assert reason is not None
    bad = bad_message(found[1], "corrupt", reason, NEW)
    assert (bad.offset, bad.resume_at, bad.offsets, bad.message, kind_of(reason)) == (1, 2, 1, None, "corrupt")
    assert bad.entry == bytes(data[len(data) // 3 : 2 * len(data) // 3])


def test_a_wrapper_whose_checksum_is_wrong_is_one_entry_with_all_its_offsets() -> None:
    data = bytearray(entries((0,), (1, 2, 3), (4,)))
    data[60] ^= 1
    found = list(isolated(fetched(bytes(data)), 0, 5, NEW))
    assert [(one.offset, one.resume_at, one.damage is None) for one in found] == [
        (0, 1, True), (1, 4, False), (4, 5, True),
    ]  # fmt: skip
    reason = found[1].damage
    assert reason is not None
    assert kind_of(reason) == "corrupt"
    assert bad_message(found[1], "corrupt", reason, NEW).offsets == 3


def test_a_wrapper_that_does_not_decompress_is_undecodable() -> None:
    data = bytearray(entries((0, 1, 2)))
    data[40:48] = bytes(8)
    resealed(data, 0, len(data))
    [one] = isolated(fetched(bytes(data)), 0, 3, NEW)
    assert one.damage is not None
    assert kind_of(one.damage) == "undecodable"
    assert (one.offset, one.resume_at) == (0, 3)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_message_that_is_damaged_inside_a_whole_wrapper_is_alone(at: int) -> None:
    inner = bytearray(NEW.messages.encode(rows(0, 1, 2)))
    inner[(at + 1) * len(inner) // 3 - 1] ^= 1
    value = compression.compress(SNAPPY, bytes(inner), 0)
    data = bytearray(NEW.messages.encode([(2, None, value, None)]))
    data[17] |= SNAPPY
    resealed(data, 0, len(data))
    found = list(isolated(fetched(bytes(data)), 0, 3, NEW))
    assert [(one.offset, one.resume_at, one.damage is not None) for one in found] == [
        (n, n + 1, n == at) for n in range(3)
    ]
    reason = found[at].damage
    assert isinstance(reason, CorruptMessage)
    assert kind_of(reason) == "corrupt"


def test_messages_of_an_0_7_wrapper_share_its_offset_and_are_told_apart_by_their_place() -> None:
    wrapper = OLD.messages.encode(rows(0, 1, 2), codec=GZIP)
    plain = OLD.messages.encode(rows(3))
    message_set = fetched(wrapper + plain, 1000, "0.7.2")
    end = 1000 + len(wrapper)
    found = list(isolated(message_set, 1000, 1001, OLD))
    assert [(one.offset, one.index, one.resume_at, one.inner) for one in found] == [
        (1000, 0, 1000, True), (1000, 1, 1000, True), (1000, 2, end, True), (end, 0, end + len(plain), False),
    ]  # fmt: skip
    assert [message.value for one in found for message in one.message_set.messages()] == [b"v0", b"v1", b"v2", b"v3"]
    assert all(one.message_set.resume_at > one.message_set.start for one in found)  # or a route would send nothing
    bad = bad_message(found[1], "oversize", ValueError(), OLD)
    assert (bad.shares_offset, bad.offsets, bad.message) == (True, 1, (None, b"v1", None, None))
    assert bad.where == "t/0 at 1000 (message 1 of its wrapper)"


def test_plain_messages_of_0_7_are_told_apart_by_their_bytes() -> None:
    one_entry = len(OLD.messages.encode(rows(0)))
    data = bytearray(OLD.messages.encode(rows(0, 1, 2, 3)))
    data[2 * one_entry - 1] ^= 1
    found = list(isolated(fetched(bytes(data), 500, "0.7.2"), 500 + one_entry, 500 + one_entry + 1, OLD))
    assert [(one.single, one.offset, one.resume_at, one.damage is not None) for one in found] == [
        (False, 500, 500 + one_entry, False),
        (True, 500 + one_entry, 500 + 2 * one_entry, True),
        (False, 500 + 2 * one_entry, 500 + 4 * one_entry, False),
    ]
    assert bad_message(found[1], "corrupt", ValueError(), OLD).offsets is None
