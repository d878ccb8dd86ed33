"""The way into a hub from other threads: functions to be run there, and the answers callers wait for.  Hubs only."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import gevent
from gevent.greenlet import Greenlet

from groundwork.crew import GreenletExit


class HubStopped(RuntimeError):
    """The hub does not run (any more, or not in this process), so nothing can be asked of it."""


class Job:
    """A function on its way into the hub; `answer` gets (value, None) or (None, exception), unless nobody waits."""

    __slots__ = ("answer", "args", "fn")

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        answer: queue.SimpleQueue[tuple[Any, BaseException | None]] | None = None,
    ) -> None:
        self.fn = fn
        self.args = args
        self.answer = answer


class Inbox:
    """What comes into a hub from outside.  Opened and closed in the hub's thread; post and call come from any."""

    def __init__(self, on_error: Callable[[str, BaseException], object]) -> None:
        self.on_error = on_error
        self.why_closed = "the hub is not started"
        self.reason: BaseException | None = None
        self.thread_id = 0
        self._pid = 0
        self._jobs: deque[Job] = deque()
        self._running: dict[Greenlet[..., Any], Job] = {}
        self._lock = threading.Lock()  # async_ is sent to under it, so that close() can be sure of the last time
        self._open = False

    def open(self, keeps_loop: bool) -> None:
        self._async = gevent.get_hub().loop.async_(ref=keeps_loop)
        self._async.start(self._take)
        self.thread_id = threading.get_ident()
        self._pid = os.getpid()
        self._open = True

    def must_be_open(self) -> None:
        if self._open and os.getpid() != self._pid:
            raise HubStopped(
                "this process was forked after the hub had started: its thread stayed behind, start afresh"
            )
        if not self._open:
            raise HubStopped(self.why_closed) from self.reason

    def here(self) -> bool:
        """Does the caller run in the hub's own thread?"""
        return threading.get_ident() == self.thread_id

    def give(self, job: Job) -> None:
        with self._lock:
            self.must_be_open()
            self._jobs.append(job)
            self._async.send()

    def _take(self) -> None:
        while self._jobs:
            job = self._jobs.popleft()
            greenlet: Greenlet[..., Any] = Greenlet(self._run, job)
            self._running[greenlet] = job
            greenlet.rawlink(self._forget)
            greenlet.start()

    def _forget(self, greenlet: Greenlet[..., Any]) -> None:
        self._running.pop(greenlet, None)

    def _run(self, job: Job) -> None:
        try:
            value = job.fn(*job.args)
        except GreenletExit:
            self._refuse(job)
        except BaseException as exc:
            if job.answer is not None:
                job.answer.put((None, exc))
            else:
                self.on_error(getattr(job.fn, "__qualname__", repr(job.fn)), exc)
        else:
            if job.answer is not None:
                job.answer.put((value, None))

    def _refuse(self, job: Job) -> None:
        if job.answer is not None:
            stopped = HubStopped(self.why_closed)
            stopped.__cause__ = self.reason
            job.answer.put((None, stopped))

    def close(self, why: str, reason: BaseException | None = None) -> None:
        """Nothing comes in from here on; whoever waits for an answer gets HubStopped."""
        with self._lock:
            self._open, self.why_closed, self.reason = False, why, reason
        left, self._jobs = self._jobs, deque()
        for job in [*left, *self._running.values()]:
            self._refuse(job)
        gevent.killall(list(self._running), block=False)
        self._async.stop()
        self._async.close()
