"""The background thread of a group coordinator: loads, unloads, expiry and ends of transactions, one after the other.

A long load delays all that stands behind it (broker-model-coordinators.md 1.2).  A release whose coordinator has no
such thread runs each task when it comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

Task = tuple[Callable[[], float], Callable[[], object]]


class Background:
    """after: calls a function of this broker some seconds later.  start_s: until an idle thread begins a task."""

    __slots__ = ("_after", "_busy", "_tasks", "one_thread", "start_s")

    def __init__(self, after: Callable[..., object], one_thread: bool, start_s: float = 0.002) -> None:
        self._after = after
        self._busy = False
        self._tasks: deque[Task] = deque()
        self.one_thread = one_thread
        self.start_s = start_s

    def run(self, begin: Callable[[], float], finish: Callable[[], object] = lambda: None) -> None:
        """begin() says how many seconds the task takes; finish() is called when they have passed."""
        if not self.one_thread:
            self._after(self.start_s, self._begin, (begin, finish), False)
            return
        self._tasks.append((begin, finish))
        if not self._busy:
            self._busy = True
            self._after(self.start_s, self._next)

    def _next(self) -> None:
        if self._tasks:
            self._begin(self._tasks.popleft(), True)
        else:
            self._busy = False

    def _begin(self, task: Task, queued: bool) -> None:
        seconds = task[0]()
        if seconds > 0:
            self._after(seconds, self._finish, task, queued)
        else:
            self._finish(task, queued)

    def _finish(self, task: Task, queued: bool) -> None:
        task[1]()
        if queued:
            self._next()


def call(fn: Callable[..., object], *args: Any) -> Callable[[], float]:
    """A task that takes no time worth counting."""

    def begin() -> float:
        fn(*args)
        return 0.0

    return begin
