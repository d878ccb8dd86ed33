"""A connector on fixed partitions of 0.7: everything but the group, without ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from groundwork.tasks import now
from kafkawire.model import BrokerPartition, Message, TopicPartition
from localkafka.seven import entries
from localkafka.seven.node import Node07
from localkafka.waiting import wait_until
from zkconsumer.concurrent.handlers import Outcome, process
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.events import ConsumerEvent
from zkconsumer.listeners import ConsumerListener
from zkconsumer.streams.stream import Stream

PLAIN = [b"p%d" % n for n in range(6)]
WRAPPED = [b"w%d" % n for n in range(5)]
ENTRY = len(entries.message(PLAIN[0]))
W = len(PLAIN) * ENTRY  # where the first wrapper of partition 0 begins
WRAPPER = len(entries.wrapper(WRAPPED, 1))


class World:
    """Partition 0: six plain messages, then two wrappers of five; partition 1: six plain ones."""

    def __init__(self, node: Node07, topic: str, folder: Path) -> None:
        self.node, self.topic = node, topic
        self.file = folder / "offsets.json"
        self.events: list[ConsumerEvent] = []
        self.end = W + 2 * WRAPPER
        with node.client() as link:
            link.produce(topic, 0, entries.plain(PLAIN))
            link.produce(topic, 0, entries.wrapper(WRAPPED, 1))
            link.produce(topic, 0, entries.wrapper(WRAPPED, 1))
            link.produce(topic, 1, entries.plain(PLAIN))
            wait_until(lambda: link.offsets(topic, 0)[0] == self.end, 10, "partition 0")
            wait_until(lambda: link.offsets(topic, 1)[0] == W, 10, "partition 1")

    def tp(self, index: int = 0) -> TopicPartition:
        return TopicPartition(self.topic, BrokerPartition(self.node.id, index))

    def connector(self, partitions: object = ("0-0",), **options: object) -> ConsumerConnector:
        values: dict[str, object] = {
            "group.id": "g",
            "kafka.version": "0.7.2",
            "partitions": {self.topic: partitions},
            "broker.list": f"{self.node.id}:{self.node.address}",
            "offsets.file": str(self.file),
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": 50,
            "consumer.timeout.ms": 3000,
            "fetcher.backoff.ms": 20,
            **{key.replace("_", "."): value for key, value in options.items()},
        }
        return ConsumerConnector(values, "own", on_event=self.events.append)

    def stream(self, connector: ConsumerConnector) -> Stream:
        (stream,) = connector.create_message_streams({self.topic: 1})[self.topic]
        return stream

    def kept(self) -> dict[str, int]:
        return dict(json.loads(self.file.read_text())["offsets"][self.topic]) if self.file.exists() else {}


@pytest.fixture
def world(broker07: Node07, unique: Any, tmp_path: Path) -> World:
    return World(broker07, unique.topic(), tmp_path)


def take(stream: Stream, count: int) -> list[Message]:
    """So many; the last of them is in the reader's hands, so not done."""
    return [next(stream) for _ in range(count)]


@pytest.mark.parametrize(
    ("read", "committed"),
    [
        (1, ENTRY),
        (6, W),
        (7, W),
        (10, W),
        (11, W + WRAPPER),
        (12, W + WRAPPER),
        (15, W + WRAPPER),
        (16, W + 2 * WRAPPER),
    ],
)
def test_commits_are_on_the_borders_of_entries_and_a_restart_repeats_the_wrapper(world, read, committed) -> None:
    with world.connector() as connector:
        stream = world.stream(connector)
        take(stream, read)
        stream.done()
    assert world.kept() == {"0-0": committed}
    done = {W: 6, W + WRAPPER: 11, W + 2 * WRAPPER: 16}.get(committed, committed // ENTRY)
    rest = (PLAIN + WRAPPED + WRAPPED)[done:]
    if rest:
        with world.connector() as connector:
            assert [m.value for m in take(world.stream(connector), len(rest))] == rest


def test_two_partitions_are_dealt_to_two_streams_and_the_status_counts_bytes(world: World) -> None:
    with world.connector(["0-0", "0-1"]) as connector:
        streams = connector.create_message_streams({world.topic: 2})[world.topic]
        assert [m.value for m in take(streams[0], 16)] == PLAIN + WRAPPED + WRAPPED
        assert [m.value for m in take(streams[1], 6)] == PLAIN
        for stream in streams:
            stream.done()
        wait_until(lambda: [s.lag for s in connector.status()] == [0, 0], 10, "lag 0")
        assert [(s.position, s.done, s.high_watermark) for s in connector.status()] == [(world.end,) * 3, (W, W, W)]


def test_acknowledged_in_any_order_a_wrapper_is_done_with_all_of_its_messages(world: World) -> None:
    with world.connector(delivery="on-ack") as connector:
        messages = take(world.stream(connector), 16)
        for message in (*messages[:8], *messages[9:]):
            message.ack()
        connector.commit_offsets()
        assert world.kept() == {"0-0": W}
        messages[8].ack()
        connector.commit_offsets()
        assert world.kept() == {"0-0": world.end}


def test_batches_end_on_borders(world: World) -> None:
    seen: list[bytes | None] = []
    with world.connector(consumer_timeout_ms=300) as connector:
        batches = world.stream(connector).batches()
        while len(seen) < 16:
            batch = next(batches)
            assert batch.resume_at in (W, W + WRAPPER, world.end)
            assert batch.keys == batch.timestamps_ms == [None] * len(batch)
            seen += batch.values
        batch.ack()
        assert connector.commit_offsets() == [world.tp()]
    assert seen == PLAIN + WRAPPED + WRAPPED
    assert world.kept() == {"0-0": world.end}


@pytest.mark.thorough
def test_seek_goes_to_a_position_or_an_end(world: World) -> None:
    with world.connector() as connector:
        stream = world.stream(connector)
        take(stream, 3)
        connector.seek(world.tp(), W)
        assert [m.value for m in take(stream, 5)] == WRAPPED
        connector.seek(world.tp(), "smallest")
        assert next(stream).value == PLAIN[0]
        connector.seek(world.tp(), "largest")
        wait_until(lambda: connector.status()[0].done == world.end, 5, "the end")
        connector.seek(world.tp(), W + 3)  # inside an entry
        wait_until(lambda: connector.status()[0].parked, 10, "the damage")
        assert "`zkconsumer offsets reset`" in str(connector.status()[0].parked)
        connector.seek(world.tp(), W + WRAPPER)
        assert connector.status()[0].parked is None
        assert [m.value for m in take(stream, 5)] == WRAPPED


def test_a_pause_in_a_wrapper_repeats_its_messages_and_loses_none(world: World) -> None:
    with world.connector(consumer_timeout_ms=300) as connector:
        stream = world.stream(connector)
        take(stream, 8)
        connector.pause(world.tp())
        with pytest.raises(ConsumerTimeout):
            next(stream)
        connector.resume(world.tp())
        rest = [m.value for m in take(stream, 10)]
    assert rest == WRAPPED + WRAPPED


def test_at_most_once_commits_the_whole_set_first(world: World) -> None:
    with world.connector(delivery="at-most-once") as connector:
        assert next(world.stream(connector)).value == PLAIN[0]
        assert world.kept() == {"0-0": world.end}


def test_workers_at_once_and_a_handler_that_stops_repeat_only_the_wrapper(world: World) -> None:
    seen: list[bytes] = []

    def handle(message: Message) -> Outcome:
        assert message.value is not None
        seen.append(message.value)
        return Outcome.STOP if len(seen) == 13 else Outcome.DONE

    process(world.connector(delivery="on-ack"), handle, {world.topic: 1}, workers=1)
    assert seen == (PLAIN + WRAPPED + WRAPPED)[:13]
    assert world.kept() == {"0-0": W + WRAPPER}
    again: list[bytes | None] = []

    def rest(message: Message) -> Outcome:
        again.append(message.value)
        return Outcome.STOP if len(again) == 6 else Outcome.DONE

    with world.node.client() as link:
        link.produce(world.topic, 0, entries.plain([b"last"]))
    process(world.connector(delivery="on-ack"), rest, {world.topic: 1}, workers=4)
    assert sorted(again, key=str) == [b"last", *WRAPPED]


class Listener(ConsumerListener):
    """Begins behind the plain messages; from outside the log it goes to the second wrapper."""

    def __init__(self) -> None:
        self.asked: list[tuple[TopicPartition, int, int, int]] = []

    def before_start(self, partitions: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, W)

    def out_of_range(self, tp: TopicPartition, requested: int, earliest: int, latest: int) -> int | None:
        self.asked.append((tp, requested, earliest, latest))
        return W + WRAPPER


def test_a_listener_says_where_to_begin_and_where_to_go_on(world: World) -> None:
    listener = Listener()
    with world.connector() as connector:
        connector.listen(listener)
        stream = world.stream(connector)
        assert next(stream).offset == W
        connector.seek(world.tp(), world.end + 77)
        assert next(stream).offset == W + WRAPPER
    assert listener.asked == [(world.tp(), world.end + 77, 0, world.end)]


def test_an_idle_reader_costs_no_processor(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.connector(fetcher_backoff_ms=100, consumer_timeout_ms=700) as connector:
        stream = world.stream(connector)
        take(stream, 16)
        asked: list[int] = []
        requests = connector._versions.dialect.requests
        fetch: Callable[..., object] = requests.fetch
        monkeypatch.setattr(requests, "fetch", lambda *a, **n: asked.append(1) or fetch(*a, **n))
        began = now()
        with pytest.raises(ConsumerTimeout):
            next(stream)
        assert now() - began > 0.6
        assert len(asked) <= 10


def test_a_broker_that_is_away_is_waited_for(own_broker07: Callable[..., Node07], tmp_path: Path) -> None:
    node = own_broker07()
    world = World.__new__(World)
    world.node, world.topic, world.file, world.events = node, "t", tmp_path / "offsets.json", []
    with node.client() as link:
        link.produce("t", 0, entries.plain(PLAIN))
        wait_until(lambda: link.offsets("t", 0)[0] == W, 10, "the messages")
    node.stop()
    with world.connector(consumer_timeout_ms=10000) as connector:
        stream = world.stream(connector)
        wait_until(lambda: any(e.kind == "leader" for e in world.events), 10, "the refusal to be told")
        node.restart()
        assert [m.value for m in take(stream, 6)] == PLAIN
