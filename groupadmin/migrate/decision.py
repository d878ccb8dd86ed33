"""What becomes of one partition, decided from what was read.  Pure: no clock, no store.

    copy                one store has a position, the other has none: it gets it
    equal               both hold the same
    keep-kafka          only Kafka has one, on the way to Kafka: it stays; keep-zookeeper likewise on the way back
    conflict            both have one and they differ: the policy says which (max, zookeeper, kafka), or it stays open
    out-of-range        the position to be written lies outside the log, or belongs to a log that was deleted
    unreadable          a number that cannot be read, in either store, or a form that is not ours: open
    skip-no-offset      neither has one: auto.offset.reset decides, as it did before
    skip-missing-topic  the topic, or this partition of it, does not exist any more

The maximum is taken of what lies inside the log only: the larger number may belong to a deleted log.

A number of an earlier topic of that name (offsets/former.py says which is one) is never taken without a
conflict policy that says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from groupadmin.plan.changes import in_range
from groupadmin.snapshot.model import GroupSnapshot
from kafkawire.model import TopicPartition
from zkconsumer.offsets.former import topic_in
from zkconsumer.offsets.store import NONE, Unknown

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
    """How partitions that are not plain are decided; refuse leaves them open.

    recreated: trust takes numbers that seem to belong to an earlier topic of the same name as they are (a ZooKeeper
    whose nodes were copied from another one looks like that).
    """

    conflict: Literal["refuse", "max", "zookeeper", "kafka"] = "refuse"
    out_of_range: Literal["refuse", "clamp", "skip"] = "refuse"
    recreated: Literal["refuse", "trust"] = "refuse"


@dataclass(frozen=True, slots=True)
class Decision:
    """target: what the store that is written to is to hold; None: it is left alone.  open: the operator has to decide.

    why: a sentence, empty for the plain cases.
    """

    action: Action
    target: int | None = None
    open: bool = False
    why: str = ""


def decide(snapshot: GroupSnapshot, tp: TopicPartition, policies: Policies, direction: Direction) -> Decision:
    """The decision about one partition of a group."""
    topic = snapshot.topics.get(tp.topic)
    if topic is None or not topic.has(tp.partition):
        missing = f"topic {tp.topic} does not exist" if topic is None else f"{tp} does not exist"
        return Decision("skip-missing-topic", why=f"{missing}; its offsets are left where they are")
    unreadable = _unreadable(snapshot, tp)
    if unreadable:
        return Decision("unreadable", open=True, why=unreadable)
    odd, contradicts = _offset_path(snapshot, tp)
    if contradicts:
        return Decision("conflict", open=True, why=odd)
    held = _held(snapshot, tp)
    former = _former(snapshot, tp, held) if policies.recreated == "refuse" else {}
    decision = _chosen(tp, held, former, snapshot.bounds.get(tp), policies, direction)
    return Decision(decision.action, decision.target, decision.open, _and(decision.why, odd))


def _unreadable(snapshot: GroupSnapshot, tp: TopicPartition) -> str:
    """Why a position cannot be told, or nothing."""
    held = {"ZooKeeper": snapshot.in_zookeeper(tp), "Kafka": snapshot.in_kafka(tp).position}
    unread = [f"{store}: {there.reason}" for store, there in held.items() if isinstance(there, Unknown)]
    if unread or held["ZooKeeper"] is not NONE:
        return "; ".join(unread)
    for each in snapshot.foreign:
        if each.kind == "offset" and each.topic == tp.topic:
            return f"{each.path} holds {each.found!r}, {each.text}; {_set_by_hand(snapshot, tp)}"
    return ""


def _offset_path(snapshot: GroupSnapshot, tp: TopicPartition) -> tuple[str, bool]:
    """A sentence about the node under /offset, if there is one, and whether it is the newer one and says otherwise."""
    odd, usual = snapshot.offset_path.get(tp), snapshot.zookeeper.get(tp)
    if odd is None:
        return "", False
    text = f"/consumers/{snapshot.group}/offset/{tp} (where brokers of 1.1.0 kept it) holds "
    text += str(odd.position) if isinstance(odd.position, int) else "no number"
    if usual is not None and (usual.position == odd.position or usual.mzxid > odd.mzxid):
        return f"{text} and is not used", False
    return f"{text} and is newer than what /offsets says; {_set_by_hand(snapshot, tp)}", True


def _set_by_hand(snapshot: GroupSnapshot, tp: TopicPartition) -> str:
    return f"say what is right: zkconsumer offsets set --group {snapshot.group} {tp.topic}:{tp.partition}=POSITION"


# numbers --------------------------------------------------------------------------------------------------------------


def _held(snapshot: GroupSnapshot, tp: TopicPartition) -> dict[str, int]:
    both = {"zookeeper": snapshot.in_zookeeper(tp), "kafka": snapshot.in_kafka(tp).position}
    return {store: there for store, there in both.items() if isinstance(there, int)}


def _former(snapshot: GroupSnapshot, tp: TopicPartition, held: dict[str, int]) -> dict[str, str]:
    """The stores whose number belongs to an earlier topic of this name, each with a sentence."""
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
    bounds: Bounds | None,
    policies: Policies,
    direction: Direction,
) -> Decision:
    """Which number it is to be, and whether it may be written."""
    source, goal = ("zookeeper", "kafka") if direction == "to-kafka" else ("kafka", "zookeeper")
    if not held:
        return Decision(
            "skip-no-offset", why="neither store has a position: auto.offset.reset decides (JVM default: the end)"
        )
    if held.keys() == former.keys():
        return _of_a_former_log(tp, held, former, bounds, policies)
    if source not in held:
        return _kept("keep-kafka" if goal == "kafka" else "keep-zookeeper", tp, held[goal], bounds, policies)
    if goal not in held and source not in former:
        return _written("copy", tp, held[source], bounds, policies)
    if len(held) == 2 and held[source] == held[goal]:
        return _kept("equal", tp, held[goal], bounds, policies)
    return _conflict(tp, held, former, bounds, policies)


def _conflict(
    tp: TopicPartition,
    held: dict[str, int],
    former: dict[str, str],
    bounds: Bounds | None,
    policies: Policies,
) -> Decision:
    """Two numbers: by policy; one of a former log, or outside the log, is not the larger whatever it says."""
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
            return Decision("conflict", open=True, why=f"{why}; {store}'s number is not of this log, choose the other")
        why = _and(why, f"{store}'s is taken")
    decision = _written("conflict", tp, held[store], bounds, policies)
    return Decision(decision.action, decision.target, decision.open, _and(why, decision.why))


def _of_a_former_log(
    tp: TopicPartition, held: dict[str, int], former: dict[str, str], bounds: Bounds | None, policies: Policies
) -> Decision:
    """No number of this log: the start of the new one skips nothing, so that is what clamp takes."""
    why = "; ".join(former.values())
    if policies.out_of_range == "skip":
        return Decision("out-of-range", why=f"{why}; left out")
    if policies.out_of_range == "clamp" and bounds is not None:
        return Decision("out-of-range", bounds[0], why=f"{why}; the start of the log, {bounds[0]}, is taken")
    return Decision("out-of-range", open=True, why=f"{why}; choose with --on-out-of-range clamp or skip")


def _written(action: Action, tp: TopicPartition, number: int, bounds: Bounds | None, policies: Policies) -> Decision:
    """A number that is not in the goal yet, by the policy for what lies outside the log."""
    at, may, outside = in_range(tp, number, bounds, policies.out_of_range)
    if not outside:
        return Decision(action, at)
    if may == "skipped":
        return Decision("out-of-range", why=f"{outside}; left out")
    if may == "refused":
        return Decision("out-of-range", open=True, why=f"{outside}; choose with --on-out-of-range clamp or skip")
    return Decision("out-of-range", at, why=outside)


def _kept(action: Action, tp: TopicPartition, number: int, bounds: Bounds | None, policies: Policies) -> Decision:
    """A number that the goal holds already: nothing is lost by leaving it, so only clamp touches it."""
    at, may, outside = in_range(tp, number, bounds, policies.out_of_range)
    if outside and may == "write" and at != number:
        return Decision("out-of-range", at, why=outside)
    return Decision(action, number, why=outside)


def _and(*sentences: str) -> str:
    return "; ".join(filter(None, sentences))
