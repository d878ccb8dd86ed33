"""The plan of a group, and of many: a decision for each partition, and what is left to write when it is carried out.

A plan's id is a hash of what it was made from and what it decided; the same stores and policies give the same id.  Ends
of logs are left out, because they move all the time.

Carrying out compares and sets: a partition whose stores are not as the plan saw them is stale, and nothing of the
group is written; one that holds its target is done.  So a copy that was killed anywhere is simply made again.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from typing import Any

from groupadmin.migrate.decision import Action, Direction, Policies, decide
from groupadmin.snapshot.model import Foreign, GroupSnapshot, KafkaRow, ZkRow
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.offsets.store import NONE, Committed, Unknown


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One partition of a plan: what was read, and what was decided (deciding.py).

    target: what the store that is written to is to hold; None: it is left alone.  An open row keeps its whole group
    from being copied; its why says what has to be decided.
    """

    tp: TopicPartition
    zookeeper: ZkRow | None
    kafka: KafkaRow
    bounds: tuple[int, int] | None
    action: Action
    target: int | None = None
    open: bool = False
    why: str = ""

    def held(self, store: StoreName) -> Committed:
        """What a store held when the plan was made."""
        if store == "kafka":
            return self.kafka.position
        return NONE if self.zookeeper is None else self.zookeeper.position


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What is to become of one group.  to_group: its name in Kafka.  plan_id: of this group alone."""

    group: str
    to_group: str
    direction: Direction
    rows: tuple[PlanRow, ...]
    foreign: tuple[Foreign, ...]
    members: tuple[str, ...]
    read_at_ms: int
    plan_id: str

    @property
    def goal(self) -> StoreName:
        """The store that is written to."""
        return "kafka" if self.direction == "to-kafka" else "zookeeper"

    @property
    def open_rows(self) -> list[PlanRow]:
        """What the operator has to decide first."""
        return [row for row in self.rows if row.open]

    @property
    def counts(self) -> dict[Action, int]:
        """Partitions by action."""
        return dict(Counter(row.action for row in self.rows))

    @property
    def written(self) -> list[PlanRow]:
        """The rows that a copy writes."""
        return [row for row in self.rows if not row.open and row.target not in (None, row.held(self.goal))]


@dataclass(frozen=True, slots=True)
class Plan:
    """Many groups planned together, sorted by name: one journal, one id."""

    plan_id: str
    direction: Direction
    policies: Policies
    cluster: str
    made_at_ms: int
    groups: tuple[GroupPlan, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """One number to be written.  version: of the node that is replaced, in ZooKeeper; None there: it must not exist."""

    store: StoreName
    tp: TopicPartition
    position: int
    before: Committed
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Stale:
    """A partition that moved since the plan was made; text says how."""

    tp: TopicPartition
    text: str


@dataclass(frozen=True, slots=True)
class Left:
    """What a plan has still to do.  With .stale nothing may be written.

    touches: what Kafka holds as planned, to be committed again with the rest: a position that was committed long ago,
    or is about to expire because it was taken away a moment before, would otherwise vanish after the copy.
    """

    writes: tuple[Write, ...]
    done: tuple[TopicPartition, ...]
    stale: tuple[Stale, ...]
    touches: tuple[Write, ...] = ()


def plan_group(snapshot: GroupSnapshot, policies: Policies, direction: Direction = "to-kafka") -> GroupPlan:
    """The plan of one group.  Raises nothing: what cannot be decided is an open row."""
    rows = []
    for tp in snapshot.partitions():
        found = decide(snapshot, tp, policies, direction)
        held = (snapshot.zookeeper.get(tp), snapshot.in_kafka(tp), snapshot.bounds.get(tp))
        rows.append(PlanRow(tp, *held, found.action, found.target, found.open, found.why))
    who = (snapshot.group, snapshot.to_group or snapshot.group, direction)
    plan = GroupPlan(*who, tuple(rows), snapshot.foreign, snapshot.members, snapshot.read_at_ms, "")
    return rehashed(plan, policies)


def rehashed(plan: GroupPlan, policies: Policies) -> GroupPlan:
    """The same plan with the id that it has by what it says."""
    foreign = [[each.path, each.found] for each in plan.foreign]
    inputs = [
        plan.group,
        plan.to_group,
        plan.direction,
        astuple(policies),
        foreign,
        [_inputs(row) for row in plan.rows],
    ]
    return replace(plan, plan_id=_hash(inputs))


def make_plan(groups: Iterable[GroupPlan], policies: Policies, direction: Direction, cluster: str, at_ms: int) -> Plan:
    """Many groups as one plan; cluster is whatever names it for the operator (zookeeper.connect)."""
    ordered = tuple(sorted(groups, key=lambda each: each.group))
    plan_id = _hash([cluster, direction, astuple(policies), [each.plan_id for each in ordered]])
    return Plan(plan_id, direction, policies, cluster, at_ms, ordered)


def _inputs(row: PlanRow) -> list[Any]:
    node = None if row.zookeeper is None else [row.zookeeper.version, row.zookeeper.mzxid, row.zookeeper.czxid]
    held = [_plain(row.held("zookeeper")), _plain(row.held("kafka"))]
    return [str(row.tp), node, *held, row.action, row.target, row.open]


def _plain(there: Committed) -> int | str:
    return there if isinstance(there, int) else "none" if there is NONE else "unreadable"


def _hash(inputs: object) -> str:
    return hashlib.sha256(json.dumps(inputs, separators=(",", ":")).encode()).hexdigest()[:16]


# carrying it out ------------------------------------------------------------------------------------------------------


def left_to_write(plan: GroupPlan, now: GroupSnapshot) -> Left:
    """What is still to be written, with the stores read anew.  Open rows are nowhere in it."""
    writes: list[Write] = []
    done: list[TopicPartition] = []
    stale: list[Stale] = []
    planned = {row.tp: row for row in plan.rows}
    for tp in now.partitions():
        if tp not in planned and (now.in_zookeeper(tp) is not NONE or now.in_kafka(tp).position is not NONE):
            stale.append(Stale(tp, f"{tp} has a position now, and the plan does not know it"))
    for row in plan.rows:
        if row.open:
            continue
        if row.action == "skip-missing-topic" and not _exists(now, row.tp):
            done.append(row.tp)  # and Kafka tells nothing of a partition that is not there
            continue
        moved = _moved(row, plan.goal, now)
        if moved:
            stale.append(Stale(row.tp, moved))
        elif row.target is None or _now(now, row.tp, plan.goal) == row.target:
            done.append(row.tp)
        else:
            version = row.zookeeper.version if plan.goal == "zookeeper" and row.zookeeper is not None else None
            writes.append(Write(plan.goal, row.tp, row.target, row.held(plan.goal), version))
    holding = {row.tp: row.target for row in plan.rows if row.target is not None and plan.goal == "kafka"}
    touches = tuple(Write("kafka", tp, holding[tp], holding[tp]) for tp in done if tp in holding)
    return Left(tuple(writes), tuple(done), tuple(stale), touches)


def missing(plan: GroupPlan, now: GroupSnapshot) -> list[str]:
    """A sentence for each partition that does not hold its target: how a copy is verified."""
    found = []
    for row in plan.rows:
        there = _now(now, row.tp, plan.goal)
        if row.target is not None and there != row.target:
            text = there.reason if isinstance(there, Unknown) else f"{plan.goal} holds {_plain(there)}"
            found.append(f"{row.tp} is to hold {row.target}: {text}")
    return found


def falls_behind(plan: GroupPlan) -> bool:
    """Whether the store that is written to held less than its target anywhere when the plan was made."""
    held = ((row.held(plan.goal), row.target) for row in plan.rows if row.target is not None)
    return any(there is NONE or (isinstance(there, int) and there < target) for there, target in held)


def _now(now: GroupSnapshot, tp: TopicPartition, store: StoreName) -> Committed:
    return now.in_kafka(tp).position if store == "kafka" else now.in_zookeeper(tp)


def _moved(row: PlanRow, goal: StoreName, now: GroupSnapshot) -> str:
    """How a partition is not as the plan saw it, or nothing.  What the goal holds by our own writing is as planned."""
    for store in ("zookeeper", "kafka"):
        there, was = _now(now, row.tp, store), row.held(store)
        if isinstance(there, Unknown):
            return f"{row.tp} in {store}: {there.reason}"
        if store == goal and row.target is not None and there == row.target:
            continue
        if there != was:
            return f"{row.tp} in {store} was {_plain(was)} and is {_plain(there)}"
        if store == "zookeeper" and _version(now.zookeeper.get(row.tp)) != _version(row.zookeeper):
            return f"{row.tp} in zookeeper holds {_plain(there)} as before, and was written again since"
    return ""


def _exists(now: GroupSnapshot, tp: TopicPartition) -> bool:
    topic = now.topics.get(tp.topic)
    return topic is not None and topic.has(tp.partition)


def _version(node: ZkRow | None) -> tuple[int, int] | None:
    return None if node is None else (node.version, node.czxid)
