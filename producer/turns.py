"""Schedule of the queues of target partitions: which are due now, in order, and when the others are.  Pure.

Each queue has a due time or none (empty, or in flight).  Queues that are not due are in a heap and not visited: finding
the next batch costs time for due queues only.

    ready   due, the longest ready one first
    later   not due yet
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")


class Turns(Generic[K]):
    """Due times by key.  Times given to pass_to() never go back."""

    def __init__(self) -> None:
        self.ready: dict[K, float] = {}  # with their due times
        self._later: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []  # entries whose due time differs from _later are outdated
        self._entries = 0
        self._now = float("-inf")

    def set(self, key: K, due_at: float | None) -> None:
        """Set the due time of a key; None: nothing to send.  A key that is ready and stays due keeps its place."""
        if due_at is None:
            self.ready.pop(key, None)
            self._later.pop(key, None)
        elif key in self.ready and due_at <= self._now:
            self.ready[key] = due_at
        elif self._later.get(key) != due_at:
            self.ready.pop(key, None)
            self._later[key] = due_at
            self._entries += 1
            heapq.heappush(self._heap, (due_at, self._entries, key))

    def pass_to(self, now: float) -> None:
        """Advance the time: due keys become ready."""
        self._now = max(now, self._now)
        while self._heap and self._heap[0][0] <= now:
            due_at, _, key = heapq.heappop(self._heap)
            if self._later.get(key) == due_at:
                del self._later[key]
                self.ready[key] = due_at

    def next(self, wanted: Callable[[K], bool]) -> float | None:
        """Return the due time of the first wanted key, which may be past; None: none is wanted."""
        for key, due_at in self.ready.items():
            if wanted(key):
                return due_at
        while self._heap and self._later.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if self._heap and wanted(self._heap[0][2]):
            return self._heap[0][0]
        return min((due_at for key, due_at in self._later.items() if wanted(key)), default=None)

    def __repr__(self) -> str:
        return f"<Turns of {len(self.ready)} ready, {len(self._later)} later>"
