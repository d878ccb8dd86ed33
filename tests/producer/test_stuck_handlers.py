"""Somebody's code that never returns: close() keeps its deadline, each message has its end, and the counts agree."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from groundwork.tasks import Event, TaskGroup
from producer.config import ProducerConfig
from producer.delivery import Delivery
from producer.errors import Closed, HandlerFailed, SendFailed
from producer.handlers import CallbackHandler, EventHandler, Item, Sending
from producer.producer import Producer
from tests.fakes.broker import FakeCluster
from tests.producer.running import until

WAIT_S = 10.0
AWAY_S = 0.3  # of a close
HOOKS = ("after_dequeuing", "before_sending", "handle", "encoder", "partitioner")


class Hanging:
    """hang() does not return before the test is over."""

    def __init__(self, wait: Callable[[float], object], is_set: Callable[[], bool]) -> None:
        self.entered = threading.Event()
        self._wait, self.over = wait, is_set

    def hang(self) -> None:
        if not self.over():
            self.entered.set()
            self._wait(WAIT_S)


class Hooks(CallbackHandler):
    def __init__(self, hook: str, hanging: Hanging) -> None:
        self._hook, self._hanging = hook, hanging

    def after_dequeuing(self, item: Item | None) -> list[Item]:
        return self._through("after_dequeuing", [] if item is None else [item])

    def before_sending(self, items: list[Item]) -> list[Item]:
        return self._through("before_sending", items)

    def last_batch_before_close(self) -> list[Item]:
        return self._through("last_batch_before_close", [])

    def close(self) -> None:
        self._through("close", [])

    def _through(self, hook: str, items: list[Item]) -> list[Item]:
        if hook == self._hook and (items or hook in ("last_batch_before_close", "close")):
            self._hanging.hang()
        return items


class Events(EventHandler):
    def __init__(self, hanging: Hanging) -> None:
        self._hanging = hanging

    def handle(self, items: list[Item], sending: Sending, encoder: Any) -> None:
        self._hanging.hang()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    over = threading.Event()
    yield Hanging(over.wait, over.is_set)
    over.set()


def made(cluster: FakeCluster, hook: str, hanging: Hanging, **how: Any) -> Producer:
    def encode(value: Any) -> bytes:
        if hook == "encoder":
            hanging.hang()
        return bytes(value)

    def partition(key: Any, partitions: int) -> int:
        if hook == "partitioner":
            hanging.hang()
        return 0

    config = ProducerConfig(brokers=tuple(cluster.bootstrap), linger_ms=1, batch_messages=2)
    events = Events(hanging) if hook == "handle" else None
    return Producer(
        config,
        encoder=encode,
        key_encoder=encode,
        partitioner=partition,
        callback_handler=Hooks(hook, hanging),
        event_handler=events,
        **how,
    )


def closes_in_time(producer: Producer) -> str:
    began = time.monotonic()
    with pytest.raises(SendFailed) as failed:
        producer.close(AWAY_S)
    assert time.monotonic() - began < AWAY_S + 4
    return str(failed.value)


@pytest.mark.parametrize("hook", HOOKS)
def test_what_a_hook_that_never_returns_has_fails_with_its_name_when_the_producer_is_closed(
    hook: str, hanging: Hanging
):
    heard: list[Exception | None] = []
    with FakeCluster({"t": 1}) as cluster:
        producer = made(cluster, hook, hanging, on_delivery=lambda delivery: heard.append(delivery.error))
        sent = [producer.send("t", b"%d" % n, key=b"k") for n in range(7)]
        assert hanging.entered.wait(WAIT_S)
        said = closes_in_time(producer)
        names = {"encoder": "serializer.class", "partitioner": "partitioner.class"}
        assert names.get(hook, hook) in said
        for each in sent:
            with pytest.raises(Closed, match="had not returned"):
                each.result(0)
        assert len(heard) == 7
        assert all(isinstance(error, Closed) for error in heard)
        counts = producer.counts
        assert (counts.sent, counts.acked, counts.failed, counts.pending) == (7, 0, 7, 0)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_returns_after_the_close_changes_nothing_any_more(hook: str):
    over = threading.Event()
    hanging = Hanging(over.wait, over.is_set)
    before = threading.active_count()
    with FakeCluster({"t": 1}) as cluster:
        producer = made(cluster, hook, hanging)
        sent = [producer.send("t", b"%d" % n, key=b"k") for n in range(7)]
        assert hanging.entered.wait(WAIT_S)
        closes_in_time(producer)
        counts = producer.counts
        over.set()
        until(lambda: threading.active_count() <= before + 1)
        assert producer.counts == counts
        assert cluster.values("t", 0) == []
        assert all(isinstance(each.error, Closed) for each in sent)


@pytest.mark.parametrize("hook", ["last_batch_before_close", "close"])
def test_a_hook_of_the_close_itself_that_never_returns_costs_no_message_that_was_sent(hook: str, hanging: Hanging):
    with FakeCluster({"t": 1}) as cluster:
        producer = made(cluster, hook, hanging)
        stored = producer.send("t", b"v")
        assert stored.result(WAIT_S).offset == 0
        began = time.monotonic()
        producer.close(AWAY_S)
        assert time.monotonic() - began < AWAY_S + 4
        counts = producer.counts
        assert (counts.sent, counts.acked, counts.pending) == (1, 1, 0)


def test_a_greenlet_that_waits_for_ever_in_a_hook_does_not_hold_up_the_close():
    tasks, over = TaskGroup(), Event()
    done: list[tuple[int, int, int]] = []

    def program() -> None:
        hanging = Hanging(over.wait, over.is_set)
        with FakeCluster({"t": 1}) as cluster:
            producer = made(cluster, "before_sending", hanging, hub="caller")
            sent = [producer.send("t", b"v") for _ in range(5)]
            until(hanging.entered.is_set)
            closes_in_time(producer)
            assert all(isinstance(each.error, Closed) for each in sent)
            counts = producer.counts
            done.append((counts.sent, counts.failed, counts.pending))
        over.set()
        tasks._stopped.set()

    tasks.spawn("program", program)
    assert tasks.wait(WAIT_S)
    assert done == [(5, 5, 0)]


def test_a_delivery_callback_that_never_returns_is_told_and_holds_up_nobody(hanging, caplog):
    with FakeCluster({"t": 1}) as cluster:
        producer = made(cluster, "", hanging, on_delivery=lambda delivery: hanging.hang())
        sent = [producer.send("t", b"v") for _ in range(3)]
        assert [each.result(WAIT_S).offset for each in sent] == [0, 1, 2]
        assert hanging.entered.wait(WAIT_S)
        with caplog.at_level(logging.ERROR):
            producer.close(AWAY_S)
        assert "a delivery callback did not return in time; 2 others were not called" in caplog.text
        assert producer.counts.acked == 3


@pytest.mark.parametrize("hub", ["own", "caller"])
def test_a_callback_may_close_the_producer(hub: str):
    """It cannot be waited for then: it is what waits."""
    tasks, closed = TaskGroup(), threading.Event()

    def program() -> None:
        with FakeCluster({"t": 1}) as cluster:
            config = ProducerConfig(brokers=tuple(cluster.bootstrap))

            def close(_: object) -> None:
                producer.close(WAIT_S)
                closed.set()

            producer = Producer(config, hub=hub, on_delivery=close)  # type: ignore[arg-type]
            began = time.monotonic()
            producer.send("t", b"v").result(WAIT_S)
            until(closed.is_set)
            assert time.monotonic() - began < WAIT_S / 2
            assert producer.counts.acked == 1
            with pytest.raises(Closed):
                producer.send("t", b"w")
        tasks._stopped.set()

    tasks.spawn("program", program)
    assert tasks.wait(WAIT_S)


def test_who_waits_for_room_in_the_queue_hears_of_the_close(hanging):
    heard: list[Exception] = []
    with FakeCluster({"t": 1}) as cluster:
        config = ProducerConfig(brokers=tuple(cluster.bootstrap), linger_ms=1, batch_messages=1, queue_messages=2)
        producer = Producer(config, callback_handler=Hooks("before_sending", hanging))
        producer.send_many("t", [b"a", b"b"])

        def send() -> None:
            try:
                producer.send("t", b"c")
            except Closed as closed:
                heard.append(closed)

        waits = threading.Thread(target=send)
        waits.start()
        assert hanging.entered.wait(WAIT_S)
        closes_in_time(producer)
        waits.join(WAIT_S)
        assert len(heard) == 1
        assert (producer.counts.sent, producer.counts.failed) == (2, 2)


def test_what_after_enqueue_raises_takes_no_message_back(caplog):
    class Raising(CallbackHandler):
        def after_enqueue(self, item: Item, added: bool) -> None:
            raise ValueError("no")

    with FakeCluster({"t": 1}) as cluster, caplog.at_level(logging.ERROR):
        config = ProducerConfig(brokers=tuple(cluster.bootstrap), linger_ms=1)
        with Producer(config, callback_handler=Raising()) as producer:
            assert producer.send("t", b"v").result(WAIT_S).offset == 0
        assert "after_enqueue raised ValueError: no" in caplog.text
        assert cluster.values("t", 0) == [b"v"]


def test_sys_exit_in_somebody_s_code_ends_no_thread_of_ours(caplog):
    class Leaving(CallbackHandler):
        def before_sending(self, items: list[Item]) -> list[Item]:
            if items[0].value == b"leave":
                sys.exit(3)
            return items

    def leave(delivery: Delivery) -> None:
        heard.append(delivery)
        sys.exit(4)

    heard: list[Delivery] = []
    with FakeCluster({"t": 1}) as cluster, caplog.at_level(logging.ERROR):
        config = ProducerConfig(brokers=tuple(cluster.bootstrap), linger_ms=1, batch_messages=1)
        producer = Producer(config, callback_handler=Leaving(), on_delivery=leave)
        with pytest.raises(HandlerFailed, match="before_sending raised SystemExit: 3"):
            producer.send("t", b"leave").result(WAIT_S)
        assert [producer.send("t", b"v").result(WAIT_S).offset for _ in range(2)] == [0, 1]
        with pytest.raises(SendFailed):
            producer.close(WAIT_S)
        assert len(heard) == 3
        assert "a delivery callback raised SystemExit: 4" in caplog.text
