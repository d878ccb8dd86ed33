"""Appends to one partition that are not acknowledged yet, and who waits for those before them.

The new coordinator (4.0) answers a request that wrote nothing only when all that was written before it is replicated,
or with an error after five seconds (broker-model-coordinators.md 1.3, 2.5, 3.7).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count


class Writes:
    __slots__ = ("_numbers", "_open", "_waiting")

    def __init__(self) -> None:
        self._numbers = count(1)
        self._open: dict[int, None] = {}  # in the order of their appends
        self._waiting: list[tuple[int, Callable[[], object]]] = []

    def begin(self) -> int:
        number = next(self._numbers)
        self._open[number] = None
        return number

    def settled(self, number: int) -> None:
        self._open.pop(number, None)
        first = next(iter(self._open), None)
        ready = [row for row in self._waiting if first is None or row[0] < first]
        if ready:
            self._waiting = [row for row in self._waiting if row not in ready]
            for _, go_on in ready:
                go_on()

    def wait(self, go_on: Callable[[], object]) -> bool:
        """Whether anything is open; then go_on() is called once that is settled."""
        if not self._open:
            return False
        self._waiting.append((next(reversed(self._open)), go_on))
        return True
