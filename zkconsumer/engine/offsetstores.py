"""Choice of a connector's offset store by its options; only this module decides it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from groundwork.executor import ThreadExecutor
from groundwork.options import OptionError
from groundwork.tasks import connect, now, sleep
from groundwork.threads import NoThread
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.leaders import LeaderSource
from kafkawire.cluster.listoffsets import EARLIEST, problems
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.dialects import Dialect
from kafkawire.errors import WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.net.security import OPEN, Security
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.group.topicnodes import read_creations
from zkconsumer.kafkagroup.offsets import ClaimedOffsets
from zkconsumer.member.steps import Claim
from zkconsumer.offsetlog import committed_rows, last_commit_times
from zkconsumer.offsets.coordinator import CommittedRow, Coordinator
from zkconsumer.offsets.file import FileOffsets
from zkconsumer.offsets.former import TopicCreation
from zkconsumer.offsets.group import GroupOffsets
from zkconsumer.offsets.kafka import KafkaOffsets
from zkconsumer.offsets.migrationmarker import MarkerUnclear, marker_path, read_marker
from zkconsumer.offsets.store import Committed, OffsetStore
from zkconsumer.offsets.threaded import ThreadedOffsets
from zkconsumer.offsets.zookeeper import ZookeeperOffsets
from zkconsumer.options.config import ConsumerConfig
from zkconsumer.session.lease import Lease
from zkconsumer.session.zksession import ZkSession

log = logging.getLogger(__name__)
V = TypeVar("V")

READ_RETRIES = 10  # for a member that has claimed its partitions; then the rebalance is retried
LOG_S = 10.0  # limit for reading __consumer_offsets if a coordinator before 0.11 may have missed commits
COMMIT_TIMES_S = 3.0  # limit for reading it otherwise: a rebalance waits
COMMIT_RETRIES = 1  # for a coordinator that moved; zkconsumer.offsets.commits decides how often to retry


def store_of_group(
    *,
    config: ConsumerConfig,
    session: ZkSession,
    versions: ClusterVersions,
    leaders: LeaderSource,
    on_event: OnEvent,
    on_commit: Callable[[], object],
    read_from: Callable[[TopicPartition], TopicCreation | None],
    may_be_recreated: Callable[[str], bool],
    executor: ThreadExecutor,
) -> GroupOffsets:
    """Return a member's store, by offsets.storage and dual.commit.enabled; the store that counts may change at runtime.

    leaders: of the cluster that is read; any of its brokers knows the group's coordinator. read_from(tp): the topic
    whose log an owned partition is read from; may_be_recreated(topic): True if it may be recreated since then.
    executor: for calls that block.
    """
    dialect = versions.dialect
    asking = versions.connect(config.kafka_security.connect(connect))
    links = Links(config.client_name, asking, config.offsets_channel_timeout_ms)
    channel = _Channel(leaders, links, dialect, on_event)
    backoff_ms, timeout_ms = config.offsets_channel_backoff_ms, config.offsets_channel_timeout_ms

    def coordinator(retries: int) -> Coordinator:
        limit_ms = retries * backoff_ms + timeout_ms
        return Coordinator(
            channel.brokers, links, dialect, retries, backoff_ms, limit_ms, sleep=sleep, now=now, tell=channel.report,
        )  # fmt: skip

    def report(tp: TopicPartition, sentence: str) -> None:
        on_event(ConsumerEvent("offset", sentence, tp))

    def creations(topics: Collection[str]) -> Mapping[str, TopicCreation]:
        return read_creations(session, dialect, topics)

    records = GroupRecords(channel.addresses, dialect, executor, config.kafka_security)
    kafka = _KafkaStore(
        KafkaOffsets(
            coordinator(READ_RETRIES),
            commits=coordinator(COMMIT_RETRIES),
            retention_ms=_retention_ms(config),
            creations=creations,
            read_from=read_from,
            commit_times=records.commit_times,
            in_log=records.rows,
            bounds=channel.bounds,
            report=report,
        ),
        channel.works,
    )
    zookeeper = ZookeeperOffsets(
        session, dialect.znodes, creations=creations, read_from=read_from, may_be_recreated=may_be_recreated
    )
    return GroupOffsets(
        config.offset_mode,
        zookeeper,
        kafka,
        copy=config.offsets_migrate == "copy",
        bounds=channel.bounds,
        report=report,
        on_commit=on_commit,
        close=links.end,
        cut=links.close,
        left_zookeeper=lambda group: _left_zookeeper(session, group),
        deleted=zookeeper.deleted,
        read_beside=kafka.read_beside,
    )


def store_of_coordinated(
    *,
    config: ConsumerConfig,
    versions: ClusterVersions,
    leaders: LeaderSource,
    on_event: OnEvent,
    claim: Callable[[], Claim | None],
    on_refused: Callable[[Claim, int], object],
    on_accepted: Callable[[Claim, float], object],
    brokers: Callable[[], Sequence[Broker]],
    coordinator_of_member: Callable[[], Broker | None],
    executor: ThreadExecutor,
) -> ClaimedOffsets:
    """Return the store for a member of a group on Kafka's coordinator.

    For claim, on_refused and on_accepted, see ClaimedOffsets.  executor: for calls that block.

    brokers: brokers to ask for the coordinator; coordinator_of_member: the coordinator that the member found, so that a
    member which joined at a new coordinator does not look for its offsets at the former one first.
    """
    dialect = versions.dialect
    asking = versions.connect(config.kafka_security.connect(connect))
    links = Links(config.client_name, asking, config.offsets_channel_timeout_ms)
    channel = _Channel(leaders, links, dialect, on_event)
    backoff_ms, timeout_ms = config.offsets_channel_backoff_ms, config.offsets_channel_timeout_ms

    def addresses() -> list[tuple[str, int]]:
        return [(broker.host, broker.port) for broker in brokers()]

    def member() -> tuple[int, str]:
        current = claim()
        return (-1, "") if current is None else (current.generation, current.member_id)

    def coordinator(retries: int) -> Coordinator:
        limit_ms = retries * backoff_ms + timeout_ms
        return Coordinator(
            brokers, links, dialect, retries, backoff_ms, limit_ms, sleep=sleep, now=now, tell=channel.report,
            member=member, told=coordinator_of_member,
        )  # fmt: skip

    store = _KafkaStore(
        KafkaOffsets(
            coordinator(READ_RETRIES),
            commits=coordinator(COMMIT_RETRIES),
            retention_ms=_retention_ms(config),
            in_log=GroupRecords(addresses, dialect, executor, config.kafka_security).rows,
            bounds=channel.bounds,
            report=lambda tp, sentence: on_event(ConsumerEvent("offset", sentence, tp)),
        ),
        channel.works,
    )
    return ClaimedOffsets(store, claim, on_refused, close=links.end, cut=links.close, on_accepted=on_accepted)


class GroupRecords:
    """Commits of a group as recorded in __consumer_offsets, read in the executor's thread.

    Missing records, and records that cannot be read within the time, are left out and logged.
    """

    def __init__(
        self,
        addresses: Callable[[], Sequence[tuple[str, int]]],
        dialect: Dialect,
        executor: ThreadExecutor,
        security: Security = OPEN,
    ) -> None:
        self._addresses = addresses
        self._dialect = dialect
        self._executor = executor
        self._security = security

    def commit_times(self, group: str, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return when offsets were last committed, in ms since 1970."""
        effect = "they count as offsets of the topics of today"
        return self._read(last_commit_times, group, tps, COMMIT_TIMES_S, "when", effect)

    def rows(self, group: str, tps: Collection[TopicPartition]) -> dict[TopicPartition, CommittedRow]:
        """Return the newest commits; a row of NONE if there is none."""
        limit_s = LOG_S if self._dialect.may_miss_commits else COMMIT_TIMES_S
        effect = f"the log was not read to its beginning within {limit_s:g} s"
        return self._read(committed_rows, group, tps, limit_s, "whether", effect)

    def _read(
        self, read: Callable[..., dict[TopicPartition, V]], group: str, tps: Collection[TopicPartition], limit_s: float,
        asked: str, effect: str,
    ) -> dict[TopicPartition, V]:  # fmt: skip
        look = partial(read, security=self._security)
        try:
            found = self._executor.call(look, self._addresses(), self._dialect.release, group, set(tps), limit_s)
        except (WireError, NoThread) as why:
            log.info("%s offsets of group %s were committed to Kafka is not known: %s", asked, group, why)
            return {}
        if len(found) < len(tps):
            log.info(
                "%s %d offsets of group %s were committed to Kafka is not known, the first %s: %s",
                asked,
                len(tps) - len(found),
                group,
                min(set(tps) - found.keys()),
                effect,
            )
        return found


def _left_zookeeper(session: ZkSession, group: str) -> bool:
    """True if a migration's marker says that the group left ZooKeeper.  Raises ZooKeeperAway."""
    path = marker_path(group)
    node = session.read([path])[path]
    try:
        return node is not None and read_marker(group, node.data).left_zookeeper
    except MarkerUnclear as unclear:
        log.warning("%s", unclear)
        return False


def _retention_ms(config: ConsumerConfig) -> int | None:
    return None if config.offsets_retention_ms < 0 else config.offsets_retention_ms


class _KafkaStore:
    """Offset store in Kafka.  works(): called when the coordinator answered."""

    def __init__(self, store: KafkaOffsets, works: Callable[[], object]) -> None:
        self._store = store
        self._works = works

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        found = self._store.read(group, tps)
        self._works()
        return found

    def read_beside(
        self, group: str, there: Mapping[TopicPartition, int], others: bool
    ) -> dict[TopicPartition, Committed]:
        return self._store.read_beside(group, there, others)

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        results = self._store.commit(group, positions, lease)
        if any(why is None for why in results.values()):
            self._works()
        return results


class _Channel:
    """Brokers to ask for the coordinator, the bounds of logs, and reports while the coordinator is unreachable."""

    def __init__(self, leaders: LeaderSource, links: Links, dialect: Dialect, on_event: OnEvent) -> None:
        self._leaders = leaders
        self._client = KafkaClient(leaders, links, dialect)
        self._on_event = on_event
        self._brokers: list[Broker] = []
        self._reported = ""

    def brokers(self) -> list[Broker]:
        """Return the registered brokers; while they cannot be read, the last known ones."""
        try:
            self._brokers = list(self._leaders.read(()).brokers.values())
        except (ConsumerError, WireError) as why:
            log.info("using the brokers as last seen: %s", why)
        return self._brokers

    def addresses(self) -> list[tuple[str, int]]:
        return [(broker.host, broker.port) for broker in self.brokers()]

    def report(self, sentence: str) -> None:
        """Report a sentence once, until a request works again."""
        if sentence != self._reported:
            self._reported = sentence
            self._on_event(ConsumerEvent("offset", f"offsets in Kafka: {sentence}"))

    def works(self) -> None:
        self._reported = ""

    def bounds(self, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first offset and the end of the logs whose leaders answer."""
        wanted = list(committed)
        try:
            first = self._client.list_offsets(dict.fromkeys(wanted, EARLIEST), refresh=True)
            end = self._client.list_ends(committed)
        except (ConsumerError, WireError) as why:
            log.info("the bounds of %s are not known: %s", ", ".join(map(str, wanted)), why)
            return {}
        for sentence in (*problems(first), *problems(end)):
            log.info(sentence)
        bounds = {tp: (first[tp].offset, end[tp].offset) for tp in wanted}
        return {tp: (begin, until) for tp, (begin, until) in bounds.items() if begin is not None and until is not None}


def store_of_fixed(config: ConsumerConfig, own: OffsetStore | None, executor: ThreadExecutor) -> OffsetStore:
    """Return the store of fixed partitions: the program's own, or the file of offsets.file."""
    if own is not None:
        return ThreadedOffsets(own, executor)
    assert config.offsets_file is not None  # guaranteed by check_store
    return ThreadedOffsets(FileOffsets(config.offsets_file), executor)


def check_store(config: ConsumerConfig, own: OffsetStore | None, where: str) -> None:
    """Raise OptionError if fixed partitions have no store, or two stores."""
    if not config.partitions:
        problem = "offset_store is for fixed 'partitions': a group keeps its offsets where its other members read them"
        wrong = own is not None
    elif own is None:
        problem = "fixed 'partitions' need a place for their positions: give 'offsets.file', or an offset_store"
        wrong = config.offsets_file is None
    else:
        problem = "'offsets.file' and an offset_store are both given; keep one of them"
        wrong = config.offsets_file is not None
    if wrong:
        raise OptionError([f"{where}: {problem}"])
