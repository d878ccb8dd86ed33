"""Target cluster of a mirror: its topics, and the senders of parts to their partitions.

Each source has a sender with its own connections: a fence cuts what is in flight for its source alone, and a source
with much to send does not delay the others.  A source partition goes through one sender, which keeps its order.

brokers with metadata requests   the brokers are asked (metadata.broker.list); topics and sender have separate links
brokers without them (0.7)       their ZooKeeper is read (target.zookeeper.connect) and watched
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from groundwork.tasks import Lock, TaskGroup, connect, now, sleep
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.topicadmin import TopicAdmin
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import Dialect
from kafkawire.model import Broker
from kafkawire.net.links import Links
from mirrormaker.options import TargetOptions
from mirrormaker.topics import CONTROLLER_AGAIN, BrokerTopics, TargetTopics, Topics
from mirrormaker.zookeeper import CONNECT_S, zookeeper_session
from producer.config import BY_OFFSETS
from producer.coordinators import Coordinators
from producer.outages import Reports
from producer.outcomes import Counters
from producer.sender import Sender
from producer.sequences import Sequences
from producer.targetleaders import Metadata
from producer.zookeeper import ZookeeperSource

log = logging.getLogger(__name__)


class Transactions(Protocol):
    """Transactions of one source's partitions (mirrormaker.exactlyonce)."""

    def fence(self) -> None: ...
    def flush(self) -> None: ...


class SharedMetadata:
    """Metadata shared by many senders, with one reader at a time: a thousand readers would open as many connections."""

    def __init__(self, source: MetadataSource) -> None:
        self._source = source
        self._lock = Lock()
        self._view: ClusterView | None = None

    @property
    def dialect(self) -> Dialect:
        return self._source.dialect

    def read(self, topics: Sequence[str] | None, create: bool = True) -> ClusterView:
        """Read metadata as a MetadataSource does."""
        with self._lock:
            self._view = self._source.read(topics, create)
        return self._view

    def brokers(self) -> list[Broker]:
        """Return the brokers as last seen.  Raises Unreachable if none has ever answered."""
        return list((self._view or self.read(None)).brokers.values())


class Target:
    """Target of a running mirror.

    zookeeper: opens a short session with the target's ZooKeeper, if the brokers answer metadata and it is given.
    created(topic): see producer.outcomes.Outcomes.
    """

    def __init__(self, options: TargetOptions, tasks: TaskGroup, created: Callable[[str], bool]) -> None:
        self.options = options
        self.versions = ClusterVersions(options.version, "target")
        self.dialect = self.versions.dialect.through(options.security_protocol)
        self.zookeeper: Callable[[], AbstractContextManager[Any]] | None = None
        self.topics: Topics
        self._senders: dict[str, Sender] = {}  # by source
        self.transactions: dict[str, Transactions] = {}  # by source, for sources copied exactly once
        self._transactional: dict[Sender, None] = {}
        self._shared: SharedMetadata | None = None  # shared by their senders
        self._retired = Counters()  # counts of closed senders
        self.writers: dict[str, str] = {}  # only writer of a target topic: SOURCE/TOPIC
        self._sessions: list[ZookeeperSource] = []
        self._links: list[Links] = []
        self._tasks = tasks
        self._created = created
        self._reports = Reports()
        if self.dialect.describes_itself:
            if options.zookeeper:
                name = "target.zookeeper.connect"
                self.zookeeper = partial(zookeeper_session, name, options.zookeeper, CONNECT_S, options.security)
            links = self._links_until_close()
            metadata = self.metadata(links)
            admin = TopicAdmin(metadata, links, self.dialect, retry=CONTROLLER_AGAIN, sleep=sleep, now=now)
            self.topics = TargetTopics(
                metadata,
                self.dialect.znodes,
                self.zookeeper,
                options.replication,
                admin=admin,
                settings=options.topic_settings,
                limits=options.topic_limits,
            )
        else:
            self.topics = BrokerTopics(self._session(), self._links_until_close(), options.topic_limits)

    # senders ---------------------------------------------------------------------------------------------------------

    def sender_of(self, source: str) -> Sender:
        """Return the sender of a source; the first call creates it."""
        if source not in self._senders:
            made = self._by_own_metadata() if self.dialect.describes_itself else self._by_zookeeper()
            self._senders[source] = made
        return self._senders[source]

    @property
    def senders(self) -> Mapping[str, Sender]:
        """Return the senders created so far, by source."""
        return self._senders

    def fence(self, source: str) -> None:
        """Drop the queued parts of a source whose lease is over, and cut off what is in flight for it."""
        sender = self.sender_of(source)
        sender.drop(lambda part, ticket: not ticket.may_send())
        sender.close_links()
        if source in self.transactions:
            self.transactions[source].fence()

    def flush(self) -> None:
        """Send batches at once, without lingering."""
        for sender in self._senders.values():
            sender.flush(0.0)
        for transactions in self.transactions.values():
            transactions.flush()

    def transactional_sender(self, sequences: Sequences, transactional_id: str) -> Sender:
        """Return a separate sender for one transactional id; retire() ends it."""
        made = self._by_metadata(self._shared_metadata(), sequences, transactional_id)
        self._transactional[made] = None
        return made

    def coordinators(self) -> Coordinators:
        """Return the coordinators of transactional ids and groups in the target."""
        return Coordinators(self._shared_metadata().brokers, self._links_until_close(), self.dialect)

    def _shared_metadata(self) -> SharedMetadata:
        if self._shared is None:
            self._shared = SharedMetadata(self.metadata(self._links_until_close()))
        return self._shared

    def retire(self, sender: Sender) -> None:
        """End the sender of a transactional id; its counts are kept."""
        self._transactional.pop(sender, None)
        self._retired.messages += sender.counters.messages
        self._retired.bytes += sender.counters.bytes
        sender.close(0.0)

    def close_senders(self) -> int:
        """End all senders at once; return the number of unsent parts, whose tickets are not called."""
        left: list[int] = []
        closing = [
            self._tasks.spawn(f"close-{source}", lambda sender: left.append(sender.close(0.0)), sender)
            for source, sender in (*self._senders.items(), *(("transactions", each) for each in self._transactional))
        ]
        for task in closing:
            task.join()
        return sum(left)

    @property
    def messages(self) -> int:
        """Return the number of messages that the target acknowledged since the start."""
        return self._retired.messages + sum(sender.counters.messages for sender in self._all())

    @property
    def bytes(self) -> int:
        """Return the number of bytes that the target acknowledged since the start."""
        return self._retired.bytes + sum(sender.counters.bytes for sender in self._all())

    @property
    def bytes_pending(self) -> int:
        """Return the bytes of parts that are not acknowledged, including those in flight."""
        return sum(sender.bytes_pending for sender in self._all())

    def _all(self) -> Iterator[Sender]:
        yield from self._senders.values()
        yield from self._transactional

    @property
    def outage(self) -> str:
        """Return the brokers that parts of any source wait for, with reason and time, or ""."""
        return self._reports.summary(now())

    # connections -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the sessions with the target's ZooKeeper, and the connections for metadata."""
        for session in self._sessions:
            session.close()
        for links in self._links:
            links.close()

    def links(self) -> Links:
        """Return new connections to the brokers."""
        asking = self.versions.connect(self.options.kafka_security.connect(connect))
        return Links(self.options.client_id or "mirrormaker", asking, self.options.request_timeout_ms)

    def _links_until_close(self) -> Links:
        self._links.append(self.links())
        return self._links[-1]

    def metadata(self, links: Links) -> MetadataSource:
        """Return metadata of brokers that answer metadata requests, over these connections."""
        return MetadataSource(self.options.brokers, self.dialect, links)

    def client(self, links: Links) -> KafkaClient:
        """Return a client of brokers that answer metadata requests, over these connections."""
        return KafkaClient.of_brokers(self.options.brokers, links, self.dialect)

    def _by_own_metadata(self) -> Sender:
        return self._by_metadata(self.metadata(self._links_until_close()))

    def _by_metadata(
        self, metadata: Metadata, sequences: Sequences | None = None, transactional_id: str | None = None
    ) -> Sender:
        return Sender(
            metadata,
            self.options,
            self._tasks,
            events=_log_event,
            created=self._created,
            reports=self._reports,
            versions=self.versions,
            sequences=sequences,
            transactional_id=transactional_id,
        )

    def _by_zookeeper(self) -> Sender:
        session = self._session()
        made = Sender(
            session,
            replace(self.options, confirm=BY_OFFSETS),  # only confirmed messages may be committed
            self._tasks,
            events=_log_event,
            by_name=True,
            live=lambda: session.brokers,
            reports=self._reports,
        )
        session.changed = made.leaders.changed
        return made

    def _session(self) -> ZookeeperSource:
        options = self.options
        made = ZookeeperSource(
            options.zookeeper,
            session_ms=options.zookeeper_session_ms,
            connect_ms=options.zookeeper_connection_ms,
            access=options.security,
            dialect=self.dialect,
            links=self._links_until_close(),
        )
        self._sessions.append(made)
        return made


def _log_event(level: int, sentence: str) -> None:
    log.log(level, "target: %s", sentence, extra={"key": f"target {sentence}", "event": "target"})
