"""Framing of requests and parsing of replies on one connection.  Uses no socket and no clock.

    session.send(request)                                   -> the buffers of its frame, for one send call
    size = socket.recv_into(session.wanted())
    for reply in session.received(size): ...                # any chunking, even one byte at a time

A broker answers in the order of the requests, one at a time: the oldest outstanding request determines how its reply is
framed (0.8 and later: size and correlation id; 0.7: size alone).  A request without a reply (Produce with acks 0, any
Produce of 0.7) leaves no state.  A large piece of a reply (a fetched set) is received straight into its own buffer;
everything else goes through a scratch buffer, which may contain parts of several replies.

An invalid reply (wrong correlation id, impossible size, a body that does not fit its frame) is a RemoteError, and the
session is over, because the borders of later replies are unknown.  Known case: 0.8.2 answers an internal failure of
GroupCoordinator with correlation id 0.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from kafkawire.errors import RemoteError
from kafkawire.protocol.bodies import Body
from kafkawire.protocol.buffers import Buffers
from kafkawire.protocol.request import Request

SCRATCH_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Reply:
    request: Request[Any]
    body: Any


class Session:
    """State of one connection.  After a RemoteError every further call raises it again."""

    def __init__(self, client_id: str, buffers: Buffers | None = None) -> None:
        self.client_id = client_id
        self._buffers = buffers  # for fetched sets; None: always allocate
        self._correlation_id = 0
        self._asked: deque[tuple[int, Request[Any]]] = deque()  # requests whose reply is outstanding, oldest first
        self._head = bytearray()
        self._body: Body[Any] | None = None  # of the arriving reply, once its header is complete
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._direct = False  # what wanted() returned last: a place in the body, or the scratch buffer
        self._over: RemoteError | None = None

    @property
    def outstanding(self) -> int:
        """Return the number of requests whose reply is not complete."""
        return len(self._asked)

    def waiting(self) -> str:
        """Return the outstanding requests in words: `2 Fetch, 1 Metadata`; empty if there are none."""
        counts: dict[str, int] = {}
        for _, request in self._asked:
            counts[request.api.name] = counts.get(request.api.name, 0) + 1
        return ", ".join(f"{count} {name}" for name, count in counts.items())

    def send(self, request: Request[Any]) -> list[bytes | memoryview]:
        """Return the frame of a request, in pieces that are not copied.  Raises LocalError if it cannot be framed."""
        self._check()
        correlation_id = self._correlation_id
        frame = request.frame(correlation_id, self.client_id)
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        if request.expects_reply:
            self._asked.append((correlation_id, request))
        return frame

    def wanted(self) -> memoryview:
        """Return the buffer for the next bytes: never empty, valid until received()."""
        self._check()
        direct = self._body.direct() if self._body is not None else None
        self._direct = direct is not None
        return self._scratch if direct is None else direct

    @property
    def due(self) -> int:
        """Return the missing bytes of the arriving reply; 0 if none is arriving."""
        return 0 if self._body is None else self._body.due

    def received(self, count: int) -> list[Reply]:
        """Process `count` bytes at the beginning of wanted(), and return the replies that are now complete, in
        order."""
        self._check()
        replies: list[Reply] = []
        try:
            if self._direct and self._body is not None:
                self._body.filled(count)
                self._finish(replies)
            else:
                self._read(self._scratch[:count], replies)
        except RemoteError as error:
            self._over = error
            raise
        except BaseException:  # the caller was killed while decoding paused: the reply is lost
            self._over = RemoteError("decoding of a reply was interrupted")
            raise
        return replies

    def _check(self) -> None:
        if self._over is not None:
            raise self._over

    def _read(self, data: memoryview, replies: list[Reply]) -> None:
        while len(data):
            data = self._read_head(data) if self._body is None else data[self._body.feed(data) :]
            self._finish(replies)

    def _read_head(self, data: memoryview) -> memoryview:
        """Consume the bytes of a reply's header, and begin its body when the header is complete."""
        if not self._asked:
            raise RemoteError(f"bytes that begin with {bytes(data[:8]).hex(' ')} came without a request")
        correlation_id, request = self._asked[0]
        missing = request.head_bytes - len(self._head)
        self._head += data[:missing]
        if len(self._head) == request.head_bytes:
            self._body = request.reply(self._head, correlation_id, self._buffers)
            self._head.clear()
        return data[missing:]

    def _finish(self, replies: list[Reply]) -> None:
        if self._body is None or not self._body.complete:
            return
        body, self._body = self._body, None
        _, request = self._asked[0]
        result = body.result()  # if it raises, the request stays outstanding, which is correct
        self._asked.popleft()
        replies.append(Reply(request, result))
