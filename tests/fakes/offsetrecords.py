"""Records of __consumer_offsets as brokers write them: what kafkawire.protocol.offsetrecords reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkawire.errors import LocalError
from kafkawire.primitives import INT16, Writer
from kafkawire.protocol.offsetrecords import (
    GROUP_KEY,
    GROUP_KEY_VERSION,
    GROUP_VALUE,
    OFFSET_KEY,
    OFFSET_VALUE,
    Record,
    StoredGroup,
    StoredOffset,
)


def encoded(record: Record, fields: Mapping[str, Any]) -> bytes:
    """The bytes of the fields, `version` among them, which Record.decode gave or would give."""
    version = fields["version"]
    if not 0 <= version <= record.newest:
        raise LocalError(f"{record.name} of version {version}: known are 0 to {record.newest}")
    writer = Writer()
    writer.integer(INT16, version)
    record.table.write(writer, {name: value for name, value in fields.items() if name != "version"}, version)
    return writer.done()


def offset_key(group: str, topic: str, partition: int, version: int = 1) -> bytes:
    """The key of an offset as 0.8.2 (version 0) or 0.9 and later (1) write it.  LocalError for another version."""
    return encoded(OFFSET_KEY, {"version": version, "group": group, "topic": topic, "partition": partition})


def group_key(group: str) -> bytes:
    writer = Writer()
    writer.integer(INT16, GROUP_KEY_VERSION)
    GROUP_KEY.write(writer, {"group": group}, GROUP_KEY_VERSION)
    return writer.done()


def offset_value(value: StoredOffset, version: int) -> bytes:
    """An offset in version 0 to 4.  LocalError when the version has no place for what is in it, or needs more."""
    fields: dict[str, Any] = {"version": version, "offset": value.offset, "metadata": value.metadata}
    fields["timestamp" if version == 0 else "commit_timestamp"] = value.commit_ms
    if value.expire_ms is not None:
        fields["expire_timestamp"] = value.expire_ms
    if value.leader_epoch is not None or version >= 3:
        fields["leader_epoch"] = -1 if value.leader_epoch is None else value.leader_epoch
    return encoded(OFFSET_VALUE, fields)


def group_value(value: StoredGroup, version: int) -> bytes:
    """A group in version 0 to 4; what we do not decode is written empty."""
    members = []
    for member_id, client_id, host in value.members:
        row: dict[str, Any] = {"member_id": member_id, "client_id": client_id, "client_host": host}
        row |= {"session_timeout": 0, "subscription": b"", "assignment": b""}
        row |= {"rebalance_timeout": 0} if version >= 1 else {}
        row |= {"instance_id": None} if version >= 3 else {}
        members.append(row)
    fields: dict[str, Any] = {"version": version, "protocol_type": value.protocol_type, "generation": value.generation}
    fields |= {"protocol": value.protocol, "leader": value.leader, "members": members}
    fields |= {"changed_timestamp": -1} if version >= 2 else {}
    return encoded(GROUP_VALUE, fields)
