"""Name servers of a test's own: names that are answered, that fail, or that hang in the C library's look-up."""

from __future__ import annotations

import _socket
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

REAL = _socket.getaddrinfo
AWAY = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
NO_SUCH_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


class Names:
    """Look-ups of this process.

    known: the number, or the error, of each name.  silent: names whose look-up blocks until release(), or fails after
    hang_s.  asked: names looked up, in their order; at_once: the most look-ups that ran at one moment, as
    running do now.
    """

    def __init__(self, hang_s: float = 30.0) -> None:
        self.known: dict[str, str | OSError] = {}
        self.silent: set[str] = set()
        self.asked: list[str] = []
        self.at_once = 0
        self.answers_when_released = False
        self._hang_s = hang_s
        self.running = 0
        self._lock = threading.Lock()
        self._released = threading.Event()

    def release(self) -> None:
        self._released.set()

    def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # type: ignore[no-untyped-def]
        try:
            return REAL(host, port, family, type, proto, flags | socket.AI_NUMERICHOST)
        except OSError:
            if flags & socket.AI_NUMERICHOST:
                raise
        with self._lock:
            self.asked.append(host)
            self.running += 1
            self.at_once = max(self.at_once, self.running)
        try:
            if host in self.silent:
                self._released.wait(self._hang_s)
                if not self.answers_when_released:
                    raise AWAY
            found = self.known.get(host, NO_SUCH_NAME)
            if isinstance(found, OSError):
                raise found
            return REAL(found, port, family, type, proto, flags)
        finally:
            with self._lock:
                self.running -= 1


@contextmanager
def names_of_a_test(hang_s: float = 30.0) -> Iterator[Names]:
    names = Names(hang_s)
    with patch.object(_socket, "getaddrinfo", names.getaddrinfo):
        yield names
        names.release()
        end = time.monotonic() + 10
        while names.running and time.monotonic() < end:  # no thread may meet the names of another test
            time.sleep(0.005)
