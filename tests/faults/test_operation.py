"""Rows of the fault matrix about operation: reloads, other versions, offset stores and their coordinator."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kafkawire.cluster.addresses import parse_addresses
from kafkawire.model import TopicPartition
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC, group_partition
from localkafka.waiting import wait_until
from tests.faults.harness.daemons import COMMIT_S
from tests.faults.harness.leaders import wait_in_sync
from tests.faults.harness.row import Accept, Run, d1, row
from zkconsumer.group.assignor import assign_range
from zkconsumer.simple import SimpleConsumer

pytestmark = [pytest.mark.real, pytest.mark.faults]
ROOT = Path(__file__).resolve().parents[2]


@row("F40", "SIGHUP with a wrong file, then with another whitelist", Accept(pause_s=1.5))
def test_f40_reloads(run: Run) -> None:
    [daemon] = run.daemons
    leaves = next(iter(run.topics))
    partitions = [tp for tp in run.tps if tp.topic == leaves]
    with run.fault(affected=()):
        daemon.file.write_text("mirror: {whitelist: (}\n")
        daemon.signal(signal.SIGHUP)
        daemon.wait_said("event=reload-failed")
        run.wait_flowing(since=time.monotonic())
    whole = daemon.settings["mirror"]["whitelist"]
    with run.fault(affected=partitions) as fault:
        daemon.settings["mirror"]["whitelist"] = "|".join(name for name in run.topics if name != leaves)
        daemon.configure()
        daemon.signal(signal.SIGHUP)
        daemon.wait_for(lambda: daemon.said().count("event=reload-ok") == 1, "the first reload")
        run.pass_time(5)
        daemon.settings["mirror"]["whitelist"] = whole
        daemon.configure()
        daemon.signal(signal.SIGHUP)
        daemon.wait_for(lambda: daemon.said().count("event=reload-ok") == 2, "the second reload")
        fault.over()
        run.wait_flowing()


def older(folder: Path) -> Path:
    """The code of an earlier commit.  Skips where the repository has no history."""
    wanted = os.environ.get("FAULT_OLDER", "HEAD~100")
    asked = ["git", "-C", str(ROOT), "rev-parse", "--verify", "-q", wanted]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip(f"needs the history of the repository: there is no {wanted}")
    folder.mkdir()
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", wanted], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)
    return folder


def settled(run: Run, members: int) -> None:
    """Wait until each partition is owned as the range assignment of the registered members says."""
    ids: list[str] = []

    def as_computed() -> bool:
        ids[:] = run.members()
        if len(ids) != members:
            return False
        threads = [f"{member}-{n}" for member in ids for n in range(2)]
        topics = {topic: list(range(count)) for topic, count in run.topics.items()}
        wanted = {tp: t for t, tps in assign_range(topics, dict.fromkeys(topics, threads)).items() for tp in tps}
        return {(tp.topic, int(str(tp.partition))): t for tp, t in wanted.items()} == {
            (tp.topic, int(str(tp.partition))): t for tp, t in run.owners().items()
        }

    run.wait_for(as_computed, lambda: f"{members} members to own what is theirs; {ids}: {run.owners()}")


@row("F41", "two versions in a group, then rolled", Accept(), daemons=2)
def test_f41_two_versions(run: Run) -> None:
    before = {"PYTHONPATH": str(older(run.folder / "older"))}
    first, second = run.daemons
    settled(run, 2)
    with run.fault(affected=()):
        for daemon in (second, first):  # mixed, then both of the older version
            assert daemon.stop()[0] == 0
            daemon.env(before)
            daemon.start()
            settled(run, 2)
            run.wait_flowing(since=time.monotonic())
        for daemon in (first, second):  # and back, one after the other
            assert daemon.stop()[0] == 0
            daemon.env(None)
            daemon.start()
            settled(run, 2)
            run.wait_flowing(since=time.monotonic())


DUAL = {"source": {"offsets.storage": "kafka", "dual.commit.enabled": True}}


@row("F43", "the coordinator of a dual group is killed", Accept(duplicates=d1(), rebalances=0), options=DUAL)
def test_f43_the_coordinator_of_a_dual_group_is_killed(run: Run) -> None:
    side = run.sites.source
    zk = side.cluster.registry()
    count = len(zk.partitions(OFFSETS_TOPIC))
    partition = group_partition(run.group, count)
    for _ in range(2):
        side.cluster.wait_in_sync(OFFSETS_TOPIC, 90)
        leader = side.cluster.wait_leader(OFFSETS_TOPIC, partition)
        with run.fault():
            side.cluster.node(leader).kill()
            side.cluster.wait_leader(OFFSETS_TOPIC, partition, other_than=leader)
            run.wait_flowing(since=time.monotonic())
        side.cluster.node(leader).restart()
        wait_in_sync(run, side)
        run.wait_caught_up()
        apart: list[int] = []
        for _ in range(5):
            now = dict(run.sampler.committed())
            apart.append(max(abs(now[tp] - offset) for tp, offset in in_kafka(run).items()))
            run.pass_time(0.4)
        interval = 2 * COMMIT_S * run.rate / len(run.tps)  # one that is under way, and what flows between two looks
        run.figure("stores differ by", max(apart), interval + 40)


def in_kafka(run: Run) -> dict[TopicPartition, int]:
    """The committed offsets that Kafka has."""
    node = next(node for node in run.sites.source.cluster.nodes if node.active)
    host, port = parse_addresses(node.address)[0]

    def found() -> dict[TopicPartition, int]:
        with SimpleConsumer(host, port) as at:
            read = at.fetch_offsets(run.group, run.tps, "kafka")
        return {tp: position for tp, position in read.items() if isinstance(position, int)}

    return wait_until(found, 30, "the offsets in Kafka")
