"""Topics of a group, by the brokers' metadata: what a member subscribes to, and how many partitions each topic has.

Metadata is read for all topics together: a request that names a topic may create it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from kafkawire.cluster.view import ClusterView
from kafkawire.znodes.group import STATIC, Registration, thread_ids
from zkconsumer.fetching.currentleaders import CurrentLeaders
from zkconsumer.filters import LeftOut, streams_by_topic
from zkconsumer.group.assignor import java_order

log = logging.getLogger(__name__)


class GroupTopics:
    """Topics as last read.  registration: what this member subscribes to."""

    def __init__(
        self, leaders: CurrentLeaders, registration: Registration, consumer_id: str, exclude_internal: bool
    ) -> None:
        self.registration = registration
        self.counts: Mapping[str, int] = {}  # partitions by topic
        self._leaders = leaders
        self._leave_out = LeftOut(log.warning)  # the others assign by the names that we subscribe to
        self._consumer_id = consumer_id
        self._exclude_internal = exclude_internal

    def read(self) -> ClusterView:
        """Read the topics again.  Raises Unreachable while no broker responds."""
        view = self._leaders.read(None)
        self.counts = {topic: len(partitions) for topic, partitions in view.topics.items()}
        return view

    def subscribed(self) -> list[str]:
        """Return the topics that this member subscribes to: existing ones that its filter selects, or those that it
        names."""
        return java_order(self._of(self.counts))

    def subscribes(self, topic: str) -> bool:
        """True if this member reads a topic, if it exists."""
        return topic in self._of([topic])

    def _of(self, topics: Iterable[str]) -> Iterable[str]:
        """Return those of these topics that this member reads; exclude.internal.topics only applies to filters."""
        return streams_by_topic(self.registration, topics, self._exclude_internal, self._leave_out)

    @property
    def absent(self) -> list[str]:
        """Return topics that are subscribed to by name and did not exist when last read."""
        if self.registration.pattern != STATIC:
            return []
        return sorted(self.registration.subscription.keys() - self.counts.keys())

    def counted(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each of these topics that exists."""
        return {topic: self.counts[topic] for topic in topics if topic in self.counts}

    def threads(self) -> dict[str | None, Sequence[str]]:
        """Return the thread ids of this member by topic; with a filter those of None, which read every topic."""
        static = self.registration.pattern == STATIC
        return {
            topic if static else None: tuple(thread_ids(self._consumer_id, count))
            for topic, count in self.registration.subscription.items()
        }
