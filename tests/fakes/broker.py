"""A fake Kafka 0.8.2 cluster that speaks real bytes on 127.0.0.1: a plain thread a connection, no gevent, no kafkawire.

    speaks       Produce v0, Fetch v0, ListOffsets v0, Metadata v0, GroupCoordinator v0, OffsetCommit and OffsetFetch
                 v0 (as if in ZooKeeper), v1 and v2 (commit only); message format v0, plain and gzip wrappers
    does         offsets renumbered on append, outer CRCs checked (2), message.max.bytes (10; wrappers of one set are
                 measured together, because 0.8 merges them), leadership (6), auto-creation by name, acks 0 without an
                 answer, partial sets at the end of a fetch, one request at a time per connection; one coordinator
                 for all groups (16 from the others)
    leaves out   replicas and acks -1 waiting, min.insync.replicas, members of groups, compaction, retention, really
                 merging wrappers (they are kept as they came); messages in a snappy or lz4 wrapper count as one

with FakeCluster({"t": 2}, brokers=2) as cluster:
    cluster.bootstrap                       [("127.0.0.1", port), ...]
    cluster.script("produce", Fail(6))      what the next requests of one API meet, one action each, on any broker
    cluster.append("t", 0, entry(b"v"))     a log filled behind the brokers' back
    cluster.messages("t", 0)                [(offset, key, value)] as stored
    cluster.requests                        what was asked, decoded, in order of arrival: Seen(broker, api, body)
    cluster.move("t", 0, 2)                 another leader
    cluster.coordinator = 2                 another coordinator
    cluster.committed                       {(version, group, topic, partition): (offset, metadata)}
    cluster.stop(1); cluster.start(1)       a broker dies (connections reset) and comes back, on another port if told
"""

from __future__ import annotations

import socket
import struct
import threading
import time
import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import Any

APIS = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "group_coordinator",
}
WAIT_S = 10.0  # no test may hang on a fake


@dataclass(frozen=True)
class Fail:
    """Answer this code for every partition (or the one told); store=True: the entries are kept all the same (7, 20)."""

    code: int
    tp: tuple[str, int] | None = None
    store: bool = False


@dataclass(frozen=True)
class Close:
    """Reset the connection instead of answering; store=True: after the request was carried out."""

    store: bool = False


@dataclass(frozen=True)
class Wait:
    """Carry out and answer only once the event is set (or, without one, after so many seconds)."""

    event: threading.Event | None = None
    seconds: float = WAIT_S


@dataclass(frozen=True)
class LeaveOut:
    """Carry out, and answer without this partition (offsets only)."""

    tp: tuple[str, int]


@dataclass(frozen=True)
class Raw:
    """Answer exactly these bytes, whatever they are."""

    data: bytes


@dataclass(frozen=True)
class Seen:
    broker: int
    api: str
    body: dict[str, Any]


@dataclass
class _Log:
    leader: int
    entries: list[tuple[int, bytes]] = field(default_factory=list)  # first offset, entry
    end: int = 0


def entry(value: bytes | None, key: bytes | None = None, offset: int = 0, codec: int = 0) -> bytes:
    """One format v0 entry."""
    body = struct.pack(">bb", 0, codec) + _bytes(key) + _bytes(value)
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def gzipped(*entries: bytes) -> bytes:
    """One gzip wrapper around the entries."""
    packer = zlib.compressobj(wbits=31)
    return entry(packer.compress(b"".join(entries)) + packer.flush(), codec=1, offset=len(entries) - 1)


def opened(data: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of every message in a set, wrappers opened; a cut tail is left out."""
    found: list[tuple[int, bytes | None, bytes | None]] = []
    for offset, _, piece in _walk(data):
        key, at = _read_bytes(piece, 18)
        value, _ = _read_bytes(piece, at)
        if piece[17] & 7 == 1:
            found += opened(zlib.decompress(value or b"", wbits=31))
        else:
            found.append((offset, key, value))
    return found


class FakeCluster:
    def __init__(
        self,
        topics: dict[str, int] | None = None,
        brokers: int = 1,
        message_max_bytes: int = 1000012,
        auto_create: int = 0,
        lists_all_brokers: bool = True,
    ) -> None:
        self.message_max_bytes = message_max_bytes
        self.auto_create = auto_create  # partitions of a topic created by being asked for; 0: it is not created
        self.lists_all_brokers = lists_all_brokers  # False: as 0.8.0 and 0.8.1, only those of the partitions returned
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.logs: dict[tuple[str, int], _Log] = {}
        self.requests: list[Seen] = []
        self.scripts: dict[str, deque[Any]] = {}
        self.errors: list[BaseException] = []
        self.servers: dict[int, _Server | None] = {}
        self.coordinator = 1
        self.committed: dict[tuple[int, str, str, int], tuple[int, str]] = {}
        self.stale: set[int] = set()  # brokers that are still said to lead after they stopped
        self.ports: dict[int, int] = {}
        for broker in range(1, brokers + 1):
            self.start(broker)
        for topic, partitions in (topics or {}).items():
            self.create(topic, partitions)

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *_: object) -> None:
        for broker in list(self.servers):
            self.stop(broker)
        if self.errors:
            raise self.errors[0]

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", self.ports[b]) for b in sorted(self.ports)]

    def create(self, topic: str, partitions: int) -> None:
        with self.lock:
            ids = sorted(self.ports)
            for partition in range(partitions):
                self.logs.setdefault((topic, partition), _Log(ids[partition % len(ids)]))

    def script(self, api: str, *actions: Any) -> None:
        """What the next requests of this API meet; None: nothing special."""
        with self.lock:
            self.scripts.setdefault(api, deque()).extend(actions)

    def move(self, topic: str, partition: int, leader: int) -> None:
        with self.lock:
            self.logs[topic, partition].leader = leader

    def leave_leaders(self, broker: int) -> None:
        """Metadata goes on naming this broker after it stopped, as for the seconds before its session is over."""
        with self.lock:
            self.stale.add(broker)

    def start(self, broker: int, port: int = 0) -> None:
        server = _Server(self, broker, port)
        with self.lock:
            self.servers[broker], self.ports[broker] = server, server.port

    def stop(self, broker: int) -> None:
        """As kill -9: the port is closed and every connection reset."""
        with self.lock:
            server, self.servers[broker] = self.servers[broker], None
        if server is not None:
            server.close()

    def append(self, topic: str, partition: int, data: bytes) -> int:
        """Append a set to a log; returns the offset of its first message, or -1 when it held no complete entry."""
        with self.lock:
            log, base = self.logs[topic, partition], -1
            for _, count, piece in _walk(data):
                base = log.end if base < 0 else base
                last = log.end + count - 1
                log.entries.append((log.end, struct.pack(">q", last) + _renumbered(piece, log.end)[8:]))
                log.end += count
            self.changed.notify_all()
            return base

    def messages(self, topic: str, partition: int) -> list[tuple[int, bytes | None, bytes | None]]:
        with self.lock:
            return opened(b"".join(data for _, data in self.logs[topic, partition].entries))

    def values(self, topic: str, partition: int) -> list[bytes | None]:
        return [value for _, _, value in self.messages(topic, partition)]

    def seen(self, api: str) -> list[Seen]:
        with self.lock:
            return [request for request in self.requests if request.api == api]

    def wait(self, condition: Any, seconds: float = WAIT_S) -> None:
        """Until condition() holds, looked at after every request and append."""
        with self.changed:
            assert self.changed.wait_for(condition, seconds), f"not within {seconds} s; seen: {self.requests[-5:]}"

    # what a request does; the lock is held

    def produce(self, broker: int, body: dict[str, Any], action: Any) -> bytes | None:
        answers: dict[str, list[bytes]] = {}
        for (topic, partition), data in body["sets"].items():
            code = self._refusal(broker, (topic, partition), data)
            base = -1
            failed = isinstance(action, Fail) and action.tp in (None, (topic, partition))
            if code == 0 and (not failed or action.store):
                base = self.append(topic, partition, data)
            if failed:
                code, base = action.code, -1
            answers.setdefault(topic, []).append(struct.pack(">ihq", partition, code, base))
        return None if body["acks"] == 0 else _topics(answers)

    def _refusal(self, broker: int, tp: tuple[str, int], data: bytes) -> int:
        log = self.logs.get(tp)
        if log is None:
            return 3
        if log.leader != broker:
            return 6
        wrapped = 0
        for _, _, piece in _walk(data):
            if struct.unpack_from(">I", piece, 12)[0] != zlib.crc32(piece[16:]):
                return 2
            wrapped += len(piece) if piece[17] & 7 else 0
            if max(len(piece), wrapped) > self.message_max_bytes:
                return 10
        return 0

    def fetch(self, broker: int, body: dict[str, Any], action: Any) -> bytes:
        deadline = time.monotonic() + body["max_wait_ms"] / 1000
        while True:
            answers: dict[str, list[bytes]] = {}
            size = 0
            for (topic, partition), (offset, max_bytes) in body["wanted"].items():
                code, end, data = self._slice(broker, (topic, partition), offset, max_bytes)
                if isinstance(action, Fail) and action.tp in (None, (topic, partition)):
                    code, end, data = action.code, -1, b""
                size += len(data) if code == 0 else body["min_bytes"]  # an error is answered at once
                answers.setdefault(topic, []).append(struct.pack(">ihqi", partition, code, end, len(data)) + data)
            left = deadline - time.monotonic()
            if size >= body["min_bytes"] or left <= 0:
                return _topics(answers)
            self.changed.wait(left)

    def _slice(self, broker: int, tp: tuple[str, int], offset: int, max_bytes: int) -> tuple[int, int, bytes]:
        log = self.logs.get(tp)
        if log is None:
            return 3, -1, b""
        if log.leader != broker:
            return 6, -1, b""
        if not (log.entries[0][0] if log.entries else 0) <= offset <= log.end:
            return 1, -1, b""
        data = b"".join(data for _, data in log.entries if struct.unpack_from(">q", data)[0] >= offset)
        return 0, log.end, data[:max_bytes]

    def list_offsets(self, broker: int, body: dict[str, Any], action: Any) -> bytes:
        answers: dict[str, list[bytes]] = {}
        for (topic, partition), (when, most) in body["times"].items():
            log = self.logs.get((topic, partition))
            code = 3 if log is None else 6 if log.leader != broker else 0
            if isinstance(action, Fail) and action.tp in (None, (topic, partition)):
                code = action.code
            offsets = [] if code or log is None else self._offsets(log, when)[:most]
            row = struct.pack(">ihi", partition, code, len(offsets)) + struct.pack(f">{len(offsets)}q", *offsets)
            answers.setdefault(topic, []).append(row)
        return _topics(answers)

    def _offsets(self, log: _Log, when: int) -> list[int]:
        first = log.entries[0][0] if log.entries else 0
        return [first] if when == -2 else [log.end, first] if log.end > first else [first]

    def metadata(self, broker: int, body: dict[str, Any], action: Any) -> bytes:
        code = action.code if isinstance(action, Fail) else 0
        known = sorted({topic for topic, _ in self.logs})
        rows, leaders = [], set()
        for topic in body["topics"] or known:
            if topic not in known:
                rows.append(struct.pack(">h", 5 if self.auto_create else 3) + _string(topic) + struct.pack(">i", 0))
                self.create(topic, self.auto_create)
                continue
            partitions = [(p, log.leader) for (t, p), log in sorted(self.logs.items()) if t == topic]
            leaders |= {leader for _, leader in partitions}
            row = struct.pack(">h", code) + _string(topic) + struct.pack(">i", 0 if code else len(partitions))
            for p, leader in () if code else partitions:
                alive = self.servers.get(leader) is not None or leader in self.stale
                row += struct.pack(">hii", 0 if alive else 5, p, leader if alive else -1)
                row += struct.pack(">ii", 1, leader) + (
                    struct.pack(">ii", 1, leader) if alive else struct.pack(">i", 0)
                )
            rows.append(row)
        alive_ids = [
            b
            for b in sorted(self.ports)
            if (self.servers.get(b) or b in self.stale) and (self.lists_all_brokers or b in leaders)
        ]
        reply = struct.pack(">i", len(alive_ids))
        for b in alive_ids:
            reply += struct.pack(">i", b) + _string("127.0.0.1") + struct.pack(">i", self.ports[b])
        return reply + struct.pack(">i", len(rows)) + b"".join(rows)

    def group_coordinator(self, broker: int, body: dict[str, Any], action: Any) -> bytes:
        if isinstance(action, Fail):
            return struct.pack(">hi", action.code, -1) + _string("") + struct.pack(">i", -1)
        who = self.coordinator
        return struct.pack(">hi", 0, who) + _string("127.0.0.1") + struct.pack(">i", self.ports[who])

    def offset_commit(self, broker: int, body: dict[str, Any], action: Any) -> bytes:
        answers: dict[str, list[bytes]] = {}
        for (topic, partition), (offset, metadata) in body["offsets"].items():
            code = self._offsets_code(broker, body["version"], (topic, partition), action)
            if code == 0:
                self.committed[body["version"], body["group"], topic, partition] = (offset, metadata)
            if action != LeaveOut((topic, partition)):
                answers.setdefault(topic, []).append(struct.pack(">ih", partition, code))
        return _topics(answers)

    def offset_fetch(self, broker: int, body: dict[str, Any], action: Any) -> bytes:
        answers: dict[str, list[bytes]] = {}
        version = body["version"]
        for topic, partition in body["wanted"]:
            code = self._offsets_code(broker, version, (topic, partition), action)
            held = self.committed.get((version, body["group"], topic, partition))
            offset, metadata = held if code == 0 and held is not None else (-1, "")
            if code == 0 and ((topic, partition) not in self.logs or (version == 0 and held is None)):
                code = 3
            if action != LeaveOut((topic, partition)):
                row = struct.pack(">iq", partition, offset) + _string(metadata) + struct.pack(">h", code)
                answers.setdefault(topic, []).append(row)
        return _topics(answers)

    def _offsets_code(self, broker: int, version: int, tp: tuple[str, int], action: Any) -> int:
        if isinstance(action, Fail) and action.tp in (None, tp):
            return action.code
        return 16 if version > 0 and broker != self.coordinator else 0


class _Server:
    """One broker: a listening socket and a thread a connection."""

    def __init__(self, cluster: FakeCluster, broker: int, port: int) -> None:
        self.cluster, self.broker = cluster, broker
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self.listener.getsockname()[1]
        self.connections: set[socket.socket] = set()
        self.closed = False
        self.threads = [threading.Thread(target=self._accept, name=f"fake-broker-{broker}", daemon=True)]
        self.threads[0].start()

    def close(self) -> None:
        with self.cluster.lock:
            self.closed = True
            doomed = [self.listener, *self.connections]
        for each in doomed:
            _reset(each)
        for thread in list(self.threads):
            if thread is not threading.current_thread():
                thread.join(WAIT_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with self.cluster.lock:
                if self.closed:
                    connection.close()
                    return
                self.connections.add(connection)
                thread = threading.Thread(target=self._serve, args=(connection,), name="fake-connection", daemon=True)
                self.threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while (size := _exactly(connection, 4)) is not None:
                frame = _exactly(connection, struct.unpack(">i", size)[0])
                if frame is None or not self._answer(connection, frame):
                    return
        except OSError:
            return  # the client, or close(), took the connection away
        except BaseException as error:  # a fake that breaks must fail the test
            self.cluster.errors.append(error)
        finally:
            with self.cluster.lock:
                self.connections.discard(connection)
            _reset(connection)

    def _answer(self, connection: socket.socket, frame: bytes) -> bool:
        api, body, correlation = _decode(frame)
        cluster = self.cluster
        with cluster.changed:
            if self.closed:
                return False
            queue = cluster.scripts.get(api)
            action = queue.popleft() if queue else None
            cluster.requests.append(Seen(self.broker, api, body))
            cluster.changed.notify_all()
        if isinstance(action, Raw):
            connection.sendall(action.data)
            return True
        if isinstance(action, Wait):
            (action.event or threading.Event()).wait(action.seconds)
        if isinstance(action, Close) and not action.store:
            return False
        with cluster.changed:
            if self.closed:
                return False
            reply = getattr(cluster, api)(self.broker, body, action)
            cluster.changed.notify_all()
        if isinstance(action, Close):
            return False
        if reply is not None:
            connection.sendall(struct.pack(">ii", 4 + len(reply), correlation) + reply)
        return True


class _Bytes:
    """A request body being read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> Any:
        values = struct.unpack_from(">" + layout, self.data, self.at)
        self.at += struct.calcsize(">" + layout)
        return values[0] if len(values) == 1 else values

    def string(self) -> str:
        return self.raw(self.take("h")).decode()

    def raw(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def partitions(self, read: Any) -> dict[tuple[str, int], Any]:
        found: dict[tuple[str, int], Any] = {}
        for _ in range(self.take("i")):
            topic = self.string()
            for _ in range(self.take("i")):
                partition = self.take("i")
                found[topic, partition] = read()
        assert self.at == len(self.data), "a request has bytes left over"
        return found


def _decode(frame: bytes) -> tuple[str, dict[str, Any], int]:
    r = _Bytes(frame)
    key, version, correlation = r.take("hhi")
    client = r.string()
    body: dict[str, Any] = {"client_id": client, "version": version}
    if key == 0:
        body["acks"], body["timeout_ms"] = r.take("hi")
        body["sets"] = r.partitions(lambda: r.raw(r.take("i")))
    elif key == 1:
        body["replica_id"], body["max_wait_ms"], body["min_bytes"] = r.take("iii")
        body["wanted"] = r.partitions(lambda: r.take("qi"))
    elif key == 2:
        body["replica_id"] = r.take("i")
        body["times"] = r.partitions(lambda: r.take("qi"))
    elif key == 3:
        body["topics"] = [r.string() for _ in range(r.take("i"))]
    elif key == 8:
        body["group"] = r.string()
        if version >= 1:
            body["generation"], body["member_id"] = r.take("i"), r.string()
        if version == 2:
            body["retention_ms"] = r.take("q")
        body["timestamps"] = []  # v1: one a partition
        body["offsets"] = r.partitions(lambda: _offset_row(r, version, body["timestamps"]))
    elif key == 9:
        body["group"] = r.string()
        body["wanted"] = list(r.partitions(lambda: None))
    elif key == 10:
        body["group"] = r.string()
    else:
        raise AssertionError(f"the fake broker does not speak api {key}")
    return APIS[key], body, correlation


def _offset_row(r: _Bytes, version: int, timestamps: list[int]) -> tuple[int, str]:
    offset = r.take("q")
    if version == 1:
        timestamps.append(r.take("q"))
        assert timestamps[-1] == -1 or timestamps[-1] > 1_000_000_000_000, "taken for the offset's age: gone at once"
    return offset, r.string()


def _walk(data: bytes) -> list[tuple[int, int, bytes]]:
    """(offset, messages in it, entry) of every complete entry."""
    found, at = [], 0
    while at + 12 <= len(data):
        offset, size = struct.unpack_from(">qi", data, at)
        if at + 12 + size > len(data):
            break
        piece = data[at : at + 12 + size]
        inner = zlib.decompress(_value(piece), wbits=31) if piece[17] & 7 == 1 else None
        found.append((offset, 1 if inner is None else len(_walk(inner)), piece))
        at += 12 + size
    return found


def _renumbered(piece: bytes, first: int) -> bytes:
    """A gzip wrapper with absolute inner offsets from `first` on, as a 0.8 log has them; anything else as it is."""
    if piece[17] & 7 != 1:
        return piece
    inner = _walk(zlib.decompress(_value(piece), wbits=31))
    return gzipped(*(struct.pack(">q", first + n) + each[8:] for n, (_, _, each) in enumerate(inner)))


def _value(piece: bytes) -> bytes:
    _, at = _read_bytes(piece, 18)
    return _read_bytes(piece, at)[0] or b""


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size = struct.unpack_from(">i", data, at)[0]
    return (None, at + 4) if size < 0 else (data[at + 4 : at + 4 + size], at + 4 + size)


def _bytes(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _topics(rows: dict[str, list[bytes]]) -> bytes:
    reply = struct.pack(">i", len(rows))
    for topic, partitions in reversed(rows.items()):  # not in the order of the request: a broker re-groups them
        reply += _string(topic) + struct.pack(">i", len(partitions)) + b"".join(reversed(partitions))
    return reply


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def _reset(connection: socket.socket) -> None:
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in recv or accept
    except OSError:
        pass  # not connected any more
    connection.close()
