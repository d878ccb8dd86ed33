"""Calls that block, in a few plain threads, which greenlets of any event loop may wait for.

gevent's own pool has ten threads for everything: twelve look-ups that hang keep every other call waiting.  And an event
loop that ends waits for that pool, however long a call of it hangs.  Here each purpose has a pool of its own, and
neither the end of an event loop nor the program's exit waits for a call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import gevent
import gevent.monkey
from gevent.event import Event

from groundwork.forks import not_in_a_fork
from groundwork.threads import NoThread, starting_threads

T = TypeVar("T")

# Of real threads, also where the program's are patched to be greenlets.
_allocate_lock: Callable[[], Any] = gevent.monkey.get_original("_thread", "allocate_lock")
_start_thread: Callable[..., Any] = gevent.monkey.get_original("_thread", "start_new_thread")


class PlainCall(Generic[T]):
    """A call that waits for a thread, runs in one, or is done."""

    def __init__(self, pool: PlainThreads, fn: Callable[[], T], name: str) -> None:
        self.done = False
        self._pool = pool
        self._fn = fn
        self._name = name
        self._value: T
        self._error: BaseException | None = None
        self._wakers: list[Any] = []  # a watcher of its event loop for each greenlet that waits

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait while other greenlets of the caller's event loop run; whether the call is done."""
        loop = gevent.get_hub().loop
        woken, waker = Event(), loop.async_()
        waker.start(woken.set)
        try:
            with self._pool.lock:
                if not self.done:
                    self._wakers.append(waker)
            if not self.done:
                loop.update_now()  # else the time-out would count from the loop's last event
                woken.wait(timeout_s)
        finally:
            with self._pool.lock:
                if waker in self._wakers:
                    self._wakers.remove(waker)
            waker.stop()
            waker.close()
        return self.done

    def result(self) -> T:
        """Return, or raise, what a call that is done has returned or raised."""
        if self._error is not None:
            raise self._error
        return self._value

    def run(self) -> None:
        """Make the call, in a thread of the pool."""
        try:
            self._value = self._fn()
        except BaseException as error:  # also SystemExit: the caller's, not the thread's
            self._error = error
        with self._pool.lock:
            self.end()

    def end(self, error: BaseException | None = None) -> None:
        """Wake who waits; with the pool's lock held."""
        self._error = self._error or error
        self.done = True
        self._pool.named.pop(self._name, None)
        for waker in self._wakers:
            try:
                waker.send()
            except Exception:
                pass  # its event loop has ended


class PlainThreads:
    """At most `limit` threads.  They start as calls come, and end when none is left."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reset()
        not_in_a_fork(self)

    def _after_fork(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Begin again, as in a child process, which has none of the threads."""
        self.lock = (
            _allocate_lock()
        )  # held for a few steps, and over the send() to a loop, so that none follows close()
        self.named: dict[str, PlainCall[Any]] = {}  # calls that are not done, by name
        self._queue: deque[PlainCall[Any]] = deque()
        self._threads = 0

    def begin(self, fn: Callable[[], T], name: str = "") -> PlainCall[T]:
        """Queue fn() for the next free thread.  Of a name there is one call at a time: who begins it meanwhile gets
        the same one.  If there is no thread and none can be started, the call is done, with NoThread."""
        with self.lock:
            if (call := self.named.get(name)) is not None:
                return call
            call = PlainCall(self, fn, name)
            if name:
                self.named[name] = call
            self._queue.append(call)
            if self._threads == self._limit:
                return call
            self._threads += 1
        try:
            with starting_threads():
                _start_thread(self._work, ())
        except NoThread as error:
            with self.lock:
                self._threads -= 1
                if self._threads == 0 and call in self._queue:  # else a thread takes it, or has taken it
                    self._queue.remove(call)
                    call.end(error)
        return call

    def apply(self, fn: Callable[[], T], within_s: float | None = None) -> T:
        """Return, or raise, what fn() returns or raises in a thread.  A caller that is killed before a thread is free
        takes the call back; else the call runs to its end, also where it takes longer than within_s: TimeoutError.
        """
        call = self.begin(fn)
        try:
            done = call.wait(within_s)
        except BaseException:
            with self.lock:
                if call in self._queue:
                    self._queue.remove(call)
            raise
        if not done:
            raise TimeoutError(f"it took longer than {within_s:g} s")
        return call.result()

    def _work(self) -> None:
        while True:
            with self.lock:
                if not self._queue:
                    self._threads -= 1
                    return
                call = self._queue.popleft()
            call.run()
            del call  # and what it holds
