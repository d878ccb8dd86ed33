"""Delivery callbacks: called one after the other, beside the hub, so that a slow one delays nothing but the next."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from groundwork.crew import Crew, Event, Queue
from groundwork.failures import Failures
from groundwork.hub import PlainQueue, start_plain_thread
from producer.delivery import Called, Delivery, Listener
from producer.errors import raised_by_users
from producer.handlers import Promise

log = logging.getLogger(__name__)


class Callbacks:
    """own: the hub has a thread of its own, and callbacks get another one; else they run in a greenlet of the hub.

    failed counts those that raised; the first such error is in .first.  One that never returns holds up all after it:
    close() tells how many were not called.
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
        self._waiting = 0  # callbacks not begun yet
        self._here: Callable[[], bool] = lambda: False  # whether the caller is one of them
        self._starting = threading.Lock()

    def call(self, called: Called) -> None:
        """Have them called.  Does not wait.  Promises are settled before it returns."""
        called = [row for listener, delivery in called for row in _unfolded(listener, delivery)]
        if not called:
            return
        with self._starting:
            self._start()
            self._waiting += len(called)
        self._jobs.put(called)

    def start(self) -> None:
        """Be ready; call() does it when need be.  At the interpreter's end it is too late for a new thread."""
        with self._starting:
            self._start()

    def _start(self) -> None:
        if not self._running:
            self._running = True
            if self._own:
                start_plain_thread(self._live)
            else:
                self._here = Crew().spawn("deliveries", self._live).here

    def close(self, timeout_s: float) -> bool:
        """Let those that wait be called, then end; False: not within the time, or it is one of them that asks."""
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
        if self._own:
            me = threading.get_ident()
            self._here = lambda: threading.get_ident() == me
        while (called := self._jobs.get()) is not None:
            for listener, delivery in called:
                with self._starting:
                    self._waiting -= 1
                try:
                    listener(delivery)
                except self._theirs as exc:
                    self.failed += 1
                    self.first = self.first or exc
                    self._failures.raised(exc, repr(delivery))
        self._failures.tell(all_of_it=True)
        self._ended.set()


def _unfolded(listener: Listener, delivery: Delivery) -> Called:
    return listener(delivery) if isinstance(listener, Promise) else [(listener, delivery)]
