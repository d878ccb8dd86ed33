"""SimCluster: the brokers of one cluster in virtual time.

    cluster = SimCluster(timeline, rng, "2.8.2", brokers=3, topics={"t": 2}, replication=2, name="target")
    peer = cluster.open(1, wire)         a client has connected to broker 1: peer.received(bytes), peer.closed()
    cluster.kill(1), start(1), freeze(1), thaw(1), isolate(1), heal(1), move_leader(("t", 0), 2)
    cluster.log(("t", 0))                the log of the replica that leads in the controller's eyes
    cluster.handlers[key] = handler      what answers an api: handler(broker, request)

settings: server.properties; `process.roles` makes it a cluster without ZooKeeper.  zookeeper: where the nodes of
brokers and topics are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from kafkawire.protocol.api import Api
from tests.simulation.brokers import fetch, metadata, offsets, produce, topics
from tests.simulation.brokers.broker import SimBroker
from tests.simulation.brokers.controller import Controller
from tests.simulation.brokers.entries import Entry
from tests.simulation.brokers.log import Log
from tests.simulation.brokers.nodes import Nodes
from tests.simulation.brokers.quotas import Quotas
from tests.simulation.brokers.releases import Rules
from tests.simulation.brokers.replica import Replica, Tp
from tests.simulation.brokers.serving import Connection, Request, Wire
from tests.simulation.brokers.settings import Settings, TopicConfig
from tests.simulation.brokers.topics import TABLES
from tests.simulation.process import Timeline

PORT = 9092
HANG_UP_S = 0.001  # until another broker hears that a process is gone
Handler = Callable[[SimBroker, Request], object]


class SimCluster:
    def __init__(
        self,
        timeline: Timeline,
        rng: Random,
        release: str,
        brokers: int,
        *,
        topics: Mapping[str, int] = {},
        replication: int = 1,
        settings: Mapping[str, str] = {},
        zookeeper: Any = None,
        name: str = "kafka",
        first: int = 1,
        began_ms: int = 0,
    ) -> None:
        """first: the lowest broker id.  began_ms: the brokers' time of day when the timeline says 0."""
        self.timeline = timeline
        self.rng = rng
        self.name = name
        self.began_ms = began_ms
        self.zookeeper = zookeeper if zookeeper is not None else Nodes()
        self.apis: dict[int, Api] = dict(TABLES)  # tables of the requests; a coordinator may give others
        self.rules = Rules(release, kraft="process.roles" in settings)
        self.settings = Settings(self.rules, settings)
        self.replication = replication
        self.racks: dict[int, str] = {}
        self.quotas = Quotas(timeline)
        self.unclean_elections = 0
        self.halts: list[str] = []  # brokers that have stopped themselves, and why
        self.on_append: list[Callable[[Replica, list[Entry]], object]] = []  # by a leader
        self.on_visible: list[Callable[[Replica, int, int], object]] = []  # its high watermark: before, now
        self.on_death: list[Callable[[SimBroker], object]] = []
        self.on_answer: list[Callable[[SimBroker, Request, list[produce.Row]], object]] = []  # of Produce
        self.verifies: Any = None  # a coordinator's check of transactional batches (3.6 and later)
        self.handlers: dict[int, Handler] = dict(HANDLERS)
        self._configs: dict[str, TopicConfig] = {}
        self._held: list[tuple[int, int, int, Callable[[SimBroker], object]]] = []  # between brokers that are cut off
        self.brokers: dict[int, SimBroker] = {}
        self.brokers = {id: SimBroker(self, id) for id in range(first, first + brokers)}
        self.controller = Controller(self)
        self.controller.instant = True
        for broker in self.brokers.values():
            broker.start()
            self.controller.started(broker)
        for topic, partitions in topics.items():
            self.create_topic(topic, partitions)
        self.controller.instant = False

    # ---- clients -----------------------------------------------------------------------------------------------------

    def open(self, broker: int, wire: Wire) -> Connection:
        """A client has connected to that broker.  Raises ConnectionRefusedError when it is down."""
        found = self.brokers[broker]
        if not found.up:
            raise ConnectionRefusedError(f"{self.name}-{broker}")
        return found.accept(wire)

    def address(self, broker: int) -> tuple[str, int]:
        return f"{self.name}-{broker}", PORT

    def now_ms(self) -> int:
        """The time of day of all brokers."""
        return self.began_ms + int(self.timeline.now * 1000)

    # ---- the schedule's hand -----------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication: int | None = None,
        configs: Mapping[str, str] = {},
        assignments: Mapping[int, list[int]] = {},
    ) -> int:
        """Make a topic; the code of CreateTopics."""
        number = self.replication if replication is None else replication
        return self.controller.create(name, partitions, number, configs, assignments)

    def delete_topic(self, name: str) -> int:
        return self.controller.delete(name)

    def grow(self, name: str, partitions: int) -> int:
        return self.controller.grow(name, partitions)

    def kill(self, broker: int) -> None:
        """SIGKILL: connections break, its session ends some time later."""
        found = self.brokers[broker]
        if found.up:
            found.stop_at_once()
            self._hang_up(found)
            self.controller.fell_silent(found)

    def crash(self, broker: int, unwritten_s: float) -> None:
        """The machine dies: what was appended in the last seconds is on no disk (2.6, L6)."""
        found, since_ms = self.brokers[broker], self.now_ms() - int(unwritten_s * 1000)
        self.kill(broker)
        for log in found.disk.values():
            log.truncate(min((entry.base for entry in log.entries if entry.stored_ms > since_ms), default=log.end))

    def stop(self, broker: int) -> None:
        """SIGTERM: it gives up what it leads first, if the release does that."""
        found = self.brokers[broker]
        if not found.up or found.frozen:
            return
        wait_s = self.controller.give_up(found) if self.settings.controlled_shutdown else 0.0
        found.after(wait_s, self._stopped, found)

    def _stopped(self, broker: SimBroker) -> None:
        for replica in broker.replicas.values():
            replica.log.hw_on_disk = replica.log.hw
        broker.stop_at_once()
        self._hang_up(broker)
        self.controller.left(broker)

    def _hang_up(self, gone: SimBroker) -> None:
        """The connections of other brokers to one whose process is gone break."""
        for told in self.on_death:
            told(gone)
        for other in self.brokers.values():
            if other.up and not other.isolated and not gone.isolated:
                other.after(HANG_UP_S, other.hung_up, gone.id)

    def halted(self, broker: SimBroker, why: str) -> None:
        """A broker ends itself (Runtime.halt)."""
        self.halts.append(f"broker {broker.id}: {why}")
        self.kill(broker.id)

    def start(self, broker: int) -> None:
        """Start a broker that is down; a session of its former life ends with that."""
        found = self.brokers[broker]
        if not found.up:
            found.start()
            self.controller.started(found)

    def freeze(self, broker: int) -> None:
        found = self.brokers[broker]
        if found.up and not found.frozen:
            found.freeze()
            self.controller.fell_silent(found)

    def thaw(self, broker: int) -> None:
        found = self.brokers[broker]
        if found.frozen:
            found.thaw()
            self.controller.heard_again(found)

    def isolate(self, broker: int) -> None:
        """Cut a broker off from the controller and the other brokers; clients still reach it."""
        found = self.brokers[broker]
        if not found.isolated:
            found.isolated = True
            self.controller.fell_silent(found)

    def heal(self, broker: int) -> None:
        found = self.brokers[broker]
        if found.isolated:
            found.isolated = False
            held, self._held = self._held, []
            for one in held:
                self._arrive(*one)
            self.controller.heard_again(found)

    def hold_fetches(self, broker: int) -> None:
        """A broker's follower fetches wait until release_fetches."""
        self.brokers[broker].fetches_held = True

    def release_fetches(self, broker: int) -> None:
        self.brokers[broker].fetches_held = False

    def move_leader(self, tp: Tp, to: int) -> bool:
        """Make another in-sync replica the leader; False if it is not live and in sync."""
        return self.controller.move(tp, to)

    def prefer(self, tp: Tp, to: int) -> None:
        """Make this replica the first of the assigned order, which elections prefer."""
        self.controller.prefer(tp, to)

    # ---- the promises' eye -------------------------------------------------------------------------------------------

    def leader(self, tp: Tp) -> int:
        """Who leads in the controller's eyes; -1: nobody."""
        topic = self.controller.topics.get(tp[0])
        return -1 if topic is None or tp[1] >= len(topic.partitions) else topic.partitions[tp[1]].leader

    def isr(self, tp: Tp) -> tuple[int, ...]:
        """The in-sync replicas in the controller's eyes."""
        topic = self.controller.topics.get(tp[0])
        return () if topic is None or tp[1] >= len(topic.partitions) else topic.partitions[tp[1]].isr

    def log(self, tp: Tp, broker: int | None = None) -> Log:
        """The log of the leader, or of one broker.  KeyError if it has none."""
        found = self.brokers[self.leader(tp) if broker is None else broker]
        return found.replicas[tp].log if tp in found.replicas else found.disk[tp]

    def visible(self, tp: Tp) -> list[Entry]:
        """The leader's entries below its high watermark."""
        log = self.log(tp)
        return [entry for entry in log.entries if entry.last < log.hw]

    # ---- within the cluster ------------------------------------------------------------------------------------------

    def config(self, topic: str) -> TopicConfig:
        found = self._configs.get(topic)
        if found is None:
            known = self.controller.topics.get(topic)
            found = self._configs[topic] = TopicConfig(self.settings, known.configs if known is not None else {})
        return found

    def forget_config(self, topic: str) -> None:
        self._configs.pop(topic, None)

    def between(
        self,
        sender: SimBroker,
        receiver: int,
        fn: Callable[[SimBroker], object],
        refused: Callable[..., object] | None = None,
        *args: Any,
    ) -> None:
        """Something goes from one broker to another; refused(*args) in the sender if nobody listens there."""
        latency_s = 0.0002 + 0.0008 * self.rng.random()
        if not self.brokers[receiver].up and not sender.isolated and not self.brokers[receiver].isolated:
            if refused is not None:
                sender.after(latency_s, refused, *args)
            return
        self.timeline.after(latency_s, self._arrive, sender.id, receiver, self.brokers[receiver].life, fn)

    def _arrive(self, sender: int, receiver: int, life: int, fn: Callable[[SimBroker], object]) -> None:
        broker = self.brokers[receiver]
        if broker.life != life:  # its connection went with the process
            return
        if broker.isolated or self.brokers[sender].isolated:
            self._held.append((sender, receiver, life, fn))
        else:
            broker.run(fn, broker)

    def preferred(self, replica: Replica, rack: str, offset: int) -> int | None:
        """The replica in the reader's rack that a leader with a replica selector sends it to (3.4)."""
        if not self.settings.follower_reads or self.racks.get(replica.broker.id) == rack:
            return None
        for other, follower in replica.followers.items():
            if self.racks.get(other) == rack and other in replica.isr and follower.end >= offset:
                return other
        return None


HANDLERS: dict[int, Handler] = {
    0: produce.produce,
    1: fetch.fetch,
    2: offsets.list_offsets,
    3: metadata.metadata,
    18: topics.api_versions,
    19: topics.create_topics,
    20: topics.delete_topics,
    21: offsets.delete_records,
    32: topics.describe_configs,
    37: topics.create_partitions,
}
