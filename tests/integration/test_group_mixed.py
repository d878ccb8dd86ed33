"""A group of ours and three programs of the JVM: each joins, leaves, dies or freezes, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localkafka import tools
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from tests.integration import readers
from tests.integration.mixed import Group
from tests.integration.ownerlog import OwnerLog
from tests.integration.readers import Reader
from tests.integration.rounds import Rounds, Traffic
from zkconsumer.filters import Whitelist

pytestmark = pytest.mark.real
PARTITIONS = 8
SESSION_S, TICK_S = 3.0, 0.5


def test_a_mirror_of_the_jvm_and_two_of_ours_take_over_from_each_other(source, target, unique, tmp_path: Path):
    topic, name = unique.topic(), unique.group()
    source.create_topic(topic, PARTITIONS)
    target.create_topic(topic, 1)
    group = Group(source, target, name, topic, PARTITIONS, tmp_path, SESSION_S)
    traffic = Traffic(source, topic, PARTITIONS)
    try:
        with OwnerLog(source.zookeeper, name, topic, PARTITIONS) as log:
            rounds = Rounds(group, log, traffic)
            first = rounds.join("ours")
            mirror = rounds.join("mirror")
            rounds.freeze(first)  # the JVM takes over, and gives back
            second = rounds.join("ours")
            rounds.kill(mirror)
            rounds.stop(first)
            verdict = rounds.verdict()
            second.stop()
    finally:
        group.close()
    verdict.check(SESSION_S + 2 * TICK_S + 3)
    assert verdict.by_ours > verdict.messages / 3


@pytest.mark.parametrize("version", ["0.8.2.2", "0.11.0.3"])
def test_members_agree_though_filters_of_the_jvm_leave_out_other_topics_in_each_release(
    own_cluster: Callable[..., Cluster], unique: Any, version: str
):
    cluster, topic, name, internal = own_cluster(version=version), unique.topic(), unique.group(), "__transaction_state"
    cluster.create_topic(topic, PARTITIONS)
    cluster.create_topic(internal, PARTITIONS)
    owners = lambda of: readers.owners(cluster, name, of)  # noqa: E731
    with (
        Reader(cluster.zookeeper, name, Whitelist(".*"), streams=2, rebalance_backoff_ms=700) as ours,
        tools.console_consumer(cluster, group=name, whitelist=".*", from_beginning=False),
    ):
        wait_until(
            lambda: (
                len(owners(topic)) == PARTITIONS and len({o.rpartition("-")[0] for o in owners(topic).values()}) == 2
            ),
            30,
            lambda: f"both to own partitions: {owners(topic)}",
        )
        if version == "0.8.2.2":  # its members count the topic, and read their part of it
            wait_until(lambda: owners(internal), 10, f"partitions of {internal} to be owned")
        assert {tp.topic for tp in ours.owns()} == {topic}
        others = {owner.rpartition("-")[0] for owner in owners(internal).values()}
        assert not [name for name in others if ours.consumer_id in name]
        assert len(others) == (version == "0.8.2.2")
        ours.stop()
