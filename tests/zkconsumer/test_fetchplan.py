"""Who is asked for how much: turns, budget, shrinking, growing and saving."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.model import TopicPartition
from zkconsumer.fetching.fetchplan import REST_S, SAVE_S, FetchPlan

K = 1024
FETCH = 1024 * K


@dataclass
class Cursor:
    tp: TopicPartition
    position: int | None = 0
    buffered_bytes: int = 0
    fetchable: bool = True
    fetch_limit: int | None = None

    @property
    def partition(self) -> Cursor:
        return self

    @property
    def fetch_offset(self) -> int | None:
        return self.position if self.fetchable else None


def cursors(count: int) -> list[Cursor]:
    return [Cursor(TopicPartition("t", p), p * 100) for p in range(count)]


def plan_of(some: list[Cursor], **options: int) -> FetchPlan:
    plan = FetchPlan(FETCH, 32 * FETCH, **options)
    plan.follow(some)
    return plan


def asked_partitions(plan: FetchPlan, free: int, now: float = 0.0) -> list[int]:
    return [tp.partition for tp, _, _ in plan.next(free, now)]


def test_with_room_everybody_is_asked_for_a_whole_fetch_at_its_position():
    plan = plan_of(cursors(3))
    assert plan.next(64 * FETCH, 0.0) == [(TopicPartition("t", p), p * 100, FETCH) for p in range(3)]


def test_when_it_does_not_fit_everybody_gets_an_even_share():
    plan = plan_of(cursors(4))
    assert [size for _, _, size in plan.next(2 * FETCH, 0.0)] == [FETCH // 2] * 4


def test_when_even_the_least_does_not_fit_for_all_they_take_turns():
    plan = plan_of(cursors(5), min_bytes=64 * K)
    assert [size for _, _, size in plan.next(128 * K, 0.0)] == [64 * K] * 2
    assert asked_partitions(plan, 128 * K) == [2, 3]
    assert asked_partitions(plan, 128 * K) == [4, 0]


def test_less_than_the_least_is_not_worth_a_request():
    assert plan_of(cursors(2), min_bytes=64 * K).next(64 * K - 1, 0.0) == []


@pytest.mark.parametrize(
    "out",
    [{"fetchable": False}, {"position": None}, {"buffered_bytes": 2 * FETCH}],
    ids=["paused or parked", "position unknown", "holds its cap"],
)
def test_left_out(out: dict):
    some = cursors(2)
    for name, value in out.items():
        setattr(some[0], name, value)
    assert asked_partitions(plan_of(some), 64 * FETCH) == [1]


def test_one_that_backs_off_comes_back_when_it_is_due():
    plan = plan_of(cursors(2))
    plan.back_off(TopicPartition("t", 0), 5.0)
    assert asked_partitions(plan, 64 * FETCH, 4.9) == [1]
    assert plan.wake_at(4.9) == 5.0
    assert sorted(asked_partitions(plan, 64 * FETCH, 5.0)) == [0, 1]
    assert plan.wake_at(5.0) is None


def test_whose_turn_it_is_outlives_a_change_of_partitions():
    some = cursors(4)
    plan = plan_of(some, min_bytes=64 * K)
    assert asked_partitions(plan, 128 * K) == [0, 1]
    plan.follow([some[0], some[3], some[1]])
    assert asked_partitions(plan, 64 * K) == [3]


def test_a_large_message_is_asked_for_by_its_size_until_it_came():
    plan = plan_of(cursors(1))
    tp = TopicPartition("t", 0)
    assert plan.too_small(tp, FETCH, 5 * FETCH)
    assert plan.next(64 * FETCH, 0.0) == [(tp, 0, 5 * FETCH)]
    plan.whole(tp)
    assert plan.next(64 * FETCH, 0.0) == [(tp, 0, FETCH)]


def test_a_message_of_unknown_size_is_asked_for_by_twice_as_much_up_to_the_cap():
    plan = plan_of(cursors(1))
    tp = TopicPartition("t", 0)
    sizes, asked = [], FETCH
    while plan.too_small(tp, asked, 0):
        asked = plan.next(64 * FETCH, 0.0)[0][2]
        sizes.append(asked // FETCH)
    assert sizes == [2, 4, 8, 16, 32]


def test_a_size_that_does_not_come_though_it_was_asked_for_ends_at_the_cap():
    plan = plan_of(cursors(1))
    asked = FETCH
    while plan.too_small(TopicPartition("t", 0), asked, FETCH):
        assert plan.next(64 * FETCH, 0.0)[0][2] > asked
        asked = plan.next(64 * FETCH, 0.0)[0][2]
    assert asked == 32 * FETCH


def test_a_message_above_the_cap_is_said_at_once():
    plan = plan_of(cursors(1))
    assert not plan.too_small(TopicPartition("t", 0), FETCH, 32 * FETCH + 1)
    assert plan.too_small(TopicPartition("t", 0), FETCH, 32 * FETCH)


def test_a_shrunk_fetch_that_was_too_small_is_not_shrunk_again():
    plan = plan_of(cursors(8), min_bytes=64 * K)
    tp = TopicPartition("t", 0)
    assert plan.next(512 * K, 0.0)[0] == (tp, 0, 64 * K)
    assert plan.too_small(tp, 64 * K, 200 * K)
    while asked := plan.next(512 * K, 0.0):
        if asked[0][0] == tp or any(a[0] == tp for a in asked):
            break
    assert (tp, 0, 200 * K) in asked


def test_neighbours_wait_for_a_large_message_but_not_for_ever():
    plan = plan_of(cursors(3))
    plan.too_small(TopicPartition("t", 0), FETCH, 8 * FETCH)
    assert asked_partitions(plan, 4 * FETCH, 100.0) == []
    assert asked_partitions(plan, 4 * FETCH, 100.0 + SAVE_S / 2) == []
    assert asked_partitions(plan, 4 * FETCH, 100.0 + SAVE_S) == [1, 2]
    assert asked_partitions(plan, 4 * FETCH, 100.0 + SAVE_S + REST_S / 2) == [1, 2]
    assert asked_partitions(plan, 4 * FETCH, 100.0 + SAVE_S + REST_S) == []
    assert asked_partitions(plan, 9 * FETCH, 100.0 + SAVE_S + REST_S)[0] == 0


def test_one_that_waits_for_room_does_not_hold_back_the_rest_a_second_time_in_one_fetch():
    plan = plan_of(cursors(3))
    for p in (0, 1):
        plan.too_small(TopicPartition("t", p), FETCH, 8 * FETCH)
    assert asked_partitions(plan, 4 * FETCH, 0.0) == []
    assert asked_partitions(plan, 4 * FETCH, SAVE_S) == []  # now for the second one
    assert asked_partitions(plan, 4 * FETCH, 2 * SAVE_S) == [2]


states = st.tuples(st.booleans(), st.integers(0, 3 * FETCH), st.integers(0, 40) | st.none())


@given(
    st.lists(states, min_size=1, max_size=40),
    st.lists(st.integers(0, 80 * FETCH), min_size=1, max_size=10),
    st.integers(1, 256 * K),
)
def test_what_is_asked_for_always_fits_and_nobody_is_asked_twice(kinds, frees, least):
    some = [Cursor(TopicPartition("t", p), 0, held, fetchable) for p, (fetchable, held, _) in enumerate(kinds)]
    plan = plan_of(some, min_bytes=least)
    for cursor, (_, _, grown) in zip(some, kinds, strict=True):
        if grown is not None:
            plan.too_small(cursor.tp, FETCH, grown * FETCH)
    for now, free in enumerate(frees):
        asked = plan.next(free, float(now))
        assert sum(size for _, _, size in asked) <= free
        assert len({tp for tp, _, _ in asked}) == len(asked)
        assert all(size >= min(least, FETCH) for _, _, size in asked)
        assert all(some[tp.partition].fetchable for tp, _, _ in asked)


@given(st.integers(1, 50), st.integers(64 * K, 3 * FETCH))
def test_turns_are_fair(count, free):
    plan = plan_of(cursors(count))
    seen: Counter[int] = Counter()
    for _ in range(100):
        seen.update(asked_partitions(plan, free))
    assert max(seen.values()) - min(seen[p] for p in range(count)) <= 1


def test_a_throttled_partition_is_asked_for_little_but_for_a_message_that_is_larger():
    some = cursors(2)
    some[0].fetch_limit = 100 * K
    plan = plan_of(some)
    assert [size for _, _, size in plan.next(64 * FETCH, 0.0)] == [100 * K, FETCH]
    some[0].fetch_limit = 1  # less than a fetch may be
    assert [size for _, _, size in plan.next(64 * FETCH, 0.0)] == [plan.min_bytes, FETCH]
    assert plan.too_small(some[0].tp, plan.min_bytes, 300 * K)
    assert [size for _, _, size in plan.next(64 * FETCH, 0.0)] == [300 * K, FETCH]


def test_one_that_got_nothing_though_it_has_messages_is_first_next_time():
    plan = plan_of(cursors(4), min_bytes=64 * K)
    assert asked_partitions(plan, 128 * K) == [0, 1]
    plan.hurry(TopicPartition("t", 1))
    plan.hurry(TopicPartition("other", 1))
    assert asked_partitions(plan, 128 * K) == [1, 2]
    assert asked_partitions(plan, 128 * K) == [3, 0]
