"""Simulated brokers as a sequence sees them: its time passes only while the sequence waits."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import Any, Self

from localkafka import releases
from tests.simulation.brokers import SimCluster
from tests.simulation.coordinators import Coordination
from tests.simulation.process import Timeline
from tests.simulation.sequences.cluster import Fields, Gone, Speech
from tests.simulation.sequences.sequence import Profile

_SIZE, _HEAD, _CORRELATION = struct.Struct(">i"), struct.Struct(">hhih"), struct.Struct(">i")
_CLIENT = b"sequence"
_LATENCY_S = 0.0002  # each way
_SETTLES_S = 60.0
_STEP_S = 0.01


class SimulatedWaiting:
    def __init__(self, cluster: SimulatedCluster, api: Speech, version: int) -> None:
        self._cluster, self._api, self._version = cluster, api, version
        self._began = cluster.now()
        self._ended: float | None = None
        self._body: bytes | None = None

    def arrived(self, body: bytes | None) -> None:
        """None: the connection ended."""
        self._ended, self._body = self._cluster.now(), body

    @property
    def took_s(self) -> float:
        return (self._cluster.now() if self._ended is None else self._ended) - self._began

    def answer(self, within_s: float) -> Any:
        if not self._cluster.run(within_s, lambda: self._ended is not None):
            return Gone.NOTHING
        return Gone.CLOSED if self._body is None else self._api.decode_reply(self._version, self._body)


class _Wire:
    """What the broker sees of the client."""

    def __init__(self, timeline: Timeline, received: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self._timeline, self._received, self._ended = timeline, received, ended

    def send(self, data: bytes) -> None:
        self._timeline.after(_LATENCY_S, self._received, data)

    def close(self) -> None:
        self._timeline.after(_LATENCY_S, self._ended)


class SimulatedConnection:
    def __init__(self, cluster: SimulatedCluster, broker: int) -> None:
        self._cluster = cluster
        self._peer = cluster.inside.open(broker, _Wire(cluster.timeline, self._received, self._ended))
        self._waiting: dict[int, SimulatedWaiting] = {}
        self._number = 0
        self._buffer = b""
        self.closed = False

    def begin(self, api: Speech, version: int, fields: Fields) -> SimulatedWaiting:
        body = api.encode_request(version, fields)
        waiting = SimulatedWaiting(self._cluster, api, version)
        if self.closed:
            waiting.arrived(None)
            return waiting
        self._number += 1
        self._waiting[self._number] = waiting
        head = _HEAD.pack(api.key, version, self._number, len(_CLIENT)) + _CLIENT
        frame = _SIZE.pack(len(head) + len(body)) + head + body
        self._cluster.timeline.after(_LATENCY_S, self._peer.received, frame)
        return waiting

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._cluster.timeline.after(_LATENCY_S, self._peer.closed)

    def _received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _SIZE.size:
            end = _SIZE.size + _SIZE.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                return
            frame, self._buffer = self._buffer[_SIZE.size : end], self._buffer[end:]
            self._waiting.pop(_CORRELATION.unpack_from(frame)[0]).arrived(frame[_CORRELATION.size :])

    def _ended(self) -> None:
        self.closed = True
        for waiting in self._waiting.values():
            waiting.arrived(None)
        self._waiting.clear()


class SimulatedCluster:
    """The brokers of a profile, with the settings that localkafka gives real ones."""

    def __init__(self, release: str, profile: Profile, seed: int = 1) -> None:
        self.release = release
        self.timeline = Timeline()
        session_ms = str(int(profile.session_s * 1000))
        settings = {
            **releases.applying(releases.SETTINGS, releases.release(release)),
            "controlled.shutdown.enable": "false",
            "zookeeper.session.timeout.ms": session_ms,
            **profile.settings,
        }
        self.inside = SimCluster(self.timeline, Random(seed), release, profile.brokers, settings=settings)
        Coordination(self.inside)
        self.brokers: Sequence[int] = list(self.inside.brokers)
        self._connections: list[SimulatedConnection] = []
        self.run(1, lambda: False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.disconnect()

    # ---- connections and time

    def connect(self, broker: int) -> SimulatedConnection:
        made = SimulatedConnection(self, broker)
        self._connections.append(made)
        return made

    def disconnect(self) -> None:
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def now(self) -> float:
        return self.timeline.now

    def time_of_day_ms(self) -> int:
        return self.inside.now_ms()

    def wait(self, seconds: float) -> None:
        self.timeline.run_until(self.timeline.now + seconds)

    def run(self, within_s: float, done: Callable[[], bool]) -> bool:
        """Let time pass until done(), or for so long; whether it is done."""
        timeline, until = self.timeline, self.timeline.now + within_s
        while not done():
            following = timeline.due
            if following is None or following > until:
                timeline.run_until(until)
                return done()
            timeline.run_until(following)
        return True

    # ---- topics

    def create_topic(
        self, topic: str, replicas: Sequence[Sequence[int]] = (), config: Mapping[str, str] | None = None
    ) -> None:
        replicas = replicas or [self.brokers[:1]]
        assignments = {n: list(each) for n, each in enumerate(replicas)}
        code = self.inside.create_topic(topic, len(replicas), configs=config or {}, assignments=assignments)
        assert code == 0, f"{topic} is not created: {code}"
        self._settle(lambda: all(self._in_sync(topic, n, each) for n, each in assignments.items()), topic)

    def delete_topic(self, topic: str) -> None:
        assert self.inside.delete_topic(topic) == 0, topic

    def grow(self, topic: str, partitions: int) -> None:
        assert self.inside.grow(topic, partitions) == 0, topic

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        self.inside.move_leader((topic, partition), to)

    def leader_of(self, topic: str, partition: int) -> int | None:
        leader = self.inside.leader((topic, partition))
        return None if leader < 0 else leader

    def isr_of(self, topic: str, partition: int) -> list[int]:
        return sorted(self.inside.controller.topics[topic].partitions[partition].isr)

    def controller(self) -> int:
        if self.inside.rules.kraft:
            return self.brokers[0]
        self._settle(lambda: self.inside.controller.broker in self.inside.brokers, "a controller")
        return self.inside.controller.broker

    # ---- brokers

    def stop(self, broker: int) -> None:
        self.inside.freeze(broker)

    def go_on(self, broker: int) -> None:
        self.inside.thaw(broker)

    def kill(self, broker: int) -> None:
        self.inside.kill(broker)

    def start(self, broker: int) -> None:
        # localkafka ends the sessions of all dead brokers first; here they end by themselves.
        dead = [each.id for each in self.inside.brokers.values() if not each.up]
        self._settle(lambda: not any(each in self.inside.controller.live for each in dead), "the end of sessions")
        self.inside.start(broker)
        self._settle(lambda: broker in self.inside.controller.live, f"broker {broker}")

    # ---- inside

    def _settle(self, done: Callable[[], bool], what: str) -> None:
        deadline = self.now() + _SETTLES_S
        while not done():
            assert self.now() < deadline, f"{what}: not there after {_SETTLES_S:g} s"
            self.wait(_STEP_S)

    def _in_sync(self, topic: str, partition: int, replicas: Sequence[int]) -> bool:
        """Whether its leader leads, all replicas are in sync, and each broker that runs has heard of it."""
        tp = (topic, partition)
        leader = self.leader_of(topic, partition)
        if leader is None or self.isr_of(topic, partition) != sorted(replicas):
            return False
        if self.inside.brokers[leader].leads(tp) is None:
            return False
        return all(broker.cache.has(tp) for broker in self.inside.brokers.values() if broker.up and not broker.frozen)
