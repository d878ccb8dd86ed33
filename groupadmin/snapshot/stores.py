"""Which stores a group keeps, and whether anybody is in it: read off a snapshot.  Pure.

its members tell their modes      those: zookeeper, kafka, or both (dual, or members of several modes)
nobody tells                      the stores that hold a position of it; a store that cannot be read may hold one
neither holds anything            ZooKeeper where we are connected to it, else Kafka
"""

from __future__ import annotations

from groundwork.plural import counted
from groupadmin.snapshot.model import GroupSnapshot
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.offsets.dual import ahead_of, larger
from zkconsumer.offsets.store import NONE, Committed, Unknown

BOTH: tuple[StoreName, ...] = ("kafka", "zookeeper")  # in the order to write them


def stores_of(snapshot: GroupSnapshot, connected: bool = True) -> tuple[StoreName, ...]:
    """The stores that have to be written so that a position counts.  connected: to ZooKeeper."""
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
    """Whether Kafka has a position, or did not tell.  Of a deleted topic it never tells, whatever the group keeps."""
    if isinstance(there, Unknown) and snapshot.topics:
        row = snapshot.topics.get(tp.topic)
        return row is not None and row.has(tp.partition)
    return there is not NONE


def held_by(snapshot: GroupSnapshot, tp: TopicPartition, store: StoreName) -> Committed:
    """What a store holds."""
    return snapshot.in_kafka(tp).position if store == "kafka" else snapshot.in_zookeeper(tp)


def counts(snapshot: GroupSnapshot, tp: TopicPartition, stores: tuple[StoreName, ...]) -> Committed:
    """Where members that keep these stores would begin: the larger of both, as zkconsumer.offsets.dual has it."""
    if len(stores) == 1:
        return held_by(snapshot, tp, stores[0])
    kafka, zookeeper = held_by(snapshot, tp, "kafka"), held_by(snapshot, tp, "zookeeper")
    if snapshot.left_zookeeper and ahead_of(zookeeper, kafka):
        return kafka
    return larger(kafka, zookeeper)


def who_is_there(snapshot: GroupSnapshot) -> str | None:
    """A sentence about who is in the group, None for nobody: ids and owners in ZooKeeper, members in Kafka."""
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
    return f"group {snapshot.group} is active: {'; '.join(there)}" if there else None


def _some(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
