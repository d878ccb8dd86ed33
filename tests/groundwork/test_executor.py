"""Calls that block, in a plain thread beside a hub."""

from __future__ import annotations

import threading
import time

import pytest

from groundwork.executor import ThreadExecutor
from groundwork.hub import CallersHub, HubStopped, OwnThread
from groundwork.sockets import GAP_S
from groundwork.tasks import TaskGroup, deadline, now, sleep
from localkafka.waiting import wait_until


def test_a_call_waits_and_other_greenlets_go_on():
    hub = OwnThread()
    hub.start()
    ticks: list[float] = []

    def in_hub() -> tuple[int, int]:
        beside, tasks = ThreadExecutor(hub), TaskGroup()

        def tick() -> None:
            while True:
                ticks.append(now())
                sleep(0.01)

        tasks.spawn("tick", tick)
        beside.call(wait_until, lambda: len(ticks) > 10, 20, "turns of the other greenlet")
        tasks.stop(1)
        found = beside.call(threading.get_ident), beside.call(threading.get_ident)
        beside.close()
        return found

    one, other = hub.call(in_hub)
    hub.stop()
    assert one == other != threading.get_ident()


def test_the_time_of_a_call_does_not_run_while_the_process_stands_still():
    hub = CallersHub()
    hub.start()
    beside, tasks = ThreadExecutor(hub), TaskGroup()
    tasks.spawn("freeze", time.sleep, 0.3 + GAP_S)  # the loop finds that the time is over, and only then the result
    assert beside.call_within(0.2, "the disk", divmod, 7, 2) == (3, 1)
    with pytest.raises(TimeoutError, match="the disk took longer than"):
        beside.call_within(0.2, "the disk", time.sleep, 0.6)
    beside.close()
    tasks.stop(1)
    hub.stop()


def test_what_it_raises_comes_back_and_an_exit_does_not_end_the_hub():
    hub = CallersHub()
    hub.start()
    beside = ThreadExecutor(hub)
    with pytest.raises(ZeroDivisionError):
        beside.call(divmod, 1, 0)
    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        beside.call(exit, 3)
    assert beside.call(divmod, 7, 2) == (3, 1)
    beside.close()
    with pytest.raises(HubStopped, match="thread beside the hub has ended"):
        beside.call(divmod, 7, 2)
    hub.stop()


def test_who_waits_no_longer_leaves_the_call_behind_and_those_behind_it_in_their_order():
    hub = CallersHub()
    hub.start()
    beside, done = ThreadExecutor(hub), []
    gate = threading.Event()
    with pytest.raises(TimeoutError), deadline(0.05):
        beside.call(gate.wait, 10)
    gate.set()
    beside.call(done.append, 1)
    beside.call(done.append, 2)
    assert done == [1, 2]
    beside.close()
    hub.stop()
