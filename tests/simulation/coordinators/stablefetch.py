"""OffsetFetch in versions 6 and 7, whose encoding is flexible: compact strings and arrays, tagged fields.

    request  tags group:compact_string [name:compact_string [partition:int32] tags] require_stable:bool (7) tags
    reply    tags throttle_ms:int32 [name [partition:int32 offset:int64 leader_epoch:int32 metadata error:int16 tags]
             tags] error:int16 tags

The first tags belong to the head of the frame.  Written apart from kafkawire.protocol.stableoffsets.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from kafkawire.errors import RemoteError
from kafkawire.primitives import Bytes
from kafkawire.protocol.api import Api
from kafkawire.protocol.apis import OFFSET_FETCH

FLEXIBLE, STABLE = 6, 7


class FlexibleOffsetFetch(Api):
    """The api with these versions beside those of the tables."""

    def decode_request(self, version: int, data: Bytes) -> dict[str, Any]:
        return super().decode_request(version, data) if version < FLEXIBLE else _request(version, bytes(data))

    def encode_reply(self, version: int, fields: Mapping[str, Any]) -> bytes:
        return super().encode_reply(version, fields) if version < FLEXIBLE else _reply(fields)


OFFSET_FETCH_TO_V7 = FlexibleOffsetFetch(
    OFFSET_FETCH.key, OFFSET_FETCH.name, STABLE, OFFSET_FETCH.request, OFFSET_FETCH.reply
)


class _Reader:
    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self) -> int:
        number = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def text(self) -> str:
        size = self.number() - 1
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def int32(self) -> int:
        (value,) = struct.unpack_from(">i", self.data, self.at)
        self.at += 4
        return int(value)

    def tags(self) -> None:
        for _ in range(self.number()):
            self.number()
            self.at += self.number()


def _request(version: int, data: bytes) -> dict[str, Any]:
    reader = _Reader(data)
    try:
        reader.tags()
        group, count = reader.text(), reader.number()
        topics: list[dict[str, Any]] | None = None if count == 0 else []
        for _ in range(count - 1):
            name = reader.text()
            numbers = [reader.int32() for _ in range(reader.number() - 1)]
            reader.tags()
            assert topics is not None
            topics.append({"topic": name, "partitions": numbers})
        stable = version >= STABLE and data[reader.at] != 0
    except (IndexError, struct.error) as why:
        raise RemoteError(f"OffsetFetch v{version} request: {why}") from why
    return {"group": group, "topics": topics, "require_stable": stable}


def _reply(fields: Mapping[str, Any]) -> bytes:
    out = [b"\0", struct.pack(">i", fields["throttle_time_ms"]), _count(len(fields["topics"]))]
    for topic in fields["topics"]:
        out += [_text(topic["topic"]), _count(len(topic["partitions"]))]
        for row in topic["partitions"]:
            out += [struct.pack(">iqi", row["partition"], row["offset"], row["leader_epoch"]), _text(row["metadata"])]
            out.append(struct.pack(">h", row["error"]) + b"\0")
        out.append(b"\0")
    out.append(struct.pack(">h", fields["error"]) + b"\0")
    return b"".join(out)


def _count(number: int) -> bytes:
    number, out = number + 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _text(text: str) -> bytes:
    data = text.encode()
    return _count(len(data)) + data
