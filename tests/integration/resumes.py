"""Mirrors with resume: target-end that are killed: what the target holds then."""

from __future__ import annotations

import random
import time
from pathlib import Path

from localkafka.client import ClusterClient
from localkafka.load import Load, Mixture
from tests.integration.mapmoves import mapped
from tests.integration.mirroring import Mirror, compared, totals

STILL_MS = 1000
EACH = 3000  # messages that the source gets before each start
POINTS = ("before send", "after send before ack", "after ack before commit")


def resuming(folder: Path, source: ClusterClient, target: ClusterClient, group: str, topic: str) -> Mirror:
    """A mirror that goes on at the target's end; small fetches, so that many requests are sent."""
    options = {**mapped(folder), "resume": "target-end", "parked.retry.ms": 1000}
    target_section = {"request.timeout.ms": STILL_MS, "batch.num.messages": 50}
    mirror = Mirror(folder, source, target, group, topic, options, target_section)
    small = "  name: dc1\n  fetch.message.max.bytes: 8192\n  zookeeper.session.timeout.ms: 1500"
    mirror.file.write_text(mirror.file.read_text().replace("  name: dc1", small))
    return mirror


def killed_again_and_again(
    mirror: Mirror, load: Load, topic: str, mixture: Mixture, kills: int, rng: random.Random, partitions: int
) -> None:
    """Kill it at random moments, every other time just before or after a request is sent, while the source is written;
    then let it copy everything."""
    for number in range(kills):
        load.produce(topic, partitions, EACH, mixture, batch=40)
        there = mirror.arrived(topic)
        if number % 2:
            point = rng.choice(POINTS)
            passes = rng.randint(1, 2) if point == "after ack before commit" else rng.randint(1, 8)
            mirror.env({"GROUNDWORK_FAILPOINTS": f"{point}=kill@{passes}"})
            mirror.start()
            assert mirror.exit_code(40) == -9, mirror.said()
        else:
            mirror.env(None)
            mirror.start()
            mirror.wait_arrived(topic, there + 1)
            time.sleep(rng.uniform(0.0, 0.3))
            mirror.kill()
    mirror.env(None)
    mirror.start()
    mirror.wait_all_committed([topic], 60)
    assert mirror.stop()[0] == 0, mirror.said()


def held(mirror: Mirror, topic: str, partitions: int) -> dict[str, int]:
    return totals(compared(mirror, topic, partitions))
