"""Frames of Kafka 0.8 and later: what stands before a body, and how a reply's body is taken from a stream.

    request  size:int32  api_key:int16  api_version:int16  correlation_id:int32  client_id:string  body
    reply    size:int32  correlation_id:int32  body

size counts all that follows it.  A session reads HEADER_BYTES, gets a Body from the request (`request.reply(head, …)`),
which is of the size that reply_header() finds, and gives it bytes until it is complete.  Knows no socket.
"""

from __future__ import annotations

import struct

from kafkawire.errors import LocalError, RemoteError, Truncated
from kafkawire.model import TopicPartition
from kafkawire.primitives import utf8
from kafkawire.protocol.bodies import MAX_REPLY_BYTES, Steps, StreamedBody
from kafkawire.protocol.buffers import NONE_KEPT, Buffers
from kafkawire.protocol.request import FetchedPartition

HEADER_BYTES = 8  # size and correlation id of a reply

_REQUEST = struct.Struct(">ihhih")
_REPLY = struct.Struct(">ii")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_FETCHED = struct.Struct(">ihqi")  # partition, error, high watermark, bytes of the set
NO_SET = -1  # bytes of a set that is null
_LEAST_TOPIC = 6  # an empty name and an empty array


def request_header(api_key: int, version: int, correlation_id: int, client_id: str, body_size: int) -> bytes:
    """What goes in front of a body of body_size bytes.  client_id is never null: 0.9's newer requests refuse that."""
    name = utf8(client_id)
    if len(name) > 0x7FFF:
        raise LocalError(f"client id of {len(name)} bytes is longer than 32767")
    size = _REQUEST.size - 4 + len(name) + body_size
    if size > 0x7FFFFFFF:
        raise LocalError(f"request of {size} bytes does not fit a frame")
    return _REQUEST.pack(size, api_key, version, correlation_id, len(name)) + name


def reply_header(data: bytes | bytearray | memoryview) -> tuple[int, int]:
    """(bytes of the body, correlation id) from the first HEADER_BYTES of a reply frame."""
    size, correlation_id = _REPLY.unpack_from(data)
    if size < 4:
        raise RemoteError(f"a reply frame says its size is {size}: at least 4 bytes of correlation id belong to it")
    return size - 4, correlation_id


class FetchReplyParser(StreamedBody):
    """A Fetch reply while it arrives (v0 to v2): a Body whose result is list[FetchedPartition] in wire order.

    [throttle_ms:int32 from v1]  [topic:string [partition:int32 error:int16 high_watermark:int64 set_size:int32 set]]

    A set's buffer is taken when its size is known to fit into what is left of the frame.  A set of -1 bytes (null) is
    an empty one: Kafka 3.x sends it beside an error.
    """

    def __init__(self, version: int, size: int, limit: int = MAX_REPLY_BYTES, buffers: Buffers | None = None) -> None:
        super().__init__("Fetch reply", size, limit)
        self.throttle_ms = 0
        self._buffers = buffers or NONE_KEPT
        self._fetched: list[FetchedPartition] = []
        self.start(self._parse(version))

    def result(self) -> list[FetchedPartition]:
        return self._fetched

    def _parse(self, version: int) -> Steps:
        if version >= 1:
            (self.throttle_ms,) = _INT32.unpack((yield _INT32.size))
        for _ in range(self._count((yield _INT32.size), _LEAST_TOPIC, "topics")):
            (length,) = _INT16.unpack((yield _INT16.size))
            if length < 0:
                raise RemoteError(f"Fetch reply: a topic name of {length} bytes")
            topic = _text((yield length)) if length else ""
            for _ in range(self._count((yield _INT32.size), _FETCHED.size, "partitions")):
                partition, error, high_watermark, size = _FETCHED.unpack((yield _FETCHED.size))
                tp = TopicPartition(topic, partition)
                if size == NO_SET:
                    size = 0
                if not 0 <= size <= self.rest:
                    raise Truncated(f"Fetch reply: {tp} has a set of {size} bytes, {self.rest} left in the frame")
                buffer = self._buffers.take(size)
                if size:
                    yield buffer
                self._fetched.append(FetchedPartition(tp, error, high_watermark, buffer))

    def _count(self, piece: memoryview, least: int, what: str) -> int:
        (count,) = _INT32.unpack(piece)
        if count < 0 or count * least > self.rest:
            raise Truncated(f"Fetch reply: {count} {what} cannot fit the {self.rest} bytes left in the frame")
        return int(count)


def _text(piece: memoryview) -> str:
    try:
        return str(piece, "utf-8")
    except UnicodeDecodeError as exc:
        raise RemoteError(f"a topic name is not UTF-8: {bytes(piece)!r}") from exc
