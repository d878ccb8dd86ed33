"""What a 0.7 broker writes into ZooKeeper, when it goes, and when it comes again: on both kinds of broker."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from kafkawire.model import BrokerPartition
from localkafka.errors import LocalKafkaError
from localkafka.mirror import COMMAND
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


def test_topic_nodes_hold_null_and_whoever_takes_them_for_another_release_is_told_to_name_it(
    cluster07: Starter, unique: Any
) -> None:
    topic, cluster = unique.topic(), cluster07()
    cluster.produce(topic, 0, 0, [b"one"])
    zk = cluster.zk()
    assert zk.get(f"/brokers/topics/{topic}")[0] is None
    assert zk.get(f"/brokers/topics/{topic}/0")[0] == b"1"
    zk.create(f"/consumers/there/offsets/{topic}/0-0", b"0", makepath=True)
    at = ("-z", cluster.zookeeper)
    asked = (
        ("zkconsumer", "topics", *at),
        ("zkconsumer", "brokers", *at),
        ("zkconsumer", "consume", *at, "--topic", topic, "--partition", "0"),
        ("zkconsumer", "consume", *at, "--topic", topic, "--max-messages", "1"),
        ("zkconsumer", "lag", *at),
        ("zkconsumer", "groups", "describe", *at, "--group", "there"),
        ("zkconsumer", "groups", "list", *at),
        ("zkconsumer", "offsets", "set", *at, "--group", "g", f"{topic}:0=1", "--execute"),
        ("zkproducer", "--zookeeper", cluster.zookeeper, "--topic", topic),
    )
    for argv in asked:
        done = subprocess.run(
            [str(COMMAND.with_name(argv[0])), *argv[1:]], input="x\n", capture_output=True, text=True, timeout=60
        )
        assert "Traceback" not in done.stderr, (argv, done.stderr)
        if argv[1:3] != ("groups", "list"):  # which asks of no topic
            named = r"is this a cluster of 0\.7\? Then name that release|are of Kafka 0\.7, and kafka\.version is"
            assert re.search(named, done.stderr), (argv, done)
            assert done.returncode != 0, (argv, done)
    assert cluster.values(topic) == {BrokerPartition(0, 0): [b"one"]}
    assert not zk.exists("/consumers/g")


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


def test_a_broker_that_is_not_registered_at_the_moment_is_counted_and_one_that_does_not_run_is_an_error(
    cluster07: Starter, unique: Any
) -> None:
    cluster, topic = cluster07(partitions={0: 1, 1: 2}), unique.topic()
    cluster.create_topic(topic)
    other = cluster.produce(topic, 0, 0, [b"one"])
    end = cluster.produce(topic, 1, 1, [b"two"])
    cluster.zk().delete(f"/brokers/topics/{topic}/1")  # as between the end of its session and the next one
    first, empty, second = BrokerPartition(0, 0), BrokerPartition(1, 0), BrokerPartition(1, 1)
    assert cluster.values(topic) == {first: [b"one"], empty: [], second: [b"two"]}
    assert cluster.ends(topic) == {first: other, empty: 0, second: end}
    cluster.node(1).kill()
    with pytest.raises(LocalKafkaError, match=f"0.7 broker 1 .* does not run: its messages of {topic} cannot be"):
        cluster.values(topic)


def owner(zk: KazooClient, path: str) -> int:
    return int(zk.get(path)[1].ephemeralOwner)
