"""Whom a member asks for its coordinator, and what is told while there is none."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from groundwork import tasks
from groundwork.threads import NoThread
from kafkawire.cluster.leaders import MetadataLeaders
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from tests.fakes.broker import FakeCluster, Wait, entry
from tests.fakes.stores import MemoryOffsets, held
from tests.fakes.znodes import FakeZookeeper
from zkconsumer.engine.groupassignment import GroupAssignment
from zkconsumer.engine.offsetstores import GroupRecords, _Channel, _KafkaStore, _left_zookeeper
from zkconsumer.errors import ZooKeeperAway
from zkconsumer.events import ConsumerEvent
from zkconsumer.member.steps import SessionLost
from zkconsumer.offsets.coordinator import Coordinator
from zkconsumer.offsets.group import GroupOffsets
from zkconsumer.offsets.kafka import KafkaOffsets
from zkconsumer.offsets.migrationmarker import Marker, Phase, marker_path, marker_text
from zkconsumer.session.lease import LeaseOver

A = TopicPartition("orders", 0)
D = dialect("0.8.2")
ONE, TWO = Broker(1, "h1", 9092), Broker(2, "h2", 9092)


class Leaders:
    def __init__(self, *brokers: Broker) -> None:
        self.brokers = brokers
        self.away = False

    reads_all = True

    def read(self, tps: object, afresh: bool = False) -> ClusterView:
        if self.away:
            raise ZooKeeperAway("the session is suspended")
        return ClusterView({broker.id: broker for broker in self.brokers}, {})


def channel(leaders: Any) -> tuple[_Channel, list[ConsumerEvent]]:
    events: list[ConsumerEvent] = []
    return _Channel(leaders, Links("test"), dialect("0.8.2"), events.append), events


def test_brokers_are_those_of_now_and_while_nobody_can_tell_those_of_before():
    leaders = Leaders(ONE)
    asked, _ = channel(leaders)
    assert asked.brokers() == [ONE]
    leaders.away = True
    assert asked.brokers() == [ONE]
    leaders.away, leaders.brokers = False, (TWO,)
    assert asked.brokers() == [TWO]


def test_a_log_that_no_thread_is_there_to_read_is_as_unknown_as_one_that_does_not_answer():
    refuses = SimpleNamespace(call=Mock(side_effect=NoThread("no further thread can be started")))
    records = GroupRecords(lambda: [("h1", 9092)], D, refuses)  # type: ignore[arg-type]
    assert records.rows("g", [A]) == records.commit_times("g", [A]) == {}
    assert refuses.call.call_count == 2


def test_the_bounds_of_logs_are_left_out_while_nobody_can_be_asked():
    leaders = Leaders(ONE)
    leaders.away = True
    assert channel(leaders)[0].bounds({A: 7}) == {}


def test_an_offset_of_the_group_is_in_the_log_although_a_new_leader_tells_a_lower_end():
    with FakeCluster({"orders": 1}) as cluster:
        cluster.append("orders", 0, b"".join(entry(b"%d" % n) for n in range(9)))
        cluster.logs["orders", 0].high_watermark = 4
        links = Links("test")
        try:
            asked = _Channel(MetadataLeaders(MetadataSource(cluster.bootstrap, D, links)), links, D, lambda event: None)
            assert asked.bounds({A: 7}) == {A: (0, 7)}
        finally:
            links.end()


def test_a_wait_is_told_once_until_something_worked():
    asked, events = channel(Leaders(ONE))
    commits = MemoryOffsets()
    store: Any = _KafkaStore(commits, asked.works)  # type: ignore[arg-type]
    commits.refuse[A] = OSError("no coordinator")
    for _ in range(3):
        asked.report("waiting for a coordinator")
        store.commit("g", {A: 1}, held())
    assert [event.text for event in events] == ["offsets in Kafka: waiting for a coordinator"]
    commits.refuse.clear()
    store.commit("g", {A: 1}, held())
    asked.report("waiting for a coordinator")
    assert len(events) == 2


@pytest.mark.parametrize(
    ("data", "left"),
    [
        (None, False),
        (marker_text(Marker("a", Phase.DUAL, 1)).encode(), False),
        (marker_text(Marker("a", Phase.CUTOVER, 1)).encode(), True),
        (marker_text(Marker("a", Phase.DUAL_BACK, 1)).encode(), True),
        (marker_text(Marker("a", Phase.ROLLED_BACK, 1)).encode(), False),
        (b"x", False),
    ],
)
def test_only_a_migration_s_mark_says_that_zookeeper_was_left(data: bytes | None, left: bool):
    zookeeper = FakeZookeeper({marker_path("g"): data} if data is not None else {})
    assert _left_zookeeper(zookeeper.session(), "g") is left


def test_the_fence_of_a_member_cuts_off_a_commit_that_is_in_flight():
    """Left alone it would wait out its time-out, and hold up the commits of what is assigned after the fence."""
    answers, lease, done = threading.Event(), held(), list[str]()
    results: dict[TopicPartition, Exception | None] = {}
    group = tasks.TaskGroup()
    with FakeCluster({"orders": 1}) as cluster:
        cluster.script("offset_commit", Wait(answers))
        brokers = [Broker(-1, host, port) for host, port in cluster.bootstrap]
        links = Links("test", tasks.connect)
        asked = Coordinator(lambda: brokers, links, D, 1, 10, 5000, sleep=tasks.sleep, now=tasks.now)
        store = GroupOffsets("kafka", MemoryOffsets(), KafkaOffsets(asked), close=links.end, cut=links.close)

        def lost(event: object) -> None:
            lease.revoke()
            done.append("cursors")

        fenced: Any = SimpleNamespace(
            member=SimpleNamespace(lost=lost),
            _on_fence=lambda: done.append("senders"),
            _store=store,
            _on_event=lambda event: done.append(event.kind),
        )
        commit = group.spawn("commit", lambda: results.update(store.commit("g", {A: 5}, lease)))
        with tasks.deadline(10.0):
            while not cluster.seen("offset_commit"):
                tasks.sleep(0.01)
            GroupAssignment._fence(fenced, SessionLost(), "lease over")
            assert commit.join(5.0)
        answers.set()
        links.end()
    group.stop(1.0)
    assert done == ["cursors", "senders", "fence"]
    assert isinstance(results[A], LeaseOver)
    assert len(cluster.seen("offset_commit")) == 1
