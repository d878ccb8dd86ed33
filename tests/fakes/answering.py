"""A broker of sockets and threads alone that answers as a test says: silent, slow, closing, or of any release."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

PRODUCE, FETCH, LIST_OFFSETS, METADATA, LIST_GROUPS, API_VERSIONS = 0, 1, 2, 3, 16, 18
Answer = Callable[[int, int], bytes | None]  # (api, how often it was asked) -> body, None: silence; b"" closes
NO_TOPICS = struct.pack(">ii", 0, 0)
NO_TOPICS_V1 = struct.pack(">iii", 0, 1, 0)  # with a controller
NO_GROUPS = struct.pack(">hi", 0, 0)


@contextmanager
def answering(answer: Answer) -> Iterator[list[tuple[str, int]]]:
    """Its address.  Each connection has a thread, and ends with the block."""
    asked: dict[int, int] = {}
    opened: list[tuple[socket.socket, threading.Thread]] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                talking = threading.Thread(target=talk, args=(link,), daemon=True)
                opened.append((link, talking))
                talking.start()

        def talk(link: socket.socket) -> None:
            with link, suppress(ConnectionError):
                answered(link)

        def answered(link: socket.socket) -> None:
            while len(head := link.recv(4)) == 4:
                request = link.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                api, _, correlation = struct.unpack_from(">hhi", request)
                asked[api] = asked.get(api, 0) + 1
                body = answer(api, asked[api])
                if body == b"":
                    return
                if body is not None:
                    link.sendall(struct.pack(">ii", 4 + len(body), correlation) + body)

        accepting = threading.Thread(target=serve, daemon=True)
        accepting.start()
        try:
            yield [server.getsockname()]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            accepting.join(5)
            for link, talking in opened:
                with suppress(OSError):  # closed already
                    link.shutdown(socket.SHUT_RDWR)
                talking.join(5)


def old(api: int, groups: bytes | None) -> bytes | None:
    return NO_TOPICS if api == METADATA else groups if api == LIST_GROUPS else None  # silent about its versions


def newer(*versions: tuple[int, int, int]) -> Answer:
    said = struct.pack(">hi", 0, len(versions)) + b"".join(struct.pack(">hhh", *row) for row in versions)
    return lambda api, _: NO_TOPICS_V1 if api == METADATA else said if api == API_VERSIONS else b""
