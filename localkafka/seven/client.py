"""Plain client of one 0.7 broker: a method per request, raw frames.  For tests, and therefore independent of
kafkawire's formats.

    with Seven(("127.0.0.1", 9092)) as link:
        link.produce("orders", 0, entries.plain([b"one"]))
        link.offsets("orders", 0)            # [16]: after the produce before it was handled
        link.fetch("orders", 0, 0).data
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from localkafka.errors import LocalKafkaError
from localkafka.seven import entries
from localkafka.seven.entries import Row
from localkafka.seven.log import EARLIEST, LATEST

SIZE = struct.Struct(">i")
HEAD = struct.Struct(">h")
FETCH_SIZE = 1 << 20

Produce = tuple[str, int, bytes]  # topic, partition, set
Fetch = tuple[str, int, int, int]  # topic, partition, offset, maximum of bytes


class Closed(Exception):
    """The broker closed the connection: what was sent before may or may not have been handled."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Fetch response. error: 0, or 1 out of range, 3 wrong partition, −1 any other error."""

    error: int
    data: bytes


class Seven:
    """Connection to a 0.7 broker.  Every wait ends after timeout_s (socket.timeout)."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 20) -> None:
        self.link = socket.create_connection(address, timeout_s)
        self.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Seven:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.link.close()

    def send(self, data: bytes) -> None:
        """Send raw bytes.  Raises Closed."""
        try:
            self.link.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed(str(error)) from error

    def receive(self) -> bytes:
        """Receive the next frame, without its size.  Raises Closed."""
        size: int = SIZE.unpack(self._exactly(SIZE.size))[0]
        return self._exactly(size)

    def ask(self, kind: int, body: bytes) -> bytes:
        """Send a request of this type, and return the response's frame."""
        self.send(frame(kind, body))
        return self.receive()

    def produce(self, topic: str, partition: int, data: bytes) -> None:
        """Send a set; 0.7 sends no response."""
        self.send(frame(0, _produce((topic, partition, data))))

    def multiproduce(self, parts: Sequence[Produce]) -> None:
        self.send(frame(3, struct.pack(">h", len(parts)) + b"".join(map(_produce, parts))))

    def fetch(self, topic: str, partition: int, position: int, size: int = FETCH_SIZE) -> Fetched:
        return _fetched(self.ask(1, _fetch((topic, partition, position, size))))

    def multifetch(self, wanted: Sequence[Fetch]) -> list[Fetched]:
        answer = self.ask(2, struct.pack(">h", len(wanted)) + b"".join(map(_fetch, wanted)))
        at, found = HEAD.size, []
        for _ in wanted:
            size: int = SIZE.unpack_from(answer, at)[0]
            found.append(_fetched(answer[at + SIZE.size : at + SIZE.size + size]))
            at += SIZE.size + size
        return found

    def offsets(self, topic: str, partition: int, time_ms: int = LATEST, most: int = 1) -> list[int]:
        answer = self.ask(4, _text(topic) + struct.pack(">iqi", partition, time_ms, most))
        _, count = struct.unpack_from(">hi", answer)
        return list(struct.unpack_from(f">{count}q", answer, 6))

    def rows(self, topic: str, partition: int, position: int | None = None, size: int = FETCH_SIZE) -> list[Row]:
        """Return every message from a byte offset (None: the oldest) to the flushed end. Raises LocalKafkaError when
        the broker responds with an error, Refused for bytes that are not a valid set."""
        at = self.offsets(topic, partition, EARLIEST)[0] if position is None else position
        found: list[Row] = []
        while True:
            fetched = self.fetch(topic, partition, at, size)
            if fetched.error:
                raise LocalKafkaError(f"{topic}/{partition} at {at}: error {fetched.error}")
            if not fetched.data:
                return found
            found += entries.rows(memoryview(fetched.data), at)
            at = found[-1].resume_at

    def ended(self, timeout_s: float = 20) -> bool:
        """True if the broker closes the connection within this time without sending anything."""
        before = self.link.gettimeout()
        self.link.settimeout(timeout_s)
        try:
            return not self.link.recv(1)
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        finally:
            self.link.settimeout(before)

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size > 0:
            try:
                part = self.link.recv(size)
            except ConnectionResetError as error:
                raise Closed(str(error)) from error
            if not part:
                raise Closed("end of file")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def frame(kind: int, body: bytes) -> bytes:
    """Return a request's frame: size, type, body."""
    return SIZE.pack(HEAD.size + len(body)) + HEAD.pack(kind) + body


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _produce(part: Produce) -> bytes:
    topic, partition, data = part
    return _text(topic) + struct.pack(">ii", partition, len(data)) + data


def _fetch(wanted: Fetch) -> bytes:
    topic, *numbers = wanted
    return _text(topic) + struct.pack(">iqi", *numbers)


def _fetched(answer: bytes) -> Fetched:
    return Fetched(HEAD.unpack_from(answer)[0], answer[HEAD.size :])
