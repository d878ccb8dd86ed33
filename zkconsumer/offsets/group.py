"""Offset store of a group member: ZooKeeper, Kafka or both; the mode may change while it runs.

    zookeeper   Kafka is never asked: the first request of all would create __consumer_offsets
    dual        DualOffsets: the larger counts, Kafka is written first
    kafka       only Kafka; but if it has no offset, ZooKeeper is read before a partition counts as new: an offset
                there was left by a group that was not migrated, and is refused or copied, never silently ignored

zkconsumer.offsets.modeswitch changes `mode`, under the lock of the commits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from kafkawire.model import TopicPartition
from zkconsumer.offsets.dual import DualOffsets
from zkconsumer.offsets.modes import MemberMode, Mode, StoreCommit, behind
from zkconsumer.offsets.store import NONE, Bounds, Committed, OffsetStore, Unknown
from zkconsumer.session.lease import Lease


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """Counters of one store, zookeeper or kafka: offsets accepted and failed, counted one by one.

    last: its last commit with an accepted offset.
    """

    store: str
    accepted: int
    failed: int
    last: StoreCommit | None


@dataclass(frozen=True, slots=True)
class OffsetsStatus:
    """Offset mode of a group member, and the counters of both stores."""

    mode: Mode
    stores: tuple[StoreStatus, ...]


class CountedOffsets:
    """Wrapper of another store that counts; .last: its last commit with an accepted offset, or None.

    accepted, failed: number of offsets so far.
    """

    def __init__(self, store: OffsetStore, clock_ms: Callable[[], int] = lambda: int(time.time() * 1000)) -> None:
        """clock_ms: ms since the epoch."""
        self.last: StoreCommit | None = None
        self.accepted = self.failed = 0
        self._store = store
        self._clock_ms = clock_ms

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Read offsets from the other store."""
        return self._store.read(group, tps)

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """Commit offsets to the other store, and count the results."""
        results = self._store.commit(group, positions, lease)
        accepted = sum(why is None for why in results.values())
        self.accepted += accepted
        self.failed += len(results) - accepted
        if accepted:
            self.last = StoreCommit(self._clock_ms(), accepted)
        return results


ReadBeside = Callable[[str, Mapping[TopicPartition, int], bool], Mapping[TopicPartition, Committed]]

NOT_COPIED = (
    "it would begin by auto.offset.reset.  Start with offsets.migrate.on.start=copy, or with dual.commit.enabled=true,"
    " or copy them by `zkconsumer migrate`"
)


class GroupOffsets:
    """Offset store of one member.

    copy           if Kafka has no offset and ZooKeeper has one: start there (the next commit writes it to Kafka)
    bounds, report, left_zookeeper    see DualOffsets; report is also called for copied offsets
    on_commit()    called after each commit, even a failed one; must not wait
    close()        closes the connections to Kafka for good
    cut()          closes them for now: a commit in flight is cut off, and has an unknown outcome
    deleted        see ZookeeperOffsets.deleted
    read_beside    see KafkaOffsets.read_beside: asks Kafka again about offsets that only ZooKeeper has
    """

    def __init__(
        self,
        mode: Mode,
        zookeeper: OffsetStore,
        kafka: OffsetStore,
        *,
        copy: bool = False,
        bounds: Bounds = lambda committed: {},
        report: Callable[[TopicPartition, str], object] = lambda tp, sentence: None,
        on_commit: Callable[[], object] = lambda: None,
        close: Callable[[], object] = lambda: None,
        cut: Callable[[], object] = lambda: None,
        left_zookeeper: Callable[[str], bool] = lambda group: False,
        deleted: Callable[[str, Iterable[TopicPartition]], Collection[TopicPartition]] = lambda group, tps: (),
        read_beside: ReadBeside = lambda group, there, others: {},
    ) -> None:
        self.mode: Mode = mode
        self.zookeeper = CountedOffsets(zookeeper)
        self.kafka = CountedOffsets(kafka)
        self.copy = copy
        self.close = close
        self.cut = cut
        self.out_of_sync: set[TopicPartition] = set()  # differed in the stores: to be committed soon
        self._dual = DualOffsets(
            self.kafka, self.zookeeper, bounds=bounds, report=report, left_zookeeper=left_zookeeper
        )
        self._report = report
        self._on_commit = on_commit
        self._deleted = deleted
        self._read_beside = read_beside

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Read by the current mode.  Raises ConsumerError if a store cannot be asked."""
        wanted = list(tps)
        mode = self.mode
        self.out_of_sync.difference_update(wanted)
        if mode == "zookeeper":
            return self.zookeeper.read(group, wanted)
        if mode == "dual":
            found = self._dual.read(group, wanted)
            self.out_of_sync |= self._dual.out_of_sync
            return found
        found = self.kafka.read(group, wanted)
        missing = [tp for tp in wanted if found[tp] is NONE]
        left = self.zookeeper.read(group, missing) if missing else {}
        others = any(isinstance(at, int) for at in found.values())
        found |= left
        there = {tp: at for tp, at in left.items() if isinstance(at, int)}
        again = self._read_beside(group, there, others) if there else {}
        for tp, at in there.items():
            kafka = again.get(tp, NONE)
            found[tp] = self._not_migrated(group, tp, at) if kafka is NONE else kafka
        return found

    def _not_migrated(self, group: str, tp: TopicPartition, at: int) -> Committed:
        """Return the result if Kafka has no offset and ZooKeeper has this one."""
        if not self.copy:
            return Unknown(f"group {group}: ZooKeeper has {at} for {tp} and Kafka nothing: {NOT_COPIED}")
        self.out_of_sync.add(tp)
        self._report(tp, f"group {group}, {tp}: Kafka has no offset, so {at} is copied from ZooKeeper")
        return at

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """Commit to the store or stores of the mode: all offsets to Kafka, moved ones to ZooKeeper."""
        stores: dict[Mode, OffsetStore] = {"zookeeper": self.zookeeper, "kafka": self.kafka, "dual": self._dual}
        store = stores[self.mode]
        try:
            results = store.commit(group, positions, lease)
        finally:
            self._on_commit()
        self.out_of_sync.difference_update(tp for tp, why in results.items() if why is None)
        return results

    def deleted(self, group: str, tps: Iterable[TopicPartition]) -> Collection[TopicPartition]:
        """Return partitions whose offset node was deleted under this member; the next commit writes it again.  Raises
        ZooKeeperAway."""
        return () if self.mode == "kafka" else self._deleted(group, tps)

    def missing_offsets(self, group: str, tps: Iterable[TopicPartition], mode: Mode) -> dict[TopicPartition, str]:
        """Return partitions that may not switch to a mode, with the reasons: the store that will count lacks offsets of
        the other.

        The other one is read first, so that a commit in progress (Kafka first) does not look like a difference.  Raises
        ConsumerError.
        """
        wanted = list(tps)
        if mode == "kafka":
            zookeeper = self.zookeeper.read(group, wanted)
            kafka = self.kafka.read(group, wanted)
        else:
            kafka = self.kafka.read(group, wanted)
            zookeeper = self.zookeeper.read(group, wanted)
        said = {tp: behind(mode, kafka[tp], zookeeper[tp]) for tp in wanted}
        return {tp: why for tp, why in said.items() if why is not None}

    @property
    def in_kafka(self) -> bool:
        """True if a commit needs the coordinator."""
        return self.mode != "zookeeper"

    @property
    def published(self) -> MemberMode:
        """Return the content of the member's mode node."""
        return MemberMode(self.mode, self.zookeeper.last, self.kafka.last)

    @property
    def status(self) -> OffsetsStatus:
        """Return mode and counters, for users and metrics."""
        named = (("zookeeper", self.zookeeper), ("kafka", self.kafka))
        rows = tuple(StoreStatus(name, one.accepted, one.failed, one.last) for name, one in named)
        return OffsetsStatus(self.mode, rows)
