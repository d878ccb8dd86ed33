"""Leaders of partitions: metadata that is refreshed on request and every topic.metadata.refresh.interval.ms.

A refresh by name may create the topic (auto.create.topics.enable), as users of a producer expect.  So requests only
name topics that messages or a caller wait for: otherwise a deleted topic that is no longer used would be created again.
Other known topics are refreshed without creating any.  A mirror reads all topics, which never creates one.

There are waits between consecutive refreshes, since an election takes a few of them.  A topic that a caller uses for
the first time does not wait: it is looked up at once, together with all others that wait for their first lookup.

zookeeper.connect       metadata from ZooKeeper, with watches
metadata.broker.list    metadata from the brokers of the list.  0.7 brokers have none: there the list itself is the
                        metadata, and each broker picks partitions itself
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from groundwork.tasks import Event, now
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

    after_refresh(old view) is called after each refresh, also a failed one.  waiting() returns the topics that messages
    wait for.  idle: refresh also while no topic is needed, to learn about brokers.
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
        waiting: Callable[[], Iterable[str]] = tuple,
        idle: bool = False,
    ) -> None:
        self.view = ClusterView()
        self.failure: WireError | None = None  # of the newest refresh; None: it succeeded
        self.refreshes = 0
        self.named: frozenset[str] = frozenset()  # topics named in the newest refresh
        self._metadata = metadata
        self._by_name = by_name
        self._waiting = waiting
        self._needed: set[str] = set()  # topics that a caller needs, since the last successful refresh
        self._first: set[str] = set()  # those of them not requested yet, which are requested without waiting
        self._everything = False  # also refresh topics that nothing waits for
        self._refresh_s = refresh_ms / 1000 if refresh_ms >= 0 else None
        self._pace = RefreshPace(Backoff(backoff_ms / 1000, MAX_BACKOFF_S), QUIET_S)
        self._after_refresh = after_refresh
        self._outages = outages
        self._requested = False
        self._awake = Event()  # there is something to do
        self._refreshed = Event()
        self._new: dict[TopicPartition, float] = {}  # new partitions without a leader, and how long to wait for one
        self._closed = False
        self._idle = idle

    @property
    def nobody_answers(self) -> bool:
        """True if the newest refresh tried all brokers in vain: only the next one tries them again."""
        return isinstance(self.failure, Unreachable)

    def refresh(self) -> None:
        """Request a refresh; several requests cause one refresh."""
        self._requested = True
        self._awake.set()

    def changed(self) -> None:
        """Request a refresh of all known topics, because something has changed."""
        self._everything = True
        self.refresh()

    def need(self, topic: str) -> None:
        """Request a topic's metadata, unless it is in the view."""
        self._needed.add(topic)
        if topic not in self.view.topics:
            self.refresh()

    def look_up(self, topic: str) -> None:
        """Request a topic's metadata at once, unless it is in the view.  If it is not found, need() requests it
        again."""
        if topic not in self.view.topics:
            self._needed.add(topic)
            self._first.add(topic)
            self._awake.set()

    def wait_refresh(self, timeout_s: float) -> bool:
        """Wait for the next refresh; False after timeout_s."""
        self._refreshed.clear()
        return bool(self._refreshed.wait(timeout_s))

    def close(self) -> None:
        self._closed = True
        self._awake.set()

    def run(self) -> None:
        """Refresh until close(); run in a greenlet of its own."""
        due: float | None = None  # when a requested refresh may be made; None: none was requested
        while True:
            woken = self._awake.wait(self._refresh_s if due is None else max(0.0, due - now()))
            self._awake.clear()
            if self._closed:
                return
            if due is None and not (woken or self._requested):
                self._everything = self._requested = True
            if due is not None and now() >= due:
                due, self._requested = None, False
                found = self._read_waiting()
                self._pace.made(now(), over=found)  # its end: one that took long was made just now
            elif self._first and self.failure is None:
                self._read(self._first, set())
            if self._requested and due is None:
                due = now() + self._pace.wait_s(now())

    def _read_waiting(self) -> bool:
        """Look up all that callers wait for; True if a topic was found that was not known."""
        old, (named, known), everything = self.view, self._asked(), self._everything
        self._everything = False
        if self._by_name and not (named or known or self._idle):
            return False
        self._read(named, known)
        self._everything |= everything and self.failure is not None
        return not self.view.topics.keys() <= old.topics.keys()

    def _read(self, named: set[str], known: set[str]) -> None:
        """Look up topics: the named ones by a request that may create them."""
        old, named, began = self.view, set(named), now()
        self._first -= named
        try:
            found = self._found(old, named, known)
        except WireError as failure:
            self._outages.begin(CLUSTER, "the cluster", str(failure), "retrying until one answers", began)
            self.failure = failure
            self.refresh()
        else:
            self._outages.over(CLUSTER, "answers again", now(), f": brokers {sorted(found.brokers)}")
            self.failure = None
            self._needed -= named
            self.view = found
            self._wait_for_new(old)
        self.named = frozenset(named)
        self.refreshes += 1
        self._after_refresh(old)
        self._refreshed.set()

    def _asked(self) -> tuple[set[str], set[str]]:
        """Return the topics to look up by a request that may create them, and those to look up by one that creates
        none."""
        named = {*self._needed, *self._waiting()}
        known = set(self.view.topics) if self._everything else {tp.topic for tp in self._new}
        return named, known - named

    def _found(self, old: ClusterView, named: set[str], known: set[str]) -> ClusterView:
        """Return the new view, with the errors of this refresh.  Raises WireError."""
        if not self._by_name:
            return old.merged(self._metadata.read(None), whole=True)
        found = ClusterView(old.brokers, old.topics)
        if known:
            found = found.merged(self._metadata.read(sorted(known), create=False))
        if named or not known:
            found = found.merged(self._metadata.read(sorted(named)))
        return found

    def _wait_for_new(self, old: ClusterView) -> None:
        """Request a refresh while a new partition has no leader, since no failed message does."""
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
    """Return the metadata source for the options, not connected yet.  Raises LocalError for unusable ZooKeeper
    options."""
    if config.zookeeper_connect:
        from producer.zookeeper import ZookeeperSource  # imported here: a list of brokers needs no kazoo

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
