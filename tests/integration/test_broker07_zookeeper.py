"""What a 0.7 broker writes into ZooKeeper, when it goes, and when it comes again: on both kinds of broker."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from kafkawire.model import BrokerPartition
from localkafka.seven.cluster import Cluster07
from localkafka.seven.node import node_of
from localkafka.waiting import wait_until

pytestmark = pytest.mark.real
Starter = Callable[..., Cluster07]


def test_a_broker_registers_itself_and_each_topic_where_it_was_first_produced(cluster07: Starter, unique: Any) -> None:
    topic, wide = unique.topic(), unique.topic("wide")
    cluster = cluster07(partitions={0: 2, 7: 3}, settings={"topic.partition.count.map": f"{wide}:5"})
    zk = cluster.zk()
    for node in cluster.nodes:
        data, stat = zk.get(f"/brokers/ids/{node.id}")
        found = re.fullmatch(r"127\.0\.0\.1-(\d+):127\.0\.0\.1:(\d+)", data.decode())
        assert found is not None
        assert abs(int(found[1]) / 1000 - time.time()) < 60
        assert (int(found[2]), stat.ephemeralOwner != 0) == (node.port, True)
    cluster.produce(topic, 7, 1, [b"one"])
    cluster.produce(wide, 0, 4, [b"one"])
    wait_until(lambda: cluster.partitions(wide) and cluster.partitions(topic), 30, "the topics to be registered")
    assert cluster.partitions(topic) == [BrokerPartition(7, index) for index in range(3)]
    assert cluster.partitions(wide) == [BrokerPartition(0, index) for index in range(5)]
    data, stat = zk.get(f"/brokers/topics/{topic}/7")
    assert (data, stat.ephemeralOwner) == (b"3", zk.get("/brokers/ids/7")[1].ephemeralOwner)
    cluster.produce(topic, 0, 0, [b"two"])
    wait_until(lambda: len(cluster.partitions(topic)) == 5, 30, "the topic on both brokers")
    cluster.node(7).stop()
    assert zk.get_children("/brokers/ids") == ["0"]
    assert cluster.partitions(topic) == [BrokerPartition(0, 0), BrokerPartition(0, 1)]
    cluster.node(7).restart(port=0, settings={"num.partitions": 1})
    wait_until(lambda: BrokerPartition(7, 0) in cluster.partitions(topic), 30, "what it has to be registered again")
    assert cluster.partitions(topic) == [BrokerPartition(0, 0), BrokerPartition(0, 1), BrokerPartition(7, 0)]
    assert zk.get("/brokers/ids/7")[0].endswith(b":%d" % cluster.node(7).port)


def test_an_id_that_is_registered_refuses_to_start(cluster07: Starter, kind07: str, tmp_path: Path) -> None:
    cluster = cluster07(settings={"zk.sessiontimeout.ms": 10000})
    second = node_of(kind07)(tmp_path, 0, cluster.zookeeper)
    try:
        second.start_at_once()
        second.wait_ended()
        assert "A broker is already registered on the path /brokers/ids/0" in second.log.read_text()
    finally:
        second.close()
    node = cluster.node(0)
    node.kill()
    node.start_at_once()  # within the session of its last life
    node.wait_ended()
    assert "A broker is already registered" in node.log.read_text()


def test_a_broker_whose_session_was_lost_registers_again_and_serves_what_it_had(
    cluster07: Starter, unique: Any
) -> None:
    cluster, topic = cluster07(), unique.topic()
    cluster.produce(topic, 0, 0, [b"one", b"two"])
    zk, node = cluster.zk(), cluster.node(0)
    wait_until(lambda: cluster.partitions(topic), 30, "the topic to be registered")
    node.pause()
    wait_until(lambda: not zk.get_children("/brokers/ids"), 30, "the session to end")
    assert cluster.partitions(topic) == []
    node.resume()
    wait_until(lambda: cluster.partitions(topic), 30, "the broker to register again")
    assert zk.get_children("/brokers/ids") == ["0"]
    assert owner(zk, f"/brokers/topics/{topic}/0") == owner(zk, "/brokers/ids/0")
    assert [row.value for row in cluster.read(topic, 0, 0)] == [b"one", b"two"]


def owner(zk: KazooClient, path: str) -> int:
    return int(zk.get(path)[1].ephemeralOwner)
