"""Partitions of 0.7 as ZooKeeper tells them: those that a topic's brokers count, which come and go with the brokers.

/brokers/topics/T/B = 2     broker B has the partitions B-0 and B-1 of topic T; it leads them, nobody else has them
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafkawire.cluster.noderead import children, children_of, read
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.interfaces import CountedZnodes
from kafkawire.model import Broker, BrokerPartition, PartitionId, TopicPartition


def read_partitions(zk: Any, znodes: CountedZnodes, topics: Iterable[str]) -> dict[str, dict[PartitionId, list[int]]]:
    """[broker] by partition for each of the topics that exists, as counted: the original assigns by just these.

    Raises NodeError for a count that is none, and for a topic of 0.8 or later.
    """
    folders = {znodes.topic_path(topic): topic for topic in topics}
    counts: dict[str, tuple[str, int]] = {}
    found: dict[str, dict[PartitionId, list[int]]] = {}
    for folder, names in children_of(zk, folders).items():
        topic = folders[folder]
        found[topic] = {}
        for broker in sorted(znodes.broker_id(name, f"topic {topic}") for name in names):
            counts[znodes.count_path(topic, broker)] = (topic, broker)
    nodes = read(zk, counts)
    for path, (topic, broker) in counts.items():
        if path in nodes:
            count = znodes.count(nodes[path], f"topic {topic} on broker {broker}")
            found[topic] |= {partition: [broker] for partition in znodes.partitions(broker, count)}
    return found


def read_leaders(zk: Any, znodes: CountedZnodes, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
    """Each partition's own broker; None while that is not registered, or says it has none of that number: asked for
    such a one it closes the connection."""
    live = set(children(zk, znodes.BROKERS)) if tps else set()
    paths = {tp: znodes.count_path(tp.topic, b) for tp in tps if (b := _broker(tp)) is not None and str(b) in live}
    nodes = read(zk, dict.fromkeys(paths.values()))
    counts = {tp: znodes.count(nodes[path], str(tp)) for tp, path in paths.items() if path in nodes}
    return {tp: _broker(tp) if _index(tp) < counts.get(tp, 0) else None for tp in tps}


def view(brokers: Mapping[int, Broker], partitions: Mapping[str, Mapping[PartitionId, Sequence[int]]]) -> ClusterView:
    """Topics with the partitions of live brokers, in order of brokers and index."""
    topics: dict[str, dict[PartitionId, PartitionView]] = {
        topic: {p: PartitionView(ids[0], tuple(ids), tuple(ids)) for p, ids in found.items() if ids[0] in brokers}
        for topic, found in partitions.items()
    }
    return ClusterView(brokers, topics)


def _broker(tp: TopicPartition) -> int | None:
    return tp.partition.broker if isinstance(tp.partition, BrokerPartition) else None


def _index(tp: TopicPartition) -> int:
    return tp.partition.index if isinstance(tp.partition, BrokerPartition) else 0
