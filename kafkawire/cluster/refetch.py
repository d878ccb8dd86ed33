"""Fetches that are repeated for the partitions that a response left out (kafkawire.errors.NOT_ANSWERED)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.errors import NOT_ANSWERED
from kafkawire.model import TopicPartition
from kafkawire.protocol.request import FetchedPartition

# A broker that throttles does not read from the connection meanwhile, so the second request waits there.
WAITS = Backoff(0.05, 1.0)

Wanted = Sequence[tuple[TopicPartition, int, int]]


def fetch_answered(
    ask: Callable[[Wanted], list[FetchedPartition]],
    wanted: Wanted,
    *,
    timeout_s: float,
    sleep: Callable[[float], object] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> list[FetchedPartition]:
    """Fetch each (partition, position, max_bytes) by ask(), and repeat it for partitions that the response leaves out,
    for timeout_s at most.

    Partitions still missing by then come last, with error NOT_ANSWERED.
    """
    answered: list[FetchedPartition] = []
    for attempt in RetryPolicy(retries=None, backoff=WAITS, timeout_s=timeout_s).attempts(sleep, now):
        rows = ask(wanted)
        left = {row.tp: row for row in rows if row.error == NOT_ANSWERED}
        answered += [row for row in rows if row.tp not in left]
        if not left or attempt.last:
            return [*answered, *left.values()]
        wanted = [each for each in wanted if each[0] in left]
    raise AssertionError("the last try returns")
