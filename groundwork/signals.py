"""Signals of programs: what a handler writes, and the end, when the work is done and the exit code is known.

Early in its exit Python restores the default action of each signal that has a handler, and then runs for up to a tenth
of a second more.  A second SIGTERM in that time would kill a program that had finished its work.  Signals that are
ignored stay ignored.

It also flushes standard error, and ends with 120 where that fails, as at a terminal that is gone (EIO).
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def ignore_at_exit(numbers: Iterable[int] = STOPS) -> None:
    """Ignore these signals from the last atexit function on, and a standard error that cannot be written.

    Call it early: what is registered first runs last.
    """
    atexit.register(_ignore, tuple(numbers))


def _ignore(numbers: tuple[int, ...]) -> None:
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, sys.stderr.fileno())
            os.close(nothing)


def write_stderr(data: bytes) -> None:
    """Write to standard error from a signal handler, or a thread that must go on.

    A terminal that is gone, or a pipe without a reader, takes nothing: what follows the line matters more.
    """
    with suppress(OSError):
        os.write(2, data)
