"""Where greenlets live: the caller's own gevent hub, or a hub in a thread of its own.

    CallersHub   the program is a gevent program: everything runs in the thread that started it, greenlets of one hub
    OwnThread    the program knows nothing of gevent: a daemon thread has the hub, and its greenlets go on fetching and
                 beating while the program computes

Both have the same face (Hub).  The one loop call that is legal from another thread is async_.send(); everything that
comes from outside goes through it (inbox.py).

The end of an OwnThread, by stop() or by the interpreter's exit: run what before_exit was given (last in, first out),
answer every caller that still waits with HubStopped, close the hand-overs, destroy the loop.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar, cast

import gevent
import gevent.monkey

from groundwork import turns
from groundwork.crew import Event, Queue, deadline, in_greenlet, now, sleep
from groundwork.handover import Closed, Handover
from groundwork.inbox import HubStopped, Inbox, Job
from groundwork.openfiles import TooManyOpenFiles, none_left

__all__ = [
    "CallersHub",
    "Closed",
    "Handover",
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
LOOP_FILES = 4  # that an event loop opens; without them libev tries for ever, and holds the program
EXIT_S = (
    12.0  # for all that before_exit was given, together (a connector's shutdown takes 10 at most); then it is cut off
)


PlainQueue: Any = gevent.monkey.get_original("queue", "SimpleQueue")  # real, also where the program patched it


def start_plain_thread(fn: Callable[[], object]) -> None:
    """Run fn() in a real thread, also in a program whose threads are greenlets; nobody waits for it at exit."""
    gevent.monkey.get_original("_thread", "start_new_thread")(fn, ())


class Hub(Protocol):
    """What both forms of hub do.

    on_error(what, exception) gets what a posted function raised; it logs, until somebody sets it to more.
    """

    on_error: Callable[[str, BaseException], object]

    def start(self) -> None:
        """Make it ready; a second start changes nothing."""

    def call(self, fn: Callable[..., T], *args: Any) -> T:
        """Run fn(*args) in the hub and wait: what it returns or raises.  HubStopped when the hub ends first.

        Ctrl-C ends the waiting and not fn, which then counts as posted.
        """

    def post(self, fn: Callable[..., object], *args: Any) -> None:
        """Start fn(*args) in a greenlet of the hub, in the order of posts, and do not wait; from any thread."""

    def handover(self, limit_bytes: int) -> Handover[Any]:
        """A bounded way out of this hub."""

    def before_exit(self, fn: Callable[[], object]) -> None:
        """Have fn() run in the hub when it ends.

        Call it after KazooClient.start(), which registers an exit function that must not run in another thread before
        ours has stopped the client (last in, first out).
        """

    def stop(self) -> None:
        """End it; a second stop changes nothing."""


def _log_error(what: str, exc: BaseException) -> None:
    log.error("%s failed in the hub: %s: %s", what, type(exc).__name__, exc, exc_info=exc)


class _HubBase:
    """What both forms share: the inbox, and the list of what to do at the end."""

    def __init__(self) -> None:
        self._inbox = Inbox(_log_error)
        self._last_acts: list[Callable[[], object]] = []

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
        answer: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        job = Job(fn, args, answer)
        try:
            self._inbox.give(job)
            value, raised = answer.get()
        except BaseException:
            job.answer = None  # ctrl-C: nobody waits any more
            if not answer.empty() and (lost := answer.get()[1]) is not None:
                self.on_error(getattr(fn, "__qualname__", repr(fn)), lost)  # it came just before
            raise
        if raised is not None:
            raise raised
        return cast(T, value)

    def post(self, fn: Callable[..., object], *args: Any) -> None:
        self._inbox.give(Job(fn, args))

    def before_exit(self, fn: Callable[[], object]) -> None:
        self._last_acts.append(fn)

    def _act_last(self) -> None:
        until = now() + EXIT_S
        while self._last_acts:
            act = self._last_acts.pop()
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

    def handover(self, limit_bytes: int) -> Handover[Any]:
        return Handover(limit_bytes, Queue())

    def stop(self) -> None:
        """From the hub's own thread."""
        if self._inbox.thread_id and self._inbox.why_closed != "the hub is stopped":
            self._act_last()
            self._inbox.close("the hub is stopped")


class OwnThread(_HubBase):
    """A hub in a daemon thread.

    NEW       before start(): call and post raise HubStopped
    RUNNING   start() has come back
    ENDED     by stop(), by the interpreter's exit, or because something in the hub broke it: call and post raise
              HubStopped, whose __cause__ says what broke; it cannot be started again

    A process forked off while it runs has no such thread: there call, post and Handover.get refuse.
    """

    def __init__(self, name: str = "hub") -> None:
        super().__init__()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._handovers: dict[Handover[Any], Any] = {}  # and what wakes each
        self._started: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._pid = 0

    def start(self) -> None:
        if self._thread.is_alive():
            return
        if self._pid:
            raise HubStopped("this hub has run already, or in the process this one was forked off: make another one")
        if sentence := none_left(LOOP_FILES):
            raise TooManyOpenFiles(f"the event loop cannot start: {sentence}")
        self._inbox.why_closed = "the hub does not run"
        self._pid = os.getpid()
        self._thread.start()
        failed = self._started.get()
        if failed is not None:
            raise HubStopped(f"the hub cannot start: {failed}") from failed
        self._last_out_first()

    def before_exit(self, fn: Callable[[], object]) -> None:
        super().before_exit(fn)
        self._last_out_first()

    def _last_out_first(self) -> None:
        atexit.unregister(self._at_exit)
        atexit.register(self._at_exit)

    def handover(self, limit_bytes: int) -> Handover[Any]:
        return self.call(self._handover, limit_bytes)

    def _handover(self, limit_bytes: int) -> Handover[Any]:
        wake = gevent.get_hub().loop.async_()
        handover: Handover[Any] = Handover(limit_bytes, queue.SimpleQueue(), wake.send)
        self._handovers[handover] = wake
        wake.start(self._woken, handover)
        return handover

    def _woken(self, handover: Handover[Any]) -> None:
        handover.woken()
        if handover.closed:  # it sends no more, so its watcher may go
            wake = self._handovers.pop(handover)
            wake.stop()
            wake.close()

    def _live(self) -> None:
        try:
            self._inbox.open(keeps_loop=True)
            self._stopping = Event()
        except BaseException as exc:
            self._started.put(exc)
            return
        turns.shorten()
        self._started.put(None)
        broke: BaseException | None = None
        try:
            self._stopping.wait()
        except BaseException as exc:  # a SystemExit of some greenlet, or a loop that cannot go on
            broke = exc
            self.on_error(self._thread.name, exc)
        self._end(broke)

    def _end(self, broke: BaseException | None) -> None:
        try:
            self._act_last()
            self._inbox.close("the hub is stopped" if broke is None else f"the hub broke: {broke!r}", broke)
            for handover in list(self._handovers):
                handover.close(broke)
                self._woken(handover)
            sleep(0)  # those asked to end just now get their turn
        finally:
            turns.restore()
            gevent.get_hub().destroy(destroy_loop=True)

    def stop(self) -> None:
        """Back at once when called in the hub, else when its thread has ended; TimeoutError when that hangs."""
        if self._inbox.here():
            self._stopping.set()
            return
        try:
            self.post(self._stop_here)
        except HubStopped:
            pass  # it ends already, or never started
        if self._pid != os.getpid():
            return
        self._thread.join(EXIT_S + 4)
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name} does not end: something in it runs without ever waiting")
        atexit.unregister(self._at_exit)

    def _stop_here(self) -> None:
        self._stopping.set()

    def _at_exit(self) -> None:
        if self._pid == os.getpid():
            self.stop()


def pick_hub(which: Which = "auto") -> Hub:
    """The hub a connector lives in, not started yet.

    auto: the caller's when the program is patched by gevent or the caller is a greenlet, else a thread of its own.  A
    gevent program that is neither cannot be told from a plain one: it says "caller".
    """
    if which not in ("auto", "caller", "own"):
        raise ValueError(f"hub is {which!r}; it may be auto, caller or own")
    if which == "auto":
        which = "caller" if in_greenlet() or gevent.monkey.is_module_patched("socket") else "own"
    return CallersHub() if which == "caller" else OwnThread()
