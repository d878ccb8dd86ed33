"""Record batches: heads, records, headers, codecs, and what is damaged."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.compression import GZIP, LZ4, SNAPPY, ZSTD
from kafkawire.decode.v08 import set_document
from kafkawire.dialects import dialect
from kafkawire.errors import CorruptMessage, UnknownMagic
from kafkawire.formats.v01.messages import encode
from kafkawire.formats.v2.layout import CONTROL, LOG_APPEND_TIME, OVERHEAD, TRANSACTIONAL, batch_at
from kafkawire.formats.v2.read import Record, records
from kafkawire.varints import varint, written
from tests.kafkawire.recordbatches import batch
from tests.kafkawire.wire_vectors import FILE, named

ROWS = [
    Record(70, 1500000000000, None, b"no key", ()),
    Record(71, 1499999999990, b"k", None, (("h", b"\x00\xff"), ("h", None), ("é", b""))),
    Record(74, 1500000000007, b"", b"v" * 300, ()),
]


def read(data: bytes, **options: Any) -> list[Record]:
    found = batch_at(data, 0)
    assert found is not None
    return list(records(data, found, **options))


def test_numbers_are_those_of_the_protocols_table() -> None:
    vector = any_named("varint_table")
    data, at, found = bytes.fromhex(vector["hex"]), 0, []
    while at < len(data):
        before = at
        value, at = varint(data, at)
        assert written(value) == data[before:at]
        found.append(value)
    assert found == vector["decoded"]["values"]


def any_named(name: str) -> dict[str, Any]:
    rows = json.loads(FILE.read_text())["vectors"]
    found: dict[str, Any] = next(row for row in rows if row["name"] == name)
    return found


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
def test_records_are_read_with_every_codec(codec: int) -> None:
    data = batch(ROWS, codec)
    assert read(data) == ROWS
    head = batch_at(data, 0)
    assert head is not None
    assert (head.codec, head.resume_at, head.count, head.end) == (codec, 75, 3, len(data))


def test_a_broker_that_sets_the_time_sets_it_for_all() -> None:
    assert {row.timestamp_ms for row in read(batch(ROWS, LOG_APPEND_TIME))} == {1500000000007}


def test_what_a_cleaner_left_is_a_head_with_an_end() -> None:
    head = batch_at(batch([], base=70, last=99), 0)
    assert head is not None
    assert (head.count, head.resume_at) == (0, 100)
    assert read(batch([], base=70, last=99)) == []


def test_a_batch_that_is_cut_is_not_there_yet() -> None:
    data = batch(ROWS)
    assert [batch_at(data[:end], 0) for end in range(len(data))] == [None] * len(data)


def test_another_format_is_said() -> None:
    with pytest.raises(UnknownMagic, match="this entry v1"):
        batch_at(encode([(5, None, b"v", 1)], 0, 1), 0)


def test_a_wrong_checksum_is_damage_before_the_first_record_and_may_be_left_unread() -> None:
    data = bytearray(batch(ROWS))
    data[OVERHEAD + 12] ^= 1  # in the value of the first record
    with pytest.raises(CorruptMessage, match="wrong checksum") as caught:
        read(bytes(data))
    assert (caught.value.position, caught.value.offset) == (0, 70)
    assert [row.offset for row in read(bytes(data), check_crcs=False)] == [70, 71, 74]


def test_the_leader_epoch_and_the_base_offset_are_outside_the_checksum() -> None:
    data = bytearray(batch(ROWS))
    data[0:8], data[12:16] = struct.pack(">q", 170), struct.pack(">i", 9)
    assert [row.offset for row in read(bytes(data))] == [170, 171, 174]


def test_bytes_behind_the_last_record_are_damage_behind_the_others() -> None:
    found: list[Record] = []
    data = batch(ROWS, tail=b"xyz")
    head = batch_at(data, 0)
    assert head is not None
    with pytest.raises(CorruptMessage, match="3 bytes after the last record"):
        found.extend(records(data, head))
    assert found == ROWS


def test_a_wrapped_batch_opens_to_no_more_than_its_limit() -> None:
    large = [Record(70, 1, None, b"\0" * 5_000_000, ())]
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        with pytest.raises(CorruptMessage, match="more than the limit of 1000000 bytes"):
            read(batch(large, codec), limit=1_000_000)
        assert read(batch(large, codec), limit=6_000_000) == large


@given(at=st.integers(0, 200), byte=st.integers(0, 255), codec=st.sampled_from([0, GZIP, SNAPPY, LZ4, ZSTD]))
def test_any_changed_byte_is_damage_or_other_values_and_never_another_error(at: int, byte: int, codec: int) -> None:
    data = bytearray(batch(ROWS[:2], codec))
    data[at % len(data)] = byte
    try:
        head = batch_at(bytes(data), 0)
        if head is not None:
            list(records(bytes(data), head, check_crcs=False, limit=1 << 20))
    except CorruptMessage:
        pass


# ---- documents -----------------------------------------------------------------------------------------------------


def test_a_document_has_batches_behind_entries_of_an_older_format() -> None:
    older = encode([(68, None, b"a", 5), (69, None, b"b", 6)], 0, 1)
    end = Record(75, 9, struct.pack(">hh", 0, 1), b"\0" * 6, ())
    data = older + batch(ROWS, TRANSACTIONAL) + batch([end], TRANSACTIONAL | CONTROL, base=75) + b"\0" * 7
    document, damage = set_document(data)
    assert damage is None
    assert [message["offset"] for message in document["messages"]] == [68, 69, 70, 71, 74]
    assert document["messages"][3]["headers"] == [["h", "00ff"], ["h", None], ["é", ""]]
    assert [one["base_offset"] for one in document["batches"]] == [70, 75]
    assert document["batches"][0]["holds"] == {"messages": 3, "from": 2, "first_offset": 70, "last_offset": 74}
    assert document["batches"][1]["control"] == [{"offset": 75, "timestamp": 9, "type": "commit"}]
    assert (document["next_fetch_offset"], document["ignored_tail_bytes"]) == (76, 7)


def test_a_document_begins_at_the_offset_that_was_asked_for() -> None:
    document, _ = set_document(batch(ROWS) + batch([ROWS[0]._replace(offset=80)], base=80), 71)
    assert [message["offset"] for message in document["messages"]] == [71, 74, 80]
    assert set_document(batch(ROWS), 500)[0]["next_fetch_offset"] == 500


def test_a_document_ends_at_the_first_damage() -> None:
    wrong = bytearray(batch([ROWS[0]._replace(offset=80)], base=80))
    wrong[-1] ^= 1
    document, damage = set_document(batch(ROWS) + bytes(wrong))
    assert len(document["messages"]) == 3
    assert damage is not None
    assert document["result"] == "wrong checksum at offset 80"
    assert named("v2_batch_headers").decoded["next_fetch_offset"] == 3003


def test_a_document_shows_older_entries_behind_a_batch_as_the_reader_does() -> None:
    older = encode([(80, None, b"a", 5)], 0, 1) + encode([(81, None, b"b", 6)], GZIP, 1)
    data = batch(ROWS) + older + batch([ROWS[0]._replace(offset=90)], base=90)
    document, damage = set_document(data)
    assert damage is None
    assert [message["offset"] for message in document["messages"]] == [70, 71, 74, 80, 81, 90]
    assert document["wrappers"][0]["holds"] == {"messages": 1, "from": 4, "first_offset": 81, "last_offset": 81}
    assert (document["next_fetch_offset"], document["ignored_tail_bytes"]) == (91, 0)
    read, _ = dialect("3.9").messages.message_set("t", 0, 0, memoryview(data), 100)
    assert [message.offset for message in read.messages()] == [message["offset"] for message in document["messages"]]
