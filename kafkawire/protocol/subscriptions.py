"""Messages between members of a consumer group through their coordinator: the Java consumer's ConsumerProtocol.

    Subscription    in JoinGroup, to the leader      topics, and user data for the assignor
    Assignment      in SyncGroup, from the leader    partitions, and user data for that member's assignor

Both begin with a version (int16).  0: 0.9 and later; 1 adds the partitions that a member owns (2.4); 2 adds the
generation in which it owns them (3.2); 3 adds its rack (3.5).  Later versions are read as 3, as in Java: fields are
only added at the end.  Version 0 is written, which every leader can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkawire.errors import RemoteError
from kafkawire.model import TopicPartition
from kafkawire.primitives import INT16, Bytes, Reader, Writer
from kafkawire.protocol.schema import Array, Blob, Struct, int32, nullable_string, since, string

PROTOCOL_TYPE = "consumer"  # of JoinGroup; Kafka Connect's is connect
NEWEST = 3
_PARTITIONS = Array(Struct(topic=string, partitions=Array(int32)))
_USER_DATA = Blob(nullable=True)
SUBSCRIPTION = Struct(
    topics=Array(string),
    user_data=_USER_DATA,
    owned=since(1, _PARTITIONS),
    generation=since(2, int32),
    rack=since(3, nullable_string),
)
ASSIGNMENT = Struct(partitions=_PARTITIONS, user_data=_USER_DATA)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Subscription of a member. user_data: of its assignor; None: none."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()

    def encode(self) -> bytes:
        return _encoded(SUBSCRIPTION, {"topics": list(self.topics), "user_data": self.user_data})


def read_subscription(data: Bytes) -> Subscription:
    """Decode a member's subscription of any version.  Raises RemoteError."""
    fields = _decoded("subscription", SUBSCRIPTION, data)
    owned = tuple(_partitions(fields.get("owned", ())))
    return Subscription(tuple(fields["topics"]), _bytes(fields["user_data"]), owned)


def assignment_bytes(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    """Encode a member's assignment, as the leader sends it."""
    by_topic: dict[str, list[int]] = {}
    for tp in partitions:
        by_topic.setdefault(tp.topic, []).append(_number(tp))
    rows = [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()]
    return _encoded(ASSIGNMENT, {"partitions": rows, "user_data": user_data})


def read_assignment(data: Bytes) -> list[TopicPartition]:
    """Decode the partitions of an assignment of any version; empty bytes have none.  Raises RemoteError.

    A coordinator sends empty bytes to a member that the leader left out.
    """
    if not len(data):
        return []
    return _partitions(_decoded("assignment", ASSIGNMENT, data)["partitions"])


def _partitions(rows: Iterable[Mapping[str, Any]]) -> list[TopicPartition]:
    return [TopicPartition(row["topic"], partition) for row in rows for partition in row["partitions"]]


def _number(tp: TopicPartition) -> int:
    assert isinstance(tp.partition, int), tp  # 0.7 has no groups on a coordinator
    return tp.partition


def _encoded(table: Struct, fields: Mapping[str, Any]) -> bytes:
    writer = Writer()
    writer.integer(INT16, 0)
    table.write(writer, fields, 0)
    return writer.done()


def _decoded(what: str, table: Struct, data: Bytes) -> dict[str, Any]:
    reader = Reader(data, what)
    version = reader.integer(INT16)
    if version < 0:
        raise RemoteError(f"a {what} of version {version}: versions begin at 0")
    return table.read(reader, min(version, NEWEST))  # bytes after it are fields of a later version


def _bytes(data: Bytes | None) -> bytes | None:
    return None if data is None else bytes(data)
