"""Responses of brokers that are large: the loop goes on meanwhile, and what no cluster has is refused."""

from __future__ import annotations

import gc
import struct
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from groundwork import pauses
from groundwork.tasks import TaskGroup, let_others_run, sleep
from kafkawire.cluster.metadata import read_reply
from kafkawire.dialects import dialect
from kafkawire.errors import RemoteError
from kafkawire.net.session import Session
from kafkawire.protocol import apis
from kafkawire.protocol.bodies import MAX_METADATA_BYTES, MAX_PLAIN_BYTES

D = dialect("0.8.2")


def metadata(names: list[bytes], partitions: int = 0) -> bytes:
    """A response of v0: one broker, topics by name, each with so many partitions."""
    broker = struct.pack(">iih1si", 1, 1, 1, b"h", 9092)
    rows = b"".join(struct.pack(">hiiiiii", 0, n, 1, 1, 1, 1, 1) for n in range(partitions))
    topics = [struct.pack(">hh", 0, len(name)) + name + struct.pack(">i", partitions) + rows for name in names]
    return broker + struct.pack(">i", len(names)) + b"".join(topics)


@pytest.fixture
def pauses_seen() -> Iterator[list[float]]:
    """The moments of pauses, by CPU time.  The collector leaves alone what this process holds from other tests: going
    through that took half a second."""
    seen: list[float] = []
    gc.collect()
    gc.freeze()
    pauses.pauses_are(lambda: seen.append(time.thread_time()))
    yield seen
    pauses.pauses_are(let_others_run)
    gc.unfreeze()


@pytest.mark.parametrize(("topics", "partitions"), [(100_000, 0), (2, 20_000), (4_000, 10)])
def test_a_large_response_is_decoded_with_pauses(topics: int, partitions: int, pauses_seen: list[float]) -> None:
    data = metadata([b"%d" % n for n in range(topics)], partitions)
    began = time.thread_time()
    view = read_reply(D.requests.metadata(D, None)._read(memoryview(data)))  # type: ignore[attr-defined]
    assert len(view.topics) + len(view.errors) == topics
    moments = [began, *pauses_seen, time.thread_time()]
    assert len(pauses_seen) > len(data) >> 14
    assert max(after - before for before, after in pairwise(moments)) < 0.5


def test_other_tasks_of_the_loop_run_while_a_large_response_is_decoded() -> None:
    data = memoryview(metadata([b"%d" % n for n in range(30_000)]))
    tasks, turns = TaskGroup(), [0]

    def count() -> None:
        while True:
            turns[0] += 1
            sleep(0)

    def decode() -> None:
        turns.append(len(apis.METADATA.decode_reply(0, data)["topics"]))

    tasks.spawn("ticking", count)
    tasks.spawn("decoding", decode).join()
    assert turns[0] > len(data) >> 14
    assert turns[1] == 30_000
    assert tasks.stop(5.0) == []


def test_a_topic_without_a_name_is_refused() -> None:
    with pytest.raises(RemoteError, match="an empty name"):
        apis.METADATA.decode_reply(0, metadata([b"orders", b"", b"x"]))
    assert apis.METADATA.decode_reply(0, metadata([b"orders"]))["topics"][0]["topic"] == "orders"


def test_more_topics_than_a_cluster_has_are_refused_at_once() -> None:
    data = metadata([b""] * 1_200_000)  # 10 MiB of them held up the loop for 7 s
    began = time.process_time()
    with pytest.raises(RemoteError, match="1200000 elements"):
        apis.METADATA.decode_reply(0, data)
    assert time.process_time() - began < 0.1


def test_only_fetched_messages_may_be_as_large_as_a_request() -> None:
    for request, most in (
        (D.requests.metadata(D, None), MAX_METADATA_BYTES),
        (D.requests.group_coordinator(D, "g"), MAX_PLAIN_BYTES),
    ):
        request.reply(struct.pack(">ii", most + 4, 7), 7, None)
        with pytest.raises(RemoteError, match="more than the limit"):
            request.reply(struct.pack(">ii", most + 5, 7), 7, None)


def receive(session: Session, frame: bytes) -> None:
    while frame:
        place = session.wanted()
        count = min(len(place), len(frame))
        place[:count] = frame[:count]
        frame = frame[count:]
        session.received(count)


def test_a_caller_that_is_ended_while_a_response_is_decoded_ends_the_session() -> None:
    """Else the next response would be taken for this one's."""
    data = metadata([b"%d" % n for n in range(10_000)])
    session = Session("test")
    session.send(D.requests.metadata(D, None))

    def ended() -> None:
        raise KeyboardInterrupt

    pauses.pauses_are(ended)
    try:
        with pytest.raises(KeyboardInterrupt):
            receive(session, struct.pack(">ii", len(data) + 4, 0) + data)
    finally:
        pauses.pauses_are(let_others_run)
    with pytest.raises(RemoteError, match="decoding of a reply was interrupted"):
        session.wanted()
