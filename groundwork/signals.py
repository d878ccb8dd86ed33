"""Signals in the last moments of a program, when all is done and the exit code is known: they change nothing.

Early in its exit Python gives each signal that has a handler its default action back, and it needs up to a tenth of a
second more: a second SIGTERM that comes then would end by the signal a program that has done all it was to do.  What
is ignored stays ignored.
"""

from __future__ import annotations

import atexit
import signal
from collections.abc import Iterable

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def ignore_at_exit(numbers: Iterable[int] = STOPS) -> None:
    """Ignore these signals from the last function of the interpreter's exit on.  Call it first: what is registered
    first is called last."""
    atexit.register(_ignore, tuple(numbers))


def _ignore(numbers: tuple[int, ...]) -> None:
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
