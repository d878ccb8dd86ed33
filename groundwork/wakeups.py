"""The pair of sockets by which kazoo wakes the greenlet that speaks to ZooKeeper, without its limit.

kazoo writes a byte for each call and reads one for each that it sends.  A pair takes about 280 such bytes; then a
writer waits, and kazoo goes wrong twice: a second greenlet that has to wait is refused by gevent, and one that is
killed there is caught by kazoo's bare except.  Either way a call stays queued without its byte, and from then on every
answer comes that many calls late: beats, too, so that the lease ends in the middle of a healthy session.

Here the bytes are counted, and one lies in the pair while the count is not 0.  Nobody ever waits to write.
"""

from __future__ import annotations

import socket
from typing import Any


class _Count:
    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class WriteEnd:
    def __init__(self, end: Any, count: _Count) -> None:
        self._end = end
        self._count = count

    def send(self, data: bytes) -> int:
        if self._count.bytes == 0:
            self._end.send(b"\0")
        self._count.bytes += len(data)
        return len(data)

    def close(self) -> None:
        self._end.close()


class ReadEnd:
    def __init__(self, end: Any, count: _Count) -> None:
        self._end = end
        self._count = count

    def fileno(self) -> int:
        number: int = self._end.fileno()
        return number

    def recv(self, size: int) -> bytes:
        """size bytes, or as many as there are; waits for the first."""
        if self._count.bytes == 0:
            self._end.recv(1, socket.MSG_PEEK)  # nothing at all when the other end was closed
        taken = min(size, self._count.bytes)
        if taken == self._count.bytes > 0:
            self._end.recv(1)
        self._count.bytes -= taken
        return b"\0" * taken

    def close(self) -> None:
        self._end.close()


def wakeups(pair: tuple[Any, Any]) -> tuple[ReadEnd, WriteEnd]:
    """The ends to read from and to write to, for the two that kazoo's handler makes; both used in one hub."""
    count = _Count()
    reads, writes = pair
    return ReadEnd(reads, count), WriteEnd(writes, count)
