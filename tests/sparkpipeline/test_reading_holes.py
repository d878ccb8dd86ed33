"""Ranges of which a broker sends nothing though its log goes on: a hole that compaction left, or an answer not to be
believed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kafkawire.model import Broker
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import DataLoss, MessageTooLarge
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.arrow import read_ranges
from sparkpipeline.reading.readoptions import ReadOptions
from tests.fakes.replicas import ReplicaCluster

OPTIONS = ReadOptions(fetch_bytes=64 << 10, max_wait_ms=10, patience_ms=200)
LENIENT = replace(OPTIONS, fail_on_data_loss=False)
ALL = list(range(100))


@pytest.fixture
def cluster() -> Iterator[ReplicaCluster]:
    with ReplicaCluster({"t": 1}) as cluster:
        cluster.append("t", 0, count=100)
        yield cluster


def offsets(
    cluster: ReplicaCluster, options: ReadOptions = OPTIONS, leader: Broker | None = None, until: int = 100
) -> list[Any]:
    access = ClusterAccess(tuple(cluster.bootstrap), release="2.8", retries=1, retry_interval_ms=5)
    found = read_ranges([OffsetRange("t", 0, 0, until, leader)], access, options)
    return [row["offset"] for batch in found for row in batch.to_pylist()]


def test_empty_answers_pass_over_nothing_of_a_topic_that_is_not_compacted(
    cluster: ReplicaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.withheld.add(("t", 0))
    sentence = r"topic=t partition=0 requested=0 until=100 latest=100 broker=127.0.0.1:\d+: the log continues .*=delete"
    with pytest.raises(DataLoss, match=sentence):
        offsets(cluster)
    assert len(cluster.seen("Fetch")) < 60, "asked again with pauses"
    with caplog.at_level(logging.WARNING):
        assert offsets(cluster, LENIENT) == []
    assert "skipped 100 offsets at 0" in caplog.text


def test_an_answer_that_was_empty_for_a_while_is_waited_for(cluster: ReplicaCluster) -> None:
    cluster.withheld.add(("t", 0))

    def give() -> None:
        cluster.wait(lambda: len(cluster.seen("Fetch")) > 5)
        cluster.withheld.clear()

    giving = threading.Thread(target=give)
    giving.start()
    assert offsets(cluster, replace(OPTIONS, patience_ms=20_000)) == ALL
    giving.join(10)


@pytest.mark.parametrize("own", [{"cleanup.policy": "compact"}, {"cleanup.policy": "compact,delete"}, {}])
def test_a_hole_that_compaction_left_at_the_end_is_passed_over(cluster: ReplicaCluster, own: dict[str, str]) -> None:
    cluster.withheld.add(("t", 0))
    cluster.settings["t"] = own
    cluster.cleanup_policy = "delete" if own else "compact"
    assert offsets(cluster) == []
    assert len(cluster.seen("Fetch")) == 2


def test_where_this_user_may_not_know_whether_it_is_compacted_nothing_is_passed_over(cluster: ReplicaCluster) -> None:
    cluster.withheld.add(("t", 0))
    cluster.settings["t"] = 29
    with pytest.raises(DataLoss, match=r"do not return its cleanup\.policy"):
        offsets(cluster)


def test_a_batch_of_which_a_later_broker_sends_nothing_is_no_hole(cluster: ReplicaCluster) -> None:
    cluster.append("t", 0, count=1, value=bytes(70 << 10))
    access = ClusterAccess(tuple(cluster.bootstrap), release="0.8.2", retries=1, retry_interval_ms=5)
    small = replace(OPTIONS, fetch_bytes_cap=64 << 10)
    with pytest.raises(MessageTooLarge, match=r"has 7\d{4} bytes: raise fetchBytesCap"):
        list(read_ranges([OffsetRange("t", 0, 100, 101, None)], access, small))


def test_a_leader_that_would_send_readers_to_another_replica_is_read(cluster: ReplicaCluster) -> None:
    cluster.prefers = 2
    assert offsets(cluster) == ALL


def test_a_follower_that_the_planner_took_for_the_leader_is_left(cluster: ReplicaCluster) -> None:
    cluster.logs[2, "t", 0].clear()
    follower = Broker(2, *cluster.bootstrap[1])
    assert offsets(cluster, leader=follower) == ALL


def test_a_leader_that_does_not_know_that_it_was_deposed_is_left_before_anything_counts_as_lost(
    cluster: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkpipeline.reading.rangefetcher.LOOK_S", 0.05)
    cluster.deluded.add(1)  # cut off from the controller: it answers fetches, and names itself
    cluster.move("t", 0, 2)
    cluster.append("t", 0, count=50, on=[2])
    patient = replace(LENIENT, patience_ms=20_000)
    assert offsets(cluster, patient, Broker(1, *cluster.bootstrap[0]), until=150) == list(range(150))
    assert len(cluster.seen("Metadata")) < 10
