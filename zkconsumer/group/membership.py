"""Members of a group, and the assignment of one member, from the group's nodes.  Pure.

The watches report three kinds of change:

    ids changed       the children of /consumers/G/ids: a member joined or left
    topics changed    the set of topics we read changed, or the partitions of one of them
    session changed   the ZooKeeper session came back: anything may have changed meanwhile

If the node of a member cannot be read there is no assignment: every member would compute another one.  That is
Unreadable: retry, because the node may be incomplete (other clients create it empty and fill it a moment later).  If it
stays unreadable, such a member can be left out: no JVM member reads anything then, and claims keep the others apart.

A member whose filter we cannot evaluate as Java does is Untranslatable, which is permanent: see FilterUnknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from groundwork.java import PatternRefused
from groundwork.pauses import Pace
from groundwork.sentences import counted
from kafkawire.errors import RegistrationError
from kafkawire.model import PartitionId, TopicPartition
from kafkawire.znodes.group import Registration, thread_ids
from zkconsumer.filters import LeaveOut, Selection, never
from zkconsumer.group.assignor import PAUSE_THREADS, RANGE, StrategyRefused, Threads, assign, java_order

MAX_IDLE = 1000  # idle threads of a topic that are named


@dataclass(frozen=True, slots=True)
class Group:
    """Members, threads and topics of a group, as registered when the group was read."""

    members: tuple[str, ...]  # consumer ids in Java's order
    threads: Mapping[str, Threads]  # thread ids by topic, in Java's order
    streams: Mapping[str, Mapping[str, int]]  # by member, then topic
    left_out: tuple[Unreadable, ...] = ()  # members that are not counted, because they cannot be read

    @property
    def topics(self) -> list[str]:
        """Return the topics that any member reads, sorted."""
        return sorted(self.threads)

    def topics_of(self, consumer_id: str) -> list[str]:
        """Return the topics a member reads, sorted."""
        return sorted(self.streams.get(consumer_id, ()))


@dataclass(frozen=True, slots=True)
class Unreadable:
    """No assignment: the node of one member cannot be parsed now."""

    member: str
    why: str

    def __str__(self) -> str:
        return f"member {self.member}: {self.why}"


@dataclass(frozen=True, slots=True)
class Untranslatable:
    """No assignment here: the filter of one member cannot be evaluated with certainty."""

    member: str
    pattern: str
    why: str


@dataclass(frozen=True, slots=True)
class StrategyNotAllowed:
    """No assignment: the strategy does not allow a group such as this one."""

    why: str

    def __str__(self) -> str:
        return self.why


@dataclass(frozen=True, slots=True)
class Unregistered:
    """No assignment: our own id node is missing, or outdated, so the member must register first.  deleted: it is
    missing."""

    deleted: bool = True


def read_group(
    consumer_id: str,
    nodes: Mapping[str, str | bytes | None],
    topics: Sequence[str],
    parse: Callable[[str | bytes], Registration],
    exclude_internal: bool = True,
    leave_out: bool = False,
    more_time: Callable[[], bool] = lambda: True,
    leave_topic: LeaveOut = never,
) -> Group | Unreadable | Untranslatable | Unregistered:
    """Return the group of consumer_id.

    nodes: the data of each id node, None for one that vanished after it was listed (its member is gone, and the watch
    on the ids will fire, too).  topics: names of all existing topics, for members with filters.  parse: reads a
    registration of the dialect (d.znodes.registration).  leave_out: leave members out that cannot be read.  For
    more_time, and for leave_topic (its leave_out), see Selection.
    """
    if nodes.get(consumer_id) is None:
        return Unregistered()
    streams: dict[str, Mapping[str, int]] = {}
    left_out: list[Unreadable] = []
    selection = Selection(topics, exclude_internal, more_time, leave_topic)
    for member in java_order(nodes):
        text = nodes[member]
        if text is None:
            continue
        try:
            registration = parse(text)
        except RegistrationError as e:
            left_out.append(Unreadable(member, str(e)))
            continue
        try:
            streams[member] = selection.streams(registration)
        except PatternRefused as e:
            return Untranslatable(member, next(iter(registration.subscription)), str(e))
    if left_out and (not leave_out or consumer_id not in streams):
        return left_out[0]
    return Group(tuple(streams), threads_of(streams), streams, tuple(left_out))


def threads_of(streams: Mapping[str, Mapping[str, int]]) -> dict[str, Threads]:
    """Return thread ids by topic.  streams: by member, then topic.

    Members with the same subscription are handled as one, and topics with the same readers share their threads: a
    thousand members with a filter for all of 500 topics would otherwise be half a million entries.
    """
    members: dict[frozenset[tuple[str, int]], list[str]] = {}
    known: dict[int, frozenset[tuple[str, int]]] = {}
    for member, by_topic in streams.items():
        if id(by_topic) not in known:
            known[id(by_topic)] = frozenset(by_topic.items())
        members.setdefault(known[id(by_topic)], []).append(member)
    readers: dict[str, list[tuple[int, int]]] = {}
    alike = list(members.values())
    pace, done = Pace(PAUSE_THREADS), 0
    for group, subscription in enumerate(members):
        for topic, count in subscription:
            pace.reached(done := done + 1)
            readers.setdefault(topic, []).append((group, count))
    shared: dict[tuple[tuple[int, int], ...], Threads] = {}
    found: dict[str, Threads] = {}
    for topic, groups in sorted(readers.items()):
        of = tuple(groups)
        if of not in shared:
            pace.reached(done := done + len(streams))
            shared[of] = Threads({member: count for group, count in of for member in alike[group]})
        found[topic] = shared[of]
    return found


def assignment_of(
    consumer_id: str,
    group: Group,
    partitions_in_order: Mapping[str, Sequence[PartitionId]],
    strategy: str = RANGE,
    relaxed: bool = False,
) -> dict[TopicPartition, str] | StrategyNotAllowed:
    """Return the assignment of consumer_id: the thread id of each partition.

    partitions_in_order: in the dialect's order, for at least the topics that consumer_id reads; roundrobin needs those
    of all topics that any member reads.  relaxed: roundrobin's rule since 0.10.2.
    """
    streams = group.streams[consumer_id]
    topics = sorted(streams) if strategy == RANGE else group.topics
    try:
        given = assign(strategy, partitions_in_order, {topic: group.threads[topic] for topic in topics}, relaxed)
    except StrategyRefused as e:
        return StrategyNotAllowed(str(e))
    ours = thread_ids(consumer_id, max(streams.values(), default=0))
    return {tp: thread for thread in ours for tp in given.get(thread, ())}


@dataclass(frozen=True, slots=True)
class Surplus:
    """Topic with more threads than partitions.  The last threads in Java's order read nothing of it; the first MAX_IDLE
    of these idle threads are named."""

    topic: str
    threads: int
    partitions: int
    idle: Sequence[str] = field(default=(), compare=False)  # not compared: as many other idle threads

    def __str__(self) -> str:
        return (
            f"topic {self.topic} has {counted(self.partitions, 'partition')} for {counted(self.threads, 'thread')} "
            f"of this group: "
            f"{counted(self.threads - self.partitions, 'thread reads', 'threads read')} nothing of it; "
            f"{self.threads} partitions, or a multiple of "
            f"{self.threads}, would serve all alike, and {counted(self.partitions, 'thread is', 'threads are')} enough"
        )


def surplus(threads: Mapping[str, Threads], partitions: Mapping[str, Sequence[PartitionId]]) -> list[Surplus]:
    """Return topics that have partitions, but fewer than threads (thread ids in Java's order), sorted."""
    found = []
    idle: dict[tuple[int, int], tuple[str, ...]] = {}  # topics with the same readers share the names
    pace, done = Pace(PAUSE_THREADS), 0
    for topic, names in sorted(threads.items()):
        there = len(partitions.get(topic, ()))
        if len(names) > there > 0:
            of = id(names), there
            if of not in idle:
                pace.reached(done := done + len(names))
                idle[of] = tuple(names.first(there + MAX_IDLE)[there:])
            found.append(Surplus(topic, len(names), there, idle[of]))
    return found
