"""The mirror on real clusters when processes die: nothing is lost, and what is sent twice was not committed yet."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring import MIXED, Mirror, compared, filled, totals

pytestmark = pytest.mark.real


COUNT = 200_000


def test_kill_9_in_the_middle_loses_nothing_and_repeats_only_what_was_not_committed(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    filled(source, {topic: 4}, COUNT)
    # Small fetches, so that the kill comes in the middle, between commits.
    mirror = Mirror(tmp_path, source, target, unique.group(), topic, {"offset.commit.interval.ms": 200})
    mirror.file.write_text(
        mirror.file.read_text().replace("  name: dc1", "  name: dc1\n  fetch.message.max.bytes: 65536")
    )
    with mirror:
        wait_until(
            lambda: mirror.arrived(topic) > COUNT // 4, 60, lambda: f"a quarter; log\n{mirror.said()}", every_s=0.01
        )
        mirror.kill()
        killed_at = mirror.committed([topic])
        there = -1
        while there != (there := mirror.arrived(topic)):  # what was sent before the kill may still be stored
            time.sleep(0.5)
        assert COUNT // 4 < there < COUNT
        assert sum(killed_at.values()) <= there
        mirror.start()
        mirror.wait_all_committed([topic], 60)
        assert mirror.stop()[0] == 0
    found = totals(compared(mirror, topic, 4, killed_at))
    assert (found["source"], found["lost"], found["outside"], found["phantoms"]) == (COUNT, 0, 0, 0)
    assert found["duplicates"] <= there - sum(killed_at.values())


def test_the_first_death_inside_ends_the_daemon_with_its_reason(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    filled(source, {topic: 1}, 100)
    env = {"GROUNDWORK_FAILPOINTS": "after send before ack=raise@1"}
    with Mirror(tmp_path, source, target, unique.group(), topic, env=env) as mirror:
        assert mirror.exit_code(30) == 70, mirror.said()
        assert "the mirror ends: sender-" in mirror.said()
        assert "FailpointReached" in mirror.said()


def test_a_stop_while_the_target_hangs_ends_in_time_with_75_and_commits_only_what_was_acknowledged(
    source: ClusterClient, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    target = own_cluster(brokers=1)
    target.create_topic(topic, 1)
    load = filled(source, {topic: 1}, 100)
    with Mirror(tmp_path, source, target, unique.group(), topic) as mirror:
        mirror.wait_all_committed([topic])
        target.node(0).pause()
        load.produce(topic, 1, 120, MIXED)
        mirror.wait_said("lag 120")  # of a look since then: it was 100 at the start
        code, seconds = mirror.stop()
        assert (code, seconds < 10) == (75, True), mirror.said()
        assert "not acknowledged in time; sent again after the next start" in mirror.said()
        assert mirror.committed([topic]) == {TopicPartition(topic, 0): 100}
        target.node(0).resume()
        mirror.start()
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    found = totals(compared(mirror, topic, 1))
    assert (found["lost"], found["phantoms"]) == (0, 0)
    assert found["duplicates"] <= 120


def test_a_second_signal_ends_a_drain_at_once_and_commits_nothing_unacknowledged(
    source: ClusterClient, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    target = own_cluster(brokers=1)
    target.create_topic(topic, 1)
    load = filled(source, {topic: 1}, 100)
    with Mirror(tmp_path, source, target, unique.group(), topic) as mirror:
        mirror.wait_all_committed([topic])
        target.node(0).pause()  # takes what is sent, answers nothing
        load.produce(topic, 1, 120, MIXED)
        mirror.wait_said("lag 120")  # it has seen them: a stop before that has nothing to drain
        mirror.signal(signal.SIGTERM)
        mirror.wait_said("stopping: nothing more is fetched")
        mirror.signal(signal.SIGTERM)
        assert mirror.exit_code(5) == 75, mirror.said()
        assert mirror.committed([topic]) == {TopicPartition(topic, 0): 100}
        target.node(0).resume()
