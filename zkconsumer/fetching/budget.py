"""Memory budget of a connector: one bound for all bytes that are fetched and not done, from the request on.

Each stream has its own part.  A stream whose reader stops fills its part and no more: the other streams continue.
Fetchers and readers count in different threads, so there is a lock; no thread waits while it holds it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Budget:
    """limit bytes for all streams together.  on_release() is called after bytes were released, in the same thread."""

    def __init__(self, limit: int, on_release: Callable[[], None] = lambda: None) -> None:
        self.limit = limit
        self.used = 0
        self._on_release = on_release
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)

    def for_stream(self, streams: int) -> StreamBudget:
        """The part of one of so many streams."""
        return StreamBudget(self, self.limit // max(1, streams))


class StreamBudget:
    """One stream's part of a budget."""

    def __init__(self, budget: Budget, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._budget = budget

    @property
    def of_all(self) -> int:
        """The limit of all streams together."""
        return self._budget.limit

    def fits(self, nbytes: int, beside: int = 0) -> bool:
        """Whether there is room beside what is about to be reserved.  An empty part takes anything: a message larger
        than the part has to come through, too."""
        used = self.used + beside
        return used == 0 or used + nbytes <= self.limit

    def reserve(self, nbytes: int) -> None:
        with self._budget._lock:
            self.used += nbytes
            self._budget.used += nbytes

    def release(self, nbytes: int) -> None:
        if nbytes:
            with self._budget._lock:
                self.used -= nbytes
                self._budget.used -= nbytes
            self._budget._on_release()
