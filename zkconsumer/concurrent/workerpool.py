"""Worker pool of process(): threads or greenlets that read streams and call the handler, and how they wait.

    the connector's hub   readers                    workers, by worker_kind
    in its own thread     threads                    threads, or greenlets of the hub of process()'s caller
    the caller's          greenlets of that hub      threads, or greenlets of that hub

So there may be threads on one side and greenlets on the other.  A plain lock guards what both use, and is never held
during a wait; waits use a Signal, which lets the other greenlets of a hub run.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from groundwork.hub import CallersHub, HubStopped
from groundwork.tasks import Event, Task, TaskGroup, in_greenlet, now, sleep, threads_are_greenlets
from groundwork.threads import starting_threads
from zkconsumer.errors import ConsumerError

WorkerKind = Literal["threads", "greenlets"]
THREADS, GREENLETS = "threads", "greenlets"
TURN_S = 0.02  # a greenlet that never waits lets the others run after this time
YIELD_S = 0.0001  # not 0: with 0 the hub may run dozens of such loops before it polls sockets


class _CallersLoop:
    """Hub of process()'s caller."""

    def __init__(self) -> None:
        self.hub = CallersHub()
        self._thread = threading.get_native_id()  # get_ident differs between greenlets in a program patched by gevent

    def here(self) -> bool:
        return threading.get_native_id() == self._thread

    def run(self, fn: Callable[..., object], *args: object) -> None:
        """Run fn: at once if called in the hub, otherwise soon."""
        if self.here():
            fn(*args)
            return
        try:
            self.hub.post(fn, *args)
        except HubStopped:
            pass  # process() has ended, and an abandoned thread still reports


class Signal:
    """Condition variable for threads and for greenlets of the caller's hub; used with its lock held."""

    def __init__(self, lock: threading.Lock, loop: _CallersLoop | None) -> None:
        self._lock = lock
        self._loop = loop
        self._waiting: deque[tuple[Any, bool]] = deque()  # an event, and whether it belongs to the hub

    def wait(self, timeout_s: float) -> None:
        """Wait for a notify, at most that long; the lock is released meanwhile.  The caller must check its condition
        again."""
        in_hub = self._loop is not None and self._loop.here()
        mine = (Event() if in_hub else threading.Event(), in_hub)
        self._waiting.append(mine)
        self._lock.release()
        try:
            mine[0].wait(timeout_s)
        finally:
            self._lock.acquire()
            if mine in self._waiting:
                self._waiting.remove(mine)

    def notify(self) -> None:
        """Wake the waiter that has waited longest."""
        if self._waiting:
            event, in_hub = self._waiting.popleft()
            if in_hub and self._loop is not None:
                self._loop.run(event.set)
            else:
                event.set()

    def notify_all(self) -> None:
        while self._waiting:
            self.notify()


class WorkerPool:
    """Readers and workers of one call of process().

    own_hub: the connector has a hub in a thread of its own; otherwise the pool is made in the thread of its hub.
    Raises ConsumerError for a worker kind that is not available here.
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
        self._loop = _CallersLoop() if needed else None
        self._tasks = TaskGroup()
        self._gate = threading.Lock()
        self._last_turn = now()
        self._readers: list[threading.Thread | Task] = []
        self._workers: list[threading.Thread | Task] = []
        if self._loop is not None:
            self._loop.hub.start()

    def signal(self, lock: threading.Lock) -> Signal:
        return Signal(lock, self._loop)

    def read(self, name: str, fn: Callable[..., None], *args: object) -> None:
        """Start a reader.  Raises NoThread."""
        self._readers.append(self._start(not self._own_hub, f"reader {name}", fn, *args))

    def work(self, name: str, fn: Callable[[], None]) -> None:
        """Start a worker.  Raises NoThread."""
        self._workers.append(self._start(self._greenlets, f"worker {name}", fn))

    def _start(self, in_hub: bool, name: str, fn: Callable[..., None], *args: object) -> threading.Thread | Task:
        if in_hub:
            return self._tasks.spawn(f"zkconsumer {name}", fn, *args)
        thread = threading.Thread(target=fn, args=args, name=f"zkconsumer {name}", daemon=True)
        with starting_threads():
            thread.start()
        return thread

    @property
    def reading(self) -> bool:
        """True while a reader runs."""
        return not all(_ended(reader) for reader in self._readers)

    def serialized(self, fn: Callable[..., object], *args: object) -> None:
        """Run fn(*args), which calls the connector, one at a time; perhaps a little later if the hub is the
        caller's."""
        if self._own_hub or self._loop is None:
            with self._gate:
                fn(*args)
        else:
            self._loop.run(fn, *args)  # it does not block; in a program patched by gevent it only waits for its turn

    def yield_turn(self) -> None:
        """Let the other greenlets of a hub run; for loops that may never wait."""
        if self._loop is not None and self._loop.here() and now() - self._last_turn > TURN_S:
            sleep(YIELD_S)
            self._last_turn = now()

    def join_workers(self, timeout_s: float) -> None:
        """Wait until the workers' handlers have returned.  After timeout_s a greenlet is killed (GreenletExit), and a
        thread is abandoned, so its outcome does not count."""
        until = now() + timeout_s
        for worker in self._workers:
            worker.join(max(0.0, until - now()))
        for worker in self._workers:
            if isinstance(worker, Task) and not worker.ended:
                worker.ask_to_end()

    def close(self, timeout_s: float) -> None:
        """End everything, once the streams have ended."""
        for reader in self._readers:
            reader.join(timeout_s)
        self._tasks.stop(timeout_s)
        if self._loop is not None:
            self._loop.hub.stop()


def _ended(one: threading.Thread | Task) -> bool:
    return one.ended if isinstance(one, Task) else not one.is_alive()
