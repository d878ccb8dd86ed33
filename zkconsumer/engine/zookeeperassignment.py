"""Group in ZooKeeper as an assignment source: the session, the owner nodes, and their watches.

connect    there is a cluster of the configured generation, which the group has not left
leave      like every group; then the session ends, which deletes what is left of us
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from groundwork import clocks
from groundwork.options import specs
from groundwork.tasks import Event, now, sleep
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
from zkconsumer.engine.groupassignment import GroupAssignment
from zkconsumer.engine.offsetstores import store_of_group
from zkconsumer.errors import ConsumerError, NoBrokers
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.currentleaders import CurrentLeaders, WatchedLeaders
from zkconsumer.group.audit import Audit
from zkconsumer.group.claimactions import ClaimActions
from zkconsumer.group.claims import Claims
from zkconsumer.group.groupreader import GroupReader
from zkconsumer.group.rebalance import ClaimingMember
from zkconsumer.member.steps import Changed, OwnerLost, SessionLost
from zkconsumer.offsets.commits import CommitRetries
from zkconsumer.offsets.coordination import must_not_be_kafkas
from zkconsumer.offsets.coordinator import PURPOSE, Coordinator
from zkconsumer.offsets.group import GroupOffsets
from zkconsumer.offsets.modes import Mode
from zkconsumer.offsets.modeswitch import OffsetMode
from zkconsumer.options.config import ConsumerConfig
from zkconsumer.session.zkcalls import ZkCalls
from zkconsumer.session.zksession import SessionState, ZkSession

LAST_COMMIT_S = 5.0  # for revoked partitions, while a coordinator is unreachable: JVM members wait about 8 s for them


class ZookeeperAssignment(GroupAssignment):
    """Member of a group in ZooKeeper."""

    def __init__(self, context: EngineContext, on_fence: Callable[[], object]) -> None:
        super().__init__(context, on_fence)
        config, dialect = context.config, context.dialect
        self._znodes = dialect.znodes
        self._links = context.links
        self.session = ZkSession(
            config.zookeeper_connect,
            session_timeout_ms=config.session_timeout_ms,
            connection_timeout_ms=config.connect_timeout_ms,
            tasks=context.tasks,
            lease=context.lease,
            on_state=self._session_state,
            on_fence=self._lease_over,
            access=config.security,
        )
        self.leaders: CurrentLeaders = WatchedLeaders(self.session, dialect.znodes, context.on_event)
        self._mode_changed = Event()  # set when our mode node must be written
        self._store: GroupOffsets = store_of_group(
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
        self.commits = context.commits(self._store, self._still_ours, self._retries)
        self.mode = self._mode_of(context)
        self.fetchers = context.fetchers(self.leaders)
        self._make_member(context)

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

    def _make_member(self, context: EngineContext) -> None:
        """Make the parts of a member, once there are session, store, commits and fetchers."""
        config = context.config
        self._claims = Claims(
            self.session, context.dialect.znodes, config.group_id, on_lost=self._owner_lost, on_free=self._freed
        )
        self._reader = GroupReader(
            session=self.session,
            dialect=context.dialect,
            group=config.group_id,
            consumer_id=context.consumer_id,
            registration=context.registration,
            exclude_internal=config.exclude_internal_topics,
            changed=self._changed,
        )
        self._owned = self._owned_by(context)
        self._actions: ClaimActions = ClaimActions(
            session=self.session,
            group=self._reader,
            claims=self._claims,
            commits=self.commits,
            store=self._store,
            owned=self._owned,
            config=config,
            on_event=context.on_event,
            closing=self._closing,
        )
        self.member = self._member_of(ClaimingMember(config.alarm_after, config.backoff_ms))
        self.audit = Audit(
            member=self.member,
            group=self._reader,
            claims=self._claims,
            actions=self._actions,
            strategy=config.assignment_strategy,
            may_audit=self.may_commit,
            owner_lost=self._owner_lost,
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
        brokers = self.session.ask("read brokers", read_brokers, self._znodes)
        why = self._context.why_never(brokers.values())
        if why is not None:
            raise ConsumerError(f"{why}; nothing was registered")

    def _loops(self) -> Mapping[str, Callable[[], object]]:
        return {"member": self._run, "audit": self.audit.run, "offset-mode": self.mode.run}

    def _run(self) -> None:
        """Run until the member has left its group.  Raises FilterUnknown if that was the reason, after everything was
        released."""
        self.member.run()
        if self._actions.unrecoverable is not None:
            raise self._actions.unrecoverable

    def close(self) -> None:
        self._executor.close()
        self._store.close()
        self.session.close()

    # what the engine asks -----------------------------------------------------------------------------------------

    def may_commit(self) -> bool:
        return self.session.state is SessionState.CONNECTED

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
    def session_state(self) -> str:
        return self.session.state.value

    @property
    def _session_ms(self) -> int:
        return self._config.session_timeout_ms

    def _silence_s(self) -> float:
        heard = self._lease.heard_of
        return 0.0 if heard is None else clocks.boot() - heard

    def switch_offsets(self, mode: Mode) -> None:
        self.mode.switch(mode)

    def _subscribe(self, registration: Registration) -> None:
        self.mode.subscribe(registration)
        self._actions.subscribe(registration)

    @property
    def _subscribed(self) -> bool:
        return self._reader.subscribed

    def _retries(self) -> CommitRetries | None:
        config = self._config
        if not self._store.in_kafka:
            return None
        return CommitRetries(config.offsets_commit_retries, config.offsets_channel_backoff_ms / 1000, LAST_COMMIT_S)

    def _still_ours(self, tps: list[TopicPartition]) -> Sequence[TopicPartition]:
        """Return the partitions whose owner nodes in ZooKeeper are ours now; the others are dropped."""
        lost = self._claims.lost(tps)
        for tp in lost:
            self._owner_lost(tp)
        return [tp for tp in tps if tp not in lost and tp in self._claims.held]

    # callbacks; none of them waits --------------------------------------------------------------------------------

    def _session_state(self, state: SessionState) -> None:
        whose, connected = f"ZooKeeper at {self.session.hosts}", state is SessionState.CONNECTED
        text = f"the session with {whose} is {state.value}"
        self._report_session(state, whose, text, None if connected else f"the session is {state.value}")
        if state is SessionState.LOST:
            self._session_lost()
        elif connected:  # perhaps to the same session: all watches are gone
            self._mode_changed.set()
            self.fetchers.refresh()
            self._changed()
            self.audit.due.set()

    def _session_lost(self) -> None:
        self._claims.forget()
        self.member.lost(SessionLost())

    def _lease_over(self) -> None:
        self._claims.forget()
        self._fence(SessionLost(), f"lease over: no answer of ZooKeeper at {self.session.hosts} in time")

    def _owner_lost(self, tp: TopicPartition) -> None:
        """Drop a partition whose owner node is not ours any more: deliver no further message of it, and commit
        nothing."""
        if tp in self._owned.cursors:
            self._owned.cursors[tp].drop()
        text = f"{tp}: our owner node was deleted or changed; dropping the partition"
        self._on_event(ConsumerEvent("claim", text, tp))
        self.member.note(OwnerLost(frozenset([tp])))

    def _freed(self) -> None:
        self._actions.freed.set()

    def _changed(self) -> None:
        self.member.note(Changed())


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
