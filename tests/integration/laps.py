"""Runs busy.py: a topic for it to read again and again, and what it tells."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kafkawire.dialects import dialect
from kafkawire.formats.v01 import messages
from kafkawire.model import TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import requests08 as requests
from localkafka.client import ClusterClient

A_SET, SETS, VALUE_BYTES = 5000, 40, 100


def fill(cluster: ClusterClient, topic: str) -> int:
    """Two partitions with some laps' worth of messages; returns where each ends."""
    cluster.create_topic(topic, 2)
    entries = messages.encode([(n, None, b"v" * VALUE_BYTES, None) for n in range(A_SET)])
    links = Links("laps")
    try:
        view = cluster.registry().view(topic)
        for tp in (TopicPartition(topic, 0), TopicPartition(topic, 1)):
            leader = view.leader(tp)
            assert leader is not None
            for _ in range(SETS):
                request = requests.produce(dialect(cluster.version), 1, 10_000, {tp: [entries]})
                assert links.link(leader, "laps").call(request)[tp].stored
    finally:
        links.close()
    return A_SET * SETS


def beside_a_busy_handler(
    cluster: ClusterClient, group: str, topic: str, end: int, session_ms: int, how: str, read: str, seconds: float
) -> dict[str, Any]:
    """What busy.py tells; see there."""
    argv = [cluster.zookeeper, group, topic, str(end), str(session_ms), how, read, str(seconds)]
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.integration.busy", *argv]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=seconds + 60)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told
