"""Heartbeats and the lease that they prove, with a coordinator and a clock of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from groundwork import clocks
from groundwork.tasks import TaskGroup, deadline, sleep
from kafkawire.errors import LinkLost
from kafkawire.model import Broker
from tests.fakes.clocks import FakeClocks
from zkconsumer.kafkagroup.heartbeats import Heartbeats
from zkconsumer.member.steps import Claim
from zkconsumer.session.lease import COORDINATOR_PART, Lease
from zkconsumer.session.zksession import SessionState

SESSION_S, REBALANCE_S = 12.0, 60.0
MARGIN_S = 2.0
ONE, TWO = Broker(1, "one", 9092), Broker(2, "two", 9092)
CLAIM = Claim(3, "m")


class Requests:
    """MemberRequests of the test: `code` is what the coordinator answers."""

    def __init__(self) -> None:
        self.code = 0
        self.group = "g"
        self.beats = 0
        self.silent = False
        self.coordinator: Broker | None = ONE
        self.answered: Broker | None = None

    def heartbeat(self, claim: Claim) -> int:
        self.beats += 1
        if self.silent:
            raise LinkLost("no byte within 3 s")
        self.answered = self.coordinator
        return self.code

    def doubt(self) -> Broker | None:
        return self.coordinator

    def refused(self, code: int) -> str:
        return f"error {code}"


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, session_s: float = SESSION_S, rebalance_s: float = REBALANCE_S):
        self.clocks = FakeClocks(monkeypatch, 0.0)
        self.requests, self.lease = Requests(), Lease(margin_part=COORDINATOR_PART)
        self.rebalances: list[Claim] = []
        self.over: list[Claim] = []
        self.beats = Heartbeats(
            self.requests,  # type: ignore[arg-type]
            self.lease,
            session_timeout_ms=lambda: int(session_s * 1000),
            rebalance_timeout_ms=lambda: int(rebalance_s * 1000),
            on_rebalance=self.rebalances.append,
            on_fenced=lambda claim, code: None,
            on_over=self.over.append,
            on_state=lambda state, why: None,
        )
        self.beats.begin(CLAIM, 0.0)

    def beat(self, at: float) -> float:
        """Send a heartbeat then; until when the lease is valid."""
        self.clocks.now = at
        self.beats._beat(CLAIM)
        return self.lease.valid_until


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_the_lease_counts_from_the_last_commit_answered_0_once_a_commit_ended_in_7_15_or_16(world: World):
    assert world.beat(5.0) == 15.0
    world.beats.committed(CLAIM, 6.0)
    assert world.beat(9.0) == 19.0
    world.beats.doubt(CLAIM)
    assert world.beat(10.0) == 6.0 + SESSION_S - MARGIN_S
    assert world.beat(15.0) == 16.0  # whatever it answers from memory
    assert world.beats.state is SessionState.CONNECTED  # so that commits are tried
    world.beats.committed(CLAIM, 15.0)
    assert world.beat(15.5) == 25.5


def test_a_doubt_ends_with_a_heartbeat_that_another_coordinator_answers(world: World):
    world.beats.doubt(CLAIM)
    world.requests.coordinator = TWO
    assert world.beat(5.0) == 15.0
    world.requests.coordinator = ONE
    assert world.beat(6.0) == 16.0


def test_the_lease_is_the_smaller_of_the_session_and_what_the_coordinator_waits_for_a_join(
    monkeypatch: pytest.MonkeyPatch,
):
    assert World(monkeypatch, session_s=60.0, rebalance_s=24.0).beat(5.0) == 5.0 + 24.0 - 4.0
    assert World(monkeypatch, session_s=12.0, rebalance_s=60.0).beat(5.0) == 15.0


def test_a_coordinator_that_loads_the_group_proves_the_lease_as_long_as_it_holds_and_no_longer(world: World):
    """After a crash: the one before did not get to count us out, and the new one gives a full session."""
    world.beat(5.0)
    world.requests.code = 14
    assert world.beat(14.0) == 24.0
    assert world.beat(25.0) == 24.0  # from 24 on the one before may have given our partitions away
    for code in (15, 16):
        world.requests.code = code
        assert world.beat(20.0) == 24.0


def test_the_end_of_a_doubt_leaves_the_limit_of_a_rebalance(monkeypatch: pytest.MonkeyPatch):
    world = World(monkeypatch, session_s=12.0, rebalance_s=12.0)
    world.beat(1.0)
    world.requests.code = 27
    assert world.beat(2.0) == 11.0
    world.beats.doubt(CLAIM)
    world.beats.committed(CLAIM, 3.0)
    assert world.beat(4.0) == 11.0
    assert world.rebalances == [CLAIM]


def test_a_doubt_of_another_generation_changes_nothing(world: World):
    world.beats.doubt(Claim(2, "m"))
    world.beats.committed(Claim(2, "m"), 9.0)
    assert world.beat(5.0) == 15.0


@contextmanager
def running(world: World) -> Iterator[None]:
    """The tasks of heartbeats, by real timers; what the block waits for must not take as long as one of those."""
    tasks = TaskGroup()
    tasks.spawn("heartbeats", world.beats.run)
    tasks.spawn("lease", world.beats.guard)
    try:
        sleep(0.01)
        with deadline(2.0):
            yield
    finally:
        tasks.stop(1.0)


def until(condition: Callable[[], object]) -> None:
    while not condition():
        sleep(0.01)


def test_a_member_whose_machine_was_suspended_past_its_lease_is_fenced_though_its_timers_stood_still(world: World):
    with running(world):
        world.requests.silent = True
        world.clocks.suspend(20.0)
        assert not world.lease.holds(clocks.moment())
        until(lambda: world.over)
    assert world.over == [CLAIM]


@pytest.mark.parametrize("jump", [FakeClocks.suspend, FakeClocks.set_ahead], ids=["suspended", "a paused VM"])
def test_after_a_jump_of_a_clock_a_heartbeat_is_sent_at_once_and_its_answer_is_the_lease(
    jump: Callable[[FakeClocks, float], None], monkeypatch: pytest.MonkeyPatch
):
    world = World(monkeypatch, session_s=60.0)
    with running(world):
        jump(world.clocks, 15.0)
        assert not world.lease.holds(clocks.moment())
        assert world.requests.beats == 1  # the one of begin()
        until(lambda: world.lease.holds(clocks.moment()))
    assert world.requests.beats == 2
    assert world.over == []
    assert world.lease.valid_until == clocks.boot() + 50.0
