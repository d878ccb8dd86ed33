"""Verdicts on responses to produce requests: a table, and the bounds of retries.  Pure.

STORED    done
AGAIN     not stored, or an unknown outcome: retry, for ever or up to message.send.max.retries
BOUNDED   the broker would most likely respond with the same again: retry a few times, then fail
WAIT      the broker does not know the topic or partition, which may be new: retry for a bounded time, then fail
SPLIT     too large together: retry each part alone, then halves, down to the message that is too large
CHECK     the broker found damage: check the sent bytes; if they are undamaged it happened in transit
"""

from __future__ import annotations

import random
from enum import Enum

from kafkawire.cluster.retry import Backoff
from kafkawire.errors import error_info
from kafkawire.protocol.request import ProducedPartition

BOUNDED_TRIES = 5
BACKOFF_MAX_S = 2.0
UNANSWERED = ProducedPartition(error=-1, base_offset=-1)  # for a partition that a response leaves out
NOTHING_STORED = "error 0 with base offset -1: the broker stored nothing (an empty or incomplete set)"


class Verdict(Enum):
    STORED = "stored"
    AGAIN = "again"
    BOUNDED = "bounded"
    WAIT = "wait"
    SPLIT = "split"
    CHECK = "check"


SPECIAL = {2: Verdict.CHECK, 3: Verdict.WAIT, 10: Verdict.SPLIT, 18: Verdict.SPLIT}


def judge(code: int, base_offset: int) -> Verdict:
    """The verdict on the response for one partition."""
    if code == 0:
        return Verdict.STORED if base_offset >= 0 else Verdict.BOUNDED
    if code in SPECIAL:
        return SPECIAL[code]
    return Verdict.AGAIN if error_info(code).retriable else Verdict.BOUNDED


def refreshes(code: int) -> bool:
    """Whether leaders must be refreshed: by the table of errors, and for 8 (the broker itself is not available)."""
    return code == 8 or error_info(code).refresh


def backoff_s(tries: int, first_s: float, rng: random.Random) -> float:
    """Backoff after this number of consecutive failed attempts: it doubles, with jitter."""
    return Backoff(first_s, max(first_s, BACKOFF_MAX_S)).wait_s(tries - 1) * rng.uniform(0.8, 1.2)
