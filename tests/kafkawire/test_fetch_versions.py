"""Fetch in each version: what is asked, and replies in any chunking, held against the tables of the api."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pytest

from kafkawire.cluster.listoffsets import DEBUGGING
from kafkawire.decode.v08 import response_document
from kafkawire.dialects import dialect
from kafkawire.errors import NOT_ANSWERED, Follows, RemoteError, Truncated, error_info
from kafkawire.model import TopicPartition
from kafkawire.protocol import requests08 as requests
from kafkawire.protocol.apis import FETCH
from kafkawire.protocol.request import CONSUMER, FetchedPartition, Store
from kafkawire.protocol.requests08 import LEADERS_FETCH, FetchReplyParser
from tests.kafkawire.recordbatches import COMMIT, batch, marker, rows_of

VERSIONS = range(FETCH.newest + 1)
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@dataclass
class Speaks:
    version: int
    release: str = "x"

    def speaks(self, api_key: int, store: Store = "kafka") -> int:
        return self.version


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("committed", [True, False])
def test_what_is_asked_in_each_version(version: int, committed: bool) -> None:
    replica_id = CONSUMER if version <= LEADERS_FETCH else DEBUGGING
    wanted = [(T0, 7, 100), (U0, 8, 200), (T1, 9, 300)]
    request = requests.fetch(Speaks(version), 500, 1, wanted, replica_id, committed)
    assert request.version == version
    asked = FETCH.decode_request(version, b"".join(request.buffers))
    assert [
        (topic["topic"], row["partition"], row["fetch_offset"], row["max_bytes"])
        for topic in asked["topics"]
        for row in topic["partitions"]
    ] == [("t", 0, 7, 100), ("t", 1, 9, 300), ("u", 0, 8, 200)]
    assert asked.get("max_bytes") == (600 if version >= 3 else None)
    assert asked.get("isolation_level") == (int(committed) if version >= 4 else None)
    session = asked.get("session_id"), asked.get("session_epoch"), asked.get("forgotten_topics")
    assert session == ((0, -1, []) if version >= 7 else (None, None, None))
    assert asked.get("rack_id") == ("" if version >= 11 else None)
    row = asked["topics"][0]["partitions"][0]
    assert (row.get("log_start_offset"), row.get("current_leader_epoch")) == (
        -1 if version >= 5 else None, -1 if version >= 9 else None,
    )  # fmt: skip


def test_consumers_ask_in_a_version_that_followers_refuse() -> None:
    for release in ("2.4", "2.8", "3.9", "4.0"):
        speaks = dialect(release)
        request = requests.fetch(speaks, 500, 1, [(T0, 7, 100)], rows=[requests.fetch_rows(speaks, [(U0, 8, 200)])])
        assert request.version == 10
        asked = FETCH.decode_request(10, b"".join(request.buffers))
        assert [topic["topic"] for topic in asked["topics"]] == ["t", "u"]
        assert requests.fetch(speaks, 500, 1, [(T0, 7, 100)], DEBUGGING).version == 11
    assert requests.fetch(dialect("0.11"), 500, 1, [(T0, 7, 100)]).version == 5


def test_more_bytes_than_fit_a_request_are_asked_as_many_as_fit() -> None:
    request = requests.fetch(Speaks(4), 500, 1, [(TopicPartition("t", n), 0, 1 << 30) for n in range(4)])
    assert FETCH.decode_request(4, b"".join(request.buffers))["max_bytes"] == (1 << 31) - 1


def reply(version: int, **whole: Any) -> bytes:
    def row(partition: int, error: int, end: int, data: bytes | None, **more: Any) -> dict[str, Any]:
        fields = {"partition": partition, "error": error, "high_watermark": end, "message_set": data, **more}
        stable = {"last_stable_offset": end - 2, "aborted": None} if version >= 4 else {}
        log = {"log_start_offset": 1} if version >= 5 else {}
        replica = {"preferred_read_replica": -1} if version >= 11 else {}
        return {**stable, **log, **replica, **fields}

    aborted = {"aborted": [{"producer_id": 5, "first_offset": 3}, {"producer_id": 6, "first_offset": 4}]}
    topics = [
        {"topic": "t", "partitions": [
            row(0, 0, 40, b"x" * 10_000, **(aborted if version >= 4 else {})), row(1, 76, -1, None),
        ]},
        {"topic": "u", "partitions": [row(0, 0, 9, b"", **({"aborted": []} if version >= 4 else {}))]},
    ]  # fmt: skip
    fields: dict[str, Any] = {"topics": topics, **whole}
    if version >= 1:
        fields["throttle_time_ms"] = 17
    if version >= 7:
        fields = {"error": 0, "session_id": 0, **fields}
    return FETCH.encode_reply(version, fields)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("chunk", [1, 3, 100, 1 << 20])
def test_replies_of_each_version_in_any_chunking(version: int, chunk: int) -> None:
    data = reply(version)
    parser = FetchReplyParser(version, len(data))
    view = memoryview(data)
    while view:
        taken = parser.feed(view[:chunk])
        assert taken == min(chunk, len(view))
        view = view[taken:]
    assert parser.complete
    assert parser.throttle_ms == (17 if version >= 1 else 0)
    stable, start = version >= 4, 1 if version >= 5 else None
    assert [(row.tp, row.error, row.high_watermark, bytes(row.buffer)) for row in parser.result()] == [
        (T0, 0, 40, b"x" * 10_000), (T1, 76, -1, b""), (U0, 0, 9, b""),
    ]  # fmt: skip
    assert [(row.last_stable_offset, row.log_start_offset, row.aborted) for row in parser.result()] == [
        (38 if stable else None, start, ((5, 3), (6, 4)) if stable else ()),
        (-3 if stable else None, start, ()),
        (7 if stable else None, start, ()),
    ]


def test_a_list_of_aborted_transactions_that_cannot_be_is_no_reason_to_wait_for_it() -> None:
    data = bytearray(reply(4))
    at = data.index((5).to_bytes(8, "big")) - 4
    data[at : at + 4] = (1 << 30).to_bytes(4, "big")
    with pytest.raises(Truncated, match="t/0: 1073741824 aborted transactions"):
        FetchReplyParser(4, len(data)).feed(memoryview(data))


def test_an_error_of_the_whole_request_is_said() -> None:
    data = reply(7, error=29, topics=[])
    with pytest.raises(RemoteError, match=r"TopicAuthorizationFailed \(29\) for the whole request"):
        FetchReplyParser(7, len(data)).feed(memoryview(data))


def test_where_a_reader_gets_to() -> None:
    row = FetchedPartition(T0, 0, 40, memoryview(b""), 38, 0)
    assert (row.readable_end(True), row.readable_end(False)) == (38, 40)
    for told in (None, -1):
        assert FetchedPartition(T0, 0, 40, memoryview(b""), told).readable_end(True) == 40


def test_a_reply_is_decoded_with_its_batches_and_a_set_that_is_null() -> None:
    marked = batch(rows_of(3, 2)) + marker(5, 7, COMMIT)
    data = FETCH.decode_reply(11, reply(11))
    data["topics"][0]["partitions"][0]["message_set"] = marked
    document, damage = response_document(
        (5).to_bytes(4, "big") + FETCH.encode_reply(11, data), framed=False, api=FETCH, version=11
    )
    assert damage is None
    first, second = document["topics"][0]["partitions"]
    assert [message["offset"] for message in first["messages"]] == [3, 4]
    assert first["batches"][1]["control"][0]["type"] == "commit"
    assert first["aborted"] == [{"producer_id": 5, "first_offset": 3}, {"producer_id": 6, "first_offset": 4}]
    assert (second["error"], second["message_set_bytes"]) == (76, None)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_that_a_reply_leaves_out_is_not_answered(version: int) -> None:
    request = requests.fetch(Speaks(version), 500, 1, [(T0, 7, 100), (T1, 9, 300)])
    throttled = struct.pack(">i", 5000) * (version >= 1) + struct.pack(">hi", 0, 0) * (version >= 7)
    body = request.reply_body(len(throttled) + 4)
    body.feed(memoryview(throttled + struct.pack(">i", 0)))
    rows = body.result()
    assert [(row.tp, row.error, len(row.buffer), row.high_watermark) for row in rows] == [
        (T0, NOT_ANSWERED, 0, None), (T1, NOT_ANSWERED, 0, None),
    ]  # fmt: skip
    assert error_info(NOT_ANSWERED).follows is Follows.WAIT
