"""`zkconsumer topics` and `brokers` asked of one fake broker: what is shown, in each form, and what is never asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.model import Broker
from tests.fakes.broker import FakeCluster
from zkconsumer.commands.cluster import broker_rows, brokers, topics


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"orders": 2, "audit": 1}, brokers=2) as running:
        yield running


def run(command: object, cluster: FakeCluster, *args: str, broker: int = 1) -> Result:
    return CliRunner().invoke(command, ["-b", f"127.0.0.1:{cluster.ports[broker]}", *args])  # type: ignore[arg-type]


def test_any_one_broker_tells_of_all_partitions(cluster: FakeCluster):
    for broker in (1, 2):
        result = run(topics, cluster, "-o", "json", broker=broker)
        assert result.exit_code == 0, result.stderr
        rows = json.loads(result.stdout)
        assert [(row["topic"], row["partition"], row["leader"]) for row in rows] == [
            ("audit", 0, 1),
            ("orders", 0, 1),
            ("orders", 1, 2),
        ]
        assert rows[2] == {
            "topic": "orders",
            "partition": 1,
            "leader": 2,
            "replicas": [2],
            "isr": [2],
            "error": None,
        }


def test_a_topic_that_is_not_there_is_said_and_not_created(cluster: FakeCluster):
    cluster.auto_create = 1
    result = run(topics, cluster, "--topic", "orders", "--topic", "nope")
    assert result.exit_code == 5
    assert "no such topic: nope" in result.stderr
    assert [request.body["topics"] for request in cluster.seen("metadata")] == [[]]


def test_only_what_is_asked_for_is_shown(cluster: FakeCluster):
    cluster.stop(2)
    for flag in ("--unavailable", "--under-replicated"):
        result = run(topics, cluster, flag, "-o", "csv")
        assert result.stdout.splitlines() == [
            "topic,partition,leader,replicas,isr,error",
            "orders,1,,2,,LeaderNotAvailable (5)",
        ]
    assert run(topics, cluster, "--topic", "audit", "-o", "csv").stdout.splitlines()[1:] == ["audit,0,1,1,1,"]


def test_brokers_are_told_with_their_share(cluster: FakeCluster):
    result = run(brokers, cluster, "-o", "csv")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "broker,host,port,release,leads,replicas,in_sync,error",
        f"1,127.0.0.1,{cluster.ports[1]},0.8.0-0.8.2,2,2,2,",
        f"2,127.0.0.1,{cluster.ports[2]},0.8.0-0.8.2,1,1,1,",
    ]


def test_a_broker_that_has_replicas_and_does_not_live_is_told():
    view = ClusterView({1: Broker(1, "h", 9092)}, {"t": {0: PartitionView(1, (1, 2), (1,), 9)}})
    assert broker_rows(view, {1: "3.9"}) == [
        (1, "h", 9092, "3.9", 1, 1, 1, None),
        (2, None, None, None, 0, 1, 0, "not registered"),
    ]


def test_nobody_there_is_one_sentence(cluster: FakeCluster):
    cluster.stop(1)
    result = run(brokers, cluster)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: no broker of the cluster answers: 127.0.0.1:")


@pytest.mark.parametrize("args", [[], ["-z", "h:2181", "-b", "h:9092"]])
def test_exactly_one_way_to_the_cluster_is_given(args: list[str]):
    result = CliRunner().invoke(topics, args)
    assert result.exit_code == 2
    assert "one of -z (ZooKeeper) and -b (brokers)" in result.stderr


def test_a_command_says_what_of_its_configuration_tells_the_password_to_strangers(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    """Who registered a broker in an open ZooKeeper was told the password of `zkconsumer brokers`."""
    file = tmp_path / "login.properties"
    login = "sasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=secret\n"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\n{login}")
    file.chmod(0o644)
    said = run(topics, cluster, "--command-config", str(file)).stderr.splitlines()
    assert said[0].startswith("warning: login.properties: sasl.mechanism=PLAIN over SASL_PLAINTEXT: the network and")
    assert said[1].startswith("warning: login.properties: sasl.password: every user may read")
    file.write_text(f"security.protocol=SASL_SSL\n{login}")
    file.chmod(0o600)
    assert "warning: login" not in run(topics, cluster, "--command-config", str(file)).stderr
    with_zookeeper = CliRunner().invoke(topics, ["--command-config", str(file), "-z", "127.0.0.1:1"])
    assert "warning: login.properties: sasl.mechanism=PLAIN: brokers come from ZooKeeper" in with_zookeeper.stderr
