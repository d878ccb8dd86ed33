"""Many partitions, all of them full, and a program that reads them slowly: how much memory it takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kafkawire.cluster import topics
from kafkawire.dialects import dialect
from kafkawire.formats.v01 import messages
from kafkawire.model import TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import requests08 as requests
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until

VALUE_BYTES = 8192
A_REQUEST = 40  # partitions


def fill(cluster: Cluster, name: str, count: int, partitions: int, bytes_each: int) -> list[str]:
    """Topics name-0 ... of so many partitions on the one broker of a cluster, each with so many bytes."""
    registry = cluster.registry()
    (broker_id,) = registry.brokers()
    names = [f"{name}-{n}" for n in range(count)]
    for topic in names:
        topics.create(registry.zk, topic, {partition: [broker_id] for partition in range(partitions)}, {})
        cluster.wait_in_sync(topic, 60)
    rows = [(n, None, b"x" * VALUE_BYTES, None) for n in range(max(1, bytes_each // VALUE_BYTES))]
    entries = messages.encode(rows)
    links = Links("fill")
    try:
        broker = cluster.registry().view(names[0]).brokers[broker_id]
        for topic in names:
            for first in range(0, partitions, A_REQUEST):
                some = [TopicPartition(topic, p) for p in range(first, min(partitions, first + A_REQUEST))]
                _store(links, broker, some, entries)
    finally:
        links.close()
    return names


def _store(links: Links, broker: Any, wanted: list[TopicPartition], entries: bytes) -> None:
    left = set(wanted)

    def stored() -> bool:
        request = requests.produce(dialect("0.8.2"), 1, 10_000, {tp: [entries] for tp in sorted(left)})
        answers = links.link(broker, "fill").call(request)
        left.difference_update(tp for tp, answer in answers.items() if answer.stored)
        return not left

    wait_until(stored, 60, lambda: f"{len(left)} partitions to be led and filled")


def read_slowly(cluster: Cluster, group: str, names: list[str], seconds: float, *options: str) -> dict[str, Any]:
    """What tests/integration/hoarder.py says."""
    argv = [sys.executable, "-m", "tests.integration.hoarder", cluster.zookeeper, group, ",".join(names), str(seconds)]
    root = Path(__file__).parents[2]
    done = subprocess.run([*argv, *options], cwd=root, capture_output=True, text=True, timeout=seconds + 60)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told
