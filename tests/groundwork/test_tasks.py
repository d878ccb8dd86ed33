from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import pytest

from groundwork.tasks import (
    Event,
    TaskDied,
    TaskGroup,
    Turns,
    connect,
    deadline,
    in_greenlet,
    in_turns,
    now,
    sleep,
    stacks,
    wait_any,
)


def forever() -> None:
    sleep(3600)


def test_death_ends_the_wait_with_its_name_and_reason() -> None:
    seen = []
    tasks = TaskGroup(on_death=lambda name, exc: seen.append((name, exc)))
    tasks.spawn("idler", forever)

    def fail() -> None:
        sleep(0.01)
        raise ValueError("no such offset")

    tasks.spawn("fetcher-1", fail)
    with pytest.raises(TaskDied, match=r"^fetcher-1 died: ValueError: no such offset$") as raised:
        tasks.wait(5)
    assert raised.value.name == "fetcher-1"
    assert isinstance(raised.value.__cause__, ValueError)
    assert seen == [("fetcher-1", raised.value.__cause__)]
    assert tasks.names() == ["idler"], "the others still run until somebody decides"
    assert tasks.stop(5) == []


def test_first_death_stays_the_reason() -> None:
    tasks = TaskGroup()

    def fail(text: str) -> None:
        raise KeyError(text)

    tasks.spawn("a", fail, "first")
    tasks.spawn("b", fail, "second")
    sleep(0.01)
    assert tasks.death is not None
    assert tasks.death.name == "a"


def test_greenlet_that_was_asked_to_end_is_no_death() -> None:
    tasks = TaskGroup()
    entered = Event()

    def ends_badly() -> None:
        entered.set()
        try:
            forever()
        finally:
            raise OSError("socket is gone already")

    worker = tasks.spawn("w", ends_badly)
    assert entered.wait(5)
    assert worker.end(5)
    assert worker.ended
    assert tasks.death is None
    assert tasks.wait(0.01) is False


def test_greenlet_that_ends_by_itself_is_no_death_and_leaves_the_crew() -> None:
    tasks = TaskGroup()
    worker = tasks.spawn("w", lambda: None)
    assert worker.join(5)
    assert tasks.names() == []
    assert tasks.death is None


def test_wait_comes_back_after_stop() -> None:
    tasks = TaskGroup()
    tasks.spawn("w", forever)
    tasks.spawn("stopper", lambda: tasks.stop(5))
    assert tasks.wait(5) is True
    with pytest.raises(RuntimeError, match="late cannot start: its task group is stopped"):
        tasks.spawn("late", forever)


def test_stop_names_who_would_not_end() -> None:
    tasks = TaskGroup()
    release = Event()

    def stubborn() -> None:
        while not release.is_set():
            try:
                release.wait(5)
            except BaseException:
                continue

    tasks.spawn("stubborn", stubborn)
    tasks.spawn("idler", forever)
    sleep(0)
    assert tasks.stop(0.05) == ["stubborn"]
    release.set()
    sleep(0.01)
    assert tasks.names() == []


def test_killed_before_its_first_step_it_leaves_the_crew_too() -> None:
    tasks = TaskGroup()
    tasks.spawn("w", forever)
    assert tasks.stop(5) == []
    assert tasks.names() == []


def test_worker_that_ends_itself_ends() -> None:
    tasks = TaskGroup()
    workers = []
    workers.append(tasks.spawn("w", lambda: (workers[0].end(), forever())))
    assert workers[0].join(5)
    assert tasks.death is None


def test_counted_death_of_foreign_work() -> None:
    tasks = TaskGroup()
    tasks.died("watch of /consumers/g/ids", ValueError("x"))
    with pytest.raises(TaskDied, match="watch of /consumers/g/ids died"):
        tasks.wait(1)


def test_wait_any_gives_the_ready_ones_or_nothing_in_time() -> None:
    a, b = Event(), Event()
    assert wait_any([a, b], 0.01) == []
    b.set()
    assert wait_any([a, b], 5) == [b]
    with pytest.raises(ValueError, match="something to wait for"):
        wait_any([])


def test_the_time_of_a_wait_begins_with_the_call_however_long_the_hub_had_no_turn() -> None:
    sleep(0.001)  # the hub looks at its clock, and a timer of it gives us our turn back
    time.sleep(0.3)
    tasks, began = TaskGroup(), now()
    assert not tasks.wait(0.2)
    assert now() - began >= 0.19


def test_deadline_is_an_ordinary_error_that_names_what_took_too_long() -> None:
    began = now()
    with (
        pytest.raises(TimeoutError, match=r"^reading the group took longer than 0.02 s$"),
        deadline(0.02, "reading the group"),
    ):
        forever()
    assert now() - began < 5
    with deadline(0.02):
        pass
    sleep(0.05)  # the timer of the block that was quick is gone


def test_inner_deadline_leaves_the_outer_one_alone() -> None:
    with pytest.raises(TimeoutError, match="outer"), deadline(0.02, "outer"), deadline(10, "inner"):
        forever()


def test_a_deadline_that_comes_late_since_the_hub_did_not_run_begins_again_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("groundwork.tasks.GAP_S", 0.05)

    def stopped(_: int = 0) -> None:
        time.sleep(0.3)  # the hub does not run
        sleep(0.05)

    with deadline(0.2):
        stopped()
    with pytest.raises(TimeoutError), deadline(0.2):
        list(map(stopped, range(2)))


def test_in_greenlet_tells_who_asks() -> None:
    tasks = TaskGroup()
    seen = []
    tasks.spawn("w", lambda: seen.append(in_greenlet())).join(5)
    assert seen == [True]
    assert in_greenlet() is False


def test_connect_sets_the_receive_buffer_and_0_leaves_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with connect(address, 5) as usual, connect(address, 5, 16384) as small:
            sizes = [each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for each in (usual, small)]
            assert small.gettimeout() == 5
    assert sizes[1] == 2 * 16384  # Linux doubles it for its own bookkeeping
    assert sizes[0] > sizes[1]


def test_connect_with_a_receive_buffer_to_a_closed_port_is_an_os_error() -> None:
    with pytest.raises(OSError, match="refused"):
        connect(("127.0.0.1", 9), 5, 16384)


def test_connect_to_a_closed_port_is_an_os_error() -> None:
    with pytest.raises(ConnectionRefusedError):
        connect(("127.0.0.1", 9), 5)


def program(text: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **more},
    )


SIGNALLED = """
    import signal
    from groundwork.tasks import TaskGroup, Event, sleep, wake_at_signals
    wake_at_signals()
    tasks = TaskGroup()
    signals, terms = [], []
    def on_signal(*_):
        signals.append(1)
        tasks.signalled("SIGTERM", on_term)
    def on_term():
        terms.append(1)
        assert len(terms) <= len(signals), "once for each signal"
        print("term", len(terms), flush=True)
        if len(terms) == 2:
            tasks.stop(5)
        sleep(60)            # the second signal does not wait for this
    signal.signal(signal.SIGTERM, on_signal)
    tasks.spawn("work", sleep, 60)
    print("ready", flush=True)
    tasks.wait(30)
    signal.raise_signal(signal.SIGTERM)  # a stopped task group is not disturbed
    sleep(0.01)
    print("end")
"""


def test_signal_runs_in_a_greenlet_and_a_second_does_not_wait_for_the_first() -> None:
    with program(SIGNALLED) as child:
        assert child.stdout
        assert child.stderr
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        assert child.stdout.readline() == "term 1\n"
        child.send_signal(signal.SIGTERM)
        rest = child.stdout.read()  # communicate() would leave out what a readline() before it has taken in
        assert (rest, child.stderr.read()) == ("term 2\nend\n", "")
    assert child.returncode == 0


def test_a_signal_that_does_not_interrupt_the_hub_is_handled_at_once() -> None:
    """As one that comes right before the hub waits does not, or one that another thread takes."""
    text = """
        import signal, threading
        from groundwork.tasks import TaskGroup, wake_at_signals
        wake_at_signals()
        wake_at_signals()  # changes nothing
        tasks = TaskGroup()
        signal.signal(signal.SIGTERM, lambda *_: tasks.signalled("SIGTERM", lambda: tasks.stop(5)))
        by_itself = lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        threading.Timer(0.3, by_itself).start()
        print(tasks.wait(15))
    """
    with program(text) as child:
        assert child.communicate(timeout=20) == ("True\n", "")


def test_signal_handler_that_fails_is_a_death() -> None:
    text = """
        import os, signal
        from groundwork.tasks import TaskGroup, TaskDied
        tasks = TaskGroup()
        def on_hup():
            raise ValueError("bad reload")
        signal.signal(signal.SIGHUP, lambda *_: tasks.signalled("SIGHUP", on_hup))
        os.kill(os.getpid(), signal.SIGHUP)
        try:
            tasks.wait(10)
        except TaskDied as death:
            print(death)
    """
    with program(text) as child:
        out, _ = child.communicate(timeout=20)
    assert out == "SIGHUP died: ValueError: bad reload\n"


def test_stacks_name_each_thread_and_each_greenlet_that_has_not_ended() -> None:
    tasks, over = TaskGroup(), Event()

    def waits_here() -> None:
        over.wait(20)

    tasks.spawn("ended", lambda: None)
    tasks.spawn("waiting", waits_here)
    sleep(0.01)
    lines = list(stacks())
    over.set()
    tasks.stop(5)
    at = lines.index("greenlet waiting:")
    end = next((n for n, line in enumerate(lines) if n > at and line.endswith(":")), len(lines))
    assert any("in waits_here" in line for line in lines[at:end])
    assert "thread MainThread:" in lines
    assert "greenlet ended:" not in lines


def test_ctrl_c_in_a_worker_reaches_the_program() -> None:
    text = """
        import time
        from groundwork.tasks import TaskGroup
        tasks = TaskGroup()
        def busy():
            print("ready", flush=True)
            until = time.monotonic() + 20
            while time.monotonic() < until:
                pass
        tasks.spawn("busy", busy)
        try:
            tasks.wait(30)
        except KeyboardInterrupt:
            print("interrupted")
    """
    with program(text) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=20)
    assert out == "interrupted\n"


def test_others_run_between_two_items_that_take_long():
    turns: list[str] = []

    def items() -> Iterator[int]:
        for n in range(3):
            turns.append(f"item {n}")
            yield n

    with_others = TaskGroup()
    with_others.spawn("other", lambda: turns.append("other"))
    assert list(in_turns(items(), 0.0)) == [0, 1, 2]
    assert turns == ["item 0", "other", "item 1", "item 2"]
    assert [Turns(0.0, limit_s).go_on() for limit_s in (60.0, 0.0)] == [True, False]
    stood_still = Turns(0.0, 0.05)
    time.sleep(0.1)  # the machine, or another process: not the computation
    assert stood_still.go_on()
    with_others.spawn("other", lambda: turns.append("late"))
    assert list(in_turns(items(), 60.0)) == [0, 1, 2]
    assert "late" not in turns
    with_others.stop(1.0)
