"""What kazoo's selects cost, and that they keep nobody else from their turn."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from groundwork import tasks
from groundwork.kazoohandler import SELECTS_AT_ONCE, kazoo_handler, ready_now
from groundwork.tasks import TaskGroup


def test_what_is_ready_is_told_by_kind():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert ready_now([ours], []) is None
        assert ready_now([ours], [theirs]) == ([], [theirs])
        theirs.send(b"x")
        assert ready_now([ours], [ours]) == ([ours], [ours])
        theirs.close()
        assert ready_now([ours], []) == ([ours], [])


def test_what_is_closed_is_left_to_kazoos_own_select():
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.close()
    assert ready_now([ours], []) is None


def test_others_have_a_turn_while_a_socket_is_always_ready():
    handler, turns = kazoo_handler(), []
    ours, theirs = handler.create_socket_pair()
    greenlets = TaskGroup()
    greenlets.spawn("other", lambda: turns.append(1))
    try:
        theirs.send(b"x")
        for _ in range(SELECTS_AT_ONCE):
            assert handler.select([ours], [], [], 5)[0] == [ours]
        assert turns == []
        assert handler.select([ours], [], [], 5)[0] == [ours]
        tasks.sleep(0)
        assert turns == [1]
    finally:
        greenlets.stop(1.0)
        ours.close()
        theirs.close()


def test_what_came_while_the_process_was_stopped_is_read_before_the_time_out_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handler = kazoo_handler()
    ours, theirs = socket.socketpair()

    def timed_out(*_: Any, **__: Any) -> Any:
        theirs.send(b"x")
        return [], [], []

    monkeypatch.setattr("kazoo.handlers.gevent.SequentialGeventHandler.select", timed_out)
    with ours, theirs:
        assert handler.select([ours], [], [], 5) == ([ours], [], [])
