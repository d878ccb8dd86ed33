"""Requests of Kafka 0.8 and later in the versions of a dialect, and the meaning of their replies.

Every builder takes the dialect first and returns a Request: its body as buffers (message sets are views, never copied),
and the parser of its reply.  The session adds the frame's header.

Frames of requests and responses:

    request  size:int32  api_key:int16  api_version:int16  correlation_id:int32  client_id:string  body
    reply    size:int32  correlation_id:int32  body

size counts all that follows it.  A session reads HEADER_BYTES, gets a Body from the request (`request.reply(head, …)`)
of the size that reply_header() finds, and feeds it bytes until it is complete.  No socket is used here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from kafkawire.errors import NOT_ANSWERED, LocalError, RemoteError, Truncated, error_info
from kafkawire.model import RECORD_BATCH, TopicPartition
from kafkawire.primitives import Reader, Writer, utf8
from kafkawire.protocol import apis
from kafkawire.protocol.apis import Api
from kafkawire.protocol.bodies import (
    MAX_METADATA_BYTES,
    MAX_PLAIN_BYTES,
    MAX_REPLY_BYTES,
    Body,
    PlainBody,
    Steps,
    StreamedBody,
)
from kafkawire.protocol.buffers import NONE_KEPT, Buffers
from kafkawire.protocol.fetchrows import UNFINISHED, FetchRows, QuietRows, encode_rows
from kafkawire.protocol.groupapis import OF_GROUP, OF_TRANSACTION
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
# partition, error, base offset; in v8 and later the number of refused records, and the length of a message (-1: none)
_PRODUCED_ROWS = {
    0: struct.Struct(">ihq"),
    2: struct.Struct(">ihq8x"),
    5: struct.Struct(">ihq16x"),
    8: struct.Struct(">ihq16xih"),
}
_NOTHING_SAID = [0, -1]
_PRODUCE_PARTITION = struct.Struct(">ii")  # partition, size of the set
_FETCHED = struct.Struct(">ihqi")  # partition, error, high watermark, bytes of the set
WITHOUT_BATCHES = 2  # newest version of Produce for formats v0 and v1
_FETCH_HEAD = struct.Struct(">iii")  # replica id, max wait, min bytes
_NO_SESSION = struct.pack(">ii", 0, -1)  # a full fetch without a session (KIP-227)
_SESSION = struct.Struct(">hi")  # error, session id
_STABLE = struct.Struct(">ihqqi")  # partition, error, high watermark, last stable offset, aborted transactions
_STABLE_LOG = struct.Struct(">ihqqqi")  # as _STABLE, with the log start offset
_ABORTED = struct.Struct(">qq")  # producer id, first offset
_MOST_INT32 = (1 << 31) - 1
NO_SET = -1  # size of a null set
NO_EPOCH = -1  # leader epoch not known, so it is not checked
NEWEST_WITH_RETENTION = 4  # of OffsetCommit
# The newest version of Fetch that only the leader answers.  In v11 and later (KIP-392) followers of 2.4 and later
# answer a consumer without an error, up to their own log end, so it would never learn that the leader moved; and a
# leader with a replica selector names another replica and sends no data. v11 adds nothing else to v10 (zstd needs v10),
# and 4.x supports v4 and later.
LEADERS_FETCH = 10
_LEAST_TOPIC = 6  # an empty name and an empty array


def request_header(api_key: int, version: int, correlation_id: int, client_id: str, body_size: int) -> bytes:
    """Return the frame header for a body of body_size bytes. client_id is never null: 0.9's newer requests refuse
    that."""
    name = utf8(client_id)
    if len(name) > 0x7FFF:
        raise LocalError(f"client id of {len(name)} bytes is longer than 32767")
    size = _REQUEST.size - 4 + len(name) + body_size
    if size > 0x7FFFFFFF:
        raise LocalError(f"request of {size} bytes does not fit a frame")
    return _REQUEST.pack(size, api_key, version, correlation_id, len(name)) + name


def reply_header(data: bytes | bytearray | memoryview) -> tuple[int, int]:
    """Return (bytes of the body, correlation id) from the first HEADER_BYTES of a reply frame."""
    size, correlation_id = _REPLY.unpack_from(data)
    if size < 4:
        raise RemoteError(f"a reply frame declares a size of {size}: it must have at least 4 bytes of correlation id")
    return size - 4, correlation_id


class FetchReplyParser(StreamedBody):
    """Fetch reply while it arrives (v0 to v11): a Body whose result is list[FetchedPartition] in wire order.

    [throttle_ms:int32 from v1]  [error:int16 session:int32 from v7]
    [topic:string [partition:int32 error:int16 high_watermark:int64
                   last_stable_offset:int64 from v4  log_start_offset:int64 from v5
                   aborted [producer_id:int64 first_offset:int64] from v4  preferred_replica:int32 from v11
                   set_size:int32 set]]

    A set's buffer is allocated once its size is known to fit into the rest of the frame.  A set of -1 bytes (null) is
    an empty one: Kafka 3.x sends it with an error. quiet: topics that are skipped while their rows repeat. asked:
    partitions that are always in the result, with NOT_ANSWERED if the reply leaves them out.
    """

    def __init__(
        self,
        version: int,
        size: int,
        limit: int = MAX_REPLY_BYTES,
        buffers: Buffers | None = None,
        quiet: QuietRows | None = None,
        asked: Sequence[TopicPartition] = (),
    ) -> None:
        super().__init__("Fetch reply", size, limit)
        self._quiet = quiet
        self._asked = asked
        self._left = 0  # topics left
        if quiet is not None:
            quiet.begin()
        self.throttle_ms = 0
        self._buffers = buffers or NONE_KEPT
        self._fetched: list[FetchedPartition] = []
        self._version = version
        self.start(self._parse() if version < 4 else self._parse_stable())

    def result(self) -> list[FetchedPartition]:
        if not self._asked:
            return self._fetched
        there = {fetched.tp for fetched in self._fetched}
        left_out = [tp for tp in self._asked if tp not in there]
        return self._fetched + [FetchedPartition(tp, NOT_ANSWERED, None, memoryview(b"")) for tp in left_out]

    def _parse(self) -> Steps:
        """Parse v0 to v3."""
        if self._version >= 1:
            (self.throttle_ms,) = _INT32.unpack((yield _INT32.size))
        self._left = self._count((yield _INT32.size), _LEAST_TOPIC, "topics")
        while self._left:
            if self._quiet is not None:
                yield self._pass_over
                if not self._left:
                    return
            self._left -= 1
            topic = yield from self._topic()
            learned = [bytes((yield _INT32.size))]
            loud, numbers = False, list[int]()
            for _ in range(self._count(learned[0], _FETCHED.size, "partitions")):
                row = yield _FETCHED.size
                partition, error, high_watermark, size = _FETCHED.unpack(row)
                tp = TopicPartition(topic, partition)
                if self._quiet is not None:
                    learned.append(bytes(row))
                    numbers.append(partition)
                    loud = loud or error != 0 or size > 0
                buffer = self._set(tp, size)
                if len(buffer):
                    yield buffer
                self._fetched.append(FetchedPartition(tp, error, high_watermark, buffer))
            if self._quiet is not None:
                self._quiet.learn(topic, learned, numbers, not loud)

    def _parse_stable(self) -> Steps:
        """Parse v4 and later, with the last stable offset and aborted transactions."""
        (self.throttle_ms,) = _INT32.unpack((yield _INT32.size))
        if self._version >= 7:
            error, _ = _SESSION.unpack((yield _SESSION.size))
            if error:
                raise RemoteError(f"Fetch reply: {error_info(error).name} ({error}) for the whole request")
        head, behind = (_STABLE_LOG if self._version >= 5 else _STABLE), 8 if self._version >= 11 else 4
        self._left = self._count((yield _INT32.size), _LEAST_TOPIC, "topics")
        while self._left:
            if self._quiet is not None:
                yield self._pass_over
                if not self._left:
                    return
            self._left -= 1
            topic = yield from self._topic()
            learned = [bytes((yield _INT32.size))]
            loud, numbers = False, list[int]()
            for _ in range(self._count(learned[0], head.size + behind, "partitions")):
                row = bytes((yield head.size))
                partition, error, high_watermark, stable, *log_start, count = head.unpack(row)
                tp = TopicPartition(topic, partition)
                if count * _ABORTED.size > self.rest:
                    raise Truncated(f"Fetch reply: {tp}: {count} aborted transactions, {self.rest} bytes left")
                aborted = tuple(_ABORTED.iter_unpack((yield count * _ABORTED.size))) if count > 0 else ()
                end = bytes((yield behind))
                (size,) = _INT32.unpack(end[-4:])  # before it comes the preferred replica
                if self._quiet is not None:
                    learned += (row, end)
                    numbers.append(partition)
                    loud = loud or error != 0 or size > 0 or count > 0
                buffer = self._set(tp, size)
                if len(buffer):
                    yield buffer
                start = log_start[0] if log_start else None
                self._fetched.append(FetchedPartition(tp, error, high_watermark, buffer, stable, start, aborted))
            if self._quiet is not None:
                self._quiet.learn(topic, learned, numbers, not loud)

    def _pass_over(self, data: memoryview) -> tuple[int, bool]:
        """Skip topics whose rows repeat; return their bytes, and whether more may be skipped once more bytes arrive."""
        assert self._quiet is not None
        at = size = 0
        while self._left and (size := self._quiet.match(data, at)) > 0:
            at += size
            self._left -= 1
        return at, self._left > 0 and size == UNFINISHED

    def _topic(self) -> Generator[int, memoryview, str]:
        (length,) = _INT16.unpack((yield _INT16.size))
        if length < 0:
            raise RemoteError(f"Fetch reply: a topic name of {length} bytes")
        return _text((yield length)) if length else ""

    def _set(self, tp: TopicPartition, size: int) -> memoryview:
        """Return the buffer for a set."""
        if size == NO_SET:
            size = 0
        if not 0 <= size <= self.rest:
            raise Truncated(f"Fetch reply: {tp} has a set of {size} bytes, {self.rest} left in the frame")
        return self._buffers.take(size)

    def _count(self, piece: bytes | memoryview, least: int, what: str) -> int:
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
    """Request ready for a session (kafkawire.protocol.request.Request)."""

    head_bytes: ClassVar[int] = HEADER_BYTES
    api: Api
    version: int
    buffers: list[bytes | memoryview]
    expects_reply: bool = True
    finish: Callable[[dict[str, Any]], object] | None = field(default=None, repr=False)  # decoded dict -> the reply
    # Parses the bytes without the dict; returns None for unusual replies, which the table parses.
    quick: Callable[[memoryview], object | None] | None = field(default=None, repr=False, compare=False)
    max_reply_bytes: int = MAX_REPLY_BYTES
    quiet: QuietRows | None = field(default=None, repr=False)  # for a Fetch
    asked: tuple[TopicPartition, ...] = field(default=(), repr=False)  # for a Fetch: always in its result

    @property
    def size(self) -> int:
        """Return the bytes of the body."""
        return sum(map(len, self.buffers))

    def frame(self, correlation_id: int, client_id: str) -> list[bytes | memoryview]:
        tags = b"\0" if self.version >= self.api.flexible else b""  # tagged fields of the header, always empty
        head = request_header(self.api.key, self.version, correlation_id, client_id, len(tags) + self.size)
        return [head + tags, *self.buffers]

    def reply(self, head: bytes | bytearray, correlation_id: int, buffers: Buffers | None = None) -> Body[Any]:
        size, answered = reply_header(head)
        if answered != correlation_id:
            raise RemoteError(f"a reply with correlation id {answered} instead of {correlation_id} ({self.api.name})")
        return self.reply_body(size, buffers)

    def reply_body(self, size: int, buffers: Buffers | None = None) -> Body[Any]:
        """Return the body that receives the `size` bytes of this request's reply; fetched sets go into `buffers`.

        Raises RemoteError if that exceeds the limit of a reply.
        """
        if self.api is apis.FETCH:
            return FetchReplyParser(self.version, size, self.max_reply_bytes, buffers, self.quiet, self.asked)
        most = MAX_METADATA_BYTES if self.api is apis.METADATA else MAX_PLAIN_BYTES
        return PlainBody(size, self._read, min(most, self.max_reply_bytes))

    def _read(self, data: memoryview) -> object:
        if self.quick is not None and (found := self.quick(data)) is not None:
            return found
        if self.version >= self.api.flexible:
            header = Reader(data, f"header of a {self.api.name} reply")
            header.tags()
            data = data[header.at :]
        fields = self.api.decode_reply(self.version, data)
        return self.finish(fields) if self.finish else fields


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
    """Fetch from (partition, position, max_bytes) each.  Reply: list[FetchedPartition], in the broker's order.

    Partitions of `wanted` that the reply leaves out follow with error NOT_ANSWERED, unless quiet is given. committed:
    use isolation level read_committed (v4 and later).  In v3 and later the first entry of the first non-empty partition
    is returned whole, however large it is; another partition is empty if its first entry does not fit. rows: further
    partitions after these (fetch_rows). quiet: rows to skip in the reply.

    Only the leader answers a consumer: other brokers refuse with 6.  With another replica_id any replica answers.
    """
    version = _leaders_fetch(d) if replica_id == CONSUMER else d.speaks(apis.FETCH.key)
    asked = [encode_rows(version, wanted), *rows] if wanted or not rows else list(rows)
    total = sum(each.total_bytes for each in asked)
    pieces = [_FETCH_HEAD.pack(replica_id, max_wait_ms, min_bytes)]
    if version >= 3:
        pieces.append(_INT32.pack(min(total, _MOST_INT32)))
    if version >= 4:
        pieces.append(b"\x01" if committed else b"\x00")
    if version >= 7:
        pieces.append(_NO_SESSION)
    pieces.append(_INT32.pack(sum(each.topics for each in asked)))
    pieces += [each.data for each in asked]
    if version >= 7:
        pieces.append(_INT32.pack(0))  # forgotten topics
    if version >= 11:
        pieces.append(_INT16.pack(0))  # rack
    # a down-converted set may be a little larger than requested
    limit = MAX_REPLY_BYTES + 2 * total
    complete = tuple(tp for tp, _, _ in wanted) if quiet is None else ()
    return Request(apis.FETCH, version, [b"".join(pieces)], max_reply_bytes=limit, quiet=quiet, asked=complete)


def fetch_rows(d: ApiVersions, wanted: Sequence[tuple[TopicPartition, int, int]]) -> FetchRows:
    """Encode partitions that several fetches of a consumer request from the same offsets."""
    return encode_rows(_leaders_fetch(d), wanted)


def _leaders_fetch(d: ApiVersions) -> int:
    """Return the version of Fetch that a consumer uses."""
    return min(d.speaks(apis.FETCH.key), LEADERS_FETCH)


@lru_cache(64)
def _produce_head(version: int, acks: int, timeout_ms: int, transactional_id: str | None) -> bytes:
    writer = Writer()
    fields: dict[str, Any] = {"acks": acks, "timeout_ms": timeout_ms}
    if version > WITHOUT_BATCHES:
        fields["transactional_id"] = transactional_id
    apis.PRODUCE_HEAD.write(writer, fields, version)
    return writer.done()


@lru_cache(1024)
def _produce_topic(topic: str) -> bytes:
    writer = Writer()
    string.write(writer, topic, 0)
    return writer.done()


def produce(
    d: ApiVersions,
    acks: int,
    timeout_ms: int,
    sets: Mapping[TopicPartition, Sequence[bytes | memoryview]],
    magic: int = 0,
    transactional_id: str | None = None,
) -> Request:
    """Send each partition's set, given in pieces that are not copied; all of them of message format `magic`.

    The version follows the format: record batches, exactly one per partition, need v3 and later; entries of older
    formats need an older version, which brokers up to 3.9 support.  transactional_id: whose transaction they belong to.
    Reply: dict[TopicPartition, ProducedPartition]; with acks 0 there is none.
    """
    version = d.speaks(apis.PRODUCE.key)
    if magic < RECORD_BATCH:
        version = min(version, WITHOUT_BATCHES)
    elif version <= WITHOUT_BATCHES:
        raise LocalError(f"Produce v{version} (Kafka {d.release}) does not accept record batches")
    buffers: list[bytes | memoryview] = []
    topics: dict[str, list[tuple[int, Sequence[bytes | memoryview]]]] = {}
    for tp, pieces in sets.items():
        topics.setdefault(tp.topic, []).append((_number(tp), pieces))
    head = _produce_head(version, acks, timeout_ms, transactional_id) + _INT32.pack(len(topics))
    for topic, partitions in topics.items():
        head += _produce_topic(topic) + _INT32.pack(len(partitions))
        for partition, pieces in partitions:
            size = sum(map(len, pieces))  # in bytes, not a count of messages
            try:
                buffers.append(head + _PRODUCE_PARTITION.pack(partition, size))
            except struct.error:
                raise LocalError(f"partition {partition} of {topic}, or its {size} bytes, do not fit 32 bits") from None
            buffers.extend(pieces)
            head = b""
    if head:
        buffers.append(head)
    return Request(
        apis.PRODUCE,
        version,
        buffers,
        expects_reply=acks != 0,
        finish=partial(_produced, version),
        quick=partial(_quickly, version),
    )


def metadata(d: ApiVersions, topics: Sequence[str] | None, create: bool = True) -> Request:
    """Request topics by name, or all with None.

    create: brokers with auto-creation create named topics that do not exist.  Up to v3 they always do so!
    """
    version = d.speaks(apis.METADATA.key)
    if topics is not None and not topics and version == 0:
        raise LocalError("Metadata v0 does not support an empty list of topics: it would request all of them")
    fields: dict[str, Any] = {"topics": [] if topics is None and version == 0 else topics}
    if version >= 4:
        fields["allow_auto_topic_creation"] = create and topics is not None
    if version >= 8:
        fields |= {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
    return _request(d, apis.METADATA, fields)


def list_offsets(
    d: ApiVersions,
    times: Mapping[TopicPartition, int],
    max_offsets: int = 1,
    replica_id: int = CONSUMER,
    committed: bool = False,
) -> Request:
    """Request offsets by time: -1 the log end, -2 the earliest, else ms since the epoch.

    committed: -1 is the last stable offset, the first one of an open transaction (v2 and later; KIP-98). Reply: the
    decoded dict; v0 has a list `offsets` (by segment files, may be empty), v1 one `offset` and `timestamp`.
    """
    version = d.speaks(apis.LIST_OFFSETS.key)
    if version == 0:
        topics = grouped((tp, {"time": time, "max_offsets": max_offsets}) for tp, time in times.items())
    else:
        epoch = {"current_leader_epoch": NO_EPOCH} if version >= 4 else {}
        topics = grouped((tp, {"timestamp": time, **epoch}) for tp, time in times.items())
    fields: dict[str, Any] = {"replica_id": replica_id, "topics": topics}
    if version >= 2:
        fields["isolation_level"] = apis.READ_COMMITTED if committed else apis.READ_UNCOMMITTED
    return _request(d, apis.LIST_OFFSETS, fields)


def barrier(d: ApiVersions, tp: TopicPartition) -> Request:
    """Raise LocalError: brokers of 0.8 and later answer Produce itself (interfaces.RequestBuilders)."""
    raise LocalError(f"Kafka {d.release} acknowledges Produce: {tp} needs no barrier request")


def group_coordinator(d: ApiVersions, group: str, of_transaction: bool = False) -> Request:
    """Request the coordinator of a group, or, by its transactional id, of a producer's transactions (v1 and later).

    The first such request ever creates __consumer_offsets or __transaction_state, so dry runs do not send it.
    """
    version = d.speaks(apis.GROUP_COORDINATOR.key)
    if version == 0 and of_transaction:
        raise LocalError(f"Kafka {d.release} has no transactions")
    kind = {"key_type": OF_TRANSACTION if of_transaction else OF_GROUP} if version >= 1 else {}
    return _request(d, apis.GROUP_COORDINATOR, {"group": group, **kind})


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
    """Commit (offset, metadata) each; offset is the next one to read.

    zookeeper: any broker accepts it (and drops the metadata). kafka: goes to the group's coordinator; generation -1 and
    an empty member id commit without membership. retention_ms: -1 is the broker's retention; other values are sent by
    v2 to v4, which brokers up to 4.x support (KIP-211 removed it from v5). timestamp_ms is only sent by v1: -1 is the
    broker's clock, other values are the commit time.
    """
    version = d.speaks(apis.OFFSET_COMMIT.key, store)
    if retention_ms != -1:
        if version < 2:
            raise LocalError(f"OffsetCommit v{version} (Kafka {d.release}) has no retention")
        version = min(version, NEWEST_WITH_RETENTION)
    if timestamp_ms != -1 and version != 1:
        raise LocalError(f"OffsetCommit v{version} (Kafka {d.release}) has no timestamp")
    if timestamp_ms == 0 or timestamp_ms < -1:
        raise LocalError(f"a timestamp of {timestamp_ms} in OffsetCommit v1 would let the offset expire at once")
    extra = {"timestamp": timestamp_ms} if version == 1 else {"leader_epoch": NO_EPOCH} if version >= 6 else {}
    topics = grouped((tp, {"offset": at, "metadata": text, **extra}) for tp, (at, text) in offsets.items())
    fields: dict[str, Any] = {"group": group, "topics": topics}
    if version >= 1:
        fields |= {"generation": generation, "member_id": member_id}
    if 2 <= version <= NEWEST_WITH_RETENTION:
        fields["retention_ms"] = retention_ms
    if version >= 7:
        fields["group_instance_id"] = None
    return _request(d, apis.OFFSET_COMMIT, fields, version)


def offset_fetch(d: ApiVersions, group: str, tps: Iterable[TopicPartition] | None, store: Store = "kafka") -> Request:
    """Request committed offsets; tps None: all of the group (0.10.2 and later).

    A partition without a committed offset has offset -1, with error 3 from zookeeper and 0 from kafka. v2 and later
    send an error of the whole group separately; it is copied to each requested partition.
    """
    version = d.speaks(apis.OFFSET_FETCH.key, store)
    if tps is None:
        if version < 2:
            raise LocalError(f"OffsetFetch v{version} (Kafka {d.release}) needs the partitions")
        fields: dict[str, Any] = {"group": group, "topics": None}
        return _request(d, apis.OFFSET_FETCH, fields, version)
    asked = list(tps)
    _no_twice(asked)
    topics: dict[str, list[int]] = {}
    for tp in asked:
        topics.setdefault(tp.topic, []).append(_number(tp))
    fields = {"group": group, "topics": [{"topic": name, "partitions": ids} for name, ids in topics.items()]}

    def finish(reply: dict[str, Any]) -> dict[str, Any]:
        if not reply.get("error"):
            return reply
        row = {"offset": -1, "metadata": "", "error": reply["error"]}
        return {**reply, "topics": grouped((tp, dict(row)) for tp in asked)}

    return _request(d, apis.OFFSET_FETCH, fields, version, finish=finish)


def describe_groups(d: ApiVersions, groups: Sequence[str]) -> Request:
    return _request(d, apis.DESCRIBE_GROUPS, {"groups": groups})


def list_groups(d: ApiVersions) -> Request:
    """Request the groups of one broker; each broker has to be asked. v4 and later have a state, v5 and later a type."""
    version = d.speaks(apis.LIST_GROUPS.key)
    filters: dict[str, Any] = {name: [] for name, since in (("states", 4), ("types", 5)) if version >= since}
    return _request(d, apis.LIST_GROUPS, filters, version)


def api_versions(d: ApiVersions) -> Request:
    """Request supported versions, in v0, which all brokers of 0.10 and later support.  Older ones close the
    connection."""
    d.speaks(apis.API_VERSIONS.key)
    return _request(d, apis.API_VERSIONS, {}, 0)


def _request(
    d: ApiVersions,
    api: Api,
    fields: Mapping[str, Any],
    version: int | None = None,
    finish: Callable[[dict[str, Any]], object] | None = None,
) -> Request:
    spoken = d.speaks(api.key) if version is None else version
    return Request(api, spoken, [api.encode_request(spoken, fields)], finish=finish)


def _quickly(version: int, data: memoryview) -> dict[TopicPartition, ProducedPartition] | None:
    """Decode a Produce reply without refused records and error messages, several times as fast as by its table.  None
    for other replies, which the table decodes or rejects."""
    row = _PRODUCED_ROWS[0 if version < 2 else 2 if version < 5 else 5 if version < 8 else 8]
    found: dict[TopicPartition, ProducedPartition] = {}
    try:
        (topics,), at = _INT32.unpack_from(data), 4
        for _ in range(topics):
            (length,) = _INT16.unpack_from(data, at)
            named = at + 2 + length
            (partitions,) = _INT32.unpack_from(data, named)
            if length < 0 or partitions < 0:
                return None
            topic, at = str(data[at + 2 : named], "utf-8"), named + 4
            for _ in range(partitions):
                partition, error, base_offset, *rest = row.unpack_from(data, at)
                if rest and rest != _NOTHING_SAID:
                    return None
                found[TopicPartition(topic, partition)] = ProducedPartition(error, base_offset, version=version)
                at += row.size
    except (struct.error, UnicodeDecodeError):
        return None
    return found if topics >= 0 and at + (4 if version else 0) == len(data) else None


def _produced(version: int, fields: dict[str, Any]) -> dict[TopicPartition, ProducedPartition]:
    return {
        TopicPartition(topic["topic"], row["partition"]): _produced_partition(version, row)
        for topic in fields["topics"]
        for row in topic["partitions"]
    }


def _produced_partition(version: int, row: Mapping[str, Any]) -> ProducedPartition:
    by_record = tuple((one["batch_index"], one["message"] or "") for one in row.get("record_errors") or ())
    return ProducedPartition(row["error"], row["base_offset"], row.get("error_message") or "", by_record, version)


def grouped(rows: Iterable[tuple[TopicPartition, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Group rows by topic, in the order in which topics first appear."""
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
