"""How long a plan of two thousand groups takes: to be run on a machine that does nothing else."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from groundwork.zksecurity import ZooKeeper
from groupadmin.apply.writes import StoreWrite, apply_writes
from groupadmin.migrate.planfile import read_plan
from groupadmin.snapshot.cluster import AdminClient, read_cluster
from kafkawire.model import TopicPartition
from tests.integration.migration import migrate
from zkconsumer.commands.common import connected

pytestmark = [pytest.mark.real, pytest.mark.faults]
GROUPS, PARTITIONS, AT_MOST_S = 2000, 10, 30


def test_two_thousand_groups_of_ten_partitions_are_planned_in_half_a_minute(source, unique, tmp_path: Path):
    topic, tag, plan = unique.topic(), unique.group("many"), tmp_path / "plan.json"
    source.create_topic(topic, PARTITIONS)
    tps = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    with connected(ZooKeeper(source.zookeeper)) as reach:
        world = AdminClient(reach.session, reach.links, reach.dialect)
        wanted = [StoreWrite(f"{tag}-{n:04d}", tp, "zookeeper", 0) for n in range(GROUPS) for tp in tps]
        assert {row.state for row in apply_writes(world, read_cluster(world), wanted)} == {"written"}
    began = time.monotonic()
    migrate("plan", "-z", source.zookeeper, "--groups-regex", f"{tag}-.*", "--plan", str(plan))
    took = time.monotonic() - began
    made = read_plan(plan.read_text(encoding="utf-8"))
    assert (len(made.groups), sum(len(each.rows) for each in made.groups)) == (GROUPS, GROUPS * PARTITIONS)
    assert took <= AT_MOST_S, f"planning took {took:.1f} s"
