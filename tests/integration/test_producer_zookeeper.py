"""A producer that finds its cluster by ZooKeeper: the four events of 0.7's producer, on real parts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from localkafka.client import log_end_offsets, started_client
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from producer.errors import SendFailed
from producer.producer import Producer

pytestmark = pytest.mark.real
WAIT_S = 30
# A broker that stands still for a moment is not taken for dead on a busy machine.
SETTINGS = {"auto.create.topics.enable": "true", "zookeeper.session.timeout.ms": "10000"}


@pytest.fixture(scope="module")
def cluster(zk_server) -> Iterator[Cluster]:
    """Two brokers; every test leaves both running."""
    with Cluster(brokers=2, zookeeper=zk_server, settings=SETTINGS) as started:
        yield started


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[Producer]:
    options = {"zk.connect": cluster.zookeeper, "message.send.max.retries": -1, "retry.backoff.ms": 20}
    with Producer(options, hub="own") as made:
        wait_for_pool(made, {0, 1})
        yield made


def wait_for_pool(producer: Producer, live: set[int]) -> None:
    """The pool equals the live brokers, each connected."""
    wait_until(lambda: producer.pool == dict.fromkeys(live, True), WAIT_S, lambda: f"{live}: {producer.pool}")


def stored(cluster: Cluster, topic: str) -> int:
    return sum(log_end_offsets(cluster, [topic]).values())


def test_a_broker_that_goes_leaves_the_pool_and_one_that_comes_joins_it(cluster, producer, unique):
    topic = unique.topic()
    cluster.create_topic(topic, partitions=4, replication=2)
    producer.send_many(topic, [b"before"] * 100).result(WAIT_S)
    leaves = 1 - cluster.registry().controller()
    cluster.node(leaves).stop()
    try:
        wait_for_pool(producer, {1 - leaves})
        producer.send_many(topic, [b"without"] * 100).result(WAIT_S)
    finally:
        cluster.node(leaves).restart(port=0)  # another address: the node in ZooKeeper is what counts
    wait_for_pool(producer, {0, 1})
    cluster.wait_in_sync(topic)
    producer.send_many(topic, [b"after"] * 100).result(WAIT_S)
    # A broker that has just become leader tells an end of its log before it knows how far the other one has it.
    wait_until(lambda: stored(cluster, topic) >= 300, WAIT_S, lambda: f"300 messages: {stored(cluster, topic)}")
    assert producer.counts.acked == 300


def test_a_new_topic_is_found_and_so_is_one_that_the_brokers_create(cluster, producer, unique):
    made, named = unique.topic("made"), unique.topic("named")
    producer.send(named, b"v").result(WAIT_S)
    cluster.create_topic(made, partitions=3, replication=1)
    assert {producer.send(made, b"v", partition=p).result(WAIT_S).tp.partition for p in range(3)} == {0, 1, 2}
    assert (stored(cluster, made), stored(cluster, named)) == (3, 1)
    assert set(producer.pool) == {0, 1}


def test_partitions_that_are_added_to_a_topic_are_sent_to(cluster, producer, unique):
    topic = unique.topic()
    cluster.create_topic(topic, partitions=1, replication=1)
    producer.send(topic, b"v").result(WAIT_S)
    zk = cluster.zk()
    path = f"/brokers/topics/{topic}"
    home = cluster.wait_leader(topic, 0)
    zk.set(path, b'{"version":1,"partitions":{"0":[%d],"1":[%d]}}' % (home, 1 - home))
    cluster.wait_leader(topic, 1)

    def reached() -> bool:
        producer.send(topic, b"v").result(WAIT_S)
        return log_end_offsets(cluster, [topic]).get((topic, 1), 0) > 0

    wait_until(reached, WAIT_S, "messages in the new partition")


def test_a_zookeeper_that_is_not_there_is_one_sentence():
    options = {"zk.connect": "127.0.0.1:1/none", "zk.connectiontimeout.ms": 300, "message.send.max.retries": 0}
    producer = Producer(options, hub="own")
    with pytest.raises(Exception, match=r"ZooKeeper at 127\.0\.0\.1:1/none does not answer within 300 ms"):
        producer.send("t", b"v")
    try:
        producer.close(5)
    except SendFailed:
        raise AssertionError("nothing was sent") from None


def test_a_root_without_brokers_and_a_missing_chroot_are_one_sentence_and_nothing_is_created(zk_server, unique):
    root = zk_server.connect + unique.chroot
    zk = started_client(zk_server.connect)
    try:
        zk.create(unique.chroot)
        for connect, sentence in (
            (root, f"no brokers are registered under {root}: is the chroot missing in zookeeper.connect?"),
            (f"{root}/no", f"chroot {unique.chroot}/no does not exist on {zk_server.connect}; create it or correct"),
        ):
            producer = Producer({"zk.connect": connect, "message.send.max.retries": 0}, hub="own")
            with pytest.raises(Exception, match=re.escape(sentence)):
                producer.send("t", b"v")
            producer.close(5)
            command = [sys.executable, "-m", "producer", "--zookeeper", connect, "--topic", "t"]
            done = subprocess.run(command, input="line\n", capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 1
            assert done.stderr.splitlines()[-1].startswith(f"zkproducer: stopped at line 1: {sentence}")
        assert zk.get_children(unique.chroot) == []
    finally:
        zk.delete(unique.chroot, recursive=True)
        zk.stop()
        zk.close()


def test_a_partition_that_was_looked_at_before_it_had_a_leader_is_sent_to_as_soon_as_it_has(cluster, producer, unique):
    topic = unique.topic()
    controller = cluster.registry().controller()
    cluster.create_topic(topic, partitions=1, replication=1)
    producer.send(topic, b"v").result(WAIT_S)
    home = cluster.wait_leader(topic, 0)
    cluster.node(controller).pause()  # nobody chooses leaders
    try:
        state = b'{"version":1,"partitions":{"0":[%d],"1":[%d]}}' % (home, 1 - controller)
        cluster.zk().set(f"/brokers/topics/{topic}", state)
        known = producer._dispatcher  # no message would be sent to it: nothing else shows what was seen
        wait_until(lambda: 1 in known.view.topics[topic], WAIT_S, "a look at the new partition")
        assert known.view.topics[topic][1].leader is None
    finally:
        cluster.node(controller).resume()
    cluster.wait_leader(topic, 1)

    def reached() -> bool:
        producer.send(topic, b"v").result(WAIT_S)
        return log_end_offsets(cluster, [topic]).get((topic, 1), 0) > 0

    wait_until(reached, WAIT_S, "messages in the new partition")
    cluster.wait_in_sync(topic)
