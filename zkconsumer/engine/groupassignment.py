"""Group membership as assignment source: ZooKeeper session, claims, the member, and its watchers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from groundwork import clocks
from groundwork.executor import ThreadExecutor
from groundwork.options import specs
from groundwork.tasks import Event, connect, now, sleep
from kafkawire.cluster.release import ASKED_FROM
from kafkawire.cluster.zookeeper import (
    BROKERS,
    broker_ids,
    no_cluster,
    no_listener,
    partitions_by_broker,
    read_brokers,
    read_owners,
    read_partitions,
    read_settings,
    read_topics,
    secured_brokers,
)
from kafkawire.dialects import Dialect
from kafkawire.model import PartitionId, TopicPartition
from kafkawire.net.security import OPEN
from kafkawire.znodes.group import Registration
from zkconsumer.engine.assignment import EngineContext
from zkconsumer.engine.offsetstores import store_of_group
from zkconsumer.errors import ConsumerError, NoBrokers
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.cursor import Cursor
from zkconsumer.fetching.leaders import CurrentLeaders, WatchedLeaders
from zkconsumer.group.claims import Claims
from zkconsumer.group.executor import RebalanceExecutor
from zkconsumer.group.groupreader import GroupReader
from zkconsumer.group.member import Member
from zkconsumer.group.membership import GroupChange
from zkconsumer.offsets.commits import CommitRetries
from zkconsumer.offsets.coordination import must_not_be_kafkas
from zkconsumer.offsets.coordinator import PURPOSE, Coordinator
from zkconsumer.offsets.group import OffsetsStatus
from zkconsumer.offsets.modes import Mode
from zkconsumer.offsets.modeswitch import OffsetMode
from zkconsumer.options.config import ConsumerConfig
from zkconsumer.session.zkcalls import ZkCalls
from zkconsumer.session.zksession import SessionState, ZkSession

FIRST_ROUND_S = 10.0  # creating streams waits that long for a first rebalance; then the member keeps trying
AUDIT_S = 30.0
SUBSCRIBED_POLL_S = 0.02
LAST_COMMIT_S = 5.0  # for revoked partitions, while a coordinator is unreachable: JVM members wait about 8 s for them
NOT_WITHOUT_ZOOKEEPER = "nothing is committed, and no partition taken, until it answers"
SILENT_PART = 3  # divisor of the session timeout: four heartbeats without a response


class GroupAssignment:
    """Group member of a connector.  on_fence(): the lease is over, and all cursors are already dropped."""

    def __init__(self, context: EngineContext, on_fence: Callable[[], object]) -> None:
        config, dialect = context.config, context.dialect
        self._config = config
        self._dialect = dialect
        self._versions = context.versions
        self._znodes = dialect.znodes
        self._watch_hub = context.watch_hub
        self._tasks = context.tasks
        self._links = context.links
        self._lease = context.lease
        self._listener = context.listener
        self._on_event = context.on_event
        self._on_fence = on_fence
        self.session = ZkSession(
            config.zookeeper_connect,
            session_timeout_ms=config.session_timeout_ms,
            connection_timeout_ms=config.connect_timeout_ms,
            tasks=context.tasks,
            lease=context.lease,
            on_state=self._session_state,
            on_fence=self._fence,
            access=config.security,
        )
        self.leaders: CurrentLeaders = WatchedLeaders(self.session, dialect.znodes, context.on_event)
        self._away_since: float | None = None  # set while ZooKeeper is unreachable
        self._mode_changed = Event()  # set when our mode node must be written
        self._executor = ThreadExecutor(context.hub)
        self._store = store_of_group(
            config=config,
            session=self.session,
            versions=context.versions,
            leaders=self.leaders,
            on_event=context.on_event,
            on_commit=self._mode_changed.set,
            read_from=lambda tp: context.cursors[tp].topic if tp in context.cursors else None,
            may_be_recreated=lambda topic: self._reader.may_be_recreated(topic),
            executor=self._executor,
        )
        self._claims = Claims(
            self.session, dialect.znodes, config.group_id, on_lost=self._owner_lost, on_free=self._freed
        )
        self.commits = context.commits(self._store, self._still_ours, self._retries)
        self._make_cursor = context.make_cursor
        self.mode = self._mode_of(context)
        self.fetchers = context.fetchers(self.leaders)
        self.member = self._member_of(context)

    def _mode_of(self, context: EngineContext) -> OffsetMode:
        return OffsetMode(
            session=self.session,
            dialect=context.dialect,
            group=context.config.group_id,
            consumer_id=context.consumer_id,
            registration=context.registration,
            exclude_internal=context.config.exclude_internal_topics,
            store=self._store,
            commits=self.commits,
            cursors=context.cursors,
            on_event=context.on_event,
            changed=self._mode_changed,
            auto_commit=context.config.auto_commit,
        )

    def _member_of(self, context: EngineContext) -> Member:
        config = context.config
        self._reader = reader = GroupReader(
            session=self.session,
            dialect=context.dialect,
            group=config.group_id,
            consumer_id=context.consumer_id,
            registration=context.registration,
            exclude_internal=config.exclude_internal_topics,
            changed=self._changed,
        )
        self._rebalancing = executor = RebalanceExecutor(
            session=self.session,
            group=reader,
            claims=self._claims,
            fetchers=self.fetchers,
            commits=self.commits,
            store=self._store,
            make_cursor=self._take,
            cursors=context.cursors,
            config=config,
            on_event=context.on_event,
            listener=context.listener,
            closing=lambda: self.member.closing,
        )
        return Member(
            executor=executor,
            group=reader,
            claims=self._claims,
            tasks=context.tasks,
            config=config,
            on_event=context.on_event,
        )

    # start and end ------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        self.session.start()
        must_be_a_cluster(self.session, self._config)
        must_be_of_this_generation(self.session, self._dialect, self._config)
        self._must_take_our_requests()
        self._must_not_be_kafkas()
        self.mode.begin()

    def _must_not_be_kafkas(self) -> None:
        """Raise ByKafka if the group was handed over to Kafka, or has members that Kafka coordinates."""

        def coordinator() -> Coordinator:
            brokers = self.session.ask("read brokers", read_brokers, self._znodes)
            limit_ms = self._config.offsets_channel_timeout_ms
            return Coordinator(
                lambda: list(brokers.values()), self._links, self._dialect, 2, timeout_ms=limit_ms, sleep=sleep, now=now
            )

        def tell(sentence: str) -> None:
            self._on_event(ConsumerEvent("offset", sentence))

        must_not_be_kafkas(self.session, self._dialect, self._config.group_id, coordinator, tell)
        self._links.close(PURPOSE)

    def _must_take_our_requests(self) -> None:
        """Raise ConsumerError if the brokers are older than kafka.version, or refuse our TLS or login: they would close
        the connection on each request, forever.  Without kafka.version, each broker is asked for its release."""
        security = self._config.kafka_security
        if self._versions.pinned and self._dialect.number < ASKED_FROM and security == OPEN:
            return
        brokers, option = self.session.ask("read brokers", read_brokers, self._znodes), specs(type(self._config))
        why = self._versions.refusal(brokers.values(), option["version"].key, security.connect(connect))
        if why is not None:
            raise ConsumerError(f"{why}; nothing was registered")

    def take_part(self) -> None:
        """Register and try a first rebalance; its failures are retried forever."""
        self._tasks.spawn("member", self.member.run)
        self._tasks.spawn("audit", self._audit)
        self._tasks.spawn("offset-mode", self.mode.run)
        self._watch_hub(self._config.session_timeout_ms)
        self.member.first_round.wait(timeout=FIRST_ROUND_S)

    def leave(self, timeout_s: float) -> None:
        self.member.close()
        self.member.closed.wait(timeout=timeout_s)

    def close(self) -> None:
        self._executor.close()
        self._store.close()
        self.session.close()

    # what the engine asks -----------------------------------------------------------------------------------------

    def may_commit(self) -> bool:
        return self.session.state is SessionState.CONNECTED

    def readable(self, cursor: Cursor) -> bool:
        return self._rebalancing.readable(cursor)

    def ask(self, what: str, question: Callable[..., Any], *args: object) -> Any:
        return self.session.ask(what, question, self._znodes, *args)

    def topics(self) -> Sequence[str]:
        found: list[str] = self.ask("read topics", read_topics)
        return found

    def partitions(self, topics: Collection[str]) -> Mapping[str, Mapping[PartitionId, Sequence[int]]]:
        found: dict[str, dict[PartitionId, list[int]]] = self.ask("read partitions of topics", read_partitions, topics)
        return found

    def settings(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        if self._dialect.partitions_by_broker:
            return {}
        found: dict[str, dict[str, str]] = self.ask("read settings of topics", read_settings, topics)
        return found

    def owners(self, topics: Collection[str]) -> Mapping[TopicPartition, str]:
        group = self._config.group_id
        found: dict[TopicPartition, str] = self.ask("read owners of partitions", read_owners, group, topics)
        return found

    @property
    def settled(self) -> bool:
        return self.member.settled

    @property
    def deleted(self) -> Mapping[str, str]:
        return self.member.deleted

    @property
    def rounds(self) -> int:
        return self.member.rounds

    @property
    def session_state(self) -> str:
        return self.session.state.value

    @property
    def silent_s(self) -> float:
        heard, limit_s = self._lease.heard_of, self._config.session_timeout_ms / 1000 / SILENT_PART
        silent_s = 0.0 if heard is None else clocks.boot() - heard
        return silent_s if silent_s > limit_s else 0.0

    def switch_offsets(self, mode: Mode) -> None:
        self.mode.switch(mode)

    def subscribe(self, registration: Registration, timeout_s: float) -> bool:
        rounds, until = self.member.rounds, now() + timeout_s
        self.mode.subscribe(registration)
        self.member.subscribe(registration)
        while not (self._reader.subscribed and self.member.rounds > rounds and self.member.settled):
            if now() >= until or self.member.closing:
                return False
            sleep(SUBSCRIBED_POLL_S)
        return True

    @property
    def offsets(self) -> OffsetsStatus:
        return self._store.status

    def _retries(self) -> CommitRetries | None:
        config = self._config
        if not self._store.in_kafka:
            return None
        return CommitRetries(config.offsets_commit_retries, config.offsets_channel_backoff_ms / 1000, LAST_COMMIT_S)

    def _take(self, tp: TopicPartition, thread: str, reset: str) -> Cursor:
        """Make a cursor for a newly claimed partition.  If the two stores differ, it is committed soon, because an idle
        partition would otherwise differ forever."""
        if tp in self._store.out_of_sync:
            self.commits.commit_soon()
        return self._make_cursor(tp, thread, reset)

    def _still_ours(self, tps: list[TopicPartition]) -> Sequence[TopicPartition]:
        """Return the partitions whose owner nodes in ZooKeeper are ours now; the others are dropped."""
        lost = self._claims.lost(tps)
        for tp in lost:
            self._owner_lost(tp)
        return [tp for tp in tps if tp not in lost and tp in self._claims.held]

    # callbacks ----------------------------------------------------------------------------------------------------

    def _session_state(self, state: SessionState) -> None:
        """Handle a session state.  Called by kazoo's greenlet, so it only sets flags and queues events."""
        text = f"the session with ZooKeeper at {self.session.hosts} is {state.value}"
        self._on_event(ConsumerEvent("session", text))
        self._report_outage(state)
        self._listener.session_state(state.value)
        if state is SessionState.LOST:
            self.member.session_lost()
        elif state is SessionState.CONNECTED:
            self._mode_changed.set()
            self.fetchers.refresh()
            self.member.reconnected()

    def _report_outage(self, state: SessionState) -> None:
        """Report once when ZooKeeper cannot be reached, and once when it answers again."""
        where = f"ZooKeeper at {self.session.hosts}"
        if state is SessionState.CONNECTED and self._away_since is not None:
            self._on_event(ConsumerEvent("over", f"{where}: over after {now() - self._away_since:.1f} s"))
            self._away_since = None
        elif state is not SessionState.CONNECTED and self._away_since is None:
            self._away_since = now()
            why = f"the session is {state.value}; {NOT_WITHOUT_ZOOKEEPER}"
            self._on_event(ConsumerEvent("outage", f"{where} is out of reach: {why}"))

    def _fence(self) -> None:
        """Fence this member at the end of the lease: first drop the cursors, so that nothing may be sent, then cut what
        is in flight."""
        self.member.session_lost()
        self._on_fence()
        self._store.cut()
        text = (
            f"lease over: no answer of ZooKeeper at {self.session.hosts} in time: others may own our partitions now, "
            "all are dropped"
        )
        self._on_event(ConsumerEvent("fence", text))

    def _owner_lost(self, tp: TopicPartition) -> None:
        self.member.owner_lost(tp)

    def _freed(self) -> None:
        self.member.freed()

    def _changed(self, what: GroupChange) -> None:
        self.member.changed(what)

    def _audit(self) -> None:
        """Compare the member with ZooKeeper, every half minute and soon after a reconnect."""
        while True:
            asked = self.member.audit_due.wait(timeout=AUDIT_S)
            self.member.audit_due.clear()
            if self.may_commit():
                try:
                    self.member.audit(every_node=asked)
                except ConsumerError as e:
                    self._on_event(ConsumerEvent("session", f"audit postponed: {e}"))
                    sleep(1.0)
                    self.member.audit_due.set()


def must_be_a_cluster(session: ZkCalls, config: ConsumerConfig) -> None:
    """Raise NoBrokers if no broker has ever registered: no other member would see a group created there."""
    wrong = session.ask("look for brokers", no_cluster, config.zookeeper_connect, "zookeeper.connect")
    if wrong is not None:
        raise NoBrokers(wrong)


def must_be_of_this_generation(session: ZkCalls, dialect: Dialect, config: ConsumerConfig) -> None:
    """Raise ConsumerError if brokers are of another generation: registering in the wrong format would stop every JVM
    member of the group."""
    ids = broker_ids(session, session.children(BROKERS) or ())
    nodes = session.read(f"{BROKERS}/{name}" for name in ids)
    texts = {path: node.data for path, node in nodes.items() if node is not None}
    numbered = {id: texts[f"{BROKERS}/{name}"] for name, id in ids.items() if f"{BROKERS}/{name}" in texts}
    secured = secured_brokers(numbered, dialect.znodes)
    if secured and len(secured) == len(numbered):
        raise ConsumerError(f"{no_listener(secured)}; nothing was registered")
    by_broker = partitions_by_broker(texts.values())
    if by_broker is not None and by_broker != dialect.partitions_by_broker:
        there = "0.7" if by_broker else "0.8 or later"
        option = specs(type(config))["version"].key  # a mirror's source has its own name for it
        raise ConsumerError(
            f"the brokers registered at {config.zookeeper_connect} are of Kafka {there}, and {option} is"
            f" {dialect.release}: set it right; nothing was registered"
        )
