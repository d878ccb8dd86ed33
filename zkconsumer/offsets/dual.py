r"""Offsets in both stores, for a group that moves from ZooKeeper to Kafka, or back: members of either kind may run.

    read     the larger of the two.  If it is outside the log it is used all the same: the fetch finds it out of
             range, and auto.offset.reset decides.  (The smaller may belong to a topic that was created again, or may
             be weeks old; that is unknown, so nothing is adjusted silently: it is reported.)
             If a migration has taken the group off ZooKeeper, Kafka's counts even if it is smaller: every commit
             since then went to Kafka first, so the larger one is from before a seek, or of a topic created again
    commit   Kafka first, then ZooKeeper for what Kafka accepted.  So our commits never put ZooKeeper ahead of Kafka,
             and a crash between the two makes a member that only reads ZooKeeper read one commit interval twice

    Kafka \ ZooKeeper   none     20       unreadable
    none                 none     20       Unknown
    70                   70       70       Unknown
    error, left out      Unknown  Unknown  Unknown       the JVM uses ZooKeeper's here, and resets if there is none

Kafka is given every partition each time (idle ones would expire), ZooKeeper writes only what moved; each store does so
by itself.  The stores are called one after the other, in the caller's thread or greenlet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from groundwork.failpoints import failpoint
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.store import NONE, Bounds, Committed, FormerOffset, OffsetStore, Unknown
from zkconsumer.refusals import may_be_written
from zkconsumer.session.lease import Lease

BETWEEN = "between kafka and zookeeper commit"


class HalfWritten(ConsumerError):
    """Kafka has the new offset, or may have it, and ZooKeeper does not; .tp, .position, the reason as __cause__."""

    def __init__(self, group: str, tp: TopicPartition, position: int, why: Exception, *, certain: bool = True) -> None:
        what = "was written to Kafka and not" if certain else "may be written to Kafka and was not written"
        super().__init__(
            f"group {group}, {tp}: {position} {what} to ZooKeeper ({why}); as long as they "
            "differ the larger of the two counts: write both again"
        )
        self.tp = tp
        self.position = position
        self.__cause__ = why


class DualOffsets:
    """Offset store for `offsets.storage=kafka` with `dual.commit.enabled`."""

    def __init__(
        self,
        kafka: OffsetStore,
        zookeeper: OffsetStore,
        *,
        bounds: Bounds = lambda committed: {},
        report: Callable[[TopicPartition, str], object] = lambda tp, sentence: None,
        left_zookeeper: Callable[[str], bool] = lambda group: False,
    ) -> None:
        """bounds: called for partitions whose stores disagree.  report(tp, sentence): called if such an offset is out
        of range, or does not count.  left_zookeeper(group): True if a migration has taken the group off ZooKeeper;
        called if ZooKeeper has the larger one."""
        self.out_of_sync: frozenset[TopicPartition] = frozenset()  # partitions whose stores differed when last read
        self._kafka = kafka
        self._zookeeper = zookeeper
        self._bounds = bounds
        self._report = report
        self._left_zookeeper = left_zookeeper

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return the larger of both, see above.  Raises ConsumerError if one of the stores cannot be read."""
        wanted = list(tps)
        kafka = self._kafka.read(group, wanted)
        zookeeper = self._zookeeper.read(group, wanted)
        self.out_of_sync = frozenset(tp for tp in wanted if kafka[tp] != zookeeper[tp])
        old = self._old(group, kafka, zookeeper)
        differ = {
            tp: at
            for tp in wanted
            if tp not in old
            and disagree(kafka[tp], zookeeper[tp])
            and isinstance(at := larger(kafka[tp], zookeeper[tp]), int)
        }
        bounds = self._bounds(differ) if differ else {}
        for tp in differ:
            problem = out_of_range(tp, kafka[tp], zookeeper[tp], bounds.get(tp))
            if problem is not None:
                self._report(tp, f"group {group}, {problem}")
        return {tp: kafka[tp] if tp in old else larger(kafka[tp], zookeeper[tp]) for tp in wanted}

    def _old(
        self, group: str, kafka: Mapping[TopicPartition, Committed], zookeeper: Mapping[TopicPartition, Committed]
    ) -> set[TopicPartition]:
        """Return partitions for which ZooKeeper has a larger offset than Kafka, from before the group left it."""
        ahead = {tp: (at, there) for tp, at in kafka.items() if ahead_of(there := zookeeper[tp], at)}
        if not ahead or not self._left_zookeeper(group):
            return set()
        for tp, (at, there) in ahead.items():
            self._report(
                tp,
                f"group {group}, {tp}: ZooKeeper has {there}, from before a migration took the group off it, and Kafka "
                f"{at}: that is where it begins",
            )
        return set(ahead)

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """Commit to both; return None per partition if both have it, else the reason of the first failure."""
        results = dict(self._kafka.commit(group, positions, lease))
        accepted = {tp: at for tp, at in positions.items() if results[tp] is None}
        if accepted:
            failpoint(BETWEEN)
            results |= self._zookeeper.commit(group, accepted, lease)
        return results

    def write_both(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """Set offsets for an operator (seek, reset), also to smaller ones: in both stores, since the larger would win.

        Return None per partition, HalfWritten, or why neither has it.
        """
        results = dict(self._kafka.commit(group, positions, lease))
        accepted = {tp: at for tp, at in positions.items() if results[tp] is None}
        if accepted:
            failpoint(BETWEEN)
            for tp, why in self._zookeeper.commit(group, accepted, lease).items():
                results[tp] = HalfWritten(group, tp, positions[tp], why) if why is not None else None
        for tp, error in results.items():
            if error is not None and may_be_written(error):
                results[tp] = HalfWritten(group, tp, positions[tp], error, certain=False)
        return results


def larger(kafka: Committed, zookeeper: Committed) -> Committed:
    """Return where to begin: Unknown if one cannot be read, because it may be the larger one."""
    if isinstance(kafka, Unknown):
        return kafka
    if isinstance(zookeeper, Unknown):
        return zookeeper
    if kafka is NONE or zookeeper is NONE:
        return zookeeper if kafka is NONE else kafka
    if isinstance(kafka, FormerOffset):
        return zookeeper
    return kafka if isinstance(zookeeper, FormerOffset) else max(kafka, zookeeper)


def ahead_of(one: Committed, other: Committed) -> bool:
    """True if both stores hold an offset and the first is larger."""
    return isinstance(one, int) and isinstance(other, int) and one > other


def disagree(kafka: Committed, zookeeper: Committed) -> bool:
    """True if both stores hold an offset and they differ."""
    return isinstance(kafka, int) and isinstance(zookeeper, int) and kafka != zookeeper


def out_of_range(
    tp: TopicPartition, kafka: Committed, zookeeper: Committed, bounds: tuple[int, int] | None
) -> str | None:
    """Return a sentence if the larger offset is outside the log (first offset, end), else None."""
    at = larger(kafka, zookeeper)
    if bounds is None or not isinstance(at, int) or bounds[0] <= at <= bounds[1]:
        return None
    return (
        f"{tp}: Kafka has {kafka} and ZooKeeper {zookeeper}, but the log holds {bounds[0]} to {bounds[1]}: "
        "auto.offset.reset decides where to begin; if the topic was created again, set both stores"
    )
