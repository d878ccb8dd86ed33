"""What snapshots of a group prove: both stores follow, one rests, they agree, no member is left.  Pure.

Two snapshots have to lie at least one commit interval apart.  Then, if every member writes both stores, each store
holds at the second at least what the other one held at the first: no interval explains a larger difference.

Before anything is written for a group that should be stopped, a Gate counts snapshots in a row without a member.  A
member that restarts is away for a moment, and the id node of a killed one outlives it by the session timeout, so one
snapshot proves nothing.  Snapshots for a Gate should be at least LOOK_EVERY_MS apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from groundwork.plural import counted
from groupadmin.migrate.rules.groupplan import GroupPlan, Write, left_to_write, missing
from groupadmin.migrate.rules.states import Facts
from groupadmin.snapshot.model import GroupSnapshot
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.offsets.modes import Mode
from zkconsumer.offsets.store import NONE, Committed


@dataclass(frozen=True, slots=True)
class Compared:
    """apart: a sentence for each partition whose stores differ too much.  standing_still: stores in which nothing moved
    although there was something to read.  zookeeper_moves: whether any offset node was written in between.
    """

    apart: tuple[str, ...]
    standing_still: tuple[str, ...]
    zookeeper_moves: bool


def compare(first: GroupSnapshot, second: GroupSnapshot) -> Compared:
    """What lies between two looks at one group."""
    tps = [tp for tp in second.partitions() if _exists(second, tp)]
    apart = [text for tp in tps if (text := _apart(first, second, tp))]
    busy = [tp for tp in tps if _something_to_read(first, second, tp)]
    moved = {
        "zookeeper": any(first.in_zookeeper(tp) != second.in_zookeeper(tp) for tp in busy),
        "kafka": any(first.in_kafka(tp).position != second.in_kafka(tp).position for tp in busy),
    }
    standing = tuple(store for store, moves in moved.items() if busy and not moves)
    return Compared(tuple(apart), standing, _writes(first) != _writes(second))


def idle_behind(first: GroupSnapshot, second: GroupSnapshot, store: StoreName) -> tuple[Write, ...]:
    """What a store has to be given because nobody else will: partitions that rested between the looks, and of which it
    has the smaller number.

    JVM members in dual write ZooKeeper only once a position moves after they claimed it, so on the way back idle
    partitions keep an old one.  Numbers outside the log are left alone.
    """
    writes = []
    for tp in second.partitions():
        held = {"zookeeper": second.in_zookeeper(tp), "kafka": second.in_kafka(tp).position}
        rested = (first.in_zookeeper(tp), first.in_kafka(tp).position) == (held["zookeeper"], held["kafka"])
        behind, ahead = held[store], held["kafka" if store == "zookeeper" else "zookeeper"]
        bounds, node = second.bounds.get(tp), second.zookeeper.get(tp)
        if not rested or not isinstance(ahead, int) or bounds is None or not bounds[0] <= ahead <= bounds[1]:
            continue
        if behind is NONE or (isinstance(behind, int) and behind < ahead):
            version = node.version if node is not None and store == "zookeeper" else None
            writes.append(Write(store, tp, ahead, behind, version))
    return tuple(writes)


def _exists(snapshot: GroupSnapshot, tp: TopicPartition) -> bool:
    return tp.topic in snapshot.topics and snapshot.topics[tp.topic].has(tp.partition)


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
    """Whether a store is where the other one was; nothing is behind none."""
    return before is NONE or (isinstance(before, int) and isinstance(now, int) and now >= before)


def _both(one: Committed, other: Committed) -> bool:
    return isinstance(one, int) and isinstance(other, int)


def _something_to_read(first: GroupSnapshot, second: GroupSnapshot, tp: TopicPartition) -> bool:
    """Whether a member that reads this partition had something to commit between the looks."""
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
    before: GroupSnapshot | None = None,
    gate: Gate | None = None,
    failed_checks: Iterable[str] | None = None,
    answers: Mapping[str, Mode] | None = None,
) -> Facts:
    """What the steps ask for, from what was looked at.

    before: the first of two looks, where two were made.  failed_checks: as checks.failures has them.  answers: modes
    the operator vouches for, by member; "*" answers for all that tell none.
    """
    told = dict(now.modes)  # also of one whose id node is gone: it may be on its way in or out
    for member in now.members:
        answer = (answers or {}).get(member) or (answers or {}).get("*")
        if member not in told and answer is not None:
            told[member] = answer
    compared = compare(before, now) if before is not None else None
    stale, lacking = left_to_write(plan, now).stale, missing(plan, now)
    firsts = {
        "blocked": f"{plan.open_rows[0].tp}: {plan.open_rows[0].why}" if plan.open_rows else "",
        "stale": stale[0].text if stale else "",
        "missing": lacking[0] if lacking else "",
    }
    return Facts(
        modes=told,
        modes_unknown=tuple(member for member in now.members if member not in told),
        quiet=gate.open if gate is not None else None,
        kafka_members=len(now.kafka_members) if now.kafka_members is not None else None,
        failed_checks=tuple(failed_checks) if failed_checks is not None else None,
        blocked=len(plan.open_rows),
        stale=len(stale),
        missing=len(lacking),
        apart=len(compared.apart) if compared else None,
        standing_still=compared.standing_still if compared else None,
        zookeeper_moves=compared.zookeeper_moves if compared else None,
        first=firsts,
    )


LOOKS = 4
LOOK_EVERY_MS = 1500


@dataclass(frozen=True, slots=True)
class Presence:
    """Who was there.  kafka_members: of a group of this name that Kafka coordinates; None: before 0.9 there is none."""

    ids: tuple[str, ...]
    owners: int
    kafka_members: int | None = None

    @property
    def nobody(self) -> bool:
        return not self.ids and not self.owners and not self.kafka_members


def presence_of(snapshot: GroupSnapshot) -> Presence:
    """Who is there by a snapshot; an owner node of another client is somebody too."""
    foreign = sum(each.kind == "owner" for each in snapshot.foreign)
    kafka_members = None if snapshot.kafka_members is None else len(snapshot.kafka_members)
    return Presence(snapshot.members, len(snapshot.owners) + foreign, kafka_members)


@dataclass(frozen=True, slots=True)
class Gate:
    """.open after as many quiet looks in a row as are needed; anybody seen makes it count afresh.

    closed: so many looks were not quiet.
    """

    needed: int = LOOKS
    quiet: int = 0
    seen: int = 0
    last: Presence | None = None

    def after(self, look: Presence) -> Gate:
        """The gate after one more look."""
        return Gate(self.needed, self.quiet + 1 if look.nobody else 0, self.seen + (not look.nobody), look)

    @property
    def open(self) -> bool:
        return self.quiet >= self.needed > 0

    def __str__(self) -> str:
        if self.last is None:
            return "nobody looked yet"
        if self.last.nobody:
            return f"nobody there for {self.quiet} of {self.needed} looks"
        there = [f"members {', '.join(self.last.ids)}"] if self.last.ids else []
        there += [f"{counted(self.last.owners, 'owned partition')}"] if self.last.owners else []
        there += [f"{counted(self.last.kafka_members, 'member')} in Kafka"] if self.last.kafka_members else []
        return f"still there: {'; '.join(there)}"
