"""Brokers against the fake cluster: leaders, ends of logs, what moves meanwhile, and what each error says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kafkawire.cluster.leaders import MetadataLeaders
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.model import Broker, TopicPartition
from kafkawire.topicnames import INTERNAL_TOPICS
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import NoLeader, OffsetOutOfRange, Refused, UnknownPartition, Unreachable
from sparkpipeline.load.config import LoadConfig
from sparkpipeline.load.loadcluster import chosen, take_snapshot
from sparkpipeline.load.loadplan import LogBounds
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.rangefetcher import first_since
from tests.fakes.broker import Fail, FakeCluster, LeaveOut, Throttle, entry

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 2}, brokers=2) as fake:
        for n in range(5):
            fake.append("t", 0, entry(b"v%d" % n))
        yield fake


def opened(cluster: FakeCluster, waits: list[float] | None = None, **wanted: Any) -> Brokers:
    access = ClusterAccess(tuple(cluster.bootstrap), retry_interval_ms=100, **{"election_ms": 0, **wanted})
    return Brokers(access, sleep=(waits if waits is not None else []).append)


def test_ends_of_logs_are_asked_in_one_question_a_leader(cluster: FakeCluster) -> None:
    with opened(cluster) as brokers:
        assert brokers.latest([T0, T1]) == {T0: 5, T1: 0}
        assert brokers.earliest([T0, T1]) == {T0: 0, T1: 0}
    assert len(cluster.seen("list_offsets")) == 4
    assert all(request.body["topics"] == [] for request in cluster.seen("metadata"))  # never by name


def test_a_known_leader_is_asked_without_metadata(cluster: FakeCluster) -> None:
    leader = Broker(1, "127.0.0.1", cluster.ports[1])
    access = ClusterAccess(tuple(cluster.bootstrap))
    with Brokers(access, {T0: leader}) as brokers:
        assert brokers.leader(T0) == leader
        assert brokers.latest([T0]) == {T0: 5}
    assert cluster.seen("metadata") == []


def test_waits_grow_and_then_the_leader_is_given_up(cluster: FakeCluster) -> None:
    waits: list[float] = []
    with opened(cluster, waits) as brokers:
        cluster.stop(1)
        with pytest.raises(NoLeader, match=r"^KAFKA08_NO_LEADER topic=t partition=0: it has no leader") as caught:
            brokers.leader(T0, refresh=True)
    assert waits == [0.1, 0.2]
    assert "replicas on brokers 1" in str(caught.value)
    assert "asked 4 times" in str(caught.value)


def test_an_election_is_waited_for_longer_than_the_retries_last(cluster: FakeCluster) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if sum(waits) > 20:
            cluster.move("t", 0, 2)

    access = ClusterAccess(tuple(cluster.bootstrap), retries=1, retry_interval_ms=100)
    with Brokers(access, sleep=sleep) as brokers:
        brokers.view()
        cluster.leave_leaders(1)
        cluster.stop(1)
        assert brokers.latest([T0, T1]) == {T0: 5, T1: 0}
    assert 20 < sum(waits) <= 30


@pytest.mark.parametrize("code", [3, 56, 74, 75, 78, -1])
def test_whatever_a_broker_says_after_an_election_is_waited_for(code: int, cluster: FakeCluster) -> None:
    with opened(cluster, retries=1, election_ms=30000) as brokers:
        cluster.script("list_offsets", *[Fail(code)] * 10)
        assert brokers.latest([T0]) == {T0: 5}
        cluster.script("fetch", *[Fail(code)] * 10)
        assert brokers.fetch(T0, 4, 1000).error == 0


def test_an_election_that_takes_too_long_is_an_error_and_a_partition_that_is_none_waits_for_none(
    cluster: FakeCluster,
) -> None:
    waits: list[float] = []
    with opened(cluster, waits, election_ms=5000) as brokers:
        with pytest.raises(UnknownPartition, match="topic=nosuch"):
            brokers.latest([T0, TopicPartition("nosuch", 0)])
        assert sum(waits) < 1
        cluster.stop(1)
        with pytest.raises(NoLeader, match="it has no leader"):
            brokers.leader(T0, refresh=True)
        assert 5 <= sum(waits) < 12


def test_a_dead_leader_that_metadata_goes_on_naming_is_named(cluster: FakeCluster) -> None:
    with opened(cluster, retries=1) as brokers:
        brokers.view()
        cluster.leave_leaders(1)
        cluster.stop(1)
        with pytest.raises(NoLeader, match=f"topic=t partition=0 broker=127.0.0.1:{cluster.ports[1]}: the leader"):
            brokers.latest([T0, T1])


@pytest.mark.parametrize(
    ("tp", "says"),
    [
        (TopicPartition("t", 7), "partition=7: the topic has partitions 0 to 1"),
        (TopicPartition("nosuch", 0), "topic=nosuch partition=0: the cluster has no such topic"),
    ],
)
def test_what_the_cluster_does_not_have_is_neither_found_nor_made(
    cluster: FakeCluster, tp: TopicPartition, says: str
) -> None:
    with opened(cluster, retries=0) as brokers, pytest.raises(UnknownPartition, match=says):
        brokers.latest([T0, tp])
    assert {topic for topic, _ in cluster.logs} == {"t"}


def test_a_refusal_that_no_asking_helps_is_told_at_once(cluster: FakeCluster) -> None:
    cluster.script("list_offsets", Fail(29))
    with opened(cluster) as brokers, pytest.raises(Refused, match=r"topic=t partition=0 broker=127.* TopicAuthor"):
        brokers.latest([T0])
    assert len(cluster.seen("list_offsets")) == 1


def test_an_answer_that_leaves_a_partition_out_is_an_error(cluster: FakeCluster) -> None:
    cluster.move("t", 1, 1)
    with opened(cluster) as brokers:
        brokers.view()
        cluster.offsets_of = lambda log, when: []  # type: ignore[method-assign]
        with pytest.raises(Exception, match="does not say where the log ends"):
            brokers.latest([T0, T1])


def test_when_nobody_answers_everybody_tried_is_named(cluster: FakeCluster) -> None:
    ports = [cluster.ports[1], cluster.ports[2]]
    for broker in (1, 2):
        cluster.stop(broker)
    with opened(cluster, retries=1) as brokers, pytest.raises(Unreachable) as caught:
        brokers.view()
    assert all(str(port) in str(caught.value) for port in ports)


def test_files_answer_for_times_before_0_10_1(cluster: FakeCluster) -> None:
    now = 1000
    files = {T0: [(0, 10), (2, 20), (4, 30)]}  # base offset and time of the last write

    def by_files(log: Any, when: int) -> list[int]:
        if when in (-1, -2):
            return FakeCluster.offsets_of(cluster, log, when)
        segments = [*files[T0], (log.end, now)] if log.end else [(0, 15)]
        return [base for base, written in reversed(segments) if written <= when]

    cluster.offsets_of = by_files  # type: ignore[method-assign]
    with opened(cluster) as brokers:
        assert brokers.at_time({T0: 25, T1: 20}) == {T0: 2, T1: None}
        assert brokers.at_time({T0: 5}) == {T0: 0}  # no file is so old: the log's beginning
        assert brokers.at_time({T0: 2000, T1: 5}) == {T0: None, T1: None}


def test_a_log_without_timestamps_is_not_refined(cluster: FakeCluster) -> None:
    with opened(cluster) as brokers:
        assert first_since(brokers, OffsetRange("t", 0, 2, 5), 10**15) == 2
        assert first_since(brokers, OffsetRange("t", 0, 5, 5), 10**15) == 5
        with pytest.raises(OffsetOutOfRange, match="topic=t partition=0 requested=9 earliest=0 latest=5 broker="):
            first_since(brokers, OffsetRange("t", 0, 9, 12), 10**15)


def test_what_was_fetched_ahead_for_one_log_is_not_taken_for_an_answer_about_another(cluster: FakeCluster) -> None:
    """The response to the request ahead was still to come, and the next search took it for its own."""
    cluster.move("t", 1, 1)
    for partition in (0, 1):
        for _ in range(6):
            cluster.append("t", partition, entry(b"x" * (1 << 20)))
    with opened(cluster) as brokers:
        assert first_since(brokers, OffsetRange("t", 0, 0, 11), 0) == 0
        assert first_since(brokers, OffsetRange("t", 1, 0, 6), 0) == 0


def test_refining_follows_a_leader_that_moves(cluster: FakeCluster) -> None:
    with opened(cluster) as brokers:
        brokers.view()
        cluster.move("t", 0, 2)
        assert first_since(brokers, OffsetRange("t", 0, 3, 5), 0) == 3


@pytest.mark.parametrize(
    ("replicas", "says"),
    [((), "it has no leader, asked"), ((2, 3), r"it has no leader \(replicas on brokers 2, 3\), ")],
)
def test_replicas_are_named_as_far_as_brokers_name_them(replicas: tuple[int, ...], says: str) -> None:
    class Told:
        def read(self, topics: Sequence[str] | None) -> ClusterView:
            return ClusterView({1: Broker(1, "b", 9092)}, {"t": {0: PartitionView(None, replicas)}})

    access = ClusterAccess((("b", 9092),), retries=0, election_ms=0)
    with Brokers(access, leaders=MetadataLeaders(Told())) as brokers, pytest.raises(NoLeader, match=says):
        brokers.leader(TopicPartition("t", 0))


def test_what_a_broker_does_not_answer_for_is_asked_for_again(cluster: FakeCluster) -> None:
    with opened(cluster) as brokers:
        cluster.script("fetch", Throttle(), Throttle())
        assert len(brokers.fetch(T0, 0, 1024).buffer)
        cluster.script("list_offsets", LeaveOut(("t", 0)))
        assert brokers.latest([T0, T1]) == {T0: 5, T1: 0}


def test_a_job_is_not_behind_the_end_of_a_log_whose_leader_is_new(cluster: FakeCluster) -> None:
    config = LoadConfig(base="/jobs", bootstrap=tuple(cluster.bootstrap), topics=("t",))
    cluster.logs["t", 0].high_watermark = 3  # up to 2.1 it tells that for its end until its followers have fetched
    waits: list[float] = []
    with opened(cluster, waits) as brokers:
        snapshot = take_snapshot(config, brokers, {T0: 4, T1: 0})
        assert snapshot.logs == {T0: LogBounds(0, 4), T1: LogBounds(0, 0)}
        assert waits == []
        assert take_snapshot(config, brokers, {T0: 9, T1: 0}).logs[T0] == LogBounds(0, 5)  # it is shorter indeed


def test_a_job_by_pattern_never_takes_topics_of_the_brokers_for_data_not_even_ones_that_it_loaded() -> None:
    config = LoadConfig(base="/jobs", bootstrap=(("b", 1),), topics_pattern=".*")
    view = ClusterView(topics={topic: {0: PartitionView(1)} for topic in ("t", *INTERNAL_TOPICS)})
    assert chosen(config, view, [TopicPartition("__transaction_state", 0)]) == ([T0], [])
