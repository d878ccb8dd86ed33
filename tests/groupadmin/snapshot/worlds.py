"""A fake ZooKeeper and a fake Kafka 0.8.2 as one world."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from groupadmin.snapshot.cluster import AdminClient
from kafkawire.dialects import dialect
from kafkawire.net.links import Links
from tests.fakes.broker import FakeCluster
from tests.fakes.znodes import FakeZookeeper

NOW_MS = int(time.time() * 1000)
WRITTEN_AGO_MS = 90 * 60_000 + 20_000  # 90m, also when a test takes a while


@dataclass
class Fakes:
    """told: what was told, in order."""

    zk: FakeZookeeper
    kafka: FakeCluster
    world: AdminClient
    told: list[str]


def filled(topics: Mapping[str, int], kafka: FakeCluster, nodes: Mapping[str, bytes] | None = None) -> FakeZookeeper:
    """ZooKeeper as a cluster with these topics leaves it, with nodes more."""
    zk = FakeZookeeper(now_ms=int(time.time() * 1000) - WRITTEN_AGO_MS)
    for broker, port in kafka.ports.items():
        zk.set(f"/brokers/ids/{broker}", json.dumps({"host": "127.0.0.1", "port": port}).encode())
    for topic, count in topics.items():
        zk.set(f"/brokers/topics/{topic}", json.dumps({"partitions": {str(n): [1] for n in range(count)}}).encode())
    for path, data in (nodes or {}).items():
        zk.set(path, data)
    return zk


@contextmanager
def fakes(
    topics: Mapping[str, int],
    nodes: Mapping[str, bytes] | None = None,
    brokers: int = 1,
    ends: Mapping[tuple[str, int], int] | None = None,
) -> Iterator[Fakes]:
    """topics with so many partitions, all logs empty but for `ends`; __consumer_offsets only when it is among them."""
    with FakeCluster(dict(topics), brokers) as kafka:
        for tp, end in (ends or {}).items():
            kafka.logs[tp].end = end
        zk = filled(topics, kafka, nodes)
        links = Links("test", timeout_ms=5000)
        told: list[str] = []
        clock = itertools.count()  # each look at it is a second
        world = AdminClient(
            zk.session(),
            links,
            dialect("0.8.2"),
            tell=told.append,
            clock_ms=lambda: NOW_MS,
            now=lambda: float(next(clock)),
            sleep=lambda seconds: None,
        )
        try:
            yield Fakes(zk, kafka, world, told)
        finally:
            links.close()
