"""Looks at sockets that do not wait, waits whose time-out counts only while this process runs, and keepalive.

A process that is stopped while it waits (SIGSTOP, a frozen cgroup, a paused machine) finds its time-out over when it
goes on.  Its epoll fails with EINTR then, and gevent runs due timers before it looks at sockets again; so does CPython
where a signal came meanwhile.  So a wait is cut into slices, each of which looks at the socket, and a slice that takes
much longer than it may shows that the process did not run.  Imports no gevent.
"""

from __future__ import annotations

import math
import select
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from groundwork import clocks

T = TypeVar("T")
SLICE_S = 1.0
GAP_S = 1.0  # a slice that is later than that shows that this process did not run
LEAST_S = 0.001  # time that is left and shorter than that is none
# An unanswered peer is given up after two minutes, in which a machine may be paused: probes after a minute of silence,
# by which a NAT or firewall keeps the connection in mind while a response takes long, and what was sent (Linux).
KEEPALIVE = {
    "TCP_KEEPIDLE": 60,
    "TCP_KEEPALIVE": 60,
    "TCP_KEEPINTVL": 20,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 120_000,
}


def real_poll() -> Any:
    """Return a select.poll of the standard library, also where gevent has patched it: gevent's looks at nothing in 0
    s."""
    monkey = sys.modules.get("gevent.monkey")
    return select.poll() if monkey is None else monkey.get_original("select", "poll")()


def ready(opened: Any, events: int) -> bool:
    """True if one of these events of select.poll, or an error, is there for a socket: a look that does not wait."""
    number = opened.fileno()
    if number < 0:  # closed
        return False
    look = real_poll()
    look.register(number, events)
    return bool(look.poll(0))


def tuned(opened: Any) -> None:
    """Set what connections to brokers have: no delay of small packets, and keepalive.  Raises OSError."""
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        option: int | None = getattr(socket, name, None)
        if option is not None:
            with suppress(OSError):  # a kernel or a sandbox that does not know it
                opened.setsockopt(socket.IPPROTO_TCP, option, value)


class TimeLeft:
    """Time left of a wait for limit_s, in slices of slice_s.

    A gap of the clock begins the wait again, since what was sent meanwhile may still be on its way.  What is waited in
    all is 2 * limit_s at most, so that a process that is often stopped does not wait forever.
    """

    __slots__ = ("_in_all_s", "_left_s", "_limit_s", "slice_s")

    def __init__(self, limit_s: float) -> None:
        self.slice_s = slice_of(limit_s)
        self._limit_s = self._left_s = limit_s
        self._in_all_s = 2 * limit_s

    @property
    def seconds(self) -> float:
        """Return the seconds that may still be waited; 0: none."""
        left_s = min(self._left_s, self._in_all_s)
        return left_s if left_s >= LEAST_S else 0.0

    def waited(self, took_s: float, at_most_s: float) -> None:
        """Count a wait that was to take at_most_s at most."""
        counted_s = min(took_s, at_most_s)
        self._in_all_s -= counted_s
        self._left_s = self._limit_s if took_s > at_most_s + GAP_S else self._left_s - counted_s


def slice_of(limit_s: float) -> float:
    """Return the length of equal slices, SLICE_S at most, that are limit_s together."""
    return limit_s / max(1, math.ceil(limit_s / SLICE_S))


def in_slices(opened: Any, events: int, left: TimeLeft, call: Callable[..., T], *args: Any) -> T:
    """Return call(*args), a method of the socket `opened` that waits for one of `events`.  Raises TimeoutError when
    no time is left and a last look finds nothing.

    The socket's own time-out has to be left.slice_s, and a call that raises TimeoutError must have done nothing.
    """
    while True:
        began = clocks.boot()
        try:
            done = call(*args)
        except TimeoutError:
            left.waited(max(clocks.boot() - began, left.slice_s), left.slice_s)
            if not left.seconds and not ready(opened, events):
                raise
        else:
            left.waited(clocks.boot() - began, left.slice_s)
            return done
