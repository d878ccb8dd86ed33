"""How a link moves bytes: a plain socket without copies, or whatever a secured connection gives (kafkawire.net.tls).

A transport waits in its own socket, so that waiting lets others run where the socket's kind does (gevent's).  One
caller may send while another receives.  All raise OSError; TimeoutError is one, after a silence of timeout_s, as
groundwork.sockets.TimeLeft counts it.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Sequence
from typing import Any, Protocol

from groundwork.forks import abandon
from groundwork.sockets import TimeLeft, in_slices, ready, slice_of, tuned

# Linux tells the other side's end by POLLRDHUP though bytes may wait unread; elsewhere POLLHUP does.
_ENDED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR | select.POLLNVAL
AT_ONCE_BYTES = 1 << 20  # of a response are waited for together
FEW_BYTES = 2 << 10  # less than that is taken as it comes
GATHER_S = 1.0  # a link that is slower than that gains nothing by it
VIEWS_PER_CALL = 512  # sendmsg takes at most IOV_MAX (1024 on Linux) buffers


class Transport(Protocol):
    """An open connection."""

    def send_all(self, buffers: Sequence[bytes | memoryview]) -> None:
        """Send all bytes.  A silence while they wait to be taken is bounded, not how long they take."""

    def receive_into(self, place: memoryview, due: int = 0) -> int:
        """What there is, at least a byte; 0: the other side ended the connection.  due: so many are on their way."""

    def ended(self) -> bool:
        """Whether the other side has ended the connection: a look that does not wait."""

    def close(self, abort: bool = False) -> None:
        """Close it, from anywhere: calls that wait raise OSError.  abort: what was sent and is not on its way yet is
        dropped."""

    def abort_at_exit(self) -> None:
        """A process that is killed drops what was sent and is not on its way yet, as close(abort=True) does."""

    def abandon(self) -> None:
        """Give it up in a forked child; the parent's copy stays open."""


class PlainTransport:
    """A socket, with one call a frame, and sets received where they stay."""

    def __init__(self, opened: Any, timeout_s: float) -> None:
        self._socket: Any = opened
        self._timeout_s = timeout_s
        self._slice_s = slice_of(timeout_s)
        self._gathers = True
        self._least = 1  # bytes that wake who waits for the socket
        opened.settimeout(self._slice_s)
        tuned(opened)

    def send_all(self, buffers: Sequence[bytes | memoryview]) -> None:
        """A frame in as few calls as it takes: one, unless the socket takes only a part of it."""
        opened = self._socket
        self._wait_for(opened, 1)
        views = [view for view in map(octets, buffers) if len(view)]
        at = 0
        while at < len(views):
            given = views[at : at + VIEWS_PER_CALL]
            taken = in_slices(opened, select.POLLOUT, TimeLeft(self._timeout_s), opened.sendmsg, given)
            if taken <= 0:
                raise OSError("the socket takes no more bytes")
            if taken == sum(map(len, given)):
                at += len(given)
                continue
            while at < len(views) and taken >= len(views[at]):
                taken -= len(views[at])
                at += 1
            if taken:
                views[at] = views[at][taken:]

    def receive_into(self, place: memoryview, due: int = 0) -> int:
        """What there is, at least a byte.  Of a response that has begun we are woken for all that the place holds, a
        megabyte at most, not for every few packets: each time costs, and all the more beside a thread that computes.
        0.8 sends one in a packet a partition.
        """
        opened = self._socket
        least = min(len(place), due, AT_ONCE_BYTES)
        if not self._gathers or least < FEW_BYTES:
            least = 1
        self._wait_for(opened, least)
        if least > 1:
            try:
                return int(opened.recv_into(place))
            except TimeoutError:
                self._gathers = False  # from now on it is a silence that is bounded, not how long a megabyte takes
                self._wait_for(opened, 1)
        count: int = in_slices(opened, select.POLLIN, TimeLeft(self._timeout_s), opened.recv_into, place)
        return count

    def _wait_for(self, opened: Any, least: int) -> None:
        """So many bytes wake who waits.  A time-out of GATHER_S is that of a gathering alone, of no other wait."""
        if least != self._least:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)
            opened.settimeout(self._slice_s if least == 1 else min(self._slice_s, GATHER_S))
            self._least = least

    def ended(self) -> bool:
        return ended(self._socket)

    def close(self, abort: bool = False) -> None:
        close(self._socket, abort)

    def abort_at_exit(self) -> None:
        set_abort(self._socket, True)

    def abandon(self) -> None:
        abandon(self._socket)


def ended(opened: Any) -> bool:
    """Whether the other side has closed or reset this socket."""
    return ready(opened, _ENDED)


def close(opened: Any, abort: bool = False) -> None:
    """Close a socket, and wake the task that waits in it.

    abort: reset the connection.  Else the kernel goes on to send what it has taken, for minutes on a line that is slow
    or broken, and a request that was given up on arrives after all that was decided without it.
    """
    try:
        set_abort(opened, abort)
        opened.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits in recv, which close alone does not
    except OSError:
        pass  # not connected any more: that is what we want
    opened.close()


def set_abort(opened: Any, abort: bool) -> None:
    """Whether the end of a socket, also by the death of its process, drops what it has not sent.  Raises OSError."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", abort, 0))


def octets(buffer: bytes | memoryview) -> memoryview:
    """The same bytes, counted as bytes."""
    view = memoryview(buffer)
    return view if view.ndim == 1 and view.itemsize == 1 else view.cast("B")
