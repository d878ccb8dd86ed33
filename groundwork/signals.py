"""Signals at the beginning and at the end of a program.

Loading the commands of a program takes a good part of a second.  Ctrl-C in that time would print the traceback of some
import; instead it prints one word and ends the process, which holds nothing yet.

At the end the work is done and the exit code is known, so signals are ignored.  Early in its exit Python restores the
default action of each signal that has a handler, and then runs for up to a tenth of a second more.  A second SIGTERM in
that time would kill a program that had finished its work.  Signals that are ignored stay ignored.

Standard error that cannot be flushed then, as at a terminal that is gone, would change the exit code: see
groundwork.streams.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from groundwork.openfiles import fill_standard_files
from groundwork.streams import discard, write_stderr

INTERRUPTED = 130  # exit code after ctrl-C
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def loading() -> Iterator[None]:
    """Let ctrl-C end the process at once in the block; after it, commands release what they hold."""
    load_quietly()
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


def load_quietly(ending: Iterable[int] = STOPS) -> None:
    """Let ctrl-C end the process at once until another handler takes over.  ending: signals to ignore at the exit."""
    fill_standard_files()
    ignore_at_exit(ending)
    signal.signal(signal.SIGINT, _interrupted)


def _interrupted(number: int, frame: FrameType | None) -> None:
    write_stderr(b"interrupted\n")
    os._exit(INTERRUPTED)


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
