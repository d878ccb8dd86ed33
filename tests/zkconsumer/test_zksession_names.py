"""A session with ZooKeeper by names, while the name servers are silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from groundwork import clocks
from groundwork.tasks import TaskGroup, now, sleep
from tests.fakes.names import Names, names_of_a_test
from tests.zkconsumer.test_zksession_garbage import GARBAGE, SESSION, FakeZooKeeper
from zkconsumer.errors import Unreachable
from zkconsumer.session.lease import Lease, LeaseOver
from zkconsumer.session.zksession import SessionState, ZkSession

HANG_S = 4.0


@pytest.fixture
def server() -> Iterator[FakeZooKeeper]:
    made = FakeZooKeeper()
    yield made
    with suppress(OSError):  # closed by the test
        made.close()


@pytest.fixture
def names() -> Iterator[Names]:
    with names_of_a_test(HANG_S) as made:
        yield made


@pytest.fixture
def tasks() -> Iterator[TaskGroup]:
    made = TaskGroup()
    yield made
    made.stop(2)


@pytest.fixture
def longest(tasks: TaskGroup) -> list[float]:
    """The longest time in which no greenlet ran, so far."""
    longest = [0.0]

    def watch() -> None:
        while True:
            before = now()
            sleep(0.01)
            longest[0] = max(longest[0], now() - before)

    tasks.spawn("watch", watch)
    return longest


def session_of(
    hosts: str,
    tasks: TaskGroup,
    states: list[SessionState],
    patience_ms: int = 3000,
    on_fence: Callable[[], None] = lambda: None,
) -> ZkSession:
    return ZkSession(
        hosts, session_timeout_ms=6000, connection_timeout_ms=patience_ms, tasks=tasks, lease=Lease(),
        on_state=states.append, on_fence=on_fence,
    )  # fmt: skip


def test_a_lost_connection_comes_back_by_the_last_addresses_while_the_name_servers_are_silent(
    names: Names, server: FakeZooKeeper, tasks: TaskGroup, longest: list[float]
) -> None:
    """Each look-up of the C library stopped the event loop: heartbeats, fence and all sources stood still."""
    port = server.address.rpartition(":")[2]
    names.known = {"zk1.here": "127.0.0.1", "zk2.here": "127.0.0.1"}
    states: list[SessionState] = []
    session = session_of(f"zk1.here:{port},zk2.here:{port}", tasks, states)
    session.start()
    try:
        names.silent = set(names.known)
        states.clear()
        server.instead = GARBAGE["half a head"]  # with the next heartbeat
        end = time.monotonic() + 20
        while SessionState.CONNECTED not in states:
            assert time.monotonic() < end, "no connection in time"
            sleep(0.01)
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
        assert session.session_id == SESSION
        assert longest[0] < 1.5, f"the event loop stood still for {longest[0]:.1f} s"
    finally:
        session.close()


@pytest.mark.thorough
def test_the_fence_comes_with_the_end_of_the_lease_while_the_name_servers_are_silent(
    names: Names, server: FakeZooKeeper, tasks: TaskGroup, longest: list[float]
) -> None:
    """It came 25 s late: the event loop stood in the look-ups of the next try to connect."""
    port = server.address.rpartition(":")[2]
    names.known = {"zk1.here": "127.0.0.1", "zk2.here": "127.0.0.1"}
    fenced: list[float] = []
    session = session_of(f"zk1.here:{port},zk2.here:{port}", tasks, [], on_fence=lambda: fenced.append(now()))
    session.start()
    begun = session.lease.until_revoked()
    try:
        names.silent = set(names.known)
        server.close()
        server.instead = GARBAGE["half a head"]
        end = time.monotonic() + 20
        while not fenced:
            assert time.monotonic() < end, "no fence in time"
            sleep(0.01)
        assert fenced[0] - session.lease.valid_until < 0.5
        with pytest.raises(LeaseOver, match="silent for too long since this began"):
            begun.check(clocks.moment())
        assert longest[0] < 1.5, f"the event loop stood still for {longest[0]:.1f} s"
    finally:
        session.close()


def test_a_start_ends_in_its_time_and_a_stop_too_while_the_name_servers_are_silent(
    names: Names, tasks: TaskGroup, longest: list[float]
) -> None:
    names.silent = {"zk1.hangs", "zk2.hangs"}
    began = now()
    why = r"does not answer within 1\.5 s .* The last try: no name server answered for zk2\.hangs within"
    with pytest.raises(Unreachable, match=why):
        session_of("zk1.hangs:2181,zk2.hangs:2181", tasks, [], patience_ms=1500).start()
    assert now() - began < 3.5
    assert longest[0] < 1.5, f"the event loop stood still for {longest[0]:.1f} s"
    assert sorted(names.asked) == ["zk1.hangs", "zk2.hangs"]  # both at once, each once
