"""Greenlets with names in task groups, and the waiting primitives that all other modules take from here.

    TaskGroup   the greenlets of one program or one connector.  The first that ends by an error is the group's failure:
                its reason is kept, and whatever waits for the group gets it
    Task        one greenlet: its name, and how to ask it to end

    sleep, Event, Queue (with Empty), Lock, Timeout, wait_any, deadline, now, connect,
    in_greenlet, threads_are_greenlets, stacks, tls_context

Nothing here patches a module.  All of it belongs to the hub of the thread that uses it: another thread goes through
`groundwork.hub`.
"""

from __future__ import annotations

import encodings.idna
import gc
import logging
import pickle
import socket as plain_socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import gevent
import gevent.event
import gevent.lock
import gevent.monkey
import gevent.queue
import gevent.resolver.thread
import gevent.socket
import gevent.ssl
import gevent.threadpool  # gevent does so at the first name it looks up: too late, where that is at the exit
from gevent.greenlet import Greenlet
from greenlet import greenlet

from groundwork.tls import configured

log = logging.getLogger(__name__)

# Loaded by gevent and socket when they first need them (an exception handed on, a name resolved).  That is too late
# where no file can be opened: what waits for the exception would wait for ever.
NEEDED_LATER = (encodings.idna, pickle, gevent.resolver.thread)

Event = gevent.event.Event
Queue = gevent.queue.Queue
Empty = gevent.queue.Empty  # the standard library's own queue.Empty
Lock = gevent.lock.BoundedSemaphore
Timeout = gevent.Timeout  # a BaseException: `deadline` is the one that an `except Exception` sees
GreenletExit = gevent.GreenletExit
now = time.monotonic


class TaskDied(Exception):
    """A greenlet ended by an exception that nobody asked for; .name of it, and the exception as __cause__."""

    def __init__(self, name: str, reason: BaseException) -> None:
        super().__init__(f"{name} died: {type(reason).__name__}: {reason}")
        self.name = name
        self.__cause__ = reason


class Task:
    """One greenlet of a tasks."""

    __slots__ = ("_greenlet", "asked_to_end", "name")

    def __init__(self, name: str, run: Callable[..., None], *args: Any) -> None:
        self.name = name
        self.asked_to_end = False
        self._greenlet = Greenlet(run, self, *args)
        self._greenlet.name = name

    def __repr__(self) -> str:
        return f"<Task {self.name}, {'ended' if self.ended else 'ending' if self.asked_to_end else 'at work'}>"

    @property
    def ended(self) -> bool:
        return self._greenlet.ready()

    def here(self) -> bool:
        """Whether it is this worker that asks."""
        return gevent.getcurrent() is self._greenlet

    def ask_to_end(self) -> None:
        """Raise GreenletExit where it waits, and come back at once.  What it raises from now on is no death."""
        self.asked_to_end = True
        self._greenlet.kill(block=False)

    def end(self, timeout_s: float | None = None) -> bool:
        """Ask to end and wait for it; True when it has ended.  A worker that ends itself comes back False at once."""
        self.ask_to_end()
        return False if self.here() else self.join(timeout_s)

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until the greenlet has ended, however; True when it has."""
        self._greenlet.join(timeout_s)
        return self.ended


class TaskGroup:
    """The greenlets of one program.

    AT WORK   spawn is open
    DEAD      .dead is set and .death is the reason; the others still run: whoever waits decides, mostly by stop()
    STOPPED   stop() was called: spawn is refused, wait() comes back

    on_death(name, exception) is called in the greenlet that died, after .death is kept.
    """

    def __init__(self, on_death: Callable[[str, BaseException], object] | None = None) -> None:
        self.dead = Event()
        self.death: TaskDied | None = None
        self._on_death = on_death
        self._workers: set[Task] = set()
        self._stopped = Event()

    def spawn(self, name: str, fn: Callable[..., object], *args: Any) -> Task:
        """Start fn(*args) in a greenlet called `name`, soon and not at once.  RuntimeError after stop()."""
        if self._stopped.is_set():
            raise RuntimeError(f"{name} cannot start: its task group is stopped")
        worker = Task(name, self._run, fn, args)
        self._workers.add(worker)
        worker._greenlet.rawlink(
            lambda _: self._workers.discard(worker)
        )  # also when it is killed before its first step
        worker._greenlet.start()
        return worker

    def _run(self, worker: Task, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            fn(*args)
        except GreenletExit:
            return
        except BaseException as exc:
            if not worker.asked_to_end:
                self.died(worker.name, exc)
            elif isinstance(exc, Exception):
                log.warning("%s ended as asked, but by %s: %s", worker.name, type(exc).__name__, exc)
            if not isinstance(exc, Exception):
                raise  # ctrl-C and sys.exit go on to the main greenlet

    def died(self, name: str, reason: BaseException) -> None:
        """Count `reason` as a death: for work that belongs to the group and runs in a greenlet of somebody else."""
        log.error("%s died: %s: %s", name, type(reason).__name__, reason, exc_info=reason)
        if self.death is not None:
            return
        self.death = TaskDied(name, reason)
        self.dead.set()
        if self._on_death is not None:
            self._on_death(name, reason)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end: TaskDied from its reason, True after stop(), False when `timeout_s` is over."""
        wait_any([self.dead, self._stopped], timeout_s)
        if self.death is not None:
            raise self.death
        return self._stopped.is_set()

    def stop(self, timeout_s: float) -> list[str]:
        """End every worker but the caller's own; the names of those that would not end within `timeout_s`, sorted."""
        self._stopped.set()
        own = gevent.getcurrent()
        others = [worker for worker in self._workers if worker._greenlet is not own]
        for worker in others:
            worker.ask_to_end()
        until = now() + timeout_s
        return sorted(worker.name for worker in others if not worker.join(max(0.0, until - now())))

    def names(self) -> list[str]:
        """Who is at work, sorted."""
        return sorted(worker.name for worker in self._workers if not worker.ended)

    def signalled(self, name: str, fn: Callable[[], object]) -> None:
        """Spawn from a handler of signal.signal, which interrupts whatever the main thread does, also inside the hub.

        The group is one of the main thread's hub.  After stop() nothing is spawned.
        """
        gevent.get_hub().loop.run_callback_threadsafe(self._spawn_unless_stopped, name, fn)

    def _spawn_unless_stopped(self, name: str, fn: Callable[[], object]) -> None:
        if not self._stopped.is_set():
            self.spawn(name, fn)


def stacks() -> Iterator[str]:
    """Where each thread and each greenlet of this process stands, the caller included: lines, innermost call last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield from _stack(f"thread {names.get(ident, ident)}", frame)
    for each in gc.get_objects():
        if isinstance(each, greenlet) and each.gr_frame is not None:  # neither ended, nor not begun, nor the caller
            yield from _stack(f"greenlet {getattr(each, 'name', '') or type(each).__name__}", each.gr_frame)


def _stack(whose: str, frame: FrameType) -> Iterator[str]:
    yield f"{whose}:"
    for line in traceback.format_stack(frame):
        yield from line.rstrip().splitlines()


def sleep(seconds: float = 0.0) -> None:
    """Let the others run for that long, at least once."""
    gevent.sleep(seconds)


def wait_any(things: Collection[Any], timeout_s: float | None = None) -> list[Any]:
    """Those of `things` (events, results) that are ready, as soon as one is; [] when the time is over."""
    if not things:
        raise ValueError("wait_any needs something to wait for")
    # gevent.wait alone counts from when the hub last looked at its clock: 0 s are left after a long computation.
    gevent.get_hub().loop.update_now()
    return list(gevent.wait(things, timeout=timeout_s, count=1))


@contextmanager
def deadline(seconds: float, what: str = "this") -> Iterator[None]:
    """TimeoutError `WHAT took longer than 5 s` where the block waits when it is not done in time."""
    timer = Timeout.start_new(seconds)
    try:
        yield
    except Timeout as fired:
        if fired is not timer:
            raise
        raise TimeoutError(f"{what} took longer than {seconds:g} s") from None
    finally:
        timer.close()


def in_greenlet() -> bool:
    """Is the caller a greenlet of a running hub (and not the plain program of its thread)?"""
    return isinstance(gevent.getcurrent(), Greenlet)


def threads_are_greenlets() -> bool:
    """Did the program have gevent patch `threading`?"""
    return bool(gevent.monkey.is_module_patched("threading"))


def connect(
    address: tuple[str, int], timeout: float | None = None, receive_buffer_bytes: int = 0
) -> plain_socket.socket:
    """A TCP connection whose waits let other greenlets run.  Resolves the name afresh each time.  OSError, in time.

    receive_buffer_bytes: of the socket; 0 leaves it to the operating system, which then fits it to the link.
    """
    if not receive_buffer_bytes:
        return gevent.socket.create_connection(address, timeout=timeout)
    refused: OSError = OSError(f"{address[0]} has no address")
    for family, kind, proto, _, where in gevent.socket.getaddrinfo(*address, 0, plain_socket.SOCK_STREAM):
        opened = gevent.socket.socket(family, kind, proto)
        try:
            opened.settimeout(timeout)
            # Before connecting: how far the window scales is said in the first packet.
            opened.setsockopt(plain_socket.SOL_SOCKET, plain_socket.SO_RCVBUF, receive_buffer_bytes)
            opened.connect(where)
            return opened
        except OSError as error:
            refused = error
            opened.close()
        except BaseException:
            opened.close()
            raise
    raise refused


def tls_context(ca: str | None, certificate: str | None, key: str | None, password: str | None, verify: bool) -> Any:
    """A client's TLS context whose sockets wait in the hub.  Arguments and errors: as groundwork.tls.configured."""
    return configured(gevent.ssl.SSLContext(gevent.ssl.PROTOCOL_TLS_CLIENT), ca, certificate, key, password, verify)
