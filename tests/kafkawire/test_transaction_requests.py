"""Requests about transactions as the tables read them back, and OffsetFetch v7 by its bytes."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kafkawire.dialects import dialect
from kafkawire.errors import RemoteError, Truncated
from kafkawire.model import Broker, ProducerId, TopicPartition
from kafkawire.protocol import transactionrequests as requests
from kafkawire.protocol.stableoffsets import StableOffset, StableOffsetFetch, StableOffsets, decode

D = dialect("2.8")
ID = ProducerId(9, 2)
WHO = {"transactional_id": "m-1", "producer_id": 9, "producer_epoch": 2}
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def body(request: Any) -> dict[str, Any]:
    return request.api.decode_request(request.version, b"".join(map(bytes, request.buffers)))  # type: ignore[no-any-return]


def answered(request: Any, fields: dict[str, Any]) -> Any:
    assert request.finish is not None
    data = request.api.encode_reply(request.version, fields)
    return request.finish(request.api.decode_reply(request.version, data))


def test_each_request_says_who_asks_and_its_reply_is_reduced_to_codes():
    init = requests.init_producer_id(D, "m-1", 60000)
    assert body(init) == {"transactional_id": "m-1", "transaction_timeout_ms": 60000}
    reply = {"throttle_time_ms": 0, "error": 0, "producer_id": 9, "producer_epoch": 2}
    assert answered(init, reply) == requests.Initialized(0, ID)
    added = requests.add_partitions(D, "m-1", ID, [A, B])
    assert body(added) == {**WHO, "topics": [{"topic": "t", "partitions": [0, 1]}]}
    rows = [{"topic": "t", "partitions": [{"partition": 0, "error": 0}, {"partition": 1, "error": 51}]}]
    assert answered(added, {"throttle_time_ms": 0, "topics": rows}) == {A: 0, B: 51}
    assert body(requests.add_offsets(D, "m-1", ID, "g")) == {**WHO, "group": "g"}
    assert body(requests.end_txn(D, "m-1", ID, True)) == {**WHO, "commit": True}
    assert answered(requests.end_txn(D, "m-1", ID, True), {"throttle_time_ms": 0, "error": 47}) == 47


@pytest.mark.parametrize("release", ["0.11", "2.0", "2.8", "3.9", "4.0"])
def test_offsets_are_committed_in_the_version_of_the_release(release: str):
    spoken = dialect(release)
    request = requests.txn_offset_commit(spoken, "m-1", ID, "g", {A: (17, "topic=4")})
    ((row,),) = (topic["partitions"] for topic in body(request)["topics"])
    assert (row["partition"], row["offset"], row["metadata"]) == (0, 17, "topic=4")
    assert row.get("leader_epoch", -1) == -1


def test_a_coordinator_is_asked_for_by_its_kind():
    assert body(requests.find_coordinator(D, "m-1", True))["key_type"] == 1
    asked = requests.find_coordinator(D, "g", False)
    assert body(asked)["key_type"] == 0
    where = {"node_id": 3, "host": "h", "port": 9}
    fields = {"throttle_time_ms": 0, "error": 0, "error_message": None, "coordinator": where}
    assert answered(asked, fields) == requests.Coordinator(0, Broker(3, "h", 9))
    assert answered(asked, {**fields, "error": 15}) == requests.Coordinator(15, None)


# ---- OffsetFetch v7 -------------------------------------------------------------------------------------------------

ROW = struct.pack(">iqi", 0, 42, -1) + b"\x08topic=4" + struct.pack(">h", 0) + b"\0"
REPLY = b"\0" + struct.pack(">i", 0) + b"\x02" + b"\x02t" + b"\x02" + ROW + b"\0" + struct.pack(">h", 0) + b"\0"


def test_a_stable_offset_fetch_names_the_partition():
    head, asked = StableOffsetFetch("g1", TopicPartition("uv", 258)).frame(5, "me")
    assert struct.unpack_from(">ihhi", head) == (len(head) + len(asked) - 4, 9, 7, 5)
    assert bytes(asked) == b"\0" + b"\x03g1" + b"\x02" + b"\x03uv\x02\0\0\x01\x02\0" + b"\1" + b"\0"


def test_its_reply_is_read_to_the_last_byte():
    assert decode(REPLY) == StableOffsets(0, {A: StableOffset(42, "topic=4", 0)})
    tagged = REPLY[:-1] + b"\x01\x05\x02ab"  # a tagged field that a later broker adds
    assert decode(tagged) == decode(REPLY)


@pytest.mark.parametrize("size", range(1, len(REPLY)))
def test_a_reply_that_ends_early_is_refused(size: int):
    with pytest.raises((Truncated, RemoteError)):
        decode(REPLY[:size])


def test_a_reply_to_another_request_is_refused():
    head = struct.pack(">ii", 4 + len(REPLY), 6)
    with pytest.raises(RemoteError, match="correlation id 6 instead of 5"):
        StableOffsetFetch("g", A).reply(head, 5)
