"""Options of a consumer, by the names of 0.8 and of 0.7; then the rules between them.

Kafka's own defaults are kept, with one exception: where no offset is stored and nothing is chosen, 0.8 starts at the
end and skips what is there.  So auto.offset.reset has no default here, but a JVM's .properties file keeps its meaning
(load_consumer).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

from groundwork.options import ERROR, given, load, option, warnings_of
from groundwork.zksecurity import ZkSecurity, ZkSecurityOptions, security_of, security_problems
from kafkawire.dialects import Dialect, dialect
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from zkconsumer.offsets.modes import Mode, mode_of
from zkconsumer.options import optiontypes as kinds

JVM_ONLY: Final = {
    "num.consumer.fetchers": "there is one fetcher for each source broker",
    "shallowiterator.enable": "compressed sets are passed on whole where that is possible",
    "mirror.topics.whitelist": "topics are chosen by the whitelist of the mirror or of the streams",
    "mirror.topics.blacklist": "topics are chosen by the blacklist of the mirror or of the streams",
    "mirror.consumer.numthreads": "streams are counted by num.streams",
}

NEWER: Final = {
    "bootstrap.servers": "zookeeper.connect (metadata.broker.list beside 'partitions')",
    "session.timeout.ms": "zookeeper.session.timeout.ms",
    "enable.auto.commit": "auto.commit.enable",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "fetch.max.bytes": "queued.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.poll.records": "queued.max.bytes bounds what is fetched ahead",
    "max.poll.interval.ms": "nothing: a slow reader keeps its partitions",
    "heartbeat.interval.ms": "nothing: it follows from zookeeper.session.timeout.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "key.deserializer": "nothing: keys are bytes",
    "value.deserializer": "nothing: values are bytes",
    "security.protocol": "nothing: connections are plain ones",
    "isolation.level": "nothing: transactions came with 0.11",
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
}

NEWER_RESETS = {"earliest": "smallest", "latest": "largest", "none": "fail"}  # of auto.offset.reset


@dataclass(frozen=True, slots=True)
class ConsumerConfig(ZkSecurityOptions):
    """Options of one ConsumerConnector.  Make it with load_consumer, or by keyword in Python."""

    JVM_ONLY: ClassVar[Mapping[str, str]] = JVM_ONLY
    NEWER: ClassVar[Mapping[str, str]] = NEWER

    # the cluster: which one, as whom, from where
    group_id: str = option("group.id", "", "the consumer group", old="groupid", kind=kinds.name, required=True)
    zookeeper_connect: str = option(
        "zookeeper.connect",
        "",
        "ZooKeeper of the cluster that is read: host:port,host:port/chroot",
        old="zk.connect",
        kind=kinds.text,
        required=True,
        instead="partitions",
    )
    version: str = option("kafka.version", "0.8.2", "Kafka release of the brokers", kind=kinds.release)
    partitions: tuple[TopicPartition, ...] = option(
        "partitions",
        (),
        "read just these, without a group and without ZooKeeper: {orders: [0, 3], payments: [1]}, or as text"
        " orders:0,3;payments:1; of 0.7 broker-index: orders:0-0,0-1,1-0",
        kind=kinds.partitions,
    )
    brokers: tuple[tuple[str, int], ...] = option(
        "metadata.broker.list",
        (),
        "with partitions: brokers that are asked for the leaders of all topics, host:port,…",
        kind=kinds.brokers,
    )
    broker_list: tuple[Broker, ...] = option(
        "broker.list",
        (),
        "with partitions of 0.7, whose brokers tell nothing of each other: the brokers of these partitions,"
        " id:host:port,…",
        kind=kinds.numbered_brokers,
    )
    offsets_file: str | None = option(
        "offsets.file",
        None,
        "with partitions: the file that keeps their positions, under the name of the group; its folder must exist",
        kind=kinds.text,
    )
    auto_offset_reset: str = option(
        "auto.offset.reset",
        "",
        "where to begin when no offset is stored or it lies outside the log: smallest, largest, or fail, which parks"
        " the partition when its offset lies outside (and begins at the smallest when none is stored)",
        old="autooffset.reset",
        choices=("smallest", "largest", "fail"),
        required=True,
        newer=NEWER_RESETS,
    )
    consumer_id: str | None = option(
        "consumer.id",
        None,
        "fixed part of the member's id instead of host, time and a random number; only for tests: a restart within the"
        " session time-out meets its own old nodes",
        old="consumerid",
        kind=kinds.name,
    )
    client_id: str | None = option("client.id", None, "how brokers' logs name us; the group when empty")

    session_timeout_ms: int = option(
        "zookeeper.session.timeout.ms",
        6000,
        "silence after which ZooKeeper drops our nodes and others take our partitions",
        "ms",
        old="zk.sessiontimeout.ms",
        least=100,
    )
    connection_timeout_ms: int | None = option(
        "zookeeper.connection.timeout.ms",
        None,
        "how long ZooKeeper may take to answer at start; the session time-out when empty",
        "ms",
        old="zk.connectiontimeout.ms",
        kind=kinds.ms,
    )
    zookeeper_set_acl: bool = option(
        "zookeeper.set.acl",
        False,
        "nodes we create are written by that identity only, and read by all; for groups all of whose members have it",
        behind="zookeeper.connect",
    )

    # the group, fetching, delivery, offsets
    sync_time_ms: int = option(
        "zookeeper.sync.time.ms", 2000, "default of rebalance.backoff.ms", "ms", old="zk.synctime.ms", least=1
    )
    rebalance_max_retries: int = option(
        "rebalance.max.retries",
        4,
        "rounds without our full share after which the alarm is raised; we go on trying",
        old="rebalance.retries.max",
        least=1,
    )
    rebalance_backoff_ms: int | None = option(
        "rebalance.backoff.ms",
        None,
        "longest wait before the next round, ended sooner when the partition is let go; zookeeper.sync.time.ms when"
        " empty",
        "ms",
        kind=kinds.ms,
    )
    rebalance_drain_ms: int = option(
        "rebalance.drain.ms",
        3000,
        "how long what was handed out of a leaving partition may take to be done; JVM members wait about 6 s for it",
        "ms",
        least=0,
    )
    assignment_strategy: str = option(
        "partition.assignment.strategy",
        "range",
        "how partitions are divided; the same at all members of the group",
        choices=("range", "roundrobin"),
    )
    exclude_internal_topics: bool = option(
        "exclude.internal.topics", True, "topic filters, ours and other members', leave __consumer_offsets out"
    )

    socket_timeout_ms: int = option(
        "socket.timeout.ms", 30000, "silence of a broker after which its connection is given up", "ms", least=1
    )
    receive_buffer_bytes: int = option(
        "socket.receive.buffer.bytes",
        0,
        "receive buffer of a broker's connection; 0 leaves it to the operating system, which is faster on long links",
        "bytes",
        old="socket.buffersize",
        least=0,
    )
    fetch_message_max_bytes: int = option(
        "fetch.message.max.bytes", 1048576, "asked of one partition in a fetch", "bytes", old="fetch.size", least=1024
    )
    fetch_growth_max_bytes: int = option(
        "fetch.growth.max.bytes",
        33554432,
        "how far a fetch may grow for one larger message; a partition with a larger one is parked",
        "bytes",
        least=1024,
    )
    queued_max_bytes: int = option(
        "queued.max.bytes", 67108864, "fetched and not yet done, of all partitions together", "bytes", least=65536
    )
    queued_max_chunks: int = option(
        "queued.max.message.chunks",
        2,
        "fetches of one partition that may wait to be read; it is not fetched while it holds more bytes than that",
        old="queuedchunks.max",
        least=1,
    )
    fetch_min_bytes: int = option(
        "fetch.min.bytes", 1, "a broker that has less waits with its answer", "bytes", least=0
    )
    fetch_wait_max_ms: int = option("fetch.wait.max.ms", 100, "how long it waits at most", "ms", least=0)
    fetcher_backoff_ms: int = option(
        "fetcher.backoff.ms",
        1000,
        "0.7, whose brokers answer at once: the pause after a fetch that brought nothing new",
        "ms",
        old="backoff.increment.ms",
        least=1,
    )
    refresh_leader_backoff_ms: int = option(
        "refresh.leader.backoff.ms", 200, "between two looks for the leader of a partition that has none", "ms", least=1
    )

    check_crcs: bool = option("check.crcs", True, "compute the checksum of each message that is handed out")
    corrupt_policy: str = option(
        "corrupt.message.policy",
        "park",
        "what follows when a damaged message stays damaged after three more fetches: park its partition, skip it and"
        " count it, or fail: the stream raises CorruptMessage",
        choices=("park", "skip", "fail"),
    )

    delivery: str = option(
        "delivery",
        "at-least-once",
        "when a message counts as done: at-least-once, when its reader asks for the next one (or acknowledges it);"
        " on-ack, only when it is acknowledged; at-most-once, before it is handed out, and lost if the reader dies",
        choices=("at-least-once", "on-ack", "at-most-once"),
    )
    listener_timeout_ms: int = option(
        "listener.timeout.ms",
        3000,
        "how long a listener of the program may take before we go on without it",
        "ms",
        least=1,
    )
    auto_commit: bool = option(
        "auto.commit.enable", True, "commit what is done on a timer, at release and at stop", old="autocommit.enable"
    )
    auto_commit_interval_ms: int = option(
        "auto.commit.interval.ms", 60000, "time between two commits", "ms", old="autocommit.interval.ms", least=1
    )
    offsets_storage: str = option(
        "offsets.storage",
        "zookeeper",
        "where offsets are kept; a running group goes from one to the other through dual.commit.enabled, one member"
        " after the other",
        choices=("zookeeper", "kafka"),
    )
    dual_commit: bool | None = option(
        "dual.commit.enabled",
        None,
        "with kafka: offsets are kept in both, and the larger is where to begin; true when empty, as in the JVM.  With"
        " zookeeper it has no effect",
    )
    offsets_channel_backoff_ms: int = option(
        "offsets.channel.backoff.ms", 1000, "before a group's coordinator is asked, or looked for, again", "ms", least=1
    )
    offsets_channel_timeout_ms: int = option(
        "offsets.channel.socket.timeout.ms",
        10000,
        "silence of the coordinator after which its connection is given up",
        "ms",
        least=100,
    )
    offsets_commit_retries: int = option(
        "offsets.commit.max.retries",
        5,
        "how often a commit to Kafka is tried again before partitions are given up, and at a stop; on the timer it is"
        " tried again each second",
        least=0,
    )
    offsets_retention_ms: int = option(
        "offsets.retention.ms",
        -1,
        "how long Kafka is to keep an offset that is not committed again; -1: as long as the brokers say, a day by"
        " default",
        "ms",
        least=-1,
    )
    offsets_migrate: str = option(
        "offsets.migrate.on.start",
        "refuse",
        "with offsets in Kafka alone, where ZooKeeper has some that Kafka has not: refuse to start, or copy them to"
        " Kafka and go on from there",
        choices=("refuse", "copy"),
    )
    metrics_enable: bool = option(
        "metrics.enable",
        False,
        "show counts, lag, buffers and the session of this consumer through prometheus-client's default registry",
    )
    consumer_timeout_ms: int = option(
        "consumer.timeout.ms", -1, "how long an iterator waits before it raises ConsumerTimeout; -1: for ever", "ms"
    )

    @property
    def connect_timeout_ms(self) -> int:
        return self.session_timeout_ms if self.connection_timeout_ms is None else self.connection_timeout_ms

    @property
    def security(self) -> ZkSecurity:
        """How a session shows itself to ZooKeeper."""
        return security_of(self, self.zookeeper_set_acl)

    @property
    def client_name(self) -> str:
        return self.client_id or self.group_id

    @property
    def offset_mode(self) -> Mode:
        """zookeeper, dual or kafka: both options of the store in one word."""
        return mode_of(self.offsets_storage, self.dual_commit)

    @property
    def backoff_ms(self) -> int:
        return self.sync_time_ms if self.rebalance_backoff_ms is None else self.rebalance_backoff_ms

    def problems(self) -> Iterable[str]:
        return problems_of(self)


C = TypeVar("C", bound=ConsumerConfig)


def load_consumer(cls: type[C], values: Mapping[str, object], where: str, jvm: bool = False, unknown: str = ERROR) -> C:
    """A ConsumerConfig, or a class made from it, out of a file's values.  Raises OptionError with all problems.

    jvm: the values are a JVM's .properties.  One that does not choose auto.offset.reset keeps what its release did,
    with a warning: smallest where 0.7's names are used, else largest, which skips what is there when no offset is
    stored.  unknown: as of groundwork.options.load.
    """
    chosen = any(key in values for key in ("auto.offset.reset", "autooffset.reset"))
    if not jvm or chosen:
        return _warned(load(cls, values, where, jvm, unknown), where)
    kept = "smallest" if "zk.connect" in values or "groupid" in values else "largest"
    skips = ": where no offset is stored, what is there already is skipped" if kept == "largest" else ""
    said = f"option 'auto.offset.reset' is not given, '{kept}' as in the JVM's consumer{skips}"
    return _warned(load(cls, {**values, "auto.offset.reset": kept}, where, jvm, unknown), where, said)


def _warned(config: C, where: str, *said: str) -> C:
    """The same with what else there is to say of its options."""
    more = (f"{where}: {sentence}" for sentence in (*said, *without_effect(config)))
    object.__setattr__(config, "_warnings", (*warnings_of(config), *more))
    return config


# rules ----------------------------------------------------------------------------------------------------------------


def problems_of(config: ConsumerConfig) -> Iterator[str]:
    """Sentences without the file's name."""
    yield from unfit(config, dialect(config.version))
    if config.partitions:
        yield from _of_fixed(config)
    else:
        yield from _of_group(config)
    if config.socket_timeout_ms < config.fetch_wait_max_ms:
        yield (
            f"'socket.timeout.ms' ({config.socket_timeout_ms}) must be at least 'fetch.wait.max.ms'"
            f" ({config.fetch_wait_max_ms}): every quiet fetch would look like a dead broker"
        )
    largest = max(config.fetch_message_max_bytes, config.fetch_growth_max_bytes)
    if largest > config.queued_max_bytes:
        yield (
            f"'queued.max.bytes' ({config.queued_max_bytes}) must hold the largest fetch, {largest} bytes by"
            " 'fetch.message.max.bytes' and 'fetch.growth.max.bytes': it would never be asked for"
        )


def unfit(config: ConsumerConfig, release: Dialect) -> Iterator[str]:
    """What does not go with brokers of this release."""
    called = f"Kafka {release.release}"
    if not release.keeps_offsets and config.offsets_storage != "zookeeper":
        yield (
            f"'offsets.storage' {config.offsets_storage}: {called} keeps no offsets; keep them in zookeeper, and take"
            " them to a newer cluster by `zkconsumer offsets translate`"
        )
    if config.assignment_strategy not in release.strategies:
        yield (
            f"'partition.assignment.strategy' {config.assignment_strategy}: members of {called} know"
            f" {' and '.join(sorted(release.strategies))} only"
        )
    for tp in config.partitions:
        if isinstance(tp.partition, BrokerPartition) != release.partitions_by_broker:
            wanted = "broker-index, as 0-3" if release.partitions_by_broker else "a number"
            yield f"'partitions': {tp} is no partition of {called} (kafka.version), where it is {wanted}"
            break
    if config.partitions and not release.describes_itself:
        yield from _listed(config, called)
    elif config.broker_list:
        yield f"'broker.list' is for fixed 'partitions' of 0.7; {called} is found by 'metadata.broker.list'"


def _listed(config: ConsumerConfig, called: str) -> Iterator[str]:
    """Fixed partitions, and brokers that tell nothing of each other."""
    if config.brokers:
        yield (
            f"'metadata.broker.list': brokers of {called} do not tell who has which partition; give 'broker.list'"
            " (id:host:port,…) instead"
        )
    there = {broker.id for broker in config.broker_list}
    missing = [tp for tp in config.partitions if _broker_of(tp) not in there]
    if missing:
        yield (
            f"'broker.list' names no broker {_broker_of(missing[0])}, which {missing[0]} of 'partitions' is on: give"
            f" the address of each (id:host:port,…); nobody else tells it on {called}"
        )


def _broker_of(tp: TopicPartition) -> int | None:
    return tp.partition.broker if isinstance(tp.partition, BrokerPartition) else None


def _of_fixed(config: ConsumerConfig) -> Iterator[str]:
    if config.zookeeper_connect:
        yield (
            "'partitions' and 'zookeeper.connect' exclude each other: fixed partitions are read without ZooKeeper and"
            " shared with no group; keep one of them"
        )
    if not config.brokers and dialect(config.version).describes_itself:
        yield "'partitions' needs 'metadata.broker.list': brokers that are asked for the leaders"
    if {"offsets.storage", "dual.commit.enabled"} & given(config):
        yield (
            "'offsets.storage' and 'dual.commit.enabled' are for groups: the positions of fixed 'partitions' are kept"
            " in 'offsets.file', or by the program's own store"
        )


def _of_group(config: ConsumerConfig) -> Iterator[str]:
    fixed_only = {
        "metadata.broker.list": config.brokers,
        "broker.list": config.broker_list,
        "offsets.file": config.offsets_file,
    }
    for key, value in fixed_only.items():
        if value:
            yield f"'{key}' is for fixed 'partitions', which are not given"
    tries, backoff, session = config.rebalance_max_retries, config.backoff_ms, config.session_timeout_ms
    if tries * backoff <= session:
        yield (
            f"'rebalance.max.retries' ({tries}) times 'rebalance.backoff.ms' ({backoff}) is {tries * backoff} ms,"
            f" which must be more than 'zookeeper.session.timeout.ms' ({session}): a dead member holds its share"
            " that long"
        )
    if -1 < config.offsets_retention_ms <= config.auto_commit_interval_ms:
        yield (
            f"'offsets.retention.ms' ({config.offsets_retention_ms}) must be -1, or longer than"
            f" 'auto.commit.interval.ms' ({config.auto_commit_interval_ms}): Kafka would forget offsets between commits"
        )
    if config.zookeeper_set_acl and config.zookeeper_auth is None:
        yield "'zookeeper.set.acl' needs 'zookeeper.auth': there is no identity to close the nodes for"
    yield from security_problems(config, config.zookeeper_connect)


def without_effect(config: ConsumerConfig) -> Iterator[str]:
    """Sentences, without the file's name, on what it gives and has no use for."""
    release = dialect(config.version)
    idle = AT_ONCE if not release.waits_for_data else WAITED_FOR
    for key in sorted(idle.keys() & given(config)):
        yield f"option '{key}' has no effect with Kafka {release.release}: {idle[key]}"
    if not config.partitions:
        if config.offsets_storage == "zookeeper" and config.dual_commit:
            yield "option 'dual.commit.enabled' has no effect with 'offsets.storage' zookeeper: only that is written"
        return
    for key in sorted(GROUP_ONLY.keys() & given(config)):
        yield f"option '{key}' has no effect with fixed 'partitions': {GROUP_ONLY[key]}"
