"""Channel between the supervisor and a worker: JSON lines both ways, on one socket that the worker inherits.

    {"begin": {...}}                                          the first line: what the worker starts with
    {"id": 7, "command": "pause", "arguments": {...}}         the supervisor asks, as commands ask a mirror
    {"id": 7, "answer": [...]}   or {"id": 7, "error": "..."} the worker answers, once, in any order
    {"notify": ["READY=1", "STATUS=..."]}                     what a daemon tells systemd, a worker tells its supervisor

The end of the socket is the end of the other process: so a worker never outlives a supervisor that was killed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from groundwork.tasks import Event, Queue, TaskGroup

log = logging.getLogger(__name__)


class Channel:
    """One end, in the hub of its caller.  received(line): called in the reader's task with each object that comes.

    closed: set once the other end is gone.
    """

    def __init__(self, connection: Any, tasks: TaskGroup, name: str, received: Callable[[dict[str, Any]], object]):
        self.closed = Event()
        self._connection = connection
        self._received = received
        self._outgoing: Any = Queue()
        self._tasks = [tasks.spawn(f"{name}-read", self._read), tasks.spawn(f"{name}-write", self._write)]

    def send(self, line: dict[str, Any]) -> None:
        """Send an object, in order, some time; never waits.  After the other end has gone nothing is sent."""
        if not self.closed.is_set():
            self._outgoing.put(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    @property
    def unsent(self) -> int:
        """Objects that the other end has not taken yet."""
        return int(self._outgoing.qsize())

    def close(self) -> None:
        """End it; from a task that is neither its reader nor its writer."""
        self.closed.set()
        for task in self._tasks:
            task.end(0)
        self._connection.close()

    def _write(self) -> None:
        with suppress(OSError):  # the reader hears of the end, too
            while True:
                self._connection.sendall(self._outgoing.get())

    def _read(self) -> None:
        try:
            with suppress(OSError), self._connection.makefile("rb") as lines:
                for line in lines:
                    if line.endswith(b"\n"):
                        self._received(json.loads(line))
        finally:
            self.closed.set()
