"""Retry policies: when there is another try, and what is waited for before it."""

from __future__ import annotations

import random

import pytest

from kafkawire.cluster.retry import LEADERS_AGAIN, ONCE, Attempt, Backoff, RefreshPace, RetryPolicy


class Clock:
    def __init__(self, of_a_try: float = 0.0) -> None:
        self.at, self.of_a_try, self.waits = 100.0, of_a_try, list[float]()

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.at += seconds

    def tries(self, policy: RetryPolicy) -> list[Attempt]:
        """All of them, each as long as a try takes."""
        made = []
        for attempt in policy.attempts(self.sleep, lambda: self.at):
            made.append(attempt)
            self.at += self.of_a_try
        return made


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        (ONCE, []),
        (LEADERS_AGAIN, []),
        (RetryPolicy(retries=3, backoff=Backoff(1.0, 10.0, 1.0)), [1.0, 1.0, 1.0]),
        (RetryPolicy(retries=5, at_once=1, backoff=Backoff(0.1, 0.5)), [0.1, 0.2, 0.4, 0.5]),
        (RetryPolicy(retries=None, backoff=Backoff(0.5, factor=1.0), timeout_s=2.0), [0.5, 0.5, 0.5]),
        (RetryPolicy(retries=9, backoff=Backoff(0.5, factor=1.0), timeout_s=1.0), [0.5]),
        (RetryPolicy(retries=1, at_once=1, backoff=Backoff(0.0), election_s=0.3), [0.1, 0.1, 0.1]),
    ],
)
def test_waits_between_tries(policy: RetryPolicy, waits: list[float]) -> None:
    clock = Clock()
    tries = clock.tries(policy)
    assert clock.waits == pytest.approx(waits)
    assert [attempt.number for attempt in tries] == list(range(1, len(tries) + 1))
    assert len(tries) == len(waits) + 1 + policy.at_once


def test_the_last_try_knows_that_it_is_the_last() -> None:
    assert [attempt.last for attempt in Clock().tries(RetryPolicy(retries=2))] == [False, False, True]
    slow = Clock(of_a_try=3.0)
    assert slow.tries(RetryPolicy(retries=9, timeout_s=5.0, backoff=Backoff(1.0))) == [(1, False), (2, True)]


def test_an_election_bounds_time_and_not_tries() -> None:
    slow = Clock(of_a_try=4.0)
    assert len(slow.tries(RetryPolicy(retries=0, election_s=10.0))) == 3


def test_a_backoff_never_overflows() -> None:
    assert Backoff(0.1, 5.0).wait_s(100_000) == 5.0


def test_refreshes_in_a_row_are_spaced_out_and_a_quiet_time_begins_again() -> None:
    pace = RefreshPace(Backoff(0.1, 1.0), quiet_s=3.0, rng=random.Random(1))
    at, waits = 50.0, []
    for _ in range(7):
        waits.append(pace.wait_s(at))
        at += waits[-1]
        pace.made(at)
    assert waits[0] == 0.0
    for wait, least in zip(waits[1:], (0.1, 0.2, 0.4, 0.8, 1.0, 1.0), strict=True):
        assert least <= wait <= 1.3 * least
    assert pace.wait_s(at + 3.1) == 0.0


def test_a_refresh_that_found_what_was_waited_for_makes_the_next_wait_a_short_one() -> None:
    pace = RefreshPace(Backoff(0.1, 1.0), quiet_s=3.0, rng=random.Random(1))
    for _ in range(5):
        pace.wait_s(50.0)
        pace.made(50.0)
    pace.made(50.0, over=True)
    assert 0.1 <= pace.wait_s(50.0) <= 0.13
