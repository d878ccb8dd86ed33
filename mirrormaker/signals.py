"""Effect of each signal on a mirror.  Only SIGKILL, a crash, and a second SIGTERM or ctrl-C end it without draining.

    load()      while `mirrormaker run` loads: no partitions are owned yet
    Signals     while the mirror runs, drains, and has drained

    SIGTERM SIGINT    drain and stop; the second one ends the process at once
    SIGXCPU           drain and stop: SIGKILL follows it
    SIGHUP            read the configuration again
    SIGQUIT           dump the stack of each greenlet and thread, as a JVM does
    SIGUSR1           log the state of partitions, queues and requests, and dump stacks
    SIGUSR2           toggle the log level: debug, or as configured
    timers, SIGPWR, real-time signals: log a line and change nothing

The handlers are Python's instead of the event loop's: one replaces another in one step, so a signal's default action
never applies in between, and a handler runs even while a message.handler keeps the loop from turning.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

from groundwork.logs import write_now
from groundwork.streams import write_stderr

if TYPE_CHECKING:
    from groundwork.tasks import TaskGroup

log = logging.getLogger(__name__)

CRASHES = frozenset({"SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS"})
ENDING_NOTHING = frozenset({"SIGCHLD", "SIGCLD", "SIGCONT", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGWINCH"})
NOT_TO_BE_CAUGHT = frozenset({"SIGKILL", "SIGSTOP"})
IGNORED_BY_PYTHON = frozenset({"SIGPIPE", "SIGXFSZ"})  # Python ignores them: a write fails instead
LEFT = CRASHES | ENDING_NOTHING | NOT_TO_BE_CAUGHT | IGNORED_BY_PYTHON
STOPS = (signal.SIGTERM, signal.SIGINT)


def name(number: int) -> str:
    """Return the name of a signal: SIGTERM, SIGRTMIN+3."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def ending() -> Iterator[int]:
    """Yield the signals whose default action would end the process, except for those of a crash and SIGKILL."""
    return (number for number in sorted(signal.valid_signals()) if name(number) not in LEFT)


def load() -> None:
    """Ignore signals that would end the process while the program loads, except SIGTERM, ctrl-C and a closed terminal:
    nothing is owned yet, so the process may end at once."""
    for number in ending():
        if number not in STOPS and not (number == signal.SIGHUP and sys.stderr.isatty()):
            signal.signal(number, _loading)


def _loading(number: int, frame: FrameType | None) -> None:
    write_stderr(f"mirrormaker: {name(number)} changes nothing\n".encode())


class Signals:
    """Signal handling of one daemon, in the main thread.

    stop      called in a greenlet at the first SIGTERM, ctrl-C or SIGXCPU
    actions   the actions of other signals, each called in a greenlet

    RUNNING   take(): as the module's docstring says
    DRAINED   drained(): nothing is left that a second SIGTERM could cut off, so it changes nothing
    ENDED     end(code): a second SIGTERM ends the process even if user code blocks its exit
    """

    def __init__(
        self,
        tasks: TaskGroup,
        stop: Callable[[], object],
        actions: Mapping[int, Callable[[], object]],
        at_once: Callable[[], object] = lambda: None,
    ) -> None:
        """at_once(): called by the handler of a second SIGTERM, right before the process ends."""
        self._at_once = at_once
        self._tasks = tasks
        self._stop = stop
        self._actions = actions
        self._asked = 0  # number of requests to stop
        self._drained = False
        self._code: int | None = None

    def take(self) -> None:
        """Handle all signals from now on.  Handlers that user code of a message.handler has set stay, except for
        SIGTERM and SIGINT."""
        from groundwork.tasks import wake_at_signals  # not at the top: load() runs before gevent is loaded

        wake_at_signals()
        ours = (signal.SIG_DFL, signal.SIG_IGN, _loading)
        for number in ending():
            if number in STOPS or signal.getsignal(number) in ours:
                signal.signal(number, self._handler(number))

    def drained(self) -> None:
        self._drained = True

    def end(self, code: int) -> None:
        self._code = code

    def _handler(self, number: int) -> Callable[[int, FrameType | None], None]:
        if number in STOPS:
            return self._asked_to_stop
        if number == signal.SIGQUIT:
            return _dump
        does = {signal.SIGXCPU: self._out_of_time, **self._actions}.get(number, partial(_nothing, name(number)))
        return lambda *_: self._tasks.signalled(name(number), does)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        """Count requests to stop in the handler itself: a second signal must end even a mirror whose event loop is
        blocked."""
        self._asked += 1
        if self._code is not None:
            os._exit(self._code)
        if self._drained:
            return
        if self._asked == 1:
            self._tasks.signalled(name(number), self._stop)
            return
        from mirrormaker import exits  # not at the top: the start of the program must load little

        why = "stopped at once by a second signal: what was not committed yet is sent again after the next start"
        self._at_once()
        write_now(__name__, logging.CRITICAL, why)
        os._exit(exits.TEMPORARY)

    def _out_of_time(self) -> None:
        """Stop in order.  SIGXCPU comes each second of processor time, so it never counts as a second request."""
        log.warning("SIGXCPU: the limit of processor time is reached (LimitCPU=, ulimit -t); the mirror stops in order")
        self._stop()


def _nothing(named: str) -> None:
    log.warning("%s changes nothing", named)


def _dump(number: int, frame: FrameType | None) -> None:
    """Dump stacks from the handler itself: the operator wants to see what blocks the event loop."""
    from groundwork.tasks import stacks  # not at the top: it loads gevent

    write_now(__name__, logging.WARNING, "SIGQUIT: where each greenlet and thread stands", stacks())
