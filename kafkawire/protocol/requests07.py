"""Requests of Kafka 0.7, with the names and signatures of kafkawire.protocol.requests08.

    PRODUCE       request_id:int16=0  topic:string  partition:int32  size:int32  set          never answered
    FETCH         1  topic:string  partition:int32  position:int64  max_bytes:int32
    MULTIFETCH    2  count:int16  [topic:string  partition:int32  position:int64  max_bytes:int32]
    MULTIPRODUCE  3  count:int16  [topic:string  partition:int32  size:int32  set]            never answered
    OFFSETS       4  topic:string  partition:int32  time:int64  max_offsets:int32

A string is an int16 count of bytes and UTF-8.  (The original writes the count of characters, so it does not support
topics that are not ASCII.) A partition is sent as its index: the caller makes sure that it belongs to the broker.

Frames of requests and responses:

    request  size:int32  request_id:int16  ...
    reply    size:int32  error:int16  ...

size counts all that follows it.  There is no version, no client id and no correlation id: replies come in the order of
the requests, and do not name what they answer.  Produce and MultiProduce are never answered.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kafkawire.errors import LeftOver, LocalError, RemoteError, Truncated
from kafkawire.model import ANY as ANY
from kafkawire.model import BrokerPartition, TopicPartition
from kafkawire.primitives import utf8
from kafkawire.protocol.bodies import MAX_REPLY_BYTES, Body, Steps, StreamedBody
from kafkawire.protocol.buffers import NONE_KEPT, Buffers
from kafkawire.protocol.fetchrows import FetchRows, QuietRows
from kafkawire.protocol.request import CONSUMER as CONSUMER
from kafkawire.protocol.request import ApiVersions, FetchedPartition
from kafkawire.protocol.request import ProducedPartition as ProducedPartition

if TYPE_CHECKING:
    from kafkawire.protocol.buffers import Buffers

HEAD_BYTES = 4  # the size

_SIZE = struct.Struct(">i")
_ERROR = struct.Struct(">h")
_SET = struct.Struct(">ih")  # size (including the error) and error of one partition's part
_OFFSETS = struct.Struct(">hi")  # error, count


def framed(body: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """Return a request's body with its size field before it; nothing is copied."""
    size = sum(len(piece) for piece in body)
    if size > 0x7FFFFFFF:
        raise LocalError(f"request of {size} bytes does not fit a frame")
    return [_SIZE.pack(size), *body]


def reply_size(head: bytes | bytearray | memoryview, least: int = _ERROR.size) -> int:
    """Return the bytes of the frame that begins with this header.  Raises RemoteError if it is smaller than any reply
    (a fetch with a negative max size is answered with a size of 1)."""
    (size,) = _SIZE.unpack(head)
    if size < least:
        raise RemoteError(f"a reply frame declares a size of {size}: it must be at least {least}")
    return int(size)


class FetchBody(StreamedBody):
    """Fetch or MultiFetch reply while it arrives: list[FetchedPartition] in the order of the request.

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
    """Replies to several Offsets requests while they arrive, one frame each, joined as a reply of ListOffsets v0 of
    0.8, {"topics": [{"topic", "partitions": [{"partition", "error", "offsets"}]}]}.

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


MOST_PARTS = 0x7FFF  # partitions in one request: the count is an int16

_PARTITION = struct.Struct(">i")
_ASKED = struct.Struct(">iqi")  # partition, position or time, max bytes or max offsets


@dataclass(frozen=True, slots=True)
class Api:
    """One kind of request: its id and name."""

    key: int
    name: str


PRODUCE = Api(0, "Produce")
FETCH = Api(1, "Fetch")
MULTIFETCH = Api(2, "MultiFetch")
MULTIPRODUCE = Api(3, "MultiProduce")
OFFSETS = Api(4, "Offsets")


@dataclass(frozen=True, slots=True)
class Request:
    """Request ready for a session (kafkawire.protocol.request.Request): one frame, or several with one reply each."""

    head_bytes: ClassVar[int] = HEAD_BYTES
    api: Api
    bodies: list[list[bytes | memoryview]]
    asked: Sequence[TopicPartition] = ()
    max_reply_bytes: int = MAX_REPLY_BYTES

    @property
    def expects_reply(self) -> bool:
        return self.api not in (PRODUCE, MULTIPRODUCE)

    @property
    def size(self) -> int:
        """Return the bytes of the bodies."""
        return sum(len(piece) for body in self.bodies for piece in body)

    def frame(self, correlation_id: int, client_id: str) -> list[bytes | memoryview]:
        return [piece for body in self.bodies for piece in framed(body)]

    def reply(self, head: bytes | bytearray, correlation_id: int, buffers: Buffers | None = None) -> Body[Any]:
        size = reply_size(head)
        if self.api in (FETCH, MULTIFETCH):
            return FetchBody(self.asked, self.api is MULTIFETCH, size, self.max_reply_bytes, buffers)
        if self.api is OFFSETS:
            return OffsetsBody(self.asked, size, self.max_reply_bytes)
        raise RemoteError(f"a reply of {size} bytes to {self.api.name}, which has none")


def fetch(
    d: ApiVersions,
    max_wait_ms: int,
    min_bytes: int,
    wanted: Sequence[tuple[TopicPartition, int, int]],
    replica_id: int = CONSUMER,
    committed: bool = True,
    rows: Sequence[FetchRows] = (),
    quiet: QuietRows | None = None,
) -> Request:
    """Fetch from (partition, position, max_bytes) each.  Reply: list[FetchedPartition], in the order of wanted.

    The broker does not wait: max_wait_ms, min_bytes and replica_id have no effect.  It has no transactions, and replies
    are never quiet, since they do not have the end of a log.  A partition may occur twice.
    """
    if rows:
        raise LocalError(f"Kafka {d.release} does not wait for data: request its partitions one by one")
    d.speaks(_FETCH_KEY)
    api = FETCH if len(wanted) == 1 else MULTIFETCH
    pieces = [_head(api, len(wanted))]
    for tp, position, max_bytes in wanted:
        if not 0 <= max_bytes <= 0x7FFFFFFF:
            raise LocalError(f"{tp}: a fetch of {max_bytes} bytes: a 0.7 broker would answer it with an invalid frame")
        pieces.append(_string(tp.topic) + _ASKED.pack(_index(tp), position, max_bytes))
    limit = MAX_REPLY_BYTES + sum(size for _, _, size in wanted)
    return Request(api, [[b"".join(pieces)]], [tp for tp, _, _ in wanted], max_reply_bytes=limit)


def fetch_rows(d: ApiVersions, wanted: Sequence[tuple[TopicPartition, int, int]]) -> FetchRows:
    """Raise LocalError: 0.7 brokers do not wait for data."""
    raise LocalError(f"Kafka {d.release} does not wait for data: request its partitions one by one")


def produce(
    d: ApiVersions,
    acks: int,
    timeout_ms: int,
    sets: Mapping[TopicPartition, Sequence[bytes | memoryview]],
    magic: int = -1,
    transactional_id: str | None = None,
) -> Request:
    """Send each partition's set, given in pieces that are not copied.  Never answered, whatever acks says.

    For a partition of index -1 the broker picks one. magic is in the entries, and ignored here.  Raises LocalError for
    a transaction: 0.7 has none.
    """
    if transactional_id is not None:
        raise LocalError(f"Kafka {d.release} has no transactions: they came with 0.11")
    d.speaks(_PRODUCE_KEY)
    body: list[bytes | memoryview] = []
    api = PRODUCE if len(sets) == 1 else MULTIPRODUCE
    head = _head(api, len(sets))
    for tp, pieces in sets.items():
        size = sum(len(piece) for piece in pieces)
        body.append(head + _string(tp.topic) + _PARTITION.pack(_index(tp)) + _PARTITION.pack(size))
        body.extend(pieces)
        head = b""
    return Request(api, [body or [head]], list(sets))


def list_offsets(
    d: ApiVersions,
    times: Mapping[TopicPartition, int],
    max_offsets: int = 1,
    replica_id: int = CONSUMER,
    committed: bool = False,  # there are no transactions
) -> Request:
    """Request offsets by time: -1 the end of flushed messages, -2 the beginning, else ms since the epoch: begins of
    segments last written to before that time.

    Reply, as in v0 of 0.8 and later: {"topics": [{"topic", "partitions": [{"partition", "error", "offsets"}]}]},
    offsets newest first, perhaps none.  If the broker does not have a partition, it closes the link.
    """
    d.speaks(_LIST_OFFSETS_KEY)
    if not times:
        raise LocalError("offsets of no partition: there is nothing to request")
    head = _head(OFFSETS)
    bodies: list[list[bytes | memoryview]] = [
        [head + _string(tp.topic) + _ASKED.pack(_index(tp), time, max_offsets)] for tp, time in times.items()
    ]
    return Request(OFFSETS, bodies, list(times))


def barrier(d: ApiVersions, tp: TopicPartition) -> Request:
    """Make a request that tp's broker answers only once it has handled all earlier requests of this link without
    closing it.

    A broker handles the requests of a connection strictly in order, and closes it on a produce request that it refuses.
    The response proves no more: messages need not be on disk, and too large ones may have been dropped.
    """
    broker = tp.partition.broker if isinstance(tp.partition, BrokerPartition) else _index(tp)
    return list_offsets(d, {TopicPartition(tp.topic, BrokerPartition(broker, 0)): -1})  # every broker has it


# The names of 0.8 for them, in Dialect.versions.
_PRODUCE_KEY, _FETCH_KEY, _LIST_OFFSETS_KEY = 0, 1, 2


def _lacking(api_key: int) -> Callable[..., Request]:
    """Return a builder for a request that 0.7 does not have: it raises the LocalError of d.speaks."""

    def refuse(d: ApiVersions, *args: object, **named: object) -> Request:
        d.speaks(api_key)
        raise LocalError(f"Kafka {d.release} has no request for api key {api_key}")

    return refuse


metadata = _lacking(3)
offset_commit = _lacking(8)
offset_fetch = _lacking(9)
group_coordinator = _lacking(10)
describe_groups = _lacking(15)
list_groups = _lacking(16)
api_versions = _lacking(18)


def _head(api: Api, count: int | None = None) -> bytes:
    """Return the request's id, and its count if it has one."""
    if api in (PRODUCE, FETCH, OFFSETS):
        return struct.pack(">h", api.key)
    if count is None or count > MOST_PARTS:
        raise LocalError(f"{api.name} of {count} partitions: one request of 0.7 takes {MOST_PARTS}")
    return struct.pack(">hh", api.key, count)


def _string(text: str) -> bytes:
    data = utf8(text)
    if len(data) > 0x7FFF:
        raise LocalError(f"topic name of {len(data)} bytes is longer than 32767")
    return struct.pack(">h", len(data)) + data


def _index(tp: TopicPartition) -> int:
    if not isinstance(tp.partition, BrokerPartition):
        raise LocalError(
            f"{tp} is a partition of Kafka 0.8 and later: those of 0.7 belong to a broker, as 0-{tp.partition}"
        )
    return tp.partition.index
