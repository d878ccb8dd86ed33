"""Heads of record batches: what a log of 0.11 and later says of itself, as brokers send it to Fetch v4."""

from __future__ import annotations

import gzip
import struct

import pytest

from kafkawire.cluster.recordbatches import FETCH, VERSION, LogBatches, RecordBatch, ask, batches, held
from kafkawire.errors import RemoteError
from kafkawire.formats.v01.messages import encode
from kafkawire.model import TopicPartition

TRANSACTIONAL, CONTROL = 0x10, 0x20
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def varint(number: int) -> bytes:
    number, out = (number << 1) ^ (number >> 63), b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def record(n: int, value: bytes | None, headers: int = 0) -> bytes:
    body = b"\0" + varint(0) + varint(n) + varint(-1)
    body += varint(-1) if value is None else varint(len(value)) + value
    body += varint(headers) + b"".join(varint(1) + b"h" + varint(-1) for _ in range(headers))
    return varint(len(body)) + body


def batch(base: int, records: list[bytes], attributes: int = 0, last: int | None = None) -> bytes:
    data = b"".join(records)
    data = gzip.compress(data) if attributes & 7 == 1 else data
    delta = len(records) - 1 if last is None else last - base
    body = struct.pack(">ibIhiqqqhii", 0, 2, 0, attributes, delta, 0, 0, -1, -1, -1, len(records)) + data
    return struct.pack(">qi", base, len(body)) + body


PLAIN = batch(0, [record(n, b"v" * n) for n in range(5)])
WITH_HEADERS = batch(5, [record(0, b"v"), record(1, None, headers=2)])
END = batch(7, [record(0, b"end")], TRANSACTIONAL | CONTROL)
CLEANED = batch(8, [], last=11)  # its messages were compacted away


def test_heads_say_what_is_in_batches() -> None:
    found = batches(PLAIN + WITH_HEADERS + END + CLEANED)
    assert [(b.base_offset, b.last_offset, b.count) for b in found] == [(0, 4, 5), (5, 6, 2), (7, 7, 1), (8, 11, 0)]
    assert [b.headers for b in found] == [False, True, None, False]
    assert [(b.transactional, b.control, b.empty) for b in found] == [
        (False, False, False), (False, False, False), (True, True, True), (False, False, True),
    ]  # fmt: skip
    assert sum(b.nbytes for b in found) == len(PLAIN + WITH_HEADERS + END + CLEANED)


@pytest.mark.parametrize("headers", [0, 1])
def test_records_are_opened_to_look_for_headers_and_zstd_is_not(headers: int) -> None:
    records = [record(n, b"x" * 200, headers if n == 3 else 0) for n in range(5)]
    assert batches(batch(0, records, attributes=1))[0].headers is bool(headers)
    assert batches(batch(0, records, attributes=4))[0].headers is None
    assert batches(batch(0, records)[:-3] + b"\x7f\x7f\x7f")[0].headers in (None, bool(headers))


def test_what_is_cut_is_left_out_and_entries_of_older_formats_are_seen() -> None:
    old = encode([(20, b"k", b"v", 1)], 0, 1)
    for cut in (1, 12, 40, len(END) - 1):
        assert [b.base_offset for b in batches(PLAIN + END[:cut])] == [0]
    assert [(b.base_offset, b.magic, b.empty) for b in batches(old + END)] == [(20, 1, False), (7, 2, True)]
    assert batches(b"") == []
    with pytest.raises(RemoteError, match="has a size field of -5 bytes"):
        batches(struct.pack(">qi", 3, -5) + bytes(80))


def test_one_goes_on_behind_batches_that_hold_no_message() -> None:
    empty = LogBatches(0, 12, 0, tuple(batches(END + CLEANED)))
    assert empty.behind_empty(7) == 12
    assert empty.behind_empty(9) == 12
    assert LogBatches(0, 12, 0, tuple(batches(END + batch(8, [record(0, b"v")])))).behind_empty(7) == 8
    assert LogBatches(0, 12, 0, tuple(batches(WITH_HEADERS))).behind_empty(6) == 6
    assert LogBatches(0, 12, 0, ()).behind_empty(6) == 6
    first = LogBatches(0, 12, 0, tuple(batches(PLAIN + WITH_HEADERS))).batch_at(5)
    assert isinstance(first, RecordBatch)
    assert first.base_offset == 5


def test_a_fetch_in_the_logs_own_format_and_its_reply() -> None:
    request = ask([(T0, 7, 100), (T1, 9, 200)], committed=True)
    asked = FETCH.decode_request(VERSION, b"".join(request.buffers))
    assert (asked["isolation_level"], asked["max_bytes"], asked["max_wait_ms"]) == (1, 300, 0)
    assert asked["topics"][0]["partitions"] == [
        {"partition": 0, "fetch_offset": 7, "max_bytes": 100}, {"partition": 1, "fetch_offset": 9, "max_bytes": 200},
    ]  # fmt: skip
    rows = [
        {"partition": 0, "error": 0, "high_watermark": 8, "last_stable_offset": 8,
         "aborted": [{"producer_id": 1, "first_offset": 0}], "message_set": END},
        {"partition": 1, "error": 76, "high_watermark": -1, "last_stable_offset": -1, "aborted": None,
         "message_set": None},
    ]  # fmt: skip
    reply = FETCH.encode_reply(VERSION, {"throttle_time_ms": 0, "topics": [{"topic": "t", "partitions": rows}]})
    body = request.reply_body(len(reply))
    body.feed(memoryview(reply))
    assert held(body.result()) == {T0: LogBatches(0, 8, 1, tuple(batches(END))), T1: LogBatches(76, -1, 0, ())}
