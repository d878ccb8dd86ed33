"""Session by chunks: any cut of the incoming bytes gives the same replies, and nonsense is a RemoteError."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kafkawire.dialects import dialect
from kafkawire.errors import RemoteError
from kafkawire.model import TopicPartition
from kafkawire.net.session import Session
from kafkawire.protocol import requests08 as requests
from kafkawire.protocol.fetchrows import QuietRows
from tests.kafkawire.forms import feed

D = dialect("0.8.2")
TP = TopicPartition("t", 0)


def metadata_reply(correlation_id: int) -> bytes:
    body = struct.pack(">iii", correlation_id, 1, 7) + b"\0\4host" + struct.pack(">ii", 9092, 0)
    return struct.pack(">i", len(body)) + body


def fetch_reply(correlation_id: int, data: bytes) -> bytes:
    body = struct.pack(">ii", correlation_id, 1) + b"\0\1t" + struct.pack(">iihqi", 1, 0, 0, 99, len(data)) + data
    return struct.pack(">i", len(body)) + body


def asked(*sent: requests.Request) -> Session:
    session = Session("me")
    for request in sent:
        session.send(request)
    return session


def test_a_frame_carries_size_api_version_correlation_id_and_client_id():
    session = Session("me")
    session.send(requests.metadata(D, None))
    frame = b"".join(session.send(requests.metadata(D, ["t"])))
    assert frame == struct.pack(">ihhih", len(frame) - 4, 3, 0, 1, 2) + b"me" + struct.pack(">ih", 1, 1) + b"t"


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 100, 5000, 1 << 20])
def test_any_chunking_gives_the_same_replies_in_order(chunk: int):
    data = bytes(range(256)) * 60
    session = asked(requests.metadata(D, None), requests.fetch(D, 1, 1, [(TP, 0, 99)]), requests.metadata(D, None))
    stream = metadata_reply(0) + fetch_reply(1, data) + metadata_reply(2)
    first, fetched, last = feed(session, stream, chunk)
    assert first.body == last.body
    assert first.body["brokers"] == [{"node_id": 7, "host": "host", "port": 9092}]
    (partition,) = fetched.body
    assert (partition.tp, partition.high_watermark, bytes(partition.buffer)) == (TP, 99, data)
    assert session.outstanding == 0


@pytest.mark.parametrize("chunk", [1, 7, 100, 5000])
def test_what_is_due_of_a_reply_is_what_has_not_arrived(chunk: int):
    data, quiet = bytes(range(256)) * 160, QuietRows()
    replies = [fetch_reply(0, b""), fetch_reply(1, b""), fetch_reply(2, data), metadata_reply(3)]
    fetches = [requests.fetch(D, 1, 1, [(TP, 0, 99)], quiet=quiet) for _ in range(3)]
    session = asked(*fetches, requests.metadata(D, None))
    for reply in replies:
        for at in range(0, len(reply), chunk):
            piece = reply[at : at + chunk]
            feed(session, piece, chunk)
            arrived = at + len(piece)
            assert session.due == (len(reply) - arrived if arrived >= requests.HEADER_BYTES else 0)
    assert session.outstanding == 0


def test_a_fetched_set_has_a_buffer_of_its_own_that_is_received_into():
    session = asked(requests.fetch(D, 1, 1, [(TP, 0, 99)]))
    stream = fetch_reply(0, b"x" * 100_000)
    feed(session, stream[:-90_000], 1 << 20)
    room = session.wanted()
    assert len(room) == 90_000
    room[:] = b"y" * 90_000
    (reply,) = session.received(90_000)
    assert bytes(reply.body[0].buffer) == b"x" * 10_000 + b"y" * 90_000


def test_a_request_without_a_reply_leaves_no_trace():
    produced = requests.produce(D, 0, 1000, {TP: [b"entries"]})
    session = asked(produced, requests.metadata(D, None))
    assert session.outstanding == 1
    (reply,) = feed(session, metadata_reply(1), 1000)
    assert reply.request.api.key == 3


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (metadata_reply(5), "correlation id 5 instead of 0"),
        (struct.pack(">ii", 3, 0), "at least 4 bytes"),
        (struct.pack(">ii", -1, 0), "at least 4 bytes"),
        (struct.pack(">ii", 0x7FFFFFF0, 0), "limit"),
        (b"HTTP/1.1 400 Bad Request\r\n", "instead of 0"),
        (struct.pack(">iii", 8, 0, 1000), "1000"),
    ],
)
def test_a_senseless_reply_is_a_remote_error_and_the_session_is_over(stream: bytes, said: str):
    session = asked(requests.metadata(D, None))
    with pytest.raises(RemoteError, match=said):
        feed(session, stream, 1000)
    for use in (session.wanted, lambda: session.received(1), lambda: session.send(requests.metadata(D, None))):
        with pytest.raises(RemoteError, match=said):
            use()


def test_a_reply_nobody_asked_for_is_a_remote_error():
    with pytest.raises(RemoteError, match="came without a request"):
        feed(Session("me"), metadata_reply(0), 1000)


def test_correlation_ids_stay_positive_when_they_wrap():
    session = Session("me")
    session._correlation_id = 0x7FFFFFFF
    sent: list[Any] = [b"".join(session.send(requests.metadata(D, None))) for _ in range(2)]
    assert [struct.unpack_from(">i", frame, 8)[0] for frame in sent] == [0x7FFFFFFF, 0]
