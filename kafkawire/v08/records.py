"""Bytes inside requests and messages that begin with a version of their own, which picks the fields.

    subscription, assignment   the metadata and assignment bytes of protocol_type "consumer" (JoinGroup, SyncGroup)

The records of __consumer_offsets are of this kind, too: kafkawire.v08.offsetrecords.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkawire.errors import LocalError, RemoteError
from kafkawire.primitives import INT16, Bytes, Reader, Writer
from kafkawire.v08.schema import Array, Struct, int32, nullable_blob, string


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
