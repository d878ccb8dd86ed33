"""Bugs that the original once had and that no other test of ours would meet (tests/zkconsumer/test_old_bugs.py)."""

from __future__ import annotations

import time

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until
from tests.integration.readers import Reader, committed, config, owners, wait_for_messages
from zkconsumer.connector import ConsumerConnector
from zkconsumer.filters import Whitelist

pytestmark = pytest.mark.real
COUNT = 200


def fill(cluster: ClusterClient, topic: str, partitions: int, codec: int = 0) -> None:
    cluster.create_topic(topic, partitions)
    load = Load(cluster.brokers, cluster.version)
    load.produce(topic, partitions, COUNT, Mixture(0.0, (codec,)), batch=20)
    load.close()


def test_every_stream_of_a_filter_is_fed(source, unique):
    topic, group = unique.topic(), unique.group()
    fill(source, topic, 4)
    with Reader(source.zookeeper, group, Whitelist(topic), streams=2) as reader:
        wait_for_messages(COUNT, reader)
        threads = {owner.rpartition("-")[2] for owner in owners(source, group, topic).values()}
        assert threads == {"0", "1"}
        assert {got.tp.partition for got in reader.got} == {0, 1, 2, 3}


def test_without_auto_commit_a_release_commits_nothing(source, unique):
    topic, group = unique.topic(), unique.group()
    fill(source, topic, 2)
    manual = {"auto_commit_enable": False}
    with Reader(source.zookeeper, group, {topic: 1}, **manual) as first:
        wait_for_messages(COUNT, first)
        with Reader(source.zookeeper, group, {topic: 1}, **manual) as second:
            wait_until(lambda: len(second.owns()) == 1, 20, lambda: "the second member has its half")
            wait_until(lambda: second.got, 20, lambda: "and reads it from its beginning")
            assert min(got.offset for got in second.got) == 0
        first.stop()
    assert committed(source, group, topic) == {}


def test_an_offset_that_did_not_move_is_not_written_again(source, unique):
    topic, group = unique.topic(), unique.group()
    fill(source, topic, 1)
    path = f"/consumers/{group}/offsets/{topic}/0"
    zk = source.registry().zk
    with ConsumerConnector(config(source.zookeeper, group, auto_commit_interval_ms=100)) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        for message in stream:
            if message.offset == COUNT - 1:
                stream.done()
                break
        tp = TopicPartition(topic, 0)
        assert connector.commit_offsets() == [tp]
        version = zk.get(path)[1].version
        until = time.monotonic() + 1.0  # ten times the interval, and five commits by hand
        while time.monotonic() < until:
            assert connector.commit_offsets() == [tp]
            time.sleep(0.2)
        assert zk.get(path)[0] == str(COUNT).encode()
        assert zk.get(path)[1].version == version


def test_a_commit_inside_a_compressed_set_is_where_the_next_reader_begins(source, unique):
    topic, group = unique.topic(), unique.group()
    fill(source, topic, 1, 2)
    tp = TopicPartition(topic, 0)
    for start in (0, 27):  # 27 lies inside the second wrapper of 20 messages
        with ConsumerConnector(config(source.zookeeper, group)) as connector:
            (stream,) = connector.create_message_streams({topic: 1})[topic]
            message = next(stream)
            assert message.offset == start
            while message.offset < start + 26:
                message = next(stream)
            stream.done()
            assert connector.commit_offsets() == [tp]
        assert committed(source, group, topic) == {0: start + 27}
