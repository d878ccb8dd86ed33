"""A group moves zookeeper -> dual -> kafka and back under load, one member at a time, on real clusters."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from localkafka.client import ClusterClient
from localkafka.waiting import wait_until
from tests.integration.moving import INTERVAL_S, MovingGroup
from tests.integration.rounds import Traffic
from zkconsumer.offsets.dual import BETWEEN

pytestmark = pytest.mark.real
PARTITIONS = 6


def moved(cluster: ClusterClient, topic: str, name: str, folder: Path) -> tuple[set[tuple[int, int]], MovingGroup]:
    """There and back: what was sent, and the group at its end."""
    cluster.create_topic(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        cluster.wait_leader(topic, partition)
    group = MovingGroup(cluster, name, topic, PARTITIONS, folder)
    traffic = Traffic(cluster, topic, PARTITIONS)
    try:
        group.console("dual")
        first, second = group.ours("zookeeper"), group.ours("zookeeper")
        group.settle(3)
        assert first.switch("kafka").startswith("refused zookeeper -> kafka in one bounce")
        assert first.switch("dual") == "switched dual"
        second.stop()  # the other way: bounced
        killed = group.ours("dual", f"{BETWEEN}=kill@8")
        killed.wait_killed()
        third = group.ours("dual")
        group.settle(3)
        wait_until(lambda: set(group.modes().values()) == {"dual"}, 10, lambda: f"both dual, have {group.modes()}")
        assert first.switch("kafka") == "switched kafka"
        assert third.switch("kafka") == "switched kafka"
        late = group.ours("zookeeper")
        wait_until(lambda: not late.child.running, 15, "a member on ZooKeeper alone to be refused")
        assert "ModeRefused" in late.child.log_end(30)
        time.sleep(2 * INTERVAL_S)  # ZooKeeper falls behind
        assert third.switch("dual") == "switched dual"
        assert first.switch("dual") == "switched dual"
        assert third.switch("zookeeper") == "switched zookeeper"
        assert first.switch("zookeeper") == "switched zookeeper"
        sent = traffic.end()
        wait_until(lambda: set(group.seen()) >= sent, 20, lambda: f"{len(sent - set(group.seen()))}: {group.told()}")
        first.stop()
        third.stop()
    finally:
        group.close()
    return sent, group


def check(sent: set[tuple[int, int]], group: MovingGroup) -> None:
    times = Counter(group.seen())
    assert set(times) >= sent
    (killed,) = [member for member in group.members if member.dead_at < float("inf")]
    since = killed.handed()[-1].at - INTERVAL_S - 0.5
    of_killed = {(row.partition, row.offset) for row in killed.handed() if row.at >= since}
    twice = sorted(place for place, count in times.items() if count > 1)
    other = [place for place in twice if place not in of_killed]
    print(len(sent), len(twice), len(other), other)
    assert len(other) <= PARTITIONS


def test_a_group_of_0_8_2_goes_off_zookeeper_and_back(source: ClusterClient, unique, tmp_path: Path):
    sent, group = moved(source, unique.topic(), unique.group(), tmp_path)
    check(sent, group)
