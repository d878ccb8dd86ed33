"""Shares of a budget: what waits never stops what moves, whatever the numbers are."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkawire.model import TopicPartition
from zkconsumer.fetching.fetchplan import DENIED_S, SHORT_S, FetchPlan
from zkconsumer.fetching.shares import LARGEST_SLOT, LEAST_SLOT, SAVE_S, STALL_S, Holding, Offer, Saving, Shares

K = 1024
FETCH = 1024 * K
LIMIT = 64 * FETCH


@dataclass
class Cursor:
    tp: TopicPartition
    holding: Holding
    position: int | None = 0
    fetchable: bool = True
    fetch_limit: int | None = None
    queued: list[int] = field(default_factory=list)  # bytes of what came

    @property
    def buffered_bytes(self) -> int:
        return self.holding.held

    @property
    def partition(self) -> Cursor:
        return self

    @property
    def fetch_offset(self) -> int | None:
        return self.position if self.fetchable else None


class Offers:
    """The offer of one budget, as a plan asks for it."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    def room(self, cursor: Cursor) -> int:
        return self._offer.room(cursor.holding)

    def grant(self, cursor: Cursor, size: int) -> None:
        self._offer.grant(cursor.holding, size)

    def grant_slot(self, cursor: Cursor, wanted: int, known: int) -> int:
        return self._offer.grant_slot(cursor.holding, wanted, known)

    def grant_whole(self, cursor: Cursor, size: int) -> bool:
        return self._offer.grant_whole(cursor.holding, size)

    def spent(self, least: int) -> bool:
        return self._offer.spent(least)


def granted(offer: Offer, holding: Holding) -> int:
    """What a plan would ask for of one partition."""
    room = offer.room(holding)
    return min(FETCH, room) if room >= 64 * K else offer.grant_slot(holding, FETCH)


class World:
    """Partitions with endless logs, fetched by a plan; time is a number."""

    def __init__(self, count: int, limit: int = LIMIT, fetch: int = FETCH, entry: int = 1) -> None:
        self.shares = Shares(limit)
        self.cursors = [Cursor(TopicPartition("t", n), self.shares.open()) for n in range(count)]
        self.plan = FetchPlan(fetch, 32 * fetch)
        self.plan.follow(self.cursors)
        self.now = 0.0
        self.entry = entry
        self.most = 0

    def fetch(self) -> list[tuple[int, int]]:
        """One fetch, answered in full; (partition, bytes) of what came."""
        free = max(0, self.shares.limit - self.shares.used)
        asked = self.plan.next(free, self.now, (), Offers(self.shares.offer(self.now)))
        for tp, _, size in asked:
            self.shares.ask(self.cursors[tp.partition].holding, size)
        self.most = max(self.most, self.shares.used)
        came = []
        for tp, _, size in asked:
            cursor, whole = self.cursors[tp.partition], size // self.entry * self.entry
            self.shares.answered(cursor.holding, size)
            if whole:
                self.plan.whole(tp)
                self.shares.take(cursor.holding, whole, self.now)
                cursor.queued.append(whole)
                came.append((tp.partition, whole))
            else:
                assert self.plan.too_small(tp, size, self.entry)
        return came

    def finish(self, partition: int) -> int:
        """What it holds is done; how much that was."""
        cursor = self.cursors[partition]
        done, cursor.queued = sum(cursor.queued), []
        if done:
            self.shares.give_back(cursor.holding, done, self.now)
        return done

    def consistent(self) -> None:
        shares, all_of = self.shares, [cursor.holding for cursor in self.cursors]
        assert shares.used == sum(each.bytes for each in all_of)
        assert shares.waiting == sum(each.bytes for each in all_of if each.waits)
        assert shares.kept == sum(max(0, shares.slot - each.bytes) for each in all_of)


@settings(deadline=None)
@given(
    st.integers(1, 400),
    st.sets(st.integers(0, 399), max_size=20),
    st.booleans(),
    st.integers(1, 2000),
    st.integers(16, 64),
)
def test_whatever_waits_those_that_move_are_asked_for_in_each_round_and_the_budget_is_kept(
    waiting, moving, at_start, entry, fetches
):
    count = waiting + len(moving)
    limit = fetches * FETCH
    world = World(count, limit, entry=entry)
    healthy = sorted({n % count for n in moving}) or [count - 1]
    if not at_start:  # all flow at first, and hold as much as there is
        for _ in range(3):
            for partition, _ in world.fetch():
                world.finish(partition)
            world.now += 0.1
    for _ in range(12):  # from here on the others wait
        world.fetch()
        for partition in healthy:
            world.finish(partition)
        world.now += STALL_S / 3
    for _ in range(4):
        got: set[int] = set()
        for _ in range(2 + len(healthy)):
            got |= {partition for partition, _ in world.fetch() if partition in healthy}
            for partition in healthy:
                world.finish(partition)
            world.now += SHORT_S
        assert got == set(healthy)
    assert world.most <= limit
    world.consistent()


@settings(deadline=None)
@given(st.integers(1, 2000))
@example(24)  # they hold exactly three quarters
def test_partitions_that_never_moved_hold_three_quarters_at_most_and_a_new_one_is_asked_for(waiting):
    world = World(waiting)
    for _ in range(8):
        world.fetch()
        world.now += STALL_S
    assert world.shares.waiting <= LIMIT * 3 // 4 + max(LARGEST_SLOT, LIMIT // 4)
    free = LIMIT - world.shares.used
    new = Cursor(TopicPartition("t", waiting), world.shares.open())
    world.cursors.append(new)
    world.plan.follow(world.cursors)
    world.fetch()
    world.now += DENIED_S  # where memory is short for the first time, it waits that long for more than its slot
    world.fetch()
    assert new.holding.held >= min(free, world.shares.slot) > 0
    world.finish(waiting)
    world.fetch()
    assert new.holding.held >= world.shares.slot


def test_one_topic_whose_partitions_all_flow_takes_all_of_the_budget():
    world = World(64)
    taken = 0
    for _ in range(20):
        world.fetch()
        taken = max(taken, world.shares.used)
        for partition in range(0, 64, 2):
            world.finish(partition)
        world.now += 0.01
        world.fetch()
        taken = max(taken, world.shares.used)
        for partition in range(1, 64, 2):
            world.finish(partition)
    assert taken >= LIMIT * 19 // 20


def test_a_huge_topic_does_not_keep_a_small_one_from_its_turn():
    world = World(301)
    rounds = 0
    for _ in range(50):
        came = dict(world.fetch())
        rounds += 300 in came
        for partition in came:
            world.finish(partition)
        world.now += 0.01
    assert rounds >= 50 * 64 * K * 301 // LIMIT // 2


def test_one_that_waited_takes_what_is_free_as_soon_as_it_moves():
    world = World(100)
    for _ in range(4):
        world.fetch()
        world.now += STALL_S
    assert all(cursor.holding.waits for cursor in world.cursors)
    held = world.shares.waiting
    world.finish(7)
    assert not world.cursors[7].holding.waits
    assert world.shares.waiting < held
    assert 7 in dict(world.fetch())


def test_an_entry_larger_than_a_slot_comes_through_for_one_that_moves():
    world = World(200, limit=16 * FETCH, fetch=FETCH, entry=100 * K)
    for _ in range(2):
        world.plan.hurry(world.cursors[199].tp)
        world.fetch()
    for _ in range(6):
        world.fetch()
        world.finish(199)
        world.now += STALL_S
    assert world.shares.slot < 100 * K
    for _ in range(3):
        for _ in range(3):
            world.fetch()
        assert world.finish(199) >= 100 * K
        world.now += 0.01


def test_entries_larger_than_what_was_asked_for_leave_room_for_those_that_move():
    shares = Shares(LIMIT)
    moving, late = shares.open(), [shares.open() for _ in range(200)]
    shares.take(moving, 10, 0.0)
    shares.give_back(moving, 10, 0.0)
    for n, holding in enumerate(late):
        size = granted(shares.offer(float(n)), holding)
        if size:
            shares.take(holding, 2 * FETCH, float(n))
            shares.larger(2 * FETCH - size)
    assert shares.used <= LIMIT
    assert granted(shares.offer(300.0), moving) >= 64 * K


def test_a_slot_becomes_smaller_with_more_partitions_and_larger_with_fewer():
    shares = Shares(LIMIT)
    holdings = [shares.open() for _ in range(256)]
    assert shares.slot == LARGEST_SLOT
    holdings += [shares.open() for _ in range(2000 - 256)]
    assert shares.slot == 8 * K
    assert shares.kept == 2000 * 8 * K <= LIMIT // 4
    holdings += [shares.open() for _ in range(100_000)]
    assert shares.slot == LEAST_SLOT
    for holding in holdings[10:]:
        shares.close(holding)
        shares.close(holding)
    assert (shares.slot, shares.kept) == (LARGEST_SLOT, 10 * LARGEST_SLOT)


def test_what_a_closed_one_still_holds_counts_until_it_is_given_back():
    shares = Shares(LIMIT)
    holding = shares.open()
    shares.ask(holding, 100)
    shares.take(holding, 50, 0.0)
    shares.close(holding)
    assert (shares.used, shares.waiting, shares.kept) == (150, 150, 0)
    shares.answered(holding, 100)
    shares.give_back(holding, 50, 1.0)
    assert (shares.used, shares.waiting, shares.kept) == (0, 0, 0)


def test_an_entry_larger_than_the_share_comes_though_partitions_of_other_brokers_are_always_asked_for():
    shares = Shares(4 * FETCH)
    large, size = shares.open(), 5 * FETCH  # within the memory of all streams, not within that of its own
    others = [shares.open() for _ in range(3)]
    asked: dict[Holding, int] = {}
    for turn in range(200):
        now = turn * 0.1  # each long poll of another broker is answered and sent again
        for holding in others:
            shares.answered(holding, asked.pop(holding, 0))
            nbytes = granted(shares.offer(now), holding)
            if nbytes:
                shares.ask(holding, nbytes)
                asked[holding] = nbytes
        offer = shares.offer(now)
        if offer.grant_whole(large, size):
            assert not asked  # it was alone
            shares.ask(large, size)
            shares.answered(large, size)
            assert all(granted(shares.offer(now), holding) for holding in others)  # which wait no longer
            return
    raise AssertionError("it is never asked for")


@pytest.mark.parametrize("how", ["of its known size", "as its next entry"])
def test_an_entry_comes_though_what_rests_is_asked_for_again_and_again(how: str):
    shares = Shares(4 * FETCH)
    mine, _, _ = shares.open(), shares.open(), shares.open()
    shares.take(mine, 1, 0.0)
    shares.give_back(mine, 1, 0.0)
    size = 2 * FETCH  # there is room for it, but for what two brokers are asked for from partitions that rest
    for turn in range(100):
        now = turn * 0.1
        shares.set_aside(-shares.aside)  # the answers are there, and each broker is asked again before it is our turn
        for _ in range(2):
            if shares.free_for(1, now) >= FETCH:
                shares.set_aside(FETCH)
        offer = shares.offer(now)
        if how == "of its known size":
            came = size if offer.grant_whole(mine, size) else 0
        else:
            came = offer.grant_slot(mine, size, size)
        assert came in (0, size)  # less of it brings nothing
        if came:
            return
    raise AssertionError("it is never asked for")


def test_what_rests_leaves_its_slot_to_one_that_does_not():
    shares = Shares(8 * K)
    mine = shares.open()
    for _ in range(7):
        shares.open()
    while (free := shares.free_for(4, 0.0)) >= K:  # of as many brokers as ask
        shares.set_aside(min(free, 4 * K))
    assert shares.offer(0.0).grant_slot(mine, FETCH) >= LEAST_SLOT


def test_an_entry_larger_than_the_budget_of_its_stream_is_waited_for_by_the_other_streams():
    of_all = Saving()
    own, other = Shares(4 * FETCH, of_all), Shares(4 * FETCH, of_all)
    large, elsewhere = own.open(), other.open()
    own.offer(0.0).save(large, 5 * FETCH)
    assert not other.offer(0.1).room(elsewhere)
    assert not other.free_for(1, 0.1)
    assert other.offer(SAVE_S).room(elsewhere)  # not for ever
    other.take(elsewhere, 10, SAVE_S)  # what may never be done is not waited for
    own.offer(SAVE_S).save(large, 5 * FETCH)
    assert other.free_for(1, SAVE_S + 0.1)
