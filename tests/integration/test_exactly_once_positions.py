"""delivery.guarantee: exactly-once on real clusters, where a position in the target does not fit the source's log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka.cluster import Cluster
from localkafka.node import Node
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration import badlogs
from tests.integration.badlogs import ENTRY, edited, filled_around, values_of
from tests.integration.oncecopies import OnceMirror
from tests.integration.sparktopics import produce
from tests.matrix.foreign import read_by_librdkafka
from zkconsumer.refusals import NotLeader, UnknownPartition

pytestmark = pytest.mark.real


def cut(node: Node, topic: str, offset: int) -> None:
    """Cut a log of a broker that was stopped cleanly: what it has from this offset on is gone."""
    [segment] = node.segments(topic, 0)
    data, at = segment.read_bytes(), 0
    while ENTRY.unpack_from(data, at)[0] < offset:
        at += ENTRY.size + ENTRY.unpack_from(data, at)[1]
    segment.write_bytes(data[:at])


def held(source: Cluster, topic: str) -> list[bytes | None] | None:
    """Values in the source's partition 0; None: its broker does not lead it yet."""
    try:
        return values_of(source, topic)
    except (NotLeader, UnknownPartition):
        return None


def copied(target: Cluster, topic: str) -> list[bytes]:
    """Values in the target's partition 0, as a read_committed reader finds them."""
    return [row[5] for row in read_by_librdkafka(target.brokers, [topic]) if row[1] == 0]  # type: ignore[misc]


def test_positions_that_do_not_fit_the_log(own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path) -> None:
    """Two topics, one mirror: of one the log is cut below the position, of the other a message right at the position is
    damaged, and the mirror dies before the source is told how far the target is."""
    cutoff, damaged = f"{unique.topic()}-cut", f"{unique.topic()}-damaged"
    source, target = own_cluster(), own_cluster(version="2.8.2")
    for topic in (cutoff, damaged):
        filled_around(source, topic)
        target.create_topic(topic, 2)
    node = source.node(0)
    node.stop()
    edited(node, damaged, 5, badlogs.flipped)
    node.restart()
    every = [b"v%d" % n for n in range(16)]
    both = f"{cutoff}|{damaged}"
    # It tells the source nothing of what it copies, and a hyphen in the group's name makes names with lengths.
    late, group = {"offset.commit.interval.ms": 600_000}, f"{unique.group()}-x"
    with OnceMirror(tmp_path, source, target, group, both, name="first", mirror=late) as mirror:
        mirror.wait_for(lambda: copied(target, cutoff) == every, "all of one topic")
        mirror.wait_for(lambda: copied(target, damaged) == every[:5], "what comes before the damage")
        mirror.wait_said("event=parked")
        mirror.kill()
    node.stop()
    cut(node, cutoff, 6)
    node.restart()
    wait_until(lambda: held(source, cutoff) == every[:6], 30, "the cut log to be served")
    produce(source, TopicPartition(cutoff, 0), [(None, b"new%d" % n) for n in range(4)])
    now_there = [*every[:6], *(b"new%d" % n for n in range(4))]
    assert held(source, cutoff) == now_there
    with OnceMirror(
        tmp_path, source, target, group, both, name="second", mirror={**late, "corrupt.policy": "skip"}
    ) as mirror:
        mirror.wait_for(lambda: copied(target, damaged) == [*every[:5], *every[6:]], "what comes behind the damage")
        mirror.wait_for(lambda: copied(target, cutoff) == [*every, *now_there], "all of the log that was cut")
        assert "event=position-set-back" in mirror.said()
        assert f"{damaged}/0 resumes at 5, as the target says; the group committed 0" in mirror.said()
        assert mirror.stop()[0] == 0, mirror.said()
