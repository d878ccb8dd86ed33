"""How long the commands about positions take on many of them: to be run on a machine that does nothing else."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from groundwork.zksecurity import ZooKeeper
from groupadmin.apply.writes import StoreWrite, apply_writes
from groupadmin.snapshot.cluster import AdminClient, read_cluster
from groupadmin.snapshot.reader import read_snapshots
from kafkawire.model import TopicPartition
from zkconsumer.commands.common import connected

pytestmark = [pytest.mark.real, pytest.mark.faults]
PARTITIONS = 10


@contextmanager
def at_most(seconds: float, what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    print(f"{what}: {took:.1f} s")
    assert took <= seconds, f"{what} took {took:.1f} s"


def zkconsumer(*args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "zkconsumer.commands.main", *args], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_two_thousand_groups_are_looked_at_and_ten_thousand_positions_go_out_and_in(source, unique, tmp_path: Path):
    topic, tag = unique.topic(), unique.group("many")
    source.create_topic(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        source.wait_leader(topic, partition)
    groups = [f"{tag}-{n:04d}" for n in range(2000)]
    tps = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    with connected(ZooKeeper(source.zookeeper)) as reach:
        world = AdminClient(reach.session, reach.links, reach.dialect)
        cluster = read_cluster(world)
        done = apply_writes(world, cluster, [StoreWrite(group, tp, "zookeeper", 0) for group in groups for tp in tps])
        assert {row.state for row in done} == {"written"}
        with at_most(30, "2,000 groups x 10 partitions looked at"):
            found = read_snapshots(world, groups, cluster, wide=False)
        assert all(len(each.zookeeper) == len(each.bounds) == PARTITIONS for each in found.values())
    file = tmp_path / "saved"
    with at_most(10, "10,000 positions exported"):
        half = ("--group", f"{tag}-0.*", "--regex", "--store", "zookeeper")
        file.write_text(zkconsumer("offsets", "export", "-z", source.zookeeper, *half, "-o", "csv"))
    file.write_text(file.read_text().replace(",0\n", ",1\n"))
    outside = ("--keep-out-of-range", "--store", "zookeeper", "--undo-dir", str(tmp_path), "--execute")
    with at_most(10, "10,000 positions imported"):
        zkconsumer("offsets", "import", str(file), "-z", source.zookeeper, *outside)
    assert source.registry().zk.get(f"/consumers/{groups[999]}/offsets/{topic}/9")[0] == b"1"
