"""`zkconsumer migrate handover` on a real cluster: members in ZooKeeper, then members that Kafka coordinates, and back.

Brokers and console consumers of 0.10.2 know both kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from localkafka import tools
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.kraftcluster import group_consumer
from tests.integration.migration import QUICK, load, migrate, rows, zkconsumer
from tests.integration.readers import Reader, committed, wait_for_messages
from zkconsumer.offsets.coordination import ByKafka, StillInZooKeeper

pytestmark = pytest.mark.real

RELEASE = ("--kafka-version", "0.10.2")
ON_KAFKA = {"offsets.storage": "kafka", "dual.commit.enabled": "false", "auto.commit.interval.ms": 200}


def test_a_group_of_the_jvm_is_handed_to_kafkas_coordinator_and_taken_back(
    own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
):
    cluster = own_cluster(version="0.10.2.2", brokers=1)
    topic, group, plan = unique.topic("orders"), unique.group("billing"), tmp_path / "billing.json"
    cluster.create_topic(topic, 2)
    load(cluster, topic, 2, 40)
    at, steps = ("-z", cluster.zookeeper, *RELEASE, "--plan", str(plan)), (*QUICK, "-o", "json")

    def kafka() -> list[object]:
        found = rows(zkconsumer("offsets", "get", "-z", cluster.zookeeper, *RELEASE, "--group", group, "-o", "json"))
        return [row["committed"] for row in found if row["store"] == "kafka"]

    def refused(step: str, name: str, *more: str) -> None:
        done = rows(migrate(step, *at, "--execute", *steps, *more, code=3))
        assert str(done[0]["refused"]).startswith(name), done

    def phase(step: str, *more: str) -> object:
        return rows(migrate(step, *at, *steps, *more))[0]["phase"]

    with tools.console_consumer(cluster, topic, group, config={"auto.commit.interval.ms": 200}) as consumer:
        consumer.wait_for(40)
        wait_until(lambda: committed(cluster, group, topic) == {0: 20, 1: 20}, 20, lambda: "commits to ZooKeeper")
        consumer.stop()
    migrate("plan", "-z", cluster.zookeeper, *RELEASE, "--group", group, "--plan", str(plan))
    migrate("check", *at, "--offsets-replicas", "1", "--broker-retention", "24h")
    refused("handover", "offsets in zookeeper")
    phase("copy", "--execute")
    phase("verify")
    assert phase("cutover", "--execute") == "cutover"

    load(cluster, topic, 2, 10)
    with tools.console_consumer(cluster, topic, group, from_beginning=False, config=ON_KAFKA) as consumer:
        assert len(consumer.wait_for(10)) == 10
        wait_until(lambda: kafka() == [25, 25], 20, lambda: str(kafka()))
        refused("handover", "active group")
        done = rows(migrate("verify", *at, "--mode", "kafka", "--commit-interval", "400ms", "-o", "json"))
        assert done[0]["phase"] == "done"
        consumer.stop()
    assert phase("handover", "--execute") == "handover"
    status = rows(migrate("status", "-z", cluster.zookeeper, "--plan", str(plan), "-o", "json"))[0]
    assert (status["phase"], status["next"]) == ("handover", "verify, takeback")
    ours = {"kafka_version": "0.10.2", "offsets_storage": "kafka", "dual_commit_enabled": False}
    with pytest.raises(ByKafka, match="phase handover"), Reader(cluster.zookeeper, group, {topic: 1}, **ours):
        pass

    load(cluster, topic, 2, 10)
    coordinated = {"coordination": "kafka", "bootstrap_servers": cluster.brokers}
    with group_consumer(cluster, topic, group) as consumer:  # type: ignore[arg-type]
        assert len(consumer.wait_for(10)) == 10  # from Kafka's offsets, and not from the beginning
        wait_until(lambda: kafka() == [30, 30], 20, lambda: str(kafka()))
        done = rows(migrate("verify", *at, "--commit-interval", "400ms", "-o", "json"))
        assert done[0]["phase"] == "coordinated"
        members = rows(zkconsumer("groups", "members", "-b", cluster.brokers, *RELEASE, "--group", group, "-o", "json"))
        assert [row["subscription"] for row in members] == [topic]
        refused("takeback", "active group")
        zk = cluster.zk()
        zk.delete(f"/consumers/{group}/migration")  # also without a migration a member in ZooKeeper sees the others
        with (
            pytest.raises(ByKafka, match="that Kafka coordinates"),
            Reader(cluster.zookeeper, group, {topic: 1}, **ours),
        ):
            pass
        assert len(consumer.stop()) == 10
    assert phase("takeback", "--execute") == "cutover"
    with pytest.raises(StillInZooKeeper, match="hand the group over"):
        Reader(cluster.zookeeper, group, {topic: 1}, **coordinated)
    load(cluster, topic, 2, 10)
    with tools.console_consumer(cluster, topic, group, from_beginning=False, config=ON_KAFKA) as consumer:
        consumer.wait_for(10)
        wait_until(lambda: kafka() == [35, 35], 20, lambda: str(kafka()))
        with pytest.raises(StillInZooKeeper, match="still has member"):
            Reader(cluster.zookeeper, group, {topic: 1}, **coordinated)
        assert len(consumer.stop()) == 10
    assert phase("handover", "--execute") == "handover"
    load(cluster, topic, 2, 10)
    with Reader(cluster.zookeeper, group, {topic: 1}, **coordinated) as reader:
        wait_for_messages(10, reader)
        wait_until(lambda: kafka() == [40, 40], 20, lambda: str(kafka()))
        reader.stop()
        assert len(reader.got) == 10
    report = migrate("status", "--plan", str(plan), "--report", "md").stdout
    assert [line.split()[-1] for line in report.splitlines() if line.startswith("- 2")][-4:] == [
        "handover", "coordinated", "cutover", "handover"
    ]  # fmt: skip
