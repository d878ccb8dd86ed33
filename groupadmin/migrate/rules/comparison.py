"""Comparison of a group's snapshots: both stores are written, one is idle, they agree, no member is left.  Pure.

Two snapshots must be at least one commit interval apart.  Then, if every member writes both stores, each store holds at
the second snapshot at least what the other one held at the first: a larger difference is not explained by the interval.

Before anything is written for a group that should be stopped, a Gate counts consecutive snapshots without a member.  A
member that restarts is absent for a moment, and the id node of a killed one stays until its session expires, so one
snapshot proves nothing.  Snapshots for a Gate should be at least GATE_EVERY_MS apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from groundwork.sentences import counted
from groupadmin.migrate.rules.groupplan import GroupPlan, Write, left_to_write, missing
from groupadmin.migrate.rules.states import StepFacts
from groupadmin.snapshot.model import GroupSnapshot
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.offsets.modes import Mode
from zkconsumer.offsets.store import NONE, Committed


@dataclass(frozen=True, slots=True)
class Compared:
    """Comparison of two snapshots.

    apart            a sentence for each partition whose stores differ too much
    not_moving       stores without any new offset although there were messages to read
    zookeeper_moves  whether any offset node was written in between
    """

    apart: tuple[str, ...]
    not_moving: tuple[str, ...]
    zookeeper_moves: bool


def compare(first: GroupSnapshot, second: GroupSnapshot) -> Compared:
    """Compare two snapshots of one group."""
    tps = [tp for tp in second.partitions() if not second.deleted(tp)]
    apart = [text for tp in tps if (text := _apart(first, second, tp))]
    busy = [tp for tp in tps if _something_to_read(first, second, tp)]
    moved = {
        "zookeeper": any(first.in_zookeeper(tp) != second.in_zookeeper(tp) for tp in busy),
        "kafka": any(first.in_kafka(tp).position != second.in_kafka(tp).position for tp in busy),
    }
    standing = tuple(store for store, moves in moved.items() if busy and not moves)
    return Compared(tuple(apart), standing, _writes(first) != _writes(second))


def idle_behind(first: GroupSnapshot, second: GroupSnapshot, store: StoreName) -> tuple[Write, ...]:
    """Return the offsets that members will not write to a store: of partitions that did not move between the snapshots,
    and whose offset in the store is smaller.

    JVM members in dual write ZooKeeper only when an offset moves after their claim, so on the way back idle partitions
    keep an old one.  Offsets outside the log are left alone.
    """
    writes = []
    for tp in second.partitions():
        held = {"zookeeper": second.in_zookeeper(tp), "kafka": second.in_kafka(tp).position}
        rested = (first.in_zookeeper(tp), first.in_kafka(tp).position) == (held["zookeeper"], held["kafka"])
        behind, ahead = held[store], held["kafka" if store == "zookeeper" else "zookeeper"]
        bounds = second.bounds.get(tp)
        if not rested or not isinstance(ahead, int) or bounds is None or not bounds[0] <= ahead <= bounds[1]:
            continue
        if behind is NONE or (isinstance(behind, int) and behind < ahead):
            writes.append(Write(store, tp, ahead))
    return tuple(writes)


def not_in_kafka(snapshot: GroupSnapshot) -> tuple[str, ...]:
    """Return a sentence for each existing partition whose offset ZooKeeper has and Kafka has not, or does not answer.

    Offsets of an earlier topic of that name do not count.
    """
    found = []
    for tp in snapshot.partitions():
        held, in_kafka = snapshot.in_zookeeper(tp), snapshot.in_kafka(tp).position
        if not isinstance(held, int) or snapshot.deleted(tp) or "zookeeper" in snapshot.former_stores(tp):
            continue
        if not isinstance(in_kafka, int):
            found.append(f"{tp}: ZooKeeper has {held}, Kafka {_say(in_kafka)}")
    return tuple(found)


def _apart(first: GroupSnapshot, second: GroupSnapshot, tp: TopicPartition) -> str:
    zookeeper = first.in_zookeeper(tp), second.in_zookeeper(tp)
    kafka = first.in_kafka(tp).position, second.in_kafka(tp).position
    if zookeeper[1] is NONE and kafka[1] is NONE:
        return ""
    if _reached(zookeeper[1], kafka[0]) and _reached(kafka[1], zookeeper[0]) and _both(zookeeper[1], kafka[1]):
        return ""
    return (
        f"{tp}: ZooKeeper went from {_say(zookeeper[0])} to {_say(zookeeper[1])}, Kafka from {_say(kafka[0])} to "
        + (_say(kafka[1]))
    )


def _reached(now: Committed, before: Committed) -> bool:
    """True if a store has reached what the other one held; every offset has reached none."""
    return before is NONE or (isinstance(before, int) and isinstance(now, int) and now >= before)


def _both(one: Committed, other: Committed) -> bool:
    return isinstance(one, int) and isinstance(other, int)


def _something_to_read(first: GroupSnapshot, second: GroupSnapshot, tp: TopicPartition) -> bool:
    """True if a member that reads this partition had something to commit between the snapshots."""
    start, end = first.bounds.get(tp), second.bounds.get(tp)
    if start is None or end is None:
        return False
    numbers = [n for n in (first.in_zookeeper(tp), first.in_kafka(tp).position) if isinstance(n, int)]
    return end[1] > start[1] or bool(numbers and max(numbers) < start[1])


def _writes(snapshot: GroupSnapshot) -> dict[TopicPartition, int]:
    return {tp: row.mzxid for tp, row in snapshot.zookeeper.items()}


def _say(there: Committed) -> str:
    return str(there) if isinstance(there, int) else "none" if there is NONE else "what cannot be read"


def facts(
    plan: GroupPlan,
    now: GroupSnapshot,
    *,
    before: GroupSnapshot | None = None,
    gate: Gate | None = None,
    failed_checks: Iterable[str] | None = None,
    answers: Mapping[str, Mode] | None = None,
) -> StepFacts:
    """Return the facts for the steps' requirements, from snapshots.

    before: the first of two snapshots, if there are two.  failed_checks: as from checks.failures.  answers: modes given
    by the operator, by member; "*" is for all members that publish none.
    """
    modes = dict(now.modes)  # also of a member without id node: it may be starting or stopping
    for member in now.members:
        answer = (answers or {}).get(member) or (answers or {}).get("*")
        if member not in modes and answer is not None:
            modes[member] = answer
    compared = compare(before, now) if before is not None else None
    stale, lacking, absent = left_to_write(plan, now).stale, missing(plan, now), not_in_kafka(now)
    firsts = {
        "blocked": f"{plan.open_rows[0].tp}: {plan.open_rows[0].why}" if plan.open_rows else "",
        "stale": stale[0].text if stale else "",
        "missing": lacking[0] if lacking else "",
        "not_in_kafka": absent[0] if absent else "",
    }
    return StepFacts(
        modes=modes,
        modes_unknown=tuple(member for member in now.members if member not in modes),
        quiet=gate.open if gate is not None else None,
        kafka_members=len(now.kafka_members) if now.kafka_members is not None else None,
        kafka_unknown=next((name for name in now.kafka_members or () if name.startswith("(")), ""),
        owners=presence_of(now).owners,
        not_in_kafka=len(absent),
        failed_checks=tuple(failed_checks) if failed_checks is not None else None,
        blocked=len(plan.open_rows),
        stale=len(stale),
        missing=len(lacking),
        apart=len(compared.apart) if compared else None,
        not_moving=compared.not_moving if compared else None,
        zookeeper_moves=compared.zookeeper_moves if compared else None,
        first=firsts,
    )


GATE_SNAPSHOTS = 4
GATE_EVERY_MS = 1500


@dataclass(frozen=True, slots=True)
class Presence:
    """Members in a snapshot.  kafka_members: those of a group of this name in Kafka; None: before 0.9 there are
    none."""

    ids: tuple[str, ...]
    owners: int
    kafka_members: int | None = None

    @property
    def absent(self) -> bool:
        return not self.ids and not self.owners and not self.kafka_members


def presence_of(snapshot: GroupSnapshot) -> Presence:
    """Return the members in a snapshot; owner nodes of other clients count, too."""
    foreign = sum(each.kind == "owner" for each in snapshot.foreign)
    kafka_members = None if snapshot.kafka_members is None else len(snapshot.kafka_members)
    return Presence(snapshot.members, len(snapshot.owners) + foreign, kafka_members)


@dataclass(frozen=True, slots=True)
class Gate:
    """Counts consecutive snapshots without a member; .open when there are enough.  Any member resets the count.

    seen: number of snapshots with members.
    """

    needed: int = GATE_SNAPSHOTS
    quiet: int = 0
    seen: int = 0
    last: Presence | None = None

    def after(self, presence: Presence) -> Gate:
        """Return the gate after one more snapshot."""
        return Gate(self.needed, self.quiet + 1 if presence.absent else 0, self.seen + (not presence.absent), presence)

    @property
    def open(self) -> bool:
        return self.quiet >= self.needed > 0

    def __str__(self) -> str:
        if self.last is None:
            return "not checked yet"
        if self.last.absent:
            return f"no member in {self.quiet} of {self.needed} checks"
        there = [f"members {', '.join(self.last.ids)}"] if self.last.ids else []
        there += [f"{counted(self.last.owners, 'owned partition')}"] if self.last.owners else []
        there += [f"{counted(self.last.kafka_members, 'member')} in Kafka"] if self.last.kafka_members else []
        return f"still there: {'; '.join(there)}"
