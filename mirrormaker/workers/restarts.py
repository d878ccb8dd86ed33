"""Restarts: decides whether and when a worker that ended is started again.  Pure.

    exit 64, 65, 73, 77 or 78     needs an operator: the mirror ends with that code, as one daemon does
    before the first READY        an exit code ends the mirror, as one daemon's start is refused; a signal does not
    69 once the mirror runs       a cluster is unreachable, which does not end a mirror: retried every 30 s
    anything else                 started again after 1 s, 2 s, 4 s ... at most 30 s
    MAX_DEATHS in a row           each within STEADY_S of its start: the mirror ends with the last exit code

A worker that has run for STEADY_S begins with the shortest delay again.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass

from mirrormaker import exits

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 30.0
STEADY_S = 60.0
MAX_DEATHS = 5
NEEDS_A_PERSON = frozenset({exits.USAGE, exits.DATA, exits.STATE_FOLDER, exits.PERMISSION, exits.CONFIGURATION})


@dataclass(frozen=True, slots=True)
class Again:
    """Decision to start the worker again after a delay, with a sentence."""

    delay_s: float
    sentence: str


@dataclass(frozen=True, slots=True)
class End:
    """Decision to end the mirror with an exit code, with the reason as a sentence."""

    code: int
    sentence: str


class Restarts:
    """Deaths of the workers of one mirror."""

    def __init__(self) -> None:
        self._in_a_row: dict[int, int] = {}  # by worker

    def died(self, number: int, code: int, *, lived_s: float, started: bool) -> Again | End:
        """Decide after a worker's death.  code: -N for signal N, as in subprocess.  lived_s: since its start; started:
        READY was reported."""
        how = ending(code)
        if code in NEEDS_A_PERSON:
            return End(code, f"worker {number} ended with {how}, and a restart would end the same way: the mirror ends")
        if not started and code > 0:
            return End(code, f"worker {number} could not start ({how}): the mirror ends")
        if code == exits.UNREACHABLE:
            return Again(LONGEST_DELAY_S, f"worker {number} found a cluster out of reach; it is started again in 30 s")
        deaths = 1 if lived_s >= STEADY_S else self._in_a_row.get(number, 0) + 1
        self._in_a_row[number] = deaths
        if deaths >= MAX_DEATHS:
            return End(
                code if code > 0 else exits.INTERNAL,
                f"worker {number} died {deaths} times in a row within {STEADY_S:g} s of its start, the last time with "
                f"{how}: the mirror ends",
            )
        delay_s = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** (deaths - 1))
        return Again(delay_s, f"worker {number} ended with {how}; it is started again in {delay_s:g} s")


def ending(code: int) -> str:
    """Return a description of an exit code: exit code 70, SIGKILL."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def exit_code(codes: Iterable[int]) -> int:
    """Return the exit code of a mirror whose stopped workers ended with these: 0 if all are 0, else the first that is
    neither 0 nor 75, else 75.  A worker that a signal ended was not drained."""
    found = [exits.TEMPORARY if code < 0 else code for code in codes]
    worse = [code for code in found if code not in (exits.CLEAN, exits.TEMPORARY)]
    return worse[0] if worse else exits.TEMPORARY if exits.TEMPORARY in found else exits.CLEAN
