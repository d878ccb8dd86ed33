"""Committed offset of a partition that no pending transaction may change: OffsetFetch v7 (KIP-447, brokers of 2.5 and
later).

A broker applies a commit of a transaction to its cache a moment after the transaction's end is in its log.  In that
moment older versions of OffsetFetch return the previous offset; v7 reports it (88, unstable), and the request can be
repeated.  Brokers before 2.5 do not support this.

The coordinator of 4.0 answers v7 once all earlier writes are replicated, or with 16 after 5 s.  It answers older
versions at once from what it knows to be replicated: right after it took over, that may be outdated.

v7 is a flexible version; its encoding is written out here instead of using schema.py.

    request  head, its tags, group:compact_string [name:compact_string [partition:int32] tags] require_stable:bool tags
    reply    head, its tags, throttle_ms:int32 [name:compact_string [partition:int32 offset:int64 leader_epoch:int32
             metadata:compact_string error:int16 tags] tags] error:int16 tags

A compact string is its length + 1 as an unsigned varint, 0 for null, and its bytes; a compact array likewise.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkawire.errors import RemoteError, Truncated
from kafkawire.model import TopicPartition
from kafkawire.primitives import utf8
from kafkawire.protocol.apis import OFFSET_FETCH
from kafkawire.protocol.bodies import Body, PlainBody
from kafkawire.protocol.buffers import Buffers
from kafkawire.protocol.requests08 import HEADER_BYTES, reply_header, request_header

VERSION = 7
UNSTABLE = 88  # UnstableOffsetCommit

_NO_TAGS = b"\0"
_ONE = b"\2"  # length of a compact array
_ROW = struct.Struct(">iqi")  # partition, offset, leader epoch
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class StableOffset(NamedTuple):
    """Committed offset of a partition; offset -1: none."""

    offset: int
    metadata: str
    error: int


class StableOffsets(NamedTuple):
    """Reply of OffsetFetch v7: the error code of the whole request, and a row for each partition."""

    error: int
    partitions: dict[TopicPartition, StableOffset]


@dataclass(frozen=True, slots=True)
class StableOffsetFetch:
    """Request for the committed offset of a partition that no pending transaction may change.

    The partition is named, since a response for all partitions of a group leaves out one whose first commit belongs to
    a pending transaction.
    """

    group: str
    tp: TopicPartition
    api = OFFSET_FETCH
    version = VERSION
    head_bytes = HEADER_BYTES
    expects_reply = True

    @property
    def size(self) -> int:
        return len(self._body())

    def _body(self) -> bytes:
        name = utf8(self.group)
        topic = utf8(self.tp.topic)
        asked = _ONE + _uvarint(len(topic) + 1) + topic + _ONE + _INT32.pack(self.tp.partition) + _NO_TAGS
        return _NO_TAGS + _uvarint(len(name) + 1) + name + asked + b"\1" + _NO_TAGS

    def frame(self, correlation_id: int, client_id: str) -> list[bytes | memoryview]:
        body = self._body()
        return [request_header(self.api.key, VERSION, correlation_id, client_id, len(body)), body]

    def reply(self, head: bytes | bytearray, correlation_id: int, buffers: Buffers | None = None) -> Body[Any]:
        size, answered = reply_header(head)
        if answered != correlation_id:
            raise RemoteError(f"a reply with correlation id {answered} instead of {correlation_id} (OffsetFetch)")
        return PlainBody(size, decode)


def decode(data: memoryview | bytes) -> StableOffsets:
    """Decode the body of a reply.  Raises Truncated, RemoteError."""
    reader = _Reader(bytes(data))
    reader.tags()
    reader.take(4)  # throttle
    found: dict[TopicPartition, StableOffset] = {}
    for _ in reader.array():
        topic = reader.text() or ""
        for _ in reader.array():
            partition, offset, _ = _ROW.unpack(reader.take(_ROW.size))
            metadata = reader.text() or ""
            (error,) = _INT16.unpack(reader.take(2))
            reader.tags()
            found[TopicPartition(topic, partition)] = StableOffset(offset, metadata, error)
        reader.tags()
    (error,) = _INT16.unpack(reader.take(2))
    reader.tags()
    return StableOffsets(error, found)


class _Reader:
    """Reader of the types of flexible versions."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) < count:
            raise Truncated(f"OffsetFetch v7 reply: {count} bytes wanted at {self._at}, it has {len(self._data)}")
        self._at += count
        return piece

    def number(self) -> int:
        """Read an unsigned varint."""
        number = shift = 0
        while True:
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number
            if shift > 28:
                raise RemoteError("OffsetFetch v7 reply: a length of more than five bytes")

    def array(self) -> Iterator[None]:
        for _ in range(self.number() - 1):
            yield

    def text(self) -> str | None:
        size = self.number()
        if size == 0:
            return None
        try:
            return self.take(size - 1).decode()
        except UnicodeDecodeError as exc:
            raise RemoteError(f"OffsetFetch v7 reply: a text that is not UTF-8: {exc}") from exc

    def tags(self) -> None:
        for _ in range(self.number()):
            self.number()
            self.take(self.number())


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
