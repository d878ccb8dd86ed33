"""Server of a 0.7 broker: frames in, responses out, in order on each connection.  One thread, with timed tasks.

    frame = size:int32, then `size` bytes       a size of 0 or less, or over max.socket.request.bytes ends the
                                                connection

A connection does not read while a response waits to be written, as in the original's processor.
Source: kafka.network.SocketServer and BoundedByteBufferReceive of 0.7.2.
"""

from __future__ import annotations

import logging
import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from localkafka.seven.entries import Refused
from localkafka.seven.handling import Answer

log = logging.getLogger(__name__)

SIZE = struct.Struct(">i")
CHUNK = 256 * 1024


@dataclass(slots=True)
class Chore:
    """A periodic task."""

    what: Callable[[], object]
    every_s: float
    next_at: float


class Server:
    """Server that listens after the constructor and serves in run() until stop() (from a signal handler or another
    thread)."""

    def __init__(self, host: str, port: int, largest: int, answer: Callable[[memoryview], Answer | None]) -> None:
        self._largest = largest
        self._answer = answer
        self._chores: list[Chore] = []
        self._stopping = False
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server((host, port), backlog=128)
        self._listener.setblocking(False)
        self._waking, self._wake = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._waking, selectors.EVENT_READ, lambda: None)
        self.connections: set[Connection] = set()

    def every(self, ms: int, what: Callable[[], object], first_ms: int | None = None) -> None:
        """Call `what` periodically while it runs."""
        now = time.monotonic()
        self._chores.append(Chore(what, ms / 1000, now + (ms if first_ms is None else first_ms) / 1000))

    def run(self) -> None:
        """Serve until stop(), then close all connections."""
        try:
            while not self._stopping:
                for key, _ in self._selector.select(self._until_next_chore()):
                    key.data()
                self._do_chores()
        finally:
            for connection in list(self.connections):
                connection.close()
            self._listener.close()
            self._selector.close()

    def stop(self) -> None:
        self._stopping = True
        self._wake.send(b".")

    def _until_next_chore(self) -> float | None:
        now = time.monotonic()
        return min((max(0.0, chore.next_at - now) for chore in self._chores), default=None)

    def _do_chores(self) -> None:
        for chore in self._chores:
            now = time.monotonic()
            if now >= chore.next_at:
                chore.next_at = now + chore.every_s
                chore.what()

    def _accept(self) -> None:
        try:
            link, peer = self._listener.accept()
        except OSError:
            return  # the client has closed it already
        link.setblocking(False)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections.add(Connection(link, "{}:{}".format(*peer), self))

    # ---- for connections

    def watch(self, connection: Connection, events: int) -> None:
        if connection.events:
            self._selector.modify(connection.link, events, connection.ready)
        else:
            self._selector.register(connection.link, events, connection.ready)
        connection.events = events

    def forget(self, connection: Connection) -> None:
        self._selector.unregister(connection.link)
        self.connections.discard(connection)

    def frame_size(self, data: bytearray) -> int:
        """Return the frame's size.  Raises Refused."""
        size: int = SIZE.unpack_from(data)[0]
        if not 0 < size <= self._largest:
            raise Refused(f"{size} is not a valid request size")
        return size

    def answer(self, request: memoryview) -> Answer | None:
        return self._answer(request)


class Connection:
    """A client's connection.

    reading   received frames are handled one after another, until one has a response
    writing   a response is being sent: nothing is read
    closed    by the client, because of a refused request, or after a broken response
    """

    def __init__(self, link: socket.socket, peer: str, server: Server) -> None:
        self.link = link
        self.peer = peer
        self.events = 0
        self._server = server
        self._received = bytearray()
        self._unsent = memoryview(b"")
        self._closes = False
        server.watch(self, selectors.EVENT_READ)

    def ready(self) -> None:
        """Read when the socket is readable, or write while a response waits."""
        try:
            if self._unsent:
                self._write()
            else:
                self._read()
            self._serve()
        except (Refused, OSError) as error:
            log.info("closing the connection of %s: %s", self.peer, error)
            self.close()

    def close(self) -> None:
        self._server.forget(self)
        self.link.close()

    def _read(self) -> None:
        data = self.link.recv(CHUNK)
        if not data:
            raise ConnectionResetError("end of file")
        self._received += data

    def _write(self) -> None:
        sent = self.link.send(self._unsent)
        self._unsent = self._unsent[sent:]

    def _serve(self) -> None:
        """Handle the frames that have arrived completely.  Raises Refused, OSError."""
        while not self._unsent:
            if self._closes:
                raise ConnectionResetError("a broken answer was sent")
            if len(self._received) < SIZE.size:
                break
            end = SIZE.size + self._server.frame_size(self._received)
            if len(self._received) < end:
                break
            request = bytes(memoryview(self._received)[SIZE.size : end])
            del self._received[:end]
            answer = self._server.answer(memoryview(request))
            if answer is not None:
                self._unsent, self._closes = memoryview(answer.data), answer.closes
                self._write_now()
        wanted = selectors.EVENT_WRITE if self._unsent else selectors.EVENT_READ
        if wanted != self.events:
            self._server.watch(self, wanted)

    def _write_now(self) -> None:
        try:
            self._write()
        except BlockingIOError:
            pass  # the selector reports when there is room
