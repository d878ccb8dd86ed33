"""Retry policy as a value: how often a failed request is tried again, after which waits, for how long.

    Backoff        waits that grow
    RetryPolicy    tries of one request
    RefreshPace    refreshes that are requested again and again, as by a producer that waits for a leader

Knows no socket, and neither clock nor sleep: both are given.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MIN_ELECTION_WAIT_S = 0.1  # between tries beyond the retries, whatever their backoff
_DOUBLINGS = 60  # more would overflow, and every bound is reached long before


@dataclass(frozen=True, slots=True)
class Backoff:
    """first_s before the first retry, then `factor` times the wait before, at most max_s."""

    first_s: float = 0.1
    max_s: float = 10.0
    factor: float = 2.0

    def wait_s(self, retries: int) -> float:
        """The wait after so many retries."""
        return min(self.first_s * self.factor ** min(retries, _DOUBLINGS), self.max_s)


class Attempt(NamedTuple):
    """A try: its number, from 1 on; last: there is no other, however it ends."""

    number: int
    last: bool


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a request is tried again.

    retries      tries after the first; None: only the time bounds them
    backoff      the waits between tries
    at_once      retries without a wait before them: they ask a leader that was just looked up
    timeout_s    no try begins later than this after the first; None: no such bound
    election_s   for so long is tried, though the retries are used up, what an election heals (LogOffset.moved): a
                 broker that died goes on being named as leader for a while
    """

    retries: int | None = 0
    backoff: Backoff = Backoff()
    at_once: int = 0
    timeout_s: float | None = None
    election_s: float = 0.0

    def attempts(self, sleep: Callable[[float], object], now: Callable[[], float]) -> Iterator[Attempt]:
        """The tries, with the waits between them; leave the loop when one succeeds."""
        began, waited, number = now(), 0.0, 1
        while True:
            wait = self._wait_s(number)
            last = self._no_more(number, wait, now() - began)
            yield Attempt(number, last)
            if last or (self.used_up(number) and max(waited, now() - began) >= self.election_s):
                return
            if number > self.at_once:
                sleep(wait)
                waited += wait
            number += 1

    def used_up(self, number: int) -> bool:
        """Whether the try of this number has no retries left; only an election is waited for longer."""
        return self.retries is not None and number > self.retries

    def _wait_s(self, number: int) -> float:
        """The wait after the try of this number."""
        wait = self.backoff.wait_s(number - 1 - self.at_once) if number > self.at_once else 0.0
        return max(wait, MIN_ELECTION_WAIT_S) if self.used_up(number) else wait

    def _no_more(self, number: int, wait: float, elapsed: float) -> bool:
        if self.timeout_s is not None and elapsed + wait >= self.timeout_s:
            return True
        return self.used_up(number) and not self.election_s


ONCE = RetryPolicy()
LEADERS_AGAIN = RetryPolicy(retries=1, at_once=1)  # one more try, with leaders just looked up


@dataclass(slots=True)
class RefreshPace:
    """Spaces out refreshes that are requested in a row: the first is made at once, the next ones after waits that grow.

    quiet_s: after so long without a refresh the next one is again made at once.
    """

    backoff: Backoff
    quiet_s: float
    rng: random.Random = field(default_factory=random.Random)
    _in_a_row: int = 0
    _made_at: float = float("-inf")

    def wait_s(self, now: float) -> float:
        """The wait before a refresh that is requested now: no shorter than the backoff, as between two connects."""
        if now - self._made_at > self.quiet_s:
            self._in_a_row = 0
            return 0.0
        self._in_a_row += 1
        return self.backoff.wait_s(self._in_a_row - 1) * self.rng.uniform(1.0, 1.3)

    def made(self, now: float, over: bool = False) -> None:
        """Record that a refresh ended now.  over: it found what callers wait for, so the next wait is short."""
        self._made_at = now
        if over:
            self._in_a_row = 0
