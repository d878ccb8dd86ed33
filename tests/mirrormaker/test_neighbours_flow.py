"""Partitions that wait never stop the others, however many they are: a flow between two fake clusters, of real bytes.

What waits keeps what it fetched; the others must still get memory.  Everything of a source goes through one stream, so
through one part of the budget, as in a mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from groundwork.tasks import now, sleep
from kafkawire.model import TopicPartition
from mirrormaker.flow import Flow, carry
from mirrormaker.routes import RouteRules, SourceTopic
from mirrormaker.topics import TopicMissing
from tests.fakes.broker import FakeCluster, entry
from tests.producer.running import Running, running
from tests.zkconsumer.test_fetcher import Fetching
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.fetching.partitioncursor import Cursor

FETCH = 65536
ROOM = 8 * FETCH


class Topics:
    """Target topics by name, with their partition counts; others are missing."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts

    def prepare(self, topic: str, source: SourceTopic) -> range:
        if topic not in self.counts:
            raise TopicMissing(f"target topic {topic} does not exist")
        return range(self.counts[topic])


class Mirror:
    """A fetcher, a flow and a sender."""

    def __init__(
        self, source: FakeCluster, target: Running, topics: Topics, budget_bytes: int = ROOM, **flow: Any
    ) -> None:
        self.source, self.topics = source, topics
        self.fetching = Fetching(source, fetch_bytes=FETCH, max_bytes=FETCH, budget_bytes=budget_bytes)
        self.flow = Flow(
            SimpleNamespace(name="dc1", topic=self._topic, in_target=False, deleted={}),  # type: ignore[arg-type]
            SimpleNamespace(topics=topics, sender_of=lambda name: target.sender, writers={}),  # type: ignore[arg-type]
            RouteRules(
                source=self.fetching.fetcher._dialect,
                target=self.fetching.fetcher._dialect,
                message_max_bytes=1_000_012,
            ),
            target.tasks,
            **flow,
        )
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.most_used = 0

    def _topic(self, name: str) -> SourceTopic:
        with self.source.lock:
            return SourceTopic(sum(topic == name for topic, _ in self.source.logs), 1)

    def begin(self, *tps: TopicPartition) -> None:
        for tp in tps:
            self.cursors[tp] = self.fetching.add(tp, 0)

    def until(self, there: Callable[[], object], seconds: float = 15.0) -> None:
        """Until it is so, while what comes is carried."""
        end = now() + seconds
        while not there():
            try:
                carry(self.fetching.stream.sets(), self.flow.take)
            except ConsumerTimeout:
                pass  # nothing more has come so far
            self.most_used = max(self.most_used, self.fetching.budget.used)
            assert self.fetching.tasks.death is None, self.fetching.tasks.death
            assert now() < end, (
                f"waited in vain: {self.done()}, {self.fetching.budget.used} bytes used, {self.memory()}"
            )
            sleep(0.002)

    def memory(self) -> str:
        """What holds it."""
        return ", ".join(
            f"{tp} {cursor.holding} at {cursor.partition.position.offset}" for tp, cursor in self.cursors.items()
        )

    def done(self) -> dict[str, int | None]:
        return {str(tp): cursor.committable() for tp, cursor in self.cursors.items()}


@pytest.fixture
def source() -> Iterator[FakeCluster]:
    with FakeCluster({"orders": 1, "mixed": 24}) as cluster:
        yield cluster


@pytest.fixture
def target_cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"orders": 1, "mixed": 24}, brokers=2) as cluster:
        yield cluster


@pytest.fixture
def target(target_cluster: FakeCluster) -> Iterator[Running]:
    with running(target_cluster) as made:
        yield made


def filled(cluster: FakeCluster, tps: list[TopicPartition], count: int, size: int = 900) -> None:
    for tp in tps:
        for n in range(count):
            cluster.append(tp.topic, tp.partition, entry(b"%05d" % n + b"x" * size))


ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(("partitions", "messages", "size"), [(9, 100, 900), (300, 40, 60)])
def test_a_neighbour_flows_beside_a_waiting_topic_of_more_partitions_than_the_budget_has_room_for(
    source: FakeCluster, target_cluster: FakeCluster, target: Running, partitions: int, messages: int, size: int
) -> None:
    waiting = [TopicPartition("news", p) for p in range(partitions)]
    source.create("news", partitions)
    filled(source, waiting, messages, size)
    mirror = Mirror(source, target, Topics(orders=1))
    try:
        mirror.begin(*waiting)
        mirror.until(lambda: mirror.flow.waiting and mirror.fetching.budget.used >= ROOM // 2)
        filled(source, [ORDERS], 20, size)
        mirror.begin(ORDERS)
        mirror.until(lambda: mirror.cursors[ORDERS].committable() == 20)
        assert len(target_cluster.messages("orders", 0)) == 20
        mirror.topics.counts["news"] = partitions
        target_cluster.create("news", partitions)
        mirror.until(lambda: all(mirror.cursors[tp].committable() == messages for tp in waiting))
        assert mirror.most_used <= ROOM
    finally:
        mirror.fetching.close()


def test_partitions_of_the_other_target_brokers_flow_beside_those_of_a_dead_one(
    source: FakeCluster, target_cluster: FakeCluster, target: Running
) -> None:
    every = [TopicPartition("mixed", p) for p in range(24)]
    dead = [tp for tp in every if target_cluster.logs["mixed", tp.partition].leader == 2]
    healthy = [tp for tp in every if tp not in dead]
    assert len(dead) == 12
    filled(source, every, 300)
    target_cluster.leave_leaders(2)
    target_cluster.stop(2)
    mirror = Mirror(source, target, Topics(mixed=24))
    try:
        mirror.begin(*dead, *healthy)  # the dead ones have the first turn
        mirror.until(lambda: all(mirror.cursors[tp].committable() == 300 for tp in healthy), 40)
        assert all(mirror.cursors[tp].committable() == 0 for tp in dead)
        assert mirror.most_used <= ROOM
        target_cluster.start(2)
        mirror.until(lambda: all(mirror.cursors[tp].committable() == 300 for tp in dead), 60)
    finally:
        mirror.fetching.close()


def test_a_broker_that_dies_while_all_flow_does_not_stop_the_others(
    source: FakeCluster, target_cluster: FakeCluster, target: Running
) -> None:
    every = [TopicPartition("mixed", p) for p in range(24)]
    dead = [tp for tp in every if target_cluster.logs["mixed", tp.partition].leader == 2]
    healthy = [tp for tp in every if tp not in dead]
    filled(source, every, 200)
    mirror = Mirror(source, target, Topics(mixed=24))
    try:
        mirror.begin(*every)
        mirror.until(lambda: all(mirror.cursors[tp].committable() for tp in every))
        target_cluster.leave_leaders(2)
        target_cluster.stop(2)
        filled(source, healthy, 100)
        mirror.until(lambda: all(mirror.cursors[tp].committable() == 300 for tp in healthy), 40)
        assert any(mirror.cursors[tp].committable() != 200 for tp in dead)
    finally:
        mirror.fetching.close()
