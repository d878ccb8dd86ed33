"""Terminals that go away: what is written to them fails with EIO."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO


@contextmanager
def terminal() -> Iterator[tuple[TextIO, int]]:
    """A stream of a terminal, and the descriptor that its window has, for leave()."""
    window, side = os.openpty()
    stream = os.fdopen(side, "w")
    try:
        yield stream, window
    finally:
        os.close(window)
        with suppress(OSError):
            stream.close()


def leave(window: int) -> None:
    """The terminal goes away.  Its descriptor stays in use: another thread's file would get the number."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, window)
    os.close(nothing)
