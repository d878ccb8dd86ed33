"""A group of ours and three programs of the JVM: each joins, leaves, dies or freezes, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.mixed import Group
from tests.integration.ownerlog import OwnerLog
from tests.integration.rounds import Rounds, Traffic

pytestmark = pytest.mark.real
PARTITIONS = 8
SESSION_S, TICK_S = 3.0, 0.5


def test_a_mirror_of_the_jvm_and_two_of_ours_take_over_from_each_other(source, target, unique, tmp_path: Path):
    topic, name = unique.topic(), unique.group()
    source.create_topic(topic, PARTITIONS)
    target.create_topic(topic, 1)
    group = Group(source, target, name, topic, PARTITIONS, tmp_path, SESSION_S)
    traffic = Traffic(source, topic, PARTITIONS)
    try:
        with OwnerLog(source.zookeeper, name, topic, PARTITIONS) as log:
            rounds = Rounds(group, log, traffic)
            first = rounds.join("ours")
            mirror = rounds.join("mirror")
            rounds.freeze(first)  # the JVM takes over, and gives back
            second = rounds.join("ours")
            rounds.kill(mirror)
            rounds.stop(first)
            verdict = rounds.verdict()
            second.stop()
    finally:
        group.close()
    verdict.check(SESSION_S + 2 * TICK_S + 3)
    assert verdict.by_ours > verdict.messages / 3
