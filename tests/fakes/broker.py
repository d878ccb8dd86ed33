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

Beside this file: actions.py what a scripted request meets, entries.py the message format, frames.py requests decoded,
handlers.py a function an API, server.py the sockets.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.actions import WAIT_S, Close, Fail, LeaveOut, Nothing, Raw, Throttle, Wait
from tests.fakes.entries import entry, gzipped, opened, renumbered, walk
from tests.fakes.server import Server

__all__ = [
    "Close",
    "Fail",
    "FakeCluster",
    "LeaveOut",
    "Nothing",
    "Raw",
    "Seen",
    "Throttle",
    "Wait",
    "entry",
    "gzipped",
    "opened",
]


@dataclass(frozen=True)
class Seen:
    broker: int
    api: str
    body: dict[str, Any]


@dataclass
class Log:
    leader: int
    entries: list[tuple[int, bytes]] = field(default_factory=list)  # first offset, entry
    end: int = 0
    empty_at: int = 0  # where the log begins once it has no entries
    # As far as a leader shows its log that was just elected, until its followers have fetched; None: all of it.
    high_watermark: int | None = None

    @property
    def shown(self) -> int:
        return self.end if self.high_watermark is None else min(self.end, self.high_watermark)

    @property
    def start(self) -> int:
        return self.entries[0][0] if self.entries else self.empty_at


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
        self.uninformed: set[int] = set()  # brokers that have just started: their Metadata has no brokers and no topics
        self.uncreatable: set[str] = set()  # topics that fail the whole request that names them, as 0.8.2 does: -1
        self.compacted: set[str] = set()  # topics that take no message without a key: 2, as 0.9 to 2.3
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.logs: dict[tuple[str, int], Log] = {}
        self.requests: list[Seen] = []
        self.scripts: dict[str, deque[Any]] = {}
        self.errors: list[BaseException] = []
        self.servers: dict[int, Server | None] = {}
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
                self.logs.setdefault((topic, partition), Log(ids[partition % len(ids)]))

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
        server = Server(self, broker, port)
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
            for _, count, piece in walk(data):
                base = log.end if base < 0 else base
                last = log.end + count - 1
                log.entries.append((log.end, struct.pack(">q", last) + renumbered(piece, log.end)[8:]))
                log.end += count
            self.changed.notify_all()
            return base

    def messages(self, topic: str, partition: int) -> list[tuple[int, bytes | None, bytes | None]]:
        with self.lock:
            return opened(b"".join(data for _, data in self.logs[topic, partition].entries))

    def values(self, topic: str, partition: int) -> list[bytes | None]:
        return [value for _, _, value in self.messages(topic, partition)]

    def slice(self, broker: int, tp: tuple[str, int], offset: int, max_bytes: int) -> tuple[int, int, bytes]:
        """(error code, log end, entries) of a fetch from `broker`; under the lock.  Tests override it."""
        log = self.logs.get(tp)
        if log is None:
            return 3, -1, b""
        if log.leader != broker:
            return 6, -1, b""
        if not log.start <= offset <= log.end:
            return 1, -1, b""
        if log.shown < offset < log.end:
            return -1, -1, b""  # up to 0.9 (LogSegment.read)
        entries = [(first, data) for first, data in log.entries if first < log.shown]
        data = b"".join(data for _, data in entries if struct.unpack_from(">q", data)[0] >= offset)
        return 0, log.shown, data[:max_bytes]

    def offsets_of(self, log: Log, when: int) -> list[int]:
        """What ListOffsets finds for a time (-2: the start; -1, and any other: the end first).  Tests override it."""
        first = log.start
        return [first] if when == -2 else [log.end, first] if log.end > first else [first]

    def note(self, broker: int, api: str, body: dict[str, Any]) -> None:
        """A request came; from a server, under the lock."""
        self.requests.append(Seen(broker, api, body))
        self.changed.notify_all()

    def seen(self, api: str) -> list[Seen]:
        with self.lock:
            return [request for request in self.requests if request.api == api]

    def wait(self, condition: Any, seconds: float = WAIT_S) -> None:
        """Until condition() holds, looked at after every request and append."""
        with self.changed:
            assert self.changed.wait_for(condition, seconds), f"not within {seconds} s; seen: {self.requests[-5:]}"
