"""Records of __consumer_offsets, where brokers keep committed offsets.  Pure: bytes in, values out.

    key     version:int16   0, 1: group topic partition:int32      an offset
                            2: group                               state of a group (0.9 and later)
                            3 and later: ...                       newer group protocols (3.7 and later): StateRecord
    value   version:int16   of an offset
                            0: offset metadata timestamp                          0.8.2
                            1: offset metadata commit_time expire_time            0.9 to 2.0, or with a retention given
                            2: offset metadata commit_time                        2.1
                            3: offset leader_epoch:int32 metadata commit_time     2.1 and later
                            4: the same in the compact encoding, with tags        4.1 and later
                            of a group: 0 to 4, members with their subscriptions (left undecoded)
    null value              the offset was deleted or has expired, or the group has ended

offsets and times (ms since the epoch) are int64, texts int16-prefixed UTF-8.  Later versions and other records are
returned as UnknownRecord, to be counted and reported: a reader of the whole log must not stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from groundwork.java import string_hash
from kafkawire.errors import RemoteError, WireError
from kafkawire.primitives import INT16, Bytes, Reader
from kafkawire.protocol.schema import (
    Array,
    CompactArray,
    Struct,
    between,
    blob,
    compact_blob,
    compact_nullable_string,
    compact_string,
    flexible,
    int32,
    int64,
    nullable_string,
    since,
    string,
    until,
)

OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class Record:
    """Record that begins with an int16 version, which selects the fields of the table."""

    name: str
    newest: int
    table: Struct

    def decode(self, data: Bytes) -> dict[str, Any]:
        """Return its fields, including `version`.  Raises RemoteError for an unknown version."""
        reader = Reader(data, self.name)
        version = reader.integer(INT16)
        if not 0 <= version <= self.newest:
            raise RemoteError(f"{self.name} of version {version}: known are 0 to {self.newest}")
        fields = self.table.read(reader, version)
        reader.finish()
        return {"version": version, **fields}


OFFSET_KEY = Record("offset key", 1, Struct(group=string, topic=string, partition=int32))  # 0.8.2 writes version 0
GROUP_KEY, GROUP_KEY_VERSION = Struct(group=string), 2
OFFSET_VALUE = Record(
    "offset value",
    4,
    Struct(
        4,
        offset=int64,
        leader_epoch=since(3, int32),
        metadata=flexible(4, nullable_string, compact_nullable_string),
        timestamp=until(1, int64),
        commit_timestamp=since(1, int64),
        expire_timestamp=between(1, 1, int64),
    ),
)
_text = flexible(4, string, compact_string)
_nullable_text = flexible(4, nullable_string, compact_nullable_string)
_MEMBER = Struct(
    4,
    member_id=_text,
    instance_id=since(3, _nullable_text),
    client_id=_text,
    client_host=_text,
    rebalance_timeout=since(1, int32),
    session_timeout=int32,
    subscription=flexible(4, blob, compact_blob),
    assignment=flexible(4, blob, compact_blob),
)
GROUP_VALUE = Record(
    "group value",
    4,
    Struct(
        4,
        protocol_type=_text,
        generation=int32,
        protocol=_nullable_text,
        leader=_nullable_text,
        changed_timestamp=since(2, int64),
        members=flexible(4, Array(_MEMBER), CompactArray(_MEMBER)),
    ),
)


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """Committed offset. expire_ms: None if the broker's retention applies; leader_epoch: None if there is none."""

    offset: int
    metadata: str
    commit_ms: int
    expire_ms: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """Group of the new consumer protocol as its coordinator stored it."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[tuple[str, str, str], ...]  # member id, client id, host


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """Record of a committed offset. value None: a tombstone."""

    group: str
    topic: str
    partition: int
    value: StoredOffset | None


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """Record of a group. value None: a tombstone."""

    group: str
    value: StoredGroup | None


@dataclass(frozen=True, slots=True)
class StateRecord:
    """State of a group of a newer protocol (KIP-848, share, streams), not decoded. kind: the version of its key."""

    kind: int


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """Record that cannot be decoded. why: a sentence. group, topic, partition are None if the key could not be read."""

    why: str
    group: str | None = None
    topic: str | None = None
    partition: int | None = None


Read = OffsetRecord | GroupRecord | StateRecord | UnknownRecord


def read_record(key: Bytes | None, value: Bytes | None) -> Read:
    """Decode one message of __consumer_offsets.  Raises nothing."""
    if key is None:
        return UnknownRecord("a record without a key")
    if len(key) >= INT16.size and (kind := INT16.unpack_from(key)[0]) > GROUP_KEY_VERSION:
        return StateRecord(kind)
    try:
        fields = _key(key)
    except WireError as why:
        return UnknownRecord(str(why))
    try:
        if "topic" in fields:
            return OffsetRecord(**fields, value=None if value is None else _offset(value))
        return GroupRecord(fields["group"], None if value is None else _group(value))
    except WireError as why:
        return UnknownRecord(str(why), **fields)


def group_partition(group: str, partitions: int) -> int:
    """Return the partition of __consumer_offsets that keeps a group; its leader is the coordinator.  Uses Java's abs,
    with abs(MIN) = 0."""
    hashed = string_hash(group)
    return 0 if hashed == -(2**31) else abs(hashed) % partitions


def _key(data: Bytes) -> dict[str, Any]:
    """Return group, topic, partition of an offset key; only the group for a group key."""
    reader = Reader(data, "group key")
    if reader.integer(INT16) != GROUP_KEY_VERSION:
        fields = OFFSET_KEY.decode(data)
        del fields["version"]
        return fields
    fields = GROUP_KEY.read(reader, GROUP_KEY_VERSION)
    reader.finish()
    return fields


def _offset(data: Bytes) -> StoredOffset:
    fields = OFFSET_VALUE.decode(data)
    epoch = fields.get("leader_epoch", -1)
    return StoredOffset(
        fields["offset"],
        fields["metadata"] or "",
        fields["timestamp"] if fields["version"] == 0 else fields["commit_timestamp"],
        fields.get("expire_timestamp"),
        epoch if epoch >= 0 else None,
    )


def _group(data: Bytes) -> StoredGroup:
    fields = GROUP_VALUE.decode(data)
    members = tuple((row["member_id"], row["client_id"], row["client_host"]) for row in fields["members"])
    return StoredGroup(fields["protocol_type"], fields["generation"], fields["protocol"], fields["leader"], members)
