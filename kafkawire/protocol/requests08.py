"""Requests as the system asks them, in the versions a dialect speaks, and what their replies mean.

Every builder takes the dialect first and returns a Request: its body as buffers (message sets are views, never
copied), and how its reply is read.  The session puts the frame's header in front.

Frames, and how the body of a response is taken from a stream:

    request  size:int32  api_key:int16  api_version:int16  correlation_id:int32  client_id:string  body
    reply    size:int32  correlation_id:int32  body

size counts all that follows it.  A session reads HEADER_BYTES, gets a Body from the request (`request.reply(head, …)`),
which is of the size that reply_header() finds, and gives it bytes until it is complete.  Knows no socket.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from kafkawire.errors import LocalError, RemoteError, Truncated
from kafkawire.model import RECORD_BATCH, TopicPartition
from kafkawire.primitives import INT32, Writer, utf8
from kafkawire.protocol import apis
from kafkawire.protocol.apis import Api
from kafkawire.protocol.bodies import MAX_REPLY_BYTES, Body, PlainBody, Steps, StreamedBody
from kafkawire.protocol.buffers import NONE_KEPT, Buffers
from kafkawire.protocol.request import CONSUMER as CONSUMER
from kafkawire.protocol.request import ApiVersions, FetchedPartition, Store
from kafkawire.protocol.request import ProducedPartition as ProducedPartition
from kafkawire.protocol.schema import string

if TYPE_CHECKING:
    from kafkawire.protocol.buffers import Buffers

HEADER_BYTES = 8  # size and correlation id of a reply

_REQUEST = struct.Struct(">ihhih")
_REPLY = struct.Struct(">ii")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_FETCHED = struct.Struct(">ihqi")  # partition, error, high watermark, bytes of the set
WITHOUT_BATCHES = 2  # the newest version of Produce for formats v0 and v1
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


@dataclass(frozen=True, slots=True)
class Request:
    """One request, ready for a session (kafkawire.protocol.request.Request)."""

    head_bytes: ClassVar[int] = HEADER_BYTES
    api: Api
    version: int
    buffers: list[bytes | memoryview]
    expects_reply: bool = True
    finish: Callable[[dict[str, Any]], object] | None = field(default=None, repr=False)  # decoded dict -> the reply
    max_reply_bytes: int = MAX_REPLY_BYTES

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return sum(len(buffer) for buffer in self.buffers)

    def frame(self, correlation_id: int, client_id: str) -> list[bytes | memoryview]:
        head = request_header(self.api.key, self.version, correlation_id, client_id, self.size)
        return [head, *self.buffers]

    def reply(self, head: bytes | bytearray, correlation_id: int, buffers: Buffers | None = None) -> Body[Any]:
        size, answered = reply_header(head)
        if answered != correlation_id:
            raise RemoteError(f"a reply with correlation id {answered} instead of {correlation_id} ({self.api.name})")
        return self.reply_body(size, buffers)

    def reply_body(self, size: int, buffers: Buffers | None = None) -> Body[Any]:
        """Where the size bytes of this request's reply go; fetched sets into `buffers`.

        RemoteError when that is more than any sane reply.
        """
        if self.api is apis.FETCH:
            return FetchReplyParser(self.version, size, self.max_reply_bytes, buffers)
        return PlainBody(size, self._read, self.max_reply_bytes)

    def _read(self, data: memoryview) -> object:
        fields = self.api.decode_reply(self.version, data)
        return self.finish(fields) if self.finish else fields


def fetch(
    d: ApiVersions,
    max_wait_ms: int,
    min_bytes: int,
    wanted: Sequence[tuple[TopicPartition, int, int]],
    replica_id: int = CONSUMER,
) -> Request:
    """Ask for (partition, position, max_bytes) each.  Reply: list[FetchedPartition], in the broker's order."""
    _no_twice(tp for tp, _, _ in wanted)
    topics = _grouped((tp, {"fetch_offset": at, "max_bytes": size}) for tp, at, size in wanted)
    fields = {"replica_id": replica_id, "max_wait_ms": max_wait_ms, "min_bytes": min_bytes, "topics": topics}
    # a down-converted set may be a little larger than what was asked for
    limit = MAX_REPLY_BYTES + 2 * sum(size for _, _, size in wanted)
    return _request(d, apis.FETCH, fields, max_reply_bytes=limit)


def produce(
    d: ApiVersions,
    acks: int,
    timeout_ms: int,
    sets: Mapping[TopicPartition, Sequence[bytes | memoryview]],
    magic: int = 0,
    transactional_id: str | None = None,
) -> Request:
    """Send each partition's set, given in pieces that are not copied; all of them of message format `magic`.

    The version follows the format: record batches, exactly one a partition, go with v3 and later, and entries of older
    formats with those before, which brokers up to 3.9 take, too.  transactional_id: whose transaction they belong to.
    Reply: dict[TopicPartition, ProducedPartition]; with acks 0 there is none at all.
    """
    version = d.speaks(apis.PRODUCE.key)
    if magic < RECORD_BATCH:
        version = min(version, WITHOUT_BATCHES)
    elif version <= WITHOUT_BATCHES:
        raise LocalError(f"Produce v{version} (Kafka {d.release}) takes no record batches")
    buffers: list[bytes | memoryview] = []
    topics: dict[str, list[tuple[int, Sequence[bytes | memoryview]]]] = {}
    for tp, pieces in sets.items():
        topics.setdefault(tp.topic, []).append((_number(tp), pieces))
    head = Writer()
    fields: dict[str, Any] = {"acks": acks, "timeout_ms": timeout_ms}
    if version > WITHOUT_BATCHES:
        fields["transactional_id"] = transactional_id
    apis.PRODUCE_HEAD.write(head, fields, version)
    head.integer(INT32, len(topics))
    for topic, partitions in topics.items():
        string.write(head, topic, 0)
        head.integer(INT32, len(partitions))
        for partition, pieces in partitions:
            head.integer(INT32, partition)
            head.integer(INT32, sum(len(piece) for piece in pieces))  # of bytes, not a count of messages
            buffers.append(head.done())
            buffers.extend(pieces)
            head = Writer()
    if not topics:
        buffers.append(head.done())
    return Request(apis.PRODUCE, version, buffers, expects_reply=acks != 0, finish=_produced)


def metadata(d: ApiVersions, topics: Sequence[str] | None) -> Request:
    """Ask about topics by name (which creates missing ones where brokers auto-create!), or all with None."""
    version = d.speaks(apis.METADATA.key)
    if topics is not None and not topics and version == 0:
        raise LocalError("Metadata v0 takes no empty list of topics: it would ask for all of them")
    return _request(d, apis.METADATA, {"topics": [] if topics is None and version == 0 else topics})


def list_offsets(
    d: ApiVersions, times: Mapping[TopicPartition, int], max_offsets: int = 1, replica_id: int = CONSUMER
) -> Request:
    """Offsets by time: -1 the next to be written, -2 the earliest, else ms since the epoch.

    Reply: the decoded dict; v0 has a list `offsets` (by segment files, may be empty), v1 one `offset` and `timestamp`.
    """
    if d.speaks(apis.LIST_OFFSETS.key) == 0:
        topics = _grouped((tp, {"time": time, "max_offsets": max_offsets}) for tp, time in times.items())
    else:
        topics = _grouped((tp, {"timestamp": time}) for tp, time in times.items())
    return _request(d, apis.LIST_OFFSETS, {"replica_id": replica_id, "topics": topics})


def barrier(d: ApiVersions, tp: TopicPartition) -> Request:
    """LocalError: from 0.8 on a broker answers Produce itself (interfaces.RequestBuilders)."""
    raise LocalError(f"Kafka {d.release} acknowledges Produce: {tp} needs no other request to wait for")


def group_coordinator(d: ApiVersions, group: str) -> Request:
    """Ask who coordinates a group.  The first such request ever creates __consumer_offsets: a dry run does not ask."""
    return _request(d, apis.GROUP_COORDINATOR, {"group": group})


def offset_commit(
    d: ApiVersions,
    group: str,
    offsets: Mapping[TopicPartition, tuple[int, str]],
    store: Store = "kafka",
    generation: int = -1,
    member_id: str = "",
    retention_ms: int = -1,
    timestamp_ms: int = -1,
) -> Request:
    """Commit (offset, metadata) each; offset is the next one wanted.

    zookeeper: any broker takes it (and drops the metadata).  kafka: the group's coordinator; generation -1 and an
    empty member id commit without a group.  retention_ms -1 is the broker's own and is only sent by v2; timestamp_ms
    is only sent by v1: -1 is the broker's clock, any other is taken for when the offset was committed.
    """
    version = d.speaks(apis.OFFSET_COMMIT.key, store)
    if retention_ms != -1 and version != 2:
        raise LocalError(f"OffsetCommit v{version} (Kafka {d.release}) knows no retention")
    if timestamp_ms != -1 and version != 1:
        raise LocalError(f"OffsetCommit v{version} (Kafka {d.release}) knows no timestamp")
    if timestamp_ms == 0 or timestamp_ms < -1:
        raise LocalError(f"a timestamp of {timestamp_ms} in OffsetCommit v1 would make the offset vanish at once")
    extra = {"timestamp": timestamp_ms} if version == 1 else {}
    topics = _grouped((tp, {"offset": at, "metadata": text, **extra}) for tp, (at, text) in offsets.items())
    fields: dict[str, Any] = {"group": group, "topics": topics}
    if version >= 1:
        fields |= {"generation": generation, "member_id": member_id}
    if version >= 2:
        fields["retention_ms"] = retention_ms
    return _request(d, apis.OFFSET_COMMIT, fields, version)


def offset_fetch(d: ApiVersions, group: str, tps: Iterable[TopicPartition], store: Store = "kafka") -> Request:
    """Read committed offsets.  Nothing committed is offset -1, with error 3 from zookeeper and 0 from kafka."""
    asked = list(tps)
    _no_twice(asked)
    topics: dict[str, list[int]] = {}
    for tp in asked:
        topics.setdefault(tp.topic, []).append(_number(tp))
    fields = {"group": group, "topics": [{"topic": name, "partitions": ids} for name, ids in topics.items()]}
    return _request(d, apis.OFFSET_FETCH, fields, d.speaks(apis.OFFSET_FETCH.key, store))


def describe_groups(d: ApiVersions, groups: Sequence[str]) -> Request:
    return _request(d, apis.DESCRIBE_GROUPS, {"groups": groups})


def list_groups(d: ApiVersions) -> Request:
    """The groups of the asked broker only: ask every one."""
    return _request(d, apis.LIST_GROUPS, {})


def api_versions(d: ApiVersions) -> Request:
    """A broker older than 0.10 closes the connection."""
    return _request(d, apis.API_VERSIONS, {})


def _request(
    d: ApiVersions,
    api: Api,
    fields: Mapping[str, Any],
    version: int | None = None,
    max_reply_bytes: int = MAX_REPLY_BYTES,
) -> Request:
    spoken = d.speaks(api.key) if version is None else version
    return Request(api, spoken, [api.encode_request(spoken, fields)], max_reply_bytes=max_reply_bytes)


def _produced(fields: dict[str, Any]) -> dict[TopicPartition, ProducedPartition]:
    return {
        TopicPartition(topic["topic"], row["partition"]): _produced_partition(row)
        for topic in fields["topics"]
        for row in topic["partitions"]
    }


def _produced_partition(row: Mapping[str, Any]) -> ProducedPartition:
    refused = row.get("record_errors")
    if not refused and not row.get("error_message"):
        return ProducedPartition(row["error"], row["base_offset"])
    by_record = tuple((one["batch_index"], one["message"] or "") for one in refused or ())
    return ProducedPartition(row["error"], row["base_offset"], row.get("error_message") or "", by_record)


def _grouped(rows: Iterable[tuple[TopicPartition, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Rows by topic, in the order topics first appear."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for tp, row in rows:
        topics.setdefault(tp.topic, []).append({"partition": _number(tp), **row})
    return [{"topic": name, "partitions": partitions} for name, partitions in topics.items()]


def _number(tp: TopicPartition) -> int:
    if not isinstance(tp.partition, int):
        raise LocalError(f"{tp} is a partition of 0.7: Kafka 0.8 and later number theirs")
    return tp.partition


def _no_twice(tps: Iterable[TopicPartition]) -> None:
    seen: set[TopicPartition] = set()
    for tp in tps:
        if tp in seen:
            raise LocalError(f"{tp} twice in one request: the broker would keep the last and drop the other in silence")
        seen.add(tp)
