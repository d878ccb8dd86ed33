"""Partition assignment: range and roundrobin.  Pure; must give exactly what the JVM's members compute, or two members
claim the same partition.

Every member computes the whole assignment for itself from the same inputs: the threads that read a topic, its
partitions, and two sort orders.  Threads are sorted as text by UTF-16 code unit, as Java compares strings: `c-10`
before `c-2`, capitals before small letters.  Partitions come sorted by the dialect: numbers in 0.8, text in 0.7.

Nothing in ZooKeeper says which strategy a group uses: all its members must have the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from groundwork.java import string_hash
from kafkawire.model import PartitionId, TopicPartition

RANGE, ROUNDROBIN = "range", "roundrobin"  # partition.assignment.strategy


class StrategyRefused(ValueError):
    """The strategy does not allow a group such as this one; every JVM member with it fails in the same way."""


def java_order(names: Iterable[str]) -> list[str]:
    """Sorted as Java sorts strings; Python's own order for ASCII."""
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def assign_range(
    partitions_in_order: Mapping[str, Sequence[PartitionId]], threads: Mapping[str, Iterable[str]]
) -> dict[str, list[TopicPartition]]:
    """Assign each topic alone: its partitions in order are cut into runs for its threads in order, longer ones first.

    partitions_in_order: by topic, in the dialect's order; a topic that is absent has none.
    threads: thread ids by topic, of all members that read it, in any order.
    Returns partitions by thread; a thread that gets nothing is there with an empty list.
    (RangeAssignor of 0.8.2.2: position start = q*i + min(i, r), length q or q + 1.)
    """
    assigned: dict[str, list[TopicPartition]] = {}
    for topic, names in threads.items():
        partitions = partitions_in_order.get(topic, ())
        in_order = java_order(set(names))
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
    """Assign all partitions of all topics in the order of their hashes, to the threads in a circle.

    partitions_in_order, threads, the result: as of assign_range, but of every topic that any member reads.
    relaxed: the rule from 0.10.2 on, where a thread that does not read a topic is skipped; before, all threads had
    to read the same topics.  Raises StrategyRefused then.
    (RoundRobinAssignor of 0.8.2.2 and 0.10.2: `[topic,partition]` by String.hashCode, signed.  The JVM leaves the order
    of equal hashes to its hash maps; here they stay in the order of the topics' names.)
    """
    if not relaxed:
        _all_read_the_same(threads)
    circle = java_order({thread for names in threads.values() for thread in names})
    readers = {topic: set(names) for topic, names in threads.items()}
    everything = [TopicPartition(topic, p) for topic in java_order(threads) for p in partitions_in_order.get(topic, ())]
    assigned: dict[str, list[TopicPartition]] = {thread: [] for thread in circle}
    at = 0
    for tp in sorted(everything, key=_hash):
        if not readers[tp.topic]:
            continue
        while circle[at] not in readers[tp.topic]:
            at = (at + 1) % len(circle)
        assigned[circle[at]].append(tp)
        at = (at + 1) % len(circle)
    return assigned


def _hash(tp: TopicPartition) -> int:
    return string_hash(f"[{tp.topic},{tp.partition}]")


def _all_read_the_same(threads: Mapping[str, Iterable[str]]) -> None:
    by_topic = {topic: java_order(set(names)) for topic, names in threads.items()}
    for topic in java_order(by_topic):
        first = java_order(by_topic)[0]
        if by_topic[topic] != by_topic[first]:
            raise StrategyRefused(
                "round-robin assignment is allowed only if all consumers in the group subscribe to the same topics, "
                f"with the same number of streams per topic: topic {first} has the threads "
                f"{', '.join(by_topic[first])}, topic {topic} has {', '.join(by_topic[topic])}; "
                "use range at all members, or give all of them the same topics and streams"
            )


def assign(
    strategy: str,
    partitions_in_order: Mapping[str, Sequence[PartitionId]],
    threads: Mapping[str, Iterable[str]],
    relaxed: bool = False,
) -> dict[str, list[TopicPartition]]:
    """Partitions by thread, by the strategy: range or roundrobin.  Raises StrategyRefused."""
    if strategy == RANGE:
        return assign_range(partitions_in_order, threads)
    return assign_roundrobin(partitions_in_order, threads, relaxed)
