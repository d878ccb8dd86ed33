"""Retry policy as a value: number of retries of a failed request, waits between them, and the total time.

    Backoff        waits that grow
    RetryPolicy    tries of one request
    RefreshPace    waits between repeated refreshes, as of a producer that waits for a leader

Uses no socket; clock and sleep are arguments.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MIN_ELECTION_WAIT_S = 0.1  # between tries beyond the retries, whatever the backoff
_DOUBLINGS = 60  # more would overflow, and max_s is reached long before


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff: first_s before the first retry, then `factor` times the previous wait, at most max_s."""

    first_s: float = 0.1
    max_s: float = 10.0
    factor: float = 2.0

    def wait_s(self, retries: int) -> float:
        """Return the wait after this number of retries."""
        return min(self.first_s * self.factor ** min(retries, _DOUBLINGS), self.max_s)


class Attempt(NamedTuple):
    """One try of a request: its number, starting at 1; last: no other try follows, however it ends."""

    number: int
    last: bool


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Rules for retrying a request.

    retries      tries after the first; None: only the time bounds them
    backoff      the waits between tries
    at_once      retries without a wait before them: they ask a leader that was just looked up
    timeout_s    no try begins later than this after the first; None: no such bound
    election_s   time for which errors that an election ends (LogOffset.moved) are retried even after the retries are
                 used up: a dead broker is named as leader for a while
    """

    retries: int | None = 0
    backoff: Backoff = Backoff()
    at_once: int = 0
    timeout_s: float | None = None
    election_s: float = 0.0

    def attempts(self, sleep: Callable[[float], object], now: Callable[[], float]) -> Iterator[Attempt]:
        """Yield the tries, sleeping between them; leave the loop when one succeeds."""
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
        """True if no retries are left after try `number`; only elections are then still retried."""
        return self.retries is not None and number > self.retries

    def _wait_s(self, number: int) -> float:
        """Return the wait after try `number`."""
        wait = self.backoff.wait_s(number - 1 - self.at_once) if number > self.at_once else 0.0
        return max(wait, MIN_ELECTION_WAIT_S) if self.used_up(number) else wait

    def _no_more(self, number: int, wait: float, elapsed: float) -> bool:
        if self.timeout_s is not None and elapsed + wait >= self.timeout_s:
            return True
        return self.used_up(number) and not self.election_s


ONCE = RetryPolicy()
LEADERS_AGAIN = RetryPolicy(retries=1, at_once=1)  # one more try, with freshly read leaders


@dataclass(slots=True)
class RefreshPace:
    """Waits between consecutive refreshes: the first is made at once, the next ones after growing waits.

    quiet_s: after this time without a refresh, the next one is again made at once.
    """

    backoff: Backoff
    quiet_s: float
    rng: random.Random = field(default_factory=random.Random)
    _in_a_row: int = 0
    _made_at: float = float("-inf")

    def wait_s(self, now: float) -> float:
        """Return the wait before a refresh requested now, at least the backoff between two connects."""
        if now - self._made_at > self.quiet_s:
            self._in_a_row = 0
            return 0.0
        self._in_a_row += 1
        return self.backoff.wait_s(self._in_a_row - 1) * self.rng.uniform(1.0, 1.3)

    def made(self, now: float, over: bool = False) -> None:
        """Record that a refresh ended now.  over: it found what callers wait for; the next wait is short again."""
        self._made_at = now
        if over:
            self._in_a_row = 0
