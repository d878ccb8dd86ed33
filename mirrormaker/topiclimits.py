"""Limits of what a mirror creates at its target: partitions of a topic and in all, new topics a minute.  Pure.

How many topics and partitions a source has is said by its ZooKeeper, which strangers may write: a node of 1 MB names
60,000 partitions.  What would exceed a limit is not created and not grown; it is named, and tried again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from dataclasses import dataclass, replace
from typing import NamedTuple

MINUTE_S = 60.0


class TopicLimits(NamedTuple):
    """of_topic: partitions of a topic.  in_all: partitions that the target may have, whoever created them.  a_minute:
    topics that one process creates within a minute."""

    of_topic: int = 1_000
    in_all: int = 10_000
    a_minute: int = 600


@dataclass(frozen=True, slots=True)
class _Made:
    """A topic that was made or grown.  partitions: that it has since then.  created_at: when it was made, if here.
    earlier: what holds if that fails."""

    at: float
    partitions: int
    created_at: float = -math.inf
    earlier: _Made | None = None

    def is_new(self, at: float) -> bool:
        """True if it was made within the last minute."""
        return at - self.created_at < MINUTE_S


NOTHING = _Made(0.0, 0)


class Creations:
    """What was created and grown within the last minute, and what may be now."""

    def __init__(self, limits: TopicLimits) -> None:
        self._limits = limits
        self._made: dict[str, _Made] = {}

    def refusals(
        self, wanted: Mapping[str, int], there: Mapping[str, Sized], at: float, instead: str = "create it yourself"
    ) -> dict[str, str]:
        """Return why topics must not be made or grown now, a clause for each that must not; the others count as made.

        wanted: partitions by topic.  there: the topics of the target with their partitions, as its metadata has them,
        which may not know yet what was made.  instead: what an operator may do without raising the limit.
        """
        self._forget(at)
        refused: dict[str, str] = {}
        total = sum(map(len, there.values()))
        total += sum(max(0, one.partitions - len(there.get(topic, ()))) for topic, one in self._made.items())
        new = sum(one.is_new(at) for one in self._made.values())
        for topic, partitions in wanted.items():
            before, earlier = len(there.get(topic, ())), self._made.get(topic, NOTHING)
            others = new - earlier.is_new(at)
            in_all = total - max(before, earlier.partitions) + partitions
            if why := self._why(partitions, in_all, others if not before else 0):
                refused[topic] = why.format(instead=instead)
                continue
            made = _Made(at, partitions, earlier.created_at if before else at, replace(earlier, earlier=None))
            total, new = in_all, others + made.is_new(at)
            self._made[topic] = made
        return refused

    def give_back(self, topic: str) -> None:
        """A topic that may be made, or grown, was not: what was made of it before stays counted."""
        made = self._made.pop(topic, NOTHING)
        if made.earlier not in (None, NOTHING):
            self._made[topic] = made.earlier

    def _why(self, partitions: int, total: int, new: int) -> str:
        of_topic, in_all, a_minute = self._limits
        if partitions > of_topic:
            return (
                f"it would have {partitions:,} partitions, and target.topic.max.partitions is {of_topic:,}; raise "
                "that, or {instead}"
            )
        if total > in_all:
            return (
                f"the target would have more than {in_all:,} partitions (target.max.partitions); raise that, or "
                "{instead}"
            )
        if new >= a_minute:
            return (
                f"{a_minute:,} topics were created within a minute (target.max.new.topics.per.minute): it follows "
                "within the next ones"
            )
        return ""

    def _forget(self, at: float) -> None:
        for topic in [topic for topic, one in self._made.items() if at - one.at >= MINUTE_S]:
            del self._made[topic]
