"""Bounded queue from a hub to the thread or greenlet that consumes what was fetched.

    put     in a greenlet of the hub; waits while the queued bytes and the new item would exceed the limit
    get     on the consuming side: a plain thread (ctrl-C interrupts it), or a greenlet of the same hub

An item larger than the limit is queued alone.  Queue message sets, never single messages: each item costs microseconds.

Invariant: a put waits only while something is queued (used > 0), so a later get always follows, and the get that leaves
half of the limit free wakes all waiting puts.  There is a token for every item; after `drop` there are more tokens than
items, and get skips the surplus.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from groundwork.forks import Forked, belongs_to_parent, not_in_a_fork
from groundwork.tasks import Empty, Event, now, real_thread

T = TypeVar("T")
STEP_S = 1.0


class Closed(Exception):
    """The queue is closed and empty; the reason, if there was one, is __cause__."""


class Tokens(Protocol):
    """Interface of the queue that get() waits on: InSteps in a plain thread, a hub's queue in a greenlet."""

    def put(self, item: None, /) -> Any: ...
    def get(self, block: bool = True, timeout: float | None = None) -> None: ...


class InSteps(Generic[T]):
    """A queue.SimpleQueue whose get() waits in steps.

    Python handles a signal when the main thread runs again, and one that comes just before a wait begins, or in another
    thread, does not end that wait: ctrl-C would be heeded with the next message.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[T] = queue.SimpleQueue()
        self.put = self._queue.put
        self.empty = self._queue.empty

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Return the next item; queue.Empty after `timeout` seconds."""
        until = None if timeout is None else now() + timeout
        while block:
            left = STEP_S if until is None else min(STEP_S, until - now())
            if left <= 0:
                break
            try:
                return self._queue.get(True, left)
            except Empty:
                continue
        return self._queue.get(False)


class BoundedQueue(Generic[T]):
    """Queue bounded in bytes, made by a hub's `bounded_queue`.

    limit_bytes  maximum of queued bytes
    tokens       see Tokens
    wake         makes the hub call .woken() soon; called from any thread, but not after .woken() ran on a closed queue
    thread_id    of the only thread that may get, as real_thread() names it; 0: any may
    """

    def __init__(
        self, limit_bytes: int, tokens: Tokens, wake: Callable[[], object] | None = None, thread_id: int = 0
    ) -> None:
        if limit_bytes < 1:
            raise ValueError(f"a queue needs room for a byte at least, not {limit_bytes}")
        self.limit_bytes = limit_bytes
        self.closed = False
        self._thread_id = thread_id
        self._items: deque[tuple[T, int]] = deque()
        self._used = 0
        self._tokens = tokens
        self._wake = wake or self.woken
        self._room = Event()
        self._hub_waits = False
        self._lock = threading.Lock()  # never held during a wait
        self._reason: BaseException | None = None
        self._forked = False
        not_in_a_fork(self)

    def _after_fork(self) -> None:
        """Refuse: nothing puts items into the queue of a child."""
        self._forked = True

    def __repr__(self) -> str:
        return f"<BoundedQueue of {self.queued_bytes} / {self.limit_bytes} bytes{', closed' if self.closed else ''}>"

    @property
    def may_get_here(self) -> bool:
        """True if the calling thread may get: a queue of a hub of greenlets wakes those of its own thread alone."""
        return self._thread_id in (0, real_thread())

    @property
    def queued_bytes(self) -> int:
        """Return the bytes of the items that were put and not yet got."""
        return self._used

    def put(self, item: T, nbytes: int) -> None:
        """Wait for room, then queue the item, which counts `nbytes`; for the hub side.  Raises Closed."""
        while True:
            with self._lock:
                if self.closed:
                    raise self._end()
                if not self._used or self._used + nbytes <= self.limit_bytes:
                    self._used += nbytes
                    self._items.append((item, nbytes))
                    self._tokens.put(None)
                    return
                self._room.clear()
                self._hub_waits = True
            self._room.wait()

    def get(self, timeout_s: float | None = None) -> T:
        """Return the next item, in order; for the consuming side.  Raises queue.Empty after `timeout_s`, Closed after
        the last item."""
        if self._forked:
            text = belongs_to_parent("the queue")
            raise Closed(text) from Forked(text)  # with a reason, so that it is reported as an error
        until = None if timeout_s is None else now() + timeout_s
        while True:
            self._tokens.get(True, None if until is None else max(0.0, until - now()))
            with self._lock:
                if self.closed:
                    self._tokens.put(None)  # no get() waits from now on
                if self._items:
                    item, nbytes = self._items.popleft()
                    self._free(nbytes)
                    return item
                if self.closed:
                    raise self._end()

    def drop(self, predicate: Callable[[T], bool]) -> list[T]:
        """Remove and return the items that match the predicate; the others keep their order.  From either side."""
        with self._lock:
            judged = [(item, nbytes, predicate(item)) for item, nbytes in self._items]
            self._items = deque((item, nbytes) for item, nbytes, goes in judged if not goes)
            self._free(sum(nbytes for _, nbytes, goes in judged if goes))
        return [item for item, _, goes in judged if goes]

    def close(self, reason: BaseException | None = None) -> None:
        """Close it, from either side: put raises Closed at once, get when the queue is empty.  Repeatable."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._reason = reason
            self._tokens.put(None)
            self._wake()  # the last wake-up: _free sends none after it

    def woken(self) -> None:
        """Wake waiting puts; runs in the hub when there is room, or when the queue is closed."""
        self._room.set()

    def _free(self, nbytes: int) -> None:
        self._used -= nbytes
        if self._hub_waits and not self.closed and self._used <= self.limit_bytes / 2:
            self._hub_waits = False
            self._wake()

    def _end(self) -> Closed:
        end = Closed("the queue is closed" + (f": {self._reason}" if self._reason else ""))
        end.__cause__ = self._reason
        return end


__all__ = ["BoundedQueue", "Closed", "Empty", "Forked", "InSteps", "Tokens"]
