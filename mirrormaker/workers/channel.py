"""Channel between the supervisor and a worker: JSON lines both ways, on one socket that the worker inherits.

    {"begin": {...}}                                          first line: the worker's configuration
    {"id": 7, "command": "pause", "arguments": {...}}         request of the supervisor, as commands send it to a mirror
    {"id": 7, "answer": [...]}   or {"id": 7, "error": "..."} the worker's response, exactly one, in any order
    {"notify": ["READY=1", "STATUS=..."]}                     notification that a single daemon would send to systemd

The socket closes when the other process ends: so a worker never outlives a supervisor that was killed.
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
    """One end of the channel, in the hub of its caller.  received(line): called in the reader's task with each object.

    closed: set once the other end is gone.
    """

    def __init__(self, connection: Any, tasks: TaskGroup, name: str, received: Callable[[dict[str, Any]], object]):
        self.closed = Event()
        self._connection = connection
        self._received = received
        self._outgoing: Any = Queue()
        self._tasks = [tasks.spawn(f"{name}-read", self._read), tasks.spawn(f"{name}-write", self._write)]

    def send(self, line: dict[str, Any]) -> None:
        """Queue an object to be sent, in order, without waiting.  Nothing is sent once the other end is gone."""
        if not self.closed.is_set():
            self._outgoing.put(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    @property
    def unsent(self) -> int:
        """Return the number of objects that the other end has not accepted yet."""
        return int(self._outgoing.qsize())

    def close(self) -> None:
        """Close it; call from a task that is neither its reader nor its writer."""
        self.closed.set()
        for task in self._tasks:
            task.end(0)
        self._connection.close()

    def _write(self) -> None:
        with suppress(OSError):  # the reader also notices the end
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
