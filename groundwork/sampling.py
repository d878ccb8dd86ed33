"""Samples of what a program does, taken while it runs and without any cost while they are not.

    with Ticks(0.005, tick): ...       tick(frame, cpu_s, wall_s) for each tick of a timer, in the main thread
    frames_of(GreenletStacks().frames())

Ticks interrupts the main thread by SIGALRM wherever it is, also in user code that lets no greenlet run.  It gets the
frame that runs, and what processor time the thread had since the last tick, so that both go to one place in the code.
"""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType

from greenlet import greenlet

from groundwork.tasks import now

REFRESH_S = 1.0  # greenlets are looked for among all objects: that takes 10 ms and more
Tick = Callable[[FrameType | None, float, float], object]


class TimerTaken(RuntimeError):
    """Another part of this program uses the timer of SIGALRM, or this is not the main thread."""


class Ticks:
    """Calls tick every every_s seconds while the block runs.  Raises TimerTaken at the begin of the block."""

    def __init__(self, every_s: float, tick: Tick) -> None:
        self._every_s, self._tick = every_s, tick
        self._cpu = self._at = 0.0

    def __enter__(self) -> Ticks:
        if threading.current_thread() is not threading.main_thread():
            raise TimerTaken("a profile is taken in the main thread only")
        if signal.getitimer(signal.ITIMER_REAL)[0]:
            raise TimerTaken("the timer of SIGALRM is in use, by another profile or by a handler of yours")
        self._before = signal.signal(signal.SIGALRM, self._on_alarm)
        self._cpu, self._at = time.thread_time(), now()
        signal.setitimer(signal.ITIMER_REAL, self._every_s, self._every_s)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        cpu, at = time.thread_time(), now()
        self._tick(frame, cpu - self._cpu, at - self._at)
        self._cpu, self._at = cpu, at


class GreenletStacks:
    """Stacks of the greenlets of this process, at the places where they wait."""

    def __init__(self) -> None:
        self._known: list[greenlet] = []
        self._refreshed_at = float("-inf")

    def frames(self) -> Iterator[FrameType]:
        """Yield the innermost frame of each greenlet that waits; those begun within the last second may be left out."""
        if now() - self._refreshed_at > REFRESH_S:
            # By type: isinstance() asks a weak proxy for the class of what may be gone.
            self._known = [each for each in gc.get_objects() if issubclass(type(each), greenlet)]
            self._refreshed_at = now()
        for each in self._known:
            if each.gr_frame is not None:
                yield each.gr_frame


def modules_of(frame: FrameType | None) -> Iterator[tuple[str, str]]:
    """Yield the module and function of a stack's frames, the innermost first."""
    while frame is not None:
        yield frame.f_globals.get("__name__", ""), frame.f_code.co_name
        frame = frame.f_back
