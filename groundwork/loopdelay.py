"""Lateness of a hub, and its cause: a C call that keeps the interpreter's lock stops every thread, also the
heartbeat's; a process that is stopped, or waits for a disk where its hub runs, does nothing."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable

from groundwork.tasks import now, sleep

log = logging.getLogger(__name__)

LATELY_S = 60.0
LATE = "%s could not run for %.0f ms (more than %.0f), and its process worked for %.0f ms meanwhile: "
LOST = "; the ZooKeeper session may be lost that way"
WORKED = f"{LATE}a call that never waits, or a C call that keeps the interpreter's lock, held it up{LOST}"
WAITED = f"{LATE}it was stopped, the machine was suspended or had no time for it, or a disk did not answer{LOST}"


class HubLag:
    """Measures how late a hub runs its timers, by ticks in a greenlet (`tasks.spawn("lag", lag.run)`).

    name      of the hub, for the warning
    limit_ms  a tick later than this is reported; a quarter of the ZooKeeper session timeout is a good limit
    on_late   called with the lateness in ms; without it a warning is logged
    """

    def __init__(
        self, name: str, limit_ms: float, tick_ms: float = 100.0, on_late: Callable[[float], object] | None = None
    ) -> None:
        self._half = (0.0, 0.0, 0.0)  # of LATELY_S: when it began, the worst in it, the worst in the one before
        self._worked_ms = 0.0  # processor time of the process during the last tick
        self._name = name
        self._limit_ms = limit_ms
        self._tick_ms = tick_ms
        self._on_late = on_late or self._warn

    def run(self) -> None:
        """Tick forever."""
        while True:
            asked, worked = now(), time.process_time()
            sleep(self._tick_ms / 1000)
            self._worked_ms = (time.process_time() - worked) * 1000
            self._note((now() - asked) * 1000 - self._tick_ms)

    @property
    def lately_ms(self) -> float:
        """Return the worst lateness in ms of the last LATELY_S seconds, or half of that."""
        return max(self._half[1:])

    def _note(self, late_ms: float) -> None:
        began, worst, before = self._half
        if now() - began > LATELY_S / 2:
            began, worst, before = now(), 0.0, worst
        self._half = began, max(worst, late_ms), before
        if late_ms > self._limit_ms:
            self._on_late(late_ms)

    def _warn(self, late_ms: float) -> None:
        worked = self._worked_ms >= late_ms / 2
        log.warning(WORKED if worked else WAITED, self._name, late_ms, self._limit_ms, self._worked_ms)


def busy_lines() -> list[str]:
    """Return `NAME in FUNCTION, FILE:LINE` of every other thread, by its innermost frame now.

    A thread that has just released the interpreter after a long call is still in the line of that call.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    own = threading.get_ident()
    return [
        f"{names.get(ident, ident)} in {frame.f_code.co_name}, {frame.f_code.co_filename}:{frame.f_lineno}"
        for ident, frame in sorted(sys._current_frames().items())
        if ident != own
    ]
