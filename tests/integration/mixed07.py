"""A group on 0.7 of ours and of the original's programs, under load; see Mixed.check for what must be true.

ours      groupmember.py, two streams        registers { "topic": 2 }
console   the original's ConsoleConsumer     registers *1*topic; its session is 6 s
shell     the original's ConsumerShell       registers { "topic": 2 }; its session is 2.5 s
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from bisect import bisect_left
from pathlib import Path
from typing import NamedTuple

from kazoo.exceptions import KazooException

from kafkawire.dialects import dialect
from kafkawire.model import BrokerPartition
from localkafka.seven import entries, tools
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from tests.integration import sevens
from tests.integration.groupprocess import GroupProcess, handed, start_ours
from tests.integration.ownerlog import OwnerLog
from zkconsumer.group.assignor import assign_range

KINDS = ("ours", "console", "shell")
STREAMS = {"ours": 2, "console": 1, "shell": 2}
SESSION_MS = 3000
PATIENT = {"rebalance.retries.max": 16, "rebalance.backoff.ms": 500}
SEVEN = dialect("0.7.2")


class Place(NamedTuple):
    """A message: its partition, and where its entry begins."""

    partition: str
    position: int


class Member(GroupProcess):
    """One process.  A program of the original that does not end in time is killed, and has died."""

    @property
    def died(self) -> bool:
        return any(until == math.inf for _, until in self.gone)

    def stop(self) -> int:
        code = super().stop()
        if code == -9:
            self.gone.append((time.monotonic(), math.inf))
        return code

    def handed(self) -> list[tuple[float, Place, str]]:
        """When one of ours was handed what."""
        rows = handed(self.child) if self.ours else []
        return [(at, Place(partition, position), value) for at, partition, position, value in rows]

    def values(self) -> set[str]:
        if self.console is not None:
            return {line.decode() for line in self.console.lines}
        return {value for _, _, value in self.handed()}


class Traffic:
    """Messages into every partition the whole time, plain and in wrappers; value `PARTITION #number`."""

    def __init__(self, cluster: Cluster07, topic: str, partitions: list[BrokerPartition]) -> None:
        self.sent = dict.fromkeys(map(str, partitions), 0)
        self._cluster, self._topic, self._partitions = cluster, topic, partitions
        self._enough = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        links = {broker: self._cluster.node(broker).client() for broker in {p.broker for p in self._partitions}}
        try:
            for lot in itertools.count():
                for p in self._partitions:
                    first = self.sent[str(p)]
                    values = [f"{p} #{n}".encode() for n in range(first, first + 3)]
                    codec = lot % 3
                    links[p.broker].produce(
                        self._topic, p.index, entries.wrapper(values, codec) if codec else entries.plain(values)
                    )
                    self.sent[str(p)] += 3
                if self._enough.wait(0.1):
                    return
        except BaseException as error:
            self._error = error
        finally:
            for link in links.values():
                link.close()

    def end(self) -> dict[str, dict[str, Place]]:
        """Stop; where each value is, by partition."""
        self._enough.set()
        self._thread.join(30)
        if self._error is not None:
            raise self._error
        found: dict[str, dict[str, Place]] = {}
        for p in self._partitions:
            wait_until(lambda p=p: len(self._rows(p)) == self.sent[str(p)], 20, f"all of {p} to be stored")  # type: ignore[misc]
            found[str(p)] = {row.value.decode(): Place(str(p), row.position) for row in self._rows(p)}
        return found

    def _rows(self, p: BrokerPartition) -> list[entries.Row]:
        return self._cluster.read(self._topic, p.broker, p.index)


class Mixed:
    """The members of one group on one topic, and what became of all messages."""

    def __init__(self, cluster: Cluster07, group: str, topic: str, folder: Path) -> None:
        self.cluster, self.group, self.topic = cluster, group, topic
        self.members: list[Member] = []  # the ended ones, too
        self.told: list[str] = []
        self._folder = folder
        self._zk = cluster.zk()
        self.partitions = cluster.create_topic(topic)
        self._names = sorted(map(str, self.partitions))
        for name in self._names:  # the console begins at the end where nothing is committed
            self._zk.create(f"/consumers/{group}/offsets/{topic}/{name}", b"0", makepath=True)
        self.traffic = Traffic(cluster, topic, self.partitions)
        self.log = OwnerLog(cluster.zookeeper, group, topic, self._names)
        self.log.__enter__()

    def living(self) -> list[Member]:
        return [member for member in self.members if member.running]

    # moves --------------------------------------------------------------------------------------------------------

    def join(self, kind: str) -> Member:
        before = set(self._ids())
        member = getattr(self, f"_{kind}")()
        self.members.append(member)

        def registered() -> set[str]:
            assert member.running, f"{kind} ended with {member.child.exit_code}; {member.child.log_end()}"
            return self._ids() - before

        (member.consumer_id,) = wait_until(registered, 25, lambda: f"{kind} to register; {member.child.log_end()}")
        self._settle(f"{member} joins")
        return member

    def stop(self, member: Member) -> None:
        member.stop()
        self._settle(f"{member} stops")

    def kill(self, member: Member) -> None:
        member.kill()
        self._settle(f"{member} is killed")

    def freeze(self, member: Member) -> None:
        """SIGSTOP until its session has ended and the others have its partitions; then SIGCONT."""
        began = time.monotonic()
        member.child.pause()
        try:
            self._settle(f"{member} freezes", member)
        finally:
            member.child.resume()
            member.gone.append((began, time.monotonic()))
        self._settle(f"{member} thaws")

    def _ours(self) -> Member:
        options = {
            "zk.connect": self.cluster.zookeeper,
            "groupid": self.group,
            "autooffset.reset": "smallest",
            "autocommit.interval.ms": 300,
            "zk.sessiontimeout.ms": SESSION_MS,
            "rebalance.backoff.ms": 1000,
            "rebalance.retries.max": 10,
            "fetcher.backoff.ms": 50,
            "kafka.version": "0.7.2",
        }
        return Member("ours", start_ours(self._folder, self.topic, STREAMS["ours"], options))

    def _console(self) -> Member:
        console = tools.console_consumer(self.cluster, self.topic, self.group)
        return Member("console", console.child, console)

    def _shell(self) -> Member:
        shell = tools.consumer_shell(self.cluster, self.topic, self.group, streams=STREAMS["shell"], config=PATIENT)
        return Member("shell", shell.child, shell)

    # what ZooKeeper says ------------------------------------------------------------------------------------------

    def _ids(self) -> set[str]:
        return set(sevens.registrations(self._zk, self.group))

    def _wanted(self) -> dict[str, str]:
        """Owner by partition, as the registered members must divide them."""
        kinds = {member.consumer_id: member.kind for member in self.members}
        threads = [f"{c}-{n}" for c in self._ids() if c in kinds for n in range(STREAMS[kinds[c]])]
        share = assign_range({self.topic: SEVEN.in_order(self.partitions)}, {self.topic: threads})
        return {str(tp.partition): thread for thread, tps in share.items() for tp in tps}

    def _settled(self, *absent: Member) -> bool:
        expected = {m.consumer_id for m in self.living() if m not in absent}
        try:
            return self._ids() == expected and (sevens.owners(self._zk, self.group, self.topic) == self._wanted())
        except KazooException:
            return False

    def _settle(self, what: str, *absent: Member) -> None:
        """Sessions of 6 s must end, and the original's members sleep between their tries."""
        began = time.monotonic()
        wait_until(lambda: self._settled(*absent), 60, lambda: self._say(what), every_s=0.1)
        self.told.append(f"{what} ({time.monotonic() - began:.1f} s)")

    def _say(self, what: str) -> str:
        logs = "\n".join(f"{m} ({'up' if m.running else 'ended'}): {m.child.log_end(8)}" for m in self.members)
        owners = sevens.owners(self._zk, self.group, self.topic)
        return f"the group to settle after: {what}; ids {self._ids()}; owners {owners}; wanted {self._wanted()}\n{logs}"

    # the verdict --------------------------------------------------------------------------------------------------

    def check(self) -> str:
        """End the traffic, wait until all is read and committed, and look at everything:

        every message was handed to somebody.  A program of the original that died may have printed less than it
        committed, so what was committed while it owned the partition counts as seen
        nothing was handed to one of ours while others owned the partition (a process that freezes between being handed
        a message and saying so says so late: one for each stream and freeze)
        every committed position is the beginning of an entry, or the end of the log
        """
        there = self.traffic.end()
        ends = {str(p): end for p, end in self.cluster.ends(self.topic).items()}
        committed = lambda: sevens.offsets(self._zk, self.group, self.topic)  # noqa: E731
        wait_until(lambda: committed() == ends, 60, lambda: f"{ends} to be committed, have {committed()}")
        self.log.end()
        everything = {value: place for by_value in there.values() for value, place in by_value.items()}
        missing = everything.keys() - set().union(*(member.values() for member in self.members))
        lost = sorted(value for value in missing if everything[value] not in self._passed_by_the_dead())
        assert lost == [], f"{len(lost)} of {len(everything)} messages lost: {lost[:20]}"
        assert self._foreign() == []
        self._on_borders(set(everything.values()), ends)
        ours = sum(len(member.handed()) for member in self.members)
        return f"{len(everything)} messages, {ours} handed to ours; " + "; ".join(self.told)

    def _passed_by_the_dead(self) -> set[Place]:
        dead = [m for m in self.members if not m.ours and m.died]
        passed = self.log.committed_by(lambda owner: any(owner.startswith(f"{m.consumer_id}-") for m in dead))
        return {Place(self._names[n], position) for n, positions in passed.items() for position in positions}

    def _foreign(self) -> list[str]:
        number = {name: n for n, name in enumerate(self._names)}
        wrong = []
        for member in self.members:
            rows = [(at, number[place.partition], place.position) for at, place, _ in member.handed()]
            found = self.log.handed_out_by_others(member.consumer_id, rows)
            wrong += found if len(found) > STREAMS["ours"] * member.frozen else []
        return wrong

    def _on_borders(self, places: set[Place], ends: dict[str, int]) -> None:
        borders = {name: sorted({p.position for p in places if p.partition == name} | {ends[name]}) for name in ends}
        for sample in self.log.samples:
            for n, position in sample.offsets.items():
                at = borders[self._names[n]]
                assert at[bisect_left(at, position)] == position, f"{self._names[n]} was committed at {position}"

    def close(self) -> None:
        self.log.end()
        self.traffic._enough.set()
        for member in self.members:
            member.close()
