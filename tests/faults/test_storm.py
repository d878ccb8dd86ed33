"""Two mirrors of one group under load, and one random fault after the other: nothing may be lost.

`STORM_SEED=n STORM_STEPS=m make faults` repeats a storm or makes it longer; the seed stands in every failure.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from localkafka import tools
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.cluster import Cluster
from localkafka.demo import compare
from localkafka.load import GZIP, PLAIN, SNAPPY, Load, Mixture
from localkafka.mirror import MirrorProcess, committed
from localkafka.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.faults]

SEED = int(os.environ.get("STORM_SEED", "1"))
STEPS = int(os.environ.get("STORM_STEPS", "8"))
PARTITIONS = 4
TOPICS = {
    "keyed": Mixture(keyed=1.0, codecs=(PLAIN,)),
    "mixed": Mixture(keyed=0.5, codecs=(PLAIN, GZIP, SNAPPY), value_bytes=300),
}
SESSION_S = 6.0
CLEAN = (0, -signal.SIGTERM)  # the second: told to stop before it was up, it had begun nothing


class Storm:
    """What may happen; each fault leaves everything running again."""

    def __init__(self, rng: random.Random, mirrors: list[MirrorProcess], source: Cluster, target: Cluster) -> None:
        self.rng, self.mirrors, self.source, self.target = rng, mirrors, source, target

    def faults(self) -> list[Callable[[], str]]:
        return [self.kill_mirror, self.stop_mirror, self.freeze_mirror, self.kill_target, self.kill_source]

    def kill_mirror(self) -> str:
        mirror = self.rng.choice(self.mirrors)
        mirror.kill()
        mirror.start()
        return "a mirror killed with -9 and started"

    def stop_mirror(self) -> str:
        mirror = self.rng.choice(self.mirrors)
        assert mirror.stop() in CLEAN, mirror.log_end()
        mirror.start()
        return "a mirror stopped and started"

    def freeze_mirror(self) -> str:
        mirror = self.rng.choice(self.mirrors)
        mirror.send(signal.SIGSTOP)
        time.sleep(SESSION_S * self.rng.choice([0.3, 1.5]))  # the fault itself: a process that does not run
        mirror.send(signal.SIGCONT)
        return "a mirror frozen"

    def kill_target(self) -> str:
        return self.kill_broker(self.target, "target")

    def kill_source(self) -> str:
        return self.kill_broker(self.source, "source")

    def kill_broker(self, cluster: Cluster, name: str) -> str:
        for topic in TOPICS:
            cluster.wait_in_sync(topic)  # else an acknowledged message could die with its only replica
        node = cluster.node(self.rng.choice([0, 1]))
        node.kill()
        time.sleep(self.rng.uniform(0.5, 3))
        node.restart()
        return f"a {name} broker killed with -9 and started"


def test_a_storm_of_faults_loses_nothing(tmp_path: Path, own_cluster: Callable[..., Cluster]) -> None:
    rng = random.Random(SEED)
    source, target = own_cluster(brokers=2), own_cluster(brokers=2)
    for topic in TOPICS:
        source.create_topic(topic, PARTITIONS, replication=2)
    mirrors = []
    for name in "ab":
        (tmp_path / name).mkdir()
        mirrors.append(MirrorProcess(tmp_path / name, source, target, "storm", "|".join(TOPICS)))
    load = Load(source.brokers, source.version, SEED)
    told = [f"seed {SEED}"]
    try:
        for mirror in mirrors:
            mirror.start()
        storm = Storm(rng, mirrors, source, target)
        for _ in range(STEPS):
            with load.in_background(TOPICS, PARTITIONS, 8000):
                told.append(rng.choice(storm.faults())())
        wait_for_all(source, lambda: f"{told}; {mirrors[0].log_end()}; {mirrors[1].log_end()}")
        codes = [mirror.stop() for mirror in mirrors]
    finally:
        for mirror in mirrors:
            mirror.close()
        load.close()
    rows = [row for topic in TOPICS for row in compared(source, target, topic)]
    assert all(code in CLEAN for code in codes), (codes, told)
    assert [(row.topic, row.partition, row.examples) for row in rows if row.lost or row.phantoms] == [], told
    assert sum(row.source for row in rows) >= 8000 * STEPS * len(TOPICS)


def wait_for_all(source: ClusterClient, said: Callable[[], str]) -> None:
    def caught_up() -> bool:
        ends = log_end_offsets(source, TOPICS)
        return committed(source, "storm", list(ends)) == ends

    wait_until(caught_up, 90, said)


def compared(source: ClusterClient, target: ClusterClient, topic: str):
    logs = [tools.dump_topic(cluster, topic, range(PARTITIONS)) for cluster in (source, target)]
    sides = [{p: [(r.offset, r.key, r.payload) for r in rows] for p, rows in log.items()} for log in logs]
    return [compare(topic, p, sides[0][p], sides[1][p]) for p in range(PARTITIONS)]
