"""What Kafka keeps inside its own messages: the consumer protocol in group requests, and the offsets topic.

    subscription, assignment   the metadata and assignment bytes of protocol_type "consumer" (JoinGroup, SyncGroup)
    offset key, offset value   a record of __consumer_offsets; a null value is a deleted offset
Each begins with a version of its own, which picks the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groundwork.java import string_hash
from kafkawire.errors import LocalError, RemoteError
from kafkawire.primitives import INT16, Bytes, Reader, Writer
from kafkawire.v08.schema import Array, Struct, int32, int64, nullable_blob, since, string, until

OFFSETS_PARTITIONS = 50  # offsets.topic.num.partitions unless a cluster says otherwise


class Record:
    """version:int16, then the fields of that version."""

    def __init__(self, name: str, newest: int, table: Struct) -> None:
        self.name = name
        self.newest = newest
        self._table = table

    def decode(self, data: Bytes) -> dict[str, Any]:
        """Its fields, `version` among them.  RemoteError for a version with no table."""
        reader = Reader(data, self.name)
        version = reader.integer(INT16)
        if not 0 <= version <= self.newest:
            raise RemoteError(f"{self.name} of version {version}: known are 0 to {self.newest}")
        fields = self._table.read(reader, version)
        reader.finish()
        return {"version": version, **fields}

    def encode(self, fields: Mapping[str, Any]) -> bytes:
        version = fields["version"]
        if not 0 <= version <= self.newest:
            raise LocalError(f"{self.name} of version {version}: known are 0 to {self.newest}")
        writer = Writer()
        writer.integer(INT16, version)
        self._table.write(writer, {name: value for name, value in fields.items() if name != "version"}, version)
        return writer.done()


SUBSCRIPTION = Record("consumer subscription", 0, Struct(topics=Array(string), user_data=nullable_blob))
ASSIGNMENT = Record(
    "consumer assignment",
    0,
    Struct(assignment=Array(Struct(topic=string, partitions=Array(int32))), user_data=nullable_blob),
)
# key version 0 is 0.8.2's, 1 is 0.9's; 2 is a group's metadata and no offset: skip it
OFFSET_KEY = Record("offset key", 1, Struct(group=string, topic=string, partition=int32))
OFFSET_VALUE = Record(
    "offset value",
    1,
    Struct(
        offset=int64,
        metadata=string,
        timestamp=until(1, int64),
        commit_timestamp=since(1, int64),
        expire_timestamp=since(1, int64),
    ),
)


def offsets_partition(group: str, partitions: int = OFFSETS_PARTITIONS) -> int:
    """The partition of __consumer_offsets that keeps a group; its leader is the group's coordinator."""
    hashed = string_hash(group)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partitions  # Kafka's abs of the lowest int is 0
