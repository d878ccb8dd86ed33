"""Task groups: named greenlets under one supervisor; and the waiting primitives that all other modules use.

    TaskGroup   the tasks of one program or one connector.  The first that ends with an error is the group's failure:
                its exception is kept, and wait() raises it
    Task        one greenlet with its name

    sleep, Event, Queue (with Empty), Lock, Timeout, wait_any, deadline, now, current, real_thread,
    connect, listen, in_greenlet, threads_are_greenlets, wake_at_signals, stacks, tls_context, unix_socket,
    adopted_socket

Nothing here patches a module.  All of it is used in the hub of one thread; other threads go through `groundwork.hub`.
"""

from __future__ import annotations

import encodings.idna
import gc
import logging
import math
import os
import pickle
import signal
import socket as plain_socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, TypeVar

import gevent
import gevent.event
import gevent.lock
import gevent.monkey
import gevent.queue
import gevent.select
import gevent.socket
import gevent.ssl
from gevent.greenlet import Greenlet
from greenlet import greenlet

from groundwork import clocks
from groundwork.connecting import Connector
from groundwork.forks import Forked, belongs_to_parent, not_in_a_fork
from groundwork.lookups import addresses
from groundwork.pauses import pauses_are
from groundwork.plainthreads import PlainThreads
from groundwork.sockets import GAP_S
from groundwork.tlscontext import configured

log = logging.getLogger(__name__)

# gevent and socket load these when they first need them (to pass on an exception, to look a name up).  When no file
# can be opened that fails, and a greenlet that waits for the exception would wait for ever.
NEEDED_LATER = (encodings.idna, pickle)

Event = gevent.event.Event
Queue = gevent.queue.Queue
Empty = gevent.queue.Empty  # the standard library's own queue.Empty
Lock = gevent.lock.BoundedSemaphore
Timeout = gevent.Timeout  # a BaseException; `deadline` raises one that `except Exception` catches
GreenletExit = gevent.GreenletExit
now = time.monotonic
real_thread: Callable[[], int] = gevent.monkey.get_original("_thread", "get_ident")  # where threads are greenlets, too
current = gevent.getcurrent  # the caller: a greenlet, or the main one of its thread; .dead once it has ended
T = TypeVar("T")
TURN_S = 0.01  # of work, after which others have a turn


class TaskDied(Exception):
    """A task ended with an unexpected exception, which is __cause__; .name is the task's."""

    def __init__(self, name: str, reason: BaseException) -> None:
        super().__init__(f"{name} died: {type(reason).__name__}: {reason}")
        self.name = name
        self.__cause__ = reason


class Task:
    """A named greenlet of a task group."""

    __slots__ = ("_greenlet", "asked_to_end", "name")

    def __init__(self, name: str, run: Callable[..., None], *args: Any) -> None:
        self.name = name
        self.asked_to_end = False
        self._greenlet = Greenlet(run, self, *args)
        self._greenlet.name = name

    def __repr__(self) -> str:
        return f"<Task {self.name}, {'ended' if self.ended else 'ending' if self.asked_to_end else 'running'}>"

    @property
    def ended(self) -> bool:
        return self._greenlet.ready()

    def here(self) -> bool:
        """True if the caller is this task."""
        return gevent.getcurrent() is self._greenlet

    def ask_to_end(self) -> None:
        """Raise GreenletExit where the task waits, and return at once.  An exception from now on is not a failure."""
        self.asked_to_end = True
        self._greenlet.kill(block=False)

    def end(self, timeout_s: float | None = None) -> bool:
        """Ask the task to end and wait; True when it has ended.  Returns False at once when the task ends itself."""
        self.ask_to_end()
        return False if self.here() else self.join(timeout_s)

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until the task has ended for any reason; True when it has."""
        self._greenlet.join(timeout_s)
        return self.ended


class TaskGroup:
    """The tasks of one program or connector.

    RUNNING   tasks can be spawned
    DEAD      .dead is set and .death is the reason; the other tasks still run until the owner calls stop()
    STOPPED   stop() was called: spawn is refused, wait() returns

    on_death(name, exception) is called in the task that died, after .death is set.
    """

    def __init__(self, on_death: Callable[[str, BaseException], object] | None = None) -> None:
        self.dead = Event()
        self.death: TaskDied | None = None
        self._on_death = on_death
        self._tasks: dict[Task, None] = {}  # in the order in which they were spawned, which is that of a stop
        self._stopped = Event()
        self._thread_id = threading.get_ident()
        self._forked = False
        not_in_a_fork(self, tasks=True)

    def _after_fork(self) -> None:
        """End all tasks where they wait, and start none: they are the parent's."""
        self._forked = True
        if threading.get_ident() == self._thread_id:  # else their event loop has no thread in this process
            for task in self._tasks:
                task.ask_to_end()

    def spawn(self, name: str, fn: Callable[..., object], *args: Any) -> Task:
        """Start fn(*args) in a greenlet called `name`, at the hub's next turn.  RuntimeError after stop(); Forked."""
        if self._forked:
            raise Forked(belongs_to_parent(f"the task group of {name}"))
        if self._stopped.is_set():
            raise RuntimeError(f"{name} cannot start: its task group is stopped")
        task = Task(name, self._run, fn, args)
        self._tasks[task] = None
        task._greenlet.rawlink(lambda _: self._tasks.pop(task, None))  # also when it is killed before it ran
        task._greenlet.start()
        return task

    def _run(self, task: Task, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            fn(*args)
        except GreenletExit:
            return
        except BaseException as exc:
            if not task.asked_to_end:
                self.died(task.name, exc)
            elif isinstance(exc, Exception):
                log.warning("%s ended when asked, with %s: %s", task.name, type(exc).__name__, exc)
            if not isinstance(exc, Exception):
                raise  # ctrl-C and sys.exit reach the main greenlet

    def died(self, name: str, reason: BaseException) -> None:
        """Record `reason` as the group's failure: for its work in a greenlet of another owner, such as kazoo."""
        log.error("%s died: %s: %s", name, type(reason).__name__, reason, exc_info=reason)
        if self.death is not None:
            return
        self.death = TaskDied(name, reason)
        self.dead.set()
        if self._on_death is not None:
            self._on_death(name, reason)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the group's end: raises TaskDied, or returns True after stop() and False after `timeout_s`."""
        wait_any([self.dead, self._stopped], timeout_s)
        if self.death is not None:
            raise self.death
        return self._stopped.is_set()

    def stop(self, timeout_s: float) -> list[str]:
        """End every task but the caller; returns the sorted names of those that did not end within `timeout_s`."""
        self._stopped.set()
        own = gevent.getcurrent()
        others = [task for task in self._tasks if task._greenlet is not own]
        for task in others:
            task.ask_to_end()
        until = now() + timeout_s
        return sorted(task.name for task in others if not task.join(max(0.0, until - now())))

    def names(self) -> list[str]:
        """Return the names of the running tasks, sorted."""
        return sorted(task.name for task in self._tasks if not task.ended)

    def signalled(self, name: str, fn: Callable[[], object]) -> None:
        """Spawn from a handler of signal.signal, which may interrupt the main thread anywhere, also inside the hub: see
        wake_at_signals().

        The group must belong to the main thread's hub.  After stop() nothing is spawned.
        """
        gevent.get_hub().loop.run_callback_threadsafe(self._spawn_unless_stopped, name, fn)

    def _spawn_unless_stopped(self, name: str, fn: Callable[[], object]) -> None:
        if not self._stopped.is_set():
            self.spawn(name, fn)


_waker: Any = None  # what reads the signals' pipe, once


def wake_at_signals() -> None:
    """Let a signal end what the hub waits for; called once in the main thread.

    A handler of signal.signal runs between two instructions of the main thread.  That of a signal that comes after the
    last of them, right before the hub waits, or that another thread takes, would run at the hub's next event.
    """
    global _waker
    if _waker is not None:
        return
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    _waker = gevent.get_hub().loop.io(readable, 1, ref=False)
    _waker.start(os.read, readable, 4096)


def stacks() -> Iterator[str]:
    """Yield the stack of each thread and greenlet of this process, the caller's included: lines, innermost call
    last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield from _stack(f"thread {names.get(ident, ident)}", frame)
    for each in gc.get_objects():
        # By its type: asked for its class, a weak proxy of what is gone raises. One with a frame is not the caller.
        if issubclass(type(each), greenlet) and each.gr_frame is not None:
            yield from _stack(f"greenlet {getattr(each, 'name', '') or type(each).__name__}", each.gr_frame)


def _stack(whose: str, frame: FrameType) -> Iterator[str]:
    yield f"{whose}:"
    for line in traceback.format_stack(frame):
        yield from line.rstrip().splitlines()


def sleep(seconds: float = 0.0) -> None:
    """Let other greenlets run for that long, at least once."""
    gevent.sleep(seconds)


def in_turns(items: Iterable[T], turn_s: float = TURN_S) -> Iterator[T]:
    """Yield the items, and let other greenlets run between two of them once that much time went by."""
    turns = Turns(turn_s)
    for item in items:
        yield item
        turns.go_on()


class Turns:
    """Lets other greenlets run during a long computation, which calls go_on() between its steps."""

    def __init__(self, turn_s: float = TURN_S, limit_s: float = math.inf) -> None:
        """Create turns.  limit_s: processor time that the computation may take in all, without the turns of others.  By
        the wall clock a machine that stands still would end it."""
        self._turn_s = turn_s
        self._left_s = limit_s
        self._began, self._worked = now(), time.thread_time()

    def go_on(self) -> bool:
        """Let others run once a turn is over; return whether there is time left."""
        if now() - self._began >= self._turn_s:
            self._left_s -= time.thread_time() - self._worked
            sleep()
            self._began, self._worked = now(), time.thread_time()
        return self._left_s > 0


def wait_any(things: Collection[Any], timeout_s: float | None = None) -> list[Any]:
    """Wait until one of `things` (events, results) is ready, and return those that are; [] after `timeout_s`."""
    if not things:
        raise ValueError("wait_any needs something to wait for")
    # gevent.wait alone counts from the hub's last clock update: no time is left after a long computation.
    gevent.get_hub().loop.update_now()
    return list(gevent.wait(things, timeout=timeout_s, count=1))


class _Deadline(Timeout):
    """A time-out that begins again, once, where it comes late: the hub did not run, and due timers run before sockets,
    so what was waited for may be there."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self._limit_s = seconds
        self._due: float | None = clocks.boot() + seconds  # None: it has begun again

    def _on_expiration(self, waiting: Any, throws: BaseException) -> None:
        if self._due is not None and clocks.boot() - self._due > GAP_S:
            self._due = None
            self.timer.close()
            self.timer = gevent.get_hub().loop.timer(self._limit_s, priority=-1)
            self.timer.start(self._on_expiration, waiting, throws, update=True)
        else:
            waiting.throw(throws)


@contextmanager
def deadline(seconds: float, what: str = "this") -> Iterator[None]:
    """Raise TimeoutError `WHAT took longer than 5 s` where the block waits, when it is not done in time."""
    timer = _Deadline(seconds)
    timer.start()
    try:
        yield
    except Timeout as fired:
        if fired is not timer:
            raise
        raise TimeoutError(f"{what} took longer than {seconds:g} s") from None
    finally:
        timer.close()


def in_greenlet() -> bool:
    """True if the caller is a greenlet of a running hub (and not the thread's main program)."""
    return isinstance(gevent.getcurrent(), Greenlet)


def let_others_run() -> None:
    """Let other greenlets run, if the caller is a greenlet of a running hub."""
    if in_greenlet():
        gevent.sleep(0)


pauses_are(let_others_run)


def threads_are_greenlets() -> bool:
    """True if gevent has patched `threading` in this program."""
    return bool(gevent.monkey.is_module_patched("threading"))


class HubConnect:
    """Opens TCP connections whose waits let other greenlets run."""

    def __init__(self) -> None:
        self.connector = Connector(gevent.socket.socket, gevent.select.poll)

    def __call__(
        self, address: tuple[str, int], timeout: float | None = None, receive_buffer_bytes: int = 0
    ) -> plain_socket.socket:
        """Return a TCP connection whose waits let other greenlets run.  Each call looks the name up again.  Raises
        OSError.

        receive_buffer_bytes: size of the socket's buffer; 0: the operating system adapts it.
        """
        found = addresses(*address, timeout)
        opened: plain_socket.socket = self.connector.first(address, found, timeout, receive_buffer_bytes)
        return opened

    def in_thread(self, fn: Callable[..., Any], *args: Any, within_s: float | None = None) -> Any:
        """Return fn(*args), called in a thread while other greenlets run: for what a login needs and may block.  Raises
        TimeoutError after within_s; the call goes on then."""
        return LOGINS.apply(partial(fn, *args), within_s)


LOGINS = PlainThreads(10)
connect = HubConnect()


def listen(address: tuple[str, int], backlog: int = 64) -> plain_socket.socket:
    """Return a listening TCP socket; accept() and all waits of its connections let other greenlets run.  Raises
    OSError.

    The address is looked up once; that of a server is mostly a number.
    """
    family, kind, proto, _, where = addresses(*address)[0]
    opened = gevent.socket.socket(family, kind, proto)
    try:
        opened.setsockopt(plain_socket.SOL_SOCKET, plain_socket.SO_REUSEADDR, 1)  # connections of the process before
        opened.bind(where)
        opened.listen(backlog)
    except BaseException:
        opened.close()
        raise
    return opened


def tls_context(*, ca: str | None, certificate: str | None, key: str | None, password: str | None, verify: bool) -> Any:
    """Return a client's TLS context for sockets of the hub.  Arguments and errors: as
    groundwork.tlscontext.configured."""
    return configured(
        gevent.ssl.SSLContext(gevent.ssl.PROTOCOL_TLS_CLIENT),
        ca=ca, certificate=certificate, key=key, password=password, verify=verify,
    )  # fmt: skip


def unix_socket() -> plain_socket.socket:
    """Return a stream socket for a path of this machine; all its waits, and those of what it accepts, let other
    greenlets run."""
    return gevent.socket.socket(plain_socket.AF_UNIX, plain_socket.SOCK_STREAM)


def adopted_socket(connection: plain_socket.socket) -> plain_socket.socket:
    """Return the same connection of this machine (AF_UNIX), with waits that let other greenlets run; `connection` is no
    socket any more."""
    return gevent.socket.socket(plain_socket.AF_UNIX, plain_socket.SOCK_STREAM, fileno=connection.detach())
