"""Moves of a mixed group under load, and the verdict over all of them: see Verdict for what is allowed.

A move is clean when nobody died in it: a join, a stop of ours, of a console or of a mirror.  ConsumerPerformance knows
no stop: it dies.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from localkafka import tools
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until
from tests.integration.mixed import Group, Handed, Process
from tests.integration.ownerlog import OwnerLog

MIXED = Mixture(0.5, (0, 1, 2))


class Traffic:
    """Messages into every partition, the whole time; value `topic/partition #offset`."""

    def __init__(
        self, cluster: ClusterClient, topic: str, partitions: int, every_s: float = 0.1, once: bool = True
    ) -> None:
        """once: no broker dies, so no batch is sent twice and a message's number is its offset."""
        self._once = once
        self.load = Load(cluster.brokers, cluster.version)
        self._cluster, self._topic, self._partitions, self._every_s = cluster, topic, partitions, every_s
        self._enough = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._enough.wait(self._every_s):
                self.load.produce(self._topic, self._partitions, 2 * self._partitions, MIXED, batch=2)
        except BaseException as error:
            self._error = error

    def end(self) -> set[tuple[int, int]]:
        """Stop; every (partition, number) that was sent."""
        self._enough.set()
        self._thread.join(40)
        self.load.close()
        if self._error is not None:
            raise self._error
        if self._once:
            assert sum(log_end_offsets(self._cluster, [self._topic]).values()) == self.load.sent
        return {(int(str(tp.partition)), n) for tp, end in self.load.numbers.items() for n in range(end)}


@dataclass(slots=True)
class Verdict:
    """What a run showed.

    lost       messages nobody was handed.  A JVM member that died, or thawed after its session, loses what it had
               handed out and committed before it did anything with it; ConsumerPerformance never says what it was
               handed.  So what was committed while such a member owned the partition counts as seen.
    twice      messages that members of ours were handed twice although, in between, nobody died or froze, ZooKeeper
               stayed and no JVM member owned the partition (one that takes over may write back an older position)
    foreign    messages that a member of ours was handed while others owned the partition.  A process that freezes
               between being handed a message and saying so says so late: one for each stream and freeze.
    back       committed positions that went back while ours had the partition
    orphan_s, orphan    longest time a partition was without owner, and which
    """

    lost: list[tuple[int, int]] = field(default_factory=list)
    twice: list[tuple[int, int]] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    back: list[str] = field(default_factory=list)
    orphan_s: float = 0.0
    orphan: tuple[int, float] = (-1, 0.0)
    messages: int = 0
    by_ours: int = 0
    why: str = ""

    def check(self, longest_orphan_s: float) -> None:
        assert self.lost == [], f"{len(self.lost)} of {self.messages} messages lost: {self.lost[:20]}; {self.why}"
        assert self.twice == [], f"{len(self.twice)} messages came twice: {self.twice[:20]}"
        assert self.foreign == [], self.foreign[:20]
        assert self.back == [], self.back[:20]
        assert self.orphan_s <= longest_orphan_s, f"{self.orphan} was without owner for {self.orphan_s:.1f} s"


class Rounds:
    """Moves on a group while traffic flows and its owners are watched."""

    def __init__(self, group: Group, log: OwnerLog, traffic: Traffic, target_topic_partitions: int = 1) -> None:
        self.group, self.log, self.traffic = group, log, traffic
        self._target_partitions = target_topic_partitions
        self.troubles: list[tuple[float, float]] = []  # times in which somebody died or froze, or ZooKeeper was away
        self.told: list[str] = []

    def move(self, name: str, do: Callable[[], object], clean: bool, settle: bool = True) -> None:
        began = time.monotonic()
        do()
        if settle:
            self.group.settle()
        if not clean:
            self.troubles.append((began, time.monotonic()))
        self.told.append(f"{began:.1f} {name} ({time.monotonic() - began:.1f} s)")

    def join(self, kind: str) -> Process:
        self.move(f"{kind} joins", lambda: self.group.join(kind), clean=True)
        return self.group.members[-1]

    def stop(self, member: Process) -> None:
        self.move(f"{member} stops", member.stop, clean=member.kind != "perf")

    def kill(self, member: Process) -> None:
        self.move(f"{member} is killed", member.kill, clean=False)

    def freeze(self, member: Process) -> None:
        self.move(f"{member} freezes past its session", lambda: self.group.freeze(member), clean=False)

    def verdict(self) -> Verdict:
        """End the traffic, wait until all is read and committed, stop mirrors (which commit what they still hold), and
        look at everything."""
        sent = self.traffic.end()
        ends = {p: sum(1 for q, _ in sent if q == p) for p in range(self.group.partitions)}
        wait_until(lambda: self._committed() == ends, 30, lambda: f"{ends} to be committed, have {self._committed()}")
        self.log.end()
        for member in self.group.living():
            if member.kind == "mirror":
                member.stop()
        handed = {member.consumer_id: member.handed() for member in self.group.members if member.ours}
        found = Verdict(messages=len(sent), by_ours=sum(map(len, handed.values())))
        found.lost = sorted(sent - self._seen(handed))
        found.why = self.log.passed(*found.lost[0]) if found.lost else ""
        found.twice = self._twice(handed)
        for member in self.group.members:
            wrong = self.log.handed_out_by_others(member.consumer_id, handed.get(member.consumer_id, []))
            found.foreign += wrong if len(wrong) > 2 * member.frozen else []
        found.back = self.log.offsets_that_went_back(self._is_ours)
        found.orphan_s, partition, when = self.log.longest_without_owner(self._alive)
        found.orphan = (partition, when)
        return found

    def _committed(self) -> dict[int, int]:
        return self.log.samples[-1].offsets

    def _is_ours(self, owner: str) -> bool:
        return any(member.ours and owner.startswith(f"{member.consumer_id}-") for member in self.group.members)

    def _alive(self, owner: str, when: float) -> bool:
        gone = [m.gone for m in self.group.members if owner.startswith(f"{m.consumer_id}-")]
        return not any(since <= when <= until for spans in gone for since, until in spans)

    def _is_jvm(self, owner: str) -> bool:
        return owner != "-" and not self._is_ours(owner)

    def _seen(self, handed: dict[str, list[Handed]]) -> set[tuple[int, int]]:
        seen = {(row.partition, row.offset) for rows in handed.values() for row in rows}
        values = [line for member in self.group.members for line in member.printed()]
        if any(member.kind == "mirror" for member in self.group.members):
            copied = tools.dump_topic(self.group.target, self.group.topic, range(self._target_partitions))
            values += [row.payload or "" for rows in copied.values() for row in rows]
        for value in values:
            words = value.split(" ")
            if len(words) > 1 and words[0].startswith(f"{self.group.topic}/"):
                seen.add((int(words[0].rpartition("/")[2]), int(words[1][1:])))
        silent = [m for m in self.group.members if not m.ours and (m.kind == "perf" or m.frozen or self._died(m))]
        by_silent = self.log.committed_by(lambda owner: any(owner.startswith(f"{m.consumer_id}-") for m in silent))
        return seen | {(partition, offset) for partition, offsets in by_silent.items() for offset in offsets}

    def _died(self, member: Process) -> bool:
        return member.child.exit_code == -9

    def _twice(self, handed: dict[str, list[Handed]]) -> list[tuple[int, int]]:
        times: dict[tuple[int, int], list[float]] = defaultdict(list)
        for rows in handed.values():
            for row in rows:
                times[row.partition, row.offset].append(row.at)
        return sorted(
            place
            for place, at in times.items()
            for first, second in zip(sorted(at), sorted(at)[1:], strict=False)
            if not any(begin <= second and first <= end for begin, end in self.troubles)
            and not self.log.owned_between(place[0], first, second, self._is_jvm)
        )
