"""Meters of a mirror: rates over a sliding window, and the lag of a partition in seconds.  Pure; the caller passes the
time.

RateWindow    how fast a pair of counters (messages, bytes) rose recently
EndHistory    the ends of a log over time: how long ago the log ended at an offset
"""

from __future__ import annotations

from collections import deque

WINDOW_S = 10.0
SAMPLE_S = 1.0  # samples are at least this far apart
MAX_ENDS = 256


class RateWindow:
    """Messages and bytes per second over the last window_s seconds, from counters that only rise."""

    __slots__ = ("_newest", "_samples", "_window_s")

    def __init__(self, at: float, messages: int = 0, bytes: int = 0, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._samples: deque[tuple[float, int, int]] = deque([(at, messages, bytes)])
        self._newest = (at, messages, bytes)

    def add(self, at: float, messages: int, bytes: int) -> None:
        """Add the counters at a moment."""
        self._newest = (at, messages, bytes)
        samples = self._samples
        if at - samples[-1][0] >= SAMPLE_S:
            samples.append(self._newest)
        while len(samples) > 1 and at - samples[1][0] >= self._window_s:
            samples.popleft()

    @property
    def per_s(self) -> tuple[float, float]:
        """Return messages and bytes per second; 0 before any time has passed."""
        began, messages, nbytes = self._samples[0]
        at, messages_now, bytes_now = self._newest
        seconds = at - began
        if seconds <= 0:
            return 0.0, 0.0
        return max(0, messages_now - messages) / seconds, max(0, bytes_now - nbytes) / seconds


class EndHistory:
    """Ends of one log, each with the last moment at which it was the end.

    At most MAX_ENDS are kept: older ones are thinned out, so that a lag of days keeps a precision of about a percent.
    """

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends: list[tuple[float, int]] = []  # (when, end), ends rise

    def add(self, at: float, end: int) -> None:
        """Record the end of the log at this moment.  A smaller end means another log: the history begins again."""
        ends = self._ends
        if ends and end < ends[-1][1]:
            ends.clear()
        if ends and ends[-1][1] == end:
            ends[-1] = (at, end)
            return
        ends.append((at, end))
        if len(ends) > MAX_ENDS:
            half = MAX_ENDS // 2
            self._ends = ends[:half:2] + ends[half:]

    def passed(self, position: int) -> None:
        """Forget ends before position, because everything before it is done."""
        ends = self._ends
        if len(ends) > 1 and ends[1][1] <= position:
            keep = next((n for n in range(len(ends) - 1, 0, -1) if ends[n][1] <= position), 0)
            del ends[:keep]

    def age_s(self, position: int, at: float) -> tuple[float, bool] | None:
        """Return the seconds since the log ended at position, and whether this is only a lower bound: the log was
        longer already when it was first seen.  Return None if nothing is known of it."""
        if not self._ends:
            return None
        if position >= self._ends[-1][1]:
            return 0.0, False
        before: tuple[float, int] | None = None
        for when, end in self._ends:
            if end > position:
                if before is None:
                    return max(0.0, at - when), True
                since = before[0] + (when - before[0]) * (position - before[1]) / (end - before[1])
                return max(0.0, at - since), False
            before = (when, end)
        return 0.0, False
