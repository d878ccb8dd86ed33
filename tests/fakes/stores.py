"""Offset stores in memory: what is told per partition can be set, and what was written is seen in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from groundwork import clocks
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.store import NONE, Committed
from zkconsumer.session.lease import Lease, LeaseOver


def held() -> Lease:
    """A lease that holds for a minute."""
    lease = Lease(0.0)
    lease.beat_answered(clocks.moment(), 60.0)
    return lease


class MemoryOffsets:
    """An OffsetStore.  refuse[tp]: what commits of it are told; journal: (name, group, positions) of each commit."""

    def __init__(self, name: str = "memory", journal: list[tuple[str, str, dict[TopicPartition, int]]] | None = None):
        self.name = name
        self.held: dict[tuple[str, TopicPartition], Committed] = {}
        self.refuse: dict[TopicPartition, Exception] = {}
        self.away: ConsumerError | None = None
        self.journal = journal if journal is not None else []

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        if self.away is not None:
            raise self.away
        return {tp: self.held.get((group, tp), NONE) for tp in tps}

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        self.journal.append((self.name, group, dict(positions)))
        try:
            lease.check(clocks.moment())
        except LeaseOver as over:
            return dict.fromkeys(positions, over)
        for tp, at in positions.items():
            if tp not in self.refuse:
                self.held[group, tp] = at
        return {tp: self.refuse.get(tp) for tp in positions}
