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


class Pace:
    """Pauses of a computation of many steps, one after each `steps` of them."""

    __slots__ = ("_paused_at", "_steps")

    def __init__(self, steps: int) -> None:
        """Create a pace.  steps: between pauses; they should take a few milliseconds."""
        self._steps = steps
        self._paused_at = 0

    def reached(self, step: int) -> None:
        """Pause if `steps` steps were made since the last pause."""
        if step - self._paused_at >= self._steps:
            self._paused_at = step
            pause()
