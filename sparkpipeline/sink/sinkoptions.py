"""Options of df.write.format("kafka08"): Spark's own names, and those of the old producers.

One table: a field holds key, other names, default, unit and meaning; reading, checking and docs/spark-options.md come
from it.  Names are taken in any case, as Spark takes them.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from groundwork.options import OptionError, load, option, warnings_of
from groundwork.zksecurity import security_problems
from kafkawire.compression import CODECS
from kafkawire.dialects import dialect
from kafkawire.securityoptions import broker_security_problems
from kafkawire.topicnames import why_never_written
from producer.config import ProducerConfig, codec
from sparkpipeline.cluster.access import AUTO, ClusterAccess
from sparkpipeline.driver import queryoptions
from sparkpipeline.driver.queryoptions import QueryOptions
from sparkpipeline.errors import OptionRefused

WHERE = "kafka08 sink"
MOST_INT = (1 << 31) - 1
PARTITIONERS = {  # what the option takes -> the rule
    "default": "default",
    "byte-array": "byte-array",
    "murmur2": "murmur2",
    "random": "random",
    "sticky": "sticky",
    "kafka.producer.DefaultPartitioner": "default",
    "kafka.producer.ByteArrayPartitioner": "byte-array",
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "murmur2",
}
_BYTES = "keys and values are text or bytes already: cast them in the query"
REFUSED = {
    "kafka.key.serializer": _BYTES,
    "kafka.value.serializer": _BYTES,
    "kafka.serializer.class": _BYTES,
    "kafka.key.serializer.class": _BYTES,
    **queryoptions.REFUSED,
    "kafka.interceptor.classes": "nothing may change messages on the way",
    "kafka.transactional.id": "brokers know transactions from 0.11 on; this sink writes at least once",
    "kafka.kafka.version": "the option protocol says what the brokers speak",
    "path": "there are no files here: the option topic says where rows go",
}
_GATHERS = "a request goes when a megabyte has gathered, and at the end of the task"
WITHOUT_EFFECT = {
    "checkpointLocation": "Spark itself uses it",
    "queryName": "Spark itself uses it",
    "outputMode": "Spark itself uses it",
    "kafka.producer.type": "a task waits for every answer",
    "kafka.linger.ms": _GATHERS,
    "kafka.queue.buffering.max.ms": _GATHERS,
    "kafka.batch.size": _GATHERS,
    "kafka.batch.num.messages": _GATHERS,
    "kafka.queue.buffering.max.messages": "kafka.queue.buffering.max.bytes bounds what waits",
    "kafka.queue.enqueue.timeout.ms": "kafka.delivery.timeout.ms bounds the waiting",
    "kafka.max.in.flight": "one request at a time goes to each broker",
    "kafka.max.in.flight.requests.per.connection": "one request at a time goes to each broker",
    "kafka.topic.metadata.refresh.interval.ms": "leaders are looked up when a task begins and when one is lost",
    "kafka.metadata.max.age.ms": "leaders are looked up when a task begins and when one is lost",
    "kafka.send.buffer.bytes": "the operating system sizes socket buffers",
    "kafka.receive.buffer.bytes": "the operating system sizes socket buffers",
}
ONLY = {  # options of Spark's format that have one value here, and why
    "kafka.enable.idempotence": ("false", "brokers know it from 0.11 on; this sink writes at least once"),
}


def acks(raw: object) -> int:
    """Convert -1 or 1.  With 0 there is no response, so it would be unknown what was stored, and delivery would not be
    at least once."""
    text = str(raw).strip().lower()
    if text in ("-1", "all", "1"):
        return 1 if text == "1" else -1
    raise ValueError("-1 (or all: every in-sync replica has it) or 1 (the leader has it); 0 gives no acknowledgement")


def partitioner(raw: object) -> str:
    text = str(raw).strip()
    if text not in PARTITIONERS:
        raise ValueError("one of default, byte-array, murmur2, random, sticky")
    return PARTITIONERS[text]


@dataclass(frozen=True, slots=True)
class SinkOptions(QueryOptions):
    """Options that a query writes with.  Make it with SinkOptions.of."""

    JVM_ONLY: ClassVar[Mapping[str, str]] = WITHOUT_EFFECT
    REFUSED: ClassVar[Mapping[str, str]] = REFUSED
    ONLY: ClassVar[Mapping[str, tuple[str, str]]] = ONLY

    topic: str | None = option(
        "topic", None, "where every row goes, whatever its column topic says; without it the column is needed"
    )
    partitioner: str = option(
        "partitioner", "default",
        "partition of rows that name none: default (0.8's: hashCode of the key's text or bytes), byte-array (of its"
        " bytes), murmur2 (the newer clients'); rows without key go where sticky would put them.  sticky: one random"
        " partition for each batch of rows; random: one for each row",
        old="kafka.partitioner.class", kind=partitioner,
    )  # fmt: skip
    include_timestamps: bool = option(
        "includeTimestamps", False,
        "messages get the time of the column timestamp (brokers from 0.10 on); else, as with Spark's own format, the"
        " time of sending",
    )  # fmt: skip
    include_headers: bool | None = option(
        "includeHeaders", None,
        "messages get the headers of the column headers, array<struct<key:string,value:binary>>: where it is there and"
        " brokers have headers (0.11 and later) when empty; true fails for older brokers, false ignores the column",
    )  # fmt: skip
    acks: int = option(
        "kafka.acks", -1, "-1 or all: every in-sync replica has it; 1: the leader has it",
        old="kafka.request.required.acks", kind=acks,
    )  # fmt: skip
    codec: str = option(
        "kafka.compression.codec", "none", "none, gzip, snappy, lz4, zstd (brokers from 2.1 on)",
        old="kafka.compression.type", kind=codec,
    )  # fmt: skip
    compressed_topics: tuple[str, ...] = option(
        "kafka.compressed.topics", (), "topics that are compressed; none given: all"
    )
    retries: int = option(
        "kafka.message.send.max.retries", -1,
        "further tries of a request that failed; negative: as many as fit kafka.delivery.timeout.ms",
        old="kafka.retries",
    )  # fmt: skip
    retry_backoff_ms: int = option(
        "kafka.retry.backoff.ms", 100, "pause before the second try; it doubles up to 2000", "ms", least=1
    )
    request_timeout_ms: int = option(
        "kafka.request.timeout.ms", 30000, "how long a broker waits for its replicas, and a connection for its opening",
        "ms", old="kafka.timeout.ms", least=1,
    )  # fmt: skip
    delivery_timeout_ms: int = option(
        "kafka.delivery.timeout.ms", 120000, "how long a row may take, with all its tries", "ms", least=1
    )
    topic_wait_ms: int = option(
        "kafka.topic.wait.ms", 10000, "how long to wait for a topic or partition that does not exist", "ms",
        old="kafka.max.block.ms", least=0,
    )  # fmt: skip
    message_max_bytes: int = option(
        "kafka.message.max.bytes", 1000012, "the brokers' message.max.bytes: no message may be larger", "bytes",
        old=("kafka.max.request.size", "kafka.max.message.size"), least=1024,
    )  # fmt: skip
    batch_bytes: int = option("kafka.batch.bytes", 1 << 20, "most of one partition in a request", "bytes", least=1024)
    request_bytes: int = option(
        "kafka.request.max.bytes", 16 << 20, "most bytes of entries in a request", "bytes", least=1024
    )
    queue_bytes: int = option(
        "kafka.queue.buffering.max.bytes", 32 << 20, "most bytes of a task that are not acknowledged yet", "bytes",
        old="kafka.buffer.memory", least=1024,
    )  # fmt: skip
    reconnect_ms: int = option(
        "kafka.reconnect.backoff.ms", 1000, "least time between two connects to a broker", "ms", least=0
    )

    @staticmethod
    def of(options: Mapping[str, str]) -> SinkOptions:
        """Return the options of a query; names in any case.  Raises OptionRefused, naming option and value."""
        try:
            return load(SinkOptions, options, WHERE, jvm=True)
        except OptionError as exc:
            raise OptionRefused.of(exc) from None

    def problems(self) -> Iterable[str]:
        if not self.bootstrap and not self.zookeeper_connect:
            yield "option 'kafka.bootstrap.servers' is missing (or zookeeper.connect): where are the brokers?"
        if self.topic is not None and not self.topic.strip():
            yield "option 'topic' is empty"
        elif self.topic is not None and (why := why_never_written(self.topic)):
            yield f"option 'topic' is {self.topic!r}, {why}"
        yield from security_problems(self, self.zookeeper_connect)
        yield from broker_security_problems(self)
        if self.request_timeout_ms > MOST_INT:
            yield f"option 'kafka.request.timeout.ms' is {self.request_timeout_ms}: a request can carry {MOST_INT}"
        if self.protocol != AUTO and not dialect(self.protocol).answers_produce:  # the sink promises at least once
            yield (
                f"option 'protocol': brokers of Kafka {self.protocol} acknowledge nothing, so it could not be known"
                " whether a row is stored; write to 0.8 or later"
            )

    @property
    def warnings(self) -> list[str]:
        """Return sentences about options that are given and have no effect."""
        return [w for w in warnings_of(self) if "Spark itself" not in w]

    def producer(self, access: ClusterAccess) -> ProducerConfig:
        """Return the configuration of the sender, once the target is known.

        Raises OptionRefused for what the target's brokers do not have.
        """
        spoken, release = access.spoken, access.release
        if CODECS[self.codec] not in spoken.codecs:
            raise OptionRefused(f"{self.codec} is not known to Kafka {release}", option="kafka.compression.codec")
        if self.include_timestamps and not spoken.magic:
            raise OptionRefused(
                f"messages of Kafka {release} have no timestamps (0.10 and later have)", option="includeTimestamps"
            )
        if self.include_headers and not spoken.record_batches:
            raise OptionRefused(
                f"messages of Kafka {release} have no headers (0.11 and later have): leave out includeHeaders, and the"
                " column headers is ignored",
                option="includeHeaders",
            )
        return ProducerConfig(
            brokers=self.bootstrap, acks=self.acks, request_timeout_ms=self.request_timeout_ms, retries=self.retries,
            retry_backoff_ms=self.retry_backoff_ms, delivery_timeout_ms=self.delivery_timeout_ms,
            topic_wait_ms=self.topic_wait_ms, codec=self.codec, compressed_topics=self.compressed_topics,
            batch_bytes=self.batch_bytes, queue_bytes=self.queue_bytes, message_max_bytes=self.message_max_bytes,
            request_bytes=self.request_bytes, reconnect_ms=self.reconnect_ms, client_id=self.client_id, version=release,
        )  # fmt: skip
