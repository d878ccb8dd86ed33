"""Which release `auto` finds.  The fakes have no ApiVersions: what is silent, slow or closes is a socket of our own."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from sparkpipeline import protocol
from sparkpipeline.errors import OptionRefused, Unreachable

PRODUCE, FETCH, LIST_OFFSETS, METADATA, LIST_GROUPS, API_VERSIONS = 0, 1, 2, 3, 16, 18
Answer = Callable[[int, int], bytes | None]  # (api, how often it was asked) -> body, None: silence; b"" closes
NO_TOPICS = struct.pack(">ii", 0, 0)
NO_TOPICS_V1 = struct.pack(">iii", 0, 1, 0)  # with a controller
NO_GROUPS = struct.pack(">hi", 0, 0)


@contextmanager
def broker(answer: Answer) -> Iterator[list[tuple[str, int]]]:
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


def found(answer: Answer) -> str:
    with broker(answer) as bootstrap:
        return protocol.resolve_release("auto", bootstrap, timeout_ms=5000)


def test_one_that_answers_as_long_ago_is_old() -> None:
    assert found(lambda api, _: old(api, b"")) == "0.8.2"
    assert found(lambda api, _: old(api, NO_GROUPS)) == "0.9"


@pytest.mark.parametrize(
    ("versions", "release"),
    [
        ([(FETCH, 0, 2), (LIST_OFFSETS, 0, 0)], "0.10.0"),
        ([(FETCH, 0, 3), (LIST_OFFSETS, 0, 1)], "0.10.1"),
        ([(PRODUCE, 0, 3), (FETCH, 0, 5), (LIST_OFFSETS, 0, 2)], "0.11"),
        ([(PRODUCE, 0, 8), (FETCH, 0, 11), (LIST_OFFSETS, 0, 5)], "2.4"),
    ],
)
def test_one_that_tells_what_it_speaks_is_believed(versions: list[tuple[int, int, int]], release: str) -> None:
    assert found(newer(*versions)) == release


def test_one_that_takes_none_of_our_requests_is_refused_with_what_helps() -> None:
    with pytest.raises(OptionRefused, match=r"Kafka 4\.0 or newer .* Spark's own format kafka"):
        found(newer((FETCH, 4, 17)))


def test_one_that_answers_nothing_is_not_taken_for_old() -> None:
    with (
        broker(lambda api, _: None) as bootstrap,
        pytest.raises(Unreachable, match=f"{bootstrap[0][1]}: no byte within 0.2 s"),
    ):
        protocol.resolve_release("auto", bootstrap, timeout_ms=200)


def test_one_that_closes_every_connection_is_not_taken_for_old() -> None:
    with broker(lambda api, _: b"") as bootstrap, pytest.raises(Unreachable, match=str(bootstrap[0][1])):
        protocol.resolve_release("auto", bootstrap)


def test_what_is_no_kafka_is_not_taken_for_old() -> None:
    with broker(lambda api, times: b"HTTP" if times == 1 else b"") as bootstrap, pytest.raises(Unreachable):
        protocol.resolve_release("auto", bootstrap)


def test_the_first_broker_that_answers_decides() -> None:
    with broker(lambda api, _: b"") as closed, broker(newer((FETCH, 0, 2))) as open_:
        assert protocol.resolve_release("auto", [*closed, *open_]) == "0.10.0"


@pytest.mark.parametrize(
    ("said", "release"),
    [("0.8", "0.8.2"), ("0.9", "0.9"), ("0.10", "0.10.0"), ("0.8.1", "0.8.1"), ("0.10.2.2", "0.10.2.2")],
)
def test_a_release_that_is_named_asks_nobody(said: str, release: str) -> None:
    assert protocol.resolve_release(said, []) == release


@pytest.mark.parametrize(
    ("said", "says"), [("0.7.9", "unknown Kafka release '0.7.9'"), ("0.6", "unknown Kafka release '0.6'")]
)
def test_a_release_that_is_not_spoken_is_refused(said: str, says: str) -> None:
    with pytest.raises(OptionRefused, match=f"option=protocol: {says}"):
        protocol.resolve_release(said, [])
