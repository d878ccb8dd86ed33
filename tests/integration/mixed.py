"""Groups of members of several kinds, all of them processes: ours, and three programs of the JVM.

    ours      groupmember.py, so many streams: says when it was handed what
    console   the JVM's ConsoleConsumer: prints what it was handed
    mirror    the JVM's MirrorMaker with three streams: what it was handed arrives at the target
    perf      the JVM's ConsumerPerformance with three threads: says nothing; its commits tell how far it came.  It
              deletes the group's nodes, other members' too, before it registers: it can only be the first

Each is stopped with SIGTERM, killed, frozen and thawed alike.  ConsumerPerformance knows no SIGTERM: it just ends.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from kazoo.exceptions import KazooException

import tests.integration.readers as readers
from kafkawire.znodes import v08 as znodes
from localkafka import java, tools
from localkafka.child import Child
from localkafka.client import ClusterClient
from localkafka.waiting import wait_until
from tests.integration.groupprocess import GroupProcess, handed, start_ours
from zkconsumer.group.assignor import assign_range

KINDS = ("ours", "console", "mirror", "perf")
STREAMS = 2  # of ours


class Handed(NamedTuple):
    at: float
    partition: int
    offset: int


class Process(GroupProcess):
    """One member; ConsumerPerformance, which knows no SIGTERM, dies of it."""

    def stop(self) -> int:
        began = time.monotonic()
        code = super().stop()
        if self.kind == "perf":
            self.gone.append((began, math.inf))
        return code

    def handed(self) -> list[Handed]:
        """What one of ours said."""
        return [Handed(at, int(p), offset) for at, p, offset, _ in handed(self.child)] if self.ours else []

    def printed(self) -> list[str]:
        return [] if self.console is None else [line.decode() for line in self.console.lines]


class Group:
    """The members of one group on one topic, and what ZooKeeper says of them.  target: where a mirror writes to."""

    def __init__(
        self,
        source: ClusterClient,
        target: ClusterClient,
        name: str,
        topic: str,
        partitions: int,
        folder: Path,
        session_s: float,
    ) -> None:
        self.source, self.target = source, target
        self.name, self.topic, self.partitions = name, topic, partitions
        self.session_s = session_s
        self.members: list[Process] = []  # the ended ones, too
        self._folder = folder
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """The JVM's console begins at the end where nothing is committed."""
        zk, folder = self.source.registry().zk, znodes.offsets(self.name, self.topic)
        zk.ensure_path(folder)
        for partition in range(self.partitions):
            if not zk.exists(f"{folder}/{partition}"):
                zk.create(f"{folder}/{partition}", b"0")

    def living(self) -> list[Process]:
        return [member for member in self.members if member.running]

    def join(self, kind: str) -> Process:
        """Start a member; it is registered when this comes back."""
        assert kind != "perf" or not self.members, "ConsumerPerformance would delete the others' nodes"
        before = set(self.ids())
        member = {"ours": self._ours, "console": self._console, "mirror": self._mirror, "perf": self._perf}[kind]()
        self.members.append(member)

        def registered() -> set[str]:
            assert member.running, f"{kind} ended with {member.child.exit_code}; {member.child.log_end()}"
            return set(self.ids()) - before

        (member.consumer_id,) = wait_until(registered, 25, lambda: f"{kind} to register; {member.child.log_end()}")
        if kind == "perf":
            self._begin_at_zero()
        return member

    def _properties(self) -> dict[str, object]:
        return {
            "zookeeper.session.timeout.ms": int(self.session_s * 1000),
            "rebalance.backoff.ms": 1000,
            "rebalance.max.retries": 12,
            "auto.commit.interval.ms": 300,
        }

    def _ours(self) -> Process:
        options = {
            **self._properties(),
            "zookeeper.connect": self.source.zookeeper,
            "group.id": self.name,
            "auto.offset.reset": "smallest",
            "rebalance.max.retries": 10,
        }
        return Process("ours", start_ours(self._folder, self.topic, STREAMS, options))

    def _console(self) -> Process:
        console = tools.console_consumer(
            self.source, self.topic, self.name, from_beginning=False, config=self._properties()
        )
        return Process("console", console.child, console)

    def _mirror(self) -> Process:
        child = tools.mirror_maker(
            [self.source],
            self.target,
            whitelist=self.topic,
            group=self.name,
            num_streams=3,
            consumer=self._properties(),
        )
        return Process("mirror", child)

    def _perf(self) -> Process:
        """It takes no properties: its session is 6 s."""
        argv = ["--zookeeper", self.source.zookeeper, "--topic", self.topic, "--group", self.name]
        argv += ["--threads", "3", "--messages", "100000000"]
        command = tools.java_command(self.source.version, "kafka.tools.ConsumerPerformance", argv, java.SMALL)
        return Process("perf", Child("ConsumerPerformance", command, self._folder / f"perf-{time.monotonic_ns()}.log"))

    # what ZooKeeper says --------------------------------------------------------------------------------------------

    def ids(self) -> list[str]:
        zk = self.source.registry().zk
        return list(zk.get_children(znodes.ids(self.name))) if zk.exists(znodes.ids(self.name)) else []

    def owners(self) -> dict[int, str]:
        return readers.owners(self.source, self.name, self.topic)

    def wanted(self) -> Mapping[int, str]:
        """Owner by partition, as the registered members must divide them."""
        threads = [f"{c}-{n}" for c, count in self._streams(self.ids()) for n in range(count)]
        share = assign_range({self.topic: list(range(self.partitions))}, {self.topic: threads})
        return {int(str(tp.partition)): thread for thread, tps in share.items() for tp in tps}

    def _streams(self, ids: Iterable[str]) -> Iterable[tuple[str, int]]:
        kinds = {member.consumer_id: member.kind for member in self.members}
        return [(c, {"ours": STREAMS, "console": 1}.get(kinds[c], 3)) for c in ids if c in kinds]

    def settled(self, *absent: Process) -> bool:
        """Exactly the living members (without absent ones) are registered, and own what the formula says."""
        expected = {member.consumer_id for member in self.living() if member not in absent}
        try:
            return set(self.ids()) == expected and self.owners() == self.wanted()
        except KazooException:  # the test's own session meets the same troubles
            return False

    def settle(self, *absent: Process, timeout_s: float | None = None) -> None:
        """Sessions of 6 s (ConsumerPerformance) must end, and JVM members sleep between their tries."""
        wait_until(lambda: self.settled(*absent), timeout_s or 6 + 4 + 15, self.told, every_s=0.2)

    def told(self) -> str:
        logs = "\n".join(f"{m} ({'up' if m.running else 'ended'}): {m.child.log_end(8)}" for m in self.members)
        return f"the group to settle: ids {self.ids()}; owners {self.owners()}; wanted {self.wanted()}\n{logs}"

    def freeze(self, member: Process) -> None:
        """SIGSTOP until its session has ended and the others have its partitions; then SIGCONT."""
        began = time.monotonic()
        member.child.pause()
        try:
            self.settle(member)
        finally:
            member.child.send(signal.SIGCONT)
            member.child.paused = False
            member.gone.append((began, time.monotonic()))

    def close(self) -> None:
        for member in self.members:
            member.close()
