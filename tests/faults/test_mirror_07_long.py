"""500,000 messages out of 0.7 into a real 0.8.2.2 while everybody dies: nothing lost, repeats inside the bound."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from localkafka.client import ClusterClient
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring07 import Mirror07, fill, judged
from tests.integration.test_mirror_07_to_08 import arrived, done, settled, stored, target_section

pytestmark = [pytest.mark.real, pytest.mark.faults]
Starter = Callable[..., Cluster07]
EACH, MORE, KILLS = 80_000, 3_400, 5  # 6 partitions: 480,000 before, 20,400 while the kills go on


def test_half_a_million_messages_survive_kills_of_the_mirror_and_of_source_brokers(
    cluster07: Starter, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    rng = random.Random(7)
    source, topic = cluster07(partitions={0: 1, 1: 2, 2: 3}), unique.topic()
    total = fill(source, topic, EACH, lot=5000)
    options, small = {"offset.commit.interval.ms": 300}, {"fetch.message.max.bytes": 65536}
    mirror, bound = Mirror07(tmp_path, source, target_section(target), unique.group(), topic, options, small), 0
    with mirror:
        for kill in range(KILLS):
            goal = total * (kill + rng.random()) / (KILLS + 1)
            wait_until(
                lambda goal=goal: arrived(target, topic) > goal,
                120,
                lambda: f"some; log\n{mirror.said()}",
                every_s=0.02,
            )
            mirror.kill()
            committed = mirror.committed()
            bound = settled(target, topic) - done(source, topic, committed)  # all that can ever be there twice
            mirror.start()
            if kill % 2:
                dying = source.node(rng.randrange(3))
                wait_until(lambda before=committed: mirror.committed() != before, 60, "the mirror to go on")
                dying.kill()
                dying.restart()
        total += fill(source, topic, MORE, first=EACH)
        mirror.wait_all_committed(timeout_s=240)
        assert mirror.stop()[0] == 0
    found = judged(source.values(topic), stored(target, topic, 6))
    print(found, "bound", bound)
    assert (found.source, found.lost, found.phantoms) == (total, 0, 0)
    assert (found.out_of_order, found.split) == (0, 0)
    assert found.duplicates <= bound
