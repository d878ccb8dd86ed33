"""Assignment source: where a connector's partitions come from, a group or a list.

    groupassignment.py         a member of a group in ZooKeeper: claims, rebalances, the lease
    coordinatedassignment.py   a member of a group that Kafka's coordinator keeps (option `coordination`)
    fixedassignment.py         the option `partitions`: a list

It decides which partitions are read and from which position, where their leaders are found, where offsets are kept, and
how long the ownership may be believed.  The engine has the rest: streams, cursors, timers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from groundwork.hub import Hub, OwnThread
from groundwork.loopdelay import HubLag, busy_lines
from groundwork.tasks import TaskGroup
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.dialects import Dialect
from kafkawire.model import Broker, PartitionId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.znodes.group import Registration
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.cursor import Cursor
from zkconsumer.fetching.fetcher import Fetcher
from zkconsumer.fetching.fetchers import Fetchers
from zkconsumer.fetching.leaders import CurrentLeaders
from zkconsumer.listeners import ListenerCalls
from zkconsumer.offsets.commits import BeforeCommit, CommitRetries, Commits, StillOurs
from zkconsumer.offsets.group import OffsetsStatus
from zkconsumer.offsets.modes import Mode
from zkconsumer.offsets.store import OffsetStore
from zkconsumer.options.config import ConsumerConfig
from zkconsumer.session.lease import Lease

LATE_PART = 0.25  # of the session's time-out: three more of that, and it is over


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """The parts of an engine that an assignment source uses.

    cursors: the owned partitions that are read; the assignment source changes them.
    make_cursor(tp, thread, reset); make_fetcher(broker, fetchers, links)
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
        """That of the brokers, which follows them."""
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

    def watch_hub(self, session_timeout_ms: int) -> None:
        """Say it when no heartbeat could be sent for a good part of the session's time-out: a call kept the
        interpreter, most likely one that still runs in another thread.  A caller watches over a hub of its own."""
        if not isinstance(self.hub, OwnThread):
            return

        def late(late_ms: float) -> None:
            where = "; ".join(busy_lines()) or "not seen"
            text = (
                f"nothing but one call ran for {late_ms:.0f} ms, a lot of the session's {session_timeout_ms} ms; after"
                f" that long others take our partitions; at work in the other threads now: {where}"
            )
            self.on_event(ConsumerEvent("late", text))

        lag = HubLag(f"hub of {self.config.group_id}", session_timeout_ms * LATE_PART, on_late=late)
        self.tasks.spawn("lag", lag.run)


class AssignmentSource(Protocol):
    """A group or a list, as the engine uses it; all methods are called in the event loop."""

    fetchers: Fetchers
    commits: Commits
    leaders: CurrentLeaders

    def connect(self) -> None:
        """Connect to ZooKeeper, or to a broker.  Raises Unreachable, ChrootMissing, NoBrokers, ConsumerError."""

    def take_part(self) -> None:
        """Start to read, or at least to try: returns soon.  Raises ConsumerError when it cannot start at all."""

    def leave(self, timeout_s: float) -> None:
        """Wait for what is delivered, commit, release everything; within that time."""

    def close(self) -> None:
        """End everything, also after a start that failed half way."""

    def may_commit(self) -> bool:
        """Whether a commit on the timer can succeed now."""
        ...

    def readable(self, cursor: Cursor) -> bool:
        """Whether a parked partition has a position to be read from."""
        ...

    def ask(self, what: str, question: Callable[..., Any], *args: object) -> Any:
        """question(zk, znodes, *args) on the ZooKeeper session."""

    def topics(self) -> Sequence[str]:
        """Every topic of the cluster, sorted.  Raises ConsumerError."""
        ...

    def partitions(self, topics: Collection[str]) -> Mapping[str, Mapping[PartitionId, Sequence[int]]]:
        """Replicas by partition of each of these topics that exists.  Raises ConsumerError."""
        ...

    def settings(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """What each of these topics has set for itself, as far as the cluster tells.  Raises ConsumerError."""
        ...

    def owners(self, topics: Collection[str]) -> Mapping[TopicPartition, str]:
        """Who of the group owns each partition of these topics: a thread id, or a member id.  Raises ConsumerError."""
        ...

    def switch_offsets(self, mode: Mode) -> None:
        """Keep offsets in another store from now on.  Raises ConsumerError; then nothing has changed."""

    def subscribe(self, registration: Registration, timeout_s: float) -> bool:
        """Read other topics from now on.  False: the group has not rebalanced within that time; it still does.  Raises
        ConsumerError where partitions are fixed."""
        ...

    @property
    def offsets(self) -> OffsetsStatus | None:
        """The offset stores of a member, and its commits; None: fixed partitions."""
        ...

    @property
    def settled(self) -> bool:
        """All assigned partitions are read."""
        ...

    @property
    def deleted(self) -> Mapping[str, str]:
        """Topics that were read and are deleted, with a sentence each; until there are new ones of these names."""
        ...

    @property
    def rounds(self) -> int:
        """Rebalances so far."""
        ...

    @property
    def session_state(self) -> str:
        """State of the session with ZooKeeper or the coordinator; empty: fixed partitions."""
        ...

    @property
    def silent_s(self) -> float:
        """Seconds since ZooKeeper, or the coordinator, last answered, once they are more than they should be."""
        ...
