"""Engine of a connector: everything that lives in its event loop, for partitions of a group or of a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from groundwork import clocks
from groundwork.hub import Hub, HubStopped
from groundwork.tasks import TaskGroup, connect, sleep
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.listoffsets import DEBUGGING, EARLIEST, LATEST
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.errors import CorruptMessage, WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.znodes.group import Registration
from zkconsumer.engine.assignment import CLOSED_AT_START, AssignmentSource, EngineContext
from zkconsumer.engine.controls import Controls
from zkconsumer.engine.coordinatedassignment import CoordinatedAssignment
from zkconsumer.engine.fixedassignment import FixedAssignment
from zkconsumer.engine.metrics import MetricsSnapshot
from zkconsumer.engine.status import ParkedReports
from zkconsumer.engine.zookeeperassignment import ZookeeperAssignment
from zkconsumer.errors import Closed, ConsumerError
from zkconsumer.events import OnEvent, guarded
from zkconsumer.fetching.brokerfetcher import Fetcher
from zkconsumer.fetching.budget import Budget
from zkconsumer.fetching.fetchers import Fetchers
from zkconsumer.fetching.fetchplan import FetchPlan
from zkconsumer.fetching.formatprobe import FormatWarnings
from zkconsumer.fetching.logbounds import FETCH
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.listeners import ConsumerListener, ListenerCalls, ListenerFailed
from zkconsumer.offsets.commits import BeforeCommit, all_every_s
from zkconsumer.offsets.store import OffsetStore
from zkconsumer.options.config import ConsumerConfig
from zkconsumer.session.lease import COORDINATOR_PART, Lease
from zkconsumer.streams.observer import Observer
from zkconsumer.streams.stream import Decoders, Stream, Streams

T = TypeVar("T")
CHECK_S = 0.2  # interval between checks of cursors for states that no event reports
CLOSING_LISTENER_MS = 3000  # upper limit of listener.timeout.ms during shutdown, part of LEAVE_S
NOTIFY_S = 0.5  # at shutdown: time for errors and states that the listener has not received yet
LEAVE_S = 6.0  # a member that cannot reach ZooKeeper (or its coordinator) leaves by its session's end; total < 10 s


def _assignment_source(
    context: EngineContext, on_fence: Callable[[], object], store: OffsetStore | None
) -> AssignmentSource:
    if context.config.partitions:
        return FixedAssignment(context, store)
    if context.config.coordinated:
        return CoordinatedAssignment(context, on_fence)
    return ZookeeperAssignment(context, on_fence)


class Engine:
    """Streams, cursors, fetchers, commits and timers of one connector.

    All methods except give_up_own_reading are called in the event loop.  For observer, store, before_commit, on_fence
    and on_death, see ConsumerConnector.
    """

    def __init__(
        self,
        *,
        config: ConsumerConfig,
        versions: ClusterVersions,
        hub: Hub,
        consumer_id: str,
        registration: Registration,
        on_event: OnEvent,
        on_fence: Callable[[], object],
        on_death: Callable[[str, BaseException], object],
        listener: ConsumerListener,
        decoders: Decoders = (None, None),
        observer: Observer | None = None,
        store: OffsetStore | None = None,
        before_commit: BeforeCommit = lambda positions: None,
    ) -> None:
        self._config = config
        self._dialect = dialect = versions.dialect
        self._hub = hub
        on_event = guarded(on_event, lambda error: self.listener.event_failed(error))
        self._on_event = on_event
        self._on_death = on_death
        self._taking_part = False
        self._closing = False
        self._left_uncommitted: list[TopicPartition] | None = None  # None before the end of shutdown()
        self._wake_posted = False
        self._tasks = TaskGroup(on_death=self._died)
        self.listener = ListenerCalls.for_hub(
            listener,
            timeout_ms=config.listener_timeout_ms,
            on_event=on_event,
            tasks=self._tasks,
            hub=hub,
            on_failed=self._listener_failed,
        )
        self._budget = Budget(config.queued_max_bytes, self._on_release)
        self._streams = Streams(
            config=config,
            hub=hub,
            budget=self._budget,
            registration=registration,
            decoders=decoders,
            observer=observer,
            commit=self._commit_one,
        )
        self._cursors: dict[TopicPartition, Cursor] = {}
        by_coordinator = Lease(whose="the group's coordinator", margin_part=COORDINATOR_PART)
        self._lease = by_coordinator if config.coordinated else Lease()
        dial = config.kafka_security.connect(partial(connect, receive_buffer_bytes=config.receive_buffer_bytes))
        self._links = Links(config.client_name, versions.connect(dial), config.socket_timeout_ms)
        context = EngineContext(
            config=config,
            versions=versions,
            hub=hub,
            consumer_id=consumer_id,
            registration=registration,
            tasks=self._tasks,
            lease=self._lease,
            links=self._links,
            cursors=self._cursors,
            listener=self.listener,
            make_cursor=self._make_cursor,
            make_fetcher=self._make_fetcher,
            on_event=on_event,
            before_commit=before_commit,
        )
        self._format_warnings = FormatWarnings(on_event, dialect)
        self.assignment: AssignmentSource = _assignment_source(context, on_fence, store)
        self._commits = self.assignment.commits
        self._fetchers = self.assignment.fetchers
        self._client = KafkaClient(self.assignment.leaders, self._links, self._dialect)
        self.controls = Controls(
            cursors=self._cursors,
            commits=self._commits,
            fetchers=self._fetchers,
            lease=self._lease,
            end_of=self._end_of,
            readable=self.assignment.readable,
        )

    def streams_of(self, topic: str | None) -> list[Stream]:
        """Return the streams of a topic; with None, those of the filter."""
        return self._streams.of(topic)

    # construction -----------------------------------------------------------------------------------------------------

    def _make_cursor(self, tp: TopicPartition, thread: str, reset: str) -> Cursor:
        stream, budget = self._streams.reader_of(tp, thread)
        cursor = Cursor(
            tp,
            thread,
            lease=self._lease,
            budget=budget,
            channel=stream.channel,
            reset=reset,
            on_corrupt=self._corrupt,
        )
        self.controls.adopt(cursor)
        return cursor

    def _make_fetcher(self, broker: Broker, finder: Fetchers, links: Links) -> Fetcher:
        config = self._config
        return Fetcher(
            broker,
            links=links,
            dialect=self._dialect,
            plan=FetchPlan(
                config.fetch_message_max_bytes,
                config.fetch_growth_max_bytes,
                config.queued_max_chunks * config.fetch_message_max_bytes,
            ),
            budget=self._budget,
            max_wait_ms=config.fetch_wait_max_ms,
            min_bytes=config.fetch_min_bytes,
            backoff_s=config.refresh_leader_backoff_ms / 1000,
            finder=finder,
            located=self._located,
            on_event=self._on_event,
            corrupt=config.corrupt_policy,
            listener=self.listener,
            spawn=self._tasks.spawn,
            empty_backoff_s=config.fetcher_backoff_ms / 1000,
            warnings=self._format_warnings if self._dialect.offsets.count_messages else None,
            committed=config.reads_committed,
        )

    # start and end ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect and take part.  Raises Unreachable, ChrootMissing, NoBrokers and ConsumerError; Closed if it is shut
        down meanwhile."""
        try:
            self.assignment.connect()
            if not self._closing:
                self._take_part()
        except (ConsumerError, WireError, RuntimeError) as e:  # RuntimeError: the task group is stopped
            if not self._closing:
                raise
            raise Closed(CLOSED_AT_START) from e
        if self._tasks.death is not None:
            raise self._tasks.death
        if self._closing:
            raise Closed(CLOSED_AT_START)

    def _take_part(self) -> None:
        self._taking_part = True
        self._fetchers.start()
        self._tasks.spawn("tend", self._check_cursors)
        if self._config.auto_commit:
            interval_s = self._config.auto_commit_interval_ms / 1000
            every_s = all_every_s(interval_s, self._config.offsets_retention_ms / 1000)
            may_commit = self.assignment.may_commit
            self._tasks.spawn("auto-commit", self._commits.run, interval_s, self._owned, may_commit, every_s)
        self.assignment.take_part()

    def shutdown(self) -> None:
        """Leave in order, within LEAVE_S and the drain; a second call changes nothing."""
        if self._closing:
            return
        self._closing = True
        owned = self._owned()
        self._streams.close(self._tasks.death)
        if self._tasks.death is None and self._taking_part:
            self.listener.shorten(CLOSING_LISTENER_MS)
            self.assignment.leave(LEAVE_S)
        for cursor in list(self._cursors.values()):
            cursor.drop()
        self._left_uncommitted = [cursor.tp for cursor in owned if cursor.left_uncommitted]
        self.listener.close(NOTIFY_S)
        self._tasks.stop(timeout_s=0.5)
        self.assignment.close()
        self._links.end()

    @property
    def left_uncommitted(self) -> list[TopicPartition]:
        """Return partitions for which something was done that shutdown() could not commit, or has not committed yet."""
        if self._left_uncommitted is not None:
            return self._left_uncommitted
        return [tp for tp, c in self._cursors.items() if (done := c.committable()) is not None and done != c.committed]

    def _died(self, name: str, error: BaseException) -> None:
        """End everything after a greenlet of the engine died: nothing may continue half dead."""
        for cursor in list(self._cursors.values()):
            cursor.drop()
        self._streams.close(self._tasks.death)
        self._on_death(name, error)
        if self._tasks.death is not None:
            self.listener.error(self._tasks.death)
        self._post(self.shutdown)  # also the session: the next owners of our partitions should not wait for us

    def give_up_own_reading(self, thread_id: int) -> None:
        """Give up what the thread that shuts down was reading: it will not come back to its streams, so that is not
        done."""
        self._streams.give_up(thread_id)

    # calls of the program ------------------------------------------------------------------------------------------

    def ask(self, what: str, question: Callable[..., T], *args: object) -> T:
        found: T = self.assignment.ask(what, question, *args)
        return found

    @property
    def settled(self) -> bool:
        return self.assignment.settled

    def snapshot(self) -> MetricsSnapshot:
        """Return the current state, for metrics."""
        return MetricsSnapshot(
            self.assignment.session_state, self.assignment.rounds, self.controls.status(), self.assignment.offsets
        )

    @property
    def silent_s(self) -> float:
        return self.assignment.silent_s

    @property
    def deleted(self) -> Mapping[str, str]:
        return self.assignment.deleted

    @property
    def outage(self) -> str:
        return self._fetchers.outage

    @property
    def fetch_connections(self) -> dict[int, int]:
        return self._links.connected(FETCH)

    def _owned(self) -> list[Cursor]:
        return list(self._cursors.values())

    # callbacks ----------------------------------------------------------------------------------------------------

    def _located(self, cursors: list[Cursor]) -> None:
        """Commit the offsets of partitions that started at an end of their log, so that they differ from ones never
        read.

        Runs in the timer's greenlet: a fetcher must not wait for a coordinator.
        """
        self._commits.commit_soon()

    def _corrupt(self, cursor: Cursor, at: int, error: CorruptMessage) -> None:
        """Handle a damaged message that a user's thread met while iterating."""
        self._post(self._refetch, cursor, at, error)

    def _refetch(self, cursor: Cursor, at: int, error: CorruptMessage) -> None:
        if cursor.closing or cursor.partition.next_delivery != at:
            return  # revoked, or reset, since the reader met it
        cursor.apply(cursor.partition.refetch, at)
        fetcher = self._fetchers.fetcher_of(cursor.tp)
        if fetcher is not None:
            fetcher.damaged(cursor, at, error)

    def _commit_one(self, tp: TopicPartition, at: int) -> Exception | None:
        """Commit for a user's thread (at most once), before the messages before `at` are delivered."""
        try:
            return self._hub.call(self.controls.commit, {tp: at})[tp]
        except HubStopped as stopped:
            return stopped

    def _end_of(self, tp: TopicPartition, end: str, reached: int = 0) -> int:
        """Return where the log of tp begins (smallest) or ends, asked of its leader; an end below `reached` is
        requested again (KafkaClient.list_ends).  Raises ConsumerError."""
        try:
            if end != "largest":
                return self._client.list_offsets({tp: EARLIEST}, refresh=True)[tp].known()
            committed = self._config.reads_committed
            return self._client.list_ends({tp: reached}, refresh=True, committed=committed)[tp].known()
        except WireError as e:
            raise ConsumerError(f"{tp}: the {end} position is not known: {e}; try again") from e

    def log_end(self, tp: TopicPartition) -> int:
        """Return the end of the own log of a partition's leader, replicated or not.  Raises ConsumerError."""
        try:
            return self._client.list_offsets({tp: LATEST}, refresh=True, replica_id=DEBUGGING)[tp].known()
        except WireError as e:
            raise ConsumerError(f"{tp}: the end of its leader's log is not known: {e}") from e

    def _listener_failed(self, error: ListenerFailed) -> None:
        self._streams.raise_next(error)

    def _on_release(self) -> None:
        """Wake the fetchers after bytes were released, in any thread; one wake is enough for many releases."""
        if not self._wake_posted and not self._closing:
            self._wake_posted = True
            self._post(self._wake)

    def _post(self, fn: Callable[..., object], *args: object) -> None:
        """Post a call from a user's thread, which may hold sets and tickets longer than the connector lives."""
        try:
            self._hub.post(fn, *args)
        except HubStopped:
            pass  # nothing is fetched any more

    def _wake(self) -> None:
        self._wake_posted = False
        self._fetchers.wake()

    # timers -------------------------------------------------------------------------------------------------------

    def _check_cursors(self) -> None:
        """Check for states that no event reports: failed tickets, and sets that were withheld when the lease was
        briefly over."""
        parked = ParkedReports(self._on_event)
        while True:
            sleep(CHECK_S)
            stopped = [c for c in self._cursors.values() if not c.partition.delivers]
            others = (self._cursors.get(tp) for tp in parked.known)
            stopped += [c for c in others if c is not None and c.partition.delivers]
            parked.update(stopped)
            for cursor in stopped:
                if cursor.partition.refetch_due and not cursor.closing and self._lease.holds(clocks.moment()):
                    cursor.apply(cursor.partition.refetch_withheld)
