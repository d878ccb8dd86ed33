"""A proxy before a broker that keeps one request back, cuts its connection, and delivers it when it is told to."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

END_TXN, TXN_OFFSET_COMMIT = 26, 28

_SIZE, _HEAD = struct.Struct(">i"), struct.Struct(">hhih")  # api, version, correlation, length of the client id
_INT16 = struct.Struct(">h")


def _received(link: socket.socket, size: int) -> bytes:
    """So many bytes; b"" where the connection ended."""
    data = b""
    while len(data) < size:
        more = link.recv(size - len(data))
        if not more:
            return b""
        data += more
    return data


def _frame(link: socket.socket) -> bytes:
    """A request or response with its size in front; b"" where the connection ended."""
    size = _received(link, _SIZE.size)
    return size and size + _received(link, *_SIZE.unpack(size))


class LateRequests:
    """A proxy of `target`, in the place of a node's (localkafka.proxy.Proxy).

    keep(api): the next request of this api whose body ends with `ends` is kept back.  kept: that request, with its size
    in front.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._wanted: tuple[int, bytes] | None = None
        self.kept = b""
        self._links: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def keep(self, api: int, ends: bytes = b"") -> None:
        self.kept, self._wanted = b"", (api, ends)

    def deliver(self) -> bytes:
        """Send what was kept over a connection of its own; the body of its response."""
        with socket.create_connection(self.target, 10) as link:
            link.sendall(self.kept)
            return _frame(link)[2 * _SIZE.size :]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self.target)
                self._links += [client, broker]
                for run in (self._requests, self._responses):
                    threading.Thread(target=run, args=(client, broker), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while frame := _frame(client):
                api, *_ = _HEAD.unpack_from(frame, _SIZE.size)
                if self._wanted is not None and api == self._wanted[0] and frame.endswith(self._wanted[1]):
                    self._wanted, self.kept = None, frame
                    break
                broker.sendall(frame)
        self._cut(client, broker)

    def _responses(self, client: socket.socket, broker: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := broker.recv(65536):
                client.sendall(data)
        self._cut(client, broker)

    @staticmethod
    def _cut(*links: socket.socket) -> None:
        for link in links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()

    def close(self) -> None:
        self._cut(self._listener, *self._links)


def code_of(body: bytes) -> int:
    """The code in the response of EndTxn, or the last one of TxnOffsetCommit."""
    return int(_INT16.unpack(body[-_INT16.size :])[0])
