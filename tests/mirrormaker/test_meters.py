"""Rates and lags in seconds."""

from __future__ import annotations

import pytest

from mirrormaker.meters import MAX_ENDS, EndHistory, RateWindow


def test_a_rate_is_that_of_the_last_ten_seconds() -> None:
    rate = RateWindow(0.0)
    for second in range(1, 21):
        rate.add(second, messages=100 * second, bytes=1000 * second)
    assert rate.per_s == (100.0, 1000.0)
    for second in range(21, 26):
        rate.add(second, messages=2000, bytes=20_000)
    assert rate.per_s == (50.0, 500.0)
    for second in range(26, 40):
        rate.add(second, messages=2000, bytes=20_000)
    assert rate.per_s == (0.0, 0.0)


def test_no_rate_is_known_before_time_has_passed() -> None:
    assert RateWindow(5.0, 7, 7).per_s == (0.0, 0.0)


def history(*ends: tuple[float, int]) -> EndHistory:
    made = EndHistory()
    for at, end in ends:
        made.add(at, end)
    return made


def test_a_lag_in_seconds_is_the_age_of_the_end_that_is_reached() -> None:
    ends = history((0, 100), (10, 200), (20, 300))
    assert ends.age_s(300, 30) == (0.0, False)
    assert ends.age_s(200, 30) == (20.0, False)
    assert ends.age_s(150, 30) == (25.0, False)  # halfway between two ends


def test_an_end_that_stood_for_a_while_counts_from_its_last_moment() -> None:
    ends = history((0, 100), (50, 100), (51, 200))
    assert ends.age_s(100, 60) == (10.0, False)


def test_what_was_behind_from_the_beginning_has_a_least_lag() -> None:
    assert history((0, 1000), (40, 1100)).age_s(3, 60) == (60.0, True)


def test_nothing_is_known_of_a_log_that_was_never_seen() -> None:
    assert EndHistory().age_s(3, 60) is None


def test_the_log_of_a_topic_that_was_created_again_is_another() -> None:
    assert history((0, 1000), (10, 5)).age_s(0, 30) == (20.0, True)


def test_a_partition_that_stands_still_for_hours_keeps_its_age_in_bounded_memory() -> None:
    ends = EndHistory()
    for second in range(4 * 3600):
        ends.add(second, 100 + second)
        ends.passed(100)
    assert len(ends._ends) <= MAX_ENDS
    found = ends.age_s(100, 4 * 3600)
    assert found is not None
    assert found[0] == pytest.approx(4 * 3600, rel=0.01)
    assert not found[1]


def test_one_that_keeps_pace_remembers_almost_nothing() -> None:
    ends = EndHistory()
    for second in range(1000):
        ends.add(second, 10 * second)
        ends.passed(10 * second - 25)
    assert len(ends._ends) <= 4
    assert ends.age_s(9965, 999) == (2.5, False)
