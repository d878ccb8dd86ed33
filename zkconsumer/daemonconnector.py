"""DaemonConnector: a ConsumerConnector for a program that shows an operator what goes on inside, as the mirror does.

connections    rounds, silent_s, outage, fetch_connections
partitions     parked, drained, parked_status, set_paused, throttle, log_end
the cluster    topics, partitions, settings, owners, deleted, ask
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from kafkawire.model import PartitionId, TopicPartition
from zkconsumer.connector import ConsumerConnector
from zkconsumer.engine.status import PartitionStatus
from zkconsumer.fetching.progress import Parked
from zkconsumer.offsets.group import OffsetsStatus

T = TypeVar("T")


class DaemonConnector(ConsumerConnector):
    """A connector with what a daemon shows, asks its source's cluster, and lets its operators do."""

    @property
    def rounds(self) -> int:
        """Rebalances of the group so far, tries included."""
        return 0 if self._engine is None else self._engine.assignment.rounds

    @property
    def silent_s(self) -> float:
        """Seconds since ZooKeeper last answered; 0 before the first answer and while all is well.

        A heartbeat is sent each twelfth of the session's time-out; up to a third of it counts as 0.
        """
        return 0.0 if self._engine is None or self._closed else self._engine.silent_s

    @property
    def outage(self) -> str:
        """The brokers and leaders that cannot be reached, since when, and how many partitions that affects; "":
        none."""
        return "" if self._engine is None or self._closed else self._engine.outage

    @property
    def fetch_connections(self) -> dict[int, int]:
        """Number of open connections for fetches to each broker that is fetched from, by its id; of 0 it is away."""
        return {} if self._engine is None or self._closed else self._engine.fetch_connections

    @property
    def deleted(self) -> Mapping[str, str]:
        """Topics that this member read and that are deleted, with a sentence each; until there are new ones of these
        names."""
        return {} if self._engine is None or self._closed else self._engine.deleted

    @property
    def offsets(self) -> OffsetsStatus | None:
        """The offset mode now, and the counters of the stores; None before there are streams, and without a group."""
        return None if self._engine is None or self._closed else self._engine.assignment.offsets

    def parked(self) -> dict[TopicPartition, Parked]:
        """Return the owned partitions that are parked at a position, with that position and the reason as an error."""
        return {} if self._engine is None or self._closed else self._hub.call(self._engine.controls.parked)

    def drained(self, tp: TopicPartition) -> bool:
        """True if nothing of a partition is delivered that may still be done: where it is parked it stays parked."""
        return self._engine is None or self._closed or self._hub.call(self._engine.controls.drained, tp)

    def parked_status(self) -> list[PartitionStatus]:
        """The rows of parked partitions alone."""
        return [] if self._engine is None or self._closed else self._hub.call(self._engine.controls.parked_status)

    def set_paused(self, paused: Mapping[str | TopicPartition, bool]) -> None:
        """Pause exactly these topics and partitions, in place of all earlier calls; False: a partition that is read
        while its topic is paused."""
        self._hub.call(self._acting().controls.set_paused, paused)

    def throttle(self, limits: Mapping[TopicPartition, int]) -> None:
        """Limit the bytes of a fetch for each of these partitions, 0: fetch nothing for now; others have no limit.

        What is fetched already is delivered, other than by pause(), so that nothing is fetched twice.  Each call
        replaces the limits of the last one.  A message larger than its limit is fetched whole.
        """
        self._hub.call(self._acting().controls.throttle, limits)

    def log_end(self, tp: TopicPartition) -> int:
        """Return the end of the log of a partition's leader, which consumers may not see as a whole yet.  Raises
        ConsumerError."""
        return self._hub.call(self._running().log_end, tp)

    def topics(self) -> Sequence[str]:
        """Every topic of the cluster, read or not, sorted.  Raises ConsumerError."""
        return self._hub.call(self._running().assignment.topics)

    def partitions(self, topics: Collection[str]) -> Mapping[str, Mapping[PartitionId, Sequence[int]]]:
        """Replicas by partition of each of these topics that exists.  Raises ConsumerError."""
        return self._hub.call(self._running().assignment.partitions, topics)

    def settings(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Return each of these topics' own settings, as far as the cluster tells them.  Raises ConsumerError."""
        return self._hub.call(self._running().assignment.settings, topics)

    def owners(self, topics: Collection[str]) -> Mapping[TopicPartition, str]:
        """Return the owner of each partition of these topics: a thread id; with coordination kafka a member id.  Raises
        ConsumerError."""
        return self._hub.call(self._running().assignment.owners, topics)

    def ask(self, what: str, question: Callable[..., T], *args: object) -> T:
        """question(zk, znodes, *args), such as one of kafkawire.cluster.zookeeper's reads, on our own session.

        what names it in errors: ZooKeeperAway while there is no session, ConsumerError when ZooKeeper refuses.
        """
        engine = self._running()
        return self._hub.call(lambda: engine.ask(what, question, *args))
