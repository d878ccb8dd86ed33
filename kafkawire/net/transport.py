"""Transport of a link's bytes: a plain socket without copies, or a secured connection (kafkawire.net.tls).

A transport waits in its own socket, so with gevent's sockets other tasks run meanwhile.  One caller may send while
another receives.  All methods raise OSError; TimeoutError is one, after a silence of timeout_s, measured by
groundwork.sockets.TimeLeft.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Sequence
from typing import Any, Protocol

from groundwork.forks import abandon
from groundwork.sockets import TimeLeft, in_slices, ready, slice_of, tuned

# Linux reports that the other side closed by POLLRDHUP even with unread bytes; other systems use POLLHUP.
_ENDED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR | select.POLLNVAL
AT_ONCE_BYTES = 1 << 20  # bytes of a response that are awaited together
FEW_BYTES = 2 << 10  # smaller remainders are received without gathering
GATHER_S = 1.0  # a link slower than that gains nothing by gathering
VIEWS_PER_CALL = 512  # sendmsg takes at most IOV_MAX (1024 on Linux) buffers


class Transport(Protocol):
    """Open connection."""

    def send_all(self, buffers: Sequence[bytes | memoryview]) -> None:
        """Send all bytes.  Each silence while the socket is full is limited, not the total time."""

    def receive_into(self, place: memoryview, due: int = 0) -> int:
        """Receive available bytes, at least one; 0 means that the other side closed the connection. due: number of
        bytes still expected."""

    def ended(self) -> bool:
        """True if the other side has closed the connection; does not wait."""

    def close(self, abort: bool = False) -> None:
        """Close it, from any task or thread: waiting calls raise OSError. abort: drop bytes that the kernel has not
        transmitted yet."""

    def abort_at_exit(self) -> None:
        """If this process is killed, drop bytes that the kernel has not transmitted yet, as close(abort=True) does."""

    def abandon(self) -> None:
        """Close it in a forked child; the parent's copy stays open."""


class PlainTransport:
    """Plain socket with one call per frame; sets are received into their final buffer."""

    def __init__(self, opened: Any, timeout_s: float) -> None:
        self._socket: Any = opened
        self._timeout_s = timeout_s
        self._slice_s = slice_of(timeout_s)
        self._gathers = True
        self._least = 1  # bytes for which a waiting reader is woken
        opened.settimeout(self._slice_s)
        tuned(opened)

    def send_all(self, buffers: Sequence[bytes | memoryview]) -> None:
        """Send a frame in one call, unless the socket accepts only a part of it."""
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
        """Receive available bytes, at least one.  Once a response has begun, wait for all that fits into `place`, at
        most a megabyte, instead of waking up for every few packets: each wake-up costs time, even more beside a
        computing thread. 0.8 sends a response in one packet per partition.
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
                self._gathers = False  # stop gathering: each silence is limited, not the time for a megabyte
                self._wait_for(opened, 1)
        count: int = in_slices(opened, select.POLLIN, TimeLeft(self._timeout_s), opened.recv_into, place)
        return count

    def _wait_for(self, opened: Any, least: int) -> None:
        """Wake a waiting reader after `least` bytes.  The time-out GATHER_S applies only to gathering."""
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
    """True if the other side has closed or reset this socket."""
    return ready(opened, _ENDED)


def close(opened: Any, abort: bool = False) -> None:
    """Close a socket, and wake the task waiting in it.

    abort: reset the connection.  Otherwise the kernel continues to send its buffer, for minutes on a slow or broken
    line, and a request that was given up may still arrive after later decisions.
    """
    try:
        set_abort(opened, abort)
        opened.shutdown(socket.SHUT_RDWR)  # wakes a thread waiting in recv, which close() alone does not
    except OSError:
        pass  # not connected any more, as wanted
    opened.close()


def set_abort(opened: Any, abort: bool) -> None:
    """Set whether closing a socket, also by the death of its process, drops unsent bytes.  Raises OSError."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", abort, 0))


def octets(buffer: bytes | memoryview) -> memoryview:
    """Return a view of the buffer as bytes."""
    view = memoryview(buffer)
    return view if view.ndim == 1 and view.itemsize == 1 else view.cast("B")
