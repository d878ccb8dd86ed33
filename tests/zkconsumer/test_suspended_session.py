"""A machine that is suspended, or paused as a virtual machine, with a session of a real kazoo client."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from groundwork import clocks
from groundwork.tasks import TaskGroup, deadline, sleep
from tests.fakes.clocks import FakeClocks
from tests.zkconsumer.test_zksession_garbage import SYNC, FakeZooKeeper
from zkconsumer.session.lease import Lease, LeaseOver
from zkconsumer.session.zksession import ZkSession

BEATS_S = 0.5  # of a session of 6 s


class SilentZooKeeper(FakeZooKeeper):
    """It answers heartbeats while `answers` is set.  beats: how many came."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.beats = 0
        super().__init__()

    def _answer(self, xid: int, kind: int) -> bytes:
        if kind == SYNC:
            self.beats += 1
            if not self.answers.wait(20):
                raise struct.error("the test is over")
        return super()._answer(xid, kind)


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = FakeClocks(monkeypatch)
        self.server, self.lease, self.fences = SilentZooKeeper(), Lease(), 0
        self.tasks = TaskGroup()
        self.session = ZkSession(
            self.server.address, session_timeout_ms=6000, connection_timeout_ms=3000, tasks=self.tasks,
            lease=self.lease, on_fence=self._fenced,
        )  # fmt: skip
        self.session.start()

    def _fenced(self) -> None:
        self.fences += 1

    def close(self) -> None:
        self.server.answers.set()
        self.session.close()
        self.tasks.stop(2)
        self.server.close()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(monkeypatch)
    yield made
    made.close()


def until(done: Callable[[], object]) -> None:
    with deadline(10.0):
        while not done():
            sleep(0.005)


def test_a_suspend_past_the_lease_fences_before_anything_else_is_done(world: World):
    world.server.answers.clear()
    world.machine.suspend(20.0)
    with pytest.raises(LeaseOver, match=r"lease over since 1\d\.\d s"):
        world.lease.check(clocks.moment())
    woken = clocks.monotonic()
    until(lambda: world.fences)
    assert clocks.monotonic() - woken < 2.0  # its timers would take what was left of the lease: 4 s and more
    assert world.session.fenced


@pytest.mark.parametrize("jump", [FakeClocks.suspend, FakeClocks.set_ahead], ids=["suspended", "a paused VM"])
def test_after_a_jump_nothing_is_sent_until_a_heartbeat_that_was_sent_later_is_answered(
    world: World, jump: Callable[[FakeClocks, float], None]
):
    world.server.answers.clear()
    beats = world.server.beats
    until(lambda: world.server.beats > beats)  # sent before the jump, and answered after it
    jump(world.machine, 2.0)
    assert not world.lease.holds(clocks.moment())
    until(lambda: world.lease.valid_until < 0)  # for those who look at that alone
    assert world.lease.ends_at > clocks.boot()
    held = world.lease.heard_of
    world.server.answers.set()
    until(lambda: world.lease.holds(clocks.moment()))
    assert held is not None
    assert world.lease.heard_of is not None
    assert world.lease.heard_of > held + BEATS_S
    assert world.fences == 0
