"""Real brokers as a sequence sees them: child processes of localkafka, and plain sockets."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kazoo.exceptions import NodeExistsError

from kafkawire.cluster import topics
from kafkawire.protocol.adminapis import CREATE_PARTITIONS, CREATE_TOPICS
from kafkawire.protocol.apis import LIST_OFFSETS, METADATA
from localkafka import releases
from localkafka.cluster import Cluster
from localkafka.kraft import KraftBroker
from localkafka.serverprocess import ServerProcess
from localkafka.waiting import wait_until
from tests.simulation.sequences import kraft
from tests.simulation.sequences.cluster import Fields, Gone, Speech
from tests.simulation.sequences.sequence import Profile
from tests.simulation.sequences.tables import DELETE_TOPICS, ELECT_LEADERS, Reassignment

_SIZE, _HEAD, _CORRELATION = struct.Struct(">i"), struct.Struct(">hhih"), struct.Struct(">i")
_CLIENT = b"sequence"
_CONNECT_S = 10
_QUIET_TICKS = 20  # a session may last so many ticks of ZooKeeper


class RealWaiting:
    def __init__(self, api: Speech, version: int) -> None:
        self._api, self._version = api, version
        self._began = time.monotonic()
        self._ended = 0.0
        self._body: bytes | None = None
        self._done = threading.Event()

    def arrived(self, body: bytes | None) -> None:
        """None: the connection ended."""
        self._ended, self._body = time.monotonic(), body
        self._done.set()

    @property
    def took_s(self) -> float:
        return (self._ended or time.monotonic()) - self._began

    def answer(self, within_s: float) -> Any:
        if not self._done.wait(within_s):
            return Gone.NOTHING
        return Gone.CLOSED if self._body is None else self._api.decode_reply(self._version, self._body)


class RealConnection:
    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, _CONNECT_S)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._waiting: dict[int, RealWaiting] = {}
        self._number = 0
        self._lock = threading.Lock()
        self.closed = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def begin(self, api: Speech, version: int, fields: Fields) -> RealWaiting:
        body = api.encode_request(version, fields)
        waiting = RealWaiting(api, version)
        with self._lock:
            if self.closed:
                waiting.arrived(None)
                return waiting
            self._number += 1
            self._waiting[self._number] = waiting
        head = _HEAD.pack(api.key, version, self._number, len(_CLIENT)) + _CLIENT
        with contextlib.suppress(OSError):  # the reader finds out, too
            self._socket.sendall(_SIZE.pack(len(head) + len(body)) + head + body)
        return waiting

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join(_CONNECT_S)
        self._socket.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while size := self._bytes(_SIZE.size):
                frame = self._bytes(*_SIZE.unpack(size))
                if not frame:
                    break
                with self._lock:
                    waiting = self._waiting.pop(_CORRELATION.unpack_from(frame)[0])
                waiting.arrived(frame[_CORRELATION.size :])
        with self._lock:
            self.closed = True
            left = list(self._waiting.values())
        for waiting in left:
            waiting.arrived(None)

    def _bytes(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                return b""
            data += more
        return data


class RealCluster:
    """The brokers of a profile, started by `with`: on ZooKeeper, from 4.0 on without."""

    def __init__(self, release: str, profile: Profile) -> None:
        self.release = release
        self.brokers: Sequence[int] = list(range(profile.brokers))
        self._profile = profile
        self._connections: list[RealConnection] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._kraft: list[KraftBroker] = []
        self._controller: list[kraft.Controller] = []
        self._cluster: Cluster | None = None
        if releases.release(release).kraft:
            self._folder = tempfile.TemporaryDirectory(prefix="sequences-")
            self._without_zookeeper(Path(self._folder.name))
        else:
            session_ms = int(profile.session_s * 1000)
            self._cluster = Cluster(
                release,
                profile.brokers,
                settings={**profile.settings, "zookeeper.session.timeout.ms": session_ms},
                tick_ms=max(500, session_ms // _QUIET_TICKS),
            )

    def _without_zookeeper(self, folder: Path) -> None:
        """One broker is its own controller."""
        settings = {**self._profile.settings, "broker.session.timeout.ms": str(int(self._profile.session_s * 1000))}
        if len(self.brokers) == 1:
            self._kraft = [KraftBroker(folder, self.release, settings=settings)]
            return
        controller = kraft.Controller(folder / "controller", self.release, settings=settings)
        self._controller = [controller]
        self._kraft = [
            kraft.Broker(folder / f"broker-{n}", self.release, n, controller, settings) for n in self.brokers
        ]

    def __enter__(self) -> Self:
        for process in [*self._controller, *self._kraft]:
            process.start()
        if self._kraft:
            wait_until(lambda: self._registered() == set(self.brokers), 30, "all brokers to register")
        else:
            self._zk().start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.disconnect()
        for process in [*self._kraft, *self._controller]:
            process.close()
        if self._cluster is not None:
            self._cluster.close()
        if self._folder is not None:
            self._folder.cleanup()

    # ---- connections and time

    def connect(self, broker: int) -> RealConnection:
        at = self._kraft[broker].brokers if self._kraft else self._zk().node(broker).address
        host, _, port = at.partition(":")
        made = RealConnection((host, int(port)))
        self._connections.append(made)
        return made

    def disconnect(self) -> None:
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def now(self) -> float:
        return time.monotonic()

    def time_of_day_ms(self) -> int:
        return int(time.time() * 1000)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    # ---- topics

    def create_topic(
        self, topic: str, replicas: Sequence[Sequence[int]] = (), config: Mapping[str, str] | None = None
    ) -> None:
        replicas = replicas or [self.brokers[:1]]
        if self._kraft:
            assignments = [{"partition": n, "brokers": list(each)} for n, each in enumerate(replicas)]
            configs = [{"name": name, "value": value} for name, value in (config or {}).items()]
            row = {"topic": topic, "partitions": -1, "replication": -1, "assignments": assignments, "configs": configs}
            told = self._admin(CREATE_TOPICS, 4, {"topics": [row], "timeout_ms": 10_000, "validate_only": False})
            assert told["topics"][0]["error"] == 0, told
            for broker in self._up():
                knows = partial(self._knows, broker, topic, len(replicas))
                wait_until(knows, 30, f"broker {broker} to know {topic}")
            for partition, (leader, *_) in enumerate(replicas):
                leads = partial(self._leads, leader, topic, partition)
                wait_until(leads, 30, f"broker {leader} to lead {topic}/{partition}")
            return
        cluster = self._zk()
        assignment = {n: list(each) for n, each in enumerate(replicas)}
        assert topics.create(cluster.registry().zk, topic, assignment, dict(config or {}))
        cluster.wait_in_sync(topic)
        for node in cluster.nodes:
            if node.active:
                knows = partial(self._knows, node.id, topic, len(replicas))
                wait_until(knows, 30, f"broker {node.id} to know {topic}")

    def delete_topic(self, topic: str) -> None:
        if self._kraft:
            told = self._admin(DELETE_TOPICS, 1, {"topics": [topic], "timeout_ms": 10_000})
            assert told["topics"][0]["error"] == 0, told
        else:
            self._zk().registry().zk.create(f"/admin/delete_topics/{topic}", makepath=True)

    def grow(self, topic: str, partitions: int) -> None:
        if self._kraft:
            rows = [{"topic": topic, "count": partitions, "assignments": None}]
            told = self._admin(CREATE_PARTITIONS, 1, {"topics": rows, "timeout_ms": 10_000, "validate_only": False})
            assert told["topics"][0]["error"] == 0, told
        else:
            topics.grow(self._zk().registry().zk, topic, partitions, self.brokers)

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        if self._kraft:
            self._move_without_zookeeper(topic, partition, to)
            return
        zk = self._zk().registry().zk
        path = f"/brokers/topics/{topic}"
        assigned = json.loads(zk.get(path)[0])["partitions"][str(partition)]
        if assigned[0] != to:
            wanted = [to, *(each for each in assigned if each != to)]
            row = {"topic": topic, "partition": partition, "replicas": wanted}
            self._write(zk, "/admin/reassign_partitions", {"version": 1, "partitions": [row]})
            wait_until(
                lambda: json.loads(zk.get(path)[0])["partitions"][str(partition)] == wanted,
                30,
                f"{topic}/{partition} to prefer {to}",
                0.01,
            )
        row = {"topic": topic, "partition": partition}
        self._write(zk, "/admin/preferred_replica_election", {"version": 1, "partitions": [row]})

    def _move_without_zookeeper(self, topic: str, partition: int, to: int) -> None:
        assigned = self._partition(topic, partition)["replicas"]
        wanted = [to, *(each for each in assigned if each != to)]
        self._admin(Reassignment(), 0, {"topic": topic, "partition": partition, "replicas": wanted})
        wait_until(lambda: self._partition(topic, partition)["replicas"] == wanted, 30, f"{topic} to prefer {to}", 0.01)
        rows = [{"topic": topic, "partitions": [partition]}]
        self._admin(ELECT_LEADERS, 1, {"election_type": 0, "topics": rows, "timeout_ms": 10_000})

    def leader_of(self, topic: str, partition: int) -> int | None:
        if self._kraft:
            leader = next((p["leader"] for p in self._described(topic) if p["partition"] == partition), -1)
            return None if leader < 0 else int(leader)
        seen = self._zk().registry().partitions(topic).get(partition)
        return None if seen is None else seen.leader

    def isr_of(self, topic: str, partition: int) -> list[int]:
        if self._kraft:
            return sorted(self._partition(topic, partition)["isr"])
        return sorted(self._zk().registry().partitions(topic)[partition].isr)

    def controller(self) -> int:
        return (
            0 if self._kraft else wait_until(lambda: [self._zk().registry().controller()], 30, "a controller")[0] or 0
        )

    # ---- brokers

    def stop(self, broker: int) -> None:
        self._process(broker).pause()

    def go_on(self, broker: int) -> None:
        self._process(broker).resume()

    def kill(self, broker: int) -> None:
        self._process(broker).kill()

    def start(self, broker: int) -> None:
        if self._kraft:
            self._kraft[broker].start()
            wait_until(lambda: broker in self._registered(), 60, f"broker {broker} to register")
        else:
            node = self._zk().node(broker)
            node.start()
            node.wait_registered()

    # ---- inside

    def _zk(self) -> Cluster:
        assert self._cluster is not None, "a cluster without ZooKeeper"
        return self._cluster

    def _process(self, broker: int) -> ServerProcess:
        return self._kraft[broker] if self._kraft else self._zk().node(broker)

    def _up(self) -> list[int]:
        return [broker for broker in self.brokers if self._process(broker).active]

    def _registered(self) -> set[int]:
        """As the first broker that runs has heard."""
        told = self._admin(METADATA, 4, {"topics": [], "allow_auto_topic_creation": False})
        return {row["node_id"] for row in told["brokers"]}

    def _admin(self, api: Speech, version: int, fields: Fields, broker: int | None = None) -> Any:
        """Ask a broker, the first that runs unless it is given."""
        connection = self.connect(self._up()[0] if broker is None else broker)
        try:
            return connection.begin(api, version, fields).answer(30)
        finally:
            self._connections.remove(connection)
            connection.close()

    def _partition(self, topic: str, partition: int) -> Any:
        return next(row for row in self._described(topic) if row["partition"] == partition)

    def _described(self, topic: str, broker: int | None = None) -> list[Any]:
        """The partitions of a topic as a broker describes them."""
        version = 4 if self._kraft else 0
        more = {"allow_auto_topic_creation": False} if self._kraft else {}
        try:
            told = self._admin(METADATA, version, {"topics": [topic], **more}, broker)
        except OSError:
            return []
        return [] if isinstance(told, Gone) else list(told["topics"][0]["partitions"])

    def _knows(self, broker: int, topic: str, partitions: int) -> bool:
        found = self._described(topic, broker)
        return len(found) == partitions and all(p["leader"] >= 0 for p in found)

    def _leads(self, broker: int, topic: str, partition: int) -> bool:
        """In KRaft Metadata names a leader a moment before it leads."""
        rows = [{"topic": topic, "partitions": [{"partition": partition, "timestamp": -1}]}]
        told = self._admin(LIST_OFFSETS, 1, {"replica_id": -1, "topics": rows}, broker)
        return bool(told["topics"][0]["partitions"][0]["error"] == 0)

    @staticmethod
    def _write(zk: Any, path: str, document: object) -> None:
        """Write an order for the controller, once it has taken the one before."""
        data = json.dumps(document).encode()

        def written() -> bool:
            try:
                zk.create(path, data, makepath=True)
            except NodeExistsError:
                return False
            return True

        wait_until(written, 30, f"the controller to take {path}", 0.01)
