"""View of a cluster at one moment: brokers, topics, partitions and their leaders.  Immutable, and independent of its
source.

A new view replaces an old one; ClusterView.moved(old, new) says which partitions a fetcher or sender has to move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkawire.errors import Follows, error_info
from kafkawire.model import Broker, BrokerPartition, PartitionId, TopicPartition

NO_EPOCH = -1  # not known: brokers report leader epochs from 2.1


@dataclass(frozen=True, slots=True)
class PartitionView:
    leader: int | None  # None: no leader at the moment
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    error: int = 0  # the broker's code in a Metadata reply: 5 no leader now, 9 a replica is down; for output only
    epoch: int = NO_EPOCH  # of two views, the one with the larger leader epoch is newer


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Brokers by id, partitions by topic, and errors: the code of each topic that has an error instead of partitions.

    controller: the broker that creates and changes topics; None: unknown (before 0.10, by ZooKeeper), or none now.
    """

    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Mapping[PartitionId, PartitionView]] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    controller: int | None = None

    def leader(self, tp: TopicPartition) -> Broker | None:
        """Return the leader of tp; None while it has no leader, or if its leader's address or tp itself is unknown."""
        partition = self.topics.get(tp.topic, {}).get(tp.partition)
        if partition is None or partition.leader is None:
            return None
        return self.brokers.get(partition.leader)

    def epoch(self, tp: TopicPartition) -> int:
        """Return the leader epoch of tp; NO_EPOCH if it or tp is not known."""
        partition = self.topics.get(tp.topic, {}).get(tp.partition)
        return NO_EPOCH if partition is None else partition.epoch

    def partitions(self, topic: str) -> list[PartitionId]:
        """Return the partition ids of a topic, numerically sorted; empty if the topic is unknown."""
        return sorted(self.topics.get(topic, ()), key=_number)

    def merged(self, newer: ClusterView, whole: bool = False) -> ClusterView:
        """Return this view, updated with one that covers only some topics. whole: the newer view covers all topics.

        Brokers are added or moved, never removed: 0.8.0 and 0.8.1 list only those of the requested partitions.  A topic
        keeps its partitions if its error says nothing about it: the request failed, or the broker knows no brokers.
        """
        kept = {t for t in newer.errors if t in self.topics and not (newer.brokers and _speaks_of(newer.errors[t]))}
        topics = {t: p for t, p in self.topics.items() if t in kept or not (whole or t in newer.errors)}
        errors = {} if whole else {t: code for t, code in self.errors.items() if t not in newer.topics}
        errors |= {t: code for t, code in newer.errors.items() if t not in kept}
        brokers = {**self.brokers, **newer.brokers}
        return ClusterView(brokers, {**topics, **newer.topics}, errors, newer.controller)


def _speaks_of(code: int) -> bool:
    """True if a topic's error says something about that topic: it does not exist, is being created, or is refused to
    us."""
    return error_info(code).follows in (Follows.MOVED, Follows.LASTING)


def view_of(brokers: Mapping[int, Broker], leaders: Mapping[TopicPartition, int]) -> ClusterView:
    """Return a view in which each partition is led by the broker id given for it."""
    topics: dict[str, dict[PartitionId, PartitionView]] = {}
    for tp, leader in leaders.items():
        topics.setdefault(tp.topic, {})[tp.partition] = PartitionView(leader, (leader,), (leader,))
    return ClusterView(dict(brokers), topics)


def _number(partition: PartitionId) -> tuple[int, int]:
    if isinstance(partition, BrokerPartition):
        return (partition.broker, partition.index)
    return (0, partition)
