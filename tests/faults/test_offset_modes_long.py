"""Groups on their way off ZooKeeper when a coordinator goes silent or dies, and on the later releases."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC, group_partition
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from tests.fakes.commits import not_committed
from tests.integration.mirroring import MIXED, filled
from tests.integration.offsetmoves import DUAL, Move, in_kafka, simple
from tests.integration.readers import Reader, committed, wait_for_messages

pytestmark = [pytest.mark.real, pytest.mark.faults]


@pytest.mark.parametrize("version", ["0.9.0.1", "0.10.2.2"])
def test_a_group_of_a_later_release_goes_off_zookeeper_and_back(
    own_cluster: Callable[..., Cluster], unique, tmp_path: Path, version: str
):
    cluster = own_cluster(version=version, brokers=2)
    with Move(cluster, unique.topic(), unique.group(), tmp_path) as move:
        move.forth()
        move.to_kafka()
        move.back()
        move.end()
    move.check()


@pytest.mark.parametrize("version", ["0.8.2.2", "0.9.0.1", "0.10.2.2"])
def test_the_coordinator_dies_in_each_mode_on_the_way(
    own_cluster: Callable[..., Cluster], unique, tmp_path: Path, version: str
):
    settings = {"offsets.topic.replication.factor": "3", "offsets.topic.num.partitions": "3"}
    cluster = own_cluster(version=version, brokers=3, settings=settings)
    name = unique.group()
    with Move(cluster, unique.topic(), name, tmp_path, replication=3) as move:
        move.forth()
        _coordinator_dies(cluster, move)
        move.to_kafka()
        _coordinator_dies(cluster, move)
        move.back()
        move.end()
    assert move.lost() == set()
    assert move.twice() == []


def _coordinator_dies(cluster: Cluster, move: Move) -> None:
    """Until another one took over and every partition moved on in Kafka; then it comes back."""
    partition = group_partition(move.name, 3)
    cluster.wait_in_sync(OFFSETS_TOPIC, timeout_s=60)
    node = cluster.node(cluster.wait_leader(OFFSETS_TOPIC, partition))
    before = move.group.kafka()
    node.kill()
    cluster.wait_leader(OFFSETS_TOPIC, partition, other_than=node.id)

    def moved() -> bool:
        return all(isinstance(at, int) and at > before[tp] for tp, at in move.group.kafka().items())  # type: ignore[operator]

    wait_until(moved, 60, lambda: f"commits after its death: {move.group.told()}")
    node.restart()
    cluster.wait_in_sync(OFFSETS_TOPIC, timeout_s=60)


def test_without_its_coordinator_a_dual_member_writes_nowhere_loses_nothing_and_ends_in_time(
    own_cluster: Callable[..., Cluster], unique
):
    cluster = own_cluster(brokers=2)
    topic = unique.topic()
    load = filled(cluster, {topic: 2}, 0)
    for partition in range(2):
        load.send(TopicPartition(topic, partition), 20, MIXED)
    group, led = _group_beside(cluster, topic, unique.group())
    with Reader(cluster.zookeeper, group, {topic: 1}, **DUAL, offsets_channel_socket_timeout_ms=1000) as reader:
        wait_for_messages(40, reader)
        wait_until(lambda: in_kafka(cluster, group, topic) == {0: 20, 1: 20}, 10, "the first commits")
        with simple(cluster) as at:
            coordinator = cluster.node(at.coordinator(group).id)
        coordinator.pause()
        load.send(TopicPartition(topic, led), 10, MIXED)
        wait_for_messages(50, reader)
        wait_until(lambda: any("not committed" in text for text in reader.kinds("offset")), 10, "an event")
        assert not_committed(reader.connector.commit_offsets).committed == []
        assert committed(cluster, group, topic) == {0: 20, 1: 20}  # ZooKeeper does not run ahead of Kafka
        began = time.monotonic()
        reader.stop()
        assert time.monotonic() - began < 10
    coordinator.kill()  # or what waits in its sockets would be committed after all
    coordinator.restart()
    with Reader(cluster.zookeeper, group, {topic: 1}, **DUAL) as after:
        wait_for_messages(10, after)
        ends = {0: 20, 1: 20} | {led: 30}
        wait_until(lambda: in_kafka(cluster, group, topic) == committed(cluster, group, topic) == ends, 20, "commits")
        assert len(after.got) == 10


def _group_beside(cluster: ClusterClient, topic: str, name: str) -> tuple[str, int]:
    """A group whose coordinator does not lead one partition of the topic, and which."""
    view = cluster.registry().view(topic)
    with simple(cluster) as at:
        coordinator = at.coordinator(name).id
    return name, next(p for p in range(2) if view.leader(TopicPartition(topic, p)).id != coordinator)
