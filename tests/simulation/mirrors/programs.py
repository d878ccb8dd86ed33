"""What the programs of the sources write, and what becomes of it on the brokers' disks.

Each message has a name as its key, SOURCE/TOPIC/PARTITION#NUMBER@KIND; promises are told in names.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.fakes.entries import entry, gzipped
from tests.simulation.brokers import SimCluster
from tests.simulation.brokers.entries import Entry
from tests.simulation.brokers.replica import Replica, Tp
from tests.simulation.mirrors.setup import MAX_BYTES

LARGE = 12_000  # bytes
KINDS = 3
DAMAGED = "damaged"
CRC_AT = {0: 12, 1: 12, 2: 17}  # by message format


class Programs:
    """Of one source.  lost: names of messages that no mirror can copy, each with why."""

    def __init__(self, source: str, cluster: SimCluster, rng: Random, lost: dict[bytes, str]) -> None:
        self.source = source
        self.lost = lost
        self.numbers: Counter[Tp] = Counter()
        self._cluster = cluster
        self._damaged: list[tuple[Entry, bytes, bytes]] = []  # with its bytes before, and the name of its message
        self._rng = rng

    def produce(self, topic: str, count: int) -> None:
        """So many messages into each partition that somebody could produce to."""
        for tp, replica in self._partitions(topic):
            if self._rng.random() < 0.2:
                replica.log.roll(self._cluster.now_ms())
            self._send(tp, self._set(tp, count))

    def produce_damaged(self, topic: str) -> None:
        """A message that the disk damages, between good ones."""
        for tp, replica in self._partitions(topic):
            self._send(tp, self._set(tp, 2))
            name = self._name(tp)
            end = replica.log.end
            self._send(tp, entry(b"d" * 30, name))
            if replica.log.end > end:
                stored = replica.log.entries[-1]
                data = bytearray(stored.data)
                data[CRC_AT[data[16]]] ^= 1
                self._damaged.append((stored, stored.data, name))
                stored.data = bytes(data)
                self.lost[name] = DAMAGED
            self._send(tp, self._set(tp, 2))

    def repair(self) -> None:
        """An operator gets what was damaged from elsewhere."""
        for stored, data, name in self._damaged:
            stored.data = data
            if self.lost.get(name) == DAMAGED:
                del self.lost[name]
        self._damaged.clear()

    def produce_large(self, topic: str) -> None:
        """A message that is too large for the target, between good ones."""
        for tp, _ in self._partitions(topic):
            self._send(tp, self._set(tp, 2))
            name = self._name(tp)
            self.lost[name] = "too large"
            self._send(tp, entry(b"L" * (MAX_BYTES + 5000), name))
            self._send(tp, self._set(tp, 2))

    def retain(self, topic: str) -> list[tuple[Tp, int]]:
        """Remove all segments but the last one; where each log begins now."""
        begins = []
        for tp, replica in self._partitions(topic):
            log = replica.log
            if len(log.segments) > 1 and log.hw >= log.segments[-1].base:
                log.drop_before(log.segments[-1].base, self._cluster.now_ms())
                begins.append((tp, log.start))
        return begins

    def _partitions(self, topic: str) -> list[tuple[Tp, Replica]]:
        """Those whose leader could be produced to."""
        found: list[tuple[Tp, Replica]] = []
        made = self._cluster.controller.topics.get(topic)
        if made is None or made.deleting:  # there was no controller, or no broker, to create it
            return found
        for number in range(len(made.partitions)):
            tp = topic, number
            broker = self._cluster.brokers.get(self._cluster.leader(tp))
            if broker is not None and broker.up and not broker.frozen and broker.leads(tp) is not None:
                found.append((tp, broker.replicas[tp]))
        return found

    def _send(self, tp: Tp, data: bytes) -> None:
        broker = self._cluster.brokers[self._cluster.leader(tp)]
        broker.append(tp, data, 1, 1000, lambda code, base: None, version=0)

    def _name(self, tp: Tp) -> bytes:
        self.numbers[tp] += 1
        number = self.numbers[tp]
        return f"{self.source}/{tp[0]}/{tp[1]}#{number}@{self._rng.randrange(KINDS)}".encode()

    def _set(self, tp: Tp, count: int) -> bytes:
        rng = self._rng
        values = (b"v" * 20, b"v" * 20, None, b"", b"l" * LARGE)
        pieces = [entry(rng.choice(values), self._name(tp)) for _ in range(count)]
        return gzipped(*pieces) if rng.random() < 0.3 else b"".join(pieces)
