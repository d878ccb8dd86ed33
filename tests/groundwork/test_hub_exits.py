"""How programs with a hub end: exits, forks, ctrl-C.  Each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from tests import children


def run(text: str, *args: str, timeout: float = 30, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *args], capture_output=True, text=True, timeout=timeout, **more
    )


EXIT = """
    import atexit, sys, threading
    from groundwork.hub import OwnThread
    from groundwork.kazoohandler import kazoo_handler
    from groundwork.tasks import Event, Queue, TaskGroup, sleep

    hub = OwnThread()
    hub.start()
    tasks = TaskGroup()

    def like_a_client():
        handler = kazoo_handler()          # registers its own atexit, as KazooClient.start() does
        handler.start()
        hub.before_exit(handler.stop)
        for n in range(5):
            tasks.spawn(f"w{n}", busy, Queue())

    def busy(q):
        while True:
            sleep(0.001)

    hub.call(like_a_client)
    bounded_queue = hub.bounded_queue(1000)
    def feed():
        while True:
            bounded_queue.put(b"x", 1)
    hub.post(feed)
    for _ in range(50):
        bounded_queue.get(5)
    sys.exit(0)
"""


@pytest.mark.thorough
def test_exits_with_a_live_hub_crash_never() -> None:
    ends = [run(EXIT) for _ in range(8)]
    assert {(end.returncode, end.stderr) for end in ends} == {(0, "")}


@pytest.mark.real
def test_exits_with_a_live_zookeeper_session_crash_never(zk_server: Any) -> None:
    text = """
        import sys
        from kazoo.client import KazooClient
        from groundwork.hub import OwnThread
        from groundwork.kazoohandler import kazoo_handler

        hub = OwnThread()
        hub.start()
        def session():
            zk = KazooClient(hosts=sys.argv[1], handler=kazoo_handler(), timeout=10)
            zk.start(10)
            def end():
                zk.stop()
                zk.close()
            hub.before_exit(end)
            return zk
        zk = hub.call(session)
        assert hub.call(zk.exists, "/") is not None
    """
    ends = [run(text, zk_server.connect) for _ in range(8)]
    assert {(end.returncode, end.stderr) for end in ends} == {(0, "")}


def test_last_act_that_hangs_ends_with_the_time_for_it() -> None:
    text = """
        import groundwork.hub
        from groundwork.tasks import sleep
        groundwork.hub.EXIT_S = 0.3
        hub = groundwork.hub.OwnThread()
        hub.start()
        hub.before_exit(lambda: sleep(3600))
    """
    end = run(text)
    assert end.returncode == 0
    assert "took longer than" in end.stderr


def test_forked_child_is_refused_with_a_sentence_and_ends_quietly() -> None:
    text = """
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 finds a fork beside threads dangerous
        from groundwork.hub import HubStopped, OwnThread
        from groundwork.queues import Closed
        hub = OwnThread()
        hub.start()
        bounded_queue = hub.bounded_queue(100)
        sys.stdout.flush()
        if os.fork() == 0:
            for ask in (lambda: hub.call(print), hub.start, lambda: bounded_queue.get(1)):
                try:
                    ask()
                except (HubStopped, Closed) as exc:
                    print("child:", exc)
            sys.exit(0)
        _, status = os.wait()
        print("child ended with", os.waitstatus_to_exitcode(status))
        print("parent:", hub.call(lambda: "goes on"))
    """
    end = run(text)
    assert end.returncode == 0
    assert end.stderr == ""
    lines = end.stdout.splitlines()
    assert "forked" in lines[0]
    assert "forked" in lines[1]
    assert "forked" in lines[2]
    assert lines[3:] == ["child ended with 0", "parent: goes on"]


def interrupt(text: str) -> tuple[int, str]:
    """Sends SIGINT once the program has printed its first line; its exit code and what it printed after."""
    argv = [sys.executable, "-c", textwrap.dedent(text)]
    with children.started(argv, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=20)
    return child.returncode, out


def test_ctrl_c_reaches_a_thread_that_waits_in_get() -> None:
    text = """
        from groundwork.hub import OwnThread
        hub = OwnThread()
        hub.start()
        bounded_queue = hub.bounded_queue(100)
        try:
            print("ready", flush=True)
            bounded_queue.get()
        except KeyboardInterrupt:
            hub.post(bounded_queue.put, "later", 5)
            print("interrupted, then", bounded_queue.get(5))
    """
    assert interrupt(text) == (0, "interrupted, then later\n")


def test_ctrl_c_reaches_a_thread_that_waits_in_call_and_the_function_goes_on() -> None:
    text = """
        from groundwork.tasks import sleep
        from groundwork.hub import OwnThread
        hub = OwnThread()
        hub.start()
        def slow():
            print("ready", flush=True)
            while not interrupted:
                sleep(0.01)
            raise ValueError("nobody waits")
        failed, interrupted = [], []
        hub.on_error = lambda what, exc: failed.append(str(exc))
        try:
            hub.call(slow)
        except KeyboardInterrupt:
            interrupted.append(True)
            while not failed:
                hub.call(sleep, 0.01)
            print("interrupted", failed)
    """
    assert interrupt(text) == (0, "interrupted ['nobody waits']\n")


def test_no_gevent_import_but_in_crew_and_hub() -> None:
    text = (
        "import sys; import groundwork.options, groundwork.java, groundwork.failpoints; print('gevent' in sys.modules)"
    )
    assert run(text, env=os.environ).stdout == "False\n"


PATCHED = """
    import sys
    from gevent import monkey
    monkey.patch_all(**{module: False for module in sys.argv[2:]})
    import threading
    from groundwork.hub import pick_hub

    hub = pick_hub(sys.argv[1])
    hub.start()
    print(type(hub).__name__, hub.call(threading.get_ident) == threading.get_ident())
    hub.stop()
"""


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (("auto",), "CallersHub True"),
        (("auto", "socket"), "CallersHub True"),  # a thread is a greenlet there, too
        (("own", "thread"), "OwnThread False"),
    ],
)
def test_a_hub_of_a_patched_program_runs_where_it_says(asked: tuple[str, ...], wanted: str) -> None:
    end = run(PATCHED, *asked)
    assert (end.returncode, end.stdout.strip()) == (0, wanted), end.stderr


@pytest.mark.parametrize("asked", [("own",), ("own", "socket")])
def test_a_thread_of_its_own_is_refused_where_threads_are_greenlets(asked: tuple[str, ...]) -> None:
    end = run(PATCHED, *asked)
    assert "ValueError: hub is 'own', but gevent has patched threads in this program" in end.stderr
