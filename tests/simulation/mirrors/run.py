"""One schedule of whole mirrors, from its begin to its verdict.

run(schedule(7))       None, or the Broken promise
told(schedule(7))      the same with everything that was said
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.fakes.entries import entry, gzipped
from tests.simulation.brokers.replica import Tp
from tests.simulation.daemon import Mirror
from tests.simulation.mirrors.promises import MirrorPromises
from tests.simulation.mirrors.schedule import CHAOS_S, TARGET_END, MirrorEvent, MirrorSchedule
from tests.simulation.mirrorworld import MirrorWorld
from tests.simulation.schedule import shrink

QUIET_S = 120.0  # sessions, waits between tries, and what a broker's start takes
STOP_S = 15.0
CHECK_S = 0.5
LARGE = 3000  # bytes


@dataclass(frozen=True)
class Broken:
    """A promise that was broken.  told: what everybody said until then."""

    why: str
    schedule: MirrorSchedule
    told: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.why, "", str(self.schedule), "", *self.told])


class MirrorRun:
    """A schedule in its world.  told: gets each line that is said; None: nothing is said, which is faster."""

    def __init__(self, given: MirrorSchedule, told: Callable[[str], object] | None = None) -> None:
        self.promises = MirrorPromises(given)
        self.world = world = MirrorWorld(given.seed, self.promises, told=told)
        self.kinds: Counter[str] = Counter()
        self._ending = False
        self._given = given
        self._rng = Random(f"messages {given.seed}")
        self._numbers: Counter[Tp] = Counter()
        setup = given.setup
        zookeeper = world.zookeeper("source-zk", setup.servers)
        self.source = world.cluster(
            "source",
            setup.source,
            setup.source_brokers,
            topics=setup.topics,
            zookeeper=zookeeper,
            settings={"auto.create.topics.enable": "false"},
        )
        settings = {
            "auto.create.topics.enable": "false",
            "unclean.leader.election.enable": "false",
            "offsets.topic.replication.factor": str(setup.replication),
            "transaction.state.log.replication.factor": str(setup.replication),
            "transaction.state.log.min.isr": "1",
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.num.partitions": "5",
            "replica.lag.time.max.ms": "4000",
            "zookeeper.session.timeout.ms": "4000",
        }
        self.target = world.cluster(
            "target",
            setup.target,
            setup.target_brokers,
            zookeeper=world.zookeeper("target-zk") if setup.through_zookeeper else None,
            settings=settings,
        )
        if setup.mode == TARGET_END:
            self.target.create_topic("map", 1, configs={"cleanup.policy": "compact"})
        self.promises.watch(self.source, self.target)
        for name in setup.daemons:
            world.mirror(name, setup.yaml())

    def verdict(self) -> str | None:
        """Run it; the broken promise, if one is."""
        world, promises = self.world, self.promises
        for event in self._given.events:
            world.at(event.at, self._happen, event, what=str(event))
        world.run(CHAOS_S)
        self._mend()
        until, missing = world.timeline.now + QUIET_S, promises.missing()
        while promises.broken is None and missing is not None and world.timeline.now < until:
            world.run(CHECK_S)
            missing = promises.missing()
        if promises.broken is None and missing is not None:
            promises.violated(f"{QUIET_S:g} s after everything was mended {missing}")
        if promises.broken is None:
            self._stop()
        if promises.broken is None:
            promises.judge()
        self.kinds["messages"] += sum(self._numbers.values())
        self.kinds["copied twice"] += promises.twice
        return promises.broken

    def end(self) -> None:
        self.world.end()

    # what happens -------------------------------------------------------------------------------------------------

    def _happen(self, event: MirrorEvent) -> None:
        self.kinds[event.what] += 1
        if event.who in self.world.mirrors:
            self._happen_to_daemon(event, self.world.mirrors[event.who])
        elif ">" in event.who:
            self._happen_to_way(event)
        elif "-" in event.who:
            self._happen_to_broker(event)
        else:
            self._happen_to_topic(event)

    def _happen_to_daemon(self, event: MirrorEvent, mirror: Mirror) -> None:
        world = self.world
        link = world.machine.link(mirror.name, "source-zk")
        match event.what:
            case "start":
                self._start(mirror)
            case "stop" if mirror.alive and mirror.name not in self.promises.stopping:
                self.promises.stopping.add(mirror.name)
                mirror.signal(signal.SIGTERM)
            case "kill":
                self.promises.stopping.discard(mirror.name)
                mirror.kill()
                world.timeline.after(event.a, self._start, mirror)
            case "freeze":
                mirror.freeze(event.a)
            case "freeze, sockets first":
                mirror.freeze(event.a, sockets_first=True)
            case "suspend":
                mirror.suspend(event.a)
            case "disk" if mirror.process is not None:
                disk = mirror.process.disk
                disk.delay_s = event.b
                world.timeline.after(event.a, setattr, disk, "delay_s", 0.0)
            case "expire" if mirror.process is not None:
                for client in mirror.process.clients:
                    found = client.client_id
                    zookeeper = world.zookeepers["source-zk"]
                    session = zookeeper.sessions.get(found[0]) if found is not None else None
                    if session is not None:
                        zookeeper.expire(session)
            case "zk cut":
                link.cut = True
                world.timeline.after(event.a, link.heal)
            case "zk reset" if mirror.process is not None:
                for client in mirror.process.clients:
                    mirror.process.after(0.0, client.reset)
            case "zk late":
                link.slow_down_s = event.b
                world.timeline.after(event.a, setattr, link, "slow_down_s", 0.0)
            case "pause":
                mirror.do("pause")
                world.timeline.after(event.a, mirror.do, "resume")
            case "reload":
                mirror.signal(signal.SIGHUP)

    def _start(self, mirror: Mirror) -> None:
        if not self._ending:
            mirror.start()

    def _happen_to_way(self, event: MirrorEvent) -> None:
        daemon, _, broker = event.who.partition(">")
        path = self.world.network.path(daemon, (broker, 9092))
        after = self.world.timeline.after
        match event.what:
            case "cut":
                path.cut = True
                after(event.a, path.heal)
            case "reset":
                path.reset()
            case "half open":
                path.half_open()
            case "cut frame":
                path.cut_frame(event.a)
            case "lost answer":
                path.lose_answer()
            case "slow":
                path.slow_up_s = path.slow_down_s = event.b / 2
                after(event.a, path.heal)
            case "narrow":
                path.bytes_per_s = event.b
                after(event.a, path.heal)

    def _happen_to_broker(self, event: MirrorEvent) -> None:
        name, _, number = event.who.rpartition("-")
        cluster, broker = self.world.clusters[name], int(number)
        after = self.world.timeline.after
        match event.what:
            case "broker kill":
                self.promises.look()  # a broker that starts again shows less, until its replicas agree
                cluster.kill(broker)
                after(event.a, cluster.start, broker)
            case "broker freeze":
                cluster.freeze(broker)
                after(event.a, cluster.thaw, broker)
            case "broker isolated":
                cluster.isolate(broker)
                after(event.a, cluster.heal, broker)

    def _happen_to_topic(self, event: MirrorEvent) -> None:
        source = self.source
        there = source.controller.topics.get(event.who)
        match event.what:
            case "topic" if there is None:
                source.create_topic(event.who, int(event.a))
                self.world.timeline.after(2.0, self._produce, event.who, 3)
            case "grow" if there is not None:
                source.grow(event.who, len(there.partitions) + int(event.a))
                self.world.timeline.after(2.0, self._produce, event.who, 3)
            case "produce" if there is not None:
                self._produce(event.who, int(event.a))
            case "move":
                self._move((event.who, int(event.a)))

    def _move(self, tp: Tp) -> None:
        """Another leader of a target partition that has one."""
        topic = self.target.controller.topics.get(tp[0])
        if topic is None or tp[1] >= len(topic.partitions):
            return
        others = [each for each in self.target.isr(tp) if each != self.target.leader(tp)]
        if others:
            self.target.move_leader(tp, self._rng.choice(others))

    def _produce(self, topic: str, count: int) -> None:
        for number in range(len(self.source.controller.topics[topic].partitions)):
            tp = topic, number
            leader = self.source.leader(tp)
            broker = self.source.brokers.get(leader)
            if broker is None or not broker.up or broker.frozen or broker.leads(tp) is None:
                continue  # nobody could produce there
            broker.append(tp, self._set(tp, count), 1, 1000, lambda code, base: None, version=0)

    def _set(self, tp: Tp, count: int) -> bytes:
        rng, pieces = self._rng, []
        for _ in range(count):
            self._numbers[tp] += 1
            name = f"{tp[0]}/{tp[1]}#{self._numbers[tp]}".encode()
            value = rng.choice((b"v" * 20, b"v" * 20, None, b"", b"l" * LARGE))
            pieces.append(entry(value, name))
        return gzipped(*pieces) if rng.random() < 0.3 else b"".join(pieces)

    # the end ------------------------------------------------------------------------------------------------------

    def _mend(self) -> None:
        self.world.tell("everything is mended")
        self.world.mend()
        for cluster in (self.source, self.target):
            for broker in cluster.brokers.values():
                cluster.thaw(broker.id)
                cluster.heal(broker.id)
                cluster.start(broker.id)
        for mirror in self.world.mirrors.values():
            mirror.start()

    def _stop(self) -> None:
        self._ending = True
        for mirror in self.world.mirrors.values():
            if mirror.alive and mirror.name not in self.promises.stopping:
                self.promises.stopping.add(mirror.name)
                mirror.signal(signal.SIGTERM)
        gone = self.world.run_until(lambda: not any(m.alive for m in self.world.mirrors.values()), STOP_S)
        if not gone:
            late = [mirror.name for mirror in self.world.mirrors.values() if mirror.alive]
            self.promises.violated(f"{', '.join(late)} has not ended {STOP_S:g} s after SIGTERM")


def run(given: MirrorSchedule, seen: Counter[str] | None = None) -> Broken | None:
    """seen: counts what happened, over many schedules."""
    found = MirrorRun(given)
    try:
        why = found.verdict()
    finally:
        found.end()
    if seen is not None:
        seen.update(found.kinds)
    return None if why is None else Broken(why, given)


def told(given: MirrorSchedule) -> tuple[str | None, tuple[str, ...]]:
    """The broken promise, and all that was said."""
    lines: list[str] = []
    found = MirrorRun(given, lines.append)
    try:
        return found.verdict(), tuple(lines)
    finally:
        found.end()


def shortest(given: MirrorSchedule) -> Broken:
    """The story of as few events as still break a promise."""
    small = shrink(given, lambda tried: run(tried) is not None)
    why, lines = told(small)
    assert why is not None
    return Broken(why, small, lines)
