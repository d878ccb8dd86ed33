"""What counts as done, on real clusters: acknowledged messages out of order, and batches."""

from __future__ import annotations

import pytest

from localkafka.client import ClusterClient
from localkafka.load import Load, Mixture
from tests.integration.readers import committed, config
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout

pytestmark = pytest.mark.real


def filled(cluster: ClusterClient, topic: str, partitions: int, count: int) -> str:
    cluster.create_topic(topic, partitions)
    producer = Load(cluster.brokers, cluster.version)
    producer.produce(topic, partitions, count, Mixture(0.5, (0, 1, 2)), batch=25)
    producer.close()
    return topic


def committed_after(connector: ConsumerConnector, cluster: ClusterClient, group: str, topic: str) -> int:
    """The sum of what stands in the offset store after a commit."""
    assert connector.commit_offsets()
    return sum(committed(cluster, group, topic).values())


def test_on_ack_only_the_acknowledged_prefix_is_committed_and_the_rest_comes_again(source, unique):
    topic, group = filled(source, unique.topic(), 1, 100), unique.group()
    options = config(source.zookeeper, group, delivery="on-ack", consumer_timeout_ms=1000, rebalance_drain_ms=200)
    with ConsumerConnector(options, "own") as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        messages = [next(stream) for _ in range(100)]
        for message in [*messages[50:], *messages[10:39], *messages[:10]]:  # not 39 to 49
            message.ack()
        assert connector.commit_offsets()
        assert committed(source, group, topic) == {0: 39}
    with ConsumerConnector(options, "own") as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        assert next(stream).offset == 39


def test_batches_hold_every_message_once_and_are_done_when_the_next_is_asked_for(source, unique):
    topic, group = filled(source, unique.topic(), 2, 400), unique.group()
    options = config(source.zookeeper, group, consumer_timeout_ms=1500, auto_commit_enable=False)
    offsets: dict[object, list[int]] = {0: [], 1: []}
    with ConsumerConnector(options, "own") as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        for batch in stream.batches():
            offsets[batch.partition] += batch.offsets
            assert len(batch.values) == len(batch.keys) == len(batch)
            assert all(value is not None and value.startswith(str(batch.tp).encode()) for value in batch.values)
            if sum(map(len, offsets.values())) == 400:
                break
        assert committed_after(connector, source, group, topic) < 400  # the last one is in our hands
        with pytest.raises(ConsumerTimeout):
            next(stream.batches())
        assert offsets == {0: list(range(200)), 1: list(range(200))}
        assert committed_after(connector, source, group, topic) == 400
