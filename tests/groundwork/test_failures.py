"""What is raised again and again is few lines of the log: the first in full, then counts, then that it works again."""

from __future__ import annotations

import logging

import pytest

from groundwork.failures import Failures

log = logging.getLogger("failures of a test")
log.setLevel(logging.INFO)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def failures(clock: Clock) -> Failures:
    return Failures(log, "the handler", every_s=30, clock=clock)


def key_error(key: str) -> Exception:
    try:
        raise KeyError(key)
    except KeyError as exc:
        return exc


def value_error() -> Exception:
    try:
        raise ValueError("another line")
    except ValueError as exc:
        return exc


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


def test_the_first_of_a_kind_is_told_in_full_and_the_others_are_counted(
    failures: Failures, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(1000):
        failures.raised(key_error("price"), f"orders/0 at {n}", n, "; again in 0.1 s")
    [first] = caplog.records
    assert first.exc_info is not None
    assert lines(caplog) == [
        "orders/0 at 0: the handler raised KeyError: 'price'; again in 0.1 s (the next of this kind are counted)"
    ]
    failures.raised(value_error(), "orders/1 at 7", "another")
    assert lines(caplog) == [
        "orders/1 at 7: the handler raised ValueError: another line (the next of this kind are counted)"
    ]
    clock.now += 30
    failures.tell()
    failures.tell()
    assert lines(caplog) == [
        "the handler raised KeyError 999 times more, at last orders/0 at 999: 'price'; 1000 wait for their next try"
    ]


def test_that_it_works_again_is_told_once_nothing_waits_for_its_next_try(
    failures: Failures, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for n in (1, 2, 1):
        failures.raised(key_error("price"), f"orders/0 at {n}", n)
    failures.worked(1)
    clock.now += 30
    failures.tell()
    assert lines(caplog)[1:] == [
        "the handler raised KeyError 2 times more, at last orders/0 at 1: 'price'; 1 wait for their next try"
    ]
    failures.worked(2)
    failures.tell()
    assert lines(caplog) == []  # not sooner than the next line may come
    clock.now += 30
    failures.tell()
    failures.tell()
    assert lines(caplog) == ["the handler works again where it raised KeyError (3 times in all)"]
    failures.raised(key_error("price"), "orders/0 at 9", 9)
    clock.now += 30
    failures.tell()
    assert lines(caplog) == [
        "the handler raised KeyError once more, at last orders/0 at 9: 'price'; 1 wait for their next try"
    ]


def test_what_is_dropped_or_never_tried_again_does_not_work_again(
    failures: Failures, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    failures.raised(key_error("price"), "orders/0 at 1", 1)
    failures.dropped(1)
    failures.raised(value_error(), "a callback")
    failures.raised(value_error(), "a callback")
    caplog.clear()
    failures.tell(final=True)
    clock.now += 60
    failures.tell(final=True)
    assert lines(caplog) == ["the handler raised ValueError once more, at last a callback: another line"]
