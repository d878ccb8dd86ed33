"""The move of a group off ZooKeeper and back as the tests tell it, and what of it must be true on every release."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from pathlib import Path

from kafkawire.cluster.addresses import parse_addresses
from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.waiting import wait_until
from tests.integration.moving import INTERVAL_S, MovingGroup
from tests.integration.rounds import Traffic
from zkconsumer.offsets.dual import BETWEEN
from zkconsumer.simple import SimpleConsumer

PARTITIONS = 6
DUAL = {"offsets_storage": "kafka", "dual_commit_enabled": True}
KAFKA = {"offsets_storage": "kafka", "dual_commit_enabled": False}


class Move:
    """There and back: one JVM member, dual by its own options, and two of ours, one of which switches and one of which
    is bounced; then all that was handed out is looked at."""

    def __init__(self, cluster: ClusterClient, topic: str, name: str, folder: Path, replication: int = 1) -> None:
        cluster.create_topic(topic, PARTITIONS, replication)
        self.cluster, self.topic, self.name = cluster, topic, name
        self.group = MovingGroup(cluster, name, topic, PARTITIONS, folder)
        self.traffic = Traffic(cluster, topic, PARTITIONS, once=replication == 1)
        self.sent: set[tuple[int, int]] = set()
        self.troubles: list[tuple[float, float]] = []

    def __enter__(self) -> Move:
        return self

    def __exit__(self, *_: object) -> None:
        self.group.close()

    def forth(self) -> None:
        group = self.group
        group.console("dual")
        self.first, second = group.ours("zookeeper"), group.ours("zookeeper")
        group.settle()
        assert self.first.switch("kafka").startswith("refused zookeeper -> kafka in one bounce")
        assert self.first.switch("dual") == "switched dual"
        second.stop()  # the other way: bounced
        killed = group.ours("dual", f"{BETWEEN}=kill@8")
        killed.wait_killed()
        self.third = group.ours("dual")
        group.settle()
        wait_until(lambda: set(group.modes().values()) == {"dual"}, 10, lambda: f"both dual, have {group.modes()}")

    def to_kafka(self) -> None:
        assert self.first.switch("kafka") == "switched kafka"
        assert self.third.switch("kafka") == "switched kafka"
        time.sleep(2 * INTERVAL_S)  # ZooKeeper falls behind

    def back(self) -> None:
        for mode in ("dual", "zookeeper"):
            assert self.third.switch(mode) == f"switched {mode}"
            assert self.first.switch(mode) == f"switched {mode}"

    def end(self) -> None:
        group = self.group
        self.sent = self.traffic.end()
        wait_until(
            lambda: set(group.seen()) >= self.sent, 30, lambda: f"{len(self.sent - set(group.seen()))}: {group.told()}"
        )
        self.first.stop()
        self.third.stop()

    def lost(self) -> set[tuple[int, int]]:
        return self.sent - set(self.group.seen())

    def twice(self) -> list[tuple[int, int]]:
        """What members of ours were handed twice, but for what a killed one had been handed since its last commit but
        one, and for what a member of the JVM may have had in between."""
        times: dict[tuple[int, int], list[float]] = defaultdict(list)
        allowed = set()
        for member in self.group.members:
            rows = member.handed()
            for row in rows:
                times[row.partition, row.offset].append(row.at)
                if row.at > min(member.dead_at, rows[-1].at) - INTERVAL_S - 0.5 and member.child.exit_code == -9:
                    allowed.add((row.partition, row.offset))
        return sorted(place for place, at in times.items() if len(at) > 1 and place not in allowed)

    def check(self) -> None:
        assert self.lost() == set()
        assert self.twice() == []
        assert self.everywhere_twice() <= PARTITIONS * 2 + len(self.sent) // 50  # the JVM commits before it has printed

    def everywhere_twice(self) -> int:
        """Of all members, by number."""
        return sum(count - 1 for count in Counter(self.group.seen()).values())


def simple(cluster: ClusterClient) -> SimpleConsumer:
    host, port = parse_addresses(cluster.brokers)[0]
    return SimpleConsumer(host, port)


def in_kafka(cluster: ClusterClient, group: str, topic: str) -> dict[int, int]:
    """Positions by partition; one that Kafka has none of is left out."""
    tps = [TopicPartition(topic, p) for p in cluster.registry().partitions(topic)]
    with simple(cluster) as at:
        found = at.fetch_offsets(group, tps, "kafka")
    return {int(str(tp.partition)): position for tp, position in found.items() if isinstance(position, int)}
