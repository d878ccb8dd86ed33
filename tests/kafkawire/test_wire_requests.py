"""Requests in the versions a dialect speaks, and what their replies mean."""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.dialects import dialect
from kafkawire.errors import LocalError, RemoteError
from kafkawire.model import BrokerPartition, TopicPartition
from kafkawire.protocol import apis
from kafkawire.protocol import requests08 as requests
from kafkawire.protocol.requests08 import ProducedPartition, Request, request_header
from tests.kafkawire.wire_vectors import named

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
D082, D09, D010, D0101 = (dialect(release) for release in ("0.8.2", "0.9", "0.10.0", "0.10.1"))
BATCH = named("produce_request_v3").data[-69:]
D011, D24 = dialect("0.11"), dialect("2.4")


def frame(request: Request, correlation_id: int) -> bytes:
    header = request_header(request.api.key, request.version, correlation_id, "mirror", request.size)
    return header + b"".join(request.buffers)


def fields(request: Request) -> dict[str, Any]:
    return request.api.decode_request(request.version, b"".join(request.buffers))


def reply(request: Request, data: bytes) -> Any:
    body = request.reply_body(len(data))
    assert body.feed(memoryview(data)) == len(data)
    assert body.complete
    return body.result()


BUILT = {
    "metadata_request_v0_three_topics": (0, requests.metadata(D082, ["a1", "a2", "a3"])),
    "metadata_request_v0_all": (1, requests.metadata(D082, None)),
    "metadata_request_v1_all": (2, requests.metadata(D010, None)),
    "produce_request_v0": (10, requests.produce(D082, 1, 10000, {T0: [named("v0_null_key").data]})),
    "produce_request_v3": (12, requests.produce(D011, -1, 30000, {T0: [BATCH]}, magic=2)),
    "fetch_request_v0": (20, requests.fetch(D082, 100, 1, [(T0, 41, 1 << 20)])),
    "list_offsets_request_v0": (30, requests.list_offsets(D082, {T0: -2})),
    "list_offsets_request_v1": (31, requests.list_offsets(D0101, {T0: -1})),
    "group_coordinator_request_v0": (40, requests.group_coordinator(D082, "grp")),
    "offset_commit_request_v0": (50, requests.offset_commit(D082, "grp", {T0: (43, "")}, "zookeeper")),
    "offset_commit_request_v1": (51, requests.offset_commit(D082, "grp", {T0: (43, "")})),
    "offset_commit_request_v2": (52, requests.offset_commit(D09, "grp", {T0: (43, "m")})),
    "offset_fetch_request_v1": (60, requests.offset_fetch(D082, "grp", [T0, T1])),
    "list_groups_request_v0": (75, requests.list_groups(D09)),
    "describe_groups_request_v0": (76, requests.describe_groups(D09, ["grp"])),
    "api_versions_request_v0": (80, requests.api_versions(D010)),
}


@pytest.mark.parametrize("name", BUILT)
def test_what_is_asked_is_the_vector_byte_for_byte(name: str) -> None:
    correlation_id, request = BUILT[name]
    assert frame(request, correlation_id) == named(name).data
    assert request.size == sum(map(len, request.buffers))


def test_every_request_vector_has_a_builder() -> None:
    from tests.kafkawire.wire_vectors import of_kind

    # what a member of a group in Kafka sends: shown by decode, sent by no part of ours
    members = ("join_group_", "sync_group_", "heartbeat_", "leave_group_")
    asked = {vector.name for vector in of_kind("request") if not vector.name.startswith(members)}
    assert asked == BUILT.keys()


def test_sets_are_sent_from_where_they_are() -> None:
    pieces = [memoryview(bytes(1000)), b"x" * 500, memoryview(bytearray(7))]
    request = requests.produce(D082, -1, 1000, {T0: pieces[:2], TopicPartition("u", 3): [], T1: pieces[2:]})
    assert [piece for piece in request.buffers if any(piece is each for each in pieces)] == pieces
    rows = {
        (topic["topic"], row["partition"]): bytes(row["message_set"])
        for topic in fields(request)["topics"]
        for row in topic["partitions"]
    }
    assert rows == {("t", 0): bytes(1000) + b"x" * 500, ("t", 1): bytes(7), ("u", 3): b""}
    assert requests.produce(D082, 1, 1, {}).size == struct.calcsize(">hii")


def test_produce_in_every_version_is_what_the_table_reads() -> None:
    for d in (D082, D09, D010):
        request = requests.produce(d, 1, 10, {T0: [b"abc"]})
        assert fields(request)["topics"][0]["partitions"][0]["message_set"] == b"abc"


def test_acks_0_expects_no_reply() -> None:
    assert not requests.produce(D082, 0, 10, {T0: [b"abc"]}).expects_reply
    assert requests.produce(D082, -1, 10, {T0: [b"abc"]}).expects_reply


def test_the_version_of_produce_follows_the_format() -> None:
    for d, newest in ((D082, 0), (D09, 1), (D010, 2), (D011, 3), (D24, 8)):
        assert requests.produce(d, 1, 10, {T0: [b"abc"]}).version == min(newest, 2)
        assert requests.produce(d, 1, 10, {T0: [b"abc"]}, magic=1).version == min(newest, 2)
        if newest > 2:
            assert requests.produce(d, 1, 10, {T0: [b"abc"]}, magic=2).version == newest
        else:
            with pytest.raises(LocalError, match=f"Produce v{newest} .*does not accept record batches"):
                requests.produce(d, 1, 10, {T0: [b"abc"]}, magic=2)
    sent = requests.produce(D24, -1, 10, {T0: [b"abc"], T1: [b"de"]}, magic=2, transactional_id="mirror-1")
    assert fields(sent)["transactional_id"] == "mirror-1"


def test_what_a_broker_says_about_refused_records_is_kept() -> None:
    request = requests.produce(D24, 1, 10, {T0: [BATCH]}, magic=2)
    row = {"partition": 0, "error": 87, "base_offset": -1, "timestamp": -1, "log_start_offset": -1}
    errors = [{"batch_index": n, "message": why} for n, why in ((0, "no key"), (4, None), (5, "b"), (6, "c"))]
    row |= {"record_errors": errors, "error_message": "One or more records have been rejected"}
    data = request.api.encode_reply(8, {"topics": [{"topic": "t", "partitions": [row]}], "throttle_time_ms": 0})
    produced = reply(request, data)[T0]
    assert produced.refused == ((0, "no key"), (4, ""), (5, "b"), (6, "c"))
    said = "One or more records have been rejected; record 0: no key; record 4; record 5: b; 1 more records"
    assert produced.sentence == said
    assert not produced.stored
    assert ProducedPartition(0, 7).sentence == ""


def test_a_produce_reply_is_by_partition_whatever_their_order() -> None:
    request = requests.produce(D082, 1, 10, {T0: [b""], T1: [b""]})
    data = named("produce_response_v0").data[8:]
    assert reply(request, data) == {T0: ProducedPartition(0, 1234), T1: ProducedPartition(6, -1)}
    assert list(reply(requests.produce(D010, 1, 1, {}), named("produce_response_v2").data[8:])) == [T0]


def test_a_fetch_reply_is_by_partition_with_a_buffer_each() -> None:
    request = requests.fetch(D082, 100, 1, [(T0, 41, 1000)])
    vector = named("fetch_response_v0_partial_tail")
    (fetched,) = reply(request, vector.data[8:])
    assert (fetched.tp, fetched.error, fetched.high_watermark) == (T0, 0, 50)
    assert fetched.buffer == named("v0_set_partial_tail").data


def test_other_replies_are_the_decoded_fields() -> None:
    request = requests.group_coordinator(D082, "grp")
    decoded = reply(request, named("group_coordinator_response_v0").data[8:])
    assert decoded == {"error": 0, "coordinator": {"node_id": 2, "host": "b2", "port": 9092}}


def test_a_reply_no_sane_broker_sends_is_refused_by_its_size() -> None:
    for request in (requests.metadata(D082, None), requests.fetch(D082, 1, 1, [(T0, 0, 1000)])):
        with pytest.raises(RemoteError, match="more than the limit"):
            request.reply_body(0x7FFFFFFF)


def test_many_large_partitions_may_answer_with_what_was_asked_for() -> None:
    wanted = [(TopicPartition("t", number), 0, 4 << 20) for number in range(100)]
    requests.fetch(D082, 1, 1, wanted).reply_body(400 << 20)


def test_no_topics_in_v0_would_ask_for_all_and_is_refused() -> None:
    with pytest.raises(LocalError, match="it would request all"):
        requests.metadata(D082, [])
    assert fields(requests.metadata(D010, []))["topics"] == []


def test_offsets_are_grouped_by_topic() -> None:
    offsets = {T0: (1, ""), TopicPartition("u", 0): (2, "note"), T1: (3, "")}
    topics = fields(requests.offset_commit(D082, "g", offsets, "zookeeper"))["topics"]
    assert [(t["topic"], [(p["partition"], p["offset"], p["metadata"]) for p in t["partitions"]]) for t in topics] == [
        ("t", [(0, 1, ""), (1, 3, "")]),
        ("u", [(0, 2, "note")]),
    ]


def test_a_retention_is_refused_where_the_version_has_none() -> None:
    with pytest.raises(LocalError, match=r"OffsetCommit v1 \(Kafka 0\.8\.2\) has no retention"):
        requests.offset_commit(D082, "g", {T0: (1, "")}, retention_ms=1000)
    assert fields(requests.offset_commit(D09, "g", {T0: (1, "")}, retention_ms=1000))["retention_ms"] == 1000


def test_offsets_of_groups_are_refused_where_the_release_keeps_none() -> None:
    with pytest.raises(LocalError, match=r"Kafka 0\.8\.1 has no OffsetCommit for offsets in kafka"):
        requests.offset_commit(dialect("0.8.1"), "g", {T0: (1, "")})
    with pytest.raises(LocalError, match=r"Kafka 0\.8\.0 has no OffsetFetch for offsets in zookeeper"):
        requests.offset_fetch(dialect("0.8.0"), "g", [T0], "zookeeper")


def test_a_partition_of_0_7_is_refused() -> None:
    with pytest.raises(LocalError, match=r"t/0-1 is a partition of 0\.7"):
        requests.fetch(D082, 1, 1, [(TopicPartition("t", BrokerPartition(0, 1)), 0, 1)])


# ---- Produce replies, at once or by their table --------------------------------------------------------------------

ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 60), st.integers(-1, 1 << 40), st.booleans()), max_size=4)


def produce_reply(version: int, topics: dict[str, list[tuple[int, int, int, bool]]]) -> bytes:
    def row(partition: int, error: int, offset: int, said: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"partition": partition, "error": error, "base_offset": offset}
        found |= {"timestamp": -1} if version >= 2 else {}
        found |= {"log_start_offset": 3} if version >= 5 else {}
        refused = [{"batch_index": 1, "message": "no"}] if said else []
        return found | ({"record_errors": refused, "error_message": "no" if said else None} if version >= 8 else {})

    rows = [{"topic": name, "partitions": [row(*one) for one in each]} for name, each in topics.items()]
    return apis.PRODUCE.encode_reply(version, {"topics": rows, **({"throttle_time_ms": 0} if version else {})})


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 8), st.dictionaries(st.text(max_size=4), ROWS, max_size=3), st.integers(0, 6), st.binary(max_size=2)
)
def test_a_produce_reply_read_at_once_is_that_of_its_table(
    version: int, topics: dict[str, list[tuple[int, int, int, bool]]], cut: int, more: bytes
) -> None:
    whole = produce_reply(version, topics)
    data = memoryview(whole[: len(whole) - cut] + more)
    finish = partial(requests._produced, version)
    request = replace(requests.produce(D24, 1, 1000, {T0: [BATCH]}, 2), version=version, finish=finish)

    def read(quick: object) -> object:
        try:
            return replace(request, quick=quick)._read(data)  # type: ignore[arg-type]
        except RemoteError as odd:
            return type(odd), str(odd)

    assert read(partial(requests._quickly, version)) == read(None)


def test_the_usual_produce_reply_needs_no_table() -> None:
    for version in range(9):
        data = memoryview(produce_reply(version, {"t": [(0, 0, 0, False), (1, 0, 1, False)]}))
        assert requests._quickly(version, data) == {
            T0: ProducedPartition(0, 0, version=version),
            T1: ProducedPartition(0, 1, version=version),
        }
