"""Hubs: the event loop that greenlets run in is the caller's own gevent hub, or one in a thread of its own.

    CallersHub   for a gevent program: everything runs in the thread that started it, as greenlets of its hub
    OwnThread    for a program without gevent: a daemon thread runs the hub, and its greenlets fetch and send heartbeats
                 while the program computes

Both have the same interface (Hub).  The one loop call that is legal from another thread is async_.send(): calls from
other threads go through it (Inbox).

An OwnThread ends by stop() or by the interpreter's exit.  It then runs the before_exit functions (last in, first out),
answers every waiting caller with HubStopped, closes the queues and destroys the loop.

Switch interval: CPython lets a computing thread run for 5 ms each time another one wants to run.  A hub wants to run
for every packet: beside a handler that computes, fetching falls to a fifth of its rate and each ZooKeeper request takes
0.1 s and more.  With 0.1 ms, fetching keeps more than half of its rate.  The interval belongs to the whole process: it
is set while an OwnThread runs, unless the program has set another than the default.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar, cast

import gevent
import gevent.monkey
from gevent.greenlet import Greenlet

from groundwork.forks import belongs_to_parent, not_in_a_fork
from groundwork.openfiles import TooManyOpenFiles, none_left
from groundwork.queues import BoundedQueue, Closed, InSteps
from groundwork.tasks import (
    Event,
    GreenletExit,
    Queue,
    deadline,
    in_greenlet,
    now,
    real_thread,
    sleep,
    threads_are_greenlets,
)
from groundwork.threads import NoThread, starting_threads

DEFAULT_S = 0.005  # CPython's switch interval
SHORT_S = 0.0001  # ours

_interval_lock = threading.Lock()
_hub_threads = 0
_our_interval: float | None = None  # as the interpreter reports it: rounded


def _shorten_switch_interval() -> None:
    """Shorten the interval; called once for each hub thread that starts, and followed by one
    _restore_switch_interval()."""
    global _hub_threads, _our_interval
    with _interval_lock:
        _hub_threads += 1
        if _hub_threads == 1 and sys.getswitchinterval() == DEFAULT_S:
            sys.setswitchinterval(SHORT_S)
            _our_interval = sys.getswitchinterval()


def _restore_switch_interval() -> None:
    """Restore the default when the last hub thread ends, unless the program has set an interval meanwhile."""
    global _hub_threads, _our_interval
    with _interval_lock:
        _hub_threads -= 1
        if _hub_threads == 0:
            if sys.getswitchinterval() == _our_interval:
                sys.setswitchinterval(DEFAULT_S)
            _our_interval = None


class HubStopped(RuntimeError):
    """The hub does not run (any more, or not in this process), so it takes no calls."""


class Job:
    """A call for the hub; `answer`, when a caller waits, gets (value, None) or (None, exception)."""

    __slots__ = ("answer", "args", "fn")

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        answer: InSteps[tuple[Any, BaseException | None]] | None = None,
    ) -> None:
        self.fn = fn
        self.args = args
        self.answer = answer


class Inbox:
    """Call queue of a hub.  Opened and closed in the hub's thread; post and call come from any thread."""

    def __init__(self, on_error: Callable[[str, BaseException], object]) -> None:
        self.on_error = on_error
        self.why_closed = "the hub is not started"
        self.reason: BaseException | None = None
        self.thread_id = 0
        self._forked = False
        self._jobs: deque[Job] = deque()
        self._running: dict[Greenlet[..., Any], Job] = {}
        self._lock = threading.Lock()  # held over async_.send(), so that none follows close()
        self._open = False

    def open(self, keeps_loop: bool) -> None:
        self._async = gevent.get_hub().loop.async_(ref=keeps_loop)
        self._async.start(self._take)
        self.thread_id = threading.get_ident()
        self._open = True
        not_in_a_fork(self, tasks=True)

    def _after_fork(self) -> None:
        """End the calls that run, where they wait, and refuse new ones."""
        self._forked = self._open
        if self.here():
            gevent.killall(list(self._running), block=False)

    def must_be_open(self) -> None:
        if self._forked:
            raise HubStopped(belongs_to_parent("the event loop"))
        if not self._open:
            raise HubStopped(self.why_closed) from self.reason

    def here(self) -> bool:
        """True if the caller runs in the hub's own thread."""
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
        """Refuse calls from here on; callers that wait get HubStopped."""
        with self._lock:
            self._open, self.why_closed, self.reason = False, why, reason
        left, self._jobs = self._jobs, deque()
        for job in [*left, *self._running.values()]:
            self._refuse(job)
        gevent.killall(list(self._running), block=False)
        self._async.stop()
        self._async.close()


__all__ = [
    "BoundedQueue",
    "CallersHub",
    "Closed",
    "Hub",
    "HubStopped",
    "OwnThread",
    "PlainQueue",
    "pick_hub",
    "start_plain_thread",
]

log = logging.getLogger(__name__)

T = TypeVar("T")
Which = Literal["auto", "caller", "own"]
LOOP_FILES = 4  # files that an event loop opens; without them libev retries for ever, and blocks the program
EXIT_S = 12.0  # limit for all before_exit functions together (a connector's shutdown takes 10 at most)


PlainQueue: Any = gevent.monkey.get_original("queue", "SimpleQueue")  # not gevent's, whatever is patched


def start_plain_thread(fn: Callable[[], object]) -> None:
    """Run fn() in a real thread, also where threads are patched to be greenlets; the program's exit does not wait.

    Raises NoThread.
    """
    with starting_threads():
        gevent.monkey.get_original("_thread", "start_new_thread")(fn, ())


class Hub(Protocol):
    """Interface of both hubs.

    on_error(what, exception) gets what a posted function raised; the default logs it.
    """

    on_error: Callable[[str, BaseException], object]

    def start(self) -> None:
        """Make the hub ready; a second start changes nothing."""

    def call(self, fn: Callable[..., T], *args: Any) -> T:
        """Run fn(*args) in the hub and wait; returns or raises what it does.  HubStopped when the hub ends first.

        Ctrl-C ends the wait but not fn, which then counts as posted.
        """

    def post(self, fn: Callable[..., object], *args: Any) -> None:
        """Start fn(*args) in a greenlet of the hub, in the order of posts, without waiting; from any thread."""

    def bounded_queue(self, limit_bytes: int) -> BoundedQueue[Any]:
        """Return a new bounded queue that this hub puts into."""

    def before_exit(self, fn: Callable[[], object]) -> None:
        """Register fn() to run in the hub when it ends.

        Call it after KazooClient.start(), which registers an exit function that must not run in another thread before
        ours has stopped the client (last in, first out).
        """

    def stop(self) -> None:
        """End the hub; a second stop changes nothing."""


def _log_error(what: str, exc: BaseException) -> None:
    log.error("%s failed in the hub: %s: %s", what, type(exc).__name__, exc, exc_info=exc)


class _HubBase:
    """Base of both hubs: the inbox and the before_exit functions."""

    def __init__(self) -> None:
        self._inbox = Inbox(_log_error)
        self._exit_functions: list[Callable[[], object]] = []

    @property
    def on_error(self) -> Callable[[str, BaseException], object]:
        return self._inbox.on_error

    @on_error.setter
    def on_error(self, fn: Callable[[str, BaseException], object]) -> None:
        self._inbox.on_error = fn

    def call(self, fn: Callable[..., T], *args: Any) -> T:
        self._inbox.must_be_open()
        if self._inbox.here():
            return fn(*args)
        answer: InSteps[tuple[Any, BaseException | None]] = InSteps()
        job = Job(fn, args, answer)
        try:
            self._inbox.give(job)
            value, raised = answer.get()
        except BaseException:
            job.answer = None  # ctrl-C: the caller waits no more
            if not answer.empty() and (lost := answer.get()[1]) is not None:
                self.on_error(getattr(fn, "__qualname__", repr(fn)), lost)  # it was answered just before
            raise
        if raised is not None:
            raise raised
        return cast(T, value)

    def post(self, fn: Callable[..., object], *args: Any) -> None:
        self._inbox.give(Job(fn, args))

    def before_exit(self, fn: Callable[[], object]) -> None:
        self._exit_functions.append(fn)

    def _run_exit_functions(self) -> None:
        until = now() + EXIT_S
        while self._exit_functions:
            act = self._exit_functions.pop()
            what = getattr(act, "__qualname__", repr(act))
            try:
                with deadline(max(0.1, until - now()), what):
                    act()
            except Exception as exc:
                log.warning("%s at the end of the hub: %s: %s", what, type(exc).__name__, exc)


class CallersHub(_HubBase):
    """The hub of the thread that calls start()."""

    def start(self) -> None:
        if self._inbox.thread_id == 0:
            self._inbox.open(keeps_loop=False)

    def bounded_queue(self, limit_bytes: int) -> BoundedQueue[Any]:
        return BoundedQueue(limit_bytes, Queue(), thread_id=real_thread())

    def stop(self) -> None:
        """End the hub; called in its own thread."""
        if self._inbox.thread_id and self._inbox.why_closed != "the hub is stopped":
            self._run_exit_functions()
            self._inbox.close("the hub is stopped")


class OwnThread(_HubBase):
    """A hub in a daemon thread.

    NEW       before start(): call and post raise HubStopped
    RUNNING   start() has returned
    ENDED     by stop(), by the interpreter's exit, or by an error that broke the loop: call and post raise HubStopped
              with that error as __cause__; the hub cannot be started again

    A process forked while it runs has no hub thread: there call, post and BoundedQueue.get refuse.
    """

    def __init__(self, name: str = "hub") -> None:
        super().__init__()
        self._name = name
        self._thread = self._new_thread()
        self._queues: dict[BoundedQueue[Any], Any] = {}  # with the watcher that wakes each
        self._started: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._pid = 0

    def _new_thread(self) -> threading.Thread:
        return threading.Thread(target=self._live, name=self._name, daemon=True)

    def start(self) -> None:
        if self._thread.is_alive():
            return
        if self._pid:
            raise HubStopped("this hub has run already, or this process was forked after it did: make another one")
        if sentence := none_left(LOOP_FILES):
            raise TooManyOpenFiles(f"the event loop cannot start: {sentence}")
        with starting_threads():
            self._thread.start()
        self._inbox.why_closed = "the hub does not run"
        self._pid = os.getpid()
        failed = self._started.get()
        if isinstance(failed, NoThread):  # it had this one and no other: a later start may have both
            self._thread, self._pid = self._new_thread(), 0
            raise failed
        if failed is not None:
            raise HubStopped(f"the hub cannot start: {failed}") from failed
        self._last_out_first()

    def before_exit(self, fn: Callable[[], object]) -> None:
        super().before_exit(fn)
        self._last_out_first()

    def _last_out_first(self) -> None:
        atexit.unregister(self._at_exit)
        atexit.register(self._at_exit)

    def bounded_queue(self, limit_bytes: int) -> BoundedQueue[Any]:
        return self.call(self._bounded_queue, limit_bytes)

    def _bounded_queue(self, limit_bytes: int) -> BoundedQueue[Any]:
        wake = gevent.get_hub().loop.async_()
        bounded_queue: BoundedQueue[Any] = BoundedQueue(limit_bytes, InSteps(), wake.send)
        self._queues[bounded_queue] = wake
        wake.start(self._woken, bounded_queue)
        return bounded_queue

    def _woken(self, bounded_queue: BoundedQueue[Any]) -> None:
        bounded_queue.woken()
        if bounded_queue.closed:  # it wakes the hub no more, so its watcher may go
            wake = self._queues.pop(bounded_queue)
            wake.stop()
            wake.close()

    def _live(self) -> None:
        try:
            self._inbox.open(keeps_loop=True)
            self._stopping = Event()
        except BaseException as exc:
            try:
                gevent.get_hub().destroy(destroy_loop=True)
            finally:
                self._started.put(exc)
            return
        _shorten_switch_interval()
        self._started.put(None)
        broke: BaseException | None = None
        try:
            self._stopping.wait()
        except BaseException as exc:  # SystemExit in a greenlet, or a broken loop
            broke = exc
            self.on_error(self._thread.name, exc)
        self._end(broke)

    def _end(self, broke: BaseException | None) -> None:
        try:
            self._run_exit_functions()
            self._inbox.close("the hub is stopped" if broke is None else f"the hub broke: {broke!r}", broke)
            for bounded_queue in list(self._queues):
                bounded_queue.close(broke)
                self._woken(bounded_queue)
            sleep(0)  # the greenlets that were just killed run to their end
        finally:
            _restore_switch_interval()
            gevent.get_hub().destroy(destroy_loop=True)

    def stop(self) -> None:
        """End the hub: return at once when called in the hub, else when its thread has ended.  Raises TimeoutError when
        it hangs."""
        if self._inbox.here():
            self._stopping.set()
            return
        try:
            self.post(self._stop_here)
        except HubStopped:
            pass  # it is ending already, or never started
        if self._pid != os.getpid():
            return
        self._thread.join(EXIT_S + 4)
        atexit.unregister(self._at_exit)  # also of one that hangs: else the interpreter's exit would wait as long again
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name} does not end: something in it runs without ever waiting")

    def _stop_here(self) -> None:
        self._stopping.set()

    def _at_exit(self) -> None:
        if self._pid == os.getpid():
            self.stop()


def pick_hub(which: Which = "auto") -> Hub:
    """Return the hub for a connector, not started yet.

    auto: the caller's when gevent has patched sockets or threads or the caller is a greenlet, else a thread of its own.
    Any other gevent program looks like a plain one and has to say "caller".

    Raises ValueError for "own" where gevent has patched threads: such a thread is a greenlet of the caller's hub, and
    its locks and queues would be greenlets' as well.
    """
    if which not in ("auto", "caller", "own"):
        raise ValueError(f"hub is {which!r}; it may be auto, caller or own")
    if which == "auto":
        patched = gevent.monkey.is_module_patched("socket") or threads_are_greenlets()
        which = "caller" if in_greenlet() or patched else "own"
    elif which == "own" and threads_are_greenlets():
        raise ValueError(
            "hub is 'own', but gevent has patched threads in this program, so each is a greenlet of the caller's hub: "
            "use 'auto' or 'caller', or patch with thread=False"
        )
    return CallersHub() if which == "caller" else OwnThread()
