"""Executor for calls that would block a hub (fsync, drivers without greenlets): one thread that runs them in order."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from groundwork.hub import Hub, HubStopped, PlainQueue, start_plain_thread
from groundwork.sockets import GAP_S
from groundwork.tasks import Event, now

log = logging.getLogger(__name__)
T = TypeVar("T")


class Executor(Protocol):
    """Runs calls one after the other, in the order in which they are given."""

    def call(self, fn: Callable[..., T], *args: Any) -> T:
        """Run fn(*args) and wait; returns or raises what it does."""

    def call_within(self, seconds: float, what: str, fn: Callable[..., T], *args: Any) -> T:
        """Run fn(*args) and wait.  Raises TimeoutError, which names `what`, where one call takes longer than `seconds`:
        this one, or one that is queued before it.  The call still runs then, and its result is dropped."""

    def post(self, fn: Callable[..., object], *args: Any) -> None:
        """Run fn(*args), which raises nothing, perhaps later."""


class AtOnce:
    """Executor that runs each call where it is made, for programs without a hub."""

    def call(self, fn: Callable[..., T], *args: Any) -> T:
        return fn(*args)

    def call_within(self, seconds: float, what: str, fn: Callable[..., T], *args: Any) -> T:
        return fn(*args)

    def post(self, fn: Callable[..., object], *args: Any) -> None:
        fn(*args)


class _Job:
    """A queued or running call; `done` is set in the hub; None: no caller waits."""

    __slots__ = ("args", "done", "error", "fn", "value")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], done: Any) -> None:
        self.fn = fn
        self.args = args
        self.value: Any = None
        self.error: Exception | None = None
        self.done = done

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class ThreadExecutor:
    """Runs calls one after the other in one thread, which starts with the first call; the program's exit does not wait.

    on_slow(seconds) is called in the hub each time a caller has waited for another slow_s.
    """

    def __init__(
        self, hub: Hub, slow_s: float = 30.0, on_slow: Callable[[float], object] = lambda seconds: None
    ) -> None:
        self._hub = hub
        self._slow_s = slow_s
        self._on_slow = on_slow
        self._jobs: Any = PlainQueue()
        self._started = False
        self._closed = False
        self._begun_at = 0.0  # when the newest call that runs, or ran, was begun

    def call(self, fn: Callable[..., T], *args: Any) -> T:
        """Run fn(*args) in the thread while other greenlets of the hub run; returns or raises what it does.

        When the caller is killed (by a deadline, for example) the call runs to its end and its result is dropped.
        Raises HubStopped after close(); NoThread when the thread cannot be started, which the next call tries again.
        """
        job = _Job(fn, args, Event())
        self._queue(job)
        began = now()
        # The timeout is also needed because only a timer keeps the loop of a caller's hub running: Hub.post does not.
        while not job.done.wait(timeout=self._slow_s):
            self._on_slow(now() - began)
        return cast(T, job.result())

    def call_within(self, seconds: float, what: str, fn: Callable[..., T], *args: Any) -> T:
        """Run fn(*args) as call() does, allowing `seconds` for each call, this one and those queued before it."""
        job = _Job(fn, args, Event())
        began, stopped = now(), False
        self._queue(job)
        while not job.done.wait(timeout=max(0.0, max(began, self._begun_at) + seconds - now())):
            if now() < max(began, self._begun_at) + seconds:
                continue
            if not stopped and now() > max(began, self._begun_at) + seconds + GAP_S:
                began, stopped = now(), True  # this process did not run, nor did the thread: the time begins again
            else:
                raise TimeoutError(f"{what} took longer than {seconds:g} s")
        return cast(T, job.result())

    def post(self, fn: Callable[..., object], *args: Any) -> None:
        """Run fn(*args) in the thread, without waiting; what it raises is logged.  Raises HubStopped, NoThread."""
        self._queue(_Job(fn, args, None))

    def _queue(self, job: _Job) -> None:
        if self._closed:
            raise HubStopped("the thread beside the hub has ended")
        if not self._started:
            start_plain_thread(self._run)
            self._started = True
        self._jobs.put(job)

    def close(self) -> None:
        """End the thread after the calls that are queued."""
        self._closed = True
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._begun_at = now()
            try:
                job.value = job.fn(*job.args)
            except Exception as e:
                job.error = e
            except BaseException as e:  # SystemExit would end the hub of a program that did not ask for it
                job.error = RuntimeError(f"{type(e).__name__}: {e}")
            if job.done is not None:
                try:
                    self._hub.post(job.done.set)
                except HubStopped:
                    pass  # the caller is gone
            elif job.error is not None:
                log.error("%s failed beside the hub", getattr(job.fn, "__qualname__", job.fn), exc_info=job.error)
