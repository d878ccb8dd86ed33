"""Virtual time, and processes that live in it: gevent's own greenlets, locks and queues on a loop without a clock.

    Timeline   what is due when, for everybody; nothing else makes time pass
    Process    one simulated process: a hub with a loop of its own.  It can be frozen (SIGSTOP: nothing of it runs, what
               comes due or arrives meanwhile runs when it is thawed, in either order) and killed (nothing of it ever
               runs again)

One process runs at a time, until all its greenlets wait.  No thread, no sleep, no real clock.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

from gevent._hub_local import get_hub_if_exists, set_hub
from gevent.hub import Hub
from greenlet import getcurrent

from groundwork import clocks
from groundwork.clocks import Moment

CALLBACKS_A_TURN = 50_000  # more without time passing: it runs in circles
EVENTS_A_MOMENT = 500_000  # the same, of the whole world
TICK_S = 1e-9  # what a timer waits at least: a difference of two floats may be too small to move the clock


class Circles(AssertionError):
    """A process, or the world, does not come to rest although no time passes."""


class Timeline:
    """now: monotonic seconds."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.stopped = False
        self._due: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = count()

    @property
    def due(self) -> float | None:
        """When something comes due next."""
        return self._due[0][0] if self._due else None

    def at(self, when: float, fn: Callable[..., object], *args: Any) -> None:
        heapq.heappush(self._due, (max(when, self.now), next(self._number), fn, args))

    def after(self, seconds: float, fn: Callable[..., object], *args: Any) -> None:
        self.at(self.now + seconds, fn, *args)

    def run_until(self, until: float) -> None:
        due, left = self._due, EVENTS_A_MOMENT
        while due and due[0][0] <= until and not self.stopped:
            if due[0][0] > self.now:
                left = EVENTS_A_MOMENT
            elif not left:
                raise Circles(f"{EVENTS_A_MOMENT} events at {self.now!r}, and {due[0][2]} is next")
            left -= 1
            self.now, _, fn, args = heapq.heappop(due)
            fn(*args)
        self.now = max(self.now, until)


class Callback:
    """One call in the loop, as gevent's own: it can be taken back."""

    __slots__ = ("args", "callback")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args: tuple[Any, ...] | None = args

    def stop(self) -> None:
        self.callback = self.args = None

    close = stop

    @property
    def pending(self) -> bool:
        return self.callback is not None

    def __bool__(self) -> bool:
        """Also while it runs, as gevent's own: an Event that is set meanwhile does not ask for a second one."""
        return self.args is not None


class Timer:
    """A timer of the loop, as far as gevent's primitives use one."""

    def __init__(self, process: Process, after: float) -> None:
        self._process = process
        self._after = max(0.0, after)
        self._started = 0
        self.callback: Callable[..., object] | None = None
        self.args: tuple[Any, ...] | None = None

    def start(self, callback: Callable[..., object], *args: Any, **_: Any) -> None:
        self.callback, self.args = callback, args
        self._started += 1
        self._process.after(self._after, self._fire, self._started)

    def _fire(self, started: int) -> None:
        if self.callback is not None and started == self._started:
            callback, args = self.callback, self.args or ()
            self.callback = self.args = None
            callback(*args)

    def stop(self) -> None:
        self.callback = self.args = None

    close = stop

    @property
    def active(self) -> bool:
        return self.callback is not None

    pending = active

    def __enter__(self) -> Timer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Async:
    """What another thread would wake a loop with: here everything is one thread."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._callback: Callable[..., object] | None = None
        self._args: tuple[Any, ...] = ()

    def start(self, callback: Callable[..., object], *args: Any) -> None:
        self._callback, self._args = callback, args

    def send(self) -> None:
        if self._callback is not None:
            self._loop.run_callback(self._callback, *self._args)

    def stop(self) -> None:
        self._callback = None

    close = stop


class Loop:
    """The event loop of one process: gevent asks for callbacks and timers, and groundwork.hub for one to wake it."""

    def __init__(self, process: Process) -> None:
        self.error_handler: Any = None
        self.ready: deque[Callback] = deque()
        self._process = process

    def run_callback(self, fn: Callable[..., object], *args: Any) -> Callback:
        callback = Callback(fn, args)
        self.ready.append(callback)
        return callback

    run_callback_threadsafe = run_callback

    def timer(self, after: float, repeat: float = 0.0, ref: bool = True, priority: object = None) -> Timer:
        return Timer(self._process, after)

    def async_(self, ref: bool = True, priority: object = None) -> Async:
        return Async(self)

    def update_now(self) -> None:
        pass

    def now(self) -> float:
        return self._process.timeline.now

    def run(self) -> None:
        """Never returns: rests in the caller of Process.turn whenever nothing is ready."""
        ready = self.ready
        while True:
            for _ in range(CALLBACKS_A_TURN):
                if not ready:
                    break
                callback = ready.popleft()
                fn, args = callback.callback, callback.args
                if fn is None:
                    continue
                callback.callback = None
                try:
                    fn(*args or ())
                except Exception as e:
                    self._process.failed(e)
                callback.args = None
            else:
                self._process.failed(Circles(f"{self._process.name} runs in circles: {ready[0].callback}"))
                ready.clear()
            self._process.main.switch()


class ProcessHub(Hub):  # type: ignore[misc]  # gevent has no types
    """failed: what greenlets of no task group raise."""

    failed: Callable[[BaseException], None]
    process: Process

    def handle_error(self, context: object, type: object, value: Any, tb: object) -> None:
        self.failed(value)

    def start_periodic_monitoring_thread(self) -> None:
        pass


class Process:
    """failed(exception): called for what nobody caught."""

    def __init__(self, name: str, timeline: Timeline, failed: Callable[[BaseException], None]) -> None:
        self.name = name
        self.timeline = timeline
        self.failed = failed
        self.dead = False
        self.frozen = False
        self.asleep_s = 0.0  # what its monotonic clock has not counted
        self.ahead_s = 0.0  # of its time of day
        within: Process | None = getattr(get_hub_if_exists(), "process", None)  # its parent, of a child
        self.main = within.main if within is not None else getcurrent()
        self._backlog: list[tuple[bool, Callable[..., object], tuple[Any, ...]]] = []  # whether it arrived
        self._loop = Loop(self)
        self._hub = ProcessHub(loop=self._loop)
        self._hub.parent = self.main
        self._hub.failed = failed
        self._hub.process = self

    def after(self, seconds: float, fn: Callable[..., object], *args: Any) -> None:
        """Call fn(*args) in this process, once that time has passed by its monotonic clock and it is not frozen."""
        timeline = self.timeline
        if 0 < seconds < TICK_S:
            seconds = TICK_S
        timeline.at(timeline.now + seconds, self._due, self.asleep_s, fn, args)

    def _due(self, asleep_s: float, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self.asleep_s > asleep_s:  # its clock stood still meanwhile
            self.timeline.after(self.asleep_s - asleep_s, self._due, self.asleep_s, fn, args)
        else:
            self._run(False, fn, args)

    def hears(self, seconds: float, fn: Callable[..., object], *args: Any) -> None:
        """Call fn(*args) in this process when something arrives from another machine, which takes so long."""
        self.timeline.after(seconds, self.arrive, fn, *args)

    def arrive(self, fn: Callable[..., object], *args: Any) -> None:
        """Something has arrived at its machine: call fn(*args) in this process, now or once it is thawed."""
        self._run(True, fn, args)

    def moment(self) -> Moment:
        """What its clocks say now."""
        before = get_hub_if_exists()
        set_hub(self._hub)
        try:
            return clocks.moment()
        finally:
            set_hub(before)

    def freeze(self) -> None:
        self.frozen = True

    def suspend(self, seconds: float) -> None:
        """Freeze it; its monotonic clock, and with it all timers, stand still for so long.  thaw() wakes it."""
        self.freeze()
        self.asleep_s += seconds

    def thaw(self, sockets_first: bool = False) -> None:
        """Let it run again, with all timers that came due meanwhile before all that arrived, or behind it.

        A loop that was stopped while it waited runs its timers before it looks at sockets (epoll fails with EINTR); one
        that was stopped right behind its wait has what arrived by then already.
        """
        self.frozen = False
        backlog, self._backlog = self._backlog, []
        for arrivals in (sockets_first, not sockets_first):
            for arrived, fn, args in backlog:
                if arrived == arrivals:
                    self._loop.run_callback(fn, *args)
            self._turn()

    def kill(self) -> None:
        self.dead = True
        self._loop.ready.clear()
        self._backlog.clear()

    def _run(self, arrived: bool, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Call fn(*args) in this process now, or once it is thawed; and what follows, until all its greenlets wait."""
        if self.frozen and not self.dead:
            self._backlog.append((arrived, fn, args))
        elif not self.dead:
            self._loop.run_callback(fn, *args)
            self._turn()

    def _turn(self) -> None:
        """Run what is ready until all greenlets wait.  In the main greenlet."""
        if self.dead or getcurrent() is not self.main:
            return
        before = get_hub_if_exists()
        set_hub(self._hub)
        try:
            self._hub.switch()
        finally:
            set_hub(before)
