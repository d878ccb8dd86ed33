"""Bounded queue from a hub to the thread or greenlet that uses what was fetched.

    put     in a greenlet of the hub; waits while what is on the way and the new item would be more than the limit
    get     on the user's side: a plain thread (ctrl-C reaches it), or a greenlet where both sides share a hub

An item larger than the limit goes through alone.  Hand over sets, never single messages: a turn costs microseconds.

The invariant behind the waiting: a putter waits only while something is on the way (used > 0), so a later get always
comes, and the get that leaves half of the limit free wakes all putters.  There is a token for every item; after `drop`
there are more tokens than items, and a getter passes the surplus over.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from groundwork.tasks import Empty, Event, now

T = TypeVar("T")


class Closed(Exception):
    """Nothing more will come through this queue; the reason, if there was one, is __cause__."""


class Forked(RuntimeError):
    """Asked in a process that was forked off after the queue was made: the hub stayed behind."""


class Tokens(Protocol):
    """What getters wait on: queue.SimpleQueue in a plain thread, a hub's queue in a greenlet."""

    def put(self, item: None, /) -> Any: ...
    def get(self, block: bool = True, timeout: float | None = None) -> None: ...


class BoundedQueue(Generic[T]):
    """Made by a hub's `bounded_queue`.

    limit_bytes  how much may be on the way
    tokens       see Tokens
    wake         makes the hub call .woken() soon; called from any thread, never again once .woken() has seen the end
    """

    def __init__(self, limit_bytes: int, tokens: Tokens, wake: Callable[[], object] | None = None) -> None:
        if limit_bytes < 1:
            raise ValueError(f"a queue needs room for a byte at least, not {limit_bytes}")
        self.limit_bytes = limit_bytes
        self.closed = False
        self._items: deque[tuple[T, int]] = deque()
        self._used = 0
        self._tokens = tokens
        self._wake = wake or self.woken
        self._room = Event()
        self._hub_waits = False
        self._lock = threading.Lock()  # never held over a wait
        self._reason: BaseException | None = None
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"<BoundedQueue of {self.queued_bytes} / {self.limit_bytes} bytes{', closed' if self.closed else ''}>"

    @property
    def queued_bytes(self) -> int:
        """Put and not yet got."""
        return self._used

    def put(self, item: T, nbytes: int) -> None:
        """Hub side: count `nbytes` and pass the item on, waiting for room first.  Raises Closed."""
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
        """User's side: the next item in order of the puts.  queue.Empty after `timeout_s`, Closed after the last."""
        if os.getpid() != self._pid:
            text = "this process was forked off the one that fetches: nothing comes through here, start afresh"
            raise Closed(text) from Forked(text)  # with a reason: it is no quiet end
        until = None if timeout_s is None else now() + timeout_s
        while True:
            self._tokens.get(True, None if until is None else max(0.0, until - now()))
            with self._lock:
                if self.closed:
                    self._tokens.put(None)  # no getter waits from now on
                if self._items:
                    item, nbytes = self._items.popleft()
                    self._free(nbytes)
                    return item
                if self.closed:
                    raise self._end()

    def drop(self, predicate: Callable[[T], bool]) -> list[T]:
        """Take out the items for which predicate(item) is true, from either side; the others keep their order."""
        with self._lock:
            judged = [(item, nbytes, predicate(item)) for item, nbytes in self._items]
            self._items = deque((item, nbytes) for item, nbytes, goes in judged if not goes)
            self._free(sum(nbytes for _, nbytes, goes in judged if goes))
        return [item for item, _, goes in judged if goes]

    def close(self, reason: BaseException | None = None) -> None:
        """From either side: puts raise Closed now, gets once nothing is left.  A second close changes nothing."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._reason = reason
            self._tokens.put(None)
            self._wake()  # the last one: _free sends none any more

    def woken(self) -> None:
        """Runs in the hub: there is room, or it is closed."""
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


__all__ = ["BoundedQueue", "Closed", "Empty", "Forked", "Tokens"]
