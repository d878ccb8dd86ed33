"""Limits on what a mirror creates in its target: partitions of a topic and in total, new topics per minute.  Pure.

The source's ZooKeeper says how many topics and partitions it has, and strangers may write there: a node of 1 MB names
60,000 partitions.  A topic that would exceed a limit is not created or grown; it is reported and retried.  All sources
share the limit of partitions: the report names who used it up.  The mirror's own topics are never refused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sized
from dataclasses import dataclass, replace
from typing import NamedTuple

MINUTE_S = 60.0
USERS = 3  # sources in a sentence


class TopicLimits(NamedTuple):
    """Limits.  of_topic: partitions of a topic.  in_all: partitions that the target may have in all.
    a_minute: topics that one process creates within a minute."""

    of_topic: int = 1_000
    in_all: int = 10_000
    a_minute: int = 600


@dataclass(frozen=True, slots=True)
class _Made:
    """A topic that was created or grown.  partitions: its new count.  created_at: when this mirror created it. earlier:
    the previous entry, restored if that fails.  added: number of partitions added."""

    at: float
    partitions: int
    created_at: float = -math.inf
    earlier: _Made | None = None
    added: int = 0  # added partitions

    def is_new(self, at: float) -> bool:
        """True if it was created within the last minute."""
        return at - self.created_at < MINUTE_S


NOTHING = _Made(0.0, 0)


class Creations:
    """Record of topics created and grown within the last minute; decides what may be created now."""

    def __init__(self, limits: TopicLimits) -> None:
        self._limits = limits
        self._made: dict[str, _Made] = {}
        self._sources: dict[str, str] = {}  # by topic
        self._ours: set[str] = set()
        self._added: Counter[str] = Counter()  # partitions by source, since the start

    def asked(self, topic: str, source: str, ours: bool) -> None:
        """Record the source that a topic is created for, or that the mirror itself needs it."""
        self._sources[topic] = source
        if ours:
            self._ours.add(topic)

    @property
    def made(self) -> Collection[str]:
        """Return topics that were created or grown within the last minute."""
        return self._made.keys()

    def refusals(
        self, wanted: Mapping[str, int], there: Mapping[str, Sized], at: float, instead: str = "create it yourself"
    ) -> dict[str, str]:
        """Return a clause for each topic that must not be created or grown now; the others count as created.

        wanted: partitions by topic.  there: the topics of the target with their partitions from its metadata, which may
        not include recently created ones yet.  instead: what an operator may do without raising the limit.
        """
        self._forget(at)
        refused: dict[str, str] = {}
        total = sum(map(len, there.values()))
        total += sum(max(0, one.partitions - len(there.get(topic, ()))) for topic, one in self._made.items())
        new = sum(one.is_new(at) for one in self._made.values())
        for topic, partitions in wanted.items():
            before, earlier = len(there.get(topic, ())), self._made.get(topic, NOTHING)
            others = new - earlier.is_new(at)
            had = max(before, earlier.partitions)
            in_all, source = total - had + partitions, self._sources.get(topic, "")
            if topic not in self._ours and (why := self._why(partitions, in_all, others if not before else 0)):
                refused[topic] = why.format(instead=instead)
                continue
            added = max(0, partitions - had)
            made = _Made(at, partitions, earlier.created_at if before else at, replace(earlier, earlier=None), added)
            if source:
                self._added[source] += added
            total, new = in_all, others + made.is_new(at)
            self._made[topic] = made
        return refused

    def give_back(self, topic: str) -> None:
        """Undo the count of a topic that was not created or grown after all; earlier creations stay counted."""
        made = self._made.pop(topic, NOTHING)
        self._added[self._sources.get(topic, "")] -= made.added
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
                f"the target would have more than {in_all:,} partitions (target.max.partitions{self._users()}); raise "
                "that, or {instead}"
            )
        if new >= a_minute:
            return (
                f"{a_minute:,} topics were created within a minute (target.max.new.topics.per.minute): it follows "
                "within the next ones"
            )
        return ""

    def _users(self) -> str:
        """Return a clause naming the sources that added most since the start, or "" if none added any."""
        most = [f"{count:,} since the start for source {source}" for source, count in self._added.most_common(USERS)]
        return f"; {', '.join(most)}" if most and self._added.total() else ""

    def _forget(self, at: float) -> None:
        for topic in [topic for topic, one in self._made.items() if at - one.at >= MINUTE_S]:
            del self._made[topic]
