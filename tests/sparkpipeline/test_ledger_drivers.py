"""Several drivers on one ledger, stopped between any two steps: one wins, nothing is lost, nothing is there twice."""

from __future__ import annotations

from dataclasses import dataclass, field

import greenlet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkpipeline.errors import Refused
from sparkpipeline.ledger.exactlyonce import Advance, Outcome, advance
from sparkpipeline.ledger.ledger import Ledger
from tests.sparkpipeline.filescontract import Promise, every_promise
from tests.sparkpipeline.ledgerworld import BASE, CopyWork, PortionWork, Row, committed_and_gone, judge, seen_twice
from tests.sparkpipeline.memoryfiles import Kept, MemoryFiles

HEADS = (30, 25)
COMMIT_3 = f"{BASE}/_load/commits/00000003.json"
LIMIT = 5_000  # steps of one driver: more would be a loop


@every_promise
def test_memory_keeps(promise: Promise) -> None:
    promise(MemoryFiles(), "mem://x/y")


class Killed(BaseException):
    """What a step of a dead process is: nothing happens any more."""


@dataclass
class Driver:
    """One process, in a greenlet that goes on by one file operation a step."""

    kept: Kept
    rewind: Row | None = None
    alone: bool = False
    makes: type[CopyWork] = CopyWork
    rounds: int = 1
    dead: bool = False
    steps: int = 0
    said: list[str] = field(default_factory=list)
    ends: list[Advance] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.files = MemoryFiles(self.kept, self._step)
        self.work = self.makes(self.files, HEADS, rewind=self.rewind)
        self._greenlet = greenlet.greenlet(self._run)

    def _run(self) -> None:
        ledger = Ledger(self.files, BASE, snapshot_every=2)
        for _ in range(self.rounds):
            self.ends.append(advance(ledger, self.work, self.said.append, self.alone))

    def _step(self) -> None:
        if self.dead:
            raise Killed
        self.steps += 1
        assert self.steps < LIMIT
        greenlet.getcurrent().parent.switch()
        if self.dead:
            raise Killed

    @property
    def over(self) -> bool:
        return self._greenlet.dead

    def step(self) -> bool:
        """The next file operation, and all that follows until the one behind it.  False: it has ended."""
        if not self.over:
            before = self.kept.changes
            self._greenlet.switch()
            if self.kept.changes == before:
                return not self.over
            assert not seen_twice(self.kept, BASE)
            assert not committed_and_gone(self.kept, BASE)
        return not self.over

    def run(self, steps: int = LIMIT) -> Driver:
        for _ in range(steps):
            if not self.step():
                break
        return self

    def kill(self) -> None:
        """SIGKILL: no line of it runs any more that reaches a file."""
        self.dead = True
        try:
            self._greenlet.throw(Killed)
        except Killed:
            pass


def finish(kept: Kept) -> None:
    """A driver that nobody disturbs goes on until there is nothing left to do; then the judge."""
    files = MemoryFiles(kept)
    work, ledger = CopyWork(files, HEADS), Ledger(files, BASE, snapshot_every=2)
    for _ in range(30):
        end = advance(ledger, work, lambda _: None)
        assert end.outcome is not Outcome.LOST
        if end.outcome is Outcome.IDLE:
            break
    else:
        pytest.fail("it never comes to an end")
    judge(files, BASE, HEADS)


def begun(batches: int) -> Kept:
    """A ledger with so many batches."""
    kept = Kept()
    Driver(kept, rounds=batches).run()
    return kept


@pytest.mark.thorough
@pytest.mark.parametrize("rewind", [None, (0, 7)], ids=["load", "rewind"])
@pytest.mark.parametrize("others", [1, 3])
def test_a_zombie_driver_loses_wherever_it_slept(others: int, rewind: Row | None) -> None:
    """It sleeps after n steps, for every n; others do batches meanwhile, superseding files too; then it goes on."""
    start = begun(2)
    for n in range(LIMIT):
        kept = Kept(start)
        zombie = Driver(kept, rewind=rewind).run(n)
        if zombie.over:
            break
        Driver(kept, rounds=1).run()
        Driver(kept, rounds=others - 1, rewind=(1, 3)).run()
        zombie.run()
        assert zombie.ends
        finish(kept)
    assert n > 40, "a batch takes more steps than this"


@pytest.mark.parametrize("rewind", [None, (0, 7)], ids=["load", "rewind"])
def test_a_crash_at_any_step_is_made_good(rewind: Row | None) -> None:
    start = begun(2)
    for n in range(LIMIT):
        kept = Kept(start)
        victim = Driver(kept, rewind=rewind).run(n)
        if victim.over:
            break
        victim.kill()
        finish(kept)
    assert n > 40


@pytest.mark.thorough
def test_a_crash_while_a_crash_is_made_good() -> None:
    start = begun(2)
    for n in range(0, LIMIT, 11):
        first = Kept(start)
        if (victim := Driver(first, rewind=(0, 7)).run(n)).over:
            break
        victim.kill()
        for m in range(n % 2, LIMIT, 2):
            kept = Kept(first)
            if (second := Driver(kept, alone=bool(m % 4 > 1)).run(m)).over:
                break
            second.kill()
            finish(kept)


@pytest.mark.thorough
def test_portions_of_a_driver_that_died_are_taken_over_and_written_once() -> None:
    """It dies after n steps, the one that takes over after m; a third one finishes."""
    start = begun(2)
    spared = 0
    for n in range(LIMIT):
        first = Kept(start)
        victim = Driver(first, makes=PortionWork).run(n)
        if victim.over:
            break
        victim.kill()
        second = Driver(Kept(first), makes=PortionWork, alone=True).run()
        assert isinstance(second.work, PortionWork)
        spared += 2 - len(second.work.written)
        finish(second.kept)
        for m in range(n % 7, LIMIT, 7):
            kept = Kept(first)
            if (other := Driver(kept, makes=PortionWork, alone=True).run(m)).over:
                break
            other.kill()
            Driver(kept, makes=PortionWork, alone=True).run()
            finish(kept)
    assert spared > 10, "from the record of a portion on it is not written again"


def test_a_zombie_whose_portions_were_taken_over_loses_wherever_it_slept() -> None:
    start = begun(2)
    for n in range(LIMIT):
        kept = Kept(start)
        zombie = Driver(kept, makes=PortionWork).run(n)
        if zombie.over:
            break
        other = Driver(kept, makes=PortionWork, alone=True).run(n // 2)
        zombie.run(n // 3)
        other.run()
        zombie.run()
        finish(kept)


@pytest.mark.parametrize("rewind", [None, (0, 7)], ids=["load", "rewind"])
def test_a_driver_that_sweeps_and_dies_takes_no_committed_file_along(rewind: Row | None) -> None:
    """It believes that it is alone, deletes what others staged, and dies before it writes anything."""
    start = begun(2)
    for n in range(LIMIT):
        kept = Kept(start)
        slow = Driver(kept, rewind=rewind).run(n)
        if slow.over:
            break
        sweeper = Driver(kept, alone=True)
        while not sweeper.work.executing and sweeper.step():
            pass
        sweeper.kill()
        slow.run()
        finish(kept)


def test_a_sweep_that_slept_takes_no_committed_file_along() -> None:
    """It looked at the other's attempt while that was executing, and deletes after the other's commit."""
    start = begun(2)
    for n in range(LIMIT):
        kept = Kept(start)
        slow = Driver(kept)
        while not slow.work.executing:
            slow.step()
        sweeper = Driver(kept, alone=True).run(n)
        if sweeper.work.executing or sweeper.over:
            break
        while COMMIT_3 not in kept and slow.step():
            pass
        sweeper.run()
        slow.run()
        finish(kept)
    assert n > 10


def test_a_driver_that_slept_while_publishing_meets_no_new_files_in_its_staging_folder() -> None:
    """Another one published for it and superseded its files; a third, late as well, claims an attempt at that batch."""
    start = begun(2)
    for n in range(LIMIT):
        kept = Kept(start)
        publisher = Driver(kept)
        while not publisher.work.executing:
            publisher.step()
        late = Driver(kept).run(n)
        if late.over:
            break
        while COMMIT_3 not in kept:
            publisher.step()
        publisher.step()  # it has seen that batch 3 is not done, and is about to move a file
        Driver(kept).run()
        Driver(kept, rewind=(0, 0)).run()
        while not late.work.executing and late.step():
            pass
        while late.work.executing and late.step():
            pass
        publisher.run()
        late.run()
        finish(kept)


def pairs(stride: int) -> None:
    start = begun(2)
    for n in range(0, LIMIT, stride):
        if Driver(Kept(start), rewind=(0, 7)).run(n).over:
            break
        for m in range(0, LIMIT, stride):
            kept = Kept(start)
            first = Driver(kept, rewind=(0, 7)).run(n)
            second = Driver(kept, alone=bool((n // stride + m // stride) % 2), rewind=(1, 4)).run(m)
            ended = second.over
            first.run()
            second.run()
            committed = [end for driver in (first, second) for end in driver.ends if end.outcome is Outcome.DONE]
            assert len({end.batch for end in committed}) == len(committed), "one batch, two winners"
            finish(kept)
            if ended:
                break


def test_two_drivers_that_meet_anywhere() -> None:
    pairs(stride=9)


@pytest.mark.faults
def test_two_drivers_that_meet_everywhere() -> None:
    pairs(stride=1)


class Abandoning(Driver):
    """An operator who gives a plan up."""

    def _run(self) -> None:
        try:
            Ledger(self.files, BASE).abandon(3, "poison")
        except Refused as exc:
            self.said.append(str(exc))


def test_abandon_and_commit_at_once_one_of_them_wins() -> None:
    start = begun(2)
    abandoned = 0
    for n in range(LIMIT):
        kept = Kept(start)
        driver = Driver(kept).run(n)
        operator = Abandoning(kept)
        operator.run()
        driver.run()
        decided = Ledger(MemoryFiles(kept), BASE).decision(3)
        assert decided is not None
        assert decided.abandoned == (not operator.said) == (3 in Ledger(MemoryFiles(kept), BASE).state().abandoned)
        assert driver.ends[0].outcome is (Outcome.LOST if decided.abandoned else Outcome.DONE)
        abandoned += decided.abandoned
        finish(kept)
        if n > driver.steps:
            break
    assert abandoned > 10, "while the plan was open"


moves = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.integers(0, 2), st.integers(1, 40)),
        st.tuples(st.just("kill"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("rewind"), st.integers(0, 1), st.integers(0, 30)),
        st.tuples(st.just("abandon"), st.just(0), st.integers(0, 20)),
    ),
    max_size=25,
)


def play(steps: list[tuple[str, int, int]], alone: list[bool]) -> None:
    """Three drivers; whoever ends or is killed is started again, with the rewind that was asked for last."""
    kept = Kept()
    rewind: Row | None = None
    drivers = [Driver(kept, alone=flag, rounds=2) for flag in alone]
    for what, which, number in steps:
        if what == "rewind":
            rewind = (which, number)
        elif what == "abandon":
            Abandoning(kept).run(number)
        else:
            driver = drivers[which]
            if what == "kill":
                driver.kill()
            if driver.over:
                drivers[which] = driver = Driver(kept, rewind=rewind, alone=alone[which], rounds=2)
                rewind = None
            driver.run(number)
    for driver in drivers:
        driver.run()
    finish(kept)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(moves, st.lists(st.booleans(), min_size=3, max_size=3))
def test_any_order_of_steps_crashes_rewinds_and_abandons(steps: list[tuple[str, int, int]], alone: list[bool]) -> None:
    play(steps, alone)


@pytest.mark.faults
@settings(max_examples=5_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(moves, st.lists(st.booleans(), min_size=3, max_size=3))
def test_very_many_orders_of_steps(steps: list[tuple[str, int, int]], alone: list[bool]) -> None:
    play(steps, alone)
