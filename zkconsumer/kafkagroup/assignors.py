"""Assignors of the Java consumer: range, roundrobin and sticky.  Pure.

The leader of a group computes the assignment of all its members, by the one protocol that all of them offer; the others
accept it.  Members are sorted as Java compares strings; those with a group.instance.id come first, sorted by it
(MemberInfo.compareTo, 2.3 and later).

    range        topic by topic: its partitions in order are cut into runs for its members in order, longer ones first
    roundrobin   all partitions of all topics in order, to the members in turn, skipping those not subscribed
    sticky       as even as possible, and each member keeps what it had as far as that allows.  Eager, like
                 StickyAssignor: a member's previous partitions are in its user data

The sticky assignor keeps Java's promises (even to one partition if all subscribe alike, and partitions that need not
move stay), but may choose another of several even assignments: Java's choice depends on the order of its hash maps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kafkawire.errors import RemoteError
from kafkawire.model import TopicPartition
from kafkawire.primitives import Bytes, Reader, Writer
from kafkawire.protocol.schema import Array, Struct, int32, string
from zkconsumer.group.assignor import java_order

RANGE, ROUNDROBIN, STICKY = "range", "roundrobin", "sticky"  # names in JoinGroup


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member as its leader knows it.  had: its partitions in an earlier generation, for sticky."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    had: tuple[TopicPartition, ...] = ()
    had_in: int = -1  # generation of `had`


Assigned = dict[str, list[TopicPartition]]  # by member id; a member that gets nothing has an empty list


def in_order(members: Sequence[GroupMember]) -> list[GroupMember]:
    """Return members as MemberInfo sorts them."""
    ids = java_order({name for m in members for name in (m.member_id, m.instance_id or "")})
    place = {name: n for n, name in enumerate(ids)}
    named = (m.instance_id if m.instance_id is not None else m.member_id for m in members)
    keys = [(m.instance_id is None, place[name]) for m, name in zip(members, named, strict=True)]
    return [m for _, m in sorted(zip(keys, members, strict=True), key=lambda row: row[0])]


def assign_range(partitions: Mapping[str, int], members: Sequence[GroupMember]) -> Assigned:
    """Return the assignment by range (RangeAssignor).  partitions: number by topic; a missing topic, or one without
    partitions, is skipped."""
    assigned: Assigned = {m.member_id: [] for m in members}
    ordered = in_order(members)
    for topic in java_order({topic for m in members for topic in m.topics}):
        readers = [m.member_id for m in ordered if topic in m.topics]
        each, longer = divmod(partitions.get(topic, 0), len(readers))
        for i, member_id in enumerate(readers):
            start = each * i + min(i, longer)
            assigned[member_id] += [TopicPartition(topic, p) for p in range(start, start + each + (i < longer))]
    return assigned


def assign_roundrobin(partitions: Mapping[str, int], members: Sequence[GroupMember]) -> Assigned:
    """Return the assignment by roundrobin (RoundRobinAssignor).  partitions: number by topic, as for range."""
    assigned: Assigned = {m.member_id: [] for m in members}
    circle = in_order(members)
    at = 0
    for topic in java_order({topic for m in members for topic in m.topics}):
        for p in range(partitions.get(topic, 0)):
            while topic not in circle[at].topics:
                at = (at + 1) % len(circle)
            assigned[circle[at].member_id].append(TopicPartition(topic, p))
            at = (at + 1) % len(circle)
    return assigned


def assign_sticky(partitions: Mapping[str, int], members: Sequence[GroupMember]) -> Assigned:
    """Return the assignment by sticky (StickyAssignor).  partitions: number by topic, as for range."""
    ordered = in_order(members)
    topics = {m.member_id: m.topics for m in ordered}
    everything = [
        TopicPartition(topic, p)
        for topic in java_order({topic for m in members for topic in m.topics})
        for p in range(partitions.get(topic, 0))
    ]
    assigned: Assigned = {m.member_id: [] for m in ordered}
    keeper: dict[TopicPartition, str] = {}
    for m in sorted(ordered, key=lambda m: -m.had_in):  # if two members had it, the later generation counts
        for tp in m.had:
            if tp.topic in m.topics:
                keeper.setdefault(tp, m.member_id)
    left = []
    for tp in everything:
        if tp in keeper:
            assigned[keeper[tp]].append(tp)
        else:
            left.append(tp)
    for tp in left:
        readers = [m.member_id for m in ordered if tp.topic in m.topics]
        assigned[min(readers, key=lambda name: len(assigned[name]))].append(tp)
    while _evened(assigned, topics):
        pass
    return {name: sorted(tps) for name, tps in assigned.items()}


def _evened(assigned: Assigned, topics: Mapping[str, frozenset[str]]) -> bool:
    """Move one partition from a member to one that has at least two fewer.  Return False if that is impossible."""
    for giver in sorted(assigned, key=lambda name: -len(assigned[name])):
        for taker in sorted(assigned, key=lambda name: len(assigned[name])):
            if len(assigned[giver]) - len(assigned[taker]) < 2:
                break
            movable = [tp for tp in assigned[giver] if tp.topic in topics[taker]]
            if movable:
                assigned[giver].remove(movable[-1])
                assigned[taker].append(movable[-1])
                return True
    return False


Assignor = Callable[[Mapping[str, int], Sequence[GroupMember]], Assigned]
ASSIGNORS: Mapping[str, Assignor] = {RANGE: assign_range, ROUNDROBIN: assign_roundrobin, STICKY: assign_sticky}

# StickyAssignor's user data: the member's previous partitions; the generation since 2.3, missing before
_HAD = Array(Struct(topic=string, partitions=Array(int32)))


def sticky_user_data(had: Sequence[TopicPartition], generation: int) -> bytes:
    """Return the user data of a member's subscription for sticky."""
    by_topic: dict[str, list[int]] = {}
    for tp in had:
        assert isinstance(tp.partition, int)
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    writer = Writer()
    _HAD.write(writer, [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()], 0)
    int32.write(writer, generation, 0)
    return writer.done()


def read_sticky_user_data(data: Bytes | None) -> tuple[tuple[TopicPartition, ...], int]:
    """Return the member's previous partitions and their generation; nothing if the data cannot be read, as in Java."""
    if data is None:
        return (), -1
    reader = Reader(data, "user data of a sticky subscription")
    try:
        rows = _HAD.read(reader, 0) or ()
        generation = int32.read(reader, 0) if reader.left else -1
    except RemoteError:
        return (), -1
    return tuple(TopicPartition(row["topic"], p) for row in rows for p in row["partitions"]), generation


def spread(
    assigned: Sequence[TopicPartition], threads: Mapping[str | None, Sequence[str]]
) -> dict[TopicPartition, str]:
    """Return the thread of each partition of a member, evenly: the thread of its topic that has the fewest so far.

    threads: thread ids by topic, in order; None: for every other topic.  A partition of a topic that no thread reads is
    left out.
    """
    load: dict[str, int] = {}
    found: dict[TopicPartition, str] = {}
    for tp in sorted(assigned):
        names = threads.get(tp.topic, threads.get(None, ()))
        if names:
            thread = min(names, key=lambda name: load.get(name, 0))
            load[thread] = load.get(thread, 0) + 1
            found[tp] = thread
    return found
