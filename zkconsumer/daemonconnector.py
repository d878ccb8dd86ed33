"""DaemonConnector: a ConsumerConnector for a program that shows its operator internal state, such as the mirror.

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
from zkconsumer.fetching.committable import Parked
from zkconsumer.offsets.group import OffsetsStatus

T = TypeVar("T")


class DaemonConnector(ConsumerConnector):
    """Connector with status, cluster queries and operator controls for a daemon."""

    @property
    def rounds(self) -> int:
        """Return the number of rebalances of the group so far, including retries."""
        return 0 if self._engine is None else self._engine.assignment.rounds

    @property
    def silent_s(self) -> float:
        """Return the seconds since ZooKeeper last answered; 0 before the first answer and while it answers in time.

        A heartbeat is sent every twelfth of the session timeout; silence of up to a third of the timeout counts as 0.
        """
        return 0.0 if self._engine is None or self._closed else self._engine.silent_s

    @property
    def outage(self) -> str:
        """Return the unreachable brokers and missing leaders, since when, and how many partitions are affected; "" if
        none."""
        return "" if self._engine is None or self._closed else self._engine.outage

    @property
    def fetch_connections(self) -> dict[int, int]:
        """Return the number of open fetch connections to each broker by its id; 0 if the broker is unreachable."""
        return {} if self._engine is None or self._closed else self._engine.fetch_connections

    @property
    def deleted(self) -> Mapping[str, str]:
        """Return deleted topics that this member read, with a sentence each; a new topic of the same name removes the
        entry."""
        return {} if self._engine is None or self._closed else self._engine.deleted

    @property
    def offsets(self) -> OffsetsStatus | None:
        """Return the current offset mode and the counters of the stores; None before there are streams, and without a
        group."""
        return None if self._engine is None or self._closed else self._engine.assignment.offsets

    def parked(self) -> dict[TopicPartition, Parked]:
        """Return the owned partitions that are parked at a position, with that position and the reason as an error."""
        return {} if self._engine is None or self._closed else self._hub.call(self._engine.controls.parked)

    def drained(self, tp: TopicPartition) -> bool:
        """True if no delivered message of a partition may still be done: a parked partition then stays at its
        offset."""
        return self._engine is None or self._closed or self._hub.call(self._engine.controls.drained, tp)

    def parked_status(self) -> list[PartitionStatus]:
        """Return the rows of parked partitions only."""
        return [] if self._engine is None or self._closed else self._hub.call(self._engine.controls.parked_status)

    def set_paused(self, paused: Mapping[str | TopicPartition, bool]) -> None:
        """Pause exactly these topics and partitions, replacing all earlier calls; False marks a partition that is read
        while its topic is paused."""
        self._hub.call(self._acting().controls.set_paused, paused)

    def throttle(self, limits: Mapping[TopicPartition, int]) -> None:
        """Limit the bytes of each fetch of these partitions; 0 fetches nothing for now; other partitions have no limit.

        Unlike with pause(), sets that are fetched already are delivered, so that nothing is fetched twice.  Each call
        replaces the earlier limits.  A message larger than its limit is fetched whole.
        """
        self._hub.call(self._acting().controls.throttle, limits)

    def log_end(self, tp: TopicPartition) -> int:
        """Return the end of the log of a partition's leader, part of which consumers may not see yet.  Raises
        ConsumerError."""
        return self._hub.call(self._running().log_end, tp)

    def topics(self) -> Sequence[str]:
        """Return every topic of the cluster, read or not, sorted.  Raises ConsumerError."""
        return self._hub.call(self._running().assignment.topics)

    def partitions(self, topics: Collection[str]) -> Mapping[str, Mapping[PartitionId, Sequence[int]]]:
        """Return the replicas by partition of each of these topics that exists.  Raises ConsumerError."""
        return self._hub.call(self._running().assignment.partitions, topics)

    def settings(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Return each of these topics' own settings, as far as the cluster tells them.  Raises ConsumerError."""
        return self._hub.call(self._running().assignment.settings, topics)

    def owners(self, topics: Collection[str]) -> Mapping[TopicPartition, str]:
        """Return the owner of each partition of these topics: a thread id; with coordination kafka a member id.  Raises
        ConsumerError."""
        return self._hub.call(self._running().assignment.owners, topics)

    def ask(self, what: str, question: Callable[..., T], *args: object) -> T:
        """Return question(zk, znodes, *args), such as one of kafkawire.cluster.zookeeper's reads, using our own
        session.

        `what` names it in errors.  Raises ZooKeeperAway while there is no session, and ConsumerError if ZooKeeper
        refuses.
        """
        engine = self._running()
        return self._hub.call(lambda: engine.ask(what, question, *args))
