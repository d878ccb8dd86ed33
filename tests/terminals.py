"""Terminals that go away: what is written to them fails with EIO."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO


@contextmanager
def terminal() -> Iterator[tuple[TextIO, int]]:
    """A stream of a terminal, and the descriptor that its window has; it goes away when that is closed."""
    window, side = os.openpty()
    stream = os.fdopen(side, "w")
    try:
        yield stream, window
    finally:
        with suppress(OSError):
            os.close(window)
        with suppress(OSError):
            stream.close()
