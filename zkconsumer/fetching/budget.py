"""Bytes of memory, counted: one bound for everything a connector fetched and is not done with, from the request on.

A lane is one stream's part of it.  A stream whose reader stands still fills its own lane and no more: the other
streams go on.  Counting is done on both sides of a queue, so it has a lock, never held while anybody waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Budget:
    """limit bytes for all lanes together.  on_room() is called when bytes were given back, by who did it."""

    def __init__(self, limit: int, on_room: Callable[[], None] = lambda: None) -> None:
        self.limit = limit
        self.used = 0
        self._on_room = on_room
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)

    def lane(self, lanes: int) -> Lane:
        """One of so many lanes."""
        return Lane(self, self.limit // max(1, lanes))


class Lane:
    """One stream's part of a budget."""

    def __init__(self, budget: Budget, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._budget = budget

    def fits(self, nbytes: int) -> bool:
        """An empty lane takes anything: a message larger than the lane has to come through too."""
        return self.used == 0 or self.used + nbytes <= self.limit

    def take(self, nbytes: int) -> None:
        with self._budget._lock:
            self.used += nbytes
            self._budget.used += nbytes

    def give_back(self, nbytes: int) -> None:
        if nbytes:
            with self._budget._lock:
                self.used -= nbytes
                self._budget.used -= nbytes
            self._budget._on_room()
