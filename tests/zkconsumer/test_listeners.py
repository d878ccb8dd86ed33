"""Listeners: what they return counts, what they raise is kept, what takes too long is left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from groundwork.hub import CallersHub, OwnThread
from groundwork.tasks import TaskGroup, sleep
from kafkawire.model import TopicPartition
from localkafka.waiting import wait_until
from zkconsumer.events import ConsumerEvent
from zkconsumer.listeners import NO_LISTENER, ConsumerListener, ListenerCalls, ListenerFailed

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


class World:
    """ListenerCalls in a hub of either form; call(name, *args) is what the engine does."""

    def __init__(self, own: bool) -> None:
        self.hub = OwnThread() if own else CallersHub()
        self.hub.start()
        self.events: list[ConsumerEvent] = []
        self.passed_on: list[ListenerFailed] = []
        self.tasks = self.hub.call(TaskGroup)

    def listener(self, listener: ConsumerListener, timeout_ms: int = 5000) -> ListenerCalls:
        self.made = self.hub.call(
            lambda: ListenerCalls.for_hub(
                listener,
                timeout_ms=timeout_ms,
                on_event=self.events.append,
                tasks=self.tasks,
                hub=self.hub,
                on_failed=self.passed_on.append,
            )
        )
        return self.made

    def call(self, name: str, *args: object) -> Any:
        return self.hub.call(getattr(self.made, name), *args)

    def end(self) -> None:
        self.hub.call(self.tasks.stop, 5)
        self.hub.stop()


@pytest.fixture(params=["caller", "own"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = World(own=request.param == "own")
    yield world
    world.end()


def test_positions_of_before_start_come_back_to_the_engine(world: World) -> None:
    class Chooses(ConsumerListener):
        def before_start(self, assignment: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, int]:
            return {tp: 7 for tp, thread in assignment.items() if thread == "g-0"}

    world.listener(Chooses())
    assert world.call("before_start", {A: "g-0", B: "g-1"}) == {A: 7}
    assert world.events == []


def test_a_call_whose_thread_cannot_be_made_is_tried_again_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Releases(ConsumerListener):
        def before_release(self, partitions: Sequence[TopicPartition]) -> None:
            released.extend(partitions)

    world, released, refused = World(own=True), [], 2  # type: ignore[var-annotated]
    listener, start = world.listener(Releases()), threading.Thread.start

    def scarce(thread: threading.Thread) -> None:
        nonlocal refused
        refused -= 1
        if refused >= 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    world.call("before_release", [A])
    assert (released, world.events) == ([A], [])
    refused = 1000
    listener.shorten(100)
    world.call("before_release", [B])
    [failed] = world.passed_on
    assert "no further thread can be started" in str(failed)
    assert released == [A]
    monkeypatch.undo()
    world.end()


def test_what_a_listener_raises_is_told_passed_on_and_raised_once(world: World) -> None:
    class Raises(ConsumerListener):
        def before_release(self, partitions: Sequence[TopicPartition]) -> None:
            raise OSError("disk full")

    listener = world.listener(Raises())
    world.call("before_release", [A])
    assert [str(e) for e in world.events] == ["listener: listener before_release failed: OSError: disk full"]
    assert len(world.passed_on) == 1
    with pytest.raises(ListenerFailed, match="before_release failed: OSError: disk full") as caught:
        listener.raise_failure()
    assert isinstance(caught.value.__cause__, OSError)
    listener.raise_failure()


def test_what_a_stream_raised_is_not_raised_again_by_the_connector(world: World) -> None:
    class Raises(ConsumerListener):
        def before_release(self, partitions: Sequence[TopicPartition]) -> None:
            raise OSError("disk full")

    listener = world.listener(Raises())
    world.call("before_release", [A])
    with pytest.raises(ListenerFailed):
        raise world.passed_on[0]
    listener.raise_failure()


def test_a_listener_that_takes_too_long_is_left_behind_and_its_failure_still_told(world: World) -> None:
    go_on = threading.Event()

    class Slow(ConsumerListener):
        def before_start(self, assignment: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, int]:
            while not go_on.is_set():
                go_on.wait(0.01) if isinstance(world.hub, OwnThread) else sleep(0.01)
            raise RuntimeError("too late")

    listener = world.listener(Slow(), timeout_ms=50)
    assert world.call("before_start", {A: "g-0"}) is None
    assert [str(e) for e in world.events] == [
        "listener: before_start takes longer than listener.timeout.ms (50 ms); continuing without it"
    ]
    go_on.set()
    if isinstance(world.hub, CallersHub):
        sleep(0.1)
    wait_until(lambda: len(world.events) == 2, 5, "its failure")
    with pytest.raises(ListenerFailed, match="too late"):
        listener.raise_failure()


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ({B: 1}, "which is not being assigned"),
        ({A: -1}, "it returned -1 for"),
        ({A: True}, "it returned True for"),
        (5, "it must return a mapping of partitions to offsets"),
    ],
)
def test_positions_that_make_no_sense_are_a_failure(world: World, returned: Any, said: str) -> None:
    class Odd(ConsumerListener):
        def before_start(self, assignment: Mapping[TopicPartition, str]) -> Any:
            return returned

    world.listener(Odd())
    assert world.call("before_start", {A: "g-0"}) is None
    assert said in str(world.events[0])


def test_a_position_outside_the_log_is_a_failure(world: World) -> None:
    class Jumps(ConsumerListener):
        def out_of_range(self, tp: TopicPartition, requested: int, earliest: int, latest: int) -> int:
            return requested

    world.listener(Jumps())
    assert world.call("out_of_range", A, 15, 10, 20) == 15
    assert world.events == []
    assert world.call("out_of_range", A, 5, 10, 20) is None
    assert "5 returned for orders/0 at 5: it must be a position from 10 to 20" in str(world.events[0])


def test_states_are_told_in_their_order_one_at_a_time_and_before_the_end(world: World) -> None:
    heard: list[str] = []

    class Hears(ConsumerListener):
        def session_state(self, state: str) -> None:
            sleep(0.02)
            heard.append(state)

    world.listener(Hears())
    for state in ("suspended", "connected", "lost"):
        world.call("session_state", state)
    world.call("close", 5)
    assert heard == ["suspended", "connected", "lost"]
    world.call("session_state", "connected")
    assert heard == ["suspended", "connected", "lost"]


def test_a_failure_is_not_raised_by_what_the_listener_itself_calls(world: World) -> None:
    second: list[str] = []

    class Raises(ConsumerListener):
        def before_release(self, partitions: Sequence[TopicPartition]) -> None:
            listener.raise_failure()
            second.append("went on")
            raise OSError("disk full")

    listener = world.listener(Raises())
    world.call("before_release", [A])
    world.call("before_release", [A])
    assert second == ["went on", "went on"]


def test_a_listener_runs_outside_the_hubs_thread_only_where_the_hub_has_its_own(world: World) -> None:
    threads: list[int] = []

    class Looks(ConsumerListener):
        def error(self, error: Exception) -> None:
            threads.append(threading.get_ident())

    world.listener(Looks())
    world.call("error", ValueError("x"))
    world.call("close", 5)
    hubs_own = world.hub.call(threading.get_ident)
    assert len(threads) == 1
    assert (threads[0] != hubs_own) is isinstance(world.hub, OwnThread)


def test_without_a_listener_nothing_is_started() -> None:
    NO_LISTENER.before_release([A])
    NO_LISTENER.error(ValueError("x"))
    assert NO_LISTENER.before_start({A: "g-0"}) is None
    assert NO_LISTENER.out_of_range(A, 1, 2, 3) is None
