"""Connections to a name with several addresses, on a thread and in a hub."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from groundwork import clocks, connecting, tasks
from groundwork.connecting import HEAD_START_S, REMEMBERED_S, Connector, alternating, connect, of_dns
from groundwork.tasks import TaskGroup

NAME = ("two.example", 9092)
CONNECTORS = [connecting._plain, tasks.connect.connector]
BOTH = pytest.mark.parametrize("connector", CONNECTORS, ids=["thread", "hub"])


def row(address: tuple[str, int]) -> tuple[Any, ...]:
    """An address as getaddrinfo gives it."""
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address


@contextmanager
def silent() -> Iterator[tuple[str, int]]:
    """An address that does not answer: the queue of its listener is full."""
    with socket.socket() as listener, ExitStack() as filling:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        while True:
            one = filling.enter_context(socket.socket())
            one.settimeout(0.2)
            try:
                one.connect(listener.getsockname())
            except TimeoutError:
                break
        yield listener.getsockname()


@contextmanager
def answering() -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()


class Recording(Connector):
    """Notes the addresses that are tried, in order."""

    def __init__(self, other: Connector) -> None:
        super().__init__(self._made, other._poll)
        self._inner = other._make
        self.tried: list[Any] = []

    def _made(self, *kind: int) -> Any:
        outer, inner = self, self._inner(*kind)

        class Noting:
            def connect_ex(self, where: Any) -> int:
                outer.tried.append(where)
                return int(inner.connect_ex(where))

            def __getattr__(self, name: str) -> Any:
                return getattr(inner, name)

        return Noting()


@BOTH
def test_an_address_that_does_not_answer_costs_its_head_start_once_in_ten_minutes(
    connector: Connector, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording(connector)
    with silent() as dead, answering() as live:
        found = [row(dead), row(live)]
        began = time.monotonic()
        opened = recording.first(NAME, found, 30.0)
        assert HEAD_START_S - 0.01 <= time.monotonic() - began < 5
        assert opened.getpeername() == live
        assert opened.gettimeout() == 30.0
        opened.close()
        assert recording.tried == [dead, live]
        recording.first(NAME, found, 30.0).close()
        assert recording.tried == [dead, live, live]
        recording.first(("other.example", 1), found, 30.0).close()
        assert recording.tried[3:] == [dead, live]
        before = clocks.boot
        monkeypatch.setattr(clocks, "boot", lambda: before() + REMEMBERED_S)
        recording.first(NAME, found, 30.0).close()
        assert recording.tried[5] == dead


@BOTH
def test_the_next_address_follows_one_that_refuses_at_once(
    connector: Connector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundwork.connecting.HEAD_START_S", 60.0)
    with answering() as live:
        opened = Recording(connector).first(NAME, [row(refusing()), row(live)], 30.0)
        assert opened.getpeername() == live
        opened.close()


@BOTH
def test_the_order_of_the_name_server_counts_while_its_first_address_answers(connector: Connector) -> None:
    recording = Recording(connector)
    with answering() as one, answering() as other:
        for first, second in ((one, other), (other, one), (one, other)):
            recording.first(NAME, [row(first), row(second)], 30.0).close()
        assert recording.tried == [one, other, one]


@BOTH
def test_the_time_out_bounds_all_addresses_together(connector: Connector) -> None:
    with silent() as one, silent() as other:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            Recording(connector).first(NAME, [row(one), row(other)], 0.6)
        assert 0.55 <= time.monotonic() - began < 5


@BOTH
def test_the_refusal_is_raised_where_no_address_is_left(connector: Connector) -> None:
    with pytest.raises(ConnectionRefusedError) as refused:
        connector.first(NAME, [row(refusing()), row(refusing())], 30.0)
    assert refused.value.errno == errno.ECONNREFUSED
    with pytest.raises(OSError, match=r"two\.example has no address"):
        connector.first(NAME, [], 30.0)


def test_a_name_with_two_addresses_is_connected_to_by_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent() as dead, answering() as live:
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [row(dead), row(live)])
        began = time.monotonic()
        with connecting.connect(NAME, 30.0) as opened:
            assert opened.getpeername() == live
        assert time.monotonic() - began < 5


def test_a_greenlet_that_is_ended_while_it_connects_leaves_no_socket() -> None:
    made: list[Any] = []

    def make(*kind: int) -> Any:
        made.append(tasks.connect.connector._make(*kind))
        return made[-1]

    group, turns = TaskGroup(), []
    with silent() as dead:
        connector = Connector(make, tasks.connect.connector._poll)
        group.spawn("connecting", connector.first, NAME, [row(dead)], 30.0)
        group.spawn("other", lambda: turns.append(threading.get_ident()))
        tasks.sleep(0.02)
        assert turns == [threading.get_ident()]
        assert group.stop(5) == []
        assert [each.fileno() for each in made] == [-1]


def test_families_take_turns() -> None:
    found = [(10, "a"), (10, "b"), (10, "c"), (2, "d")]
    assert [row[1] for row in alternating(found)] == ["a", "d", "b", "c"]


def refusing() -> tuple[str, int]:
    """An address where nobody listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return closed.getsockname()


def test_a_name_without_an_address_is_told_with_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(OSError, match=r"DNS has no address of kafka1\.old \(Name or service not known\)"):
        connect(("kafka1.old", 9092), 1)
    error = of_dns("kafka1.old", socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"))
    assert error.strerror == "DNS did not answer for kafka1.old (Temporary failure in name resolution)"
