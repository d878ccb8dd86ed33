"""The wake-ups of a kazoo client: as many calls at once as anybody likes, and each is sent."""

from __future__ import annotations

import socket

import gevent.socket
import pytest
from kazoo.client import KazooClient

from groundwork.kazoohandler import kazoo_handler, wakeups
from groundwork.tasks import TaskGroup, sleep

MANY = 2000  # a plain pair takes about 280


def readable(end: object) -> bool:
    end.setblocking(False)  # type: ignore[attr-defined]
    try:
        return bool(end.recv(1, socket.MSG_PEEK))  # type: ignore[attr-defined]
    except BlockingIOError:
        return False


def test_the_pair_is_readable_until_as_many_bytes_were_read_as_were_written():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reads, writes = wakeups((ours, theirs))
        assert not readable(ours)
        for _ in range(MANY):
            writes.send(b"\0")
        for _ in range(MANY):
            assert readable(ours)
            assert reads.recv(1) == b"\0"
        assert not readable(ours)
        writes.send(b"\0")
        assert readable(ours)


def test_who_reads_first_waits_for_a_byte_and_costs_no_later_one():
    ours, theirs = gevent.socket.socketpair()
    with ours, theirs:
        reads, writes = wakeups((ours, theirs))
        tasks, got = TaskGroup(), []
        reader = tasks.spawn("reader", lambda: got.append(reads.recv(1)))
        sleep(0)
        writes.send(b"\0")
        assert reader.join(2)
        assert got == [b"\0"]
        writes.send(b"\0")
        assert reads.recv(1) == b"\0"
        theirs.shutdown(socket.SHUT_WR)
        assert reads.recv(1) == b""
        tasks.stop(1)


@pytest.mark.real
def test_greenlets_that_call_thousands_of_times_at_once_and_one_that_is_killed_leave_every_answer_in_time(zk_server):
    handler = kazoo_handler()
    zk = KazooClient(hosts=zk_server.connect, handler=handler, timeout=10)
    zk.start(timeout=10)
    tasks = TaskGroup()
    answered: list[object] = []

    def call() -> None:
        calls = [zk.exists_async("/zookeeper") for _ in range(MANY)]
        answered.extend(one.get(timeout=20) for one in calls)

    try:
        workers = [tasks.spawn(f"caller {n}", call) for n in range(3)]
        sleep(0)
        workers[0].ask_to_end()
        for worker in workers[1:]:
            assert worker.join(30)
        assert tasks.death is None
        assert len(answered) == 2 * MANY
        assert all(answered)
        assert zk.exists_async("/zookeeper").get(timeout=2) is not None
        assert not zk._queue
    finally:
        tasks.stop(2)
        zk.stop()
        zk.close()
