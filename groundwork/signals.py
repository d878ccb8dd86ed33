"""Signals at the end of a program, when its work is done and its exit code is known: they are ignored.

Early in its exit Python restores the default action of each signal that has a handler, and then runs for up to a tenth
of a second more.  A second SIGTERM in that time would kill a program that had finished its work.  Signals that are
ignored stay ignored.

Standard error that cannot be flushed then, as at a terminal that is gone, would change the exit code: see
groundwork.streams.
"""

from __future__ import annotations

import atexit
import signal
import sys
from collections.abc import Iterable

from groundwork.streams import discard

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def ignore_at_exit(numbers: Iterable[int] = STOPS) -> None:
    """Ignore these signals from the last atexit function on, and a standard error that cannot be written.

    Call it early: what is registered first runs last.
    """
    atexit.register(_ignore, tuple(numbers))


def _ignore(numbers: tuple[int, ...]) -> None:
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
    if sys.stderr is not None:
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            discard(sys.stderr)
