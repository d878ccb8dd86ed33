"""Server of lines on a Unix socket, in the hub of its caller: one line in, one line or a stream of lines out.

Every connection is a task with time limits, so a slow or silent client costs one of `max_connections` and nothing else.
What `answer` raises is logged and ends its connection only.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from groundwork.durable import PRIVATE
from groundwork.tasks import TaskGroup, deadline, now, sleep, unix_socket

log = logging.getLogger(__name__)

MAX_PATH_BYTES = 107  # sun_path, with the zero at its end
MAX_LINE_BYTES = 64 << 10
MAX_CONNECTIONS = 16
REQUEST_S = 5.0  # until the line has arrived
SEND_S = 10.0  # until the client has taken a line
DRAIN_S = 0.5  # what a client still sends is read that long: a close with unread bytes would cut off what was sent
ACCEPT_RETRY_S = 1.0
CONNECT_S = 1.0
LOCK_S = 5.0  # until another start at the same path is over, which waits for CONNECT_S at most
LOCK_PAUSE_S = 0.05


class PathTooLong(OSError):
    """The path does not fit the address of a Unix socket."""

    def __init__(self, path: Path) -> None:
        size = len(os.fsencode(path))
        super().__init__(f"{path} has {size} bytes: the path of a Unix socket has at most {MAX_PATH_BYTES}")


class Locked(OSError):
    """Another process is at the same path, and does not end."""


class InUse(OSError):
    """A living process listens there."""


def check_path(path: Path) -> None:
    """Raise PathTooLong if a path does not fit."""
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise PathTooLong(path)


def listening(path: Path) -> bool:
    """True if a living process listens at a path; a socket of a dead one refuses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_S)
        try:
            probe.connect(os.fspath(path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return False
        except OSError:
            return True  # its queue is full, or it may not be asked: it is there
        return True


class LineServer:
    """answer(line) gives the lines of the response, without their ends; it may wait between them."""

    def __init__(
        self,
        tasks: TaskGroup,
        answer: Callable[[bytes], Iterable[bytes]],
        *,
        max_connections: int = MAX_CONNECTIONS,
        request_s: float = REQUEST_S,
        send_s: float = SEND_S,
        lock_s: float = LOCK_S,
        refusal: Callable[[str], bytes] = str.encode,
    ) -> None:
        """Create a server.  refusal(sentence): the line for a request that is not answered."""
        self.connections = 0
        self._refused = 0  # connections that are being refused
        self.path: Path | None = None  # where it listens
        self._tasks = tasks
        self._answer = answer
        self._max_connections = max_connections
        self._request_s = request_s
        self._send_s = send_s
        self._lock_s = lock_s
        self._refusal = refusal
        self._listener: Any = None
        self._made: tuple[int, int] | None = None  # device and inode of our socket

    def start(self, path: Path) -> None:
        """Listen at a path, for this user alone (0600); what a dead process left there is replaced.

        Raises InUse where a living process listens, PathTooLong, Locked, OSError.
        """
        check_path(path)
        with self._locked(path):  # two that start at once must not both replace a dead socket
            self._bind(path)
        self.path = path
        self._tasks.spawn("control", self._accept)

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        """Hold the lock of a path.  Its file is this user's alone: a folder may be locked by all who may read it."""
        name = path.with_name(f"{path.name}.lock")
        lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
        try:
            give_up = now() + self._lock_s
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if now() >= give_up:
                        raise Locked(f"another process has held {name} for {self._lock_s:g} s") from None
                    sleep(LOCK_PAUSE_S)
            yield
        finally:
            os.close(lock)

    def _bind(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise OSError(f"{path} exists and is not a socket")
            if listening(path):
                raise InUse(f"a living process listens at {path}")
            path.unlink()
        listener: Any = unix_socket()
        mask = os.umask(0o177)
        try:
            listener.bind(os.fspath(path))
            listener.listen(self._max_connections)
        except BaseException:
            listener.close()
            raise
        finally:
            os.umask(mask)
        found = os.stat(path)
        self._made = (found.st_dev, found.st_ino)
        self._listener = listener

    def close(self) -> None:
        """Accept nothing more and remove the socket; open connections end with the task group."""
        if self._listener is None or self.path is None:
            return
        self._listener.close()
        self._listener = None
        with suppress(OSError):
            found = os.stat(self.path)
            if (found.st_dev, found.st_ino) == self._made:
                self.path.unlink()

    def _accept(self) -> None:
        while self._listener is not None:
            try:
                connection, _ = self._listener.accept()
            except OSError as reason:
                if self._listener is None:
                    return
                log.warning("%s: a connection cannot be accepted: %s", self.path, reason, extra={"key": "accept"})
                sleep(ACCEPT_RETRY_S)  # too many open files, mostly
                continue
            if self.connections >= self._max_connections:
                self._refuse(connection)
                continue
            self.connections += 1
            self._tasks.spawn("control-connection", self._serve, connection)

    def _refuse(self, connection: Any) -> None:
        """Refuse a connection with a sentence; above twice the limit, close it without one."""
        if self._refused < self._max_connections:
            self._refused += 1
            self._tasks.spawn("control-refusal", self._refuse_one, connection)
        else:
            connection.close()

    def _refuse_one(self, connection: Any) -> None:
        try:
            with suppress(OSError), deadline(DRAIN_S, "a refusal"):
                sentence = f"{self._max_connections} connections are open: try again"
                connection.sendall(self._refusal(sentence) + b"\n")
            _drain(connection)
        finally:
            self._refused -= 1
            connection.close()

    def _serve(self, connection: Any) -> None:
        try:
            line = self._line(connection)
            for each in [self._refusal(line)] if isinstance(line, str) else self._answer(line):
                with deadline(self._send_s, "a line"):
                    connection.sendall(each + b"\n")
        except (OSError, EOFError):  # TimeoutError, too: the client is gone, or too slow
            pass
        except Exception as failed:
            log.exception("%s: %s: %s", self.path, type(failed).__name__, failed, extra={"key": "control"})
            with suppress(OSError), deadline(self._send_s, "a line"):
                connection.sendall(self._refusal(f"{type(failed).__name__}: {failed}; the log has more") + b"\n")
        finally:
            _drain(connection)
            self.connections -= 1
            connection.close()

    def _line(self, connection: Any) -> bytes | str:
        """Return the line of a request; as text, the reason why it is refused.  Raises EOFError, OSError."""
        received = bytearray()
        with deadline(self._request_s, "a request"):
            while b"\n" not in received:
                if len(received) > MAX_LINE_BYTES:
                    return f"a request is one line of at most {MAX_LINE_BYTES} bytes"
                more = connection.recv(65536)
                if not more:
                    raise EOFError
                received += more
        return bytes(received).partition(b"\n")[0]


def _drain(connection: Any) -> None:
    with suppress(OSError), deadline(DRAIN_S, "the end"):
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
