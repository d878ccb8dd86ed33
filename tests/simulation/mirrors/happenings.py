"""What a schedule's events do to the world: to daemons, ways, brokers and topics; and what ends it in good order."""

from __future__ import annotations

import signal
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.brokers import SimCluster
from tests.simulation.brokers.replica import Tp
from tests.simulation.daemon import Mirror
from tests.simulation.mirrors.schedule import MirrorEvent
from tests.simulation.mirrors.setup import COORDINATOR, SKIP, TARGET_END, Setup
from tests.simulation.workers import Supervisor, Worker
from tests.simulation.zookeeper import Link, SimZookeeper

if TYPE_CHECKING:
    from tests.simulation.mirrors.run import MirrorRun

STOP_S = 15.0
SETTLE_S = 2.0  # from a new partition to its first messages
DELETED_S = 0.05  # from one look to the next, whether a topic is gone


class Happenings:
    """Of one run."""

    def __init__(self, run: MirrorRun, setup: Setup, rng: Random) -> None:
        self._run = run
        self._world = run.world
        self._promises = run.promises
        self._setup = setup
        self._rng = rng
        self._ending = False

    def happen(self, event: MirrorEvent) -> None:
        """Do what the event says, as far as it can be done now."""
        self._run.kinds[event.what] += 1
        if event.who in self._world.mirrors:
            self._to_daemon(event, self._world.mirrors[event.who])
        elif ">" in event.who:
            self._to_way(event)
        elif "/" in event.who:
            self._to_topic(event)
        else:
            self._to_broker(event)

    def _to_daemon(self, event: MirrorEvent, mirror: Mirror) -> None:
        after = self._world.timeline.after
        match event.what:
            case "start":
                self._start(mirror)
            case "stop":
                self._ask_to_end(mirror)
            case "kill":
                self._promises.stopping.discard(mirror.name)
                if isinstance(mirror, Supervisor):  # each worker stops by itself, unless the next start is sooner
                    self._promises.stopping.update(each.name for each in mirror.workers if each.alive)
                mirror.kill()
                after(event.a, self._start, mirror)
            case "freeze":
                mirror.freeze(event.a)
            case "freeze, sockets first":
                mirror.freeze(event.a, sockets_first=True)
            case "suspend":
                mirror.suspend(event.a)
            case "disk" if mirror.process is not None:
                mirror.process.disk.slow_s = event.b
                after(event.a, setattr, mirror.process.disk, "slow_s", 0.0)
            case "expire" if mirror.process is not None:
                for client in mirror.process.clients:
                    session = client.zookeeper.sessions.get(client.client_id[0]) if client.client_id else None
                    if session is not None:
                        client.zookeeper.expire(session)
            case "zk cut":
                for link in self._links(mirror):
                    link.cut = True
                    after(event.a, link.heal)
            case "zk reset" if mirror.process is not None:
                for client in mirror.process.clients:
                    mirror.process.after(0.0, client.reset)
            case "zk late":
                for link in self._links(mirror):
                    link.slow_down_s = event.b
                    after(event.a, setattr, link, "slow_down_s", 0.0)
            case "reload":
                mirror.signal(signal.SIGHUP)

    def _links(self, mirror: Mirror) -> list[Link]:
        """Its ways to the ZooKeepers of all sources."""
        sources = [source for source in self._setup.sources if source.storage != COORDINATOR]
        return [self._world.machine.link(mirror.name, source.zookeeper) for source in sources]

    def _start(self, mirror: Mirror) -> None:
        if not self._ending:
            self._begin(mirror)

    def _begin(self, mirror: Mirror) -> None:
        if isinstance(mirror, Supervisor) and not mirror.alive:
            self._promises.stopping.difference_update(each.name for each in mirror.workers)
        mirror.start()

    def _ask_to_end(self, mirror: Mirror) -> None:
        head = mirror.supervisor if isinstance(mirror, Worker) else mirror
        if head.alive and head.name not in self._promises.stopping:
            also = head.workers if isinstance(head, Supervisor) else ()
            self._promises.stopping.update(each.name for each in (head, *also) if each.alive)
            head.signal(signal.SIGTERM)

    def _to_way(self, event: MirrorEvent) -> None:
        daemon, _, broker = event.who.partition(">")
        path = self._world.network.path(daemon, (broker, 9092))
        after = self._world.timeline.after
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
            case "late copy":
                path.late_copy(event.a)
            case "slow":
                path.slow_up_s = path.slow_down_s = event.b / 2
                after(event.a, path.heal)
            case "narrow":
                path.bytes_per_s = event.b
                after(event.a, path.heal)

    def _to_broker(self, event: MirrorEvent) -> None:
        name, _, number = event.who.rpartition("-")
        cluster, broker = self._world.clusters[name], int(number)
        after = self._world.timeline.after
        match event.what:
            case "broker kill":
                self._promises.look()  # a broker that starts again shows less, until its replicas agree
                cluster.kill(broker)
                after(event.a, cluster.start, broker)
            case "broker freeze":
                cluster.freeze(broker)
                after(event.a, cluster.thaw, broker)
            case "broker isolated":
                cluster.isolate(broker)
                after(event.a, cluster.heal, broker)

    def _to_topic(self, event: MirrorEvent) -> None:
        name, _, topic = event.who.partition("/")
        cluster = self._world.clusters[name]
        there = cluster.controller.topics.get(topic)
        programs = self._run.programs.get(name)
        after = self._world.timeline.after
        match event.what:
            case "move" if there is not None:
                self._move((topic, int(event.a)))
            case "topic" if there is None and programs is not None:
                cluster.create_topic(topic, int(event.a))
                after(SETTLE_S, programs.produce, topic, 3)
            case _ if there is None or programs is None:
                pass  # not there yet
            case "grow":
                cluster.grow(topic, len(there.partitions) + int(event.a))
                after(SETTLE_S, programs.produce, topic, 3)
            case "recreate" if not there.deleting:
                self._promises.look()
                cluster.delete_topic(topic)
                self._create_again(cluster, topic, len(there.partitions), event.a)
            case "produce":
                programs.produce(topic, int(event.a))
            case "damage":
                programs.produce_damaged(topic)
            case "large":
                programs.produce_large(topic)
            case "retention":
                self._promises.look()
                for tp, begin in programs.retain(topic):
                    self._promises.retained(name, tp, begin)
            case "pause":
                self._command("pause", what=topic, source=name)
                after(event.a, self._command, "resume", topic, name)
            case "throttle":
                self._command("throttle", what=topic, source=name, messages_per_s=event.b)
                after(event.a, self._end_throttle, topic, name)
            case "translate":
                self._run.move_groups(name, topic)

    def _create_again(self, cluster: SimCluster, topic: str, partitions: int, after_s: float) -> None:
        """Once the brokers have finished deleting it."""
        after = self._world.timeline.after
        if topic in cluster.controller.topics or f"/brokers/topics/{topic}" in self._zookeeper(cluster).nodes:
            after(DELETED_S, self._create_again, cluster, topic, partitions, after_s)
            return
        self._promises.deleted(cluster.name, topic)
        self._run.translations[cluster.name].forget(topic)
        after(after_s, self._create, cluster, topic, partitions)
        after(after_s + SETTLE_S, self._run.programs[cluster.name].produce, topic, 3)

    def _create(self, cluster: SimCluster, topic: str, partitions: int) -> None:
        self._promises.created(cluster.name, topic)
        cluster.create_topic(topic, partitions)

    def _zookeeper(self, cluster: SimCluster) -> SimZookeeper:
        return self._world.zookeepers[f"{cluster.name}-zk"]

    def _command(self, action: str, what: str, source: str, **arguments: object) -> None:
        """What an operator asks of each daemon that runs; one that has not begun, or does not know it yet, refuses."""
        for mirror in self._world.commanded:
            mirror.do(action, self.answered, what=what, source=source, **arguments)

    def _end_throttle(self, topic: str, source: str) -> None:
        self._command("throttle", what=topic, source=source, off=True)

    def answered(self, action: str, refused: Exception | None) -> None:
        self._run.kinds[f"{action} refused" if refused is not None else f"{action} done"] += 1

    def _move(self, tp: Tp) -> None:
        """Another leader of a target partition that has one."""
        target = self._world.clusters["target"]
        topic = target.controller.topics[tp[0]]
        if tp[1] >= len(topic.partitions):
            return
        others = [each for each in target.isr(tp) if each != target.leader(tp)]
        if others:
            target.move_leader(tp, self._rng.choice(others))

    # the end ------------------------------------------------------------------------------------------------------

    def mend(self) -> None:
        """Everything works again, and whoever is gone starts."""
        self._world.tell("everything is mended")
        self._world.mend()
        for cluster in self._world.clusters.values():
            for broker in cluster.brokers.values():
                cluster.thaw(broker.id)
                cluster.heal(broker.id)
                cluster.start(broker.id)
        self.start_all()
        if self._setup.mode == TARGET_END:  # which leaves nothing out, so that nothing can be released
            for programs in self._run.programs.values():
                programs.repair()
        for source in self._setup.sources:
            for topic in source.topics:
                self._command("resume", topic, source.name)
                self._end_throttle(topic, source.name)

    def start_all(self) -> None:
        """As systemd does with a unit that was to start, and had not ended yet."""
        for mirror in self._world.commanded:
            self._begin(mirror)

    def release(self) -> None:
        """An operator leaves out what is known to be damaged or too large, where partitions are parked at it."""
        for mirror in self._world.copying:
            mirror.report(lambda report, mirror=mirror: self._release(mirror, report))

    def _release(self, mirror: Mirror, report: object) -> None:
        for row in report.partitions:  # type: ignore[attr-defined]
            if row.state != "parked":
                continue
            reading = self._promises.source(row.source).of[row.topic, row.partition]
            name = next((name for at, name in reading.rows if at >= (row.done or 0)), b"")
            if name in self._promises.lost:
                what = f"{row.topic}:{row.partition}"
                mirror.do("release", self.answered, what=what, source=row.source, to=SKIP, execute=True)

    def stop(self) -> None:
        """SIGTERM to all, and what has to come of it."""
        self._ending = True
        mirrors = self._world.mirrors.values()
        for mirror in mirrors:
            self._ask_to_end(mirror)
        if not self._world.run_until(lambda: not any(mirror.alive for mirror in mirrors), STOP_S):
            late = [mirror.name for mirror in mirrors if mirror.alive]
            self._promises.violated("nobody dies", f"{', '.join(late)} has not ended {STOP_S:g} s after SIGTERM")
