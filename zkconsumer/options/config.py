"""Options of a consumer, by the names of 0.8 and of 0.7; then the rules between them.

Kafka's own defaults are kept, with one exception: where no offset is stored and nothing is chosen, 0.8 starts at the
end and skips what is there.  So auto.offset.reset has no default here, but a JVM's .properties file keeps its meaning
(load_consumer).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

from groundwork.options import ERROR, given, load, option, specs, warnings_of
from groundwork.optionvalues import filled, positive_ms
from groundwork.zkconnect import connect_string
from groundwork.zksecurity import ZkSecurity, security_of, security_problems
from kafkawire import optiontypes, securityoptions
from kafkawire.dialects import Dialect, expected
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from kafkawire.net.security import PLAINTEXT
from kafkawire.securityoptions import SecurityOptions, broker_security_problems
from zkconsumer.offsets.modes import Mode, mode_of

JVM_ONLY: Final = {
    "shallowiterator.enable": "compressed sets are passed on whole if possible",
    "mirror.topics.whitelist": "topics are chosen by the whitelist of the mirror or of the streams",
    "mirror.topics.blacklist": "topics are chosen by the blacklist of the mirror or of the streams",
    "mirror.consumer.numthreads": "streams are counted by num.streams",
}

NEWER: Final = {
    "enable.auto.commit": "auto.commit.enable",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "fetch.max.bytes": "queued.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.poll.records": "queued.max.bytes bounds what is fetched ahead",
    "max.poll.interval.ms": "nothing: a slow reader keeps its partitions",
    "heartbeat.interval.ms": "nothing: it follows from session.timeout.ms, or zookeeper.session.timeout.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "key.deserializer": "nothing: keys are bytes",
    "value.deserializer": "nothing: values are bytes",
    **securityoptions.NEWER,
}

KAFKA_ONLY: Final = (  # options of offsets in Kafka
    "offsets.channel.backoff.ms",
    "offsets.channel.socket.timeout.ms",
    "offsets.commit.max.retries",
    "offsets.retention.ms",
    "offsets.migrate.on.start",
)

WAITED_FOR: Final = {"fetcher.backoff.ms": "a broker holds a fetch that has nothing new, see fetch.wait.max.ms"}
AT_ONCE: Final = dict.fromkeys(  # of a release that never waits
    ("fetch.wait.max.ms", "fetch.min.bytes"), "its brokers answer at once, see fetcher.backoff.ms"
)

KAFKA_COORDINATION_ONLY: Final = ("session.timeout.ms", "rebalance.timeout.ms", "metadata.max.age.ms")

GROUP_ONLY: Final = {  # options that fixed partitions have no use for: a warning when a file gives one
    **dict.fromkeys(("partition.assignment.strategy", "exclude.internal.topics"), "the list says what is read"),
    **dict.fromkeys(("rebalance.max.retries", "rebalance.backoff.ms"), "there is no group to share with"),
    **dict.fromkeys(KAFKA_ONLY, "positions are kept in 'offsets.file', or by the program's own store"),
    **dict.fromkeys(
        (
            "zookeeper.session.timeout.ms",
            "zookeeper.connection.timeout.ms",
            "zookeeper.sync.time.ms",
            "zookeeper.auth",
            "zookeeper.set.acl",
            "zookeeper.ssl.client.enable",
            "zookeeper.ssl.ca.location",
            "zookeeper.ssl.certificate.location",
            "zookeeper.ssl.key.location",
            "zookeeper.ssl.key.password",
            "zookeeper.ssl.verify",
        ),
        "there is no ZooKeeper",
    ),
    **dict.fromkeys(("coordination", *KAFKA_COORDINATION_ONLY), "there is no group to share with"),
}

NOT_COORDINATED: Final = {  # options without use in a group on Kafka's coordinator: a warning when a file gives one
    **{key: why for key, why in GROUP_ONLY.items() if key.startswith("zookeeper.")},
    "offsets.migrate.on.start": "there is no ZooKeeper",
    "consumer.id": "the coordinator gives a member its id",
}

QUEUED_MAX_BYTES = 67108864
COORDINATED_BACKOFF_MS = 500  # of a group on Kafka's coordinator
GROUP_SESSION_MS = 45000  # as the Java consumer's from 3.0 on (KIP-735): it outlasts a crash of the coordinator
OLD_GROUP_SESSION_MS = 30000  # the longest that brokers of 0.9 and 0.10.0 take as they come
JAVA_ASSIGNORS = {
    f"org.apache.kafka.clients.consumer.{name}assignor": name for name in ("range", "roundrobin", "sticky")
}  # of partition.assignment.strategy, as lower case
# Of revoked partitions, while a coordinator is away: JVM members wait about 8 s for them.  A coordinator answers after
# 5 s that the replicas did not confirm a commit (offsets.commit.timeout.ms), and then it is tried once more.
LAST_COMMIT_MS = 7000
NEWER_RESETS = {"earliest": "smallest", "latest": "largest", "none": "fail"}  # of auto.offset.reset


@dataclass(frozen=True, slots=True)
class ConsumerConfig(SecurityOptions):
    """Options of one ConsumerConnector.  Make it with load_consumer, or by keyword in Python."""

    JVM_ONLY: ClassVar[Mapping[str, str]] = JVM_ONLY
    NEWER: ClassVar[Mapping[str, str]] = NEWER

    # the cluster: which one, as whom, from where
    group_id: str = option("group.id", "", "consumer group", old="groupid", kind=optiontypes.name, required=True)
    zookeeper_connect: str = option(
        "zookeeper.connect",
        "",
        "ZooKeeper of the cluster to read: host:port,host:port/chroot; optional with coordination kafka, to check"
        " at the start that the group has left it",
        old="zk.connect",
        kind=connect_string,
        required=True,
        instead=("partitions", "coordination"),
    )
    coordination: str = option(
        "coordination",
        "zookeeper",
        "who coordinates the group: zookeeper, as for consumers of 0.7 and 0.8; kafka, its own coordinator (0.9 "
        "and later), as for the Java consumer",
        choices=("zookeeper", "kafka"),
    )
    version: str = option(
        "kafka.version", "", "Kafka release of the brokers; default: they are asked", kind=optiontypes.release
    )
    partitions: tuple[TopicPartition, ...] = option(
        "partitions",
        (),
        "fixed partitions, read without a group and without ZooKeeper: {orders: [0, 3], payments: [1]}, "
        "or as text orders:0,3;payments:1; in 0.7 broker-index: orders:0-0,0-1,1-0",
        kind=optiontypes.partitions,
    )
    brokers: tuple[tuple[str, int], ...] = option(
        "bootstrap.servers",
        (),
        "bootstrap brokers, with coordination kafka and for fixed partitions: host:port,…",
        old="metadata.broker.list",
        kind=optiontypes.brokers,
    )
    broker_list: tuple[Broker, ...] = option(
        "broker.list",
        (),
        "brokers of fixed partitions of 0.7, which do not know each other: id:host:port,…",
        kind=optiontypes.numbered_brokers,
    )
    offsets_file: str | None = option(
        "offsets.file",
        None,
        "file that keeps the offsets of fixed partitions, by group; its folder must exist",
        kind=filled,
    )
    auto_offset_reset: str = option(
        "auto.offset.reset",
        "",
        "first offset if none is committed or it is outside the log: smallest, largest, or fail, which parks a "
        "partition whose offset is outside (and begins at the smallest if none is committed)",
        old="autooffset.reset",
        choices=("smallest", "largest", "fail"),
        required=True,
        newer=NEWER_RESETS,
    )
    consumer_id: str | None = option(
        "consumer.id",
        None,
        "fixed part of the member id, in place of host, time and a random number; for tests only: a "
        "restart within the session timeout meets its own old nodes",
        old="consumerid",
        kind=optiontypes.name,
    )
    client_id: str | None = option("client.id", None, "client name in the brokers' logs (default: the group)")

    session_timeout_ms: int = option(
        "zookeeper.session.timeout.ms",
        6000,
        "session timeout: silence after which ZooKeeper deletes our nodes and other members take our partitions",
        "ms",
        old=("zk.sessiontimeout.ms", "zk.session.timeout.ms"),
        least=100,
    )
    connection_timeout_ms: int | None = option(
        "zookeeper.connection.timeout.ms",
        None,
        "timeout of the first connection to ZooKeeper (default: the session timeout)",
        "ms",
        old=("zk.connectiontimeout.ms", "zk.connection.timeout.ms"),
        kind=positive_ms,
    )
    group_session_timeout_ms: int = option(
        "session.timeout.ms",
        GROUP_SESSION_MS,
        "with coordination kafka: silence after which the coordinator gives our partitions to other members (a "
        "shorter rebalance.timeout.ms counts once another joins); brokers accept 6 s to 5 min or more "
        "(group.min.session.timeout.ms, group.max.session.timeout.ms), before 0.10.1 up to 30 s, the default "
        "there",
        "ms",
        least=1000,
    )
    rebalance_timeout_ms: int = option(
        "rebalance.timeout.ms",
        60000,
        "with coordination kafka: how long the coordinator waits for a member to finish, commit and join a "
        "rebalance (before 0.10.1 it waits session.timeout.ms)",
        "ms",
        least=1000,
    )
    metadata_max_age_ms: int = option(
        "metadata.max.age.ms",
        30000,
        "with coordination kafka: time between two checks for new topics and partitions",
        "ms",
        least=100,
    )
    zookeeper_set_acl: bool = option(
        "zookeeper.set.acl",
        False,
        "make our nodes writable with these credentials only, and readable by all; for groups whose members all "
        "have them",
        behind="zookeeper.connect",
    )

    # the group, fetching, delivery, offsets
    sync_time_ms: int = option(
        "zookeeper.sync.time.ms",
        2000,
        "default of rebalance.backoff.ms",
        "ms",
        old=("zk.synctime.ms", "zk.sync.time.ms"),
        least=1,
    )
    rebalance_max_retries: int = option(
        "rebalance.max.retries",
        4,
        "failed rebalances in a row after which an alarm is raised; retries continue; never fewer than fit into "
        "zookeeper.session.timeout.ms, for which a dead member holds its share",
        old="rebalance.retries.max",
        least=1,
    )
    rebalance_backoff_ms: int | None = option(
        "rebalance.backoff.ms",
        None,
        "longest backoff before a rebalance is retried; ends sooner when the partition is released "
        "(default: zookeeper.sync.time.ms; with coordination kafka 500)",
        "ms",
        kind=positive_ms,
    )
    rebalance_drain_ms: int = option(
        "rebalance.drain.ms",
        3000,
        "how long delivered messages of a revoked partition may take to be done; JVM members wait about 6 s for it",
        "ms",
        least=0,
    )
    assignment_strategy: str = option(
        "partition.assignment.strategy",
        "range",
        "partition assignment strategy; the same at all members of the group; sticky with coordination kafka only",
        choices=("range", "roundrobin", "sticky"),
        newer=JAVA_ASSIGNORS,
    )
    exclude_internal_topics: bool = option(
        "exclude.internal.topics",
        True,
        "topic filters, ours and other members', leave out internal topics (__consumer_offsets, __transaction_state)",
    )

    socket_timeout_ms: int = option(
        "socket.timeout.ms", 30000, "silence of a broker after which its connection is closed", "ms", least=1
    )
    receive_buffer_bytes: int = option(
        "socket.receive.buffer.bytes",
        0,
        "receive buffer of a broker connection; 0: the operating system's choice, which is faster on long links",
        "bytes",
        old="socket.buffersize",
        least=0,
    )
    fetch_message_max_bytes: int = option(
        "fetch.message.max.bytes",
        1048576,
        "bytes asked of one partition in a fetch",
        "bytes",
        old="fetch.size",
        least=1024,
    )
    fetch_growth_max_bytes: int = option(
        "fetch.growth.max.bytes",
        33554432,
        "largest fetch for one large message; a partition with a larger one is parked (up to 0.10.0: later brokers "
        "send a large one whole)",
        "bytes",
        least=1024,
    )
    queued_max_bytes: int = option(
        "queued.max.bytes",
        QUEUED_MAX_BYTES,
        "bytes fetched and not yet done, of all partitions together",
        "bytes",
        least=65536,
    )
    queued_max_chunks: int = option(
        "queued.max.message.chunks",
        2,
        "fetches of one partition that may wait to be read; a partition that holds more bytes is not fetched",
        old="queuedchunks.max",
        least=1,
    )
    fetchers: int = option(
        "num.consumer.fetchers",
        1,
        "fetch connections to each source broker; a partition is pinned to one while the broker leads it",
        least=1,
    )
    fetch_min_bytes: int = option(
        "fetch.min.bytes", 1, "bytes that a broker waits for before it responds", "bytes", least=0
    )
    fetch_wait_max_ms: int = option(
        "fetch.wait.max.ms", 100, "longest wait of a broker for fetch.min.bytes", "ms", least=0
    )
    fetcher_backoff_ms: int = option(
        "fetcher.backoff.ms",
        1000,
        "backoff after an empty fetch from 0.7, whose brokers respond at once",
        "ms",
        old="backoff.increment.ms",
        least=1,
    )
    refresh_leader_backoff_ms: int = option(
        "refresh.leader.backoff.ms",
        200,
        "backoff between two requests for the leader of a partition without one",
        "ms",
        least=1,
    )

    check_crcs: bool = option("check.crcs", True, "compute the checksum of each message that is delivered")
    isolation_level: str = option(
        "isolation.level",
        "read_committed",
        "messages of transactions (brokers of 0.11 and later): read_committed delivers committed ones, up to an "
        "open transaction; read_uncommitted delivers all, also aborted ones",
        choices=("read_committed", "read_uncommitted"),
    )
    corrupt_policy: str = option(
        "corrupt.message.policy",
        "park",
        "policy for a message that stays damaged after three more fetches: park its partition, skip and "
        "count it, or fail: the stream raises DamagedMessage",
        choices=("park", "skip", "fail"),
    )

    delivery: str = option(
        "delivery",
        "at-least-once",
        "when a message is done: at-least-once, when its reader asks for the next one (or acknowledges "
        "it); on-ack, only when it is acknowledged; at-most-once, before it is delivered, and lost if "
        "the reader dies",
        choices=("at-least-once", "on-ack", "at-most-once"),
    )
    listener_timeout_ms: int = option(
        "listener.timeout.ms",
        3000,
        "longest wait for a call of the rebalance listener",
        "ms",
        least=1,
    )
    auto_commit: bool = option(
        "auto.commit.enable",
        True,
        "commit what is done on a timer, when partitions are revoked and at the stop",
        old="autocommit.enable",
    )
    auto_commit_interval_ms: int = option(
        "auto.commit.interval.ms", 60000, "time between two commits", "ms", old="autocommit.interval.ms", least=1
    )
    offsets_storage: str = option(
        "offsets.storage",
        "zookeeper",
        "offset store; a running group changes it through dual.commit.enabled, one member after the other; with "
        "coordination kafka always kafka",
        choices=("zookeeper", "kafka"),
    )
    dual_commit: bool | None = option(
        "dual.commit.enabled",
        None,
        "with kafka: commit to both stores and begin at the larger offset (default: true, as in the "
        "JVM); no effect with zookeeper",
    )
    offsets_channel_backoff_ms: int = option(
        "offsets.channel.backoff.ms",
        1000,
        "backoff before the group's coordinator is asked, or looked up, again",
        "ms",
        least=1,
    )
    offsets_channel_timeout_ms: int = option(
        "offsets.channel.socket.timeout.ms",
        10000,
        "silence of the coordinator after which its connection is closed",
        "ms",
        least=100,
    )
    offsets_commit_retries: int = option(
        "offsets.commit.max.retries",
        5,
        "retries of a commit to Kafka when partitions are revoked and at the stop; on the timer it is "
        "retried each second",
        least=0,
    )
    offsets_retention_ms: int = option(
        "offsets.retention.ms",
        -1,
        "offset retention time in Kafka; -1: the brokers', a day by default; sent to 0.8.2 only if longer than a "
        "day, by this machine's clock",
        "ms",
        least=-1,
    )
    offsets_migrate: str = option(
        "offsets.migrate.on.start",
        "refuse",
        "with offsets in Kafka alone, if only ZooKeeper has some: refuse to start, or copy them to Kafka",
        choices=("refuse", "copy"),
    )
    metrics_enable: bool = option(
        "metrics.enable",
        False,
        "export metrics of this consumer through prometheus-client's default registry",
    )
    consumer_timeout_ms: int = option(
        "consumer.timeout.ms", -1, "how long an iterator waits before it raises ConsumerTimeout; -1: for ever", "ms"
    )

    @property
    def connect_timeout_ms(self) -> int:
        return self.session_timeout_ms if self.connection_timeout_ms is None else self.connection_timeout_ms

    @property
    def security(self) -> ZkSecurity:
        """ZooKeeper credentials, TLS and ACL of a session."""
        return security_of(self, self.zookeeper_set_acl)

    @property
    def reads_committed(self) -> bool:
        """Whether messages of transactions are read only once they are committed."""
        return self.isolation_level == "read_committed"

    @property
    def coordinated(self) -> bool:
        """A member of a group that Kafka's coordinator keeps."""
        return self.coordination == "kafka" and not self.partitions

    def group_session_ms(self, old: bool) -> int:
        """Session timeout of a group on Kafka's coordinator.  old: the brokers are of 0.9 or 0.10.0."""
        chosen = self.group_session_timeout_ms != GROUP_SESSION_MS or "session.timeout.ms" in given(self)
        return OLD_GROUP_SESSION_MS if old and not chosen else self.group_session_timeout_ms

    @property
    def client_name(self) -> str:
        return self.client_id or self.group_id

    @property
    def offset_mode(self) -> Mode:
        """zookeeper, dual or kafka: both options of the store as one value."""
        if self.coordinated:
            return "kafka"
        return mode_of(self.offsets_storage, self.dual_commit)

    @property
    def backoff_ms(self) -> int:
        default_ms = COORDINATED_BACKOFF_MS if self.coordinated else self.sync_time_ms
        return default_ms if self.rebalance_backoff_ms is None else self.rebalance_backoff_ms

    @property
    def alarm_after(self) -> int:
        """Failed rebalances in a row after which an alarm is raised: as many as outlast a dead member's session."""
        if self.coordinated:
            return self.rebalance_max_retries
        return max(self.rebalance_max_retries, self.session_timeout_ms // self.backoff_ms + 1)

    def problems(self) -> Iterable[str]:
        return problems_of(self)

    def idle(self) -> Iterable[tuple[str, str]]:
        return idle_options(self)


C = TypeVar("C", bound=ConsumerConfig)


def load_consumer(cls: type[C], values: Mapping[str, object], where: str, jvm: bool = False, unknown: str = ERROR) -> C:
    """A ConsumerConfig, or a class made from it, out of a file's values.  Raises OptionError with all problems.

    jvm: the values are a JVM's .properties.  One that does not choose auto.offset.reset keeps what its release did,
    with a warning: smallest where 0.7's names are used, else largest, which skips what is there when no offset is
    stored.  unknown: as of groundwork.options.load.
    """
    if not jvm or any(key in values for key in ("auto.offset.reset", "autooffset.reset")):
        return load(cls, values, where, jvm, unknown)
    kept = "smallest" if "zk.connect" in values or "groupid" in values else "largest"
    skips = ": where no offset is stored, what is there already is skipped" if kept == "largest" else ""
    config = load(cls, {**values, "auto.offset.reset": kept}, where, jvm, unknown)
    said = f"{where}: option 'auto.offset.reset' is not given, '{kept}' as in the JVM's consumer{skips}"
    object.__setattr__(config, "_warnings", (*warnings_of(config), said))
    return config


# rules ----------------------------------------------------------------------------------------------------------------


def problems_of(config: ConsumerConfig) -> Iterator[str]:
    """Yield what is wrong between options that are each right: sentences without the file's name."""
    yield from unfit(config, expected(config.version))
    yield from broker_security_problems(config)
    if config.partitions:
        yield from _of_fixed(config)
    elif config.coordinated:
        yield from _of_coordinated(config)
    else:
        yield from _of_group(config)
    if config.socket_timeout_ms < config.fetch_wait_max_ms:
        yield (
            f"'socket.timeout.ms' ({config.socket_timeout_ms}) must be at least 'fetch.wait.max.ms'"
            f" ({config.fetch_wait_max_ms}): every quiet fetch would count as a dead broker"
        )
    largest = max(config.fetch_message_max_bytes, config.fetch_growth_max_bytes)
    if largest > config.queued_max_bytes:
        yield (
            f"'queued.max.bytes' ({config.queued_max_bytes}) must hold the largest fetch, {largest} bytes by"
            " 'fetch.message.max.bytes' and 'fetch.growth.max.bytes': it would never be asked for"
        )


def unfit(config: ConsumerConfig, release: Dialect) -> Iterator[str]:
    """Options that do not fit brokers of this release."""
    called = f"Kafka {release.release}"
    if release.partitions_by_broker and config.security_protocol != PLAINTEXT:
        yield f"'security.protocol' {config.security_protocol}: brokers of {called} know neither TLS nor SASL"
    if not release.keeps_offsets and config.offsets_storage != "zookeeper":
        yield (
            f"'offsets.storage' {config.offsets_storage}: {called} keeps no offsets; keep them in zookeeper, and take"
            " them to a newer cluster by `zkconsumer offsets translate`"
        )
    if config.coordinated:
        if config.version and not release.coordinates_groups:
            yield (
                f"'coordination' kafka: brokers of {called} coordinate no groups, those of 0.9 and later do; take"
                " zookeeper, or set the release right"
            )
    elif config.assignment_strategy not in release.strategies:
        yield (
            f"'partition.assignment.strategy' {config.assignment_strategy}: members of {called} know"
            f" {' and '.join(sorted(release.strategies))} only"
        )
    for tp in config.partitions:
        if isinstance(tp.partition, BrokerPartition) != release.partitions_by_broker:
            wanted = "broker-index, as 0-3" if release.partitions_by_broker else "a number"
            yield f"'partitions': {tp} is not a partition of {called} (kafka.version), where it is {wanted}"
            break
    if config.partitions and not release.describes_itself:
        yield from _listed(config, called)
    elif config.broker_list:
        yield f"'broker.list' is for fixed 'partitions' of 0.7; {called} is found by 'bootstrap.servers'"


def _listed(config: ConsumerConfig, called: str) -> Iterator[str]:
    """Rules of fixed partitions of 0.7, whose brokers do not know each other."""
    if config.brokers:
        yield (
            f"'bootstrap.servers': brokers of {called} do not know which broker has which partition; give"
            " 'broker.list' (id:host:port,…) instead"
        )
    there = {broker.id for broker in config.broker_list}
    missing = [tp for tp in config.partitions if _broker_of(tp) not in there]
    if missing:
        yield (
            f"'broker.list' names no broker {_broker_of(missing[0])}, which {missing[0]} of 'partitions' is on: give"
            f" the address of each (id:host:port,…); no broker of {called} knows the others"
        )


def _broker_of(tp: TopicPartition) -> int | None:
    return tp.partition.broker if isinstance(tp.partition, BrokerPartition) else None


def _of_fixed(config: ConsumerConfig) -> Iterator[str]:
    if config.zookeeper_connect:
        yield (
            "'partitions' and 'zookeeper.connect' exclude each other: fixed partitions are read without ZooKeeper and"
            " shared with no group; keep one of them"
        )
    if not config.brokers and expected(config.version).describes_itself:
        yield "'partitions' needs 'bootstrap.servers': brokers that are asked for the leaders"
    if {"offsets.storage", "dual.commit.enabled"} & given(config):
        yield (
            "'offsets.storage' and 'dual.commit.enabled' are for groups: the positions of fixed 'partitions' are kept"
            " in 'offsets.file', or by the program's own store"
        )


def _of_coordinated(config: ConsumerConfig) -> Iterator[str]:
    for key, value in {"broker.list": config.broker_list, "offsets.file": config.offsets_file}.items():
        if value:
            yield f"'{key}' is for fixed 'partitions', which are not given"
    if not config.brokers:
        yield "'coordination' kafka needs 'bootstrap.servers': brokers that are asked for the group's coordinator"
    if "offsets.storage" in given(config) and config.offsets_storage != "kafka":
        yield (
            f"'offsets.storage' {config.offsets_storage} and 'coordination' kafka exclude each other: a group that"
            " Kafka's coordinator keeps has its offsets in Kafka; leave 'offsets.storage' out, and take the group's"
            " offsets there first (zkconsumer migrate)"
        )
    if config.dual_commit:
        yield (
            "'dual.commit.enabled' and 'coordination' kafka exclude each other: a group that Kafka's coordinator keeps"
            " has its offsets in Kafka alone"
        )
    drain_ms = config.rebalance_drain_ms + config.listener_timeout_ms
    if config.rebalance_timeout_ms < drain_ms + LAST_COMMIT_MS:
        yield (
            f"'rebalance.timeout.ms' ({config.rebalance_timeout_ms}) must be at least 'rebalance.drain.ms'"
            f" ({config.rebalance_drain_ms}) and 'listener.timeout.ms' ({config.listener_timeout_ms}) and"
            f" {LAST_COMMIT_MS} ms for the last commit: the coordinator would not wait for it"
        )
    yield from _of_retention(config)


def _of_retention(config: ConsumerConfig) -> Iterator[str]:
    if -1 < config.offsets_retention_ms <= config.auto_commit_interval_ms:
        yield (
            f"'offsets.retention.ms' ({config.offsets_retention_ms}) must be -1, or longer than"
            f" 'auto.commit.interval.ms' ({config.auto_commit_interval_ms}): Kafka would forget offsets between commits"
        )


def _of_group(config: ConsumerConfig) -> Iterator[str]:
    fixed_only = {
        "bootstrap.servers": config.brokers,
        "broker.list": config.broker_list,
        "offsets.file": config.offsets_file,
    }
    for key, value in fixed_only.items():
        if value:
            also = ", and for 'coordination' kafka" if key == "bootstrap.servers" else ""
            yield f"'{key}' is for fixed 'partitions', which are not given{also}"
    if not config.zookeeper_connect and "coordination" in given(config):
        yield f"option 'zookeeper.connect' is missing: {specs(type(config))['zookeeper_connect'].meaning}"
    yield from _of_retention(config)
    if config.zookeeper_set_acl and config.zookeeper_auth is None:
        yield "'zookeeper.set.acl' needs 'zookeeper.auth': there is no identity to close the nodes for"
    yield from security_problems(config, config.zookeeper_connect)


def idle_options(config: ConsumerConfig) -> Iterator[tuple[str, str]]:
    """Yield options that are given and have no effect, each with what it meets (`with …`) and why."""
    release = expected(config.version)
    idle = AT_ONCE if not release.waits_for_data else WAITED_FOR
    for key in sorted(idle.keys() & given(config)):
        yield key, f"with Kafka {release.release}: {idle[key]}"
    if config.coordinated:
        asked = bool(config.zookeeper_connect)
        idle_keys = {key for key in NOT_COORDINATED if not (asked and key.startswith("zookeeper."))}
        for key in sorted(idle_keys & given(config)):
            yield key, f"with 'coordination' kafka: {NOT_COORDINATED[key]}"
        return
    if not config.partitions:
        for key in sorted({*KAFKA_COORDINATION_ONLY} & given(config)):
            yield key, "with 'coordination' zookeeper"
        if config.offsets_storage == "zookeeper" and config.dual_commit:
            yield "dual.commit.enabled", "with 'offsets.storage' zookeeper: only that is written"
        return
    for key in sorted(GROUP_ONLY.keys() & given(config)):
        yield key, f"with fixed 'partitions': {GROUP_ONLY[key]}"
