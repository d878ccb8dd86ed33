"""Partition assignment: range and roundrobin.  Pure.  It must compute exactly the assignment of the JVM's members, or
two members claim the same partition.

Every member computes the whole assignment for itself from the same inputs: the threads that read a topic, its
partitions, and two sort orders.  Threads are sorted as text by UTF-16 code unit, as Java compares strings: `c-10`
before `c-2`, capitals before small letters.  The dialect sorts partitions: as numbers in 0.8, as text in 0.7.

Nothing in ZooKeeper says which strategy a group uses: all its members must be configured with the same one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import overload

from groundwork.decimals import decimal_int
from groundwork.java import string_hash
from groundwork.pauses import Pace
from kafkawire.model import PartitionId, TopicPartition

MAX_CIRCLE = 100_000  # threads that partitions are dealt to; another member may register any number
PAUSE_THREADS = 10_000  # steps between pauses: some milliseconds
NAMED = 20  # threads in a sentence
RANGE, ROUNDROBIN = "range", "roundrobin"  # partition.assignment.strategy


class StrategyRefused(ValueError):
    """Raised when the strategy does not allow such a group; every JVM member with the strategy fails in the
    same way."""


def java_order(names: Iterable[str]) -> list[str]:
    """Return names as Java sorts strings, which is Python's own order for ASCII."""
    return sorted(names, key=_utf16)


class Threads(Sequence[str]):
    """Thread ids of the members that read a topic, in Java's order.

    They are computed on demand: another member may register any number of streams.
    """

    def __init__(self, streams: Mapping[str, int]) -> None:
        """streams: number of streams by member."""
        self.streams = dict(streams)
        self._count = sum(self.streams.values())
        self._first: list[str] = []  # computed so far; topics with the same readers share them

    def first(self, count: int) -> list[str]:
        """Return the first `count` threads, or all if there are no more."""
        if len(self._first) < min(count, self._count):
            # No thread of a member comes before its first one, so only `count` members can have any of them.
            begin = sorted((member for member, n in self.streams.items() if n > 0), key=lambda m: _utf16(f"{m}-0"))
            self._first = list(islice(self._merged(begin[:count]), count))
        return self._first[:count]

    def _merged(self, members: Iterable[str]) -> Iterator[str]:
        return merge(*(_of_member(member, self.streams[member]) for member in members), key=_utf16)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return self._merged(self.streams)

    def __contains__(self, thread: object) -> bool:
        member, _, number = str(thread).rpartition("-")
        index = decimal_int(number)
        return index is not None and index < self.streams.get(member, 0)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return list(islice(self, *at.indices(len(self))))
        return next(islice(self, range(len(self))[at], None))

    def __eq__(self, other: object) -> bool:
        return self.streams == other.streams if isinstance(other, Threads) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


def _of_member(member: str, count: int) -> Iterator[str]:
    """Yield the thread ids of a member in Java's order: 0, 1, 10, 11, 2."""
    if count > 0:
        yield f"{member}-0"
    number = 1
    for _ in range(count - 1):
        yield f"{member}-{number}"
        if number * 10 < count:
            number *= 10
        else:
            if number == count - 1:
                number //= 10
            number += 1
            while number % 10 == 0:
                number //= 10


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def _in_order(names: Iterable[str], most: int) -> list[str]:
    """Return thread ids in Java's order: for Threads only as many as may get anything, otherwise all."""
    return names.first(most) if isinstance(names, Threads) else java_order(set(names))


def assign_range(
    partitions_in_order: Mapping[str, Sequence[PartitionId]], threads: Mapping[str, Iterable[str]]
) -> dict[str, list[TopicPartition]]:
    """Assign each topic separately: its partitions in order are cut into runs for its threads in order, longer ones
    first.

    partitions_in_order: by topic, in the dialect's order; a missing topic has no partitions. threads: thread ids by
    topic, of all members that read it, in any order.  Return partitions by thread; a thread that gets nothing has an
    empty list, or, for Threads, no entry. (RangeAssignor of 0.8.2.2: position start = q*i + min(i, r), length q or q +
    1.)
    """
    assigned: dict[str, list[TopicPartition]] = {}
    pace, done = Pace(PAUSE_THREADS), 0
    for topic, names in threads.items():
        partitions = partitions_in_order.get(topic, ())
        pace.reached(done := done + len(partitions) + 100)
        in_order = _in_order(names, len(partitions))  # the others get nothing, however many they are
        each, longer = divmod(len(partitions), len(in_order) or 1)
        for i, thread in enumerate(in_order):
            start = each * i + min(i, longer)
            run = partitions[start : start + each + (i < longer)]
            assigned.setdefault(thread, []).extend(TopicPartition(topic, p) for p in run)
    return assigned


def assign_roundrobin(
    partitions_in_order: Mapping[str, Sequence[PartitionId]],
    threads: Mapping[str, Iterable[str]],
    relaxed: bool = False,
) -> dict[str, list[TopicPartition]]:
    """Assign all partitions of all topics in the order of their hashes, to the threads in turn.

    partitions_in_order, threads and the result are as in assign_range, but for every topic that any member reads.
    relaxed: the rule since 0.10.2, by which a thread that does not read a topic is skipped; before, all threads had to
    read the same topics.  Raises StrategyRefused otherwise. (RoundRobinAssignor of 0.8.2.2 and 0.10.2:
    `[topic,partition]` by String.hashCode, signed.  The JVM leaves the order of equal hashes to its hash maps; here
    they stay in the order of the topics' names.)
    """
    everything = [TopicPartition(topic, p) for topic in java_order(threads) for p in partitions_in_order.get(topic, ())]
    if not relaxed:
        _all_read_the_same(threads)
    circle = _circle(threads, relaxed, len(everything))
    turns = _Turns(circle, everybody=not relaxed)
    assigned: dict[str, list[TopicPartition]] = {thread: [] for thread in circle}
    pace, at = Pace(PAUSE_THREADS), 0
    for done, tp in enumerate(sorted(everything, key=_hash)):
        pace.reached(done)
        if own := turns.of(threads[tp.topic]):
            at = own[bisect_left(own, at) % len(own)]
            assigned[circle[at]].append(tp)
            at = (at + 1) % len(circle)
    return assigned


class _Turns:
    """Turns of threads in the circle, by the topic they read."""

    def __init__(self, circle: Sequence[str], everybody: bool) -> None:
        """everybody: all threads read every topic."""
        self._all = range(len(circle)) if everybody else None
        self._turn = {} if everybody else {thread: at for at, thread in enumerate(circle)}
        self._known: dict[int, list[int]] = {}  # by object identity: topics with the same readers share their threads
        self._pace, self._done = Pace(PAUSE_THREADS), 0

    def of(self, readers: Iterable[str]) -> Sequence[int]:
        if self._all is not None:
            return self._all
        if id(readers) not in self._known:
            found = sorted({self._turn[thread] for thread in readers})
            self._known[id(readers)] = found
            self._done += len(found)
            self._pace.reached(self._done)
        return self._known[id(readers)]


def _circle(threads: Mapping[str, Iterable[str]], relaxed: bool, partitions: int) -> list[str]:
    """Return all threads, in Java's order, that may get one of the partitions.  Raises StrategyRefused for too
    many."""
    if not all(isinstance(names, Threads) for names in threads.values()):
        return java_order({thread for names in threads.values() for thread in names})
    streams: dict[str, int] = {}
    for names in {id(names): names for names in threads.values()}.values():
        assert isinstance(names, Threads)
        for member, count in names.streams.items():
            streams[member] = max(count, streams.get(member, 0))
    found = Threads(streams)
    if not relaxed:  # all read the same topics, so no thread is skipped
        return found.first(partitions)
    if len(found) > MAX_CIRCLE:
        raise StrategyRefused(
            f"the members register {len(found):,} threads, more than the {MAX_CIRCLE:,} that round-robin assignment "
            "is computed for; use range at all members"
        )
    return list(found)


def _hash(tp: TopicPartition) -> int:
    return string_hash(f"[{tp.topic},{tp.partition}]")


def _all_read_the_same(threads: Mapping[str, Iterable[str]]) -> None:
    in_order = java_order(threads)
    for topic in in_order[1:]:
        first = in_order[0]
        if not _same(threads[first], threads[topic]):
            raise StrategyRefused(
                "round-robin assignment is allowed only if all consumers in the group subscribe to the same topics, "
                f"with the same number of streams per topic: topic {first} has the threads "
                f"{_some(threads[first])}, topic {topic} has {_some(threads[topic])}; "
                "use range at all members, or give all of them the same topics and streams"
            )


def _same(names: Iterable[str], others: Iterable[str]) -> bool:
    if isinstance(names, Threads) and isinstance(others, Threads):
        return names == others
    return set(names) == set(others)


def _some(names: Iterable[str]) -> str:
    """Return the first thread ids, for a sentence."""
    found = _in_order(names, NAMED + 1)
    return ", ".join(found[:NAMED]) + (", ..." if len(found) > NAMED else "")


def assign(
    strategy: str,
    partitions_in_order: Mapping[str, Sequence[PartitionId]],
    threads: Mapping[str, Iterable[str]],
    relaxed: bool = False,
) -> dict[str, list[TopicPartition]]:
    """Return partitions by thread, by the strategy: range or roundrobin.  Raises StrategyRefused."""
    if strategy == RANGE:
        return assign_range(partitions_in_order, threads)
    return assign_roundrobin(partitions_in_order, threads, relaxed)
