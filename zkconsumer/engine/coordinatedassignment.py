"""Group on Kafka's own coordinator as an assignment source: together with members of the Java consumer, no ZooKeeper.

connect    a broker answers; it and the configured release can coordinate groups; with zookeeper.connect, the group must
           have left ZooKeeper
leave      like every group; then all connections end
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from groundwork import clocks
from groundwork.tasks import TaskGroup, connect, now, sleep
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.retry import ONCE
from kafkawire.cluster.topicadmin import TopicAdmin
from kafkawire.cluster.view import ClusterView
from kafkawire.errors import WireError
from kafkawire.model import Broker, PartitionId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol.grouprequests import tells_rebalance_timeout
from kafkawire.znodes.group import Registration
from zkconsumer.engine.assignment import METADATA_MS, EngineContext
from zkconsumer.engine.groupassignment import GroupAssignment
from zkconsumer.engine.offsetstores import store_of_coordinated
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.currentleaders import CurrentLeaders, RefreshedLeaders
from zkconsumer.kafkagroup import requests
from zkconsumer.kafkagroup.heartbeats import Heartbeats
from zkconsumer.kafkagroup.joinactions import JoinActions
from zkconsumer.kafkagroup.lifecycle import JoiningMember
from zkconsumer.kafkagroup.offsets import ClaimedOffsets
from zkconsumer.kafkagroup.requests import MemberRequests
from zkconsumer.kafkagroup.topics import GroupTopics
from zkconsumer.member.steps import Changed, Claim, Fenced, Rebalancing
from zkconsumer.offsets.commits import CommitRetries
from zkconsumer.offsets.coordination import check_copied, must_have_left_zookeeper
from zkconsumer.offsets.modes import Mode
from zkconsumer.offsets.modeswitch import committed_partitions
from zkconsumer.options.config import LAST_COMMIT_MS
from zkconsumer.session.lease import Lease
from zkconsumer.session.zksession import SessionState, ZkSession


class CoordinatedAssignment(GroupAssignment):
    """Member of a group on Kafka's coordinator."""

    def __init__(self, context: EngineContext, on_fence: Callable[[], object]) -> None:
        super().__init__(context, on_fence)
        config = context.config
        self._registration = context.registration
        self._ended = False
        self._connect = config.kafka_security.connect(connect)
        asking = context.versions.connect(self._connect)
        self._links = Links(config.client_name, asking, min(config.socket_timeout_ms, METADATA_MS))
        self._seen = RefreshedLeaders(MetadataSource(config.brokers, context.dialect, self._links))
        self.leaders: CurrentLeaders = self._seen
        self._topics = GroupTopics(
            self.leaders, context.registration, context.consumer_id, config.exclude_internal_topics
        )
        self._requests = MemberRequests(
            group=config.group_id,
            client_name=config.client_name,
            dialect=context.dialect,
            brokers=self._brokers,
            connect=asking,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            sleep=sleep,
            now=now,
        )
        self._heartbeats = Heartbeats(
            self._requests,
            context.lease,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            on_rebalance=self._rebalancing,
            on_fenced=self._fenced,
            on_over=self._lease_over,
            on_state=self._state_changed,
        )
        self._store: ClaimedOffsets = store_of_coordinated(
            config=config,
            versions=context.versions,
            leaders=self.leaders,
            on_event=context.on_event,
            claim=lambda: self._heartbeats.claim,
            on_refused=self._commit_refused,
            on_accepted=self._heartbeats.committed,
            brokers=self._brokers,
            coordinator_of_member=lambda: self._requests.coordinator,
            executor=self._executor,
        )
        self.commits = context.commits(self._store, self._still_ours, self._retries)
        self.fetchers = context.fetchers(self.leaders)
        self._owned = self._owned_by(context)
        self._actions: JoinActions = JoinActions(
            members=self._requests,
            heartbeats=self._heartbeats,
            topics=self._topics,
            owned=self._owned,
            config=config,
            on_event=context.on_event,
        )
        self.member = self._member_of(JoiningMember(config.alarm_after, config.backoff_ms))

    def _rebalance_timeout_ms(self) -> int:
        """Return how long the coordinator waits for us to join: before 0.10.1 as long as a session."""
        return self._session_timeout_ms() if self._are_old else self._config.rebalance_timeout_ms

    def _session_timeout_ms(self) -> int:
        return self._config.group_session_ms(self._are_old)

    @property
    def _are_old(self) -> bool:
        """True if the brokers are 0.9 or 0.10.0, which know only the session timeout (before KIP-62)."""
        return self._dialect.coordinates_groups and not tells_rebalance_timeout(self._dialect)

    def _brokers(self) -> Sequence[Broker]:
        """Return the brokers to ask for the coordinator: all that were seen, and the bootstrap brokers.  This sends no
        request, because a heartbeat may wait for the result."""
        bootstrap = [Broker(-1 - n, host, port) for n, (host, port) in enumerate(self._config.brokers)]
        by_address = {(broker.host, broker.port): broker for broker in (*bootstrap, *self._seen.brokers)}
        return list(by_address.values())

    # start and end ------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        self._context.first_metadata(self._topics.read, self._brokers(), lambda: self._ended, "; nothing was joined")
        if not self._dialect.coordinates_groups:
            raise ConsumerError(
                f"coordination kafka: the brokers are of Kafka {self._dialect.release}, which coordinates no groups;"
                " those of 0.9 and later do: take coordination zookeeper; nothing was joined"
            )
        if self._config.zookeeper_connect:
            self._must_have_left_zookeeper()

    def _must_have_left_zookeeper(self) -> None:
        """Raise StillInZooKeeper if the group has members, or offsets of its own, in ZooKeeper."""
        config, tasks = self._config, TaskGroup()
        session = ZkSession(
            config.zookeeper_connect,
            session_timeout_ms=config.session_timeout_ms,
            connection_timeout_ms=config.connect_timeout_ms,
            tasks=tasks,
            lease=Lease(),
            access=config.security,
        )
        try:
            session.start()
            must_have_left_zookeeper(session, self._dialect, config.group_id)
            held = committed_partitions(
                session, self._dialect, config.group_id, self._registration, config.exclude_internal_topics
            )
            check_copied(config.group_id, self._store.read(config.group_id, held) if held else {})
        finally:
            tasks.stop(1.0)
            session.close()

    def _loops(self) -> Mapping[str, Callable[[], object]]:
        beats = {"heartbeats": self._heartbeats.run, "lease": self._heartbeats.guard}
        return {**beats, "topics": self._watch_topics, "member": self.member.run}

    def _watch_topics(self) -> None:
        """Read the topics again each metadata.max.age.ms, while we are a member; changes make the group rebalance."""
        while True:
            sleep(self._config.metadata_max_age_ms / 1000)
            turn = self.member.state.turn
            if not self.member.settled:
                continue  # each join reads them
            try:
                changed = self._actions.changed()
            except (ConsumerError, WireError):
                continue  # the leader finder reports unreachable brokers
            if changed and self.member.state.turn == turn:
                text = "topics or partitions have changed since they were assigned"
                self._on_event(ConsumerEvent("rebalance", text))
                self.member.note(Changed())

    def close(self) -> None:
        self._ended = True
        self._heartbeats.end()
        self._store.close()
        self._executor.close()
        self._requests.end()
        self._links.end()

    # what the engine asks -----------------------------------------------------------------------------------------

    def may_commit(self) -> bool:
        return self._heartbeats.claim is not None and self._heartbeats.state is SessionState.CONNECTED

    def ask(self, what: str, question: Callable[..., Any], *args: object) -> Any:
        raise ConsumerError(f"cannot {what}: with coordination kafka there is no ZooKeeper")

    def topics(self) -> list[str]:
        return sorted(self._view().topics)

    def partitions(self, topics: Collection[str]) -> Mapping[str, Mapping[PartitionId, Sequence[int]]]:
        found = {topic: partitions for topic, partitions in self._view().topics.items() if topic in topics}
        return {topic: {p: seen.replicas for p, seen in partitions.items()} for topic, partitions in found.items()}

    def settings(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        links = Links(self._config.client_name, self._versions.connect(self._connect), METADATA_MS)
        source = MetadataSource(self._config.brokers, self._dialect, links)
        admin = TopicAdmin(source, links, self._dialect, retry=ONCE, sleep=sleep, now=now)
        try:
            return admin.settings(topics) if admin.describes else {}
        except WireError as e:
            raise ConsumerError(f"the settings of topics cannot be read: {e}") from e
        finally:
            links.close()

    def owners(self, topics: Collection[str]) -> Mapping[TopicPartition, str]:
        try:
            found = self._requests.describe().owners()
        except WireError as e:
            raise ConsumerError(f"the group's coordinator does not say who owns what: {e}") from e
        return {tp: who for tp, who in found.items() if tp.topic in topics}

    def _view(self) -> ClusterView:
        try:
            return self.leaders.read(None)
        except WireError as e:
            raise ConsumerError(f"the topics cannot be read: {e}") from e

    @property
    def session_state(self) -> str:
        return self._heartbeats.state.value

    @property
    def _session_ms(self) -> int:
        return min(self._session_timeout_ms(), self._rebalance_timeout_ms())

    def _silence_s(self) -> float:
        if self._away_since is None:
            return 0.0
        heard = self._lease.heard_of
        return now() - self._away_since if heard is None else clocks.boot() - heard

    def switch_offsets(self, mode: Mode) -> None:
        if mode != "kafka":
            raise ConsumerError(
                f"offsets cannot go to {mode}: a group that Kafka's coordinator keeps has them in Kafka alone"
            )

    def _subscribe(self, registration: Registration) -> None:
        self._actions.subscribe(registration)

    def _retries(self) -> CommitRetries:
        config = self._config
        backoff_s = config.offsets_channel_backoff_ms / 1000
        return CommitRetries(config.offsets_commit_retries, backoff_s, LAST_COMMIT_MS / 1000)

    def _still_ours(self, tps: list[TopicPartition]) -> Sequence[TopicPartition]:
        return tps  # Kafka has no foreign writers: the coordinator refuses them

    # callbacks; none of them waits --------------------------------------------------------------------------------

    def _rebalancing(self, claim: Claim) -> None:
        self.member.note(Rebalancing(claim))

    def _fenced(self, claim: Claim, code: int) -> None:
        """Fence this member, because the coordinator does not count it any more."""
        why = f"{self._requests.refused(code)}; this member was fenced from {claim}"
        self._fence(Fenced(claim, forget=code == requests.NO_MEMBER), why)

    def _lease_over(self, claim: Claim) -> None:
        self._fence(Fenced(claim), f"lease over: {self._heartbeats.over_why}")

    def _commit_refused(self, claim: Claim, code: int) -> None:
        if code == requests.REBALANCING:
            self._rebalancing(claim)
        elif code in requests.DOUBTFUL:
            self._heartbeats.doubt(claim)
        elif claim is self._heartbeats.claim:
            self._heartbeats.lost(self._requests.refused(code))
            self._fenced(claim, code)

    def _state_changed(self, state: SessionState, why: str) -> None:
        whose = f"the coordinator of group {self._config.group_id}"
        text = f"the session with {whose}, {self._requests.coordinator or 'not known now'}, is {state.value}"
        away = why if state is SessionState.SUSPENDED else None
        self._report_session(state, whose, text + (f": {why}" if why else ""), away)
