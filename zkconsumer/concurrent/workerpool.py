"""Who runs the readers and the workers of process(), and how they wait for each other.

    the connector's hub   readers                    workers, as asked for
    in its own thread     threads                    threads, or greenlets of the hub of process()'s caller
    the caller's          greenlets of that hub      the same

So there may be threads on one side and greenlets on the other.  What both touch is guarded by a plain lock that nobody
holds over a wait; who waits does so at a Bell, which lets other greenlets run where it is waited for in their hub.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from groundwork.hub import CallersHub, HubStopped
from groundwork.tasks import Event, Task, TaskGroup, in_greenlet, now, sleep, threads_are_greenlets
from zkconsumer.errors import ConsumerError

WorkerKind = Literal["threads", "greenlets"]
THREADS, GREENLETS = "threads", "greenlets"
TURN_S = 0.02  # a greenlet that never waits lets the others run after that long
A_TURN_S = 0.0001  # a timer: after a sleep of 0 the hub may run dozens of such loops again before it looks at sockets


class _Home:
    """The hub of process()'s caller."""

    def __init__(self) -> None:
        self.hub = CallersHub()
        self._thread = threading.get_native_id()  # get_ident tells greenlets apart in a program patched by gevent

    def here(self) -> bool:
        return threading.get_native_id() == self._thread

    def run(self, fn: Callable[..., object], *args: object) -> None:
        """At once when called in the hub, else soon."""
        if self.here():
            fn(*args)
            return
        try:
            self.hub.post(fn, *args)
        except HubStopped:
            pass  # process() is over, and a thread it left behind has something to say


class Bell:
    """Something to wait for and to ring, both with its lock held; from any thread, and any greenlet of the home's."""

    def __init__(self, lock: threading.Lock, home: _Home | None) -> None:
        self._lock = lock
        self._home = home
        self._waiting: deque[tuple[Any, bool]] = deque()  # an event, and whether it belongs to the hub

    def wait(self, timeout_s: float) -> None:
        """Until it is rung, at most that long; the lock is given up meanwhile.  Look again at what was waited for."""
        in_hub = self._home is not None and self._home.here()
        mine = (Event() if in_hub else threading.Event(), in_hub)
        self._waiting.append(mine)
        self._lock.release()
        try:
            mine[0].wait(timeout_s)
        finally:
            self._lock.acquire()
            if mine in self._waiting:
                self._waiting.remove(mine)

    def ring(self) -> None:
        """Wake who has waited longest."""
        if self._waiting:
            event, in_hub = self._waiting.popleft()
            if in_hub and self._home is not None:
                self._home.run(event.set)
            else:
                event.set()

    def ring_all(self) -> None:
        while self._waiting:
            self.ring()


class Workforce:
    """own_hub: the connector has a hub in a thread of its own; otherwise all of this is made in its hub's thread.

    Raises ConsumerError for a kind that cannot be had here.
    """

    def __init__(self, kind: str, own_hub: bool) -> None:
        if kind not in (THREADS, GREENLETS):
            raise ConsumerError(f"worker_kind is {kind!r}: threads or greenlets")
        if kind == THREADS and threads_are_greenlets():
            raise ConsumerError(
                "this program is patched by gevent, so its threads are greenlets of one thread: say so by"
                " worker_kind='greenlets'"
            )
        self._own_hub = own_hub
        self._greenlets = kind == GREENLETS
        needed = self._greenlets or not own_hub or in_greenlet()
        self._home = _Home() if needed else None
        self._tasks = TaskGroup()
        self._gate = threading.Lock()
        self._last_turn = now()
        self._readers: list[threading.Thread | Task] = []
        self._workers: list[threading.Thread | Task] = []
        if self._home is not None:
            self._home.hub.start()

    def bell(self, lock: threading.Lock) -> Bell:
        return Bell(lock, self._home)

    def read(self, name: str, fn: Callable[..., None], *args: object) -> None:
        """Start a reader."""
        self._readers.append(self._start(not self._own_hub, f"reader {name}", fn, *args))

    def work(self, name: str, fn: Callable[[], None]) -> None:
        """Start a worker."""
        self._workers.append(self._start(self._greenlets, f"worker {name}", fn))

    def _start(self, in_hub: bool, name: str, fn: Callable[..., None], *args: object) -> threading.Thread | Task:
        if in_hub:
            return self._tasks.spawn(f"zkconsumer {name}", fn, *args)
        thread = threading.Thread(target=fn, args=args, name=f"zkconsumer {name}", daemon=True)
        thread.start()
        return thread

    @property
    def reading(self) -> bool:
        """Is a reader left?"""
        return not all(_ended(reader) for reader in self._readers)

    def one_by_one(self, fn: Callable[..., object], *args: object) -> None:
        """Run fn(*args), which talks to the connector, never beside another one; where the hub is the caller's, perhaps
        a little later."""
        if self._own_hub or self._home is None:
            with self._gate:
                fn(*args)
        else:
            self._home.run(fn, *args)  # it waits for nothing; where gevent patched the program, only for its turn

    def breathe(self) -> None:
        """For a loop that may never wait: in the hub, the other greenlets get their turn."""
        if self._home is not None and self._home.here() and now() - self._last_turn > TURN_S:
            sleep(A_TURN_S)
            self._last_turn = now()

    def join_workers(self, timeout_s: float) -> None:
        """Wait until their handlers are through.  A greenlet that is not ends where it waits (GreenletExit); a thread
        is left behind, and what it says counts no more."""
        until = now() + timeout_s
        for worker in self._workers:
            worker.join(max(0.0, until - now()))
        for worker in self._workers:
            if isinstance(worker, Task) and not worker.ended:
                worker.ask_to_end()

    def disband(self, timeout_s: float) -> None:
        """Once the streams have ended."""
        for reader in self._readers:
            reader.join(timeout_s)
        self._tasks.stop(timeout_s)
        if self._home is not None:
            self._home.hub.stop()


def _ended(one: threading.Thread | Task) -> bool:
    return one.ended if isinstance(one, Task) else not one.is_alive()
