"""A leader that moves while every connection holds: a preferred election, a reassignment, a broker that is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwork.tasks import now
from tests.fakes.replicas import ReplicaCluster
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.currentleaders import RefreshedLeaders
from zkconsumer.refusals import NotLeader
from zkconsumer.simple import SimpleConsumer
from zkconsumer.streams.stream import Stream


@pytest.fixture
def cluster() -> Iterator[ReplicaCluster]:
    with ReplicaCluster({"t": 1}) as cluster:
        yield cluster


class Reading:
    """A consumer of t/0."""

    def __init__(self, cluster: ReplicaCluster, folder: Path) -> None:
        self.events: list[ConsumerEvent] = []
        self.connector = ConsumerConnector(
            {
                "group.id": "g",
                "partitions": "t:0",
                "metadata.broker.list": ",".join(f"{host}:{port}" for host, port in cluster.bootstrap),
                "offsets.file": str(folder / "offsets.json"),
                "auto.offset.reset": "smallest",
                "consumer.timeout.ms": 200,
                "refresh.leader.backoff.ms": 20,
                "fetch.wait.max.ms": 20,
            },
            on_event=self.events.append,
        )
        self.offsets: list[int] = []
        self._stream: Stream = self.connector.create_message_streams({"t": 1})["t"][0]

    def until(self, end: int, seconds: float = 10) -> list[int]:
        """The offsets that were handed out, once the last one before `end` was; or after so many seconds."""
        until = now() + seconds
        while (not self.offsets or self.offsets[-1] < end - 1) and now() < until:
            try:
                self.offsets.append(next(self._stream).offset)
            except ConsumerTimeout:
                continue
        return self.offsets


@pytest.fixture
def refreshed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaders are looked up again each 0.1 s; asked for before the consumer starts, which waits that long."""
    monkeypatch.setattr(RefreshedLeaders, "refresh_s", 0.1)


@pytest.fixture
def reading(cluster: ReplicaCluster, tmp_path: Path) -> Iterator[Reading]:
    reading = Reading(cluster, tmp_path)
    yield reading
    reading.connector.shutdown()


def test_a_consumer_leaves_a_leader_that_became_a_follower(cluster: ReplicaCluster, reading: Reading) -> None:
    cluster.append("t", 0, count=10)
    assert reading.until(10) == list(range(10))
    cluster.move("t", 0, 2)
    cluster.append("t", 0, count=990, on=[2])  # the follower does not copy them
    assert reading.until(1000) == list(range(1000))


def test_a_leader_that_would_send_consumers_to_another_replica_is_read(
    cluster: ReplicaCluster, reading: Reading
) -> None:
    cluster.prefers = 2
    cluster.append("t", 0, count=1000)
    assert reading.until(1000) == list(range(1000))


def test_a_replica_is_read_only_where_a_program_asks_for_it(cluster: ReplicaCluster) -> None:
    cluster.append("t", 0, count=10)
    follower = cluster.bootstrap[1]
    with SimpleConsumer(*follower) as consumer, pytest.raises(NotLeader):
        consumer.fetch("t", 0, 0)
    with SimpleConsumer(*follower, debugging=True) as debugging:
        assert [message.offset for message in debugging.fetch("t", 0, 0).messages()] == list(range(10))


def test_a_leader_that_does_not_know_that_it_was_deposed_is_left_at_the_next_refresh(
    refreshed: None, cluster: ReplicaCluster, reading: Reading
) -> None:
    cluster.append("t", 0, count=10)
    assert reading.until(10) == list(range(10))
    cluster.deluded.add(1)  # cut off from the controller: it answers fetches, and names itself
    cluster.move("t", 0, 2)
    cluster.append("t", 0, count=990, on=[2])
    assert reading.until(1000) == list(range(1000))
    cluster.append("t", 0, count=10, on=[2])
    assert reading.until(1010) == list(range(1010))
    fetches = len(cluster.seen("Fetch", broker=1))
    asked = len(cluster.seen("Metadata", broker=1))
    cluster.wait(lambda: len(cluster.seen("Metadata", broker=1)) > asked + 2)
    assert len(cluster.seen("Fetch", broker=1)) == fetches, "what it says is of an older epoch"
    assert "t/0" in str(reading.events)
