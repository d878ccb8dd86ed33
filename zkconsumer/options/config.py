"""The options of a consumer, by the names of 0.8 and of 0.7; what each means is said where it stands.

Kafka's own defaults are kept, with one exception: where no offset is stored and nothing is chosen, 0.8 begins at the
end and skips what is there.  So auto.offset.reset has no default here, but a JVM's .properties file keeps its meaning
(load_consumer).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from groundwork.options import ERROR, load, option, warnings_of
from zkconsumer.offsets.modes import Mode, mode_of
from zkconsumer.options import optionrules
from zkconsumer.options import optiontypes as kinds
from zkconsumer.options.clusteroptions import ClusterOptions


@dataclass(frozen=True, slots=True)
class ConsumerConfig(ClusterOptions):
    """What a ConsumerConnector is made from.  Make it with load_consumer, or by keyword in Python."""

    JVM_ONLY: ClassVar[Mapping[str, str]] = optionrules.JVM_ONLY
    NEWER: ClassVar[Mapping[str, str]] = optionrules.NEWER

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
    def offset_mode(self) -> Mode:
        """zookeeper, dual or kafka: both options of the store in one word."""
        return mode_of(self.offsets_storage, self.dual_commit)

    @property
    def backoff_ms(self) -> int:
        return self.sync_time_ms if self.rebalance_backoff_ms is None else self.rebalance_backoff_ms

    def problems(self) -> Iterable[str]:
        return optionrules.problems(self)


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
    more = (f"{where}: {sentence}" for sentence in (*said, *optionrules.without_effect(config)))
    object.__setattr__(config, "_warnings", (*warnings_of(config), *more))
    return config
