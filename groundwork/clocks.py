"""Clocks that show whether this machine stood still: in a suspend, or as a virtual machine that was paused.

    monotonic   what timers and time-outs count by.  It stops in a suspend
    boot        continues during a suspend, if the system has such a clock: CLOCK_BOOTTIME of Linux, CLOCK_MONOTONIC of
                macOS, which Python's own monotonic clock is not.  Else it is the monotonic one
    wall        the time of day

A virtual machine that is paused sees none of them move.  Its time of day is set forward once it runs again.

Everything that needs these clocks reads them here, through the module, so that a test can replace them in one place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

STILL_S = 0.001  # the clocks are read again where another thread ran for longer between them
TRIES = 5


class Moment(NamedTuple):
    """One reading of all clocks, in seconds."""

    at: float  # by the boot clock
    asleep: float = 0.0  # the boot clock less the monotonic one: grows with each suspend
    ahead: float = 0.0  # the time of day less the monotonic clock: grows where it is set forward

    def jump_s(self, earlier: Moment) -> float:
        """Return the seconds since `earlier` that the monotonic clock did not count; 0 or less: none.

        A time of day that was set back does not show how much time has passed.
        """
        return max(self.asleep - earlier.asleep, self.ahead - earlier.ahead)


def _boot_clock() -> Callable[[], float]:
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
        number = getattr(time, name, None)
        if number is not None:
            clock = partial(time.clock_gettime, number)
            try:
                clock()
            except OSError:
                continue
            return clock
    return time.monotonic


monotonic = time.monotonic
boot = _boot_clock()
wall = time.time


def moment(tries: int = TRIES) -> Moment:
    """Read the clocks now."""
    counted, at, day = monotonic(), boot(), wall()
    if monotonic() - counted > STILL_S and tries > 1:
        return moment(tries - 1)
    return Moment(at, at - counted, day - counted)
