"""Where messages without a key go: four ways to choose among the partitions that have a leader.

batch         one random partition a round (queue.buffering.max.ms, or a full batch): requests are large, and all
              partitions get their share within seconds; never the last one again, which may wait for its answer
sticky        one random partition until topic.metadata.refresh.interval.ms is over or it has no leader any more,
              as 0.8's producer (DefaultEventHandler.getPartition; KAFKA-1017 is why)
random        each message, as 0.7's
round-robin   each message the next one, as the Java producer's of 0.8.1 and later
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from time import monotonic

from kafkawire.model import PartitionId

WAYS = ("batch", "sticky", "random", "round-robin")


class Unkeyed:
    """way: one of WAYS; refresh_s: how long a choice of `sticky` lasts, negative: until its leader is gone."""

    def __init__(
        self, way: str, refresh_s: float, rng: random.Random | None = None, now: Callable[[], float] = monotonic
    ) -> None:
        self.whole_rounds = way in ("batch", "sticky")  # a choice stands until the round is over
        self._way = way
        self._refresh_s = refresh_s
        self._rng = rng or random.Random()
        self._now = now
        self._chosen: dict[str, tuple[PartitionId, float]] = {}  # sticky: and until when
        self._next: dict[str, int] = {}  # where the last one went

    def choose(self, topic: str, led: Sequence[PartitionId]) -> PartitionId:
        """One of led, which is not empty."""
        if self._way == "sticky":
            return self._sticky(topic, led)
        if self._way == "round-robin":
            number = self._next.get(topic)
            number = self._rng.randrange(len(led)) if number is None else number + 1
            self._next[topic] = number
            return led[number % len(led)]
        if self._way == "batch" and len(led) > 1:
            return self._another(topic, led)
        return self._rng.choice(led)

    def _another(self, topic: str, led: Sequence[PartitionId]) -> PartitionId:
        last = self._next.get(topic, -1)
        number = self._rng.randrange(len(led) - (0 <= last < len(led)))
        number += 0 <= last <= number
        self._next[topic] = number
        return led[number]

    def _sticky(self, topic: str, led: Sequence[PartitionId]) -> PartitionId:
        chosen, until = self._chosen.get(topic, (None, 0.0))
        if chosen is None or chosen not in led or (self._refresh_s >= 0 and self._now() >= until):
            chosen = self._rng.choice(led)
            self._chosen[topic] = chosen, self._now() + self._refresh_s
        return chosen
