"""A group moves zookeeper -> dual -> kafka and back under load, one member at a time, on real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.errors import WireError
from kafkawire.model import TopicPartition
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from kafkawire.znodes import v08 as znodes
from localkafka import tools
from localkafka.client import ClusterClient
from localkafka.waiting import wait_until
from tests.integration.mirroring import MIXED, Load, filled
from tests.integration.offsetmoves import DUAL, KAFKA, Move, in_kafka, simple
from tests.integration.readers import Reader, committed, places, wait_for_messages
from zkconsumer.offsets.modes import ModeRefused
from zkconsumer.offsets.modeswitch import NotMigrated
from zkconsumer.simple import SimpleConsumer

pytestmark = pytest.mark.real


def test_a_group_of_0_8_2_goes_off_zookeeper_and_back(source: ClusterClient, unique, tmp_path: Path):
    with Move(source, unique.topic(), unique.group(), tmp_path) as move:
        move.forth()
        move.to_kafka()
        late = move.group.ours("zookeeper")
        wait_until(lambda: not late.child.running, 15, "a member on ZooKeeper alone to be refused")
        assert ModeRefused.__name__ in late.child.log_end(30)
        move.back()
        move.end()
    move.check()


def test_offsets_that_kafka_lacks_refuse_a_start_or_are_copied(source: ClusterClient, unique):
    topic, group = unique.topic(), unique.group()
    load = filled(source, {topic: 2}, 20)
    with Reader(source.zookeeper, group, {topic: 1}) as before:
        wait_for_messages(20, before)
        wait_until(lambda: sum(committed(source, group, topic).values()) == 20, 10, "the commit")
        before.stop()
    with pytest.raises(NotMigrated, match=r"ZooKeeper has offsets of 2 partitions and Kafka has none of them"):
        Reader(source.zookeeper, group, {topic: 1}, **KAFKA)
    load.produce(topic, 2, 10, MIXED)
    with Reader(source.zookeeper, group, {topic: 1}, **KAFKA, offsets_migrate_on_start="copy") as after:
        wait_for_messages(10, after)
        wait_until(lambda: sum(in_kafka(source, group, topic).values()) == 30, 10, "the commit to Kafka")
        assert len(after.kinds("offset")) == 2  # what was taken over
        after.stop()
    assert max(places(before, after).values()) == 1
    assert sum(committed(source, group, topic).values()) == 20  # of the day it was left
    with Reader(source.zookeeper, group, {topic: 1}, **KAFKA) as again:  # nothing is missing any more
        load.produce(topic, 2, 2, MIXED)
        wait_for_messages(2, again)


def test_the_first_commit_of_a_group_is_not_missed_by_the_coordinator_that_takes_over(own_cluster, unique):
    """0.8.2.2 reads offsets up to the high watermark that the new leader knows: the first commit reads as none."""
    settings = {"offsets.topic.replication.factor": "3", "offsets.topic.num.partitions": "1"}
    cluster = own_cluster(brokers=3, settings=settings)
    topic, group = unique.topic(), unique.group()
    cluster.create_topic(topic, 1, 3)
    cluster.wait_in_sync(topic)
    load = Load(cluster.brokers, cluster.version)
    load.produce(topic, 1, 60, MIXED)
    load.close()
    with simple(cluster) as at:
        wait_until(lambda: _coordinates(at, group), 30, "a coordinator")
        cluster.wait_in_sync(OFFSETS_TOPIC)
        leader = cluster.wait_leader(OFFSETS_TOPIC, 0)
        assert at.commit_offsets(group, {TopicPartition(topic, 0): 10}, "kafka") == [TopicPartition(topic, 0)]
        cluster.node(leader).kill()
    with Reader(cluster.zookeeper, group, {topic: 1}, **KAFKA, auto_offset_reset="largest") as after:
        wait_for_messages(50, after)
    assert sorted(got.offset for got in after.got) == list(range(10, 60))


def _coordinates(at: SimpleConsumer, group: str) -> bool:
    try:
        return at.coordinator(group) is not None
    except WireError:
        return False


def test_stores_that_differ_are_made_even_and_a_seek_writes_both(source: ClusterClient, unique):
    topic, group = unique.topic(), unique.group()
    tp = TopicPartition(topic, 0)
    filled(source, {topic: 1}, 20)
    zk = source.registry().zk
    zk.create(znodes.offset(group, tp), b"20", makepath=True)
    with simple(source) as at:
        assert at.commit_offsets(group, {tp: 15}, "kafka") == [tp]
    with Reader(source.zookeeper, group, {topic: 1}, **DUAL, auto_commit_interval_ms=60_000) as reader:
        wait_until(lambda: in_kafka(source, group, topic) == {0: 20}, 10, "the idle partition in both stores")
        wait_until(lambda: accepted(reader) == [1, 1], 10, "the count of it")
        reader.connector.pause(topic)
        reader.connector.seek(tp, 3)
        wait_until(lambda: committed(source, group, topic) == {0: 3}, 10, "the seek in ZooKeeper")
        assert in_kafka(source, group, topic) == {0: 3}
        assert reader.connector.commit_offsets({tp: 7}) == [tp]
        assert in_kafka(source, group, topic) == committed(source, group, topic) == {0: 7}
        (row,) = tools.consumer_offset_checker(source, group, topic)  # our mode node disturbs no tool of the JVM
        assert (row.offset, row.owner) == (7, f"{reader.consumer_id}-0")


def accepted(reader: Reader) -> list[int]:
    """How many offsets each store took, ZooKeeper first."""
    offsets = reader.connector.offsets
    assert offsets is not None
    assert offsets.mode == "dual"
    return [row.accepted for row in offsets.stores]
