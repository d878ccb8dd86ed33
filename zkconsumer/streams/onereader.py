"""One reader per stream: the thread or greenlet that reads it.  Any other is refused.

A request for the next message marks the previous one as done.  With two readers of one stream that is wrong: a message
that the first one still works on would be committed when the second one asks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from groundwork.tasks import current
from zkconsumer.errors import SecondReader


class OneReader(dict[Any, None]):
    """Reader of a stream: reader[current()] is None, or raises SecondReader.

    A dict with one key, so that the usual case is looked up without Python code.
    """

    def __init__(self, name: str, may_read_here: Callable[[], bool] = lambda: True) -> None:
        """name: of the stream.  may_read_here(): True if the calling thread may read it at all."""
        self._name = name
        self._may_read_here = may_read_here
        self._lock = threading.Lock()  # for two readers that begin at once; never held during a wait
        self._thread: threading.Thread | None = None  # of a reader without a greenlet: it ends with the thread
        self.thread_id = 0  # of the reader

    def take(self) -> None:
        """Make the caller the reader.  Raises SecondReader while another thread or greenlet is the reader."""
        self[current()]

    def leave(self) -> None:
        """Let another thread or greenlet become the reader."""
        self.clear()

    def __missing__(self, asks: Any) -> None:
        if not self._may_read_here():
            raise SecondReader(
                f"stream {self._name} belongs to the event loop of another thread (hub 'caller'): read it in a "
                "greenlet of that thread, or make the connector with hub='own'"
            )
        with self._lock:
            for reader in self:
                # The main greenlet of a thread becomes dead some time after the thread.
                if not reader.dead and (self._thread is None or self._thread.is_alive()):
                    raise SecondReader(
                        f"stream {self._name} is read by {self._who(reader)}, and asking for the next message says "
                        "that its last one is done: give each reader a stream of its own "
                        "(create_message_streams({topic: number})), or messages to workers (process()), or have the "
                        "one before call stream.done() when it will not come back"
                    )
            self._thread = threading.current_thread() if asks.parent is None else None
            self.thread_id = threading.get_ident()
            self.clear()
            self[asks] = None

    def _who(self, reader: Any) -> str:
        if self._thread is not None:
            return f"thread {self._thread.name}"
        return f"greenlet {getattr(reader, 'name', '') or hex(id(reader))}"
