"""Our consumer on real clusters while things break: brokers that move or die, damaged logs, ZooKeeper out of reach."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from localkafka.cluster import Cluster
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until
from tests.integration.readers import Reader, places, wait_for_messages

pytestmark = pytest.mark.real
MIXED = Mixture(0.5, (0, 1, 2))


@pytest.fixture(scope="module")
def cluster(zk_server) -> Iterator[Cluster]:
    """Two brokers that this module may stop and kill; every test leaves both running."""
    with Cluster(brokers=2, zookeeper=zk_server, settings={"log.segment.bytes": 16384}) as started:
        yield started


@pytest.fixture
def load(cluster: Cluster) -> Iterator[Load]:
    producer = Load(cluster.brokers, cluster.version)
    yield producer
    producer.close()


def other_than_controller(cluster: Cluster) -> int:
    """A broker whose death the living one sees as a controller, so that its partitions are without a leader."""
    return 1 - cluster.registry().controller()


def test_a_broker_that_comes_back_on_another_port_is_read_on_within_five_seconds(cluster, unique, load):
    topic = unique.topic()
    cluster.create_topic(topic, 4)
    load.produce(topic, 4, 200, MIXED, batch=10)
    with Reader(cluster.zookeeper, unique.group(), {topic: 1}) as reader:
        wait_for_messages(200, reader)
        moves = cluster.node(other_than_controller(cluster))
        moves.stop()
        moves.restart(port=0)
        producer = Load(cluster.brokers, cluster.version)
        producer.produce(topic, 4, 200, MIXED, batch=10)
        producer.close()
        began = time.monotonic()
        wait_until(lambda: len(places(reader)) == 400, 5, lambda: f"400 messages, have {len(places(reader))}")
        assert time.monotonic() - began < 5
    assert set(places(reader).values()) == {1}


def test_a_partition_without_a_leader_waits_and_its_neighbours_flow(cluster, unique, load):
    topic = unique.topic()
    cluster.create_topic(topic, 2)
    load.produce(topic, 2, 40, MIXED, batch=10)
    with Reader(cluster.zookeeper, unique.group(), {topic: 1}) as reader:
        wait_for_messages(40, reader)
        dead = other_than_controller(cluster)
        cluster.node(dead).stop()
        try:
            wait_until(lambda: reader.kinds("leader"), 10, "the line about the leader")
            states = sorted(row.state for row in reader.connector.status())
            assert states == ["looking for leader", "reading"]
        finally:
            cluster.node(dead).restart()
        load.produce(topic, 2, 40, MIXED, batch=10)
        wait_for_messages(80, reader, timeout_s=10)
    assert set(places(reader).values()) == {1}
