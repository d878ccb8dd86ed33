"""Sessions with real ZooKeepers: cut links, restarts, fences, several hosts, identities, TLS."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError

from groundwork.tasks import TaskGroup
from localkafka.cluster import Cluster
from localkafka.load import Load, Mixture
from localkafka.proxy import Proxy
from localkafka.waiting import wait_until
from localkafka.zookeeper import four_letters
from tests.integration.readers import Reader, committed, places, wait_for_messages

pytestmark = pytest.mark.real
MIXED = Mixture(0.5, (0, 1, 2))
CUTS, RESTARTS = 100, 5
SESSION_S = 3.0
OURS = {"zookeeper_session_timeout_ms": int(SESSION_S * 1000), "rebalance_backoff_ms": 1000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """With a ZooKeeper of its own: its connections and watches are counted, and it is restarted."""
    with Cluster() as started:
        yield started


def watches_and_connections(cluster: Cluster) -> tuple[int, int]:
    """Watches that all connections hold, and connections (that of the question not counted)."""
    watches = re.search(r"Total watches:(\d+)", four_letters(cluster.zookeeper_address, "wchs"))
    connections = re.search(r"Connections: (\d+)", four_letters(cluster.zookeeper_address, "srvr"))
    assert watches is not None
    assert connections is not None
    return int(watches[1]), int(connections[1]) - 1


def greenlets(tasks: TaskGroup) -> list[str]:
    return sorted(worker.name for worker in tasks._tasks)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# The longest session of this server: a JVM that starts slowly on a loaded machine must not look like a lost session.
LONG = {"zookeeper_session_timeout_ms": 10000, "rebalance_backoff_ms": 4000}


def test_a_hundred_cuts_and_five_restarts_leave_nothing_behind(cluster, unique):
    topic, rng = unique.topic(), random.Random(1)
    cluster.create_topic(topic, 4)
    load = Load(cluster.brokers, cluster.version)
    with (
        Proxy(cluster.zookeeper_address) as proxy,
        Reader(cluster.zookeeper_through(proxy), unique.group(), {topic: 2}, streams=2, **LONG) as reader,
    ):
        engine = reader.connector._engine
        load.produce(topic, 4, 80, MIXED, batch=10)
        wait_for_messages(80, reader)
        wait_until(lambda: reader.connector.settled, 10, "a settled member")

        def holds() -> tuple[object, ...]:
            watches, connections = watches_and_connections(cluster)
            return (watches, connections, proxy.counters.open, greenlets(engine._tasks), threading.active_count())

        def is_connected() -> bool:
            return reader.connector.silent_s == 0 and engine.assignment.may_commit()

        before, files = holds(), descriptors()
        connected = 0
        for _ in range(CUTS):
            accepted = proxy.counters.connections
            assert proxy.reset() <= 1
            wait_until(lambda n=accepted: proxy.counters.connections > n, 10, "the next connection", every_s=0.01)
            if rng.random() < 0.7:  # else it is cut while it comes up
                wait_until(is_connected, 10, "to be connected", 0.01)
                connected += 1
        assert connected > CUTS / 2
        for _ in range(RESTARTS):
            cluster.zookeeper_server.restart()
            wait_until(is_connected, 10, "to be connected")  # five in a row may take longer than a lease holds
        load.produce(topic, 4, 80, MIXED, batch=10)
        wait_for_messages(160, reader)
        wait_until(lambda: holds() == before, 20, lambda: f"{before}, have {holds()}", every_s=0.2)
        assert descriptors() <= files + 1  # the test's own client may have one more under way
        assert reader.fenced_at == []
        assert set(places(reader).values()) == {1}
        reader.stop()
    load.close()


def test_a_blackholed_zookeeper_lets_nothing_out_after_the_session_and_partitions_are_back_in_two_seconds(
    cluster, unique
):
    topic, group = unique.topic(), unique.group()
    cluster.create_topic(topic, 4)
    load = Load(cluster.brokers, cluster.version)
    with (
        Proxy(cluster.zookeeper_address) as proxy,
        Reader(cluster.zookeeper_through(proxy), group, {topic: 1}, **OURS) as cut,
        Reader(cluster.zookeeper, group, {topic: 1}, **OURS) as other,
    ):
        wait_until(lambda: (len(cut.owns()), len(other.owns())) == (2, 2), 15, "two each")
        began = time.monotonic()
        proxy.blackhole()
        while time.monotonic() < began + 3 * SESSION_S:  # the fault itself, with messages flowing
            load.produce(topic, 4, 40, MIXED, batch=10)
            time.sleep(0.05)
        (fenced,) = cut.fenced_at
        assert fenced < began + SESSION_S
        assert not [got for got in cut.got if got.at > fenced + 0.05]
        assert cut.owns() == set()
        taken = len(other.got)
        assert sum(committed(cluster, group, topic).values()) > 0
        proxy.clear()
        cleared = time.monotonic()
        wait_until(lambda: (len(cut.owns()), len(other.owns())) == (2, 2), 10, "two each again", every_s=0.02)
        assert time.monotonic() - cleared <= 2
        load.produce(topic, 4, 40, MIXED, batch=10)
        wait_until(lambda: len(places(cut, other)) == load.sent, 10, lambda: f"{load.sent}; {taken} by the other one")
        for reader in (cut, other):
            reader.stop()
        assert sum(committed(cluster, group, topic).values()) == load.sent
    load.close()


def test_the_living_one_of_several_hosts_is_found(cluster, unique):
    topic = unique.topic()
    cluster.create_topic(topic, 1)
    load = Load(cluster.brokers, cluster.version)
    load.produce(topic, 1, 20, MIXED, batch=10)
    load.close()
    with Proxy(cluster.zookeeper_address) as dead:
        dead.refuse()
        hosts, _, chroot = cluster.zookeeper.partition("/")
        with Reader(f"{dead.connect},{hosts},{dead.connect}/{chroot}", unique.group(), {topic: 1}, **OURS) as reader:
            wait_for_messages(20, reader)
            reader.stop()


# identities ---------------------------------------------------------------------------------------------------------

AUTH = "digest:mirror:sec:ret"


def test_closed_nodes_are_written_by_our_identity_only_and_read_by_all(cluster, unique):
    topic, group = unique.topic(), unique.group()
    cluster.create_topic(topic, 2)
    load = Load(cluster.brokers, cluster.version)
    closed = {**OURS, "zookeeper_auth": AUTH, "zookeeper_set_acl": True}
    anybody = cluster.zk()
    with Proxy(cluster.zookeeper_address) as proxy:
        connect = cluster.zookeeper_through(proxy)
        with (
            Reader(connect, group, {topic: 1}, **closed) as first,
            Reader(connect, group, {topic: 1}, **closed) as second,
        ):
            wait_until(lambda: (len(first.owns()), len(second.owns())) == (1, 1), 10, "one each")
            proxy.reset()  # the identity is told anew on each connection
            load.produce(topic, 2, 40, MIXED, batch=10)
            wait_until(lambda: sum(committed(cluster, group, topic).values()) == 40, 10, "the commits of both")
            second.stop()
            wait_until(lambda: len(first.owns()) == 2, 10, "both: what the other one created is ours to write")
            load.produce(topic, 2, 40, MIXED, batch=10)
            wait_until(lambda: sum(committed(cluster, group, topic).values()) == 80, 10, "all to be committed")
            for path in (f"ids/{first.consumer_id}", f"owners/{topic}/0", f"offsets/{topic}/0"):
                assert anybody.get(f"/consumers/{group}/{path}")[0]
                with pytest.raises(NoAuthError):
                    anybody.set(f"/consumers/{group}/{path}", b"mine")
            with pytest.raises(NoAuthError):
                anybody.create(f"/consumers/{group}/owners/{topic}/9", b"mine")
            anybody.create(f"/consumers/{unique.group('another')}", b"")  # what belongs to all groups stays open
            assert "sec:ret" not in repr(first.connector.config) + "".join(event.text for event in first.events)
            first.stop()
    load.close()


def test_a_member_without_the_identity_says_what_is_missing(cluster, unique):
    topic, group = unique.topic(), unique.group()
    cluster.create_topic(topic, 1)
    with Reader(cluster.zookeeper, group, {topic: 1}, **OURS, zookeeper_auth=AUTH, zookeeper_set_acl=True) as reader:
        reader.stop()
    with Reader(cluster.zookeeper, group, {topic: 1}, **OURS) as stranger:
        wait_until(
            lambda: any(
                "NoAuthError" in event.text and "see zookeeper.auth" in event.text for event in stranger.events
            ),
            10,
            lambda: f"the reason, have {stranger.events}",
        )
        assert stranger.owns() == set()
