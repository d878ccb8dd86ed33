from __future__ import annotations

import queue
import sys
import threading
import time

import pytest

from groundwork.hub import CallersHub, Hub, HubStopped, OwnThread, pick_hub
from groundwork.tasks import Event, TaskGroup, in_greenlet, sleep


def boom(text: str = "boom") -> None:
    raise ValueError(text)


def test_call_runs_in_a_greenlet_of_the_other_thread(own: OwnThread) -> None:
    assert own.call(lambda a, b: (a + b, in_greenlet(), threading.get_ident()), 1, 2)[:2] == (3, True)
    assert own.call(threading.get_ident) != threading.get_ident()


def test_call_raises_what_the_function_raises(own: OwnThread) -> None:
    with pytest.raises(ValueError, match="boom"):
        own.call(boom)


def test_call_inside_the_hub_does_not_wait_for_itself(own: OwnThread) -> None:
    assert own.call(lambda: own.call(lambda: "in")) == "in"


def test_calls_of_many_threads_each_get_their_own_answer(own: OwnThread) -> None:
    wrong: list[int] = []

    def ask(base: int) -> None:
        for i in range(50):
            if own.call(lambda n: (sleep(0), n)[1], base + i) != base + i:
                wrong.append(base + i)

    threads = [threading.Thread(target=ask, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert wrong == []


def test_posts_start_in_their_order_and_a_waiting_one_holds_up_nobody(own: OwnThread) -> None:
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()
    own.post(sleep, 3600)
    for n in range(100):
        own.post(seen.put, n)
    assert [seen.get(timeout=5) for _ in range(100)] == list(range(100))


def test_what_a_post_raises_goes_to_on_error(own: OwnThread) -> None:
    seen: queue.SimpleQueue[tuple[str, BaseException]] = queue.SimpleQueue()
    own.on_error = lambda what, exc: seen.put((what, exc))
    own.post(boom, "from a post")
    what, exc = seen.get(timeout=5)
    assert what == "boom"
    assert str(exc) == "from a post"


def test_hub_goes_on_while_the_program_computes(own: OwnThread) -> None:
    ticks: list[float] = []

    def tick() -> None:
        while True:
            sleep(0.01)
            ticks.append(time.monotonic())

    own.post(tick)
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        sum(range(100))
    assert len(ticks) >= 3


def test_an_error_that_comes_just_before_ctrl_c_is_told_all_the_same(
    own: OwnThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        """An answer that is there when whoever waits for it is interrupted."""

        def __init__(self) -> None:
            self.inner: queue.SimpleQueue[object] = queue.SimpleQueue()
            self.put, self.empty = self.inner.put, self.inner.empty
            self.asked = False

        def get(self) -> object:
            item = self.inner.get(timeout=10)
            if not self.asked:
                self.asked = True
                self.inner.put(item)
                raise KeyboardInterrupt
            return item

    told: list[str] = []
    own.on_error = lambda what, exc: told.append(str(exc))
    monkeypatch.setattr("groundwork.hub.InSteps", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        own.call(int, "x")
    with pytest.raises(KeyboardInterrupt):
        own.call(int, "7")
    monkeypatch.undo()
    assert told == ["invalid literal for int() with base 10: 'x'"]


def test_not_started_hub_refuses() -> None:
    hub = OwnThread()
    with pytest.raises(HubStopped, match="not started"):
        hub.call(boom)
    hub.stop()


def test_stopped_hub_refuses_and_stays_stopped() -> None:
    hub = OwnThread()
    hub.start()
    hub.start()
    hub.stop()
    hub.stop()
    with pytest.raises(HubStopped, match="the hub is stopped"):
        hub.post(boom)
    with pytest.raises(HubStopped, match="has run already"):
        hub.start()


def test_stop_answers_those_who_still_wait() -> None:
    hub = OwnThread()
    hub.start()
    entered = threading.Event()
    caught: list[BaseException] = []

    def waits() -> None:
        entered.set()
        sleep(3600)

    def ask() -> None:
        try:
            hub.call(waits)
        except HubStopped as exc:
            caught.append(exc)

    thread = threading.Thread(target=ask)
    thread.start()
    assert entered.wait(5)
    hub.stop()
    thread.join(5)
    assert len(caught) == 1


def test_stop_from_inside_the_hub_ends_it() -> None:
    hub = OwnThread()
    hub.start()
    hub.post(hub.stop)
    hub._thread.join(5)
    assert not hub._thread.is_alive()


def test_last_acts_run_in_the_hub_last_in_first_out_and_one_that_fails_stops_no_other() -> None:
    hub = OwnThread()
    hub.start()
    seen: list[tuple[str, bool]] = []
    hub.before_exit(
        lambda: seen.append(("first registered", in_greenlet() or threading.get_ident() == hub._thread.ident))
    )
    hub.before_exit(boom)
    hub.before_exit(lambda: seen.append(("last registered", True)))
    hub.stop()
    assert seen == [("last registered", True), ("first registered", True)]


def test_hub_that_breaks_says_why_to_whoever_asks() -> None:
    hub = OwnThread()
    told: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
    hub.on_error = lambda _, exc: told.put(exc)
    hub.start()

    def breaks() -> None:
        tasks = TaskGroup()
        tasks.spawn("exits", sys.exit, 3)

    hub.call(breaks)
    assert isinstance(told.get(timeout=5), SystemExit)
    hub._thread.join(5)
    with pytest.raises(HubStopped, match="broke") as raised:
        hub.call(boom)
    assert isinstance(raised.value.__cause__, SystemExit)


def test_two_hubs_live_beside_each_other() -> None:
    hubs = [OwnThread("a"), OwnThread("b")]
    for hub in hubs:
        hub.start()
    assert len({hub.call(threading.get_ident) for hub in hubs}) == 2
    for hub in hubs:
        hub.stop()


def test_callers_hub_runs_calls_where_the_caller_is() -> None:
    hub = CallersHub()
    with pytest.raises(HubStopped, match="not started"):
        hub.call(threading.get_ident)
    hub.start()
    assert hub.call(threading.get_ident) == threading.get_ident()
    done = Event()
    seen: list[str] = []
    hub.before_exit(lambda: seen.append("end"))
    thread = threading.Thread(target=lambda: (hub.post(done.set), seen.append(str(hub.call(threading.get_ident)))))
    thread.start()
    assert done.wait(5), "a post from another thread arrives"
    for _ in range(500):
        if seen:
            break
        sleep(0.01)
    assert seen == [str(threading.get_ident())], "and so does a call"
    thread.join(5)
    hub.stop()
    hub.stop()
    assert seen[1:] == ["end"]
    with pytest.raises(HubStopped):
        hub.post(done.set)


def test_auto_is_a_thread_of_its_own_for_a_plain_caller_and_the_callers_for_a_greenlet() -> None:
    assert isinstance(pick_hub("auto"), OwnThread)
    picked: list[Hub] = []
    TaskGroup().spawn("w", lambda: picked.append(pick_hub("auto"))).join(5)
    assert isinstance(picked[0], CallersHub)
    assert isinstance(pick_hub("own"), OwnThread)
    assert isinstance(pick_hub("caller"), CallersHub)
    with pytest.raises(ValueError, match="'mine'; it may be auto, caller or own"):
        pick_hub("mine")  # type: ignore[arg-type]
