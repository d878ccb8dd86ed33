"""Which signals a mirror handles, and that one which comes while it loads or ends does not end it by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from mirrormaker import signals
from tests import children
from tests.terminals import leave, terminal

MAY_END = {"SIGKILL", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS"}
LOADS = "import time; from mirrormaker import signals; signals.load(); print(flush=True); time.sleep(0.3)"


def ends_a_program(number: int) -> bool:
    """What the kernel does by default, tried out."""
    code = f"import signal, time; signal.signal({number}, signal.SIG_DFL); print(flush=True); time.sleep(0.3)"
    with children.started([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(number)
        return child.wait(10) == -number


def test_every_signal_that_ends_a_program_is_handled_but_for_sigkill_and_crashes() -> None:
    stopping = {"SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU"}
    realtime = set(range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
    tried = [n for n in signal.valid_signals() - realtime if signals.name(n) not in stopping | {"SIGKILL"}]
    ending = {n for n in tried if ends_a_program(n) and signals.name(n) not in MAY_END}
    assert ending - {signal.SIGPIPE, signal.SIGXFSZ} == set(signals.ending()) - realtime
    assert realtime <= set(signals.ending())


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT, signal.SIGRTMIN + 3])
def test_a_mirror_that_loads_goes_on(number: int) -> None:
    with children.started([sys.executable, "-c", LOADS], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(number)
        _, said = child.communicate(timeout=10)
    assert (child.returncode, said.decode()) == (0, f"mirrormaker: {signals.name(number)} changes nothing\n")


BUFFERED = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
GONE = """if True:
    import sys
    from groundwork.signals import ignore_at_exit
    from groundwork.streams import write_stderr
    ignore_at_exit()
    from mirrormaker.status import StatusLine
    line = StatusLine(sys.stderr)
    print(line.rewrites, flush=True)
    sys.stdin.read()
    line.show("10 msg/s")
    write_stderr(b"a handler")
    sys.exit(75)
"""


def test_a_terminal_that_went_away_leaves_the_exit_code() -> None:
    with (
        terminal() as (stream, window),
        children.started(
            [sys.executable, "-c", GONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream, env=BUFFERED
        ) as child,
    ):
        assert child.stdout is not None
        assert child.stdout.readline() == b"True\n"
        leave(window)
        child.communicate(timeout=20)
        assert child.returncode == 75


def test_a_stop_is_ignored_from_the_last_function_of_the_exit_on() -> None:
    """Late in its exit Python gives handled signals their default action back: then this would end with -15."""
    code = """if True:
        import signal, sys, time
        from groundwork.signals import ignore_at_exit
        ignore_at_exit()
        signal.signal(signal.SIGTERM, lambda *_: None)
        class Late:
            def __del__(self):
                print("late", flush=True)
                time_sleep(1)
        late, time_sleep = Late(), time.sleep
        sys.modules["late"] = late
    """
    with children.started([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"late\n"
        child.send_signal(signal.SIGTERM)
        time.sleep(0.05)
        assert child.wait(10) == 0
