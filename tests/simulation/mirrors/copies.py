"""What the source holds and what the target got, message by message, as far as readers may see both.

Each message has a name as its key, TOPIC/PARTITION#NUMBER, and everything here is told in names.
"""

from __future__ import annotations

from collections import Counter

from tests.simulation.brokers import SimCluster
from tests.simulation.brokers.entries import Entry, opened
from tests.simulation.brokers.replica import Tp

Row = tuple[int, bytes]  # offset, name


def rows_of(entry: Entry) -> list[Row]:
    """The messages of an entry; none of the end of a transaction."""
    if entry.control:
        return []
    return [(message.offset, message.key or b"") for message in opened(entry.data)]


class Reading:
    """One partition as its readers see it: read on from where it was read to, as far as the high watermark.

    rows: in the order of the log.  since: when each was seen first.  cut: readers were shown what is gone now.
    """

    __slots__ = ("_cluster", "_leader", "_tp", "cut", "names", "read_to", "rows", "since")

    def __init__(self, cluster: SimCluster, tp: Tp) -> None:
        self._cluster = cluster
        self._tp = tp
        self._leader = -1  # the last one
        self.read_to = 0
        self.rows: list[Row] = []
        self.since: list[float] = []
        self.names: Counter[bytes] = Counter()
        self.cut = False

    def look(self) -> None:
        """Read what has come; of a leader that is down, what it showed before."""
        leader = self._cluster.leader(self._tp)
        if leader < 0 <= self._leader:
            leader = self._leader
        elif leader < 0:  # the controller has none, and a broker that it does not see may lead all the same
            leader = next(iter(self._cluster.isr(self._tp)), -1)
        self._leader = leader
        try:
            log = self._cluster.log(self._tp, self._leader)
        except KeyError:
            return
        if log.end < self.read_to:
            self.cut = True
            return
        if log.hw <= self.read_to:
            return
        for entry in log.all_from(self.read_to):
            if entry.last >= log.hw:
                break
            for offset, name in rows_of(entry):
                self.rows.append((offset, name))
                self.since.append(self._cluster.timeline.now)
                self.names[name] += 1
            self.read_to = entry.last + 1

    def has(self, name: bytes) -> bool:
        """Whether the leader has a message; one that was elected just now shows what it has a moment later."""
        if self.names[name]:
            return True
        try:
            log = self._cluster.log(self._tp, self._leader)
        except KeyError:
            return False
        return any(name == row[1] for entry in log.all_from(self.read_to) for row in rows_of(entry))

    def committed_rows(self) -> list[Row]:
        """What a reader of committed transactions gets; nothing while no broker leads."""
        try:
            log = self._cluster.log(self._tp)
        except KeyError:
            return []
        ranges = [(one.pid, one.first, one.last) for one in log.producers.aborted]
        stable = log.stable_end()
        rows: list[Row] = []
        for entry in log.entries:
            if entry.last >= stable:
                break
            aborted = entry.transactional and any(p == entry.pid and a <= entry.base <= z for p, a, z in ranges)
            if not aborted:
                rows += rows_of(entry)
        return rows


class Readings:
    """Of all partitions of a cluster that topics match; found as they come."""

    def __init__(self, cluster: SimCluster, prefix: str) -> None:
        self._cluster = cluster
        self._prefix = prefix
        self.of: dict[Tp, Reading] = {}

    def look(self) -> None:
        for name, topic in self._cluster.controller.topics.items():
            if name.startswith(self._prefix):
                for number in range(len(topic.partitions)):
                    if (tp := (name, number)) not in self.of:
                        self.of[tp] = Reading(self._cluster, tp)
        for reading in self.of.values():
            reading.look()

    def has(self, topic: str, name: bytes) -> bool:
        """Whether any partition of a topic has a message, or its leader does."""
        of = [reading for tp, reading in self.of.items() if tp[0] == topic]
        return any(reading.names[name] for reading in of) or any(reading.has(name) for reading in of)
