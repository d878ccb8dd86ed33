"""A stream serves one reader: a second thread or greenlet is told so, and changes nothing of what the first one has."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
import pytest

from tests.fakes.broker import FakeCluster, entry
from tests.zkconsumer.test_delivery import World, a_set
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import SecondReader

STYLES: dict[str, Callable[[World], Any]] = {
    "messages": lambda world: iter(world.stream),
    "batches": lambda world: world.stream.batches(),
    "sets": lambda world: world.stream.sets(),
}


def in_thread(ask: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def in_greenlet(ask: Callable[[], object]) -> Any:
    greenlet = gevent.spawn(ask)
    gevent.sleep(0)
    return greenlet


def told(ask: Callable[[], object]) -> list[str]:
    """What a second reader gets."""
    try:
        return [repr(ask())]
    except SecondReader as e:
        return [str(e)]


@pytest.mark.parametrize("elsewhere", [in_thread, in_greenlet])
@pytest.mark.parametrize("style", STYLES)
def test_a_second_reader_gets_a_sentence_and_nothing_of_the_first_ones_is_done(style: str, elsewhere: Any):
    world = World()
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 3), 100)
    reading = STYLES[style](world)
    next(reading)
    said: list[str] = []
    ways = (lambda: next(reading), lambda: next(world.stream), world.stream.next_batch, world.stream.next_set)
    elsewhere(lambda: [said.extend(told(ask)) for ask in (*ways, world.stream.done)]).join()
    assert len(said) == 5
    assert all("stream orders-0 is read by" in sentence and "stream.done()" in sentence for sentence in said)
    assert cursor.committable() == 0
    if style == "messages":
        assert [message.offset for message in (next(reading), next(reading))] == [1, 2]
        assert cursor.committable() == 2


@pytest.mark.parametrize("waits", [True, False])
def test_threads_that_share_an_iterator_end_no_interpreter_and_lose_no_message(waits: bool):
    """Between two messages, and while the first one waits for a set."""
    world = World()
    world.stream._timeout_ms = 500 if waits else 0
    cursor = world.cursor()
    reading, got, said = iter(world.stream), [], []
    first, over = threading.Event(), threading.Event()

    def read() -> None:
        try:
            for message in reading:
                got.append(message.offset)
                first.set()
        except Exception as e:
            said.append(type(e).__name__)
        over.wait(10)  # a reader that has ended is none

    def second() -> None:
        for _ in range(200):
            said.extend("second" for sentence in told(lambda: next(reading)) if "is read by" in sentence)

    cursor.enqueue(a_set(0, 5000), 100)
    reader = in_thread(read)
    first.wait(10)
    for thread in [in_thread(second) for _ in range(3)]:
        thread.join()
    over.set()
    reader.join()
    assert got == list(range(5000))
    assert said.count("ConsumerTimeout") == 1
    assert said.count("second") == len(said) - 1


def test_a_stream_goes_on_to_another_thread_once_its_reader_has_ended_or_says_done():
    world = World()
    cursor = world.cursor()
    cursor.enqueue(a_set(0, 4), 100)
    got: list[int] = []
    in_thread(lambda: got.append(next(world.stream).offset)).join()
    got.append(next(world.stream).offset)
    world.stream.done()
    assert cursor.committable() == 2
    in_thread(lambda: got.append(next(world.stream).offset)).join()
    got.append(next(world.stream).offset)
    assert (got, cursor.committable()) == ([0, 1, 2, 3], 3)


def test_a_stream_of_the_callers_loop_is_not_read_in_another_thread(tmp_path: Path):
    """It waited there for ever, though messages had come."""
    with FakeCluster({"t": 1}) as cluster:
        cluster.append("t", 0, entry(b"a"))
        host, port = cluster.bootstrap[0]
        options = {
            "metadata.broker.list": f"{host}:{port}",
            "partitions": {"t": [0]},
            "offsets.file": str(tmp_path / "offsets"),
            "auto.offset.reset": "smallest",
            "group.id": "g",
        }
        with ConsumerConnector(options, "caller") as connector:
            (stream,) = connector.create_message_streams({"t": 1})["t"]
            said: list[str] = []
            in_thread(lambda: said.extend(told(lambda: next(stream)))).join()
            assert said[0].startswith(
                "stream t-0 belongs to the event loop of another thread (hub 'caller'): read it in"
            )
            assert next(stream).value == b"a"
