"""Calls in a few plain threads, for greenlets of any event loop."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import pytest

from groundwork.hub import OwnThread
from groundwork.plainthreads import PlainThreads
from groundwork.tasks import TaskGroup
from localkafka.waiting import wait_until


def test_calls_of_several_hubs_each_get_their_own_answer_from_no_more_threads_than_there_may_be() -> None:
    pool, lock = PlainThreads(4), threading.Lock()
    running, most, idents = 0, 0, set()

    def square(n: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            idents.add(threading.get_ident())
        with lock:
            running -= 1
        return n * n

    def calls(first: int) -> list[int]:
        tasks, found = TaskGroup(), [0] * 100
        for n in range(100):
            tasks.spawn(f"w{n}", lambda n=n: found.__setitem__(n, pool.apply(lambda: square(first + n))))
        while tasks.names():
            assert tasks.wait(0.01) is False
        return found

    hubs = [OwnThread(f"hub {n}") for n in range(3)]
    for hub in hubs:
        hub.start()
    answers: dict[int, list[int]] = {}
    askers = [
        threading.Thread(target=lambda n=n, hub=hub: answers.update({n: hub.call(calls, n * 1000)}))
        for n, hub in enumerate(hubs)
    ]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(30)
    for hub in hubs:
        hub.stop()
    assert answers == {n: [(n * 1000 + k) ** 2 for k in range(100)] for n in range(3)}
    assert most <= 4
    assert threading.get_ident() not in idents
    wait_until(lambda: pool._threads == 0, 10, "the end of threads without a call")


def test_what_a_call_raises_is_raised_to_its_caller_and_the_thread_goes_on() -> None:
    pool = PlainThreads(1)
    with pytest.raises(ZeroDivisionError):
        pool.apply(lambda: divmod(1, 0))
    with pytest.raises(SystemExit):
        pool.apply(lambda: sys.exit(3))
    assert pool.apply(lambda: 5) == 5


def test_calls_of_one_name_are_one_call_until_it_is_done() -> None:
    pool, gate, calls = PlainThreads(2), threading.Event(), []

    def call() -> int:
        calls.append(1)
        gate.wait(10)
        return len(calls)

    first, second = pool.begin(call, "a"), pool.begin(call, "a")
    assert first is second
    assert not first.wait(0.01)
    gate.set()
    assert first.wait(10)
    assert first.result() == 1
    third = pool.begin(call, "a")
    assert third.wait(10)
    assert third.result() == 2


def test_in_a_patched_program_the_threads_are_threads() -> None:
    text = """
        import gevent.monkey
        gevent.monkey.patch_all()
        import gevent, threading, time
        from groundwork.plainthreads import PlainThreads
        block, gate = gevent.monkey.get_original("time", "sleep"), []
        def until_others_ran():
            for _ in range(1000):
                if gate:
                    return "others ran"
                block(0.01)
        gevent.spawn_later(0.05, gate.append, True)
        print(PlainThreads(1).apply(until_others_ran))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=40)
    assert (done.stdout, done.stderr) == ("others ran\n", "")
