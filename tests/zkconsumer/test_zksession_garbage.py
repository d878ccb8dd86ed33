"""A ZooKeeper that says what cannot be understood loses its connection, and the session goes on by another one."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from groundwork import zkstart
from groundwork.options import Secret
from groundwork.tasks import TaskGroup, sleep
from groundwork.zksecurity import OPEN, ZkSecurity
from zkconsumer.errors import Unreachable
from zkconsumer.session.lease import Lease
from zkconsumer.session.zksession import SessionState, ZkSession

EXISTS, SYNC, PING, CLOSE, AUTH = 3, 9, 11, -11, 100
SESSION = 0x1234
PATH = struct.pack(">i1s", 1, b"/")
STAT = struct.pack(">qqqqiiiqiiq", 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def reply(xid: int, error: int = 0, body: bytes = b"") -> bytes:
    return framed(struct.pack(">iqi", xid, 1, error) + body)


class FakeZooKeeper:
    """Answers sessions, pings, credentials, exists and sync.  instead(xid): sent once in place of an answer to sync.
    refuses: credentials, so many times."""

    timeout_ms = 6000  # of its sessions

    def __init__(self) -> None:
        self.connections = 0
        self.instead: Callable[[int], bytes] | None = None
        self.refuses = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as frames, suppress(OSError, struct.error):
            frames.read(*struct.unpack(">i", frames.read(4)))
            connection.sendall(framed(struct.pack(">iiqi16s?", 0, self.timeout_ms, SESSION, 16, b"p" * 16, False)))
            while True:
                body = frames.read(*struct.unpack(">i", frames.read(4)))
                xid, kind = struct.unpack_from(">ii", body)
                connection.sendall(self._answer(xid, kind))

    def _answer(self, xid: int, kind: int) -> bytes:
        if kind == AUTH:
            self.refuses -= 1
            return reply(xid, -115 if self.refuses >= 0 else 0)
        if kind == EXISTS:
            return reply(xid, 0, STAT)
        if kind != SYNC:
            return reply(xid)
        instead, self.instead = self.instead, None
        return reply(xid, 0, PATH) if instead is None else instead(xid)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeZooKeeper]:
    monkeypatch.setattr(zkstart, "RETRY_S", 0.05)
    made = FakeZooKeeper()
    yield made
    made.close()


@contextmanager
def session_with(server: FakeZooKeeper, states: list[SessionState], access: ZkSecurity = OPEN) -> Iterator[ZkSession]:
    tasks = TaskGroup()
    session = ZkSession(
        server.address, session_timeout_ms=6000, connection_timeout_ms=3000, tasks=tasks, lease=Lease(),
        on_state=states.append, access=access,
    )  # fmt: skip
    try:
        session.start()
        yield session
    finally:
        session.close()
        tasks.stop(2)


def until(done: Callable[[], Any], timeout_s: float = 10) -> None:
    end = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < end, "it did not happen in time"
        sleep(0.01)


GARBAGE: dict[str, Callable[[int], bytes]] = {
    "another number": lambda xid: reply(xid + 5, 0, PATH),
    "a negative size": lambda xid: struct.pack(">i", -7),
    "a gigabyte": lambda xid: struct.pack(">i", 1 << 30),
    "half a head": lambda xid: framed(b"\0\0"),
    "an unknown error": lambda xid: reply(xid, -9999),
    "an unknown event": lambda xid: reply(-1, 0, struct.pack(">iii1s", 99, 3, 1, b"/")),
    "a cut event": lambda xid: reply(-1, 0, b"\0"),
    "a response that nothing asked for": lambda xid: reply(xid, 0, STAT) + reply(-4),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_a_session_survives(what: str, server: FakeZooKeeper, caplog: pytest.LogCaptureFixture) -> None:
    states: list[SessionState] = []
    with caplog.at_level(logging.ERROR), session_with(server, states) as session:
        assert session.session_id == SESSION
        states.clear()
        server.instead = GARBAGE[what]
        until(lambda: SessionState.CONNECTED in states)
        assert states[0] is SessionState.SUSPENDED
        assert SessionState.LOST not in states
        assert server.connections == 2
        assert session.session_id == SESSION
        assert session.stat(["/a"])["/a"] is not None
    said = [record.getMessage() for record in caplog.records if record.name == "groundwork.zkstart"]
    assert len(said) == 1
    assert said[0].startswith(f"ZooKeeper at {server.address}: it answered what cannot be understood (")
    assert said[0].endswith("; another connection in 0.05 s")


WHO = ZkSecurity(auth=Secret("digest:ann:pass-word"))


def test_a_session_whose_credentials_are_refused_is_followed_by_another_one(
    server: FakeZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    """kazoo would give up for good: say of a ZooKeeper that starts and does not know its providers yet."""
    states: list[SessionState] = []
    with session_with(server, states, WHO) as session:
        states.clear()
        server.refuses, server.instead = 1, GARBAGE["half a head"]
        until(lambda: states[-1:] == [SessionState.CONNECTED] and SessionState.LOST in states)
        assert server.connections == 3
        until(lambda: not session.fenced)
        assert session.stat(["/a"])["/a"] is not None
    assert f"ZooKeeper at {server.address}: it refuses our credentials; another connection in 0.05 s" in caplog.text
    assert "pass-word" not in caplog.text


@pytest.mark.thorough
def test_refused_credentials_are_named_at_the_start(server: FakeZooKeeper) -> None:
    server.refuses = 1 << 30
    with (
        pytest.raises(Unreachable, match=r"(right after it began|connected but does not answer): .*Auth"),
        session_with(server, [], WHO),
    ):
        pass
