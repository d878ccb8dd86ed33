"""The requests and replies of Kafka 0.8 to 0.10, one table each; names are those of the protocol guide.

throttle_time_ms comes last in a Produce reply and first in every other.  Topics and partitions of a reply may come in
another order than they were asked for: match by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkawire.errors import LocalError
from kafkawire.primitives import Bytes, Reader, Writer
from kafkawire.protocol.schema import (
    Array,
    Row,
    Struct,
    Type,
    between,
    blob,
    boolean,
    int16,
    int32,
    int64,
    message_set,
    nullable_string,
    since,
    string,
    until,
)


@dataclass(frozen=True, eq=False)
class Api:
    """One api: its key, the versions (from 0 on) its two tables describe."""

    key: int
    name: str
    newest: int
    request: Struct
    reply: Struct

    def __repr__(self) -> str:
        return f"<Api {self.key} {self.name} v0-v{self.newest}>"

    def encode_request(self, version: int, fields: Mapping[str, Any]) -> bytes:
        """A request's body, without the frame's header.  LocalError when fields and version do not go together."""
        return self._encode("request", self.request, version, fields)

    def decode_request(self, version: int, data: Bytes) -> dict[str, Any]:
        """The fields of a whole request body.  Truncated, LeftOver, RemoteError."""
        return self._decode("request", self.request, version, data)

    def encode_reply(self, version: int, fields: Mapping[str, Any]) -> bytes:
        return self._encode("reply", self.reply, version, fields)

    def decode_reply(self, version: int, data: Bytes) -> dict[str, Any]:
        """The fields of a whole reply body.  Truncated, LeftOver, RemoteError."""
        return self._decode("reply", self.reply, version, data)

    def _encode(self, what: str, table: Struct, version: int, fields: Mapping[str, Any]) -> bytes:
        self.known(version)
        writer = Writer()
        try:
            table.write(writer, fields, version)
        except LocalError as exc:
            raise LocalError(f"{self.name} {what}: {exc}") from None
        return writer.done()

    def _decode(self, what: str, table: Struct, version: int, data: Bytes) -> dict[str, Any]:
        self.known(version)
        reader = Reader(data, f"{self.name} v{version} {what}")
        fields = table.read(reader, version)
        reader.finish()
        return fields

    def known(self, version: int) -> int:
        """The version, if the tables describe it; else LocalError."""
        if not 0 <= version <= self.newest:
            raise LocalError(f"{self.name} is known in versions 0 to {self.newest}, not {version}")
        return version


def _topics(**partition: Type | Any) -> Array:
    return Array(Struct(topic=string, partitions=Array(Struct(partition=int32, **partition))))


PRODUCE_HEAD = Struct(acks=int16, timeout_ms=int32)  # what comes before the topics: those are written without copying
PRODUCE = Api(
    0,
    "Produce",
    2,
    request=Struct(acks=int16, timeout_ms=int32, topics=_topics(message_set=message_set)),
    reply=Struct(
        topics=_topics(error=int16, base_offset=int64, timestamp=since(2, int64)),
        throttle_time_ms=since(1, int32),
    ),
)
FETCH = Api(
    1,
    "Fetch",
    2,
    request=Struct(
        replica_id=int32,
        max_wait_ms=int32,
        min_bytes=int32,
        topics=_topics(fetch_offset=int64, max_bytes=int32),
    ),
    reply=Struct(
        throttle_time_ms=since(1, int32),
        topics=_topics(error=int16, high_watermark=int64, message_set=message_set),
    ),
)
LIST_OFFSETS = Api(
    2,
    "ListOffsets",
    1,
    request=Struct(
        replica_id=int32,
        topics=_topics(time=until(1, int64), max_offsets=until(1, int32), timestamp=since(1, int64)),
    ),
    reply=Struct(
        topics=_topics(error=int16, offsets=until(1, Array(int64)), timestamp=since(1, int64), offset=since(1, int64)),
    ),
)
METADATA = Api(
    3,
    "Metadata",
    1,
    # v0: an empty array asks for all topics, null does not exist; v1: null asks for all, an empty array for none
    request=Struct(topics=Array(string, nullable_since=1)),
    reply=Struct(
        brokers=Array(Struct(node_id=int32, host=string, port=int32, rack=since(1, nullable_string))),
        controller_id=since(1, int32),
        topics=Array(
            Struct(
                error=int16,
                topic=string,
                is_internal=since(1, boolean),
                partitions=Array(
                    Struct(error=int16, partition=int32, leader=int32, replicas=Array(int32), isr=Array(int32))
                ),
            )
        ),
    ),
)
OFFSET_COMMIT = Api(
    8,
    "OffsetCommit",
    2,
    request=Struct(
        group=string,
        generation=since(1, int32),
        member_id=since(1, string),
        retention_ms=since(2, int64),
        # metadata: 0.10 reads null too, 0.9 does not; we never write it
        topics=_topics(offset=int64, timestamp=between(1, 1, int64), metadata=nullable_string),
    ),
    reply=Struct(topics=_topics(error=int16)),
)
OFFSET_FETCH = Api(
    9,
    "OffsetFetch",
    1,  # v0 reads ZooKeeper, v1 reads Kafka; the bytes are the same
    request=Struct(group=string, topics=Array(Struct(topic=string, partitions=Array(int32)))),
    reply=Struct(topics=_topics(offset=int64, metadata=nullable_string, error=int16)),
)
GROUP_COORDINATOR = Api(
    10,
    "GroupCoordinator",
    0,
    request=Struct(group=string),
    reply=Struct(error=int16, coordinator=Struct(node_id=int32, host=string, port=int32)),
)
JOIN_GROUP = Api(
    11,
    "JoinGroup",
    1,
    request=Struct(
        group=string,
        session_timeout=int32,
        rebalance_timeout=since(1, int32),
        member_id=string,
        protocol_type=string,
        protocols=Array(Struct(name=string, metadata=blob)),
    ),
    reply=Struct(
        error=int16,
        generation=int32,
        protocol=string,
        leader_id=string,
        member_id=string,
        members=Array(Struct(member_id=string, metadata=blob)),
    ),
)
HEARTBEAT = Api(
    12,
    "Heartbeat",
    0,
    request=Struct(group=string, generation=int32, member_id=string),
    reply=Struct(error=int16),
)
LEAVE_GROUP = Api(
    13,
    "LeaveGroup",
    0,
    request=Struct(group=string, member_id=string),
    reply=Struct(error=int16),
)
SYNC_GROUP = Api(
    14,
    "SyncGroup",
    0,
    request=Struct(
        group=string,
        generation=int32,
        member_id=string,
        assignments=Array(Struct(member_id=string, assignment=blob)),
    ),
    reply=Struct(error=int16, assignment=blob),
)
DESCRIBE_GROUPS = Api(
    15,
    "DescribeGroups",
    0,
    request=Struct(groups=Array(string)),
    reply=Struct(
        groups=Array(
            Struct(
                error=int16,
                group=string,
                state=string,
                protocol_type=string,
                protocol=string,
                members=Array(
                    Struct(member_id=string, client_id=string, client_host=string, metadata=blob, assignment=blob)
                ),
            )
        )
    ),
)
LIST_GROUPS = Api(
    16,
    "ListGroups",
    0,
    request=Struct(),
    reply=Struct(error=int16, groups=Array(Struct(group=string, protocol_type=string))),
)
API_VERSIONS = Api(
    18,
    "ApiVersions",
    0,
    request=Struct(),
    reply=Struct(error=int16, api_versions=Array(Row((int16, int16, int16)))),  # key, lowest, highest
)

APIS: dict[int, Api] = {
    api.key: api
    for api in (
        PRODUCE,
        FETCH,
        LIST_OFFSETS,
        METADATA,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        GROUP_COORDINATOR,
        JOIN_GROUP,
        HEARTBEAT,
        LEAVE_GROUP,
        SYNC_GROUP,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        API_VERSIONS,
    )
}


def api(key: int) -> Api:
    """The api of a key.  LocalError for one we do not speak."""
    if key not in APIS:
        raise LocalError(f"api key {key} is none we speak; known: {', '.join(map(str, APIS))}")
    return APIS[key]
