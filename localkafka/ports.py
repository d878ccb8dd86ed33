"""Reservation of ports for servers, below the range that the kernel gives to clients.

Below 32768, because a client that reconnects to a dead port inside the ephemeral range can connect to *itself*.
A port is reserved by a lock on a file of that name as long as the reservation lives, so that parallel test workers
never take the same port between the check and the server's bind; the kernel drops the lock of a process that dies.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from localkafka.errors import LocalKafkaError

HOST = "127.0.0.1"
ANY = "0.0.0.0"  # every address of this host, or of this container
FIRST, LAST = 12000, 32000


class Port:
    """A reserved port; .number is reserved until .release()."""

    def __init__(self, number: int, lock: int) -> None:
        self.number = number
        self._lock: int | None = lock

    def __repr__(self) -> str:
        return f"<Port {self.number}{'' if self._lock is not None else ', released'}>"

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def reserve(number: int = 0) -> Port:
    """Reserve this port, or with 0 any free one.  Raises LocalKafkaError when it is taken, or none is free."""
    if number:
        port = _try(number)
        if port is None:
            raise LocalKafkaError(f"port {number} on {HOST} is taken by another process; give another, or 0 for any")
        return port
    for candidate in random.sample(range(FIRST, LAST), 500):
        port = _try(candidate)
        if port is not None:
            return port
    raise LocalKafkaError(f"no free port between {FIRST} and {LAST} on {HOST}")


def _try(number: int) -> Port | None:
    lock = os.open(_folder() / str(number), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    if not _free(number):
        os.close(lock)
        return None
    return Port(number, lock)


def _free(number: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the JVM does: ignores TIME_WAIT
        try:
            probe.bind((HOST, number))
        except OSError:
            return False
    return True


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"localkafka-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def answers(host: str, port: int, timeout_s: float = 1) -> bool:
    """True if a server accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout_s):
            return True
    except OSError:
        return False
