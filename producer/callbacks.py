"""Delivery callbacks, called one after the other outside the event loop, so that a slow one delays only later ones."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from groundwork.failures import Failures
from groundwork.hub import PlainQueue, start_plain_thread
from groundwork.tasks import Event, Queue, TaskGroup
from producer.delivery import Calls, Delivery, Listener, Promise
from producer.errors import raised_by_users

log = logging.getLogger(__name__)


def start_beside(name: str, run: Callable[[], object], own: bool) -> Callable[[], bool]:
    """Start run() in a plain thread (own), or in a greenlet of the caller's hub.  Return a function that is True in it.

    Raises NoThread.
    """
    if not own:
        return TaskGroup().spawn(name, run).here
    idents: list[int] = []

    def live() -> None:
        idents.append(threading.get_ident())
        run()

    start_plain_thread(live)
    return lambda: threading.get_ident() in idents


class Callbacks:
    """Queue of delivery callbacks, and the thread or greenlet that calls them (own: a thread, as for the event loop).

    failed: number of callbacks that raised; first: the first error.  A callback that never returns blocks all after it;
    close() logs their number.
    """

    def __init__(self, own: bool) -> None:
        self.failed = 0
        self.first: BaseException | None = None
        self._failures = Failures(log, "a delivery callback")
        self._theirs = raised_by_users(own)
        self._own = own
        self._jobs: Any = PlainQueue() if own else Queue()
        self._ended: Any = threading.Event() if own else Event()
        self._running = False
        self._waiting = 0  # callbacks not called yet
        self._here: Callable[[], bool] = lambda: False  # True if called by a callback
        self._starting = threading.Lock()

    def call(self, calls: Calls) -> None:
        """Queue callbacks, without waiting.  Promises are completed before it returns."""
        calls = [call for listener, delivery in calls for call in _unfolded(listener, delivery)]
        if not calls:
            return
        with self._starting:
            self._start()
            self._waiting += len(calls)
        self._jobs.put(calls)

    def start(self) -> None:
        """Start the thread or greenlet.  Raises NoThread.

        call() would start it, too, but not during the interpreter's exit, nor once no thread can be created any more.
        """
        with self._starting:
            self._start()

    def _start(self) -> None:
        if not self._running:
            self._here = start_beside("deliveries", self._live, self._own)
            self._running = True

    def close(self, timeout_s: float) -> bool:
        """Call the waiting callbacks, then end; False after timeout_s, or when a callback calls close()."""
        if not self._running:
            return True
        self._jobs.put(None)
        if self._here():
            return False
        if self._ended.wait(timeout_s):
            return True
        log.error("a delivery callback did not return in time; %d others were not called", self._waiting)
        return False

    def _live(self) -> None:
        while (calls := self._jobs.get()) is not None:
            for listener, delivery in calls:
                with self._starting:
                    self._waiting -= 1
                try:
                    listener(delivery)
                except self._theirs as exc:
                    self.failed += 1
                    self.first = self.first or exc
                    self._failures.raised(exc, repr(delivery))
        self._failures.tell(final=True)
        self._ended.set()


def _unfolded(listener: Listener, delivery: Delivery) -> Calls:
    return listener(delivery) if isinstance(listener, Promise) else [(listener, delivery)]
