"""What a program may do with a connector on real clusters: listeners, pauses, seeks, commits and threads of its own."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until
from tests.fakes.commits import not_committed
from tests.integration.readers import Got, Reader, committed, config, owners, places, wait_for_messages
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerError, ConsumerTimeout
from zkconsumer.events import ConsumerEvent
from zkconsumer.listeners import ConsumerListener
from zkconsumer.streams.stream import Stream

pytestmark = pytest.mark.real


def topic_with(cluster: ClusterClient, topic: str, partitions: int, count: int) -> str:
    cluster.create_topic(topic, partitions)
    add(cluster, topic, partitions, count)
    return topic


def add(cluster: ClusterClient, topic: str, partitions: int, count: int) -> None:
    producer = Load(cluster.brokers, cluster.version)
    producer.produce(topic, partitions, count, Mixture(0.5, (0, 1, 2)), batch=max(1, count // partitions // 2))
    producer.close()


def rest(stream: Stream) -> list[Got]:
    """What comes until nothing came for consumer.timeout.ms."""
    got = []
    try:
        for m in stream:
            got.append(Got(TopicPartition(m.topic, m.partition), m.offset, m.value, time.monotonic()))
    except ConsumerTimeout:
        pass
    return got


def offsets(got: list[Got], partition: int = 0) -> list[int]:
    return [one.offset for one in got if one.tp.partition == partition]


class Told(ConsumerListener):
    def __init__(self) -> None:
        self.heard: list[tuple[str, object]] = []
        self.connector: ConsumerConnector | None = None
        self.start_at: dict[TopicPartition, int] = {}

    def before_release(self, partitions: Sequence[TopicPartition]) -> None:
        assert self.connector is not None
        self.heard.append(("release", tuple(partitions)))
        self.heard.append(("committed", self.connector.commit_offsets(dict.fromkeys(partitions, 17))))

    def before_start(self, assignment: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, int]:
        self.heard.append(("start", tuple(sorted(assignment))))
        return {tp: at for tp, at in self.start_at.items() if tp in assignment}

    def session_state(self, state: str) -> None:
        self.heard.append(("session", state))


def test_a_listener_says_where_to_begin_and_commits_before_the_release(source, unique):
    topic, group = topic_with(source, unique.topic(), 2, 200), unique.group()
    one, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    told = Told()
    told.start_at = {one: 60}
    options = config(source.zookeeper, group, auto_commit_enable=False, consumer_timeout_ms=1500)
    told.connector = ConsumerConnector(options, "own", listener=told)
    with told.connector as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        got = rest(stream)
        assert offsets(got, 0) == list(range(60, 100))
        assert offsets(got, 1) == list(range(100))
    wait_until(lambda: ("session", "connected") in told.heard, 5, "the session's state")
    assert [fact for kind, fact in told.heard if kind == "start"] == [(one, other)]
    assert [fact for kind, fact in told.heard if kind == "release"] == [(one, other)]
    assert [fact for kind, fact in told.heard if kind == "committed"] == [[one, other]]
    assert committed(source, group, topic) == {0: 17, 1: 17}
    assert owners(source, group, topic) == {}


def test_a_pause_holds_through_a_rebalance_while_the_others_of_the_stream_go_on(source, unique):
    topic, group = topic_with(source, unique.topic(), 2, 200), unique.group()
    still, flowing = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Reader(source.zookeeper, group, {topic: 1}) as reader:
        wait_for_messages(200, reader)
        reader.connector.pause(still)
        add(source, topic, 2, 200)
        wait_until(lambda: len(offsets(reader.got, 1)) == 200, 15, "the partition that is not paused")
        with Reader(source.zookeeper, group, {topic: 1}) as second:
            wait_until(lambda: len(reader.owns()) == 1 and len(second.owns()) == 1, 15, "one partition each")
            second.stop()
        wait_until(lambda: reader.owns() == {still, flowing}, 15, "both partitions again")
        wait_until(lambda: {r.state for r in reader.connector.status()} == {"paused", "reading"}, 10, "paused again")
        assert {row.tp: row.state for row in reader.connector.status()}[still] == "paused"
        reader.connector.resume(still)
        wait_until(lambda: len(places(reader, second)) == 400, 15, "what waited")
        reader.stop()
    assert set(places(reader, second).values()) == {1}


def test_the_message_handed_out_after_a_seek_is_the_one_sought(source, unique):
    topic, group = topic_with(source, unique.topic(), 1, 300), unique.group()
    tp = TopicPartition(topic, 0)
    with ConsumerConnector(config(source.zookeeper, group, consumer_timeout_ms=1500), "own") as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        assert [next(stream).offset for _ in range(5)] == [0, 1, 2, 3, 4]
        connector.seek(tp, 250)
        assert next(stream).offset == 250
        connector.seek(tp, "smallest")
        assert next(stream).offset == 0
        connector.seek(tp, "largest")
        assert rest(stream) == []
        assert connector.status()[0].done == 300
        connector.seek(tp, 100)
        connector.commit_offsets()
        assert committed(source, group, topic) == {0: 100}
        with pytest.raises(ConsumerError, match="not owned by this member, so it cannot be moved here"):
            connector.seek(TopicPartition(topic, 1), 0)
        with pytest.raises(ValueError, match="smallest or largest"):
            connector.seek(tp, "newest")


def test_decoders_and_positions_of_the_programs_own(source, unique):
    topic, group = topic_with(source, unique.topic(), 1, 40), unique.group()
    tp, foreign = TopicPartition(topic, 0), TopicPartition(topic, 7)
    options = config(source.zookeeper, group, auto_commit_enable=False)
    with ConsumerConnector(options, "own") as connector:
        (stream,) = connector.create_message_streams({topic: 1}, value_decoder=lambda name, data: (name, len(data)))[
            topic
        ]
        message = next(stream)
        assert isinstance(message.value, tuple)
        assert message.value[0] == topic
        refused = not_committed(connector.commit_offsets, {tp: 33, foreign: 1})
        assert refused.committed == [tp]
        assert "is not owned by this member" in str(refused)
        assert committed(source, group, topic) == {0: 33}
        with pytest.raises(ValueError, match="-1 as the position"):
            connector.commit_offsets({tp: -1})
    with Reader(source.zookeeper, group, {topic: 1}) as reader:
        wait_for_messages(7, reader)
        assert offsets(reader.got) == list(range(33, 40))


def test_two_connectors_of_one_process_share_nothing(source, unique):
    topic, group, other = topic_with(source, unique.topic(), 2, 200), unique.group("one"), unique.group("other")
    with Reader(source.zookeeper, group, {topic: 1}) as first, Reader(source.zookeeper, other, {topic: 1}) as second:
        wait_for_messages(200, first)
        wait_for_messages(200, second)
        first.connector.pause(topic)
        first.stop()
        add(source, topic, 2, 100)
        wait_for_messages(300, second)
        assert len(first.got) == 200
        assert {row.state for row in second.connector.status()} == {"reading"}


def in_a_fork(act: object) -> str:
    """What act() raises in a child process, as `TYPE: text`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = b"nothing was raised"
        try:
            act()  # type: ignore[operator]
        except BaseException as e:
            said = f"{type(e).__name__}: {e}".encode()
        os.write(writing, said)
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_refused_with_a_sentence_and_its_parent_goes_on(source, unique):
    topic, group = topic_with(source, unique.topic(), 1, 20), unique.group()
    with ConsumerConnector(config(source.zookeeper, group, consumer_timeout_ms=1500), "own") as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        assert next(stream).offset == 0
        assert "forked" in in_a_fork(connector.commit_offsets)
        assert "forked" in in_a_fork(lambda: list(stream))
        assert "forked" in in_a_fork(connector.shutdown)
        assert offsets(rest(stream)) == list(range(1, 20))
        assert connector.commit_offsets() == [TopicPartition(topic, 0)]


GEVENT_PROGRAM = """
    from gevent import monkey
    monkey.patch_all()
    import os, sys, time
    from zkconsumer.connector import ConsumerConnector
    from zkconsumer.errors import ConsumerTimeout

    zookeeper, group, topic = sys.argv[1:]
    options = {"zookeeper.connect": zookeeper, "group.id": group, "auto.offset.reset": "smallest",
               "zookeeper.session.timeout.ms": 6000, "consumer.timeout.ms": 500}
    events = []
    with ConsumerConnector(options, on_event=lambda event: events.append(event.kind)) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        got = [next(stream).offset]
        began = len(events)
        child = os.fork()
        until = time.monotonic() + 9
        while time.monotonic() < until:
            try:
                for message in stream:
                    got.append(message.offset)
            except ConsumerTimeout:
                pass
            except RuntimeError as forked:
                if child == 0:
                    time.sleep(8)  # longer than a session
                    sys.exit(7)
                raise
        print(got == list(range(20)), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), events[began:])
"""


def test_a_gevent_program_that_forks_keeps_its_session_and_its_partitions(source, unique):
    topic, group = topic_with(source, unique.topic(), 1, 20), unique.group()
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(GEVENT_PROGRAM), source.zookeeper, group, topic],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.stdout, ended.stderr) == ("True 7 []\n", "")


def test_a_call_that_keeps_the_interpreter_for_long_is_named(source, unique):
    topic, group = topic_with(source, unique.topic(), 1, 20), unique.group()
    keeps_the_interpreter = ctypes.PyDLL(None).usleep  # PyDLL, not CDLL: the lock stays with us meanwhile
    events: list[ConsumerEvent] = []
    options = config(source.zookeeper, group, zookeeper_session_timeout_ms=5000, rebalance_max_retries=6)
    with ConsumerConnector(options, "own", on_event=events.append) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        next(stream)
        keeps_the_interpreter(900_000)
        time.sleep(0.3)
        assert not [e.text for e in events if e.kind == "late"]
        keeps_the_interpreter(1_900_000)
        until = time.monotonic() + 5
        while not [e for e in events if e.kind == "late"] and time.monotonic() < until:
            pass  # here, not in a helper: on a busy machine the hub may look around a while after the call is over
        assert next(stream).offset == 1
    (late,) = [e.text for e in events if e.kind == "late"]
    assert "test_consumer_api.py" in late
    assert "5000 ms" in late
