"""One api of the protocol of Kafka 0.8 and later: its key, and the two tables that describe its versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkawire.errors import LocalError
from kafkawire.primitives import Bytes, Reader, Writer
from kafkawire.protocol.schema import NEVER, Array, Struct, Type, int32, string


@dataclass(frozen=True, eq=False)
class Api:
    """One api: its key, and the versions (starting at 0) that its two tables describe."""

    key: int
    name: str
    newest: int
    request: Struct
    reply: Struct
    flexible: int = NEVER  # first version with tagged fields, also in the headers of request and reply

    def __repr__(self) -> str:
        return f"<Api {self.key} {self.name} v0-v{self.newest}>"

    def encode_request(self, version: int, fields: Mapping[str, Any]) -> bytes:
        """Encode a request's body, without the frame's header.  Raises LocalError if the fields do not match the
        version."""
        return self._encode("request", self.request, version, fields)

    def decode_request(self, version: int, data: Bytes) -> dict[str, Any]:
        """Decode the fields of a whole request body.  Raises Truncated, LeftOver, RemoteError."""
        return self._decode("request", self.request, version, data)

    def encode_reply(self, version: int, fields: Mapping[str, Any]) -> bytes:
        return self._encode("reply", self.reply, version, fields)

    def decode_reply(self, version: int, data: Bytes) -> dict[str, Any]:
        """Decode the fields of a whole reply body.  Raises Truncated, LeftOver, RemoteError."""
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
        """Return the version if the tables describe it.  Raises LocalError otherwise."""
        if not 0 <= version <= self.newest:
            raise LocalError(f"{self.name} is known in versions 0 to {self.newest}, not {version}")
        return version


def by_topic(**partition: Type | Any) -> Array:
    """Return the type of an array of topics, each with partitions that have these fields after their number."""
    return Array(Struct(topic=string, partitions=Array(Struct(partition=int32, **partition))))
