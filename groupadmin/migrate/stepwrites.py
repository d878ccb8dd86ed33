"""Writes of a step to the stores, and the undo file for them.  Pure.

    copy, cutover, return-copy    the plan's targets that the store does not hold; those that Kafka holds are committed
                                  again
    return-dual                   idle partitions, which members do not bring up to date in ZooKeeper
    roll-back of a copy           the offsets that Kafka held before, where it still holds the copied ones

The undo file has the previous state of the partitions that the plan writes.  It is taken from the plan, so that it is
the same after a copy that was killed and repeated.
"""

from __future__ import annotations

from collections.abc import Iterable

from groupadmin.apply.writes import StoreWrite
from groupadmin.files.model import OffsetsFile, ZnodeState
from groupadmin.migrate.rules.groupplan import GroupPlan, Left, Write
from groupadmin.plan.changes import Change
from groupadmin.plan.undo import undo_file
from groupadmin.snapshot.model import GroupSnapshot
from zkconsumer.offsets.store import NONE, Unknown


def copying(plan: GroupPlan, left: Left) -> list[StoreWrite]:
    """Return the remaining writes of a plan; offsets that Kafka holds already are committed again with them."""
    rows = {row.tp: row for row in plan.rows}
    found = []
    for write in (*left.writes, *left.touches):
        row = rows[write.tp]
        if write.store == "kafka":
            found.append(
                StoreWrite(plan.group, write.tp, "kafka", write.position, held=row.kafka, text=row.kafka.metadata)
            )
        else:
            found.append(StoreWrite(plan.group, write.tp, "zookeeper", write.position, node=row.zookeeper))
    return found


def idle(plan: GroupPlan, writes: Iterable[Write], now: GroupSnapshot) -> list[StoreWrite]:
    """Writes of comparison.idle_behind to ZooKeeper."""
    return [StoreWrite(plan.group, w.tp, "zookeeper", w.position, node=now.zookeeper.get(w.tp)) for w in writes]


def taking_back(plan: GroupPlan, now: GroupSnapshot) -> tuple[list[StoreWrite], list[str]]:
    """Writes that restore Kafka's state before the copy, and a sentence for each partition that has moved since."""
    writes, left = [], []
    for row in plan.written:
        there, before = now.in_kafka(row.tp), row.kafka.position
        if there.position == before or (there.position is NONE and before is NONE):
            continue
        if isinstance(there.position, Unknown):
            left.append(f"{row.tp} is left in Kafka as it is: {there.position.reason}")
        elif there.position != row.target:
            left.append(f"{row.tp} is left in Kafka as it is: it moved to {there.position} since the copy")
        else:
            position = before if isinstance(before, int) else None
            writes.append(StoreWrite(plan.group, row.tp, "kafka", position, held=there, text=row.kafka.metadata))
    return writes, left


def before(plan: GroupPlan, cluster: str, at_ms: int) -> OffsetsFile:
    """Return the undo file of the plan's writes, for `zkconsumer offsets import`."""
    name, rows = plan.group, plan.written
    changes = [
        Change(
            name,
            row.tp,
            {plan.goal: row.held(plan.goal)},
            row.target,
            bounds=row.bounds,
            action="write",
            stores=(plan.goal,),
        )
        for row in rows
    ]
    nodes = {
        (name, row.tp): ZnodeState(node.position, node.mzxid, node.version, node.mtime_ms)
        for row in rows
        if (node := row.zookeeper) is not None and isinstance(node.position, int)
    }
    texts = {(name, row.tp): row.kafka.metadata for row in rows}
    return undo_file(changes, cluster, at_ms, znodes=nodes, metadata=texts)


def idle_before(plan: GroupPlan, writes: Iterable[StoreWrite], cluster: str, at_ms: int) -> OffsetsFile:
    """Return the undo file of writes for idle partitions."""
    changes, nodes = [], {}
    for write in writes:
        held = NONE if write.node is None else write.node.position
        changes.append(
            Change(
                plan.group,
                write.tp,
                {"zookeeper": held},
                write.position,
                bounds=None,
                action="write",
                stores=("zookeeper",),
            )
        )
        if write.node is not None and isinstance(held, int):
            node = write.node
            nodes[plan.group, write.tp] = ZnodeState(held, node.mzxid, node.version, node.mtime_ms)
    return undo_file(changes, cluster, at_ms, znodes=nodes)
