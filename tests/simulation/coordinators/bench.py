"""A simulated cluster of any release, with a client that speaks to its coordinators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from kafkawire.dialects import dialect, release_number
from kafkawire.errors import LinkLost
from kafkawire.model import Broker
from kafkawire.protocol.request import Request
from tests.simulation.brokers import SimCluster
from tests.simulation.coordinators import Coordination
from tests.simulation.coordinators.coordination import Node
from tests.simulation.process import Timeline
from tests.simulation.sequences.client import Client, Joined, Producer
from tests.simulation.sequences.simulated import SimulatedCluster
from zkconsumer.offsets.coordinator import Coordinator

_INTERNAL = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
_THREE = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class _Cluster(SimulatedCluster):
    """Of any release, also of those that localkafka does not have."""

    def __init__(self, release: str, brokers: int, settings: Mapping[str, str], seed: int) -> None:
        self.release = release
        self.timeline = Timeline()
        kraft = {"process.roles": "broker,controller"} if release_number(release) >= (4,) else {}
        self.inside = SimCluster(self.timeline, Random(seed), release, brokers, settings={**settings, **kraft})
        self.coordination = Coordination(self.inside)
        self.coordination.hand.race_chance = 0.0
        self.brokers = list(self.inside.brokers)
        self._connections = []
        self.run(1, lambda: False)


class Bench:
    """A simulated cluster with a client, and its coordinators.  brokers: 1, or 3 with a replica on each."""

    def __init__(self, release: str, brokers: int = 1, seed: int = 1, settings: Mapping[str, str] = {}) -> None:
        given = {**_INTERNAL, **(_THREE if brokers == 3 else {}), **settings}
        self.cluster = _Cluster(release, brokers, given, seed)
        self.inside = self.cluster.inside
        self.client = Client(self.cluster)
        self.cluster.create_topic("t", [self.cluster.brokers] * 2)

    @property
    def coordination(self) -> Coordination:
        return self.cluster.coordination

    def node(self, broker: int) -> Node:
        return self.coordination.node(self.inside.brokers[broker])

    def at(self, group: str = "g", **which: Any) -> int:
        return self.client.coordinator(group, **which)

    def commit(self, offset: int, group: str = "g", at: int | None = None, partition: int = 0) -> Any:
        asked = self.client.commit(self.at(group) if at is None else at, group, {("t", partition): offset})
        return asked.get()["t", partition]

    def fetch(self, group: str = "g", at: int | None = None, partition: int = 0) -> tuple[int, int]:
        found = self.client.committed(self.at(group) if at is None else at, group, "t", partition).get()
        return found.code, found.offset

    def stable(self, at: int, group: str = "g") -> tuple[int, int]:
        found = self.client.stable(at, group, "t").get()
        return found.code, found.offset

    def product(self) -> Coordinator:
        """What the product asks coordinators with, in the cluster's time."""
        brokers = [Broker(id, *self.inside.address(id)) for id in self.cluster.brokers]
        links: Any = _Links(self)
        dialect_of = dialect(self.cluster.release)
        return Coordinator(lambda: brokers, links, dialect_of, sleep=self.cluster.wait, now=self.cluster.now)

    def member(self, at: int, group: str = "g", session_s: float = 10) -> Joined:
        """The only member of a stable group."""
        joined = self.client.join(at, group, session_s=session_s).get()
        assert joined.code == 0
        assert self.client.sync(at, group, joined, joined.members).get() == 0
        return joined

    def producer(self, name: str = "x", timeout_ms: int = 60_000) -> tuple[int, Producer]:
        """Its coordinator, and a producer id."""
        at = self.at(name, transaction=True)
        return at, self.initialized(at, name, timeout_ms)

    def initialized(self, at: int, name: str = "x", timeout_ms: int = 60_000) -> Producer:
        for _ in range(600):
            found = self.client.init_producer(at, name, timeout_ms).get()
            if found.code not in (14, 15, 16, 51):
                break
            self.cluster.wait(0.1)
        assert found.code == 0
        return found

    def moved(self, topic: str, to: int) -> None:
        self.cluster.move_leader(topic, 0, to)
        self.cluster.wait(1)

    def whole(self, topic: str) -> None:
        while len(self.cluster.isr_of(topic, 0)) < len(self.cluster.brokers):
            self.cluster.wait(0.1)


class _Reply:
    """The bytes of one answer, as they come."""

    def __init__(self) -> None:
        self.data, self.ended = b"", False

    @property
    def whole(self) -> bool:
        return self.ended or (len(self.data) >= 4 and len(self.data) >= 4 + int.from_bytes(self.data[:4], "big"))

    def send(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None:
        self.ended = True


class _Links:
    """kafkawire.net.links to simulated brokers, with a connection for each request."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def answering_first(self, brokers: Sequence[Broker]) -> list[Broker]:
        return list(brokers)

    @contextmanager
    def lent(self, broker: Broker, purpose: str) -> Iterator[_Lent]:
        yield _Lent(self, broker)

    def call(
        self, broker: Broker, purpose: str, request: Request[Any], before: Callable[[], object] = lambda: None
    ) -> Any:
        before()
        reply = _Reply()
        try:
            peer = self._bench.inside.open(broker.id, reply)
        except ConnectionRefusedError as refused:
            raise LinkLost(str(refused)) from refused
        peer.received(b"".join(request.frame(1, "test")))
        if not self._bench.cluster.run(30, lambda: reply.whole) or not reply.data:
            raise LinkLost(f"{broker} does not answer")
        body = request.reply(reply.data[: request.head_bytes], 1, None)
        body.feed(memoryview(reply.data[request.head_bytes :]))
        return body.result()


class _Lent:
    connected = False

    def __init__(self, links: _Links, broker: Broker) -> None:
        self._links, self._broker = links, broker

    def call(self, request: Request[Any], before: Callable[[], object] = lambda: None) -> Any:
        return self._links.call(self._broker, "", request, before)
