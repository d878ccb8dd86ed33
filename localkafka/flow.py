"""One direction of a proxied connection: bytes from one socket to the other, as late, slowly and badly as told."""

from __future__ import annotations

import math
import socket
import time
from collections import deque
from dataclasses import dataclass

CHUNK = 64 * 1024
HELD = 1024 * 1024  # bytes read and not yet passed on; a full flow stops reading, and the sender feels it
TICK_S = 0.02  # a throttled flow writes what this time allows at once


@dataclass(frozen=True, slots=True)
class Fault:
    """What one direction suffers; the default suffers nothing."""

    delay_s: float = 0  # every byte arrives this much later
    bytes_per_s: float = math.inf
    blackhole: bool = False  # nothing passes, nothing is noticed, connections stay
    slice_bytes: int = CHUNK  # no write is larger
    gap_s: float = 0  # between two writes
    cut_after: int | None = None  # bytes after which the connection is closed


class Flow:
    """Bytes from source to sink.  Not thread-safe: the proxy's loop calls it under its lock.

    passed   bytes written to sink so far          ended   source's end of file was passed on
    cut_at   passed may not exceed it; reaching it is `cut`
    """

    def __init__(self, source: socket.socket, sink: socket.socket, fault: Fault) -> None:
        self.source = source
        self.sink = sink
        self.passed = 0
        self.ended = False
        self.cut_at: int | None = None
        self._held: deque[tuple[float, memoryview]] = deque()  # (when it is due, bytes); no bytes: the end of file
        self._held_bytes = 0
        self._source_ended = False
        self._next_write = 0.0
        self.set(fault, recount=True)

    @property
    def cut(self) -> bool:
        return self.cut_at is not None and self.passed >= self.cut_at

    def set(self, fault: Fault, recount: bool) -> None:
        """Suffer this from now on; with recount, a cut counts from here."""
        self.fault = fault
        if recount:
            self.cut_at = None if fault.cut_after is None else self.passed + fault.cut_after
        self._next_write = 0.0
        if not fault.delay_s:
            self._held = deque((0.0, data) for _, data in self._held)

    @property
    def reads(self) -> bool:
        """Wants to read from source now."""
        return not self._source_ended and not self.fault.blackhole and self._held_bytes < HELD

    def writes_at(self) -> float:
        """The moment from which it wants to write; infinity when there is nothing to write."""
        if not self._held or self.fault.blackhole:
            return math.inf
        return max(self._held[0][0], self._next_write)

    def read(self) -> None:
        """Take what source has.  Raises OSError when the connection broke."""
        data = self.source.recv(CHUNK)
        self._held.append((time.monotonic() + self.fault.delay_s, memoryview(data)))
        self._held_bytes += len(data)
        self._source_ended = not data

    def end(self) -> None:
        """Pass on an end of file that source did not send: half of the connection closes."""
        self._source_ended = True
        self._held.append((0.0, memoryview(b"")))

    def write(self) -> None:
        """Pass on what is due and allowed.  Raises OSError when the connection broke."""
        now = time.monotonic()
        if self.writes_at() > now:
            return
        due, data = self._held.popleft()
        if not data:
            self.ended = True
            self.sink.shutdown(socket.SHUT_WR)
            return
        written = self.sink.send(data[: self._allowed()])
        self.passed += written
        self._held_bytes -= written
        if written < len(data):
            self._held.appendleft((due, data[written:]))
        self._next_write = max(now, self._next_write) + written / self.fault.bytes_per_s + self.fault.gap_s

    def _allowed(self) -> int:
        allowed = self.fault.slice_bytes
        if self.fault.bytes_per_s < math.inf:
            allowed = min(allowed, max(1, int(self.fault.bytes_per_s * TICK_S)))
        if self.cut_at is not None:
            allowed = min(allowed, self.cut_at - self.passed)
        return allowed
