"""Our consumer on real clusters while things break: brokers that move or die, damaged logs, ZooKeeper out of reach."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kafkawire.model import TopicPartition
from localkafka.cluster import Cluster
from localkafka.load import Load, Mixture
from localkafka.proxy import Proxy
from localkafka.waiting import wait_until
from tests.integration.readers import Reader, committed, owners, places, wait_for_messages

pytestmark = pytest.mark.real
MIXED = Mixture(0.5, (0, 1, 2))
PLAIN = Mixture(0.5, (0,))


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


def test_a_source_leader_that_is_killed_costs_nothing(cluster, unique, load):
    topic, group = unique.topic(), unique.group()
    cluster.create_topic(topic, 2, replication=2)
    load.produce(topic, 2, 200, MIXED, batch=10)
    with Reader(cluster.zookeeper, group, {topic: 1}) as reader:
        wait_for_messages(200, reader)
        leader = cluster.wait_leader(topic, 0)
        cluster.node(leader).kill()
        try:
            cluster.wait_leader(topic, 0, other_than=leader)
            load.produce(topic, 2, 200, MIXED, batch=10)
            wait_until(lambda: len(places(reader)) >= 400, 10, lambda: f"400 messages, have {len(places(reader))}")
        finally:
            cluster.node(leader).restart()
            cluster.wait_in_sync(topic)
        reader.stop()
    ends = committed(cluster, group, topic)
    assert set(places(reader)) == {(TopicPartition(topic, p), o) for p, end in ends.items() for o in range(end)}
    assert sum(ends.values()) >= 400
    assert not reader.kinds("gap")


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


def test_a_damaged_message_parks_its_partition_after_what_came_before_it(cluster, unique, load):
    topic, group = unique.topic(), unique.group()
    cluster.create_topic(topic, 2)
    load.produce(topic, 2, 1000, PLAIN, batch=10)
    victim = other_than_controller(cluster)
    bad = next(p for p in (0, 1) if cluster.wait_leader(topic, p) == victim)
    cluster.node(victim).flip_byte(topic, bad, offset=57, at=3)
    with Reader(cluster.zookeeper, group, {topic: 1}) as reader:
        wait_until(lambda: reader.kinds("parked"), 20, "the parked partition")
        wait_until(lambda: len(places(reader)) == 500 + 57, 10, lambda: f"557 messages, have {len(places(reader))}")
        (reason,) = set(reader.kinds("parked"))
        assert f"{topic}/{bad} at 57: damaged" in reason
        assert "fetched 4 times" in reason
        reader.stop()
    assert committed(cluster, group, topic) == {1 - bad: 500, bad: 57}
    assert set(places(reader).values()) == {1}


def test_out_of_reach_of_zookeeper_nothing_is_handed_out_after_the_lease_and_all_goes_on_later(cluster, unique, load):
    topic, group = unique.topic(), unique.group()
    cluster.create_topic(topic, 2)
    session_s = 3.0
    with Proxy(cluster.zookeeper_address) as proxy:
        options = {"zookeeper_session_timeout_ms": int(session_s * 1000), "rebalance_backoff_ms": 1000}
        with Reader(cluster.zookeeper_through(proxy), group, {topic: 1}, **options) as reader:
            load.produce(topic, 2, 40, MIXED, batch=10)
            wait_for_messages(40, reader)
            proxy.blackhole()
            cut = time.monotonic()
            while not reader.fenced_at and time.monotonic() - cut < 2 * session_s:
                load.produce(topic, 2, 20, MIXED, batch=10)
            (fenced,) = reader.fenced_at
            assert fenced < cut + session_s  # before ZooKeeper can have given our partitions away
            assert reader.got[-1].at > cut + 0.5  # suspended, and read on while the lease held
            load.produce(topic, 2, 40, MIXED, batch=10)
            wait_until(lambda: owners(cluster, group, topic) == {}, 10, "the end of the session")
            assert reader.got[-1].at <= fenced + 0.05
            assert reader.owns() == set()
            proxy.clear()
            wait_until(lambda: len(places(reader)) == load.sent, 10, lambda: f"{load.sent}, have {len(places(reader))}")
            reader.stop()
    assert sum(committed(cluster, group, topic).values()) == load.sent


def test_a_slow_zookeeper_is_not_a_dead_one(cluster, unique, load):
    topic = unique.topic()
    cluster.create_topic(topic, 1)
    with Proxy(cluster.zookeeper_address) as proxy:
        options = {"zookeeper_session_timeout_ms": 4000}
        with Reader(cluster.zookeeper_through(proxy), unique.group(), {topic: 1}, **options) as reader:
            wait_until(lambda: reader.connector.settled, 10, "a settled member")
            proxy.delay(600)  # each way
            for _ in range(8):
                load.produce(topic, 1, 10, MIXED, batch=10)
                time.sleep(0.5)
            wait_for_messages(80, reader)
            assert reader.fenced_at == []
            assert len(reader.kinds("rebalance")) == 1
            proxy.clear()


def test_shutdown_without_zookeeper_takes_less_than_ten_seconds(cluster, unique):
    topic = unique.topic()
    cluster.create_topic(topic, 1)
    with Proxy(cluster.zookeeper_address) as proxy:
        reader = Reader(cluster.zookeeper_through(proxy), unique.group(), {topic: 1})
        wait_until(lambda: reader.connector.settled, 10, "a settled member")
        proxy.blackhole()
        began = time.monotonic()
        reader.stop()
        assert time.monotonic() - began < 10
