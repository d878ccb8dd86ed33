"""What a step writes, as orders for the stores, and the file that undoes them.  Pure.

    copy, cutover, return-copy    what the plan says and the store does not hold; what Kafka holds is committed again
    return-dual                   idle partitions, which nobody else brings up to date in ZooKeeper
    roll-back of a copy           what Kafka held before, where it still holds what was copied

The undo file has the state before of what a plan writes, of the store that is written: taken from the plan, so that it
says the same after a copy that was killed half way and made again.
"""

from __future__ import annotations

from collections.abc import Iterable

from groupadmin.apply.writes import Order
from groupadmin.files.model import OffsetsFile, ZnodeState
from groupadmin.migrate.rules.groupplan import GroupPlan, Left, Write
from groupadmin.plan.changes import Change
from groupadmin.plan.undo import undo_file
from groupadmin.snapshot.model import GroupSnapshot
from zkconsumer.offsets.store import NONE, Unknown


def copying(plan: GroupPlan, left: Left) -> list[Order]:
    """What is left of a plan; positions that Kafka holds already are committed again with the rest."""
    rows = {row.tp: row for row in plan.rows}
    found = []
    for write in (*left.writes, *left.touches):
        row = rows[write.tp]
        if write.store == "kafka":
            found.append(
                Order(plan.to_group, write.tp, "kafka", write.position, held=row.kafka, text=row.kafka.metadata)
            )
        else:
            found.append(Order(plan.group, write.tp, "zookeeper", write.position, node=row.zookeeper))
    return found


def idle(plan: GroupPlan, writes: Iterable[Write], now: GroupSnapshot) -> list[Order]:
    """looks.idle_behind, for ZooKeeper."""
    return [Order(plan.group, w.tp, "zookeeper", w.position, node=now.zookeeper.get(w.tp)) for w in writes]


def taking_back(plan: GroupPlan, now: GroupSnapshot) -> tuple[list[Order], list[str]]:
    """Kafka as it was before the copy; and a sentence for each partition that is left because it moved since."""
    orders, left = [], []
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
            orders.append(Order(plan.to_group, row.tp, "kafka", position, held=there, text=row.kafka.metadata))
    return orders, left


def before(plan: GroupPlan, cluster: str, at_ms: int) -> OffsetsFile:
    """The file that `zkconsumer offsets import` puts back, of what the plan writes."""
    name = plan.to_group if plan.goal == "kafka" else plan.group
    rows = plan.written
    changes = [
        Change(name, row.tp, {plan.goal: row.held(plan.goal)}, row.target, row.bounds, "write", stores=(plan.goal,))
        for row in rows
    ]
    nodes = {
        (name, row.tp): ZnodeState(node.position, node.mzxid, node.version, node.mtime_ms)
        for row in rows
        if (node := row.zookeeper) is not None and isinstance(node.position, int)
    }
    texts = {(name, row.tp): row.kafka.metadata for row in rows}
    return undo_file(changes, cluster, at_ms, nodes, texts)


def idle_before(plan: GroupPlan, orders: Iterable[Order], cluster: str, at_ms: int) -> OffsetsFile:
    """The same for idle partitions."""
    changes, nodes = [], {}
    for order in orders:
        held = NONE if order.node is None else order.node.position
        changes.append(
            Change(plan.group, order.tp, {"zookeeper": held}, order.position, None, "write", stores=("zookeeper",))
        )
        if order.node is not None and isinstance(held, int):
            node = order.node
            nodes[plan.group, order.tp] = ZnodeState(held, node.mzxid, node.version, node.mtime_ms)
    return undo_file(changes, cluster, at_ms, nodes)
