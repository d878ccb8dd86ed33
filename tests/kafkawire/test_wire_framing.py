"""Frames and bodies: any chunking gives the same reply, and no size is believed before it is checked."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.errors import LeftOver, LocalError, RemoteError, Truncated
from kafkawire.protocol import apis
from kafkawire.protocol.bodies import DIRECT_BYTES, MAX_PLAIN_BYTES, MAX_REPLY_BYTES, Body, PlainBody
from kafkawire.protocol.requests08 import FetchReplyParser, reply_header, request_header

Partition = tuple[int, int, int, bytes]


def fetch_reply(topics: dict[str, list[Partition]], version: int = 0, throttle: int = 0) -> bytes:
    fields: dict[str, Any] = {"throttle_time_ms": throttle} if version else {}
    fields["topics"] = [
        {
            "topic": topic,
            "partitions": [
                {"partition": number, "error": error, "high_watermark": high, "message_set": data}
                for number, error, high, data in rows
            ],
        }
        for topic, rows in topics.items()
    ]
    return apis.FETCH.encode_reply(version, fields)


def give(body: Body, data: bytes, chunks: list[int]) -> int:
    """Receive data as a session does, in chunks of the given sizes (the last one again and again): bytes left."""
    view, number = memoryview(data), 0
    while len(view) and not body.complete:
        size = min(chunks[min(number, len(chunks) - 1)], len(view))
        number += 1
        room = body.direct()
        if room is not None:
            assert len(room) >= DIRECT_BYTES
            size = min(size, len(room))
            room[:size] = view[:size]
            body.filled(size)
            view = view[size:]
        else:
            taken = body.feed(view[:size])
            assert taken == size or body.complete
            view = view[taken:]
    return len(view)


rows = st.tuples(st.integers(0, 99), st.sampled_from([0, 1, 6]), st.integers(-1, 1 << 40), st.binary(max_size=30))
replies = st.dictionaries(st.text(max_size=5), st.lists(rows, max_size=4), max_size=3)


@settings(max_examples=150, deadline=None)
@given(topics=replies, version=st.integers(0, 2), chunks=st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_any_chunking_of_a_fetch_reply_gives_what_the_table_reads(
    topics: dict[str, list[Partition]], version: int, chunks: list[int]
) -> None:
    data = fetch_reply(topics, version, 250)
    parser = FetchReplyParser(version, len(data))
    assert give(parser, data + b"next", chunks) == 4
    assert parser.complete
    expected = [(topic, number, *rest) for topic, partitions in topics.items() for number, *rest in partitions]
    got = [(*f.tp, f.error, f.high_watermark, bytes(f.buffer)) for f in parser.result()]
    assert got == expected
    assert parser.throttle_ms == (250 if version else 0)


def test_a_large_set_is_received_straight_into_a_buffer_of_its_own() -> None:
    sets = [bytes([number]) * 100_000 for number in range(3)]
    data = fetch_reply({"t": [(number, 0, 9, each) for number, each in enumerate(sets)]})
    parser = FetchReplyParser(0, len(data))
    assert parser.direct() is None
    assert parser.feed(memoryview(data)[:64]) == 64
    room = parser.direct()
    assert room is not None
    assert len(room) == 100_000 - (64 - 4 - 3 - 4 - 18)
    assert give(parser, data[64:], [70_000]) == 0
    assert [bytes(f.buffer) for f in parser.result()] == sets
    owners = {id(f.buffer.obj) for f in parser.result()}
    assert len(owners) == 3


def test_a_set_larger_than_the_frame_is_refused_before_it_is_allocated() -> None:
    data = struct.pack(">i", 1) + b"\0\1t" + struct.pack(">iihqi", 1, 0, 0, 0, 0x7FFFFFFF)
    parser = FetchReplyParser(0, len(data) + 100)
    tracemalloc.start()
    try:
        with pytest.raises(Truncated, match="t/0 has a set of 2147483647 bytes, 100 left in the frame"):
            parser.feed(memoryview(data))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [-1, 0x7FFFFFFF])
def test_a_count_of_topics_that_cannot_fit_is_refused(count: int) -> None:
    parser = FetchReplyParser(0, 1000)
    with pytest.raises(Truncated, match=f"{count} topics cannot fit"):
        parser.feed(memoryview(struct.pack(">i", count)))


def test_a_fetch_reply_whose_frame_goes_on_names_the_bytes_left_over() -> None:
    data = fetch_reply({"t": [(0, 0, 9, b"abc")]})
    parser = FetchReplyParser(0, len(data) + 5)
    with pytest.raises(LeftOver, match="5 bytes left over"):
        parser.feed(memoryview(data))


def test_a_fetch_reply_cut_by_its_frame_is_truncated_at_every_size() -> None:
    data = fetch_reply({"t": [(0, 0, 9, b"abc"), (1, 0, 9, b"")], "u": [(0, 1, -1, b"")]})
    for size in range(len(data)):
        with pytest.raises(Truncated):
            FetchReplyParser(0, size).feed(memoryview(data)[:size])


def test_a_topic_name_that_is_no_text_or_has_no_length_is_nonsense() -> None:
    for name, said in ((b"\0\2\xff\xfe", "not UTF-8"), (b"\xff\xff", "name of -1 bytes")):
        with pytest.raises(RemoteError, match=said):
            FetchReplyParser(0, 1000).feed(memoryview(struct.pack(">i", 1) + name))


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=200), version=st.integers(0, 2), size=st.integers(0, 300))
def test_random_fetch_replies_end_or_raise_our_error(data: bytes, version: int, size: int) -> None:
    try:
        parser = FetchReplyParser(version, size)
        give(parser, data, [7])
    except RemoteError:
        return
    assert parser.complete or len(data) < size


def test_a_plain_reply_takes_its_bytes_and_leaves_the_next_frames() -> None:
    body = PlainBody(3, bytes)
    assert [body.feed(memoryview(b"a")), body.complete] == [1, False]
    assert [body.feed(memoryview(b"bcde")), body.complete] == [2, True]
    assert body.result() == b"abc"
    assert PlainBody(0, bytes).complete


def test_a_plain_reply_allocates_what_arrives_and_not_what_its_size_says() -> None:
    tracemalloc.start()
    try:
        body = PlainBody(MAX_PLAIN_BYTES, bytes)
        body.feed(memoryview(b"x" * 100))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_reply_larger_than_any_sane_one_is_refused() -> None:
    with pytest.raises(RemoteError, match="more than the limit"):
        PlainBody(MAX_PLAIN_BYTES + 1, bytes)
    with pytest.raises(RemoteError, match="more than the limit"):
        FetchReplyParser(0, MAX_REPLY_BYTES + 1)


def test_headers() -> None:
    assert request_header(3, 0, 7, "mirror", 4) == bytes.fromhex("00000014 0003 0000 00000007 0006 6d6972726f72")
    assert reply_header(struct.pack(">ii", 10, 7)) == (6, 7)
    for size in (3, 0, -1):
        with pytest.raises(RemoteError, match="declares a size of"):
            reply_header(struct.pack(">ii", size, 7))


def test_a_request_that_fits_no_frame_is_our_fault() -> None:
    with pytest.raises(LocalError, match="does not fit a frame"):
        request_header(0, 0, 0, "mirror", 0x7FFFFFFF)
    with pytest.raises(LocalError, match="client id of 40000 bytes"):
        request_header(0, 0, 0, "m" * 40000, 0)
