"""What the next batch reads.  No cluster, no Spark."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.model import TopicPartition
from sparkpipeline.errors import OffsetOutOfRange, UnknownPartition
from sparkpipeline.load.loadplan import LogBounds
from sparkpipeline.load.nextbatch import cut, due, limited, tasks_of, up_to
from sparkpipeline.ranges import OffsetRange

A, B = TopicPartition("a", 0), TopicPartition("b", 3)


def test_a_partition_goes_on_where_it_stands_and_a_new_one_begins_where_it_is_told() -> None:
    found = due({A: 7}, {A: LogBounds(0, 10), B: LogBounds(4, 9)}, [])
    assert found.ranges == (OffsetRange("a", 0, 7, 10), OffsetRange("b", 3, 4, 9))
    assert (found.gaps, found.positions) == ((), {B: 4})
    assert due({}, {B: LogBounds(4, 9)}, [], starting="latest") == type(found)((), (), {B: 9})


def test_nothing_new_is_no_range() -> None:
    assert due({A: 10}, {A: LogBounds(0, 10)}, []).ranges == ()


def test_deleted_messages_are_an_error_or_a_gap_that_is_counted() -> None:
    with pytest.raises(OffsetOutOfRange, match=r"topic=a partition=0 requested=3 earliest=5 latest=9: 2 messages"):
        due({A: 3}, {A: LogBounds(5, 9)}, [])
    found = due({A: 3}, {A: LogBounds(5, 9)}, [], out_of_range="earliest")
    assert found.gaps == (OffsetRange("a", 0, 3, 5),)
    assert found.ranges == (OffsetRange("a", 0, 5, 9),)
    everything = due({A: 3}, {A: LogBounds(9, 9)}, [], out_of_range="earliest")
    assert (everything.ranges, everything.positions) == ((), {A: 9})


@pytest.mark.parametrize("policy", ["fail", "earliest"])
def test_a_log_that_ends_before_the_position_makes_no_plan_under_any_policy(policy: str) -> None:
    with pytest.raises(OffsetOutOfRange, match="init --replace"):
        due({A: 30}, {A: LogBounds(0, 10)}, [], out_of_range=policy)


def test_a_partition_that_vanished_is_an_error_or_left_alone() -> None:
    with pytest.raises(UnknownPartition, match=r"topic=a partition=0 position=3: was loaded before"):
        due({A: 3}, {B: LogBounds(0, 1)}, [A])
    assert due({A: 3}, {B: LogBounds(0, 1)}, [A], out_of_range="earliest").ranges == (OffsetRange("b", 3, 0, 1),)


def test_limits_shorten_what_is_far_behind_and_starve_nobody() -> None:
    ranges = [OffsetRange("a", 0, 100, 1100), OffsetRange("a", 1, 0, 2), OffsetRange("b", 0, 0, 998)]
    assert limited(ranges, None, None, {}) == ranges
    assert limited(ranges, 5000, 10**9, {}) == ranges
    assert [rng.count for rng in limited(ranges, 1000, None, {})] == [500, 1, 499]
    by_bytes = limited(ranges, None, 100_000, {"a": 100.0, "b": 100.0})
    assert [rng.count for rng in by_bytes] == [500, 1, 499]
    assert [rng.start for rng in by_bytes] == [100, 0, 0]


def test_a_run_ends_where_logs_ended_when_it_began_whatever_came_since() -> None:
    ranges = [OffsetRange("a", 0, 5, 90), OffsetRange("b", 3, 0, 7), OffsetRange("c", 0, 0, 4)]
    assert up_to(ranges, {A: 50, B: 7}) == [OffsetRange("a", 0, 5, 50), OffsetRange("b", 3, 0, 7)]
    assert up_to(ranges, {A: 5, B: 9}) == [OffsetRange("b", 3, 0, 7)]


def test_large_ranges_are_cut_in_equal_pieces_and_small_ones_stay() -> None:
    found = cut([OffsetRange("a", 0, 10, 110), OffsetRange("b", 0, 0, 5)], 3000, {"a": 100.0, "b": 1.0})
    assert [(rng.start, rng.until) for rng in found] == [(10, 35), (35, 60), (60, 85), (85, 110), (0, 5)]
    assert len(cut([OffsetRange("a", 0, 0, 3)], 1, {})) == 3  # never an empty piece


def test_small_ranges_share_tasks_and_every_core_has_one() -> None:
    small = [OffsetRange("t", n, 0, 10) for n in range(1000)]
    ranges, tasks = tasks_of(small, 64 << 20, {}, cores=2)
    assert sum(tasks) == len(ranges) == 1000
    assert len(tasks) == 2  # ten megabytes: as many tasks as cores, not one a range
    _, one = tasks_of(small[:3], 64 << 20, {}, cores=8)
    assert one == [3]
    _, many = tasks_of(small, 1 << 20, {}, cores=2)
    assert len(many) == 10


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5000)), min_size=1, max_size=60),
    st.integers(1, 100_000), st.integers(1, 1_000_000), st.integers(1, 16),
)  # fmt: skip
def test_every_offset_is_in_exactly_one_range_and_no_task_has_two_of_a_partition(
    counts: list[tuple[int, int]], split: int, pack: int, cores: int
) -> None:
    wanted = {partition: OffsetRange("t", partition, 5, 5 + count) for partition, count in counts}
    pieces = cut(list(wanted.values()), split * 20, {"t": 100.0})
    ranges, tasks = tasks_of(pieces, pack, {"t": 100.0}, cores)
    assert sorted(ranges) == sorted(pieces)
    assert sum(tasks) == len(ranges)
    assert min(tasks) > 0
    for partition, rng in wanted.items():
        mine = sorted(one for one in ranges if one.partition == partition)
        assert [one.start for one in mine] == [rng.start, *(one.until for one in mine[:-1])]
        assert mine[-1].until == rng.until
    at = 0
    for count in tasks:
        tps = [rng.tp for rng in ranges[at : at + count]]
        assert len(set(tps)) == count
        at += count
