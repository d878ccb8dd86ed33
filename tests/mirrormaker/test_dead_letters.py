"""Dead letters: what a stranger reads out of a record, whatever the message was."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest

from mirrormaker.deadletter import KEY_MAX, DeadLetter, NoDeadLetter, crc32, read, write
from mirrormaker.verify.verifier import Letters

DATA = b"first line\nsecond\x00\xff"
LETTER = DeadLetter(
    source="dc1", topic="orders", partition="3", offset=17, offsets=1, kind="oversize", reason="too “large”\n",
    content="value", data=DATA, size=len(DATA), crc32=crc32(DATA), key=b"\x00k", timestamp_ms=None,
    at_ms=1_700_000_000_000,
)  # fmt: skip


@pytest.mark.parametrize(
    "letter",
    [
        LETTER,
        replace(LETTER, data=None, size=0, crc32=0, key=None),
        replace(LETTER, headers_left_out=12),
        replace(LETTER, data=b"", size=0, crc32=0, key=b""),
        replace(LETTER, content="entry", offsets=None, partition="0-1", timestamp_ms=5, key=None),
    ],
)
def test_what_is_written_is_read(letter: DeadLetter) -> None:
    assert read(write(letter, 1000)) == letter
    assert letter.complete


def test_a_stranger_needs_a_line_of_json_and_what_follows_it() -> None:
    head, data = write(LETTER, 1000).split(b"\n", 1)
    found = json.loads(head)
    assert data == DATA
    assert (found["topic"], found["partition"], found["offset"]) == ("orders", "3", 17)
    assert int(found["crc32"], 16) == zlib.crc32(data)


def test_what_the_target_does_not_take_is_left_out_and_said() -> None:
    large = replace(LETTER, data=DATA * 1000, size=len(DATA) * 1000, crc32=crc32(DATA * 1000))
    record = write(large, 2000)
    assert len(record) <= 2000
    found = read(record)
    assert not found.complete
    assert (found.size, found.crc32) == (large.size, large.crc32)
    assert found.data
    assert large.data
    assert large.data.startswith(found.data)
    rest = json.loads(record.split(b"\n", 1)[0])["rest"]
    assert rest == f"all {large.size} bytes: orders/3 at 17 of source dc1, as long as its retention lasts"
    assert read(write(large, 0)).data == b""


def test_a_large_key_is_left_out_and_the_record_has_another() -> None:
    found = read(write(replace(LETTER, key=b"k" * (KEY_MAX + 1)), 1 << 20))
    assert found.key is None
    assert found.record_key == b"dc1/orders/3/17"
    assert LETTER.record_key == b"\x00k"


@pytest.mark.parametrize(
    "record", [b"", b"x", b"{}\n", b"[" * 5000 + b"\n", b"[1]\nx", b'{"dead_letter": 2}\n', b"\xff\n"]
)
def test_other_records_are_no_dead_letters(record: bytes) -> None:
    with pytest.raises(NoDeadLetter):
        read(record)


def test_a_cut_record_is_no_dead_letter() -> None:
    with pytest.raises(NoDeadLetter, match="18 bytes follow the head, which says 19"):
        read(write(LETTER, 1000)[:-1])


@pytest.mark.parametrize(
    ("field", "value"),
    [("offset", "17"), ("offset", -1), ("offset", 2**63), ("offsets", [1]), ("offsets", True), ("source", 1),
     ("topic", None), ("partition", 3), ("size", 1e9), ("at_ms", None), ("headers_left_out", "x")],
)  # fmt: skip
def test_a_head_whose_values_make_no_sense_is_no_dead_letter(field: str, value: object) -> None:
    head, data = write(LETTER, 1000).split(b"\n", 1)
    with pytest.raises(NoDeadLetter):
        read(json.dumps(json.loads(head) | {field: value}).encode() + b"\n" + data)


def test_a_letter_that_stands_for_any_number_of_messages_takes_no_memory() -> None:
    """verify made a set of all of them: who may write to the dead letter topic ended it."""
    many = Letters([replace(LETTER, offset=5, offsets=2**62), replace(LETTER, topic="other", offset=9, offsets=None)])
    assert ("dc1", "orders", "3", 5) in many
    assert ("dc1", "orders", "3", 2**62 + 4) in many
    assert ("dc1", "orders", "3", 4) not in many
    assert ("dc1", "orders", "3", 2**62 + 5) not in many
    assert ("dc1", "other", "3", 9) in many
    assert ("dc1", "other", "3", 10) not in many
    assert ("dc2", "orders", "3", 5) not in many
    apart = Letters([replace(LETTER, offset=n, offsets=2) for n in (20, 1, 2, 10)])
    assert [n for n in range(30) if ("dc1", "orders", "3", n) in apart] == [1, 2, 3, 10, 11, 20, 21]
