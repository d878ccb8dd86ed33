"""Leaders of partitions: metadata that is refreshed on request and every topic.metadata.refresh.interval.ms.

A refresh by name may create the topic (auto.create.topics.enable), as users of a producer expect.  A mirror reads all
topics, which never creates one.

zookeeper.connect       metadata from ZooKeeper, with watches
metadata.broker.list    metadata from the brokers of the list.  0.7 brokers have none: there the list itself is the
                        metadata, and each broker picks partitions itself
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from groundwork.tasks import Event, now, sleep
from kafkawire.cluster.metadata import MetadataSource, Unreachable, ViewSource
from kafkawire.cluster.retry import Backoff, RefreshPace
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.dialects import Dialect
from kafkawire.errors import WireError
from kafkawire.model import ANY, Broker, BrokerPartition, PartitionId, TopicPartition
from kafkawire.net.links import Links
from producer.config import ProducerConfig
from producer.outages import CLUSTER, Outages

MAX_BACKOFF_S = 1.0  # between two refreshes while a part waits for a leader: an election takes a few of them
NEW_PARTITION_S = 30.0  # how long a new partition may lack a leader: its state is written after its topic
QUIET_S = 3.0  # after this time without a refresh, the next one is made at once


class Metadata(ViewSource, Protocol):
    """Source of a sender's metadata, with the dialect of its brokers."""

    @property
    def dialect(self) -> Dialect: ...


class Leaders:
    """The newest view of the target, and the greenlet that refreshes it.

    after_refresh(old view) is called after each refresh, also a failed one.  idle: refresh also while no topic is
    needed, to learn about brokers.
    """

    def __init__(
        self,
        metadata: ViewSource,
        *,
        by_name: bool,
        refresh_ms: int,
        backoff_ms: int,
        after_refresh: Callable[[ClusterView], object],
        outages: Outages,
        idle: bool = False,
    ) -> None:
        self.view = ClusterView()
        self.failure: WireError | None = None  # of the newest refresh; None: it succeeded
        self.refreshes = 0
        self._metadata = metadata
        self._names: set[str] | None = set() if by_name else None
        self._refresh_s = refresh_ms / 1000 if refresh_ms >= 0 else None
        self._pace = RefreshPace(Backoff(backoff_ms / 1000, MAX_BACKOFF_S), QUIET_S)
        self._after_refresh = after_refresh
        self._outages = outages
        self._requested = Event()
        self._refreshed = Event()
        self._new: dict[TopicPartition, float] = {}  # new partitions without a leader, and how long to wait for one
        self._closed = False
        self._idle = idle

    @property
    def nobody_answers(self) -> bool:
        """Whether the newest refresh tried all brokers in vain: the next one tries them again, nobody else has to."""
        return isinstance(self.failure, Unreachable)

    def refresh(self) -> None:
        """Request a refresh; several requests cause one refresh."""
        self._requested.set()

    def need(self, topic: str) -> None:
        """Request a topic's metadata, unless it is in the view."""
        if self._names is not None:
            self._names.add(topic)
        if topic not in self.view.topics:
            self.refresh()

    def wait_refresh(self, timeout_s: float) -> bool:
        """Wait for the next refresh; False after timeout_s."""
        self._refreshed.clear()
        return bool(self._refreshed.wait(timeout_s))

    def close(self) -> None:
        self._closed = True
        self._requested.set()

    def run(self) -> None:
        """The greenlet that refreshes until close()."""
        while not self._closed:
            self._requested.wait(self._refresh_s)
            if self._closed:
                return
            sleep(self._pace.wait_s(now()))
            self._requested.clear()
            if self._closed:
                return
            self._read()
            self._pace.made(now())

    def _read(self) -> None:
        names = None if self._names is None else sorted(self._names)
        old = self.view
        if names == [] and not self._idle:
            return
        try:
            found = self._metadata.read(names)
        except WireError as failure:
            self._outages.begin(CLUSTER, "the cluster", str(failure), "asked again until one answers", now())
            self.failure = failure
            self.refresh()
        else:
            self._outages.over(CLUSTER, "answers again", now(), f": brokers {sorted(found.brokers)}")
            self.failure = None
            self.view = found if names is None else old.merged(found)
            self._wait_for_new(old)
        self.refreshes += 1
        self._after_refresh(old)
        self._refreshed.set()

    def _wait_for_new(self, old: ClusterView) -> None:
        """Refresh again while a new partition has no leader: no failed message would request it."""
        at = now()
        unled = {TopicPartition(t, p) for t, seen in self.view.topics.items() for p in seen if seen[p].leader is None}
        new = {tp: at + NEW_PARTITION_S for tp in unled if tp.partition not in old.topics.get(tp.topic, {})}
        self._new = new | {tp: until for tp, until in self._new.items() if tp in unled and until > at}
        if self._new:
            self.refresh()


class ListedSource:
    """Metadata from a fixed list of brokers.  Each topic has one partition per broker, which the broker picks
    itself."""

    def __init__(self, brokers: Mapping[int, Broker], dialect: Dialect) -> None:
        self.dialect = dialect
        self._brokers = dict(brokers)

    def read(self, topics: Sequence[str] | None, create: bool = True) -> ClusterView:
        partitions: dict[PartitionId, PartitionView] = {
            BrokerPartition(broker, ANY): PartitionView(broker, (broker,), (broker,)) for broker in self._brokers
        }
        return ClusterView(self._brokers, dict.fromkeys(topics or (), partitions))


def source_of(config: ProducerConfig, dialect: Dialect, links: Links) -> Metadata:
    """The metadata source for the options, not connected yet.  Raises LocalError for unusable ZooKeeper options."""
    if config.zookeeper_connect:
        from producer.zookeeper import ZookeeperSource  # late: a list of brokers needs no kazoo

        return ZookeeperSource(
            config.zookeeper_connect,
            session_ms=config.zookeeper_session_ms,
            connect_ms=config.zookeeper_connection_ms,
            access=config.security,
            dialect=dialect,
            links=links,
        )
    if dialect.describes_itself:
        return MetadataSource(config.brokers, dialect, links)
    return ListedSource({broker.id: broker for broker in config.listed}, dialect)
