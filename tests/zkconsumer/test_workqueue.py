"""Which message a free worker takes next (zkconsumer.concurrent.workqueue)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkconsumer.concurrent.workqueue import WorkQueue


def filled(plan: WorkQueue, **counts: int) -> WorkQueue:
    for partition, count in counts.items():
        for n in range(count):
            plan.add(partition, n)
    return plan


def items(plan: WorkQueue, count: int) -> list[tuple[str, int]]:
    return [(job.partition, job.item) for job in (plan.take(0.0) for _ in range(count)) if job is not None]


def test_partitions_take_turns_and_each_keeps_its_order():
    plan = filled(WorkQueue(100), a=5, b=2)
    assert items(plan, 9) == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("a", 3), ("a", 4)]


def test_a_partition_is_full_at_its_cap_and_again_open_when_half_is_done():
    plan: WorkQueue = WorkQueue(4)
    assert [plan.add("a", n) for n in range(5)] == [False, False, False, True, False]
    jobs = [plan.take(0.0) for _ in range(5)]
    assert [plan.done(job) for job in jobs] == [False, False, True, False, False]  # two of five are left
    assert plan.unfinished() == 0


def test_what_was_given_out_after_a_stuck_one_counts_though_it_is_done():
    plan: WorkQueue = WorkQueue(4)
    plan.add("a", "stuck")
    stuck = plan.take(0.0)
    for n in range(2):
        assert not plan.add("a", n)
        assert not plan.done(plan.take(0.0))
    assert plan.add("a", 2)  # a restart would repeat four
    assert not plan.done(plan.take(0.0))
    assert plan.unfinished("a") == 1
    assert plan.done(stuck)


def test_one_that_is_stuck_holds_its_partition_at_the_cap_while_others_flow():
    plan: WorkQueue = WorkQueue(2)
    plan.add("a", "stuck")
    stuck = plan.take(0.0)
    assert plan.add("a", 1)
    for n in range(50):
        plan.add("b", n)
        job = plan.take(0.0)
        assert job is not None
        plan.done(job)
    assert plan.unfinished("a") <= 2
    assert stuck is not None
    plan.done(stuck)


def test_messages_of_one_key_are_worked_on_one_after_another():
    plan: WorkQueue = WorkQueue(10, by_key=True)
    for item, key in enumerate([b"x", b"x", b"y", None, None, b"y"]):
        plan.add("a", item, key)
    first, second, third, fourth = (plan.take(0.0) for _ in range(4))
    assert [job.item for job in (first, second, third, fourth)] == [0, 2, 3, 4]
    assert plan.take(0.0) is None
    plan.done(first)
    assert plan.take(0.0).item == 1


def test_a_retry_waits_its_time_and_keeps_its_place_for_its_key():
    plan: WorkQueue = WorkQueue(10, by_key=True)
    for item, key in enumerate([b"x", b"x", b"y"]):
        plan.add("a", item, key)
    job = plan.take(0.0)
    plan.retry(job, 5.0)
    assert plan.take(1.0).item == 2  # of another key
    assert plan.take(1.0) is None  # not the later one of the same key
    assert plan.wake_at(1.0) == 5.0
    again = plan.take(5.0)
    assert (again.item, again.tries) == (0, 2)


def test_without_keys_a_retry_holds_nobody_up():
    plan = filled(WorkQueue(10), a=2)
    plan.retry(plan.take(0.0), 5.0)
    assert plan.take(0.0).item == 1


def test_what_nobody_began_of_a_partition_that_leaves_is_given_back_and_the_rest_may_end():
    plan = filled(WorkQueue(10), a=3, b=1)
    working = plan.take(0.0)
    assert [job.item for job in plan.drop(["a", "nobody's"])] == [1, 2]
    assert plan.unfinished("a") == 1
    assert items(plan, 2) == [("b", 0)]
    plan.done(working)
    assert plan.unfinished("a") == 0


def test_a_cap_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        WorkQueue(0)


@given(seed=st.integers(0, 10**6), cap=st.integers(1, 6), by_key=st.booleans())
def test_every_message_is_finished_once_whatever_the_order(seed, cap, by_key):
    rng = random.Random(seed)
    plan: WorkQueue = WorkQueue(cap, by_key)
    coming = {p: list(range(12)) for p in "abc"}
    full: set[str] = set()
    working, finished, now = [], [], 0.0
    while any(coming.values()) or plan.unfinished():
        now += 1.0
        for partition, left in coming.items():
            if left and partition not in full:
                n = left.pop(0)
                if plan.add(partition, n, rng.choice([None, b"k", b"l"])):
                    full.add(partition)
        job = plan.take(now)
        if job is not None:
            if by_key and job.key is not None:
                assert all((job.partition, job.key) != (other.partition, other.key) for other in working)
            working.append(job)
        assert all(plan.unfinished(p) <= cap for p in "abc")
        if working and rng.random() < 0.7:
            job = working.pop(rng.randrange(len(working)))
            if rng.random() < 0.2:
                plan.retry(job, now + rng.randint(0, 3))
            else:
                finished.append((job.partition, job.item))
                if plan.done(job):
                    full.discard(job.partition)
    assert sorted(finished) == [(p, n) for p in "abc" for n in range(12)]
