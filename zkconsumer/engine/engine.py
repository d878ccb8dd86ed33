"""What every connector has, on either side (side.py): streams, cursors, timers, and what its user may ask."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from groundwork.hub import Hub, HubStopped
from groundwork.tasks import Lock, TaskGroup, connect, now, sleep
from kafkawire.dialects import Dialect
from kafkawire.errors import CorruptMessage, WireError
from kafkawire.model import Broker, MessageSet, TopicPartition
from kafkawire.net.links import Links
from kafkawire.znodes.group import Registration
from zkconsumer.engine.assignment import Parts, Side
from zkconsumer.engine.controls import Controls
from zkconsumer.engine.fixedassignment import FixedSide
from zkconsumer.engine.groupassignment import GroupSide
from zkconsumer.engine.metrics import Look
from zkconsumer.engine.status import Parkings
from zkconsumer.errors import Closed, ConsumerError
from zkconsumer.events import OnEvent
from zkconsumer.fetching.budget import Budget
from zkconsumer.fetching.cursor import Cursor
from zkconsumer.fetching.fetcher import Fetcher
from zkconsumer.fetching.fetchers import Fetchers
from zkconsumer.fetching.fetchplan import FetchPlan
from zkconsumer.fetching.formatprobe import FormatWarnings
from zkconsumer.fetching.leaders import NoLeader
from zkconsumer.fetching.listoffsets import EARLIEST, LATEST
from zkconsumer.fetching.logends import log_ends_by
from zkconsumer.listeners import ConsumerListener, Hooks, ListenerFailed
from zkconsumer.offsets.commits import BeforeCommit
from zkconsumer.offsets.store import OffsetStore
from zkconsumer.options.config import ConsumerConfig
from zkconsumer.session.lease import Lease
from zkconsumer.streams.stream import Decoders, Stream, Streams

T = TypeVar("T")
TEND_S = 0.2
LAST_WORD_MS = 3000  # for a listener during the end, of LEAVE_S
TOLD_S = 0.5  # for what the listener has not heard yet at the end
LEAVE_S = 6.0  # a member that cannot reach ZooKeeper leaves by the end of its session; with the rest, below 10 s


class Engine:
    """Everything of a connector that lives in the hub; all methods but give_up_own_reading are called there."""

    def __init__(
        self,
        config: ConsumerConfig,
        dialect: Dialect,
        hub: Hub,
        consumer_id: str,
        registration: Registration,
        on_event: OnEvent,
        on_fence: Callable[[], object],
        on_death: Callable[[str, BaseException], object],
        listener: ConsumerListener,
        decoders: Decoders = (None, None),
        observe: Callable[[MessageSet], object] | None = None,
        store: OffsetStore | None = None,
        before_commit: BeforeCommit = lambda positions: None,
    ) -> None:
        self._config = config
        self._dialect = dialect
        self._hub = hub
        self._on_event = on_event
        self._on_death = on_death
        self._taking_part = False
        self._closing = False
        self._wake_posted = False
        self._tasks = TaskGroup(on_death=self._died)
        self.hooks = Hooks.for_hub(
            listener, config.listener_timeout_ms, on_event, self._tasks, hub, self._listener_failed
        )
        self._budget = Budget(config.queued_max_bytes, self._room)
        self._streams = Streams(config, hub, self._budget, registration, decoders, observe, self._commit_one)
        self._cursors: dict[TopicPartition, Cursor] = {}
        self._lease = Lease()
        dial = partial(connect, receive_buffer_bytes=config.receive_buffer_bytes)
        self._links = Links(config.client_name, dial, config.socket_timeout_ms)
        parts = Parts(
            config,
            dialect,
            hub,
            consumer_id,
            registration,
            self._tasks,
            self._lease,
            self._links,
            self._cursors,
            self.hooks,
            self._make_cursor,
            self._make_fetcher,
            on_event,
            before_commit,
        )
        self._format_warnings = FormatWarnings(on_event, dialect)
        self.side: Side = FixedSide(parts, store) if config.partitions else GroupSide(parts, on_fence)
        self._commits = self.side.commits
        self._fetchers = self.side.fetchers
        self._ends_lock = Lock()  # one question at a time on a link
        self.controls = Controls(
            self._cursors, self._commits, self._fetchers, self._lease, self._end_of, self.side.readable
        )

    def streams_of(self, topic: str | None) -> list[Stream]:
        """The streams of a topic; None: those of the filter."""
        return self._streams.of(topic)

    # making -------------------------------------------------------------------------------------------------------

    def _make_cursor(self, tp: TopicPartition, thread: str, reset: str) -> Cursor:
        stream, lane = self._streams.reader_of(tp, thread)
        cursor = Cursor(tp, thread, self._lease, lane, stream.channel, reset, self._corrupt)
        self.controls.adopt(cursor)
        return cursor

    def _make_fetcher(self, broker: Broker, finder: Fetchers) -> Fetcher:
        config = self._config
        return Fetcher(
            broker,
            self._links,
            self._dialect,
            FetchPlan(
                config.fetch_message_max_bytes,
                config.fetch_growth_max_bytes,
                config.queued_max_chunks * config.fetch_message_max_bytes,
            ),
            self._budget,
            config.fetch_wait_max_ms,
            config.fetch_min_bytes,
            config.refresh_leader_backoff_ms / 1000,
            finder,
            self._located,
            self._on_event,
            config.corrupt_policy,
            self.hooks,
            self._tasks.spawn,
            config.fetcher_backoff_ms / 1000,
            self._format_warnings if self._dialect.offsets.count_messages else None,
        )

    # start and end ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect and take part.  Raises Unreachable, ChrootMissing, NoBrokers, ConsumerError; Closed when it is shut
        down meanwhile.
        """
        try:
            self.side.connect()
            if not self._closing:
                self._take_part()
        except (ConsumerError, WireError, RuntimeError) as e:  # RuntimeError: the task group is stopped
            if not self._closing:
                raise
            raise Closed("the connector was shut down while it started") from e
        if self._tasks.death is not None:
            raise self._tasks.death
        if self._closing:
            raise Closed("the connector was shut down while it started")

    def _take_part(self) -> None:
        self._taking_part = True
        self._fetchers.start()
        self._tasks.spawn("tend", self._tend)
        if self._config.auto_commit:
            interval_s = self._config.auto_commit_interval_ms / 1000
            self._tasks.spawn("auto-commit", self._commits.run, interval_s, self._owned, self.side.may_commit)
        self.side.take_part()

    def shutdown(self) -> None:
        """Leave in order, within LEAVE_S and the drain; a second call changes nothing."""
        if self._closing:
            return
        self._closing = True
        self._streams.close(self._tasks.death)
        if self._tasks.death is None and self._taking_part:
            self.hooks.hurry(LAST_WORD_MS)
            self.side.leave(LEAVE_S)
        for cursor in list(self._cursors.values()):
            cursor.drop()
        self.hooks.close(TOLD_S)
        self._tasks.stop(timeout_s=0.5)
        self.side.close()
        self._links.end()

    def _died(self, name: str, error: BaseException) -> None:
        """One of our greenlets ended unasked: nothing goes on half dead."""
        for cursor in list(self._cursors.values()):
            cursor.drop()
        self._streams.close(self._tasks.death)
        self._on_death(name, error)
        if self._tasks.death is not None:
            self.hooks.error(self._tasks.death)
        self._post(self.shutdown)  # the session too: whoever takes our partitions over should not wait for us

    def give_up_own_reading(self, thread_id: int) -> None:
        """The thread that shuts down will not come back to its streams: what it has in its hands is not done."""
        self._streams.give_up(thread_id)

    # the user's calls ---------------------------------------------------------------------------------------------

    def ask(self, what: str, question: Callable[..., T], *args: object) -> T:
        found: T = self.side.ask(what, question, *args)
        return found

    @property
    def settled(self) -> bool:
        return self.side.settled

    def look(self) -> Look:
        """What metrics show, of one moment."""
        return Look(self.side.session_state, self.side.rounds, self.controls.status(), self.side.offsets)

    @property
    def silent_s(self) -> float:
        return self.side.silent_s

    @property
    def outage(self) -> str:
        return self._fetchers.outage

    def _owned(self) -> list[Cursor]:
        return list(self._cursors.values())

    # what happens to us -------------------------------------------------------------------------------------------

    def _located(self, cursors: list[Cursor]) -> None:
        """Partitions that begin where their log said: write it down, so that they differ from ones never read.

        On the timer's time: a fetcher does not wait for a coordinator.
        """
        self._commits.hurry()

    def _corrupt(self, cursor: Cursor, at: int, error: CorruptMessage) -> None:
        """From a user's thread: a message met while iterating is damaged."""
        self._post(self._refetch, cursor, at, error)

    def _refetch(self, cursor: Cursor, at: int, error: CorruptMessage) -> None:
        if cursor.closing or cursor.next_out != at:
            return  # let go, or reset, since the reader met it
        cursor.go_on(at)
        fetcher = self._fetchers.fetcher_of(cursor.tp)
        if fetcher is not None:
            fetcher.damaged(cursor, at, error)

    def _commit_one(self, tp: TopicPartition, at: int) -> Exception | None:
        """From a user's thread: at most once, so this comes before what lies before `at` is handed out."""
        try:
            return self._hub.call(self.controls.commit, {tp: at})[tp]
        except HubStopped as stopped:
            return stopped

    def _end_of(self, tp: TopicPartition, end: str) -> int:
        """Where the log of tp begins (smallest) or ends, as its leader says.  Raises ConsumerError."""
        why: list[str] = []
        with self._ends_lock:
            try:
                view = self.side.leaders.look([tp])
            except WireError as e:
                raise ConsumerError(f"{tp}: the {end} position is not known: {e}; try again") from e
            leader = self.side.leaders.leader(view, tp)
            if isinstance(leader, NoLeader):
                raise ConsumerError(f"{tp}: the {end} position is not known: {leader.why}; try again")
            time = LATEST if end == "largest" else EARLIEST
            found = log_ends_by(self._links, self._dialect, view.brokers, {tp: leader.id}, time, why.append)
        if tp not in found:
            raise ConsumerError(f"{tp}: the {end} position is not known: {'; '.join(why)}; try again")
        return found[tp]

    def _listener_failed(self, error: ListenerFailed) -> None:
        self._streams.raise_next(error)

    def _room(self) -> None:
        """Bytes were given back, in whatever thread; one wake is enough for many."""
        if not self._wake_posted and not self._closing:
            self._wake_posted = True
            self._post(self._wake)

    def _post(self, fn: Callable[..., object], *args: object) -> None:
        """From a user's thread, which may hold sets and tickets longer than the connector lives."""
        try:
            self._hub.post(fn, *args)
        except HubStopped:
            pass  # nothing is fetched any more

    def _wake(self) -> None:
        self._wake_posted = False
        self._fetchers.wake()

    # timers -------------------------------------------------------------------------------------------------------

    def _tend(self) -> None:
        """What no event tells: tickets that failed, sets that were not handed out because the lease was just over."""
        told = Parkings(self._on_event)
        while True:
            sleep(TEND_S)
            told.look(self._owned())
            for cursor in self._owned():
                reason = cursor.parked
                if not cursor.stranded or cursor.closing or reason is not None or now() >= self._lease.valid_until:
                    continue
                cursor.read_again()
