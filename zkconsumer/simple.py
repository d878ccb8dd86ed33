"""One broker asked plainly: fetches, offsets by time, metadata, committed offsets.  No group, no ZooKeeper, no gevent.

    with SimpleConsumer("broker1", 9092) as consumer:
        position = consumer.earliest(TopicPartition("orders", 0))
        while True:
            message_set = consumer.fetch("orders", 0, position, max_wait_ms=1000)
            for message in message_set.messages():
                ...
            position = message_set.resume_at

Kafka 0.7: release="0.7.2"; a partition is the broker's own number (or a BrokerPartition), positions are bytes and only
the starts of entries are positions, a fetch never waits, and there is no metadata: ZooKeeper knows who has what.

Partitions are read from their leader: NotLeader says when this broker is none, topic_metadata(None) who is.  Everything
that goes wrong is a kafkawire.errors.WireError: a Refused (zkconsumer.refusals) with topic, partition, offset and
broker for an error code, LinkLost when the connection broke; the next call then connects again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TypeVar

from kafkawire.cluster.listoffsets import DEBUGGING, EARLIEST, LATEST, ask_offsets
from kafkawire.cluster.metadata import read_reply
from kafkawire.cluster.refetch import Wanted, fetch_answered
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import Dialect, Store
from kafkawire.errors import LinkLost, LocalError, RemoteError, WireError
from kafkawire.fetched import Came, Damaged, MessageTooLarge, judged
from kafkawire.model import Broker, BrokerPartition, MessageSet, PartitionId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.net.security import OPEN, Security
from kafkawire.protocol import apis
from kafkawire.protocol.request import CONSUMER, FetchedPartition, Request
from zkconsumer.errors import all_committed
from zkconsumer.offsets.coordinator import Coordinator
from zkconsumer.offsets.store import Committed
from zkconsumer.refusals import refusal

FETCH_BYTES = 1024 * 1024
LEAST_BYTES = 4  # of a fetch: the size of a message; 0.7 answers less with nothing, for ever
INSIDE = "a position inside a message looks like this too; earliest() and latest() return borders of messages"
R = TypeVar("R")  # the type of a response
ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
NO_ID = -1  # the broker's id is not known from its address


class SimpleConsumer:
    """One broker by its address, spoken to as `release`; connects on the first call.

    release "": the broker is asked what it is.

    timeout_ms bounds each silence of the broker, and with `retries` and `backoff_ms` how long a moving coordinator is
    waited for.  debugging=True reads from any replica, not only the leader: fetches go up to the high watermark,
    latest() tells the end of that replica's own log.
    isolation_level, of brokers from 0.11 on: read_committed, no message of a transaction that is open or was aborted;
    or read_uncommitted, all of them.
    security: TLS and login of the connection (kafkawire.net.security).
    Threads and greenlets may share it: each call has a connection of its own while it waits.
    broker_id is needed for nothing but to be named in errors, and in the partitions of 0.7.
    """

    def __init__(
        self,
        host: str,
        port: int,
        release: str = "",
        client_id: str = "zkconsumer-simple",
        timeout_ms: int = 30000,
        debugging: bool = False,
        retries: int = 10,
        backoff_ms: int = 1000,
        broker_id: int = NO_ID,
        isolation_level: str = "read_committed",
        security: Security = OPEN,
    ) -> None:
        if isolation_level not in ISOLATION_LEVELS:
            raise LocalError(f"isolation_level {isolation_level!r}: known are {', '.join(ISOLATION_LEVELS)}")
        self.broker = Broker(broker_id, host, port)
        self._committed = isolation_level == ISOLATION_LEVELS[0]
        self._versions = ClusterVersions(release, str(self.broker))
        self._links = Links(client_id, self._versions.connect(security.connect()), timeout_ms)
        self._timeout_ms = timeout_ms
        self._replica_id = DEBUGGING if debugging else CONSUMER
        self._coordinator = Coordinator(
            self.broker, self._links, self._versions.dialect, retries, backoff_ms, timeout_ms, check=self._check
        )
        self._closed = False

    # ---- messages ----------------------------------------------------------------------------------------------

    def fetch(
        self,
        topic: str,
        partition: PartitionId,
        position: int,
        max_bytes: int = FETCH_BYTES,
        max_wait_ms: int = 100,
        min_bytes: int = 1,
    ) -> MessageSet:
        """Return the messages from `position` on, as many as fit; an empty set when none came within max_wait_ms.

        Read on at the set's resume_at, also after an empty set: it skips the ends of transactions and the messages of
        aborted ones.  high_watermark of the set is where its reader gets to: before it no transaction is open.
        From 0.10.1 on the first entry comes whole, however large it is.  Asked as an older release, Kafka 3.x sends
        nothing of a batch that is larger than max_bytes: where a second set is empty too, before its high_watermark,
        ask for more.

        Raises OffsetOutOfRange, NotLeader, UnknownPartition or another Refused; MessageTooLarge; Damaged; LinkLost.
        """
        tp = TopicPartition(topic, partition)
        found = self.fetch_many({tp: position}, max_bytes, max_wait_ms, min_bytes)[tp]
        if isinstance(found, WireError):
            raise found
        return found

    def fetch_many(
        self,
        positions: Mapping[TopicPartition, int],
        max_bytes: int = FETCH_BYTES,
        max_wait_ms: int = 100,
        min_bytes: int = 1,
    ) -> dict[TopicPartition, MessageSet | WireError]:
        """One request for several partitions, max_bytes each: a set, or what fetch() would raise, for each of them.

        Partitions that the broker does not answer for, since we are over its quota, are asked for again for timeout_ms
        at most; then that is their error (NotAnswered).

        From 0.10.1 on a first entry that is larger than max_bytes comes whole to the first partition that has messages;
        to another one nothing comes then: ask for it alone where its high_watermark is behind resume_at.

        Raises LinkLost and LocalError, which concern them all.
        """
        if max_wait_ms >= self._timeout_ms:
            raise LocalError(
                f"max_wait_ms {max_wait_ms} must be below timeout_ms {self._timeout_ms}: "
                "an answer that may be late looks like a lost broker"
            )
        if max_bytes < LEAST_BYTES:
            raise LocalError(f"max_bytes {max_bytes}: not even the size of a message fits into less than {LEAST_BYTES}")
        if not positions:
            return {}
        wanted = [(self._own(tp), at, max_bytes) for tp, at in positions.items()]
        d = self._dialect

        def ask(some: Wanted) -> list[FetchedPartition]:
            request = d.requests.fetch(d, max_wait_ms, min_bytes, some, self._replica_id, self._committed)
            return self._call(request, "fetch")

        rows = {row.tp: row for row in fetch_answered(ask, wanted, timeout_s=self._timeout_ms / 1000)}
        return {tp: self._fetched(tp, at, rows[self._own(tp)], max_bytes) for tp, at in positions.items()}

    def multifetch(
        self, positions: Mapping[TopicPartition, int], max_bytes: int = FETCH_BYTES
    ) -> dict[TopicPartition, MessageSet | WireError]:
        """fetch_many by its name of 0.7, whose brokers answer at once."""
        return self.fetch_many(positions, max_bytes)

    def _own(self, tp: TopicPartition) -> TopicPartition:
        """As a request names it: a number is one of this broker's own where partitions belong to brokers."""
        if self._dialect.partitions_by_broker and isinstance(tp.partition, int):
            return TopicPartition(tp.topic, BrokerPartition(self.broker.id, tp.partition))
        return tp

    def _fetched(
        self, tp: TopicPartition, position: int, row: FetchedPartition, max_bytes: int
    ) -> MessageSet | WireError:
        if row.error:
            return refusal(row.error, self.broker, tp, position)
        found = judged(self._dialect, tp, position, row, max_bytes, self._committed)
        helps = self._dialect.offsets.hint(INSIDE)
        if found.damage is not None:
            return Damaged(tp, position, self.broker, found.damage, helps)
        if found.came is Came.CUT:
            return MessageTooLarge(tp, position, self.broker, max_bytes, found.scan.needed, helps)
        return found.messages

    # ---- offsets by time ---------------------------------------------------------------------------------------

    def offsets_before(self, tp: TopicPartition, time_ms: int, max_offsets: int = 1) -> list[int]:
        """Positions for a time in ms since the epoch, newest first; -1 is the end of the log, -2 its beginning.

        Up to 0.10.0: first offsets of log segments written before that time, by the files' modification times, at most
        max_offsets; often none.  From 0.10.1 on: the one message that has this timestamp or a later one, if any.
        """
        self._check()
        own = self._own(tp)
        found = ask_offsets(
            self._links, self._dialect, {self.broker: [own]}, {own: time_ms},
            purpose="offsets by time", max_offsets=max_offsets, replica_id=self._replica_id, committed=self._committed,
        )[own]  # fmt: skip
        if found.code is not None:
            raise refusal(found.code, self.broker, tp)
        if isinstance(found.error, LinkLost) and self._dialect.refuses_by_closing:
            hint = "a broker of this release closes the connection when it has no such partition"
            raise LinkLost(f"{tp}: {found.error}; {hint}") from found.error
        if found.error is not None:
            raise found.error
        return list(found.offsets)

    def get_offsets_before(self, topic: str, partition: PartitionId, time_ms: int, max_offsets: int = 1) -> list[int]:
        """offsets_before by its name of 0.7 (getOffsetsBefore)."""
        return self.offsets_before(TopicPartition(topic, partition), time_ms, max_offsets)

    def offset_for_time(self, tp: TopicPartition, time_ms: int) -> int:
        """Return where to read from for all messages of a time (ms since the epoch) and later; at most the log's end.

        From 0.10.1 on the first message with that timestamp or a later one.  Before, brokers know the times of segment
        files only: the start of the newest file that was last written by then.  So up to one file too early, never too
        late.
        """
        found = self.offsets_before(tp, time_ms)
        if found:
            return found[0]
        by_message = self._dialect.speaks(apis.LIST_OFFSETS.key) >= 1
        return self.latest(tp) if by_message else self.earliest(tp)

    def earliest(self, tp: TopicPartition) -> int:
        """The first offset that the log still holds."""
        return self._end(tp, EARLIEST)

    def latest(self, tp: TopicPartition) -> int:
        """The offset of the next message to come (as far as it is replicated), or of the first open transaction."""
        return self._end(tp, LATEST)

    def _end(self, tp: TopicPartition, time: int) -> int:
        offsets = self.offsets_before(tp, time)
        if not offsets:
            raise RemoteError(f"{tp} on {self.broker}: the broker does not say where its log ends")
        return offsets[0]

    # ---- cluster -----------------------------------------------------------------------------------------------

    def topic_metadata(self, topics: Iterable[str] | None) -> ClusterView:
        """Brokers, and leader, replicas and in-sync replicas of partitions; a topic's own error is in .errors.

        None asks for all topics and never creates one.  A topic asked by name that is missing IS CREATED by the
        broker where auto.create.topics.enable is true (its default).
        """
        names = None if topics is None else list(topics)
        request = self._dialect.requests.metadata(self._dialect, names)
        return read_reply(self._call(request, "metadata"))

    def coordinator(self, group: str) -> Broker:
        """The broker that keeps a group's offsets, looked up again; waits while there is none (15).  From 0.8.2 on.

        The first such request a cluster ever gets creates its topic __consumer_offsets.
        """
        self._check()
        return self._coordinator.find(group)

    # ---- committed offsets -------------------------------------------------------------------------------------

    def commit_offsets(
        self, group: str, positions: Mapping[TopicPartition, int | tuple[int, str]], store: Store
    ) -> list[TopicPartition]:
        """Commit the next position to read, or (position, metadata), of each partition; returns the partitions, sorted.

        store is "kafka" (0.8.2 and later; the group's coordinator) or "zookeeper" (0.8.1 and later; the broker writes
        the node, and drops the metadata): the two know nothing of each other.  Raises NotCommitted, with the reason for
        each partition whose offset is not known to be written (GroupActive, MetadataTooLarge, CoordinatorAway,
        LinkLost, another Refused); LocalError for a position below 0 and for a release without that store.

        A position behind the end of the log is sent as it is, as the protocol allows: OffsetCommit knows no log, this
        broker need not lead the partition, and positions may be brought to a cluster before its messages are.
        ConsumerConnector.commit_offsets and `zkconsumer offsets set` refuse it.
        """
        self._check()
        full = {tp: (at, "") if isinstance(at, int) else at for tp, at in positions.items()}
        for tp, (at, _) in full.items():
            if at < 0:
                raise LocalError(f"group {group}: {at} is not a position to commit for {tp}")
        return all_committed(self._coordinator.commit(group, full, store))

    def fetch_offsets(self, group: str, tps: Iterable[TopicPartition], store: Store) -> dict[TopicPartition, Committed]:
        """Return what is committed: a position, NONE (nothing), or Unknown with the reason (zkconsumer.offsets.store).

        Raises LinkLost, CoordinatorAway or another Refused when no broker could be asked, LocalError for a release
        without that store.
        """
        self._check()
        return self._coordinator.fetch(group, list(tps), store)

    # ---- the connection ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close for good, from any thread: a call that waits raises LinkLost; LocalError where it would ask again."""
        self._closed = True
        self._links.end()

    @property
    def _dialect(self) -> Dialect:
        self._links.meet([self.broker])  # so that requests fit it
        return self._versions.dialect

    def _call(self, request: Request[R], purpose: str) -> R:
        self._check()
        return self._links.call(self.broker, purpose, request)

    def _check(self) -> None:
        if self._closed:
            raise LocalError(f"the consumer of {self.broker} is closed")

    def __enter__(self) -> SimpleConsumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SimpleConsumer {self.broker}{' closed' if self._closed else ''}>"
