"""Which release `auto` finds.  The fakes have no ApiVersions: what is silent, slow or closes is a socket of our own."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sparkpipeline import protocol
from sparkpipeline.errors import Unreachable

METADATA, API_VERSIONS = 3, 18
Answer = Callable[[int, int], bytes | None]  # (api, how often it was asked) -> body, None: silence; b"" closes
NO_TOPICS = struct.pack(">ii", 0, 0)
OF_0_10 = struct.pack(">hi", 0, 2) + struct.pack(">hhh", 1, 0, 2) + struct.pack(">hhh", 2, 0, 0)


@contextmanager
def broker(answer: Answer) -> Iterator[list[tuple[str, int]]]:
    """Its address.  Each connection has a thread, and ends with the block."""
    asked: dict[int, int] = {}
    opened: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                opened.append(link)
                threading.Thread(target=talk, args=(link,), daemon=True).start()

        def talk(link: socket.socket) -> None:
            while len(head := link.recv(4)) == 4:
                request = link.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                api, _, correlation = struct.unpack_from(">hhi", request)
                asked[api] = asked.get(api, 0) + 1
                body = answer(api, asked[api])
                if body == b"":
                    link.close()
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
            for link in opened:
                link.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "PATIENCE_MS", 150)


def test_one_that_closes_on_the_question_is_old() -> None:
    with broker(lambda api, _: b"" if api == API_VERSIONS else NO_TOPICS) as bootstrap:
        assert protocol.resolve_release("auto", bootstrap) == "0.8.2"


def test_one_that_never_answers_it_and_answers_metadata_is_old() -> None:
    with broker(lambda api, _: None if api == API_VERSIONS else NO_TOPICS) as bootstrap:
        assert protocol.resolve_release("auto", bootstrap) == "0.8.2"


def test_one_that_was_only_slow_is_not_taken_for_old() -> None:
    with broker(lambda api, times: NO_TOPICS if api == METADATA else OF_0_10 if times > 1 else None) as bootstrap:
        assert protocol.resolve_release("auto", bootstrap) == "0.10.0"


def test_one_that_answers_nothing_is_not_taken_for_old() -> None:
    with (
        broker(lambda api, _: None) as bootstrap,
        pytest.raises(Unreachable, match=f"{bootstrap[0][1]}: no byte within 0.15 s"),
    ):
        protocol.resolve_release("auto", bootstrap, timeout_ms=200)


def test_a_release_that_is_named_asks_nobody() -> None:
    assert protocol.resolve_release("0.9", []) == "0.9"
