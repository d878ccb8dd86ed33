"""The small HTTP server: what it takes and refuses, its limits, and that no client holds up another."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from groundwork.httpserver import (
    MAX_HEAD_BYTES,
    BadRequest,
    HttpServer,
    Request,
    Response,
    is_trusted_name,
    parse,
)
from groundwork.tasks import TaskGroup, connect, sleep


def answer(request: Request) -> Response:
    if request.path == "/fails":
        raise ValueError("no such luck")
    if request.path == "/slow":
        sleep(60)
    if request.path == "/large":
        return Response(200, b"x" * 30_000_000)
    return Response(200, f"{request.path} {request.headers.get('accept')}".encode())


@pytest.fixture
def tasks() -> Iterator[TaskGroup]:
    made = TaskGroup()
    yield made
    assert made.death is None
    made.stop(5)


def served(tasks: TaskGroup, **limits: float) -> tuple[HttpServer, tuple[str, int]]:
    server = HttpServer(tasks, answer, **limits)  # type: ignore[arg-type]
    return server, server.start("127.0.0.1", 0)


def asked(address: tuple[str, int], request: bytes) -> bytes:
    """All that the server sends until it closes the connection."""
    with closing(connect(address, 20)) as connection:
        connection.sendall(request)
        received = b""
        while more := connection.recv(65536):
            received += more
        return received


def test_an_answer_has_its_length_and_the_connection_ends(tasks: TaskGroup) -> None:
    _, address = served(tasks)
    got = asked(address, b"GET /a%20b?c=d HTTP/1.1\r\nHost: localhost:1\r\nAccept: text/html\r\n\r\n")
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body == b"/a b text/html"
    assert f"Content-Length: {len(body)}".encode() in head.split(b"\r\n")
    assert b"Connection: close" in head


def test_head_has_the_same_headers_and_no_body(tasks: TaskGroup) -> None:
    _, address = served(tasks)
    head, _, body = asked(address, b"HEAD /abc HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").partition(b"\r\n\r\n")
    assert b"Content-Length: 9" in head
    assert body == b""


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"OPTIONS * HTTP/1.1\r\n\r\n", 405),
        (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"\x16\x03\x01\x00\xa5\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * MAX_HEAD_BYTES + b"\r\n\r\n", 431),
        (b"GET /fails HTTP/1.1\r\n\r\n", 500),
    ],
)
def test_what_is_refused(tasks: TaskGroup, request_: bytes, status: int, caplog: pytest.LogCaptureFixture) -> None:
    _, address = served(tasks)
    with caplog.at_level(logging.CRITICAL, "groundwork.httpserver"):
        got = asked(address, request_)
    assert got.startswith(f"HTTP/1.1 {status} ".encode()), got
    assert (b"Allow: GET, HEAD" in got) == (status == 405)


def test_what_an_answer_raises_is_logged_and_shown_without_its_text(
    tasks: TaskGroup, caplog: pytest.LogCaptureFixture
) -> None:
    _, address = served(tasks)
    got = asked(address, b"GET /fails HTTP/1.1\r\n\r\n")
    assert b"ValueError" in got
    assert b"no such luck" not in got
    assert "no such luck" in caplog.text


def test_a_client_that_says_nothing_or_little_is_cut_off_and_holds_up_no_other(tasks: TaskGroup) -> None:
    server, address = served(tasks, request_s=1.0)
    began = time.monotonic()

    def drip() -> None:
        with closing(connect(address, 20)) as slow:
            try:
                for byte in b"GET / HTTP/1.1\r\nA: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb":
                    slow.sendall(bytes([byte]))
                    sleep(0.1)
            except OSError:
                pass

    tasks.spawn("drip", drip)
    with closing(connect(address, 20)) as silent:
        assert asked(address, b"GET /quick HTTP/1.1\r\n\r\n").endswith(b"/quick None")
        assert time.monotonic() - began < 0.8
        assert silent.recv(100) == b""
    while server.connections:
        sleep(0.05)
    assert time.monotonic() - began < 5


def test_a_client_that_does_not_read_is_cut_off_and_others_are_served_meanwhile(tasks: TaskGroup) -> None:
    server, address = served(tasks, response_s=1.5)
    with closing(connect(address, 20)) as lazy:
        lazy.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        while not server.connections:
            sleep(0.01)
        assert asked(address, b"GET /quick HTTP/1.1\r\n\r\n").endswith(b"/quick None")
        until = time.monotonic() + 20
        while server.connections:
            assert time.monotonic() < until
            sleep(0.05)


def test_an_answer_that_takes_too_long_ends_its_connection(tasks: TaskGroup) -> None:
    _, address = served(tasks, response_s=0.3)
    assert asked(address, b"GET /slow HTTP/1.1\r\n\r\n") == b""


def test_connections_are_refused_at_once_while_as_many_answers_as_allowed_are_made(tasks: TaskGroup) -> None:
    server, address = served(tasks, max_connections=2, response_s=2.0)
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(closing(connect(address, 20))).sendall(b"GET /slow HTTP/1.1\r\n\r\n")
        while server.connections < 2 or server.asking:
            sleep(0.01)
        with closing(connect(address, 20)) as refused:
            assert refused.recv(1000).startswith(b"HTTP/1.1 503 ")
    while server.connections:
        sleep(0.01)
    assert asked(address, b"GET /again HTTP/1.1\r\n\r\n").endswith(b"/again None")


def test_the_oldest_connection_that_has_not_asked_gives_way_to_a_new_one(tasks: TaskGroup) -> None:
    server, address = served(tasks, max_connections=3, first_byte_s=30.0, request_s=30.0)
    with ExitStack() as held:
        first, second, third = (held.enter_context(closing(connect(address, 20))) for _ in range(3))
        while server.connections < 3:
            sleep(0.01)
        second.sendall(b"GET /slow")  # a part of a request is none
        assert asked(address, b"GET /livez HTTP/1.1\r\n\r\n").endswith(b"/livez None")
        assert first.recv(100) == b""
        assert asked(address, b"GET /readyz HTTP/1.1\r\n\r\n").endswith(b"/readyz None")
        third.sendall(b"GET /third HTTP/1.1\r\n\r\n")
        assert third.recv(100).startswith(b"HTTP/1.1 200 ")


def test_the_oldest_client_that_does_not_read_its_response_gives_way_to_a_new_one(tasks: TaskGroup) -> None:
    server, address = served(tasks, max_connections=3)
    with ExitStack() as held:
        lazy = []
        for count in range(1, 4):
            lazy.append(held.enter_context(closing(connect(address, 20))))
            lazy[-1].sendall(b"GET /large HTTP/1.1\r\n\r\n")
            while server.connections < count or server.asking:
                sleep(0.01)
        for _ in range(2):  # the second finds the place of the first
            assert asked(address, b"GET /livez HTTP/1.1\r\n\r\n").endswith(b"/livez None")
        with pytest.raises(ConnectionResetError):  # and what it left unread takes no memory
            received_by(lazy[0])
        assert received_by(lazy[1]) == received_by(lazy[2]) > 30_000_000


def received_by(connection: socket.socket) -> int:
    count = 0
    while more := connection.recv(1 << 20):
        count += len(more)
    return count


def test_an_answered_connection_that_the_client_leaves_open_gives_way_first(tasks: TaskGroup) -> None:
    server, address = served(tasks, max_connections=3, first_byte_s=30.0)
    with ExitStack() as held:
        silent, *answered = (held.enter_context(closing(connect(address, 20))) for _ in range(3))
        while server.connections < 3:
            sleep(0.01)
        for connection in answered:
            connection.sendall(b"GET /quick HTTP/1.1\r\n\r\n")
            while not connection.recv(1000).endswith(b"/quick None"):
                pass
        assert asked(address, b"GET /livez HTTP/1.1\r\n\r\n").endswith(b"/livez None")
        silent.sendall(b"GET /silent HTTP/1.1\r\n\r\n")
        assert silent.recv(100).startswith(b"HTTP/1.1 200 ")


def test_a_connection_that_is_silent_for_a_second_is_closed(tasks: TaskGroup) -> None:
    server, address = served(tasks)
    began = time.monotonic()
    with closing(connect(address, 20)) as silent:
        assert silent.recv(100) == b""
    assert 0.9 < time.monotonic() - began < 8
    while server.connections:
        sleep(0.05)


def test_a_closed_server_listens_no_more(tasks: TaskGroup) -> None:
    server, address = served(tasks)
    server.close()
    sleep(0.05)
    with pytest.raises(OSError):
        connect(address, 5)


def test_an_address_that_is_taken_is_an_error(tasks: TaskGroup) -> None:
    server, address = served(tasks)
    with pytest.raises(OSError):
        HttpServer(tasks, answer).start(*address)
    server.close()


HERE = ["", "localhost", "LOCALHOST:80", "127.0.0.1:9308", "[::1]:9308", "[::1]", "10.0.0.1", "mirror:9308", "my_host"]


@pytest.mark.parametrize("host", [*HERE, socket.gethostname(), f"{socket.gethostname()}:9308"])
def test_hosts_that_no_web_site_has(host: str) -> None:
    assert is_trusted_name(host)


@pytest.mark.parametrize(
    "host", ["attacker.example", "localhost.attacker.example:80", "1.2.3.4.example:80", "a:b:c", "localhost.", "\xe9"]
)
def test_hosts_that_a_web_site_may_have(host: str) -> None:
    assert not is_trusted_name(host)


def test_this_machines_name_is_trusted_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Host.Example.com.")
    assert is_trusted_name("Host.Example.com:9308")
    assert is_trusted_name("host.example.com")
    assert not is_trusted_name("host2.example.com")


def test_hosts_that_are_listed() -> None:
    assert is_trusted_name("Mirror.Example.com.:80", ["mirror.example.com"])
    assert is_trusted_name("a.b.example.com", [".example.com"])
    assert not is_trusted_name("anexample.com", [".example.com"])
    assert not is_trusted_name("example.com", [".example.com"])
    assert is_trusted_name("anything.example", ["*"])


def test_a_name_that_is_not_listed_is_refused_at_every_address(tasks: TaskGroup) -> None:
    server = HttpServer(tasks, answer, hosts=["mirror.example.com"])
    _, port = server.start("0.0.0.0", 0)
    for host, status in ((b"attacker.example", 421), (b"mirror.example.com", 200), (b"10.1.2.3:80", 200)):
        got = asked(("127.0.0.1", port), b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 %d " % status), host


def test_headers_are_found_by_their_names_in_lower_case() -> None:
    request = parse(b"GET / HTTP/1.0\r\nACCEPT:  a \r\nX-B: c: d")
    assert (request.method, request.path, dict(request.headers)) == ("GET", "/", {"accept": "a", "x-b": "c: d"})
    with pytest.raises(BadRequest, match=r"malformed HTTP/1\.1 request"):
        parse(b"GET / SPDY/3")
