"""Children and their keepers, with small programs in place of JVMs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from localkafka.child import Child
from localkafka.errors import last_lines
from tests import children

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
]


def eventually(check: Callable[[], object], within_s: float = 10) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if check():
            return True
        time.sleep(0.01)
    return False


def state(pid: int) -> str:
    """The letter of /proc: R, S, T (stopped), Z; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def gone(pid: int) -> bool:
    return state(pid) in ("", "Z")


def up(child: Child) -> bool:
    return eventually(lambda: b"up" in child.log.read_bytes())


def test_exit_code_and_output_are_the_childs_own(tmp_path: Path) -> None:
    with Child("it", [sys.executable, "-c", "print('hello'); raise SystemExit(7)"], tmp_path / "log") as child:
        assert child.wait(10) == 7
        assert not child.running
        assert "hello" in child.log_end()


def test_stop_is_sigterm(tmp_path: Path) -> None:
    with Child("it", SLEEPER, tmp_path / "log") as child:
        assert up(child)
        assert child.stop() == -signal.SIGTERM


def test_stop_kills_what_ignores_sigterm(tmp_path: Path) -> None:
    with Child("it", STUBBORN, tmp_path / "log") as child:
        assert up(child)
        assert child.stop(timeout_s=0.3) == -signal.SIGKILL
        assert gone(child.pid)


def test_pause_stops_and_resume_continues(tmp_path: Path) -> None:
    with Child("it", SLEEPER, tmp_path / "log") as child:
        child.pause()
        assert eventually(lambda: state(child.pid) == "T")
        assert child.running
        child.resume()
        assert eventually(lambda: state(child.pid) == "S")


def test_a_paused_child_can_be_stopped(tmp_path: Path) -> None:
    with Child("it", SLEEPER, tmp_path / "log") as child:
        child.pause()
        assert child.stop(timeout_s=5) == -signal.SIGTERM


def test_pipes_reach_the_child_and_end_with_it(tmp_path: Path) -> None:
    with Child("it", ["cat"], tmp_path / "log", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"through\n")
        child.stdin.close()
        assert child.stdout.read() == b"through\n"  # the keeper holds no end of the pipe open
        assert child.wait(10) == 0


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    children: list[Child] = []
    starter = threading.Thread(target=lambda: children.append(Child("it", SLEEPER, tmp_path / "log")))
    starter.start()
    starter.join()
    with children[0] as child:
        assert up(child)
        assert child.wait(0.3) is None


def test_a_program_that_is_not_there_ends_with_127_and_says_so(tmp_path: Path) -> None:
    with Child("it", ["/nonexistent/java"], tmp_path / "log") as child:
        assert child.wait(10) == 127
        assert "cannot run /nonexistent/java" in child.log_end()


def test_a_killed_keeper_takes_the_child_along(tmp_path: Path) -> None:
    with Child("it", SLEEPER, tmp_path / "log") as child:
        assert up(child)
        keeper = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(keeper, signal.SIGKILL)
        assert eventually(lambda: gone(child.pid))
        assert child.wait(10) == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_children_die_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    program = textwrap.dedent(f"""
        import threading, time
        from pathlib import Path
        from localkafka.child import Child
        children = []
        start = lambda: children.append(Child("it", {STUBBORN!r}, Path({str(tmp_path / "log")!r})))
        thread = threading.Thread(target=start); thread.start(); thread.join()
        print(children[0].pid, flush=True)
        time.sleep(60)
    """)
    with children.started([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not gone(pid)
        parent.send_signal(number)
        parent.wait(10)
    assert eventually(lambda: gone(pid))


def test_what_ended_cannot_be_hurt_any_more(tmp_path: Path) -> None:
    with Child("it", ["true"], tmp_path / "log") as child:
        assert child.wait(10) == 0
        child.pause()
        assert child.stop() == 0
        assert child.kill() == 0


def test_a_log_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    assert "wrote no log" in last_lines(tmp_path / "none")
