"""Plan of a group, or of many groups: a decision for each partition, and the writes that are left.  Pure.

    copy                one store has an offset, the other has none: it is copied
    equal               both stores hold the same
    keep-kafka          only Kafka has an offset, in a migration to Kafka: it stays; keep-zookeeper: the same on the way
                        back
    conflict            both stores have one and they differ: decided by policy (max, zookeeper, kafka), or open
    out-of-range        the offset to write is outside the log, or belongs to a log that was deleted
    unreadable          an offset in either store cannot be read, or has a foreign form: open
    skip-no-offset      neither store has one: auto.offset.reset decides, as before
    skip-missing-topic  the topic or partition does not exist any more

The maximum is taken only of offsets inside the log: the larger number may belong to a deleted log.

An offset node whose last write (mzxid) is older than its topic's node (czxid) belongs to an earlier topic of that name.
For Kafka's store only clocks can show that (commit time before the topic's ctime): such an offset is used only with a
conflict policy that says so.

A plan's id is a hash of its input and its decisions; the same stores and policies give the same id.  Log end offsets
are not part of it, because they move all the time.  A plan is applied by compare and set: a partition whose stores have
changed since the plan is stale, and nothing of its group is written; one that holds its target is done.  So a copy that
was killed at any point can simply be repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import KW_ONLY, astuple, dataclass, replace
from typing import Any, Literal

from groupadmin.plan.changes import in_range
from groupadmin.snapshot.model import Foreign, GroupSnapshot, KafkaRow, ZkRow
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.offsets.former import topic_in
from zkconsumer.offsets.store import NONE, Committed, Unknown

Action = Literal[
    "copy",
    "equal",
    "keep-kafka",
    "keep-zookeeper",
    "conflict",
    "out-of-range",
    "unreadable",
    "skip-no-offset",
    "skip-missing-topic",
]
Direction = Literal["to-kafka", "to-zookeeper"]
Bounds = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies for partitions that need a decision; refuse leaves them open.

    recreated: trust accepts offsets that seem to belong to an earlier topic of the same name (they also do after
    ZooKeeper's nodes were copied from another ZooKeeper).
    """

    conflict: Literal["refuse", "max", "zookeeper", "kafka"] = "refuse"
    out_of_range: Literal["refuse", "clamp", "skip"] = "refuse"
    recreated: Literal["refuse", "trust"] = "refuse"


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision about one partition.

    target: the offset to write; None: the store is left alone.  open: the operator has to decide.  why: a sentence,
    empty for the ordinary cases.
    """

    action: Action
    target: int | None = None
    open: bool = False
    why: str = ""


def decide(snapshot: GroupSnapshot, tp: TopicPartition, policies: Policies, direction: Direction) -> Decision:
    """Decide about one partition of a group."""
    topic = snapshot.topics.get(tp.topic)
    if snapshot.deleted(tp):
        missing = f"topic {tp.topic} does not exist" if topic is None else f"{tp} does not exist"
        return Decision("skip-missing-topic", why=f"{missing}; its offsets are left where they are")
    if topic is not None and not topic.partitions:
        unknown = f"the partitions of topic {tp.topic} are not known: its node cannot be read, and no broker tells them"
        return Decision("unreadable", open=True, why=unknown)
    unreadable = _unreadable(snapshot, tp)
    if unreadable:
        return Decision("unreadable", open=True, why=unreadable)
    odd, contradicts = _offset_path(snapshot, tp)
    if contradicts:
        return Decision("conflict", open=True, why=odd)
    held = _held(snapshot, tp)
    former = _former(snapshot, tp, held) if policies.recreated == "refuse" else {}
    decision = _chosen(tp, held, former, bounds=snapshot.bounds.get(tp), policies=policies, direction=direction)
    return Decision(decision.action, decision.target, decision.open, _and(decision.why, odd))


def _unreadable(snapshot: GroupSnapshot, tp: TopicPartition) -> str:
    """Return why an offset cannot be determined; empty if it can."""
    held = {"ZooKeeper": snapshot.in_zookeeper(tp), "Kafka": snapshot.in_kafka(tp).position}
    unread = [f"{store}: {there.reason}" for store, there in held.items() if isinstance(there, Unknown)]
    if unread or held["ZooKeeper"] is not NONE:
        return "; ".join(unread)
    for each in snapshot.foreign:
        if each.kind == "offset" and each.topic == tp.topic:
            return f"{each.path} holds {each.found!r}, {each.text}; {_set_by_hand(snapshot, tp)}"
    return ""


def _offset_path(snapshot: GroupSnapshot, tp: TopicPartition) -> tuple[str, bool]:
    """Return a sentence about the node under /offset, if there is one, and whether it is newer with another offset."""
    odd, usual = snapshot.offset_path.get(tp), snapshot.zookeeper.get(tp)
    if odd is None:
        return "", False
    text = f"/consumers/{snapshot.group}/offset/{tp} (where brokers of 1.1.0 kept it) holds "
    text += str(odd.position) if isinstance(odd.position, int) else "no number"
    if usual is not None and (usual.position == odd.position or usual.mzxid > odd.mzxid):
        return f"{text} and is not used", False
    return f"{text} and is newer than what /offsets says; {_set_by_hand(snapshot, tp)}", True


def _set_by_hand(snapshot: GroupSnapshot, tp: TopicPartition) -> str:
    return f"set the right one: zkconsumer offsets set --group {snapshot.group} {tp.topic}:{tp.partition}=POSITION"


# numbers --------------------------------------------------------------------------------------------------------------


def _held(snapshot: GroupSnapshot, tp: TopicPartition) -> dict[str, int]:
    both = {"zookeeper": snapshot.in_zookeeper(tp), "kafka": snapshot.in_kafka(tp).position}
    return {store: there for store, there in both.items() if isinstance(there, int)}


def _former(snapshot: GroupSnapshot, tp: TopicPartition, held: dict[str, int]) -> dict[str, str]:
    """Return the stores whose offset belongs to an earlier topic of this name, each with a sentence."""
    former: dict[str, str] = {}
    stores = snapshot.former_stores(tp)
    if "zookeeper" in stores:
        former["zookeeper"] = f"topic {tp.topic} was created again after ZooKeeper's {held['zookeeper']} was written"
    if "kafka" in stores:
        by_clocks = "" if topic_in(snapshot.in_kafka(tp).metadata) else ", by the clocks,"
        former["kafka"] = f"topic {tp.topic} was created again{by_clocks} after Kafka's {held['kafka']} was committed"
    return former


def _chosen(
    tp: TopicPartition,
    held: dict[str, int],
    former: dict[str, str],
    *,
    bounds: Bounds | None,
    policies: Policies,
    direction: Direction,
) -> Decision:
    """Return the offset to write, and whether it may be written."""
    source, goal = ("zookeeper", "kafka") if direction == "to-kafka" else ("kafka", "zookeeper")
    if not held:
        return Decision(
            "skip-no-offset", why="neither store has a position: auto.offset.reset decides (JVM default: the end)"
        )
    if held.keys() == former.keys():
        return _of_a_former_log(tp, held, former, bounds=bounds, policies=policies)
    if source not in held:
        return _kept(
            "keep-kafka" if goal == "kafka" else "keep-zookeeper", tp, held[goal], bounds=bounds, policies=policies
        )
    if goal not in held and source not in former:
        return _written("copy", tp, held[source], bounds=bounds, policies=policies)
    if len(held) == 2 and held[source] == held[goal]:
        return _kept("equal", tp, held[goal], bounds=bounds, policies=policies)
    return _conflict(tp, held, former, bounds=bounds, policies=policies)


def _conflict(
    tp: TopicPartition,
    held: dict[str, int],
    former: dict[str, str],
    *,
    bounds: Bounds | None,
    policies: Policies,
) -> Decision:
    """Decide between two offsets by policy; one of a former log, or outside the log, never counts as the larger."""
    why = _and(f"ZooKeeper has {held['zookeeper']} and Kafka {held['kafka']}", *former.values())
    if policies.conflict == "refuse":
        return Decision("conflict", open=True, why=f"{why}; choose with --prefer max, zookeeper or kafka")
    if policies.conflict == "max":
        now = {store: at for store, at in held.items() if store not in former}
        inside = {store: at for store, at in now.items() if bounds is not None and bounds[0] <= at <= bounds[1]}
        store = max(inside or now, key=now.__getitem__)
        why = _and(
            why, f"{store}'s is the larger of those inside the log" if len(inside) == 1 else f"{store}'s is larger"
        )
    else:
        store = policies.conflict
        if store in former:
            return Decision("conflict", open=True, why=f"{why}; {store}'s offset is not of this log, choose the other")
        why = _and(why, f"{store}'s is taken")
    decision = _written("conflict", tp, held[store], bounds=bounds, policies=policies)
    return Decision(decision.action, decision.target, decision.open, _and(why, decision.why))


def _of_a_former_log(
    tp: TopicPartition, held: dict[str, int], former: dict[str, str], *, bounds: Bounds | None, policies: Policies
) -> Decision:
    """Decide without an offset of this log: clamp takes the start of the log, which skips nothing."""
    why = "; ".join(former.values())
    if policies.out_of_range == "skip":
        return Decision("out-of-range", why=f"{why}; left out")
    if policies.out_of_range == "clamp" and bounds is not None:
        return Decision("out-of-range", bounds[0], why=f"{why}; the start of the log, {bounds[0]}, is taken")
    return Decision("out-of-range", open=True, why=f"{why}; choose with --on-out-of-range clamp or skip")


def _written(action: Action, tp: TopicPartition, number: int, *, bounds: Bounds | None, policies: Policies) -> Decision:
    """Decide about an offset that the goal does not hold yet, by the out-of-range policy."""
    at, may, outside = in_range(tp, number, bounds, policies.out_of_range)
    if not outside:
        return Decision(action, at)
    if may == "skipped":
        return Decision("out-of-range", why=f"{outside}; left out")
    if may == "refused":
        return Decision("out-of-range", open=True, why=f"{outside}; choose with --on-out-of-range clamp or skip")
    return Decision("out-of-range", at, why=outside)


def _kept(action: Action, tp: TopicPartition, number: int, *, bounds: Bounds | None, policies: Policies) -> Decision:
    """Decide about an offset that the goal holds already: leaving it loses nothing, so only clamp changes it."""
    at, may, outside = in_range(tp, number, bounds, policies.out_of_range)
    if outside and may == "write" and at != number:
        return Decision("out-of-range", at, why=outside)
    return Decision(action, number, why=outside)


def _and(*sentences: str) -> str:
    return "; ".join(filter(None, sentences))


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One partition of a plan: what was read, and the decision.

    target: the offset to write; None: the store is left alone.  An open row blocks the copy of its whole group; its why
    says what has to be decided.
    """

    tp: TopicPartition
    zookeeper: ZkRow | None
    kafka: KafkaRow
    bounds: tuple[int, int] | None
    _: KW_ONLY
    action: Action
    target: int | None = None
    open: bool = False
    why: str = ""

    def held(self, store: StoreName) -> Committed:
        """Return the offset in a store when the plan was made."""
        if store == "kafka":
            return self.kafka.position
        return NONE if self.zookeeper is None else self.zookeeper.position


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Plan of one group.  plan_id: of this group alone."""

    group: str
    direction: Direction
    _: KW_ONLY
    rows: tuple[PlanRow, ...]
    foreign: tuple[Foreign, ...]
    members: tuple[str, ...]
    read_at_ms: int
    plan_id: str

    @property
    def goal(self) -> StoreName:
        """Return the store to write."""
        return "kafka" if self.direction == "to-kafka" else "zookeeper"

    @property
    def open_rows(self) -> list[PlanRow]:
        """Return the rows that the operator has to decide first."""
        return [row for row in self.rows if row.open]

    @property
    def counts(self) -> dict[Action, int]:
        """Number of partitions by action."""
        return dict(Counter(row.action for row in self.rows))

    @property
    def written(self) -> list[PlanRow]:
        """Return the rows that a copy writes."""
        return [row for row in self.rows if not row.open and row.target not in (None, row.held(self.goal))]


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of many groups, sorted by name, with one journal and one id."""

    plan_id: str
    direction: Direction
    _: KW_ONLY
    policies: Policies
    cluster: str
    made_at_ms: int
    groups: tuple[GroupPlan, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """One offset to write."""

    store: StoreName
    tp: TopicPartition
    position: int


@dataclass(frozen=True, slots=True)
class Stale:
    """A partition that has changed since the plan was made, as `text` says."""

    tp: TopicPartition
    text: str


@dataclass(frozen=True, slots=True)
class Left:
    """The rest of a plan.  When .stale is not empty nothing may be written.

    touches: offsets that Kafka holds as planned, to be committed again with the writes: an offset that was committed
    long ago, or is about to expire because it was just deleted, would otherwise vanish after the copy.
    """

    writes: tuple[Write, ...]
    done: tuple[TopicPartition, ...]
    stale: tuple[Stale, ...]
    touches: tuple[Write, ...] = ()


def plan_group(snapshot: GroupSnapshot, policies: Policies, direction: Direction = "to-kafka") -> GroupPlan:
    """Return the plan of one group.  Raises nothing: undecided partitions are open rows."""
    rows = []
    for tp in snapshot.partitions():
        found = decide(snapshot, tp, policies, direction)
        rows.append(
            PlanRow(
                tp,
                snapshot.zookeeper.get(tp),
                snapshot.in_kafka(tp),
                snapshot.bounds.get(tp),
                action=found.action,
                target=found.target,
                open=found.open,
                why=found.why,
            )
        )
    plan = GroupPlan(
        snapshot.group,
        direction,
        rows=tuple(rows),
        foreign=snapshot.foreign,
        members=snapshot.members,
        read_at_ms=snapshot.read_at_ms,
        plan_id="",
    )
    return rehashed(plan, policies)


def rehashed(plan: GroupPlan, policies: Policies) -> GroupPlan:
    """Return the plan with the id of its content."""
    foreign = [[each.path, each.found] for each in plan.foreign]
    inputs = [
        plan.group,
        plan.direction,
        astuple(policies),
        foreign,
        [_inputs(row) for row in plan.rows],
    ]
    return replace(plan, plan_id=_hash(inputs))


def make_plan(
    groups: Iterable[GroupPlan], policies: Policies, direction: Direction, *, cluster: str, at_ms: int
) -> Plan:
    """Return many groups as one plan; cluster: its name for the operator (zookeeper.connect)."""
    ordered = tuple(sorted(groups, key=lambda each: each.group))
    plan_id = _hash([cluster, direction, astuple(policies), [each.plan_id for each in ordered]])
    return Plan(plan_id, direction, policies=policies, cluster=cluster, made_at_ms=at_ms, groups=ordered)


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
    """Return the rest of a plan by a new snapshot, without open rows."""
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
        if row.action == "skip-missing-topic" and now.deleted(row.tp):
            done.append(row.tp)  # Kafka reports nothing for a partition that does not exist
            continue
        moved = _moved(row, plan.goal, now)
        if moved:
            stale.append(Stale(row.tp, moved))
        elif row.target is None or _now(now, row.tp, plan.goal) == row.target:
            done.append(row.tp)
        else:
            writes.append(Write(plan.goal, row.tp, row.target))
    holding = {row.tp: row.target for row in plan.rows if row.target is not None and plan.goal == "kafka"}
    touches = tuple(Write("kafka", tp, holding[tp]) for tp in done if tp in holding)
    return Left(tuple(writes), tuple(done), tuple(stale), touches)


def missing(plan: GroupPlan, now: GroupSnapshot) -> list[str]:
    """Return a sentence for each partition that does not hold its target: the verification of a copy."""
    found = []
    for row in plan.rows:
        there = _now(now, row.tp, plan.goal)
        if row.target is not None and there != row.target:
            text = there.reason if isinstance(there, Unknown) else f"{plan.goal} holds {_plain(there)}"
            found.append(f"{row.tp} should hold {row.target}: {text}")
    return found


def falls_behind(plan: GroupPlan) -> bool:
    """True if the store to write held less than the target of any partition when the plan was made."""
    held = ((row.held(plan.goal), row.target) for row in plan.rows if row.target is not None)
    return any(there is NONE or (isinstance(there, int) and there < target) for there, target in held)


def _now(now: GroupSnapshot, tp: TopicPartition, store: StoreName) -> Committed:
    return now.in_kafka(tp).position if store == "kafka" else now.in_zookeeper(tp)


def _moved(row: PlanRow, goal: StoreName, now: GroupSnapshot) -> str:
    """Return how a partition has changed since the plan, or nothing.  A target that is already written is not a
    change."""
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


def _version(node: ZkRow | None) -> tuple[int, int] | None:
    return None if node is None else (node.version, node.czxid)
