"""What each signal does to a mirror.  Only SIGKILL, a crash, and a second SIGTERM or ctrl-C end it undrained.

    load()      from the first moment of `mirrormaker run`: nothing is held yet
    Signals     while the mirror runs, drains, and has drained

    SIGTERM SIGINT    stop, drained; the second one ends the process at once
    SIGXCPU           stop, drained: SIGKILL follows it
    SIGHUP            read the configuration again
    SIGQUIT           dump where each greenlet and thread stands, as a JVM does
    SIGUSR1           the state of partitions, queues and requests to the log, and the same dump
    SIGUSR2           the log's level: debug, or as configured
    timers, SIGPWR, real-time signals: a line, and nothing changes

The handlers are Python's own, not the event loop's: one takes the place of another in one step, so there is no moment
at which a signal's default action holds, and a handler runs also while a message.handler keeps the loop from turning.
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
IGNORED_BY_PYTHON = frozenset({"SIGPIPE", "SIGXFSZ"})  # a write fails instead
LEFT = CRASHES | ENDING_NOTHING | NOT_TO_BE_CAUGHT | IGNORED_BY_PYTHON
STOPS = (signal.SIGTERM, signal.SIGINT)


def name(number: int) -> str:
    """SIGTERM, SIGRTMIN+3."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def ending() -> Iterator[int]:
    """The signals whose default action would end the process, but for those of a crash and SIGKILL."""
    return (number for number in sorted(signal.valid_signals()) if name(number) not in LEFT)


def load() -> None:
    """What would end the process changes nothing while the program loads, but for SIGTERM, ctrl-C and a terminal that
    is closed: then nothing is held, and the end is wanted."""
    for number in ending():
        if number not in STOPS and not (number == signal.SIGHUP and sys.stderr.isatty()):
            signal.signal(number, _loading)


def _loading(number: int, frame: FrameType | None) -> None:
    write_stderr(f"mirrormaker: {name(number)} changes nothing\n".encode())


class Signals:
    """Those of one daemon, in the main thread.

    stop      called in a greenlet at the first SIGTERM, ctrl-C or SIGXCPU
    actions   what other signals do, each in a greenlet

    RUNNING   take(): as the module says
    DRAINED   drained(): nothing is left that a second SIGTERM could cut off; it changes nothing
    ENDED     end(code): a second SIGTERM does not wait for what user code does at the exit
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
        self._asked = 0  # to stop
        self._drained = False
        self._code: int | None = None

    def take(self) -> None:
        """Handle all signals from now on.  A handler that the module of a message.handler has set stays, except for
        SIGTERM and SIGINT."""
        from groundwork.tasks import wake_at_signals  # load() is called before gevent is loaded

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
        """Counts here and not in a greenlet: a second signal has to end also a mirror whose event loop is blocked."""
        self._asked += 1
        if self._code is not None:
            os._exit(self._code)
        if self._drained:
            return
        if self._asked == 1:
            self._tasks.signalled(name(number), self._stop)
            return
        from mirrormaker import exits  # loads more than the start of the program may

        why = "stopped at once by a second signal: what was not committed yet is sent again after the next start"
        self._at_once()
        write_now(__name__, logging.CRITICAL, why)
        os._exit(exits.TEMPORARY)

    def _out_of_time(self) -> None:
        """SIGXCPU comes each second of processor time, so it is never counted as a second request."""
        log.warning("SIGXCPU: the limit of processor time is reached (LimitCPU=, ulimit -t); the mirror stops in order")
        self._stop()


def _nothing(named: str) -> None:
    log.warning("%s changes nothing", named)


def _dump(number: int, frame: FrameType | None) -> None:
    """Written by the handler itself: what blocks the event loop is what the operator wants to see."""
    from groundwork.tasks import stacks  # loads gevent, which the start of the program may not

    write_now(__name__, logging.WARNING, "SIGQUIT: where each greenlet and thread stands", stacks())
