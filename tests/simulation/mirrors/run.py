"""One schedule of whole mirrors, from its begin to its verdict.

run(schedule(7))       None, or the Broken promise
told(schedule(7))      the same with everything that was said
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.simulation.brokers import SimCluster
from tests.simulation.coordinators.host import OFFSETS_TOPIC
from tests.simulation.mirrors.happenings import Happenings
from tests.simulation.mirrors.programs import Programs
from tests.simulation.mirrors.promises import MirrorPromises
from tests.simulation.mirrors.schedule import CHAOS_S, MirrorSchedule
from tests.simulation.mirrors.setup import (
    COORDINATOR,
    DEAD_LETTER,
    DEAD_TOPIC,
    EXACTLY_ONCE,
    MAP_TOPIC,
    MAX_BYTES,
    PARK,
    SUPERVISOR,
    ZOOKEEPER,
    Setup,
    Source,
)
from tests.simulation.mirrors.translations import Translations
from tests.simulation.mirrorworld import MirrorWorld
from tests.simulation.process import Circles
from tests.simulation.schedule import shrink
from tests.simulation.workers import supervised

QUIET_S = 120.0  # sessions, waits between tries, and what a broker's start takes
CHECK_S = 0.5
INSPECT_S = 2.5


@dataclass(frozen=True)
class Broken:
    """A promise that was broken.  told: what everybody said until then."""

    why: str
    schedule: MirrorSchedule
    told: tuple[str, ...] = ()

    @property
    def promise(self) -> str:
        """What was broken, without the particulars."""
        return self.why.partition(":")[0]

    def __str__(self) -> str:
        return "\n".join([self.why, "", str(self.schedule), "", *self.told])


class MirrorRun:
    """A schedule in its world.  told: gets each line that is said; None: nothing is said, which is faster."""

    def __init__(self, given: MirrorSchedule, told: Callable[[str], object] | None = None) -> None:
        self.promises = MirrorPromises(given)
        self.world = world = MirrorWorld(given.seed, self.promises, told=told)
        self.kinds: Counter[str] = Counter()
        self._given = given
        rng = Random(f"messages {given.seed}")
        sources = {source.name: _source(world, source) for source in given.setup.sources}
        target = _target(world, given.setup)
        self.promises.watch(sources, target)
        self.programs = {name: Programs(name, each, rng, self.promises.lost) for name, each in sources.items()}
        self.translations = {name: Translations(each, target, rng, self.kinds) for name, each in sources.items()}
        yaml = given.setup.yaml()
        if given.setup.supervised:
            supervised(world, SUPERVISOR, given.setup.daemons, yaml)
        else:
            for name in given.setup.daemons:
                world.mirror(name, yaml)
        self._happenings = Happenings(self, given.setup, rng)
        self._coordinated = [source for source in given.setup.sources if source.storage != ZOOKEEPER]

    def verdict(self) -> str | None:
        """Run it; the broken promise, if one is."""
        try:
            self._run()
        except Circles as circles:
            self.promises.violated("time goes on", str(circles))
        self.kinds["messages"] += sum(sum(each.numbers.values()) for each in self.programs.values())
        self.kinds["copied twice"] += self.promises.twice
        return self.promises.broken

    def _run(self) -> None:
        world, promises = self.world, self.promises
        for event in self._given.events:
            world.at(event.at, self._happenings.happen, event, what=str(event))
        while world.now < CHAOS_S and promises.broken is None:
            world.run(INSPECT_S)
            self._look()
        if promises.broken is None:
            self._happenings.mend()
            self._wait_until_all_is_copied()
        if promises.broken is None and not world.run_until(self._all_there, QUIET_S):
            promises.violated("in time", f"not all daemons run {QUIET_S:g} s after all is copied")
        if promises.broken is None:
            self._judge_translations()
        if promises.broken is None:
            self._happenings.stop()
        if promises.broken is None:
            promises.judge()

    def end(self) -> None:
        self.world.end()

    def move_groups(self, source: str, topic: str) -> None:
        """Groups that have read some of a topic go over to the target."""
        if self._given.setup.mapped and not self._given.setup.map_topic:
            self.translations[source].move(topic, self.promises.source(source), self._maps(source))

    # watching -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """What is looked at again and again."""
        promises = self.promises
        for mirror in self.world.copying:
            process = mirror.process
            if process is None or process.dead or process.frozen or process.daemon is None:
                promises.unwatched(mirror)
            else:
                mirror.report(lambda report, mirror=mirror: promises.inspect(mirror, report))
        if self._given.setup.supervised:
            for mirror in self.world.commanded:
                mirror.do("status", self._happenings.answered)
        promises.neighbours()
        self._look_at_coordinators()

    def _look_at_coordinators(self) -> None:
        for source in self._coordinated:
            for tp, offset in committed_by_coordinator(self.world, source).items():
                self.promises.commit(source.name, COORDINATOR, tp, offset)

    def _wait_until_all_is_copied(self) -> None:
        world, promises = self.world, self.promises
        until, missing, inspect_at = world.timeline.now + QUIET_S, promises.missing(), world.timeline.now
        while promises.broken is None and missing is not None and world.timeline.now < until:
            world.run(CHECK_S)
            self._look_at_coordinators()
            if world.timeline.now >= inspect_at:
                self._happenings.start_all()
                self._look()
                if self._given.setup.policy == PARK:
                    self._happenings.release()
                inspect_at = world.timeline.now + INSPECT_S
            missing = promises.missing()
        if promises.broken is None and missing is not None:
            promises.violated("in time", f"{QUIET_S:g} s after everything was mended {missing}")

    def _all_there(self) -> bool:
        """Whether all daemons run; one that a signal ended only after everything was copied is started again."""
        self._happenings.start_all()
        return self.promises.broken is not None or all(mirror.alive for mirror in self.world.mirrors.values())

    def _judge_translations(self) -> None:
        setup, promises = self._given.setup, self.promises
        for source in setup.sources:
            for topic in source.topics:
                self.move_groups(source.name, topic)
            why = self.translations[source.name].skipped(
                promises.source(source.name).of, promises.target.of, setup.mode == EXACTLY_ONCE
            )
            if why is not None:
                promises.violated("translated", why)
        if all(len(mirror.lives) == 1 for mirror in self.world.mirrors.values()):
            counted: list[int] = []
            for mirror in self.world.copying:
                mirror.report(lambda report: counted.append(sum(report.gaps.values())))
            self.world.run(0.1)
            if len(counted) == len(self.world.copying):
                promises.gaps(sum(counted))

    def _maps(self, source: str) -> list[Path]:
        return sorted(self.world.folder.glob(f"*/{source}.*offsetmap"))


def committed_by_coordinator(world: MirrorWorld, source: Source) -> dict[tuple[str, int], int]:
    """What the leader of a group's partition shows of its offsets."""
    for node in world.coordinations[source.name].nodes.values():
        number = node.shards.number(source.group)
        if not node.host.dead and node.host.leads((OFFSETS_TOPIC, number)) is not None:
            shard = node.shards.shard(source.group)
            group = None if shard is None else shard.groups.get(source.group)
            if group is not None:
                return {tp: commit.offset for tp, commit in group.offsets.committed.items()}
    return {}


def _source(world: MirrorWorld, source: Source) -> SimCluster:
    return world.cluster(
        source.name,
        source.release,
        source.brokers,
        topics=source.topics,
        zookeeper=world.zookeeper(source.zookeeper, source.servers),
        settings={"auto.create.topics.enable": "false", "delete.topic.enable": "true"},
    )


def _target(world: MirrorWorld, setup: Setup) -> SimCluster:
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
        "message.max.bytes": str(MAX_BYTES),
    }
    zookeeper = world.zookeeper("target-zk") if setup.through_zookeeper else None
    made = world.cluster("target", setup.target, setup.target_brokers, zookeeper=zookeeper, settings=settings)
    if setup.map_topic:
        made.create_topic(MAP_TOPIC, 1, configs={"cleanup.policy": "compact"})
    if setup.policy == DEAD_LETTER:
        made.create_topic(DEAD_TOPIC, 1)
    return made


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
    first = run(given)
    assert first is not None

    def breaks(tried: MirrorSchedule) -> bool:
        found = run(tried)
        return found is not None and found.promise == first.promise

    small = shrink(given, breaks)
    why, lines = told(small)
    assert why is not None
    return Broken(why, small, lines)
