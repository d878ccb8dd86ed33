"""Snapshot of one group: both stores, logs, topics, members.  Values only.

Offsets are three-valued (zkconsumer/offsets/store.py).  A partition without an offset node has none, because the whole
folder was listed.  A partition that was not requested from Kafka, or not answered, is Unknown: absent is not none.

The stores that the group uses follow from the snapshot (stores_of):

    members publish their modes     the stores of those modes: zookeeper, kafka, or both (dual, or several modes)
    no member publishes one         the stores that hold an offset of the group; an unreadable store may hold one
    neither store holds an offset   ZooKeeper where there is a session, else Kafka
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from groundwork.sentences import counted
from kafkawire.dialects import Store as StoreName
from kafkawire.model import BrokerPartition, PartitionId, TopicPartition
from zkconsumer.offsets.dual import ahead_of, larger
from zkconsumer.offsets.former import TopicCreation, committed_before, topic_in, written_before
from zkconsumer.offsets.modes import Mode
from zkconsumer.offsets.store import NONE, Committed, Unknown

ForeignKind = Literal["offset", "owner", "id", "folder"]


@dataclass(frozen=True, slots=True)
class ZkRow:
    """An offset node.  version: compared when it is written.  mzxid, czxid: last write and creation in ZooKeeper's
    order of all writes.
    """

    position: Committed
    version: int
    mzxid: int
    czxid: int
    mtime_ms: int


@dataclass(frozen=True, slots=True)
class KafkaRow:
    """An offset in Kafka's store.  committed_at_ms: if known (only from the records of __consumer_offsets)."""

    position: Committed
    metadata: str = ""
    committed_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TopicRow:
    """An existing topic.  partitions: empty if not known.  czxid, ctime_ms: creation of its node; None: unknown."""

    partitions: tuple[PartitionId, ...]
    czxid: int | None = None
    ctime_ms: int | None = None

    @property
    def creation(self) -> TopicCreation | None:
        """Return the topic's creation, if known."""
        if self.czxid is None or self.ctime_ms is None:
            return None
        return TopicCreation(self.czxid, self.ctime_ms)

    def has(self, partition: PartitionId) -> bool:
        """True if the partition exists."""
        if isinstance(partition, int) and partition < len(self.partitions) and self.partitions[partition] == partition:
            return True  # numbered 0, 1, 2 .. as nearly all are: no search through thousands
        return partition in self.partitions


@dataclass(frozen=True, slots=True)
class Foreign:
    """A node of the group that no Kafka of these releases writes; it is shown and never interpreted.

    kind: its apparent purpose.  topic: the topic whose offsets it may hold; None: unknown.
    """

    kind: ForeignKind
    path: str
    found: str
    text: str
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group in both stores at one moment.

    zookeeper      offset nodes under /consumers/GROUP/offsets
    kafka          the coordinator's response for every requested partition
    bounds         first offset and end of each log; absent: no leader answered
    stable         last stable offset, where it is before the end: a transaction that is not over begins there, and
                   members that read committed messages get no further
    topics         existing topics, at least those of the partitions above
    offset_path    nodes under /consumers/GROUP/offset, where brokers of 1.1.0 kept OffsetCommit v0
    foreign        nodes that are not understood
    members, owners    ids and owner nodes in ZooKeeper
    sessionless    paths of those that no session holds: they never go away by themselves
    kafka_members  members of a group of this name that Kafka coordinates; None: it cannot be asked (before 0.9)
    modes          of the members that publish one
    share          it is a share group: its offsets are where it begins, and are changed by share groups' own requests
    kafka_absent   __consumer_offsets does not exist, so Kafka holds nothing and got no request (which would create it)
    left_zookeeper a migration moved the group to Kafka: larger offsets in ZooKeeper are old
    """

    group: str
    zookeeper: Mapping[TopicPartition, ZkRow]
    kafka: Mapping[TopicPartition, KafkaRow]
    bounds: Mapping[TopicPartition, tuple[int, int]]
    topics: Mapping[str, TopicRow]
    _: KW_ONLY
    offset_path: Mapping[TopicPartition, ZkRow] = field(default_factory=dict)
    stable: Mapping[TopicPartition, int] = field(default_factory=dict)
    foreign: tuple[Foreign, ...] = ()
    members: tuple[str, ...] = ()
    owners: Mapping[TopicPartition, str] = field(default_factory=dict)
    sessionless: tuple[str, ...] = ()
    kafka_members: tuple[str, ...] | None = None
    modes: Mapping[str, Mode] = field(default_factory=dict)
    share: bool = False
    kafka_absent: bool = False
    left_zookeeper: bool = False
    read_at_ms: int = 0

    def in_kafka(self, tp: TopicPartition) -> KafkaRow:
        """Return Kafka's row, also for a partition that was not requested."""
        if self.kafka_absent:
            return KafkaRow(NONE)
        return self.kafka.get(tp) or KafkaRow(Unknown(f"Kafka did not answer for {tp} of group {self.group}"))

    def in_zookeeper(self, tp: TopicPartition) -> Committed:
        """Return the offset in ZooKeeper."""
        row = self.zookeeper.get(tp)
        return NONE if row is None else row.position

    def readable_end(self, tp: TopicPartition, there: Committed) -> int | None:
        """Return the offset up to which members at this offset read now, for the lag: the last stable offset; the end
        for members that are beyond it, who read transactions that are not over, too.  None: no leader answered."""
        bounds, stable = self.bounds.get(tp), self.stable.get(tp)
        if bounds is None:
            return None
        beyond = stable is None or (isinstance(there, int) and there > stable)
        return bounds[1] if beyond else stable

    def deleted(self, tp: TopicPartition) -> bool:
        """True if the cluster has no such partition (any more).  One of 0.7 is absent while its broker is, and counts
        as existing; so does one of a topic whose partitions are not known."""
        topic = self.topics.get(tp.topic)
        if isinstance(tp.partition, BrokerPartition):
            return False
        return topic is None or (bool(topic.partitions) and not topic.has(tp.partition))

    def former_stores(self, tp: TopicPartition) -> set[StoreName]:
        """Return the stores whose offset belongs to an earlier topic of the same name (zkconsumer.offsets.former)."""
        topic, node, row = self.topics.get(tp.topic), self.zookeeper.get(tp), self.in_kafka(tp)
        found: set[StoreName] = set()
        if topic is None:
            return found
        if node is not None and isinstance(node.position, int) and written_before(node.mzxid, topic.czxid):
            found.add("zookeeper")
        if not isinstance(row.position, int):
            return found
        read = topic_in(row.metadata)
        if read is not None and topic.czxid is not None:
            former = read.czxid != topic.czxid
        else:
            former = committed_before(row.committed_at_ms, topic.ctime_ms)
        return found | {"kafka"} if former else found

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions of the group's topics, sorted: those with an offset or an owner, and the others of
        their topics."""
        found = {*self.zookeeper, *self.kafka, *self.offset_path, *self.owners}
        topics = {tp.topic for tp in found} | {each.topic for each in self.foreign if each.topic is not None}
        for topic in topics & self.topics.keys():
            found |= {TopicPartition(topic, partition) for partition in self.topics[topic].partitions}
        return sorted(found, key=in_order)


def in_order(tp: TopicPartition) -> tuple[str, int, int, int]:
    """Sort key: topic and number, in 0.7 topic, broker and index."""
    if isinstance(tp.partition, int):
        return tp.topic, 0, tp.partition, 0
    return tp.topic, 1, tp.partition.broker, tp.partition.index


BOTH: tuple[StoreName, ...] = ("kafka", "zookeeper")  # in the order to write them


def stores_of(snapshot: GroupSnapshot, connected: bool = True) -> tuple[StoreName, ...]:
    """Return the stores to write so that members use the offset.  connected: to ZooKeeper."""
    modes = set(snapshot.modes.values())
    held: set[StoreName] = set()
    if modes:
        held = {store for store in BOTH if store in modes or "dual" in modes}
    else:
        if any(row.position is not NONE for row in snapshot.zookeeper.values()):
            held.add("zookeeper")
        if any(_may_hold(snapshot, tp, row.position) for tp, row in snapshot.kafka.items()):
            held.add("kafka")
    if not held:
        held.add("zookeeper" if connected else "kafka")
    return tuple(store for store in BOTH if store in held)


def _may_hold(snapshot: GroupSnapshot, tp: TopicPartition, there: Committed) -> bool:
    """True if Kafka has an offset, or did not answer.  For a deleted topic it never answers, whatever the group has."""
    if isinstance(there, Unknown) and snapshot.topics:
        return not snapshot.deleted(tp)
    return there is not NONE


def held_by(snapshot: GroupSnapshot, tp: TopicPartition, store: StoreName) -> Committed:
    """Return the offset in a store."""
    return snapshot.in_kafka(tp).position if store == "kafka" else snapshot.in_zookeeper(tp)


def counts(snapshot: GroupSnapshot, tp: TopicPartition, stores: tuple[StoreName, ...]) -> Committed:
    """Return the offset where members with these stores would start: the larger one, as in zkconsumer.offsets.dual."""
    if len(stores) == 1:
        return held_by(snapshot, tp, stores[0])
    kafka, zookeeper = held_by(snapshot, tp, "kafka"), held_by(snapshot, tp, "zookeeper")
    if snapshot.left_zookeeper and ahead_of(zookeeper, kafka):
        return kafka
    return larger(kafka, zookeeper)


def active_members(snapshot: GroupSnapshot) -> str | None:
    """Return a sentence about the group's members (ids and owners in ZooKeeper, members in Kafka); None without any."""
    foreign = [each.path for each in snapshot.foreign if each.kind == "owner"]
    there = [f"members {_some(snapshot.members)}"] if snapshot.members else []
    if snapshot.owners:
        there.append(
            f"owners of {counted(len(snapshot.owners), 'partition')}, {_some(sorted(set(snapshot.owners.values())))}"
        )
    if foreign:
        there.append(f"owner nodes of another client, {_some(foreign)}")
    if snapshot.kafka_members:
        there.append(f"members in Kafka, {_some(snapshot.kafka_members)}")
    if snapshot.sessionless:
        there.append(f"no session holds {_some(snapshot.sessionless)}: `zkconsumer groups unblock` deletes such nodes")
    return f"group {snapshot.group} is active: {'; '.join(there)}" if there else None


def _some(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
