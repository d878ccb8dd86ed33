"""Tables of the requests that only sequences send; kafkawire has the others."""

from __future__ import annotations

import struct
from typing import Any

from kafkawire.protocol.api import Api, by_topic
from kafkawire.protocol.schema import Array, Struct, int8, int16, int32, int64, nullable_string, string
from tests.simulation.sequences.cluster import Fields

DELETE_TOPICS = Api(
    20,
    "DeleteTopics",
    1,
    request=Struct(topics=Array(string), timeout_ms=int32),
    reply=Struct(throttle_time_ms=int32, topics=Array(Struct(topic=string, error=int16))),
)
DELETE_RECORDS = Api(
    21,
    "DeleteRecords",
    1,
    request=Struct(topics=by_topic(offset=int64), timeout_ms=int32),
    reply=Struct(throttle_time_ms=int32, topics=by_topic(low_watermark=int64, error=int16)),
)
ELECT_LEADERS = Api(
    43,
    "ElectLeaders",
    1,
    request=Struct(election_type=int8, topics=Array(Struct(topic=string, partitions=Array(int32))), timeout_ms=int32),
    reply=Struct(
        throttle_time_ms=int32,
        error=int16,
        topics=by_topic(error=int16, message=nullable_string),
    ),
)


class Reassignment:
    """AlterPartitionReassignments v0 of one partition, whose encoding is flexible; the answer is left as it is."""

    key = 45

    def encode_request(self, version: int, fields: Fields) -> bytes:
        name, replicas = str(fields["topic"]).encode(), fields["replicas"]
        row = struct.pack(f">ib{len(replicas)}ib", fields["partition"], len(replicas) + 1, *replicas, 0)
        topic = bytes([len(name) + 1]) + name + b"\2" + row + b"\0"
        return b"\0" + struct.pack(">i", 10_000) + b"\2" + topic + b"\0"

    def decode_reply(self, version: int, data: bytes) -> Any:
        return bytes(data)
