"""resume: target-end on real clusters: kill -9 at any moment, and each message is in the target once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from localkafka.client import ClusterClient
from localkafka.load import Load
from tests.conftest import Unique
from tests.integration.mirroring import MIXED, PLAIN_ONLY, filled
from tests.integration.resumes import EACH, held, killed_again_and_again, resuming

pytestmark = pytest.mark.real


def once(source: ClusterClient, target: ClusterClient, unique: Unique, folder: Path, kills: int, seed: int) -> None:
    topic = unique.topic()
    load = filled(source, {topic: 2}, 1000)
    target.create_topic(topic, 2)
    mirror = resuming(folder, source, target, unique.group(), topic)
    try:
        killed_again_and_again(mirror, load, topic, MIXED, kills, random.Random(seed), 2)
        found = held(mirror, topic, 2)
    finally:
        mirror.close()
    count = 1000 + kills * EACH
    assert (found["source"], found["lost"], found["duplicates"], found["phantoms"]) == (count, 0, 0, 0), mirror.said()


def test_killed_three_times_each_message_is_there_once(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    once(source, target, unique, tmp_path, 3, seed=1)


@pytest.mark.faults
def test_killed_twenty_times_each_message_is_there_once(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    once(source, target, unique, tmp_path, 20, seed=2)


def test_a_second_writer_is_seen_and_the_partition_waits_with_the_reason(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    load = filled(source, {topic: 1}, 300, PLAIN_ONLY)
    target.create_topic(topic, 1)
    mirror = resuming(tmp_path, source, target, unique.group(), topic)
    foreign = Load(target.brokers, target.version, seed=9)
    with mirror:
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
        foreign.produce(topic, 1, 5, PLAIN_ONLY)
        foreign.close()
        load.produce(topic, 1, 100, PLAIN_ONLY)
        mirror.start()
        mirror.wait_said("what it holds at 300 is not what the source has next", 30)
        assert mirror.arrived(topic) == 305
        assert mirror.stop()[0] == 0
