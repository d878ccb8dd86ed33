"""Groups and offset records as each release writes them, and the groups of 4.x that are not classic."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from localkafka import java, tools
from localkafka.cluster import Cluster
from localkafka.kraft import KraftBroker
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.kraftcluster import group_consumer, kraft_cluster
from tests.integration.migration import rows, zkconsumer

pytestmark = pytest.mark.real
ONE_BROKER = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


def listed(brokers: str, group: str) -> dict[str, object] | None:
    found = [row for row in rows(zkconsumer("groups", "list", "-b", brokers, "-o", "json")) if row["group"] == group]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("version", "deleted"),  # exit code of a deletion: 4 while the offset can still be read
    [("0.11.0.3", (4, 4)), ("3.9.1", (0, 0))],
)
def test_offset_records_of_each_release_are_read_and_offsets_deleted_by_its_requests(
    own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path, version: str, deleted: tuple[int, int]
):
    """0.8.2.2, 0.9.0.1 and 0.10.2.2: test_offset_stores.py; 4.3.1: below."""
    cluster = own_cluster(version=version, brokers=1)
    topic, group = unique.topic(), unique.group()
    cluster.create_topic(topic, partitions=2)
    at, undo = ("-b", cluster.brokers, "--group", group), ("--execute", "--undo-dir", str(tmp_path))
    zkconsumer("offsets", "set", *at, f"{topic}:0=0", f"{topic}:1=0", *undo)
    found = zkconsumer("offsets", "get", *at, "-o", "json")
    assert [(row["committed"], row["age"] is not None) for row in rows(found)] == [(0, True)] * 2
    assert "not understood" not in found.stderr
    row = listed(cluster.brokers, group)
    assert row is not None
    assert (row["topics"], row["store"]) == (1, "kafka")
    zkconsumer("offsets", "delete", *at, "--topic", f"{topic}:1", *undo, code=deleted[0])
    zkconsumer("groups", "delete", *at, *undo, code=deleted[1])
    if deleted == (0, 0):
        assert listed(cluster.brokers, group) is None


def test_a_stopped_group_of_the_consumer_protocol_is_not_active_and_a_share_group_is_behind_what_it_has_not_done(
    unique: Unique, tmp_path: Path
):
    with kraft_cluster(tmp_path, "4.3.1", settings=ONE_BROKER) as cluster:
        topic, group, shared = cluster.create(unique.topic(), 1), unique.group(), f"share-{unique.group()}"
        cluster.producer.send(topic, 0, 0, 20)
        at, of = ("-b", cluster.brokers), ("--group", group)
        undo = ("--execute", "--undo-dir", str(tmp_path))
        with group_consumer(cluster, topic, group, {"group.protocol": "consumer"}) as consumer:
            consumer.wait_for(20)
            done = zkconsumer("groups", "members", *at, *of, "-o", "json")
            (member,) = rows(done)
            assert (member["subscription"], member["partitions"]) == (topic, f"{topic}:0")
            assert f"group {group}: Stable" in done.stderr
            zkconsumer("offsets", "set", *at, *of, f"{topic}:0=3", *undo, code=3)
            consumer.stop()
        wait_until(lambda: (listed(cluster.brokers, group) or {}).get("members") == 0, 30, "the group is empty")
        zkconsumer("offsets", "set", *at, *of, f"{topic}:0=3", *undo)
        described = zkconsumer("groups", "describe", *at, *of, "-o", "json")
        (row,) = rows(described)
        assert (row["committed"], row["lag"], row["age"] is not None) == (3, 17, True)
        assert "not understood" not in described.stderr
        row = listed(cluster.brokers, group)
        assert row is not None
        assert (row["topics"], row["protocol"]) == (1, "consumer")

        share(cluster.broker, topic, shared, 5)
        done = zkconsumer("lag", *at, "--group", shared, "--threshold", "14", "-o", "json", code=6)
        (row,) = rows(done)
        assert (row["committed"], row["lag"]) == (5, 15)
        row = listed(cluster.brokers, shared)
        assert row is not None
        assert (row["topics"], row["protocol"]) == (None, "share")
        refused = zkconsumer("offsets", "set", *at, "--group", shared, f"{topic}:0=3", *undo, code=3)
        assert f"group {shared} is a share group" in refused.stderr

        zkconsumer("offsets", "delete", *at, *of, "--topic", topic, *undo)
        (row,) = rows(zkconsumer("offsets", "get", *at, "--group", shared, "-o", "json"))
        assert row["committed"] == 5
        zkconsumer("offsets", "set", *at, *of, f"{topic}:0=3", *undo)
        zkconsumer("groups", "delete", *at, *of, *undo)
        assert listed(cluster.brokers, group) is None


def share(broker: KraftBroker, topic: str, group: str, count: int) -> None:
    """Read the first messages of a topic in the name of a share group, and acknowledge them."""

    def run(main: str, *arguments: str) -> None:
        argv = tools.java_command(
            broker.release.version, main, ["--bootstrap-server", broker.brokers, *arguments], java.SMALL
        )
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr

    earliest = "share.auto.offset.reset=earliest"
    of = ("--entity-type", "groups", "--entity-name", group)
    run("kafka.admin.ConfigCommand", *of, "--alter", "--add-config", earliest)
    consumer = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    run(consumer, "--topic", topic, "--group", group, "--max-messages", str(count), "--timeout-ms", "30000")
