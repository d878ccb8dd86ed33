"""A server of lines on a Unix socket, with clients that behave and clients that do not."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from groundwork.hub import OwnThread
from groundwork.lineserver import MAX_PATH_BYTES, InUse, LineServer, PathTooLong
from groundwork.tasks import TaskGroup, sleep


class Served:
    """A server in an event loop of its own."""

    def __init__(self, answer: Callable[[bytes], Iterable[bytes]], **options: float) -> None:
        self.hub = OwnThread("served")
        self.hub.start()
        self.tasks: TaskGroup = self.hub.call(TaskGroup)
        self.server = self.hub.call(lambda: LineServer(self.tasks, answer, **options))  # type: ignore[arg-type]

    def start(self, path: Path) -> None:
        self.hub.call(self.server.start, path)

    def close(self) -> None:
        self.hub.call(self.server.close)
        self.hub.call(self.tasks.stop, 1.0)
        assert self.tasks.death is None
        self.hub.stop()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    made: list[Served] = []

    def one(answer: Callable[[bytes], Iterable[bytes]], path: Path | None = tmp_path / "s", **options: float) -> Served:
        made.append(Served(answer, **options))
        if path is not None:
            made[-1].start(path)
        return made[-1]

    yield one
    for each in made:
        each.close()


def connected(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(5)
    client.connect(str(path))
    return client


def asked(path: Path, line: bytes) -> list[bytes]:
    with connected(path) as client:
        with suppress(BrokenPipeError):  # it was refused already
            client.sendall(line)
        return list(client.makefile("rb"))


def twice(line: bytes) -> Iterator[bytes]:
    yield line
    sleep(0.01)
    yield line.upper()


def test_a_line_is_answered_by_lines_and_the_socket_is_for_its_user_alone(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(twice)
    assert stat.S_IMODE(os.stat(tmp_path / "s").st_mode) == 0o600
    assert asked(tmp_path / "s", b"hello\n") == [b"hello\n", b"HELLO\n"]
    served.hub.call(served.server.close)
    assert not (tmp_path / "s").exists()


def test_an_answer_that_fails_ends_its_connection_only(serve: Callable[..., Served], tmp_path: Path) -> None:
    def fails(line: bytes) -> Iterator[bytes]:
        yield b"first"
        raise KeyError(line.decode())

    serve(fails)
    for _ in range(3):
        lines = asked(tmp_path / "s", b"x\n")
        assert lines[0] == b"first\n"
        assert b"KeyError: 'x'" in lines[1]


def test_silent_clients_cost_a_connection_for_a_while_and_others_are_answered(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(twice, max_connections=3, request_s=0.5)
    silent = [connected(tmp_path / "s") for _ in range(3)]
    while served.hub.call(lambda: served.server.connections) < 3:
        pass
    assert b"try again" in asked(tmp_path / "s", b"hello\n")[0]
    for client in silent:
        assert client.recv(10) == b""  # its time is over
        client.close()
    while served.hub.call(lambda: served.server.connections):
        pass
    assert asked(tmp_path / "s", b"hello\n")[0] == b"hello\n"


def test_a_client_that_does_not_read_holds_up_nobody(serve: Callable[..., Served], tmp_path: Path) -> None:
    def endless(line: bytes) -> Iterator[bytes]:
        while line == b"much":
            yield b"x" * 100_000
        yield line

    served = serve(endless, send_s=0.3)
    with connected(tmp_path / "s") as lazy:
        lazy.sendall(b"much\n")
        assert asked(tmp_path / "s", b"hello\n") == [b"hello\n"]
        while served.hub.call(lambda: served.server.connections):
            pass


def test_a_line_without_an_end_is_refused(serve: Callable[..., Served], tmp_path: Path) -> None:
    serve(twice)
    with connected(tmp_path / "s") as client:
        client.sendall(b"x" * 200_000)
        assert b"at most 65536 bytes" in client.recv(1000)


def test_the_socket_of_a_dead_process_is_replaced_and_that_of_a_living_one_is_not(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    first = serve(twice)
    second = serve(twice, None)
    with pytest.raises(InUse):
        second.start(tmp_path / "s")
    assert asked(tmp_path / "s", b"a\n")[0] == b"a\n"
    first.hub.call(first.server.close)
    second.start(tmp_path / "s")
    first.hub.call(first.server.close)  # must not remove what is another's now
    assert asked(tmp_path / "s", b"b\n")[0] == b"b\n"


def test_a_start_waits_for_no_lock_that_anybody_may_hold(serve: Callable[..., Served], tmp_path: Path) -> None:
    """All who may read the folder may lock it."""
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        serve(twice)
        assert asked(tmp_path / "s", b"a\n")[0] == b"a\n"
        assert stat.S_IMODE((tmp_path / "s.lock").stat().st_mode) == 0o600
    finally:
        os.close(folder)


def test_a_lock_that_is_held_ends_a_start_with_a_sentence_and_the_loop_goes_on(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(twice, None, lock_s=0.3)
    with (tmp_path / "s.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        turns: list[int] = []

        def turn() -> None:
            while True:
                turns.append(1)
                sleep(0.01)

        served.hub.call(served.tasks.spawn, "turns", turn)
        with pytest.raises(OSError, match=f"another process has held {tmp_path}/s.lock for 0.3 s"):
            served.start(tmp_path / "s")
        assert len(turns) > 3
    served.start(tmp_path / "s")


def test_a_lock_is_no_link_to_a_file_elsewhere(serve: Callable[..., Served], tmp_path: Path) -> None:
    (tmp_path / "s.lock").symlink_to(tmp_path / "made by a link")
    with pytest.raises(OSError, match=r"s\.lock"):
        serve(twice, None).start(tmp_path / "s")
    assert not (tmp_path / "made by a link").exists()


def test_what_is_no_socket_is_not_replaced(serve: Callable[..., Served], tmp_path: Path) -> None:
    (tmp_path / "s").write_text("precious")
    with pytest.raises(OSError, match="is not a socket"):
        serve(twice, None).start(tmp_path / "s")
    assert (tmp_path / "s").read_text() == "precious"


def test_a_path_that_is_too_long_is_a_sentence(serve: Callable[..., Served], tmp_path: Path) -> None:
    path = tmp_path / ("x" * MAX_PATH_BYTES)
    with pytest.raises(PathTooLong, match=f"has {len(str(path))} bytes: the path of a Unix socket has at most 107"):
        serve(twice, None).start(path)
