"""A producer that finds its 0.7 cluster by ZooKeeper: partitions by watch, brokers that come and go."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from kafkawire.model import BrokerPartition
from localkafka.seven import tools
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from producer.errors import PartitionerFailed
from producer.partitioners import default_partitioner_07
from producer.producer import Producer
from tests.integration.producing import repeated

pytestmark = pytest.mark.real
WAIT_S = 40.0
MAIN = "from producer.console import main; main()"
Clusters = Callable[..., Cluster07]
QUICK = {"kafka.version": "0.7", "retry.backoff.ms": 10, "reconnect.backoff.ms": 50, "message.send.max.retries": -1}


def producer_of(cluster: Cluster07, **options: Any) -> Producer:
    named = {key.replace("_", "."): value for key, value in options.items()}
    return Producer({"zk.connect": cluster.zookeeper, **QUICK, "confirm": "offsets", **named}, hub="own")


def wait_for_pool(producer: Producer, live: set[int]) -> None:
    wait_until(lambda: producer.pool == dict.fromkeys(live, True), WAIT_S, lambda: f"{live}: {producer.pool}")


def everything(cluster: Cluster07, topic: str) -> list[bytes]:
    return sorted(value for found in cluster.values(topic).values() for value in found)


@pytest.fixture(scope="module")
def shared07(kind07: str, zk_server: Any) -> Iterator[Cluster07]:
    """Two brokers, with two and three partitions of each topic; every test leaves both running."""
    with Cluster07(partitions={0: 2, 1: 3}, kind=kind07, zookeeper=zk_server) as cluster:
        yield cluster


def test_a_new_topic_begins_in_partition_0_of_each_broker_and_then_has_what_they_register(shared07, unique):
    topic = unique.topic()
    with producer_of(shared07, unkeyed_partitioner="round-robin") as producer:
        assert producer.send(topic, b"first").result(WAIT_S).tp.partition in (
            BrokerPartition(0, 0),
            BrokerPartition(1, 0),
        )
        every = {*(BrokerPartition(0, n) for n in range(2)), *(BrokerPartition(1, n) for n in range(3))}

        def found() -> set[object]:
            return {producer.send(topic, b"v").result(WAIT_S).tp.partition for _ in range(5)}

        wait_until(lambda: found() == every, WAIT_S, "all partitions to be found")
        wait_for_pool(producer, {0, 1})
        with pytest.raises(PartitionerFailed, match=r"/1-7: topic .* has 5 partitions"):
            producer.send(topic, b"v", partition=BrokerPartition(1, 7))
        here = producer.send(topic, b"here", partition=BrokerPartition(1, 2)).result(WAIT_S)
        assert here.tp.partition == BrokerPartition(1, 2)
        assert shared07.values(topic)[BrokerPartition(1, 2)][-1] == b"here"


def test_a_key_goes_to_its_place_in_the_sorted_list_of_brokers_and_partitions(shared07, unique):
    topic = unique.topic()
    partitions = sorted(shared07.create_topic(topic))
    with producer_of(shared07, serializer_class="producer.encoders:as_text") as producer:
        keys = [f"key {n} é" for n in range(60)]
        for key in keys:
            producer.send(topic, f"value of {key}", key=key)
        with pytest.raises(PartitionerFailed, match="returned -1 for 5 partitions"):
            producer.send(topic, "v", key="polygenelubricants")
    stored = shared07.values(topic)
    for key in keys:
        home = partitions[default_partitioner_07(key, len(partitions))]
        assert f"value of {key}".encode() in stored[home]
    assert sum(map(len, stored.values())) == len(keys)


def test_brokers_that_leave_and_come_back_are_followed(shared07, unique):
    topic = unique.topic()
    shared07.create_topic(topic)
    with producer_of(shared07) as producer:
        producer.send_many(topic, [b"%d" % n for n in range(50)], keys=[b"%d" % n for n in range(50)]).result(WAIT_S)
        shared07.node(1).stop()
        try:
            wait_for_pool(producer, {0})
            # Messages choose among the partitions of the newest look, which may come behind the connection's end.
            looked = producer._dispatcher
            wait_until(
                lambda: {own.broker for own in looked.view.topics[topic]} == {0}, WAIT_S, "broker 1 to be left out"
            )
            alone = [producer.send(topic, b"without", key=b"%d" % n) for n in range(20)]
            assert {each.result(WAIT_S).tp.partition.broker for each in alone} == {0}
        finally:
            shared07.node(1).restart(port=0)  # another address: the node in ZooKeeper is what counts
        wait_for_pool(producer, {0, 1})
        producer.send_many(topic, [b"after"] * 20, keys=[b"%d" % n for n in range(20)]).result(WAIT_S)
        counts = producer.counts
        assert (counts.acked, counts.failed) == (90, 0)
    assert len(everything(shared07, topic)) >= 90


def test_what_has_no_key_goes_elsewhere_when_its_broker_goes_and_what_has_one_waits_for_it(shared07, unique):
    topic = unique.topic()
    partitions = sorted(shared07.create_topic(topic))
    with producer_of(shared07, unkeyed_partitioner="random") as producer:
        producer.send(topic, b"first").result(WAIT_S)
        wait_for_pool(producer, {0, 1})
        shared07.node(1).pause()
        theirs = BrokerPartition(1, 1)
        keyed = [producer.send(topic, b"keyed", partition=theirs) for _ in range(5)]
        wait_until(lambda: producer.sizes[topic].messages == 6, WAIT_S, "the round of these to be over")
        free = [producer.send(topic, b"free %d" % n) for n in range(60)]
        assert {each.tp.partition.broker for each in free} == {0, 1}
        shared07.node(1).kill()
        try:
            assert {each.result(WAIT_S).tp.partition.broker for each in free} <= {0, 1}
            wait_for_pool(producer, {0})
            assert sum(not each.done for each in keyed) == 5
        finally:
            shared07.node(1).restart()
        assert {each.result(WAIT_S).tp.partition for each in keyed} == {theirs}
        counts = producer.counts
        assert (counts.acked, counts.failed) == (66, 0)
    stored = shared07.values(topic)
    assert set(stored) == set(partitions)
    assert {b"free %d" % n for n in range(60)} <= {value for found in stored.values() for value in found}


@pytest.mark.parametrize("how", ["kill", pytest.param("stop", marks=pytest.mark.faults)])
def test_a_broker_that_dies_under_full_rate_loses_nothing_that_was_confirmed(
    cluster07: Clusters, unique: Any, how: str
):
    cluster, topic = cluster07(partitions={0: 2, 1: 1}), unique.topic()
    partitions = cluster.create_topic(topic)
    sent = lost_nothing_while(cluster, topic, lambda more: end_and_restart(cluster, how))
    again = 0
    for partition in partitions:
        numbers = [int(value.split()[0]) for value in cluster.values(topic)[partition]]
        again += repeated(numbers, sent[partition])
    print(f"{cluster.kind}, {how}: {sum(sent.values())} messages, {again} of them twice")


@pytest.mark.faults
def test_a_broker_that_is_killed_ten_times_loses_nothing_that_was_confirmed(cluster07: Clusters, unique: Any):
    cluster, topic = cluster07(partitions={0: 2, 1: 1}), unique.topic()
    partitions = cluster.create_topic(topic)

    def ten_times(more: Callable[[int], None]) -> None:
        for _ in range(10):
            end_and_restart(cluster, "kill")
            more(2000)

    sent = lost_nothing_while(cluster, topic, ten_times)
    again = sum(
        repeated([int(value.split()[0]) for value in cluster.values(topic)[partition]], sent[partition])
        for partition in partitions
    )
    print(f"{cluster.kind}, killed 10 times: {sum(sent.values())} messages, {again} of them twice")


def end_and_restart(cluster: Cluster07, how: str) -> None:
    getattr(cluster.node(0), how)()
    cluster.node(0).restart()


def lost_nothing_while(
    cluster: Cluster07, topic: str, happens: Callable[[Callable[[int], None]], None]
) -> dict[BrokerPartition, int]:
    """Numbers to each partition in turn at full rate meanwhile; how many each was sent, all of which were confirmed.

    happens(more): more(count) waits until so many more are confirmed.
    """
    partitions, enough = sorted(cluster.stored_partitions(topic)), threading.Event()
    sent = dict.fromkeys(partitions, 0)
    options = {"zk.connect": cluster.zookeeper, **QUICK, "confirm": "offsets", "queue.buffering.max.messages": 2000}
    with Producer(options, hub="own") as producer:

        def run() -> None:
            while not enough.is_set():
                for partition in partitions:
                    with suppress(PartitionerFailed):  # its broker is away
                        producer.send(topic, b"%09d " % sent[partition] + b"x" * 80, partition=partition)
                        sent[partition] += 1

        def more(count: int) -> None:
            wanted = producer.counts.acked + count
            wait_until(lambda: producer.counts.acked >= wanted, WAIT_S, lambda: f"{wanted}: {producer.counts}")

        thread = threading.Thread(target=run)
        thread.start()
        try:
            more(3000)
            happens(more)
            more(3000)
        finally:
            enough.set()
            thread.join(WAIT_S)
        producer.flush(WAIT_S)
        counts = producer.counts
        total = sum(sent.values())
        assert (counts.sent, counts.acked, counts.failed, counts.unacknowledged) == (total, total, 0, 0)
    return sent


def test_the_console_producer_sends_lines_to_0_7(shared07, unique):
    topic = unique.topic()
    zkproducer = [sys.executable, "-c", MAIN, "--kafka-version", "0.7", "--topic", topic]
    for where in (["--zookeeper", shared07.zookeeper], ["--broker-list", shared07.broker_list, "--sync"]):
        done = subprocess.run(
            [*zkproducer, *where, "--compression-codec", "gzip"], input=b"a:1\nb:2\n", capture_output=True, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert everything(shared07, topic) == [b"a:1", b"a:1", b"b:2", b"b:2"]


@pytest.mark.kafka07
@pytest.mark.parametrize("kind07", ["original"], indirect=True)
def test_the_original_s_console_consumer_reads_all_codecs(shared07, unique):
    topic = unique.topic()
    sent = []
    for codec in ("none", "gzip", "snappy"):
        lines = [f"{codec} {n} é".encode() for n in range(200)]
        with producer_of(shared07, compression_codec=codec, batch_bytes=2048) as producer:
            producer.send_many(topic, lines)
        sent += lines
    with tools.console_consumer(shared07, topic, from_beginning=True) as console:
        assert sorted(console.wait_for(len(sent))) == sorted(sent)
