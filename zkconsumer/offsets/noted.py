"""An offset store that remembers its last commit, for the node in which a member shows where it commits to.

kafka, zookeeper = NotedOffsets(kafka), NotedOffsets(zookeeper)
store = DualOffsets(kafka, zookeeper)
MemberMode("dual", zookeeper.last, kafka.last)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from kafkawire.model import TopicPartition
from zkconsumer.offsets.modes import StoreCommit
from zkconsumer.offsets.store import Committed, OffsetStore
from zkconsumer.session.lease import Lease


class NotedOffsets:
    """Another store; .last is its last commit of which anything was accepted, None before there is one.

    accepted, failed: how many offsets so far.
    """

    def __init__(self, store: OffsetStore, clock_ms: Callable[[], int] = lambda: int(time.time() * 1000)) -> None:
        """clock_ms: ms since the epoch."""
        self.last: StoreCommit | None = None
        self.accepted = self.failed = 0
        self._store = store
        self._clock_ms = clock_ms

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """As the other store."""
        return self._store.read(group, tps)

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """As the other store."""
        results = self._store.commit(group, positions, lease)
        accepted = sum(why is None for why in results.values())
        self.accepted += accepted
        self.failed += len(results) - accepted
        if accepted:
            self.last = StoreCommit(self._clock_ms(), accepted)
        return results
