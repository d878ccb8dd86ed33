from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

import pytest

from groundwork import loopdelay
from groundwork.loopdelay import HubLag, busy_lines
from groundwork.tasks import TaskGroup, sleep


def test_blocked_hub_is_measured_and_named(caplog: pytest.LogCaptureFixture) -> None:
    lag = HubLag("hub of orders", limit_ms=50, tick_ms=5)
    tasks = TaskGroup()
    tasks.spawn("lag", lag.run)
    sleep(0.02)
    time.sleep(0.15)  # blocks the hub: that is the subject here
    sleep(0.02)
    tasks.stop(5)
    assert lag.lately_ms >= 100
    told = re.search(r"hub of orders could not run for (\d+) ms", caplog.text)
    assert told is not None
    assert int(told[1]) >= 100


@pytest.mark.parametrize(
    ("clock", "cause"),
    [(lambda: 0.0, "or a disk did not answer"), (time.monotonic, "a C call that keeps the interpreter's lock")],
)
def test_a_hub_that_waited_is_told_from_one_that_worked(
    clock: Callable[[], float], cause: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopdelay.time, "process_time", clock)
    lag = HubLag("hub of orders", limit_ms=50, tick_ms=5)
    tasks = TaskGroup()
    tasks.spawn("lag", lag.run)
    sleep(0.02)
    time.sleep(0.15)  # blocks the hub: that is the subject here
    sleep(0.02)
    tasks.stop(5)
    assert cause in caplog.text


def test_own_listener_gets_the_lateness() -> None:
    late: list[float] = []
    lag = HubLag("h", limit_ms=20, tick_ms=5, on_late=late.append)
    tasks = TaskGroup()
    tasks.spawn("lag", lag.run)
    sleep(0.02)
    time.sleep(0.1)
    sleep(0.02)
    tasks.stop(5)
    assert max(late) >= 50


def test_the_line_where_another_thread_stands_is_named() -> None:
    go_on = threading.Event()

    def waits_for_a_word() -> None:
        go_on.wait(10)

    thread = threading.Thread(target=waits_for_a_word, name="reader of orders")
    thread.start()
    lines = busy_lines()
    go_on.set()
    thread.join()
    assert any(line.startswith("reader of orders in ") for line in lines)
    assert not any(line.startswith("MainThread") for line in lines)


def test_the_worst_of_the_last_minute_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    at = [1000.0]
    monkeypatch.setattr(loopdelay, "now", lambda: at[0])
    lag = HubLag("h", limit_ms=1e9)
    for late_ms, after_s, lately_ms in (
        (5, 0, 5),
        (300, 1, 300),
        (10, 20, 300),
        (20, 35, 300),
        (7, 31, 20),
        (8, 31, 8),
    ):
        at[0] += after_s
        lag._note(late_ms)
        assert lag.lately_ms == lately_ms
