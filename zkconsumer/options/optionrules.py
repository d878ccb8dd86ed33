"""What is wrong between options of a consumer that are each right, and which of them mean nothing here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from groundwork.options import given
from groundwork.zksecurity import security_problems
from kafkawire.dialects import Dialect, dialect
from kafkawire.model import BrokerPartition, TopicPartition

if TYPE_CHECKING:
    from zkconsumer.options.config import ConsumerConfig

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


def problems(config: ConsumerConfig) -> Iterator[str]:
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
