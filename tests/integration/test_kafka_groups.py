"""`zkconsumer groups | lag | offsets` on a group that Kafka coordinates, on brokers without ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupadmin.files.read import read_offsets
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.kraftcluster import KraftCluster, group_consumer, kraft_cluster
from tests.integration.migration import rows, zkconsumer
from tests.integration.modern import named

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def kraft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftCluster]:
    with kraft_cluster(tmp_path_factory.mktemp("kraft")) as cluster:
        yield cluster


def reach(cluster: KraftCluster) -> tuple[str, ...]:
    return ("-b", cluster.brokers, "--kafka-version", cluster.release)


def test_a_group_of_the_java_consumer_is_listed_described_measured_and_left_alone_while_it_is_active(
    kraft: KraftCluster, unique: Unique, tmp_path: Path
):
    topic, group = kraft.create(unique.topic(), 2), unique.group()
    at, of = reach(kraft), ("--group", group)
    for partition in range(2):
        kraft.producer.send(topic, partition, 0, 20, headers=2)
    with group_consumer(kraft, topic, group, {"isolation.level": "read_committed"}) as consumer:
        consumer.wait_for(40)

        def lag() -> dict[str, object]:
            (row,) = [row for row in rows(zkconsumer("lag", *at, "-o", "json")) if row["group"] == group]
            return row

        whole = {"group": group, "members": 1, "partitions": 2, "lag": 0, "unknown": 0}
        wait_until(lambda: lag() == whole, 30, lambda: str(lag()))  # before its assignment a member has none
        (listed,) = [row for row in rows(zkconsumer("groups", "list", *at, "-o", "json")) if row["group"] == group]
        assert (listed["members"], listed["store"], listed["protocol"]) == (1, "kafka", "consumer")
        done = zkconsumer("groups", "members", *at, *of, "-o", "json")
        (member,) = rows(done)
        assert (member["subscription"], member["partitions"], member["problem"]) == (topic, f"{topic}:0,1", None)
        assert f"group {group}: Stable, strategy range, coordinated by" in done.stderr
        described = rows(zkconsumer("groups", "describe", *at, *of, "-o", "json"))
        assert [(row["partition"], row["owner"], row["committed"], row["lag"]) for row in described] == [
            (0, member["member"], 20, 0),
            (1, member["member"], 20, 0),
        ]
        assert all(row["age"] is not None for row in described)
        refused = zkconsumer("offsets", "set", *at, *of, f"{topic}:0=3", "--execute", "--force-active", code=3)
        (sentence,) = [line for line in refused.stderr.splitlines() if "coordinates" in line]
        assert f"group {group} has 1 member that Kafka coordinates" in sentence
        assert "stop them first; nothing was written" in sentence
        zkconsumer("groups", "delete", *at, *of, "--execute", "--undo-dir", str(tmp_path), code=3)
        with kraft.producer.open_transaction(topic, {0: (100, 5)}):  # members get no further than where it begins
            described = rows(zkconsumer("groups", "describe", *at, *of, "-o", "json"))
            assert [(row["committed"], row["end"], row["lag"]) for row in described] == [(20, 25, 0), (20, 20, 0)]
            assert lag()["lag"] == 0
        consumer.stop()
    wait_until(lambda: lag()["members"] == 0, 30, lambda: str(lag()))
    exported = zkconsumer("offsets", "export", *at, "--group", ".*", "--regex").stdout
    assert [row.position for row in read_offsets(exported).rows if row.group == group] in ([20, 20], [26, 20])
    undo = ("--undo-dir", str(tmp_path))
    zkconsumer("offsets", "set", *at, *of, f"{topic}:0=3", "--execute", *undo)
    zkconsumer("offsets", "reset", *at, *of, "--topic", f"{topic}:1", "--to-earliest", "--execute", *undo)
    found = rows(zkconsumer("offsets", "get", *at, *of, "-o", "json"))
    assert [(row["committed"], row["end"], row["lag"]) for row in found] == [(3, 26, 23), (0, 20, 20)]
    committed = {"isolation.level": "read_committed"}
    with group_consumer(kraft, topic, group, committed) as consumer:  # it begins where it was set
        again = {line.decode() for line in consumer.wait_for(37)}
        assert again == {*named(topic, 0, 3, 17), *named(topic, 1, 0, 20)}
        consumer.stop()
    zkconsumer("groups", "describe", *at, "--group", f"no-{group}", code=5)
