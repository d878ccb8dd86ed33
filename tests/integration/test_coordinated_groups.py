"""Groups on Kafka's own coordinator: members of ours beside the Java consumer's, on real brokers of three lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from localkafka.cluster import Cluster
from localkafka.kraft import KraftBroker
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt
from tests.conftest import Unique
from tests.integration.coordinated import (
    SESSION_MS,
    Committed,
    GroupProcess,
    Writer,
    check_all_delivered,
    check_owned_once,
    java,
    ours,
    release_of,
    wait_reading,
    wait_shared,
)

pytestmark = pytest.mark.real

PARTITIONS = 6
SETTINGS = {"group.min.session.timeout.ms": "1000"}


@pytest.fixture(scope="module")
def brokers_of(zk_server: ZooKeeperAt, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """brokers_of("3.9.1", topic) : the bootstrap list of a cluster of one broker with that topic; started when first
    asked for."""
    with ExitStack() as stack:
        started: dict[str, Any] = {}

        def at(version: str, topic: str, partitions: int = PARTITIONS) -> str:
            if version not in started:
                if version == "2.8.2":
                    started[version] = Cluster(version=version, zookeeper=zk_server, settings=SETTINGS)
                else:
                    folder = tmp_path_factory.mktemp(f"kraft-{version}")
                    started[version] = KraftBroker(folder, version, settings=SETTINGS)
                stack.enter_context(started[version])
            cluster = started[version]
            if isinstance(cluster, Cluster):
                cluster.create_topic(topic, partitions)
            else:
                cluster.topics("--create", "--topic", topic, "--partitions", str(partitions))
            return str(cluster.brokers)

        yield at


@pytest.fixture
def members() -> Iterator[list[GroupProcess]]:
    """Those that the test appends are ended with it."""
    started: list[GroupProcess] = []
    yield started
    for member in started:
        member.child.close()


def options(version: str, brokers: str, group: str, **more: object) -> dict[str, object]:
    return {
        "coordination": "kafka",
        "bootstrap.servers": brokers,
        "group.id": group,
        "kafka.version": release_of(version),
        "auto.offset.reset": "smallest",
        "session.timeout.ms": SESSION_MS,
        "auto.commit.interval.ms": 300,
        "metadata.max.age.ms": 1000,
        **more,
    }


@pytest.mark.parametrize(("version", "strategy"), [("2.8.2", "roundrobin"), ("3.9.1", "range"), ("4.3.1", "sticky")])
def test_a_group_of_ours_and_of_the_jvm_loses_nothing_while_members_come_freeze_die_and_go(
    brokers_of: Callable[..., str],
    members: list[GroupProcess],
    unique: Unique,
    tmp_path: Path,
    version: str,
    strategy: str,
) -> None:
    topic, group = unique.topic(), unique.group()
    brokers = brokers_of(version, topic)
    own = options(version, brokers, group, **{"partition.assignment.strategy": strategy})
    name = {"range": "Range", "roundrobin": "RoundRobin", "sticky": "Sticky"}[strategy]
    theirs = {"partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{name}Assignor"}

    with (
        Writer(version, brokers, topic, PARTITIONS, tmp_path) as writer,
        Committed(version, brokers, group, topic, PARTITIONS) as committed,
    ):
        members.append(ours(tmp_path, topic, own, streams=2))
        wait_shared(members, PARTITIONS)
        members.append(java(tmp_path, version, brokers, group, topic, theirs))
        wait_shared(members, PARTITIONS)
        members.append(ours(tmp_path, topic, own))
        wait_shared(members, PARTITIONS)
        wait_reading(members)
        first, of_java, second = members

        second.freeze()  # its partitions move; it delivers and commits nothing of them afterwards
        wait_shared([first, of_java], PARTITIONS)
        second.child.resume()
        wait_shared(members, PARTITIONS)
        wait_reading(members)

        first.kill()
        wait_shared([of_java, second], PARTITIONS)
        members.append(ours(tmp_path, topic, own))
        wait_shared([of_java, second, members[3]], PARTITIONS)
        of_java.child.stop()
        wait_shared([second, members[3]], PARTITIONS)

        sent = writer.end()
        wait_until(lambda: committed.now() == sent, 30, lambda: f"{committed.now()} to be {sent}; {members}")
        assert second.child.stop() == 0
        assert members[3].child.stop() == 0
        committed.end()
        assert committed.fell == []
    check_all_delivered(members, sent)
    check_owned_once(members)
    fences = [line for line in second.child.log.read_text().splitlines() if " fence: " in line]
    assert len(fences) == 1, second
    assert "others may own our partitions" in fences[0]
    late = [h for h in second.handed() if second.frozen[0] < h.at < float(fences[0].split()[0])]
    assert late == []
