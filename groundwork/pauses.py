"""A pause in a long computation, so that what else its event loop has to do is done meanwhile.  Knows no greenlet.

Who decodes what others sent calls `pause` every few milliseconds.  groundwork.tasks says what it does in a task;
elsewhere, in a plain thread, it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable

_pause: Callable[[], object] = lambda: None  # noqa: E731


def pause() -> None:
    """Let others run, if the caller is a task of an event loop."""
    _pause()


def pauses_are(made_by: Callable[[], object]) -> None:
    """Have `pause` call this."""
    global _pause
    _pause = made_by
