"""Requests and replies of 0.7: the recorded bytes both ways, any chunking, and what no broker should send."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.dialects import dialect
from kafkawire.errors import LocalError, RemoteError, Truncated
from kafkawire.model import BrokerPartition, TopicPartition
from kafkawire.net.session import Session
from kafkawire.protocol import requests07 as requests
from tests.cases import each
from tests.kafkawire import wire_vectors07
from tests.kafkawire.forms import feed

D = dialect("0.7")
A, B = TopicPartition("a", BrokerPartition(3, 0)), TopicPartition("bb", BrokerPartition(3, 1))


# ---- the recorded bytes ---------------------------------------------------------------------------------------------


class Look:
    """A reader of requests that knows nothing of how ours are made."""

    def __init__(self, frame: bytes) -> None:
        (size,) = struct.unpack_from(">i", frame)
        assert size == len(frame) - 4
        self.data, self.at = frame, 4

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return int(value)

    def bytes(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def tp(self) -> TopicPartition:
        topic = self.bytes(self.number("h")).decode()
        return TopicPartition(topic, BrokerPartition(0, self.number("i")))


def built_again(frame: bytes) -> requests.Request | None:
    """The request a frame asks for, made by our builders; None for what they never make."""
    look = Look(frame)
    kind = look.number("h")
    count = look.number("h") if kind in (2, 3) else 1
    if kind in (1, 2):
        if kind == 2 and count == 1:
            return None  # one partition: we send a Fetch
        return requests.fetch(D, 0, 0, [(look.tp(), look.number("q"), look.number("i")) for _ in range(count)])
    if kind in (0, 3):
        if kind == 3 and count == 1:
            return None  # likewise
        return requests.produce(D, 1, 0, {look.tp(): [look.bytes(look.number("i"))] for _ in range(count)})
    if kind == 4:
        return requests.list_offsets(D, {look.tp(): look.number("q")}, look.number("i"))
    return None


FRAMES = [(e.name, e.request) for e in wire_vectors07.exchanges() if len(e.request) > 6]
FRAMES += [(vector.name, vector.data) for vector in wire_vectors07.of_kind("request")]


@each(("name", "frame"), FRAMES)
def test_our_builders_give_the_recorded_bytes(name: str, frame: bytes) -> None:
    request = built_again(frame)
    if request is None:
        assert struct.unpack_from(">hh", frame, 4) in ((2, 1), (3, 1))
        return
    assert b"".join(request.frame(7, "me")) == frame
    assert request.size == len(frame) - 4
    assert request.expects_reply == (frame[5] not in (0, 3))


def answered(request: requests.Request, data: bytes, chunk: int = 1 << 20) -> Any:
    session = Session("me")
    session.send(request)
    (reply,) = feed(session, data, chunk)
    assert session.outstanding == 0
    return reply.body


ANSWERED = [e for e in wire_vectors07.exchanges() if e.response and built_again(e.request) is not None]


@each("exchange", ANSWERED)
@each("chunk", [1, 7, 1 << 20])
def test_recorded_replies_are_read_in_any_chunking(exchange: wire_vectors07.Exchange, chunk: int) -> None:
    request = built_again(exchange.request)
    assert request is not None
    body = answered(request, exchange.response, chunk)
    if request.api is requests.OFFSETS:
        rows = [row for topic in body["topics"] for row in topic["partitions"]]
        again = b"".join(
            struct.pack(f">hi{len(row['offsets'])}q", row["error"], len(row["offsets"]), *row["offsets"])
            for row in rows
        )
    else:
        sets = [struct.pack(">h", row.error) + bytes(row.buffer) for row in body]
        many = request.api is requests.MULTIFETCH
        again = b"\0\0" + b"".join(struct.pack(">i", len(one)) + one for one in sets) if many else sets[0]
        assert [row.tp for row in body] == list(request.asked)
        assert all(row.high_watermark is None for row in body)
    assert struct.pack(">i", len(again)) + again == exchange.response


# ---- sessions -------------------------------------------------------------------------------------------------------


def fetch_reply(*sets: tuple[int, bytes]) -> bytes:
    parts = b"".join(struct.pack(">ih", len(data) + 2, error) + data for error, data in sets)
    return struct.pack(">ih", len(parts) + 2, 0) + parts


def offsets_reply(*positions: int) -> bytes:
    return struct.pack(f">ihi{len(positions)}q", 6 + 8 * len(positions), 0, len(positions), *positions)


Fetched = tuple[int, bytes]
SETS = st.lists(st.tuples(st.sampled_from([0, 1, 3, -1]), st.binary(max_size=9000)), min_size=2, max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(SETS, max_size=3), st.lists(st.integers(0, 1 << 60), max_size=5), st.integers(1, 20_000))
def test_replies_come_in_the_order_of_requests_whatever_the_chunks(
    fetches: list[list[Fetched]], positions: list[int], chunk: int
) -> None:
    session = Session("me")
    stream = b""
    for sets in fetches:
        session.send(
            requests.fetch(D, 0, 0, [(TopicPartition("t", BrokerPartition(1, n)), 0, 9000) for n in range(len(sets))])
        )
        session.send(requests.produce(D, -1, 0, {A: [b"x"]}))  # leaves no trace
        session.send(requests.list_offsets(D, {A: -1, B: -2}, 9))
        stream += fetch_reply(*sets) + offsets_reply(*positions) + offsets_reply()
    replies = feed(session, stream, chunk)
    assert session.outstanding == 0
    assert [[(row.error, bytes(row.buffer)) for row in reply.body] for reply in replies[::2]] == fetches
    for reply in replies[1::2]:
        assert [row["offsets"] for topic in reply.body["topics"] for row in topic["partitions"]] == [positions, []]


def test_a_fetched_set_has_a_buffer_of_its_own_that_is_received_into() -> None:
    session = Session("me")
    session.send(requests.fetch(D, 0, 0, [(A, 0, 1 << 20)]))
    stream = struct.pack(">ih", 100_002, 0) + b"x" * 100_000
    feed(session, stream[:10_006], 1 << 20)
    room = session.wanted()
    assert len(room) == 90_000
    room[:] = b"y" * 90_000
    (reply,) = session.received(90_000)
    assert bytes(reply.body[0].buffer) == b"x" * 10_000 + b"y" * 90_000


def test_offsets_of_many_partitions_are_one_reply() -> None:
    both = TopicPartition("a", BrokerPartition(3, 2))
    request = requests.list_offsets(D, {A: -1, B: -2, both: 17}, 3)
    assert len(request.bodies) == 3
    body = answered(request, offsets_reply(41, 0) + offsets_reply(7) + offsets_reply(), 3)
    assert body == {
        "topics": [
            {
                "topic": "a",
                "partitions": [
                    {"partition": A.partition, "error": 0, "offsets": [41, 0]},
                    {"partition": both.partition, "error": 0, "offsets": []},
                ],
            },
            {"topic": "bb", "partitions": [{"partition": B.partition, "error": 0, "offsets": [7]}]},
        ]
    }


def test_a_partition_may_be_asked_for_twice() -> None:
    body = answered(requests.fetch(D, 0, 0, [(A, 0, 9), (A, 5, 9)]), fetch_reply((0, b"one"), (0, b"two")))
    assert [bytes(row.buffer) for row in body] == [b"one", b"two"]


def test_an_error_of_the_whole_is_one_of_each() -> None:
    body = answered(requests.fetch(D, 0, 0, [(A, 0, 9), (B, 0, 9)]), struct.pack(">ih", 2, -1))
    assert [(row.tp, row.error, len(row.buffer)) for row in body] == [(A, -1, 0), (B, -1, 0)]


# ---- what makes no sense --------------------------------------------------------------------------------------------

ONE, TWO = requests.fetch(D, 0, 0, [(A, 0, 100)]), requests.fetch(D, 0, 0, [(A, 0, 100), (B, 0, 100)])
OFFSETS = requests.list_offsets(D, {A: -1, B: -1})


@each(
    ("request_", "stream", "said"),
    [
        (ONE, bytes.fromhex("000000010000"), "declares a size of 1: it must be at least 2"),
        (ONE, struct.pack(">i", -5), "declares a size of -5"),
        (ONE, struct.pack(">i", 0), "declares a size of 0"),
        (ONE, struct.pack(">i", 0x7FFFFFFF), "limit"),
        (TWO, struct.pack(">ihih", 8, 0, 100, 0), "a/3-0 has a set of 98 bytes, 0 left"),
        (TWO, struct.pack(">ihih", 8, 0, 1, 0), "a/3-0 has a set of -1 bytes"),
        (TWO, struct.pack(">ihih", 8, 0, 2, 0), "6 bytes wanted, 0 left"),
        (TWO, struct.pack(">ihihihi", 18, 0, 2, 0, 2, 0, 0), "4 bytes left over"),
        (OFFSETS, struct.pack(">ihi", 6, 0, 1), "a/3-0 has 1 offsets, 0 bytes left"),
        (OFFSETS, struct.pack(">ihi", 6, 0, -1), "a/3-0 has -1 offsets"),
        (OFFSETS, struct.pack(">ihiq", 14, 0, 0, 0), "8 bytes left over"),
        (OFFSETS, struct.pack(">i", 3) + b"\0\0\0", "6 bytes wanted, 3 left"),
        (OFFSETS, offsets_reply(1) + struct.pack(">i", 1), "declares a size of 1"),
        (OFFSETS, offsets_reply(1) + struct.pack(">i", 0x7FFFFFFF), "limit"),
        (OFFSETS, offsets_reply(1) + struct.pack(">ihi", 6, 0, 1 << 28), "bb/3-1 has 268435456 offsets"),
    ],
)
@each("chunk", [1, 1000])
def test_a_senseless_reply_is_a_remote_error_and_the_session_is_over(
    request_: requests.Request, stream: bytes, said: str, chunk: int
) -> None:
    session = Session("me")
    session.send(request_)
    with pytest.raises(RemoteError, match=said):
        feed(session, stream, chunk)
    with pytest.raises(RemoteError, match=said):
        session.wanted()


def test_a_reply_to_what_has_none_is_a_remote_error() -> None:
    session = Session("me")
    session.send(requests.produce(D, 1, 0, {A: [b"set"]}))
    assert session.outstanding == 0
    with pytest.raises(RemoteError, match="came without a request"):
        feed(session, b"\0\0\0\2\0\0", 1000)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([ONE, TWO, OFFSETS]), st.binary(max_size=60))
def test_rubbish_never_raises_anything_else(request_: requests.Request, rubbish: bytes) -> None:
    session = Session("me")
    session.send(request_)
    try:
        feed(session, b"\0\0\0" + rubbish, 5)
    except RemoteError:
        pass


@each("cut", range(0, 24, 3))
def test_a_cut_reply_is_not_complete(cut: int) -> None:
    stream = fetch_reply((0, b"12345678"), (1, b""))
    session = Session("me")
    session.send(TWO)
    assert feed(session, stream[:cut], 1000) == []
    assert session.waiting() == "1 MultiFetch"


# ---- what is refused here -------------------------------------------------------------------------------------------


def test_what_cannot_be_asked_is_our_fault() -> None:
    numbered = TopicPartition("t", 3)
    many = [(TopicPartition("t", BrokerPartition(0, n)), 0, 9) for n in range(0x8000)]
    for message, ask in {
        "t/3 is a partition of Kafka 0.8 and later": lambda: requests.fetch(D, 0, 0, [(numbered, 0, 9)]),
        "fetch of -1 bytes": lambda: requests.fetch(D, 0, 0, [(A, 0, -1)]),
        "MultiFetch of 32768 partitions": lambda: requests.fetch(D, 0, 0, many),
        "offsets of no partition": lambda: requests.list_offsets(D, {}),
        "topic name of 40000 bytes": lambda: requests.list_offsets(D, {TopicPartition("t" * 40000, A.partition): -1}),
    }.items():
        with pytest.raises(LocalError, match=message):
            ask()


def test_the_set_of_a_produce_is_not_copied() -> None:
    entries = memoryview(b"entries")
    pieces = requests.produce(D, 1, 0, {A: [entries, b"more"], B: [b"x"]}).frame(0, "me")
    assert any(piece is entries for piece in pieces)
    assert b"".join(pieces)[4:8] == b"\0\3\0\2"


def test_a_truncated_set_is_the_kind_that_others_know() -> None:
    session = Session("me")
    session.send(TWO)
    with pytest.raises(Truncated):
        feed(session, struct.pack(">ihih", 8, 0, 100, 0), 1000)
