"""Listeners of a connector in the caller's hub, and positions outside the log that a real fetch meets, in both hubs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pytest

from groundwork.tasks import sleep
from kafkawire.model import TopicPartition
from kafkawire.znodes import v08 as znodes
from localkafka.client import ClusterClient
from localkafka.load import Load, Mixture
from tests.integration.readers import committed, config, owners
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.events import ConsumerEvent
from zkconsumer.listeners import ConsumerListener, ListenerFailed
from zkconsumer.streams.stream import Stream

pytestmark = pytest.mark.real


def topic_with(cluster: ClusterClient, topic: str, partitions: int, count: int) -> str:
    cluster.create_topic(topic, partitions)
    load = Load(cluster.brokers, cluster.version)
    load.produce(topic, partitions, count, Mixture(0.5, (0,)), batch=10)
    load.close()
    return topic


def rest(stream: Stream) -> list[tuple[object, int]]:
    """What comes until nothing came for consumer.timeout.ms."""
    got: list[tuple[object, int]] = []
    try:
        for message in stream:
            got.append((message.partition, message.offset))
    except ConsumerTimeout:
        pass
    return got


class Told(ConsumerListener):
    """Hears everything; begins partition 0 at 30, and commits 17 of each that leaves."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, object]] = []
        self.threads: set[int] = set()
        self.connector: ConsumerConnector | None = None

    def _hear(self, kind: str, what: object) -> None:
        self.heard.append((kind, what))
        self.threads.add(threading.get_ident())
        sleep(0.01)  # it may wait, as gevent does

    def before_start(self, assignment: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, int]:
        self._hear("start", tuple(sorted(assignment)))
        return {tp: 30 for tp in assignment if tp.partition == 0}

    def before_release(self, partitions: Sequence[TopicPartition]) -> None:
        self._hear("release", tuple(sorted(partitions)))
        assert self.connector is not None
        self._hear("committed", self.connector.commit_offsets(dict.fromkeys(partitions, 17)))

    def session_state(self, state: str) -> None:
        self._hear("session", state)


def test_in_the_callers_hub_listeners_begin_partitions_and_commit_before_the_release_in_its_thread(source, unique):
    topic, group = topic_with(source, unique.topic(), 2, 100), unique.group()
    one, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    told = Told()
    options = config(source.zookeeper, group, auto_commit_enable=False, consumer_timeout_ms=800)
    told.connector = ConsumerConnector(options, "caller", listener=told)
    with told.connector as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        assert sorted(rest(stream)) == [*((0, n) for n in range(30, 50)), *((1, n) for n in range(50))]
    assert dict(told.heard) == {
        "session": "connected",
        "start": (one, other),
        "release": (one, other),
        "committed": [one, other],
    }
    assert told.threads == {threading.get_ident()}
    assert committed(source, group, topic) == {0: 17, 1: 17}
    assert owners(source, group, topic) == {}


def test_in_the_callers_hub_one_that_takes_too_long_is_left_behind_and_one_that_fails_is_heard_of(source, unique):
    topic, group = topic_with(source, unique.topic(), 1, 20), unique.group()

    class SlowAndWrong(ConsumerListener):
        def before_start(self, assignment: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, int]:
            sleep(0.6)
            return dict.fromkeys(assignment, 15)  # too late to count

        def session_state(self, state: str) -> None:
            raise LookupError("no such state here")

    events: list[ConsumerEvent] = []
    options = config(source.zookeeper, group, consumer_timeout_ms=800, listener_timeout_ms=200)
    with ConsumerConnector(options, "caller", on_event=events.append, listener=SlowAndWrong()) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        with pytest.raises(ListenerFailed, match="session_state failed: LookupError: no such state here"):
            next(stream)
        assert rest(stream) == [(0, n) for n in range(20)]
    told = [event.text for event in events if event.kind == "listener"]
    assert "before_start takes longer than listener.timeout.ms (200 ms); continuing without it" in told


class SaysWhere(ConsumerListener):
    def __init__(self) -> None:
        self.asked: list[tuple[TopicPartition, int, int, int]] = []

    def out_of_range(self, tp: TopicPartition, requested: int, earliest: int, latest: int) -> int | None:
        self.asked.append((tp, requested, earliest, latest))
        return earliest + 5


def test_a_position_beyond_the_end_is_the_listeners_to_decide(source, unique):
    topic, group = topic_with(source, unique.topic(), 1, 50), unique.group()
    tp = TopicPartition(topic, 0)
    source.registry().zk.create(znodes.offset(group, tp), b"999", makepath=True)
    listener = SaysWhere()
    options = config(source.zookeeper, group, auto_offset_reset="largest", consumer_timeout_ms=1500)
    with ConsumerConnector(options, "caller", listener=listener) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        assert rest(stream) == [(0, n) for n in range(5, 50)]
    assert listener.asked == [(tp, 999, 0, 50)]
    assert committed(source, group, topic) == {0: 50}
