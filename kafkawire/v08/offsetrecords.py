"""The records of __consumer_offsets, where brokers keep committed offsets.  Pure: bytes in, values out, and back.

    key     version:int16   0, 1: group topic partition:int32      an offset
                            2: group                               what the coordinator knows of a group (0.9 on)
    value   version:int16   of an offset
                            0: offset metadata timestamp                          0.8.2
                            1: offset metadata commit_time expire_time            0.9 to 2.0, or a retention was told
                            2: offset metadata commit_time                        2.1
                            3: offset leader_epoch:int32 metadata commit_time     2.1 and later
                            of a group: 0 to 3, members with their subscriptions (left undecoded)
    null value              the offset was deleted or has expired, the group is over

offsets and times (ms since the epoch) are int64, texts int16-prefixed UTF-8.  Later versions (compact encodings of 3.x
and 4.x) and whatever else is in there come as UnknownRecord, to be counted: a reader of the whole log must not stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groundwork.java import string_hash
from kafkawire.errors import LocalError, WireError
from kafkawire.primitives import INT16, Bytes, Reader, Writer
from kafkawire.v08.schema import Array, Struct, between, blob, int32, int64, nullable_string, since, string

OFFSETS_TOPIC = "__consumer_offsets"

OFFSET_KEY = Struct(group=string, topic=string, partition=int32)
GROUP_KEY = Struct(group=string)
OFFSET_VALUE = Struct(
    offset=int64,
    leader_epoch=since(3, int32),
    metadata=nullable_string,
    commit_ms=int64,  # v0 calls it timestamp
    expire_ms=between(1, 1, int64),
)
GROUP_VALUE = Struct(
    protocol_type=string,
    generation=int32,
    protocol=nullable_string,
    leader=nullable_string,
    changed_ms=since(2, int64),
    members=Array(
        Struct(
            member_id=string,
            instance_id=since(3, nullable_string),
            client_id=string,
            client_host=string,
            rebalance_timeout=since(1, int32),
            session_timeout=int32,
            subscription=blob,
            assignment=blob,
        )
    ),
)
OFFSET_KEYS, GROUP_KEYS = (0, 1), (2,)
NEWEST_VALUE = 3


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A committed offset.  expire_ms is None where the broker's retention decides; leader_epoch where there is none."""

    offset: int
    metadata: str
    commit_ms: int
    expire_ms: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group of the new consumer protocol as its coordinator wrote it down."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[tuple[str, str, str], ...]  # member id, client id, host


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """value None: a tombstone."""

    group: str
    topic: str
    partition: int
    value: StoredOffset | None


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """value None: a tombstone."""

    group: str
    value: StoredGroup | None


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """why: a sentence.  group, topic, partition are None where the key could not be read."""

    why: str
    group: str | None = None
    topic: str | None = None
    partition: int | None = None


Record = OffsetRecord | GroupRecord | UnknownRecord


def read_record(key: Bytes | None, value: Bytes | None) -> Record:
    """What one message of __consumer_offsets says.  Raises nothing."""
    if key is None:
        return UnknownRecord("a record without a key")
    try:
        version, fields = _key(key)
    except WireError as why:
        return UnknownRecord(str(why))
    if fields is None:
        return UnknownRecord(f"a key of version {version}, which is none we know")
    try:
        if version in GROUP_KEYS:
            return GroupRecord(fields["group"], None if value is None else _group(value))
        return OffsetRecord(**fields, value=None if value is None else _offset(value))
    except WireError as why:
        return UnknownRecord(str(why), **fields)


def group_partition(group: str, partitions: int) -> int:
    """Which of so many partitions keeps a group; its leader is the coordinator.  Java's abs, where abs(MIN) is 0."""
    code = string_hash(group)
    return 0 if code == -(2**31) else abs(code) % partitions


def offset_key(group: str, topic: str, partition: int, version: int = 1) -> bytes:
    """The key of an offset as 0.8.2 (version 0) or 0.9 and later (1) write it."""
    if version not in OFFSET_KEYS:
        raise LocalError(f"a key of version {version} is none of an offset: {OFFSET_KEYS}")
    return _written(OFFSET_KEY, version, {"group": group, "topic": topic, "partition": partition})


def group_key(group: str) -> bytes:
    return _written(GROUP_KEY, GROUP_KEYS[0], {"group": group})


def offset_value(value: StoredOffset, version: int) -> bytes:
    """An offset in version 0 to 3.  LocalError when the version has no place for what is in it, or needs more."""
    _known(version)
    fields: dict[str, Any] = {"offset": value.offset, "metadata": value.metadata, "commit_ms": value.commit_ms}
    if value.expire_ms is not None:
        fields["expire_ms"] = value.expire_ms
    if value.leader_epoch is not None or version >= 3:
        fields["leader_epoch"] = -1 if value.leader_epoch is None else value.leader_epoch
    return _written(OFFSET_VALUE, version, fields)


def group_value(value: StoredGroup, version: int) -> bytes:
    """A group in version 0 to 3; what we do not decode is written empty."""
    members = []
    for member_id, client_id, host in value.members:
        row: dict[str, Any] = {"member_id": member_id, "client_id": client_id, "client_host": host}
        row |= {"session_timeout": 0, "subscription": b"", "assignment": b""}
        row |= {"rebalance_timeout": 0} if version >= 1 else {}
        row |= {"instance_id": None} if version >= 3 else {}
        members.append(row)
    fields: dict[str, Any] = {"protocol_type": value.protocol_type, "generation": value.generation}
    fields |= {"protocol": value.protocol, "leader": value.leader, "members": members}
    fields |= {"changed_ms": -1} if version >= 2 else {}
    _known(version)
    return _written(GROUP_VALUE, version, fields)


def _key(data: Bytes) -> tuple[int, dict[str, Any] | None]:
    reader = Reader(data, "a key of __consumer_offsets")
    version = reader.integer(INT16)
    table = OFFSET_KEY if version in OFFSET_KEYS else GROUP_KEY if version in GROUP_KEYS else None
    if table is None:
        return version, None
    fields = table.read(reader, version)
    reader.finish()
    return version, fields


def _value(table: Struct, data: Bytes, what: str) -> dict[str, Any]:
    reader = Reader(data, what)
    version = _known(reader.integer(INT16), what)
    fields = table.read(reader, version)
    reader.finish()
    return fields


def _offset(data: Bytes) -> StoredOffset:
    fields = _value(OFFSET_VALUE, data, "an offset of __consumer_offsets")
    epoch = fields.get("leader_epoch", -1)
    return StoredOffset(
        fields["offset"],
        fields["metadata"] or "",
        fields["commit_ms"],
        fields.get("expire_ms"),
        epoch if epoch >= 0 else None,
    )


def _group(data: Bytes) -> StoredGroup:
    fields = _value(GROUP_VALUE, data, "a group of __consumer_offsets")
    members = tuple((row["member_id"], row["client_id"], row["client_host"]) for row in fields["members"])
    return StoredGroup(fields["protocol_type"], fields["generation"], fields["protocol"], fields["leader"], members)


def _known(version: int, what: str = "a value of __consumer_offsets") -> int:
    if not 0 <= version <= NEWEST_VALUE:
        raise LocalError(f"{what}: version {version} is none we know (0 to {NEWEST_VALUE})")
    return version


def _written(table: Struct, version: int, fields: Mapping[str, Any]) -> bytes:
    writer = Writer()
    writer.integer(INT16, version)
    table.write(writer, fields, version)
    return writer.done()
