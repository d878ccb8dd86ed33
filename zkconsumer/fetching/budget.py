"""Memory budget of a connector: one bound for all bytes that are fetched and not done, counted from the request.

Each stream has its own part.  A stream whose reader stops fills only its part: the other streams continue.  Within a
part each partition has a share (shares.py): waiting partitions do not stop the others.  Fetchers and readers count in
different threads, so there is a lock; no thread waits while it holds it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from groundwork.tasks import now
from zkconsumer.fetching.shares import Holding, Offer, Saving, Shares


class Budget:
    """Budget of all streams together, in bytes.  on_release() is called after bytes were released, in the same
    thread."""

    def __init__(self, limit: int, on_release: Callable[[], None] = lambda: None) -> None:
        self.limit = limit
        self.used = 0
        self._on_release = on_release
        self._saving = Saving()
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)

    def for_stream(self, streams: int) -> StreamBudget:
        """Return one stream's part of the budget, for this number of streams."""
        return StreamBudget(self, self.limit // max(1, streams))


class StreamBudget:
    """One stream's part of a budget, divided among its partitions."""

    def __init__(self, budget: Budget, limit: int) -> None:
        self.limit = limit
        self._budget = budget
        self._shares = Shares(limit, budget._saving)

    @property
    def used(self) -> int:
        return self._shares.used

    @property
    def of_all(self) -> int:
        """Return the limit of all streams together."""
        return self._budget.limit

    @property
    def slot(self) -> int:
        """Return the bytes that each partition may take, whatever the others hold."""
        return self._shares.slot

    def offer(self) -> Offer:
        """Return how much a fetch may request now."""
        with self._budget._lock:
            return self._shares.offer(now())

    # partitions -------------------------------------------------------------------------------------------------------

    def open(self) -> Holding:
        """Add a partition, and return what it holds.  close() removes it."""
        with self._budget._lock:
            return self._shares.open()

    def close(self, holding: Holding) -> None:
        with self._budget._lock:
            self._shares.close(holding)

    def ask(self, asked: Iterable[tuple[Holding, int]]) -> None:
        """Reserve the bytes that a request may return."""
        with self._budget._lock:
            for holding, nbytes in asked:
                self._shares.ask(holding, nbytes)
                self._budget.used += nbytes

    def answered(self, asked: Iterable[tuple[Holding, int]]) -> None:
        """Release what ask() reserved: the response came, or never will."""
        with self._budget._lock:
            for holding, nbytes in asked:
                self._shares.answered(holding, nbytes)
                self._budget.used -= nbytes
        self._budget._on_release()

    def take(self, holding: Holding, nbytes: int) -> None:
        """Count the bytes of a fetched set."""
        if nbytes:
            with self._budget._lock:
                self._shares.take(holding, nbytes, now())
                self._budget.used += nbytes

    def give_back(self, holding: Holding, nbytes: int) -> None:
        """Release bytes that are done or dropped."""
        if nbytes:
            with self._budget._lock:
                self._shares.give_back(holding, nbytes, now())
                self._budget.used -= nbytes
            self._budget._on_release()

    def larger(self, nbytes: int) -> None:
        """Record by how many bytes a response was larger than requested."""
        with self._budget._lock:
            self._shares.larger(nbytes)

    # resting partitions -----------------------------------------------------------------------------------------------

    def free_for_resting(self, partitions: int) -> int:
        """Return how many bytes this number of partitions, which hold nothing, may request together."""
        return self._shares.free_for(partitions, now())

    def reserve(self, nbytes: int) -> None:
        """Reserve the bytes that a request may return for resting partitions."""
        self._set_aside(nbytes)

    def release(self, nbytes: int) -> None:
        if nbytes:
            self._set_aside(-nbytes)
            self._budget._on_release()

    def _set_aside(self, nbytes: int) -> None:
        with self._budget._lock:
            self._shares.set_aside(nbytes)
            self._budget.used += nbytes
