"""Frames of Kafka 0.8 and later: what stands before a body, and how a reply's body is taken from a stream.

    request  size:int32  api_key:int16  api_version:int16  correlation_id:int32  client_id:string  body
    reply    size:int32  correlation_id:int32  body

size counts all that follows it.  A session reads HEADER_BYTES, asks reply_header() how large the body is, gets a Body
from the request (`request.reply_body(size)`) and gives it bytes until it is complete.  Knows no socket; one byte at a
time is as good as a megabyte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Protocol

from kafkawire.buffers import Buffers
from kafkawire.errors import LeftOver, LocalError, RemoteError, Truncated
from kafkawire.model import TopicPartition
from kafkawire.primitives import utf8

HEADER_BYTES = 8  # size and correlation id of a reply
DIRECT_BYTES = 4096  # a remainder from here on is worth a receive of its own instead of a copy out of the scratch
MAX_REPLY_BYTES = 104_857_600  # what a broker takes as a request (socket.request.max.bytes) is what we take as a reply

_REQUEST = struct.Struct(">ihhih")
_REPLY = struct.Struct(">ii")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_FETCHED = struct.Struct(">ihqi")  # partition, error, high watermark, bytes of the set
_NONE_KEPT = Buffers(0)
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


class Body(Protocol):
    """The body of one reply while it arrives.

    Give it bytes in any chunking with feed(); where direct() offers a place, bytes may be received straight into it
    (then filled(n) tells how many), which saves a copy of a large message set.  Not thread safe.
    """

    complete: bool

    def feed(self, data: memoryview) -> int:
        """Take from the start of data what belongs to this body; how many bytes that was.

        Less than all of data only when the body is complete: the rest belongs to the next frame.
        RemoteError when the bytes make no sense; the connection is of no use afterwards.
        """

    def direct(self) -> memoryview | None:
        """Where the next bytes go if there are many of them (at least DIRECT_BYTES), else None: use feed()."""

    def filled(self, n: int) -> None:
        """n bytes were received into direct()."""

    def result(self) -> object:
        """What the request's reply is, once complete.  RemoteError when the bytes make no sense."""


class PlainBody:
    """A reply that is decoded at its end.  The buffer grows with what arrives, never by what a size promises."""

    def __init__(self, size: int, decode: Callable[[memoryview], object], limit: int = MAX_REPLY_BYTES) -> None:
        if size > limit:
            raise RemoteError(f"a reply of {size} bytes is more than the limit of {limit}")
        self._size = size
        self._decode = decode
        self._data = bytearray()
        self.complete = size == 0

    def feed(self, data: memoryview) -> int:
        taken = min(self._size - len(self._data), len(data))
        self._data += data[:taken]
        self.complete = len(self._data) == self._size
        return taken

    def direct(self) -> memoryview | None:
        return None

    def filled(self, n: int) -> None:
        raise LocalError(f"{n} bytes reported for a body that offered no place for them")

    def result(self) -> object:
        return self._decode(memoryview(self._data))


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """One partition of a Fetch reply; buffer is its message set alone, so a slow partition pins nobody else's bytes."""

    tp: TopicPartition
    error: int
    high_watermark: int
    buffer: memoryview


class FetchReplyParser:
    """A Fetch reply while it arrives (v0 to v2): a Body whose result is list[FetchedPartition] in wire order.

    [throttle_ms:int32 from v1]  [topic:string [partition:int32 error:int16 high_watermark:int64 set_size:int32 set]]

    A set's buffer is taken when its size is known to fit into what is left of the frame.
    """

    def __init__(self, version: int, size: int, limit: int = MAX_REPLY_BYTES, buffers: Buffers | None = None) -> None:
        if size > limit:
            raise RemoteError(f"a Fetch reply of {size} bytes is more than the limit of {limit}")
        self.throttle_ms = 0
        self.complete = False
        self._buffers = buffers or _NONE_KEPT
        self._fetched: list[FetchedPartition] = []
        self._rest = size  # bytes of the frame that no piece and no set has claimed yet
        self._piece = bytearray()  # the beginning of a small piece that came in parts
        self._need = 0  # size of that piece
        self._set = memoryview(b"")  # what of the current set is still to be filled
        self._steps = self._parse(version)
        self._go_on(None)

    def feed(self, data: memoryview) -> int:
        at, end = 0, len(data)
        while at < end and not self.complete:
            if self._set:
                taken = min(len(self._set), end - at)
                self._set[:taken] = data[at : at + taken]
                at += taken
                self.filled(taken)
            elif not self._piece and end - at >= self._need:
                at += self._need
                self._go_on(data[at - self._need : at])
            else:
                taken = min(self._need - len(self._piece), end - at)
                self._piece += data[at : at + taken]
                at += taken
                if len(self._piece) == self._need:
                    piece, self._piece = self._piece, bytearray()
                    self._go_on(memoryview(piece))
        return at

    def direct(self) -> memoryview | None:
        return self._set if len(self._set) >= DIRECT_BYTES else None

    def filled(self, n: int) -> None:
        self._set = self._set[n:]
        if not self._set:
            self._go_on(None)

    def result(self) -> list[FetchedPartition]:
        return self._fetched

    def _go_on(self, piece: memoryview | None) -> None:
        """Hand a piece to the parser and note what it wants next: a number of bytes, or a buffer filled."""
        try:
            want = self._steps.send(piece)  # type: ignore[arg-type]  # None starts it, and answers a filled set
        except StopIteration:
            if self._rest:
                raise LeftOver("Fetch reply", self._rest) from None
            self.complete = True
            return
        size = want if isinstance(want, int) else len(want)
        if size > self._rest:
            raise Truncated(f"Fetch reply: {size} bytes wanted, {self._rest} left in the frame")
        self._rest -= size
        if isinstance(want, int):
            self._need = want
        else:
            self._set = want

    def _parse(self, version: int) -> Generator[int | memoryview, memoryview, None]:
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
                if not 0 <= size <= self._rest:
                    raise Truncated(f"Fetch reply: {tp} has a set of {size} bytes, {self._rest} left in the frame")
                buffer = self._buffers.take(size)
                if size:
                    yield buffer
                self._fetched.append(FetchedPartition(tp, error, high_watermark, buffer))

    def _count(self, piece: memoryview, least: int, what: str) -> int:
        (count,) = _INT32.unpack(piece)
        if count < 0 or count * least > self._rest:
            raise Truncated(f"Fetch reply: {count} {what} cannot fit the {self._rest} bytes left in the frame")
        return int(count)


def _text(piece: memoryview) -> str:
    try:
        return str(piece, "utf-8")
    except UnicodeDecodeError as exc:
        raise RemoteError(f"a topic name is not UTF-8: {bytes(piece)!r}") from exc
