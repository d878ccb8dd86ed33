"""Whatever happens to a partition, in whatever order: the world keeps its promises, and a broken machine is caught."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.model import TopicPartition
from tests.scenarios.partition.world import Violation, World
from zkconsumer.fetching.committable import DeliveryTicket
from zkconsumer.fetching.partition import (
    ENDING,
    MAY_FETCH,
    FetchedSet,
    Partition,
    State,
    Taken,
    Withheld,
)
from zkconsumer.session.lease import Lease

Event = tuple[str, int]
USUAL = ["fetch", "take", "send", "ack", "ack", "next", "next", "timer", "commit"]
RARE = ["pause", "resume", "resume", "lease over", "lease renewed", "lease renewed", "fail", "drop", "stored"]
RARE += ["may send", "seek", "skip", "nothing behind", "park", "unpark", "unpark", "leave", "ack message", "on-ack"]
RARE += ["park", "unpark behind", "unpark behind", "throttle", "leader", "take first", "committed"]
RARE += ["not committed", "out of range", "relocate", "relocate", "go back", "go back", "revoke", "close"]
events = st.lists(st.tuples(st.sampled_from(USUAL * 5 + RARE), st.integers(0, 1 << 16)), max_size=80)


def happen(world: World, what: str, n: int) -> None:
    """One event, where it can happen; n chooses among its objects."""
    partition = world.partition
    position = partition.position.offset
    tickets = sorted(world.tickets)
    ticket = tickets[n % len(tickets)] if tickets else -1
    match what:
        case "fetch" if position is not None:  # also one that is too late
            world.fetched(position, position + 1 + n % 7)
        case "take" | "take first" if world.taken is None and world.waits is None and world.read is None:
            world.take(commit_first=what == "take first")
        case "send" if world.taken is not None and world.taken.progress is not None:
            given = world.taken.progress.given
            end = world.taken.resume_at
            world.send(min(end, max(given, world.taken.start) + 1 + n % 4), 1 + n % 3 // 2)
        case "ack":
            world.ack(ticket)
        case "stored" if ticket in world.tickets:
            world.reached(ticket, world.tickets[ticket].begin + n % 4)
        case "fail":
            world.fail(ticket)
        case "drop":
            world.drop(ticket)
        case "may send":
            world.ask(ticket)
        case "next" | "on-ack" if world.taken is None and world.waits is None:
            world.next(on_ack=what == "on-ack")
        case "leave":
            world.leave()
        case "ack message":
            world.ack_message()
        case "timer":
            world.tend()
        case "commit":
            world.commit()
        case "pause":
            world.pause()
        case "resume":
            world.resume()
        case "throttle":
            world.throttle(n % 2 or None)
        case "leader":
            world.lead(n % 2 == 0)
        case "lease over":
            world.lease_ends()
        case "lease renewed":
            world.lease_renewed()
        case "seek" if partition.state not in ENDING and n % 3 == 0:
            world.seek(n % 200)
        case "out of range" if partition.state in MAY_FETCH:
            world.out_of_range()
        case "relocate" if partition.position.refused is not None and partition.state in MAY_FETCH:
            world.relocate(max(0, partition.position.refused + n % 9 - 4))
        case "go back":
            world.go_back()
        case "skip" if partition.state in MAY_FETCH and position is not None and not world.queue:
            world.skip_to(position + 1 + n % 5)
        case "nothing behind":
            world.pass_skips()
        case "park" if n % 3 == 0:
            world.park("too large", at_once=n % 2 == 0)
        case "unpark":
            world.unpark()
        case "unpark behind" if partition.parked_at is not None:
            world.unpark(partition.parked_at.position + 1 + n % 2)
        case "committed" | "not committed":
            world.commit_ended(what == "committed")
        case "revoke" if n % 4 == 0:
            world.revoke()
        case "close" if n % 4 == 0:
            world.close()


def run(world: World, told: list[Event]) -> None:
    world.start(0)
    for what, n in told:
        happen(world, what, n)


@settings(max_examples=150, deadline=None)
@given(events)
def test_the_promises_hold_in_any_order(told: list[Event]) -> None:
    world = World()
    run(world, told)
    _end(world)


def _end(world: World) -> None:
    """Revoked, finished as far as it can be, and closed: every byte is back, and nothing of it is delivered again."""
    world.commit_ended(True)
    world.revoke()
    while world.next() is not None:
        pass
    if world.taken is not None:
        world.send(world.taken.resume_at)
    for name in list(world.tickets):
        world.ack(name)
        world.ack(name)
    world.close()
    world.leave()
    for name in list(world.tickets):
        world.ack(name)
    assert world.held_bytes == 0
    assert world.partition.state is State.CLOSED
    assert (world.partition.drained, world.partition.committable()) == (True, None)


def test_a_partition_that_is_left_alone_is_read_to_its_end_and_committed() -> None:
    """After any disorder: resumed, renewed, unparked, each message is delivered, acknowledged and committed."""
    for_good = {"revoke", "close", "seek", "skip", "relocate", "out of range", "drop", "unpark behind"}
    end = 120

    def fetch(world: World, n: int) -> None:
        if (world.partition.position.offset or 0) < end - 7:
            happen(world, "fetch", n)

    for seed in range(50):
        world = _disordered(World(), seed, for_good, fetch)
        for _ in range(400):
            _tend(world)
            world.unpark()
            partition = world.partition
            at = partition.position.offset
            if partition.state is State.FETCHING and at is not None and at < end:
                world.fetched(at, end)
            if partition.committable() == end and partition.drained:
                break
        assert _all_done(world, end), (seed, world.partition, world.said[-20:])


def test_what_lies_in_front_of_a_damaged_entry_is_delivered_and_committed_without_a_release() -> None:
    """Also where it was given back, whatever for: the timer of the engine fetches it again."""
    for seed in range(60):
        world = _left_alone(Partition, seed, damaged=60)
        assert _all_done(world, 60), (seed, world.partition, world.said[-20:])


def _left_alone(make: Callable[[TopicPartition, Lease], Partition], seed: int, damaged: int) -> World:
    """After any disorder; the entry at `damaged` can never be read, and nobody unparks the partition."""
    by_others = {
        "revoke",
        "close",
        "seek",
        "skip",
        "relocate",
        "out of range",
        "drop",
        "fail",
        "park",
        "unpark",
        "unpark behind",
    }

    def fetch(world: World, n: int) -> None:
        position = world.partition.position.offset
        if world.partition.state is not State.FETCHING or position is None:
            return
        if position < damaged:
            world.fetched(position, min(damaged, position + 1 + n % 30))
        else:
            world.park("damaged")

    world = _disordered(World(make), seed, by_others, fetch)
    for _ in range(400):
        _tend(world)
        fetch(world, damaged)
        if world.partition.committable() == damaged and world.partition.drained:
            break
    return world


def _disordered(world: World, seed: int, without: set[str], fetch: Callable[[World, int], None]) -> World:
    """Eighty events in any order."""
    usual = [what for what in USUAL * 5 + RARE if what not in without]
    rng = random.Random(seed)
    world.start(0)
    for _ in range(80):
        what, n = rng.choice(usual), rng.randrange(1 << 16)
        if what == "fetch":
            fetch(world, n)
        else:
            happen(world, what, n)
    return world


def _tend(world: World) -> None:
    """Its leader is known, its lease renewed, and its user takes and acknowledges what there is."""
    world.lease_renewed()
    world.lead(True)
    world.throttle(None)
    world.commit_ended(True)
    if world.taken is not None:
        world.send(world.taken.resume_at)
    for name in list(world.tickets):
        world.ack(name)
        world.ack(name)
    while world.next() is not None:
        pass
    world.resume()
    world.tend()


def _all_done(world: World, end: int) -> bool:
    partition = world.partition
    return (partition.committable(), partition.drained, world.held_bytes) == (end, True, 0)


# Broken on purpose ------------------------------------------------------------------------------------------------


class CommitsTheHighest(Partition):
    def committable(self) -> int | None:
        done = super().committable()
        return done if done is None or self.progress is None else self.progress.given


class DeliversInAPause(Partition):
    def pause(self) -> None:
        self.paused = True


class CommitsMoreThanWasRead(Partition):
    def reset_to(self, offset: int) -> None:
        super().reset_to(offset)
        if self.progress is not None:
            self.progress.committable += 3


class KeepsTheBytesOfAFailedTicket(Partition):
    def ticket_failed(self, ticket: DeliveryTicket, reason: Exception, resume_at: int | None = None) -> None:
        super().ticket_failed(ticket, reason, resume_at)
        self.take_actions()


class LeavesOutWhatWasWithheld(Partition):
    def refetch_withheld(self) -> None:
        self.withheld = Withheld.NOTHING
        if self.position.offset is not None:
            self.next_delivery = self.position.offset
        self._enter()


class DeliversWithoutALease(Partition):
    def may_deliver(self, fetched: FetchedSet, now: float) -> bool:
        return super().may_deliver(fetched, float("-inf"))


class DeliversWhatIsOld(Partition):
    def may_deliver(self, fetched: FetchedSet, now: float) -> bool:
        return self.delivers

    def taken(self, fetched: FetchedSet, now: float, commit_first: bool = False) -> Taken | None:
        self.next_delivery = fetched.start
        return super().taken(fetched, now, commit_first)


class ChangesWhenAsked(Partition):
    def committable(self) -> int | None:
        fetched = self._iterated
        if fetched is not None and fetched.set_ticket is not None:
            fetched.set_ticket.progress.ticket_reached(fetched.set_ticket, fetched.reached)
        return super().committable()


class DeliversWhileRevoked(Partition):
    def revoke(self) -> None:
        pass

    def taken(self, fetched: FetchedSet, now: float, commit_first: bool = False) -> Taken | None:
        was, self.paused = self.paused, False
        try:
            return super().taken(fetched, now, commit_first)
        finally:
            self.paused = was


class ReadsOnBehindWhatASenderDropped(Partition):
    def _restart(self, offset: int) -> None:
        if self.progress is not None:
            self.reset_to(max(offset, self.progress.given))


class GoesOnPastWhatIsQueued(Partition):
    @property
    def _before_parked(self) -> bool:
        return False


class ThrowsAwayWhatItFetchedAtAGap(Partition):
    def relocate(self, to: int) -> None:
        self.reset_to(to)


class GoesBackOverWhatIsNotDone(Partition):
    def go_back(self) -> int | None:
        if (to := self.position.back_to) is None:
            return None
        self.reset_to(to)
        return 0


BROKEN = [
    CommitsTheHighest,
    DeliversInAPause,
    CommitsMoreThanWasRead,
    KeepsTheBytesOfAFailedTicket,
    LeavesOutWhatWasWithheld,
    DeliversWithoutALease,
    DeliversWhatIsOld,
    ChangesWhenAsked,
    DeliversWhileRevoked,
    ReadsOnBehindWhatASenderDropped,
    GoesOnPastWhatIsQueued,
    ThrowsAwayWhatItFetchedAtAGap,
    GoesBackOverWhatIsNotDone,
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_machine_is_caught(broken: type[Partition]) -> None:
    for seed in range(2000):
        rng = random.Random(seed)
        told = [(rng.choice(USUAL * 5 + RARE), rng.randrange(1 << 16)) for _ in range(80)]
        try:
            run(World(broken), told)
        except Violation:
            return
    pytest.fail("no promise was broken, and the machine is")


class ForgetsWhatWasGivenBack(Partition):
    def _is_due(self, at: int) -> bool:
        return False


def test_a_machine_that_forgets_what_it_gave_back_in_front_of_damage_is_caught() -> None:
    assert not all(_all_done(_left_alone(ForgetsWhatWasGivenBack, seed, damaged=60), 60) for seed in range(100))
