"""A committed position above the high watermark, as a new leader may find one: 0.8 answers error -1 there, not 1."""

from __future__ import annotations

import pytest

from kafkawire.model import TopicPartition
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until
from tests.integration.readers import Reader, committed, places
from zkconsumer.refusals import Refused
from zkconsumer.simple import SimpleConsumer

pytestmark = pytest.mark.real
PLAIN = Mixture(0.0, (0,))


def test_a_position_that_is_not_replicated_yet_is_waited_for_and_never_reset(own_cluster, unique):
    patient = {
        "replica.lag.time.max.ms": "600000",
        "replica.lag.max.messages": "1000000",
        "zookeeper.session.timeout.ms": "10000",  # else a busy machine counts the paused one out, and all is replicated
    }
    cluster = own_cluster(brokers=2, settings=patient)
    topic, group = unique.topic(), unique.group()
    cluster.create_topic(topic, 1, replication=2)
    tp = TopicPartition(topic, 0)
    leader = cluster.wait_leader(topic, 0)
    load, hasty = Load(cluster.brokers, cluster.version), Load(cluster.brokers, cluster.version, acks=1)
    load.send(tp, 20, PLAIN)
    cluster.zk().create(f"/consumers/{group}/offsets/{topic}/0", b"30", makepath=True)
    cluster.node(1 - leader).pause()
    hasty.send(tp, 20, PLAIN)
    with Reader(cluster.zookeeper, group, {topic: 1}) as reader:
        host, port = cluster.brokers.split(",")[leader].split(":")
        with SimpleConsumer(host, int(port)) as asked, pytest.raises(Refused) as refused:
            asked.fetch(topic, 0, 30)
        assert refused.value.code == -1
        wait_until(lambda: any("(-1); asking again" in text for text in reader.kinds("leader")), 20, "error -1")
        assert not reader.got
        cluster.node(1 - leader).resume()
        wait_until(lambda: len(places(reader)) == 10, 20, lambda: f"10 messages, have {len(places(reader))}")
        reader.stop()
    assert sorted(offset for _, offset in places(reader)) == list(range(30, 40))
    assert committed(cluster, group, topic) == {0: 40}
    assert not reader.kinds("reset")
    assert not reader.kinds("gap")
    load.close()
    hasty.close()
