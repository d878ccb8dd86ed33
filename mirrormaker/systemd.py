"""Notification of systemd (sd_notify): one datagram to the socket in $NOTIFY_SOCKET.  Needs no library.

READY=1     once the sessions are open, the first assignment is made and the target answered metadata
RELOADING=1 the configuration is read again; MONOTONIC_USEC gives the start, and READY=1 ends it
STATUS=     one line for `systemctl status`, with the mirror's name in front
STOPPING=1  the drain begins; EXTEND_TIMEOUT_USEC while it lasts
WATCHDOG=1  only while the program makes progress: a ping from a bare timer would hide a dead pipeline

systemd may not accept a datagram (its queue is full).  The next status or ping replaces a lost one; READY, RELOADING
and STOPPING are repeated until they are accepted: without READY systemd would kill a mirror that copies.
"""

from __future__ import annotations

import logging
import socket
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from groundwork.decimals import decimal_int
from groundwork.sentences import printable
from groundwork.tasks import now, sleep

if TYPE_CHECKING:
    from kafkawire.model import TopicPartition
    from mirrormaker.flow import Flow

log = logging.getLogger(__name__)

STALL_S = 120.0  # longest time partitions may lag without progress, unless an outside cause explains it
PINGS_PER_LIMIT = 12  # stalls shorter than eleven twelfths of the limit never miss it, whenever they begin
STALLED = {"event": "stalled"}  # of log lines


class Systemd:
    """Service manager that started us.  Without $NOTIFY_SOCKET every call does nothing.  name: the mirror's name."""

    def __init__(self, environ: Mapping[str, str], pid: int, name: str = "") -> None:
        self._name = f"{name}: " if name else ""
        self._address = address(environ.get("NOTIFY_SOCKET", ""))
        self._socket: socket.socket | None = None
        self._not_taken: dict[str, str] = {}  # states that systemd has not accepted, in order, with their datagrams
        self.watchdog_s = watchdog_s(environ, pid)
        if self._address is not None:
            with suppress(OSError):
                self._open()

    def ready(self, status: str) -> None:
        self._enter("READY=1", self._line(status))

    def reloading(self) -> None:
        """Report that a reload has begun; ready() ends it.  systemd 253 and later wait forever without the time."""
        self._enter("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", self._line("reloading"))

    def status(self, status: str) -> None:
        self.repeat()
        self._notify(self._line(status))

    def stopping(self, extend_s: float) -> None:
        """Report that the drain has begun and may take this long."""
        self._not_taken.clear()
        self._enter("STOPPING=1", self._line("draining"), f"EXTEND_TIMEOUT_USEC={int(extend_s * 1_000_000)}")

    def alive(self) -> None:
        self._notify("WATCHDOG=1")

    def repeat(self) -> None:
        """Repeat the states that systemd has not accepted, in order; call it regularly."""
        for state, text in list(self._not_taken.items()):
            if not self._notify(text):
                return
            del self._not_taken[state]

    def _line(self, status: str) -> str:
        return f"STATUS={one_line(self._name + status)}"

    def _enter(self, state: str, *lines: str) -> None:
        self._not_taken.pop(state, None)  # of an earlier reload
        self._not_taken[state] = "\n".join((state, *lines))
        self.repeat()

    def _notify(self, text: str) -> bool:
        """Send a datagram; return False if systemd did not accept it, which must not stop a mirror."""
        if self._address is None:
            return True
        try:
            self._open().sendto(text.encode(), self._address)
        except OSError:  # its queue is full, nothing listens, or no descriptor was free
            return False
        return True

    def _open(self) -> socket.socket:
        """Open the socket once: a mirror without a free descriptor still pings.  Raises OSError."""
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
            weakref.finalize(self, self._socket.close)
        return self._socket


def address(named: str) -> str | None:
    """Return the address in $NOTIFY_SOCKET: a path, or an abstract name that begins with @."""
    if not named.startswith(("/", "@")):
        return None
    return "\0" + named[1:] if named.startswith("@") else named


def watchdog_s(environ: Mapping[str, str], pid: int) -> float | None:
    """Return the seconds within which systemd expects a ping, or None; $WATCHDOG_PID names the process it expects it
    from."""
    usec = decimal_int(environ.get("WATCHDOG_USEC", ""), least=1)
    meant = environ.get("WATCHDOG_PID", str(pid))
    return usec / 1_000_000 if usec is not None and meant == str(pid) else None


def one_line(text: str) -> str:
    return printable(" ".join(text.split()))


class Watchdog:
    """Watchdog that pings systemd while the event loop runs and partitions progress, or an outside cause stops them.

    A blocked loop sends no pings; once it runs again it sends one at once, because its timer is overdue.
    """

    def __init__(self, systemd: Systemd, flows: Sequence[Flow]) -> None:
        self._systemd = systemd
        self._flows = flows
        self._moved_at: dict[str, float] = {}  # by flow: last progress, or last outside reason for none
        self._positions: dict[str, dict[TopicPartition, object]] = {}

    def run(self, limit_s: float) -> None:
        """Ping until stopped.  limit_s: the interval within which systemd expects a ping."""
        while True:
            sleep(limit_s / PINGS_PER_LIMIT)
            if stalled := self.stalled(now()):
                log.error(
                    "source %s: partitions lag and nothing has moved for %.0f s; systemd gets no watchdog ping",
                    ", ".join(stalled),
                    STALL_S,
                    extra=STALLED,
                )
            else:
                self._systemd.alive()

    def stalled(self, at: float) -> list[str]:
        """Return sources with a lag that could shrink but did not for STALL_S, although neither the target, nor their
        ZooKeeper, nor a missing leader or topic explains it.

        Trouble of one source does not excuse another.
        """
        for flow in self._flows:
            same = self._unmoved(flow)
            excused = flow.sender.bytes_pending > 0 or bool(flow.source.trouble)
            if excused or not same:
                self._moved_at[flow.name] = at
        return [name for name, moved_at in self._moved_at.items() if at - moved_at > STALL_S]

    def _unmoved(self, flow: Flow) -> list[TopicPartition]:
        """Return partitions of a flow that lag and are still at their last offset; remember their current offsets."""
        waiting, before = flow.waiting, self._positions.get(flow.name, {})
        positions: dict[TopicPartition, object] = {
            row.tp: (row.position, row.done)
            for row in flow.source.partitions()
            if row.state == "reading" and row.lag and row.topic not in waiting
        }
        self._positions[flow.name] = positions
        return [tp for tp, position in positions.items() if before.get(tp) == position]
