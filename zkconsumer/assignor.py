"""Who reads which partition.  Pure; must give exactly what the JVM's members compute, or two claim the same partition.

Every member computes the whole answer for itself from the same inputs: the threads that read a topic, its partitions,
and two sort orders.  Threads are sorted as text by UTF-16 code unit, as Java compares strings: `c-10` before `c-2`,
capitals before small letters.  Partitions come sorted by the dialect: numbers in 0.8, text in 0.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkawire.model import PartitionId, TopicPartition


def java_order(names: Iterable[str]) -> list[str]:
    """Sorted as Java sorts strings; Python's own order for ASCII."""
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def assign_range(
    partitions_in_order: Mapping[str, Sequence[PartitionId]], threads: Mapping[str, Iterable[str]]
) -> dict[str, list[TopicPartition]]:
    """Each topic for itself: its partitions in order are cut into runs for its threads in order, longer ones first.

    partitions_in_order: by topic, in the dialect's order; a topic that is absent has none.
    threads: thread ids by topic, of all members that read it, in any order.
    Returns partitions by thread; a thread that gets nothing is there with an empty list.
    (RangeAssignor of 0.8.2.2: position start = q*i + min(i, r), length q or q + 1.)
    """
    share: dict[str, list[TopicPartition]] = {}
    for topic, names in threads.items():
        partitions = partitions_in_order.get(topic, ())
        in_order = java_order(set(names))
        each, longer = divmod(len(partitions), len(in_order) or 1)
        for i, thread in enumerate(in_order):
            start = each * i + min(i, longer)
            run = partitions[start : start + each + (i < longer)]
            share.setdefault(thread, []).extend(TopicPartition(topic, p) for p in run)
    return share
