"""What passed the proxies, with times: produce requests at the target, claims and commits at the source's ZooKeeper.

Requests are noted when their last byte has passed the proxy.  Times are time.monotonic() of the test.
"""

from __future__ import annotations

import itertools
import json
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from kafkawire.model import TopicPartition
from localkafka.proxy import Tap

PRODUCE = 0
CREATE, SET_DATA = 1, 5  # requests of ZooKeeper
_HEAD = struct.Struct(">hhih")  # api, version, correlation, length of the client id
_CONNECT = struct.Struct(">iqiq")  # protocol, last zxid, timeout, session (0: a new one); its password follows
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection through a proxy.  name: the client id (brokers) or the member (ZooKeeper) that opened it."""

    number: int
    opened: float
    server: str
    name: str


@dataclass(frozen=True, slots=True)
class Produced:
    """A produce request."""

    at: float
    by: Connection
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Claimed:
    """An owner node was asked for."""

    at: float
    by: Connection
    group: str
    tp: TopicPartition


@dataclass(frozen=True, slots=True)
class Committed:
    """An offset was written to ZooKeeper, which may have refused it."""

    at: float
    by: Connection
    group: str
    tp: TopicPartition
    offset: int


class WireLog:
    """Requests in the order in which they passed.  Proxies' threads write, everybody may read: the lists only grow."""

    def __init__(self) -> None:
        self.produced: list[Produced] = []
        self.claimed: list[Claimed] = []
        self.committed: list[Committed] = []
        self.unread: list[str] = []  # frames that could not be read
        self.sessions: dict[str, tuple[int, bytes]] = {}  # member -> id and password, once it connected again
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def broker(self, name: str) -> Callable[[], Tap]:
        """For Proxy.tap before a broker of the target."""
        return lambda: _Frames(lambda frame, seen: self._broker_frame(name, frame, seen))

    def zookeeper(self, server: str, member: str) -> Callable[[], Tap]:
        """For Proxy.tap before a server of ZooKeeper that only this member connects to."""
        return lambda: _Frames(lambda frame, seen: self._zookeeper_frame(server, member, frame, seen))

    def forget(self) -> None:
        """Begin a new log, for the next run."""
        with self._lock:
            self.produced, self.claimed, self.committed, self.unread = [], [], [], []

    def write(self, file: Path) -> None:
        """A line of JSON for each request."""
        rows = sorted([*self.produced, *self.claimed, *self.committed], key=lambda row: row.at)
        with file.open("w", encoding="utf-8") as lines:
            for row in rows:
                lines.write(json.dumps({"request": type(row).__name__, **asdict(row)}, default=str) + "\n")
            for each in self.unread:
                lines.write(json.dumps({"unread": each}) + "\n")

    def _broker_frame(self, server: str, frame: bytes, seen: _Seen) -> None:
        api, version, _correlation, length = _HEAD.unpack_from(frame)
        if api != PRODUCE:
            return
        client = frame[_HEAD.size : _HEAD.size + max(length, 0)].decode("utf-8", "replace")
        try:
            partitions = tuple(_produced(frame, _HEAD.size + max(length, 0) + 6))
        except (struct.error, UnicodeDecodeError) as error:
            self.unread.append(f"produce request v{version} of {client}: {error}")
            return
        with self._lock:
            self.produced.append(Produced(time.monotonic(), self._connection(server, client, seen), partitions))

    def _zookeeper_frame(self, server: str, member: str, frame: bytes, seen: _Seen) -> None:
        if seen.frames == 1:  # it opens the session, or goes on with one
            _protocol, _zxid, _timeout, session = _CONNECT.unpack_from(frame)
            if session:
                (length,) = _INT32.unpack_from(frame, _CONNECT.size)
                at = _CONNECT.size + 4
                self.sessions[member] = (session, frame[at : at + length])
            return
        if len(frame) < 12:
            return
        (kind,) = _INT32.unpack_from(frame, 4)
        if kind not in (CREATE, SET_DATA):
            return
        try:
            path, at = _text(frame, 8)
            data, _ = _text(frame, at)
        except (struct.error, UnicodeDecodeError) as error:
            self.unread.append(f"request {kind} of {member}: {error}")
            return
        parts = path.split("/")
        if len(parts) < 6 or parts[-5] != "consumers" or not parts[-1].isdigit():
            return
        group, what, tp = parts[-4], parts[-3], TopicPartition(parts[-2], int(parts[-1]))
        with self._lock:
            by = self._connection(server, member, seen)
            if what == "owners" and kind == CREATE:
                self.claimed.append(Claimed(time.monotonic(), by, group, tp))
            elif what == "offsets" and data.isdigit():
                self.committed.append(Committed(time.monotonic(), by, group, tp, int(data)))

    def _connection(self, server: str, name: str, seen: _Seen) -> Connection:
        if seen.connection is None:
            seen.connection = Connection(next(self._numbers), seen.opened, server, name)
        return seen.connection


class _Seen:
    """What is known of one connection."""

    def __init__(self) -> None:
        self.opened = time.monotonic()
        self.frames = 0
        self.connection: Connection | None = None


class _Frames:
    """Cuts the bytes of one connection into frames (a length of 4 bytes, then so many)."""

    def __init__(self, on_frame: Callable[[bytes, _Seen], None]) -> None:
        self._on_frame = on_frame
        self._seen = _Seen()
        self._held = bytearray()

    def __call__(self, data: memoryview) -> None:
        self._held += data
        at = 0
        while len(self._held) - at >= 4:
            (size,) = _INT32.unpack_from(self._held, at)
            if len(self._held) - at - 4 < size:
                break
            self._seen.frames += 1
            self._on_frame(bytes(self._held[at + 4 : at + 4 + size]), self._seen)
            at += 4 + size
        del self._held[:at]


def _produced(frame: bytes, at: int) -> list[TopicPartition]:
    """The partitions of a produce request (v0 to v2) from its array of topics on."""
    found = []
    (topics,) = _INT32.unpack_from(frame, at)
    at += 4
    for _ in range(topics):
        (length,) = _INT16.unpack_from(frame, at)
        topic = frame[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (count,) = _INT32.unpack_from(frame, at)
        at += 4
        for _ in range(count):
            partition, size = struct.unpack_from(">ii", frame, at)
            found.append(TopicPartition(topic, partition))
            at += 8 + max(size, 0)
    return found


def _text(frame: bytes, at: int) -> tuple[str, int]:
    (length,) = _INT32.unpack_from(frame, at)
    end = at + 4 + max(length, 0)
    return frame[at + 4 : end].decode(), end
