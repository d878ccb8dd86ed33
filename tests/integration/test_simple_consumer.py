"""SimpleConsumer, `topics` and `brokers` against real brokers, and against the JVM's own view of the same offsets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from kafkawire.model import TopicPartition
from localkafka import tools
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from tests.fakes.commits import not_committed
from zkconsumer.commands.cluster import brokers, topics
from zkconsumer.offsets.store import NONE, Unknown
from zkconsumer.refusals import MetadataTooLong, NotLeader, OffsetOutOfRange, UnknownPartition
from zkconsumer.simple import SimpleConsumer

pytestmark = pytest.mark.real
COUNT = 50


def simple(address: str, **options: object) -> SimpleConsumer:
    host, port = address.rsplit(":", 1)
    return SimpleConsumer(host, int(port), **options)  # type: ignore[arg-type]


def node(cluster: ClusterClient, group: str, tp: TopicPartition) -> str | None:
    zk = cluster.zk()
    path = f"/consumers/{group}/offsets/{tp.topic}/{tp.partition}"
    return zk.get(path)[0].decode() if zk.exists(path) else None


def test_it_reads_from_the_leader_looks_up_offsets_and_commits_to_the_store_named(source: ClusterClient, unique):
    topic, group = unique.topic(), unique.group()
    tp = TopicPartition(topic, 0)
    source.create_topic(topic, partitions=1, replication=2)
    leader_id = source.wait_leader(topic, 0)
    source.wait_in_sync(topic)
    lines = [f"line {n}" for n in range(COUNT)]
    tools.console_producer(source, topic, lines)
    with simple(source.brokers.split(",")[0]) as anyone:
        view = anyone.topic_metadata(None)
        leader = view.leader(tp)
        assert leader is not None
        assert leader.id == leader_id
        follower = next(broker for broker in view.brokers.values() if broker.id != leader_id)
    with SimpleConsumer(leader.host, leader.port) as consumer:
        _reads(consumer, tp, lines)
        _commits(consumer, source, group, tp)
    with SimpleConsumer(follower.host, follower.port) as consumer:
        with pytest.raises((NotLeader, UnknownPartition)):
            consumer.fetch(topic, 0, 0)
        with pytest.raises((NotLeader, UnknownPartition)):
            consumer.latest(tp)
        assert consumer.fetch_offsets(group, [tp], "zookeeper") == {tp: 17}  # any broker answers
        assert consumer.fetch_offsets(group, [tp], "kafka") == {tp: 42}  # the coordinator is found from any broker
    with SimpleConsumer(follower.host, follower.port, debugging=True) as consumer:
        _reads_from_a_replica(consumer, tp, lines)


def _reads(consumer: SimpleConsumer, tp: TopicPartition, lines: list[str]) -> None:
    assert (consumer.earliest(tp), consumer.latest(tp)) == (0, COUNT)
    position, read = 0, []
    while position < COUNT:
        found = consumer.fetch(tp.topic, 0, position, max_bytes=500)
        read += [message.value.decode() for message in found.messages()]
        position = found.resume_at
    assert read == lines
    with pytest.raises(OffsetOutOfRange, match=f"{tp} at 99 on"):
        consumer.fetch(tp.topic, 0, 99)
    with pytest.raises(UnknownPartition, match=f"{tp.topic}/9 "):
        consumer.latest(tp._replace(partition=9))
    after, before = int(time.time() * 1000) + 60_000, 1_000_000_000_000
    assert consumer.offsets_before(tp, after, max_offsets=5)[-1] == 0  # its one segment was written before then
    assert consumer.offsets_before(tp, before) == []


def _commits(consumer: SimpleConsumer, source: ClusterClient, group: str, tp: TopicPartition) -> None:
    assert consumer.fetch_offsets(group, [tp], "zookeeper") == {tp: NONE}
    assert consumer.commit_offsets(group, {tp: 17}, "zookeeper") == [tp]
    assert node(source, group, tp) == "17"
    assert consumer.fetch_offsets(group, [tp], "kafka") == {tp: NONE}
    assert consumer.coordinator(group).id in (0, 1, 2)
    assert consumer.commit_offsets(group, {tp: (42, "note")}, "kafka") == [tp]
    assert consumer.fetch_offsets(group, [tp], "kafka") == {tp: 42}
    assert node(source, group, tp) == "17"  # the stores know nothing of each other
    failure = not_committed(consumer.commit_offsets, group, {tp: (43, "x" * 5000)}, "kafka").failed[tp]
    assert isinstance(failure, MetadataTooLong), failure
    assert consumer.fetch_offsets(group, [tp], "kafka") == {
        tp: 42
    }  # 0.8.2.2 would refuse it, and serve it all the same
    missing = TopicPartition(f"{tp.topic}-missing", 0)
    assert isinstance(consumer.fetch_offsets(group, [missing], "kafka")[missing], Unknown)
    assert consumer.fetch_offsets(group, [missing], "zookeeper") == {missing: NONE}
    assert missing.topic not in consumer.topic_metadata(None).topics  # none of this created it


def _reads_from_a_replica(consumer: SimpleConsumer, tp: TopicPartition, lines: list[str]) -> None:
    """A follower learns the high watermark from its next fetch: within a moment it hands out everything."""
    assert consumer.latest(tp) == COUNT
    deadline = time.monotonic() + 15
    read: list[str] = []
    while len(read) < COUNT:
        assert time.monotonic() < deadline, f"the replica handed out {len(read)} of {COUNT}"
        read = [message.value.decode() for message in consumer.fetch(tp.topic, 0, 0).messages()]
    assert read == lines


def test_topics_and_brokers_say_the_same_by_zookeeper_and_by_any_one_broker(source: ClusterClient, unique):
    topic = unique.topic()
    source.create_topic(topic, partitions=3, replication=2)
    for partition in range(3):
        source.wait_leader(topic, partition)
    source.wait_in_sync(topic)
    ways = [["-z", source.zookeeper], *(["-b", address] for address in source.brokers.split(","))]
    seen = [_rows(topics, *way, "--topic", topic) for way in ways]
    assert [(row["partition"], row["error"]) for row in seen[0]] == [(0, None), (1, None), (2, None)]
    assert [{**row, "isr": sorted(row["isr"])} for row in seen[0]] == [
        {**row, "isr": sorted(row["isr"])} for row in seen[1]
    ]
    assert seen[1] == seen[2]
    assert all(len(row["replicas"]) == 2 and row["leader"] in row["isr"] for row in seen[0])
    found = [[(row["broker"], row["host"], row["port"], row["error"]) for row in _rows(brokers, *way)] for way in ways]
    assert found[0] == found[1] == found[2]
    assert [f"{host}:{port}" for _, host, port, _ in found[0]] == source.brokers.split(",")


def _rows(command: object, *args: str) -> list[dict[str, object]]:
    result = CliRunner().invoke(command, [*args, "-o", "json"])  # type: ignore[arg-type]
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_a_broker_of_0_8_1_keeps_offsets_in_zookeeper(own_cluster: Callable[..., Cluster], unique):
    cluster = own_cluster(version="0.8.1.1", brokers=1)
    topic, group = unique.topic(), unique.group()
    tp = TopicPartition(topic, 0)
    cluster.create_topic(topic, partitions=1, replication=1)
    cluster.wait_leader(topic, 0)
    with simple(cluster.brokers, release="0.8.1") as consumer:
        assert (consumer.earliest(tp), consumer.latest(tp)) == (0, 0)
        assert list(consumer.fetch(topic, 0, 0, max_wait_ms=1).messages()) == []
        assert consumer.fetch_offsets(group, [tp], "zookeeper") == {tp: NONE}
        assert consumer.commit_offsets(group, {tp: 7}, "zookeeper") == [tp]
        assert consumer.fetch_offsets(group, [tp], "zookeeper") == {tp: 7}
        assert node(cluster, group, tp) == "7"
        assert list(consumer.topic_metadata(None).topics) == [topic]
