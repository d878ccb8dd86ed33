"""Frames of Kafka 0.7, and how its replies are taken from a stream.

    request  size:int32  request_id:int16  ...
    reply    size:int32  error:int16  ...

size counts all that follows it.  There is no version, no client id and no correlation id: replies come in the order of
the requests, and what they say belongs to what was asked.  Produce and MultiProduce are never answered.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from kafkawire.errors import LeftOver, LocalError, RemoteError, Truncated
from kafkawire.model import TopicPartition
from kafkawire.protocol.bodies import MAX_REPLY_BYTES, Steps, StreamedBody
from kafkawire.protocol.buffers import NONE_KEPT, Buffers
from kafkawire.protocol.request import FetchedPartition

HEAD_BYTES = 4  # the size

_SIZE = struct.Struct(">i")
_ERROR = struct.Struct(">h")
_SET = struct.Struct(">ih")  # size (of the error, too) and error of one partition's part
_OFFSETS = struct.Struct(">hi")  # error, count


def framed(body: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """A request's body with its size in front; nothing is copied."""
    size = sum(len(piece) for piece in body)
    if size > 0x7FFFFFFF:
        raise LocalError(f"request of {size} bytes does not fit a frame")
    return [_SIZE.pack(size), *body]


def reply_size(head: bytes | bytearray | memoryview, least: int = _ERROR.size) -> int:
    """Bytes of the frame that begins so.  RemoteError: less than what belongs to any reply (a fetch with a negative
    max size is answered by a size of 1)."""
    (size,) = _SIZE.unpack(head)
    if size < least:
        raise RemoteError(f"a reply frame says its size is {size}: at least {least} bytes belong to it")
    return int(size)


class FetchBody(StreamedBody):
    """A Fetch or MultiFetch reply while it arrives: list[FetchedPartition] in the order that was asked.

    Fetch        error:int16  set
    MultiFetch   error:int16 (always 0)  [size:int32  error:int16  set] for each partition; size counts error and set
    """

    def __init__(
        self,
        asked: Sequence[TopicPartition],
        many: bool,
        size: int,
        limit: int = MAX_REPLY_BYTES,
        buffers: Buffers | None = None,
    ) -> None:
        super().__init__("MultiFetch reply" if many else "Fetch reply", size, limit)
        self._asked = asked
        self._buffers = buffers or NONE_KEPT
        self._fetched: list[FetchedPartition] = []
        self.start(self._parse_many() if many else self._parse())

    def result(self) -> list[FetchedPartition]:
        return self._fetched

    def _parse(self) -> Steps:
        (error,) = _ERROR.unpack((yield _ERROR.size))
        buffer = self._buffers.take(self.rest)
        if self.rest:
            yield buffer
        self._fetched.append(FetchedPartition(self._asked[0], error, None, buffer))

    def _parse_many(self) -> Steps:
        (outer,) = _ERROR.unpack((yield _ERROR.size))
        if outer and not self.rest:
            self._fetched = [FetchedPartition(tp, outer, None, memoryview(b"")) for tp in self._asked]
            return
        for tp in self._asked:
            size, error = _SET.unpack((yield _SET.size))
            size -= _ERROR.size
            if not 0 <= size <= self.rest:
                raise Truncated(f"MultiFetch reply: {tp} has a set of {size} bytes, {self.rest} left in the frame")
            buffer = self._buffers.take(size)
            if size:
                yield buffer
            self._fetched.append(FetchedPartition(tp, error, None, buffer))


class OffsetsBody(StreamedBody):
    """The replies to several Offsets requests while they arrive, one frame each, as one: that of ListOffsets v0 of 0.8,
    {"topics": [{"topic", "partitions": [{"partition", "error", "offsets"}]}]}.

    error:int16 (always 0)  count:int32  [offset:int64], the newest first
    """

    def __init__(self, asked: Sequence[TopicPartition], size: int, limit: int = MAX_REPLY_BYTES) -> None:
        super().__init__("Offsets reply", size, limit)
        self._asked = asked
        self._limit = limit
        self._found: dict[str, list[dict[str, Any]]] = {}
        self.start(self._parse())

    def result(self) -> dict[str, Any]:
        return {"topics": [{"topic": name, "partitions": rows} for name, rows in self._found.items()]}

    def _parse(self) -> Steps:
        for n, tp in enumerate(self._asked):
            if n:
                self.rest = _SIZE.size
                size = reply_size((yield _SIZE.size))
                if size > self._limit:
                    raise RemoteError(f"an {self.what} of {size} bytes is more than the limit of {self._limit}")
                self.rest = size
            error, count = _OFFSETS.unpack((yield _OFFSETS.size))
            if not 0 <= 8 * count <= self.rest:
                raise Truncated(f"{self.what}: {tp} has {count} offsets, {self.rest} bytes left in the frame")
            piece = (yield 8 * count) if count else b""
            if self.rest:
                raise LeftOver(self.what, self.rest)
            row = {"partition": tp.partition, "error": error, "offsets": [*struct.unpack(f">{count}q", piece)]}
            self._found.setdefault(tp.topic, []).append(row)
