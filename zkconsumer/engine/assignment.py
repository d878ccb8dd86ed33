"""Assignment source: where a connector's partitions come from, a group or a list.

    groupassignment.py         a member of a group, of either kind (option `coordination`):
    zookeeperassignment.py     in ZooKeeper
    coordinatedassignment.py   on Kafka's coordinator
    fixedassignment.py         the option `partitions`: a list

It decides which partitions are read and from which offset, where their leaders are found, where offsets are kept, and
how long the ownership is valid.  The engine has the rest: streams, cursors, timers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from groundwork.hub import Hub, OwnThread
from groundwork.loopdelay import HubLag, busy_lines
from groundwork.options import specs
from groundwork.tasks import TaskGroup, connect
from kafkawire.cluster.metadata import NothingKnown
from kafkawire.cluster.metadata import Unreachable as NoBroker
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.dialects import Dialect
from kafkawire.model import Broker, PartitionId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.znodes.group import Registration
from zkconsumer.errors import Closed, ConsumerError, Unreachable
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.brokerfetcher import Fetcher
from zkconsumer.fetching.currentleaders import CurrentLeaders
from zkconsumer.fetching.fetchers import Fetchers
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.listeners import ListenerCalls
from zkconsumer.offsets.commits import BeforeCommit, CommitRetries, Commits, StillOurs
from zkconsumer.offsets.group import OffsetsStatus
from zkconsumer.offsets.modes import Mode
from zkconsumer.offsets.store import OffsetStore
from zkconsumer.options.config import ConsumerConfig
from zkconsumer.session.lease import Lease

METADATA_MS = 10_000  # a broker that is silent for longer would block requests to the others
CLOSED_AT_START = "the connector was shut down while it started"
LATE_PART = 0.25  # part of the session timeout: after three more of that, the session is over


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """Parts of an engine that an assignment source uses.

    cursors: the owned partitions that are read; the assignment source changes them. make_cursor(tp, thread, reset);
    make_fetcher(broker, fetchers, links)
    """

    config: ConsumerConfig
    versions: ClusterVersions
    hub: Hub
    consumer_id: str
    registration: Registration
    tasks: TaskGroup
    lease: Lease
    links: Links
    cursors: dict[TopicPartition, Cursor]
    listener: ListenerCalls
    make_cursor: Callable[[TopicPartition, str, str], Cursor]
    make_fetcher: Callable[[Broker, Fetchers, Links], Fetcher]
    on_event: OnEvent
    before_commit: BeforeCommit = lambda positions: None

    @property
    def dialect(self) -> Dialect:
        """Return the dialect of the brokers, which follows their upgrades."""
        return self.versions.dialect

    def fetchers(self, source: CurrentLeaders) -> Fetchers:
        return Fetchers(
            source=source,
            tasks=self.tasks,
            links=self.links,
            backoff_s=self.config.refresh_leader_backoff_ms / 1000,
            make_fetcher=self.make_fetcher,
            on_event=self.on_event,
            per_broker=self.config.fetchers,
        )

    def commits(
        self, store: OffsetStore, still_ours: StillOurs, retries: Callable[[], CommitRetries | None] = lambda: None
    ) -> Commits:
        return Commits(
            store,
            self.config.group_id,
            lease=self.lease,
            still_ours=still_ours,
            on_event=self.on_event,
            on_failed=self.listener.error,
            retries=retries,
            before=self.before_commit,
        )

    def why_never(self, brokers: Iterable[Broker]) -> str | None:
        """Return why the brokers can never be read, or None: they are older than the configured release, or refuse our
        TLS or login, and would close the connection on each request, forever."""
        option = specs(type(self.config))["version"].key
        return self.versions.refusal(brokers, option, self.config.kafka_security.connect(connect))

    def first_metadata(
        self, read: Callable[[], object], bootstrap: Iterable[Broker], ended: Callable[[], bool], effect: str = ""
    ) -> None:
        """Read metadata for the first time, so that brokers which do not answer are reported now.

        ended(): True once our own shutdown has closed the connections.  effect: a clause for brokers that can never be
        read.  Raises Unreachable, ConsumerError, and Closed after the shutdown.
        """
        try:
            read()
        except NothingKnown:
            pass  # the brokers have just started: the topics are read again until they know them
        except NoBroker as e:
            if ended():  # ask no other broker
                raise Closed(CLOSED_AT_START) from e
            why = self.why_never(bootstrap)
            if why is not None:
                raise ConsumerError(why + effect) from e
            raise Unreachable(f"{e}: are they running, and is bootstrap.servers right?") from e

    def watch_hub(self, session_timeout_ms: int) -> None:
        """Report when no heartbeat could be sent for much of the session timeout: a call blocked the interpreter, most
        likely one that still runs in another thread.  For a hub of its own, the caller watches it."""
        if not isinstance(self.hub, OwnThread):
            return

        def late(late_ms: float) -> None:
            where = "; ".join(busy_lines()) or "not seen"
            text = (
                f"one call blocked everything for {late_ms:.0f} ms, much of the session's {session_timeout_ms} ms;"
                f" after that long others take our partitions; at work in the other threads now: {where}"
            )
            self.on_event(ConsumerEvent("late", text))

        lag = HubLag(f"hub of {self.config.group_id}", session_timeout_ms * LATE_PART, on_late=late)
        self.tasks.spawn("lag", lag.run)


class AssignmentSource(Protocol):
    """Interface of a group or a list, as the engine uses it; all methods are called in the event loop."""

    fetchers: Fetchers
    commits: Commits
    leaders: CurrentLeaders

    def connect(self) -> None:
        """Connect to ZooKeeper, or to a broker.  Raises Unreachable, ChrootMissing, NoBrokers and ConsumerError."""

    def take_part(self) -> None:
        """Start to read, or begin to try: returns soon.  Raises ConsumerError if it cannot start at all."""

    def leave(self, timeout_s: float) -> None:
        """Wait until delivered messages are done, commit, and release everything; within that time."""

    def close(self) -> None:
        """End everything, also after a start that failed halfway."""

    def may_commit(self) -> bool:
        """True if a commit by the timer can succeed now."""
        ...

    def readable(self, cursor: Cursor) -> bool:
        """True if a parked partition has an offset to be read from."""
        ...

    def ask(self, what: str, question: Callable[..., Any], *args: object) -> Any:
        """Return question(zk, znodes, *args) on the ZooKeeper session."""

    def topics(self) -> Sequence[str]:
        """Return every topic of the cluster, sorted.  Raises ConsumerError."""
        ...

    def partitions(self, topics: Collection[str]) -> Mapping[str, Mapping[PartitionId, Sequence[int]]]:
        """Return the replicas by partition of each of these topics that exists.  Raises ConsumerError."""
        ...

    def settings(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the own settings of each of these topics, as far as the cluster reports them.  Raises
        ConsumerError."""
        ...

    def owners(self, topics: Collection[str]) -> Mapping[TopicPartition, str]:
        """Return the owner in the group of each partition of these topics: a thread id, or a member id.  Raises
        ConsumerError."""
        ...

    def switch_offsets(self, mode: Mode) -> None:
        """Keep offsets in another store from now on.  Raises ConsumerError; then nothing has changed."""

    def subscribe(self, registration: Registration, timeout_s: float) -> bool:
        """Read other topics from now on.  Return False if the group did not rebalance within that time; it keeps
        trying.  Raises ConsumerError for fixed partitions."""
        ...

    @property
    def offsets(self) -> OffsetsStatus | None:
        """Return the offset stores of a member, and its commits; None for fixed partitions."""
        ...

    @property
    def settled(self) -> bool:
        """True if all assigned partitions are read."""
        ...

    @property
    def deleted(self) -> Mapping[str, str]:
        """Return deleted topics that were read, with a sentence each; a new topic of the same name removes the
        entry."""
        ...

    @property
    def rounds(self) -> int:
        """Return the number of rebalances so far."""
        ...

    @property
    def session_state(self) -> str:
        """Return the state of the session with ZooKeeper or the coordinator; "" for fixed partitions."""
        ...

    @property
    def silent_s(self) -> float:
        """Return the seconds since ZooKeeper, or the coordinator, last answered, once that takes longer than it should;
        else 0."""
        ...
