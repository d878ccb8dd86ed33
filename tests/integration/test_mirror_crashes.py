"""The mirror on real clusters when processes die: nothing is lost, and what is sent twice was not committed yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from tests.conftest import Unique
from tests.integration.mirroring import MIXED, Mirror, compared, filled, totals

pytestmark = pytest.mark.real


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
