"""The offsets of a group's member: in ZooKeeper, in Kafka or in both, and which of these may change while it runs.

    zookeeper   Kafka is never asked: the first question of all would create __consumer_offsets
    dual        DualOffsets: the larger counts, Kafka is written first
    kafka       Kafka alone; but where it has nothing, ZooKeeper is looked at before anything is taken for new: what it
                holds is left by a group that was not migrated, and is refused or copied, never passed over in silence

`mode` is changed by zkconsumer.offsets.modeswitch, under the lock of the commits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kafkawire.model import TopicPartition
from zkconsumer.offsets.dual import Bounds, DualOffsets
from zkconsumer.offsets.modes import MemberMode, Mode, StoreCommit, behind
from zkconsumer.offsets.store import NONE, Committed, OffsetStore, Unknown
from zkconsumer.session.lease import Lease


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """What became of the offsets that were given to one store: zookeeper or kafka; counted one by one.

    last: its last commit of which anything was accepted.
    """

    store: str
    accepted: int
    failed: int
    last: StoreCommit | None


@dataclass(frozen=True, slots=True)
class OffsetsStatus:
    """Where a member of a group commits to."""

    mode: Mode
    stores: tuple[StoreStatus, ...]


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


NOT_COPIED = (
    "it would begin by auto.offset.reset.  Start with offsets.migrate.on.start=copy, or with dual.commit.enabled=true,"
    " or copy them by `zkconsumer migrate`"
)


class GroupOffsets:
    """The store of a member.

    copy           where Kafka has nothing and ZooKeeper has: begin there (and the next commit writes it to Kafka)
    bounds, tell, left    as DualOffsets'; tell also says what was copied
    on_commit()    after each commit, whatever came of it; must not wait
    close()        of what leads to Kafka
    """

    def __init__(
        self,
        mode: Mode,
        zookeeper: OffsetStore,
        kafka: OffsetStore,
        copy: bool = False,
        bounds: Bounds = lambda tps: {},
        tell: Callable[[TopicPartition, str], object] = lambda tp, sentence: None,
        on_commit: Callable[[], object] = lambda: None,
        close: Callable[[], object] = lambda: None,
        left: Callable[[str], bool] = lambda group: False,
    ) -> None:
        self.mode: Mode = mode
        self.zookeeper = NotedOffsets(zookeeper)
        self.kafka = NotedOffsets(kafka)
        self.copy = copy
        self.close = close
        self.uneven: set[TopicPartition] = set()  # read, and one store lacks what the other has: to be committed soon
        self._dual = DualOffsets(self.kafka, self.zookeeper, bounds, tell, left)
        self._tell = tell
        self._on_commit = on_commit

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """As the mode says.  Raises ConsumerError when a store cannot be asked."""
        wanted = list(tps)
        mode = self.mode
        self.uneven.difference_update(wanted)
        if mode == "zookeeper":
            return self.zookeeper.read(group, wanted)
        if mode == "dual":
            found = self._dual.read(group, wanted)
            self.uneven |= self._dual.uneven
            return found
        found = self.kafka.read(group, wanted)
        missing = [tp for tp in wanted if found[tp] is NONE]
        left = self.zookeeper.read(group, missing) if missing else {}
        return found | {tp: self._not_migrated(group, tp, at) for tp, at in left.items()}

    def _not_migrated(self, group: str, tp: TopicPartition, at: Committed) -> Committed:
        """Kafka has nothing of it, ZooKeeper has this; a FormerOffset there is nothing that a migration left behind."""
        if not isinstance(at, int):
            return at
        if not self.copy:
            return Unknown(f"group {group}: ZooKeeper has {at} for {tp} and Kafka nothing: {NOT_COPIED}")
        self.uneven.add(tp)
        self._tell(tp, f"group {group}, {tp}: Kafka has nothing, so {at} is taken over from ZooKeeper")
        return at

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """To the store or stores of the mode: all of these to Kafka, what moved to ZooKeeper."""
        stores: dict[Mode, OffsetStore] = {"zookeeper": self.zookeeper, "kafka": self.kafka, "dual": self._dual}
        store = stores[self.mode]
        try:
            results = store.commit(group, positions, lease)
        finally:
            self._on_commit()
        self.uneven.difference_update(tp for tp, why in results.items() if why is None)
        return results

    def lacking(self, group: str, tps: Iterable[TopicPartition], mode: Mode) -> dict[TopicPartition, str]:
        """Partitions that may not go on in a mode, and why: the store that is to count alone lacks what the other has.

        The other one is read first, so that a commit under way (Kafka first) is no difference in that direction.
        Raises ConsumerError.
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
        """A commit needs the coordinator."""
        return self.mode != "zookeeper"

    @property
    def shown(self) -> MemberMode:
        """What the member's mode node is to say."""
        return MemberMode(self.mode, self.zookeeper.last, self.kafka.last)

    @property
    def status(self) -> OffsetsStatus:
        """What a user, and metrics, see."""
        named = (("zookeeper", self.zookeeper), ("kafka", self.kafka))
        rows = tuple(StoreStatus(name, one.accepted, one.failed, one.last) for name, one in named)
        return OffsetsStatus(self.mode, rows)
