"""A group that changes where it keeps its positions, as a model: members of every mode, crashes, bounces, rebalances.

The stores are in memory; what members do with them is done by the real DualOffsets, and which steps they may take is
said by the real rules of zkconsumer.offsets.modes.  Two things are watched at each claim:

    skipped    it begins after what was read so far: messages nobody ever sees
    repeated   it begins before what a member was told is committed: more is read twice than the uncommitted window
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafkawire.model import TopicPartition
from tests.fakes.stores import MemoryOffsets, held
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.dual import DualOffsets
from zkconsumer.offsets.modes import Mode, ModeRefused, behind, check_beside, check_step
from zkconsumer.offsets.store import NONE, Committed, OffsetStore, Unknown
from zkconsumer.session.lease import Lease

GROUP = "g"
PARTITIONS = [TopicPartition("t", n) for n in range(3)]
BEGINNING = 10  # how far the group is when the story begins
AHEAD = 5  # how far the log goes on after what was read

Step = tuple[object, ...]


class Killed(BaseException):
    """kill -9 where it is raised."""


class Glitching(MemoryOffsets):
    """Partitions in `unreadable` are Unknown to readers; while `kill`, whoever commits dies before it is written."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.unreadable: set[TopicPartition] = set()
        self.kill = False

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        if self.kill:
            raise Killed
        return super().commit(group, positions, lease)

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        found = super().read(group, tps)
        return {tp: Unknown("glitch") if tp in self.unreadable else at for tp, at in found.items()}


@dataclass
class Member:
    name: str
    mode: Mode
    alive: bool = True
    at: dict[TopicPartition, int] = field(default_factory=dict)


class World:
    """permitted: (before, after) steps that are taken without asking any rule; rules: which of them hold for others."""

    def __init__(
        self,
        mode: Mode,
        permitted: frozenset[tuple[str, str]] = frozenset(),
        rules: frozenset[str] = frozenset({"step", "beside", "behind"}),
    ) -> None:
        self.kafka, self.zookeeper = Glitching("kafka"), Glitching("zookeeper")
        self.members = [Member(name, mode) for name in "abc"]
        self.read_so_far = dict.fromkeys(PARTITIONS, BEGINNING)
        self.committed = dict.fromkeys(PARTITIONS, BEGINNING)
        self.wrong: list[str] = []
        self.refused = 0
        self._permitted, self._rules = permitted, rules
        for store, modes in ((self.zookeeper, ("zookeeper", "dual")), (self.kafka, ("kafka", "dual"))):
            if mode in modes:
                store.held.update({(GROUP, tp): BEGINNING for tp in PARTITIONS})
        self._rebalance()

    def play(self, steps: Sequence[Step]) -> list[str]:
        """What went wrong, a sentence each."""
        for name, *args in steps:
            getattr(self, f"_{name}")(*args)
        return self.wrong

    # ---- what happens

    def _read(self, who: int, count: int) -> None:
        """Messages are handed out and done."""
        member = self.members[who]
        for tp in member.at if member.alive else ():
            member.at[tp] += count
            self.read_so_far[tp] = max(self.read_so_far[tp], member.at[tp])

    def _commit(self, who: int) -> None:
        member = self.members[who]
        if member.alive:
            self._told(member, self._store(member.mode).commit(GROUP, dict(member.at), held()))

    def _crash(self, who: int) -> None:
        member = self.members[who]
        if member.alive:
            member.alive, member.at = False, {}
            self._rebalance()

    def _crash_between(self, who: int) -> None:
        """kill -9 after Kafka has the commit and before ZooKeeper does; a member of one store has no such moment."""
        member = self.members[who]
        if member.alive and member.mode == "dual":
            self.zookeeper.kill = True
            try:
                self._store("dual").commit(GROUP, dict(member.at), held())
            except Killed:
                pass
            self.zookeeper.kill = False
        self._crash(who)

    def _bounce(self, who: int, mode: Mode) -> None:
        """Stopped (it commits) and started again in this mode; a refused start leaves it down."""
        member = self.members[who]
        if member.alive:
            self._commit(who)
            self._crash(who)
        try:
            self._check(member, mode)
        except ModeRefused:
            self.refused += 1
            return
        member.alive, member.mode = True, mode
        self._rebalance()

    def _switch(self, who: int, mode: Mode) -> None:
        """Another mode while running, by a reload: it goes on where it is."""
        member = self.members[who]
        if member.alive:
            try:
                self._check(member, mode)
            except ModeRefused:
                self.refused += 1
                return
            member.mode = mode

    def _glitch(self, store: str, partition: int, works: bool) -> None:
        """A store refuses a partition from now on, or does not any more."""
        which, tp = self.kafka if store == "kafka" else self.zookeeper, PARTITIONS[partition]
        if works:
            which.refuse.pop(tp, None)
            which.unreadable.discard(tp)
        else:
            which.refuse[tp] = ConsumerError("glitch")
            which.unreadable.add(tp)

    # ---- rules

    def _check(self, member: Member, mode: Mode) -> None:
        if (member.mode, mode) in self._permitted:
            return
        if "step" in self._rules:
            check_step(member.mode, mode)
        if "beside" in self._rules:
            check_beside(mode, {other.name: other.mode for other in self.members if other.alive and other != member})
        if "behind" in self._rules:
            kafka, zookeeper = self.kafka.read(GROUP, PARTITIONS), self.zookeeper.read(GROUP, PARTITIONS)
            for tp in PARTITIONS:
                why = behind(mode, kafka[tp], zookeeper[tp])
                if why is not None:
                    raise ModeRefused(f"{tp}: {why}")

    # ---- the group

    def _store(self, mode: Mode) -> OffsetStore:
        if mode == "dual":
            return DualOffsets(self.kafka, self.zookeeper)
        return self.kafka if mode == "kafka" else self.zookeeper

    def _told(self, member: Member, results: Mapping[TopicPartition, Exception | None]) -> None:
        for tp, why in results.items():
            if why is None:
                self.committed[tp] = member.at[tp]

    def _rebalance(self) -> None:
        """Whoever lives commits and releases; then each partition is claimed anew and its position read."""
        living = [member for member in self.members if member.alive]
        for member in living:
            self._told(member, self._store(member.mode).commit(GROUP, dict(member.at), held()))
            member.at = {}
        for n, tp in enumerate(PARTITIONS):
            if living:
                self._claim(living[n % len(living)], tp)

    def _claim(self, member: Member, tp: TopicPartition) -> None:
        found = self._store(member.mode).read(GROUP, [tp])[tp]
        if isinstance(found, Unknown):
            return  # it waits, and does not begin
        at = self.read_so_far[tp] + AHEAD if found is NONE else found  # auto.offset.reset=largest, the JVM's default
        if at > self.read_so_far[tp]:
            self.wrong.append(f"{member.name} ({member.mode}) begins {tp} at {at}: skipped from {self.read_so_far[tp]}")
        if at < self.committed[tp]:
            self.wrong.append(f"{member.name} ({member.mode}) begins {tp} at {at}: {self.committed[tp]} was committed")
        member.at[tp] = at
