"""An iterator run ahead by a thread of its own, as far as a bound of bytes allows."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
JOIN_S = 10.0


def ahead(
    items: Iterator[T], most_bytes: int, weight: Callable[[T], int], stop: Callable[[], None]
) -> Generator[T, None, None]:
    """The same items in the same order; what the iterator raises is raised where it comes.

    The thread waits while what it holds weighs most_bytes or more.  When this generator is closed, or dropped, `stop`
    is called from here: it has to wake whatever the iterator waits for.  Then the thread is waited for.
    """
    runner = _Runner(items, most_bytes, weight)
    try:
        runner.thread.start()
        while True:
            got = runner.take()
            if got is None:
                break
            yield got[0]
        if runner.error is not None:
            raise runner.error
    finally:
        runner.end()
        stop()
        runner.thread.join(JOIN_S)


class _Runner(Generic[T]):
    """The thread and what it holds.  ended: nobody takes any more."""

    def __init__(self, items: Iterator[T], most_bytes: int, weight: Callable[[T], int]) -> None:
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="kafka08-read-ahead", daemon=True)
        self._items = items
        self._most, self._weight = most_bytes, weight
        self._held: deque[tuple[T, int]] = deque()
        self._bytes = 0
        self._done = self._ended = False
        self._changed = threading.Condition()

    def take(self) -> tuple[T, int] | None:
        """The next item; None: there is none, or an error."""
        with self._changed:
            self._changed.wait_for(lambda: self._held or self._done)
            if not self._held:
                return None
            item = self._held.popleft()
            self._bytes -= item[1]
            self._changed.notify()
            return item

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._held.clear()
            self._changed.notify()

    def _run(self) -> None:
        try:
            for item in self._items:
                if not self._put(item):
                    return
        except BaseException as error:
            self.error = error
        finally:
            with self._changed:
                self._done = True
                self._changed.notify()

    def _put(self, item: T) -> bool:
        weight = self._weight(item)
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._bytes < self._most)
            if self._ended:
                return False
            self._held.append((item, weight))
            self._bytes += weight
            self._changed.notify()
            return True
