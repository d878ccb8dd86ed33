"""Options of a producer, with Kafka's names (0.8 and 0.7) if Kafka has the option."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from groundwork.options import CLASS, given, option
from groundwork.zkconnect import connect_or_none
from groundwork.zksecurity import security_problems
from kafkawire import optiontypes, securityoptions
from kafkawire.compression import CODECS
from kafkawire.dialects import Dialect, expected
from kafkawire.model import Broker
from kafkawire.net.security import PLAINTEXT
from kafkawire.securityoptions import SecurityOptions, broker_security_problems
from producer.batches import MESSAGE_MAX, Limits, largest_entry
from producer.outcomes import Patience
from producer.partitioners import UNKEYED

NO_CONFIRM, BY_OFFSETS = "none", "offsets"  # confirm
RESPONSE_GRACE_MS = 5000
MAX_ACKS = 32767  # an int16
JVM_ENCODERS = {
    "kafka.serializer.DefaultEncoder": "producer.encoders:as_bytes",
    "kafka.serializer.StringEncoder": "producer.encoders:as_text",
    "kafka.serializer.NullEncoder": "producer.encoders:as_null",
}


class Addresses(tuple[tuple[str, int], ...]):
    """Addresses of brokers with their ids (0.7's broker.list)."""

    brokers: tuple[Broker, ...]

    def __new__(cls, brokers: Iterable[Broker]) -> Addresses:
        listed = tuple(brokers)
        made = super().__new__(cls, ((broker.host, broker.port) for broker in listed))
        made.brokers = listed
        return made


def by_id(text: str) -> bool:
    """True if a list of brokers is 0.7's, `id:host:port,…`."""
    return all(entry.count(":") == 2 and "[" not in entry and "://" not in entry for entry in text.split(","))


def brokers(raw: object) -> tuple[tuple[str, int], ...]:
    """Convert addresses of bootstrap brokers: `host:port,…`, or 0.7's `id:host:port,…`."""
    numbered = by_id(str(raw))
    return Addresses(optiontypes.numbered_brokers(raw)) if numbered else optiontypes.brokers(raw)


def codec(raw: object) -> str:
    """Return the name of a codec, given by name or number."""
    text = str(raw).strip().lower()
    numbers = {str(number): name for name, number in CODECS.items()}
    name = numbers.get(text, text)
    if name not in CODECS:
        raise ValueError(f"one of {', '.join(CODECS)} (or its number)")
    return name


def properties_of(raw: object) -> dict[str, str]:
    """Convert properties: `k=v,k=v` as Kafka reads it, or a mapping."""
    if isinstance(raw, dict):
        return {str(name): str(value) for name, value in raw.items()}
    found: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in str(raw).split(","))):
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"k=v,k=v ('{entry}' has another form)")
        found[name.strip()] = value.strip()
    return found


@dataclass(frozen=True, slots=True)
class ProducerConfig(SecurityOptions):
    """Configuration of a producer, or of a mirror's target, with a field per option."""

    JVM_ONLY: ClassVar = {
        "send.buffer.bytes": "the operating system sizes socket buffers",
        "buffer.size": "the operating system sizes socket buffers",
        "serializer.encoding": "text is always sent as UTF-8",
        "connect.timeout.ms": "request.timeout.ms bounds connecting too",
        "zk.synctime.ms": "changes in ZooKeeper are watched",
        "zk.read.num.retries": "message.send.max.retries bounds metadata requests, too",
    }
    JVM_CLASSES: ClassVar = {
        "partitioner.class": {
            "kafka.producer.DefaultPartitioner": "default",
            "kafka.producer.ByteArrayPartitioner": "producer.partitioners:byte_array_partitioner",
            "org.apache.kafka.clients.producer.internals.DefaultPartitioner": (
                "producer.partitioners:murmur2_partitioner"
            ),
        },
        "serializer.class": JVM_ENCODERS,
        "key.serializer.class": JVM_ENCODERS,
    }

    NEWER: ClassVar = {
        "bootstrap.servers": "metadata.broker.list",
        "acks": "request.required.acks (-1 for the newer client's all)",
        "linger.ms": "queue.buffering.max.ms",
        "batch.size": "batch.bytes (batch.size is 0.7's name of batch.num.messages, which counts messages)",
        "buffer.memory": "queue.buffering.max.bytes",
        "max.block.ms": "queue.enqueue.timeout.ms",
        "compression.type": "compression.codec",
        "retries": "message.send.max.retries",
        "max.request.size": "message.max.bytes",
        "max.in.flight.requests.per.connection": "max.in.flight; order within a partition is always kept",
        "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
        "timeout.ms": "request.timeout.ms",
        "key.serializer": "key.serializer.class, and none for bytes",
        "value.serializer": "serializer.class, and none for bytes",
        "reconnect.backoff.max.ms": "reconnect.backoff.ms, which does not grow",
        "transactional.id": "nothing: brokers support it since 0.11",
        **securityoptions.NEWER,
    }

    brokers: tuple[tuple[str, int], ...] = option(
        "metadata.broker.list", (), "bootstrap brokers, which list all others: host:port,…; one may be a load balancer",
        old="broker.list", kind=brokers, required=True, instead="zookeeper.connect",
    )  # fmt: skip
    zookeeper_connect: str = option(
        "zookeeper.connect", "",
        "ZooKeeper of the brokers, in place of metadata.broker.list: host:port,host:port/chroot",
        old="zk.connect", kind=connect_or_none,
    )  # fmt: skip
    zookeeper_session_ms: int = option(
        "zookeeper.session.timeout.ms", 6000, "session timeout of that ZooKeeper", "ms",
        old=("zk.sessiontimeout.ms", "zk.session.timeout.ms"), least=100,
    )  # fmt: skip
    zookeeper_connection_ms: int = option(
        "zookeeper.connection.timeout.ms", 6000, "timeout of the first connection to it", "ms",
        old=("zk.connectiontimeout.ms", "zk.connection.timeout.ms"), least=1,
    )  # fmt: skip
    acks: int = option(
        "request.required.acks", -1,
        "acknowledgement by: -1 all in-sync replicas; 1 the leader; 0 none (the JVM's default); more: that many (0.8)",
        least=-1, newer={"all": "-1"},
    )  # fmt: skip
    request_timeout_ms: int = option(
        "request.timeout.ms", 10000, "how long a broker waits for its replicas; also the connect timeout",
        "ms", old="socket.timeout.ms", least=1,
    )  # fmt: skip
    retries: int = option(
        "message.send.max.retries", 3, "retries of a failed request; negative: for ever", old="num.retries"
    )
    retry_backoff_ms: int = option(
        "retry.backoff.ms", 100, "backoff before the first retry; it doubles up to 2000", "ms", least=1
    )
    delivery_timeout_ms: int = option(
        "delivery.timeout.ms", 30000,
        "how long a message may wait for a leader or a connection, unless retries are for ever", "ms", least=1,
    )  # fmt: skip
    topic_wait_ms: int = option(
        "topic.wait.ms", 60000, "how long to wait for a topic or partition that does not exist", "ms", least=0
    )
    refresh_ms: int = option(
        "topic.metadata.refresh.interval.ms",
        600000,
        "interval of metadata refreshes; negative: after errors only",
        "ms",
    )
    codec: str = option(
        "compression.codec", "none", "compression codec: none, gzip, snappy, lz4, zstd (or 0 to 4)", kind=codec
    )
    compressed_topics: tuple[str, ...] = option("compressed.topics", (), "topics to compress (default: all)")
    linger_ms: int = option(
        "queue.buffering.max.ms", 5, "linger: how long a message waits for others of its batch (the JVM: 5000)", "ms",
        old="queue.time", least=0,
    )  # fmt: skip
    batch_messages: int = option(
        "batch.num.messages", 200, "messages of a partition that are sent without lingering", old="batch.size", least=1
    )
    batch_bytes: int = option(
        "batch.bytes", 1 << 20, "largest batch: bytes of one partition in a request", "bytes", least=1024
    )
    queue_messages: int = option(
        "queue.buffering.max.messages",
        10000,
        "largest number of messages not acknowledged yet",
        old="queue.size",
        least=1,
    )
    queue_bytes: int = option(
        "queue.buffering.max.bytes", 32 << 20, "largest number of bytes not acknowledged yet", "bytes", least=1024
    )
    enqueue_timeout_ms: int = option(
        "queue.enqueue.timeout.ms", -1, "how long send() waits for room in the queue; negative: for ever", "ms",
        old="queue.enqueueTimeout.ms",
    )  # fmt: skip
    message_max_bytes: int = option(
        "message.max.bytes", MESSAGE_MAX, "largest message: the brokers' message.max.bytes", "bytes",
        old="max.message.size", least=1024,
    )  # fmt: skip
    confirm: str = option(
        "confirm", NO_CONFIRM,
        "how messages to Kafka 0.7 are acknowledged. offsets: a message counts as stored once an offset request "
        "behind it on the same connection was answered, and is retried otherwise; none: once it is sent",
        choices=(NO_CONFIRM, BY_OFFSETS),
    )  # fmt: skip
    idempotence: bool | None = option(
        "enable.idempotence", None,
        "number record batches, so that brokers (0.11 and later) store each once, unless its messages are older "
        "than brokers remember a producer (7 days, 1 day from 3.4 on); default: if brokers and "
        "request.required.acks (-1) allow it; true: else send nothing",
    )  # fmt: skip
    max_in_flight: int = option(
        "max.in.flight", 5, "requests in flight on one connection, on different partitions", least=1
    )
    connections: int = option(
        "num.producer.connections", 1,
        "connections to each broker, on different partitions (0.7: one); a broker handles one request of a connection "
        "at a time", least=1,
    )  # fmt: skip
    request_bytes: int = option("request.max.bytes", 16 << 20, "largest request: bytes of entries", "bytes", least=1024)
    reconnect_ms: int = option(
        "reconnect.backoff.ms", 1000, "backoff before connecting to a broker again", "ms", least=0
    )
    reconnect_sends: int = option(
        "reconnect.interval", 0, "requests after which a connection is replaced, for load balancers; 0: never", least=0
    )
    reconnect_time_ms: int = option(
        "reconnect.time.interval.ms", 0, "time after which a connection is replaced; 0 or below: never", "ms"
    )
    client_id: str = option("client.id", "", "name of this producer in requests, for the brokers' logs")
    type: str = option(
        "producer.type", "async", "async: send() queues a message; sync: send() returns once it is stored",
        choices=("async", "sync"),
    )  # fmt: skip
    unkeyed: str = option(
        "unkeyed.partitioner", "batch",
        "partitioner of messages without a key: batch (a random partition each batch), sticky (one for "
        "topic.metadata.refresh.interval.ms, as 0.8), random (as 0.7), round-robin (as the Java producer)",
        choices=UNKEYED,
    )  # fmt: skip
    partitioner: str = option(
        "partitioner.class",
        "default",
        "partitioner of keys: function of (key, partition count); default: the DefaultPartitioner of kafka.version",
        kind=CLASS,
    )
    encoder: str = option(
        "serializer.class",
        "producer.encoders:as_bytes",
        "encoder of values: function from a value to bytes",
        kind=CLASS,
    )
    key_encoder: str = option("key.serializer.class", "", "encoder of keys (default: serializer.class)", kind=CLASS)
    version: str = option(
        "kafka.version", "", "Kafka release of the brokers; default: they are asked", kind=optiontypes.release
    )

    metrics_enable: bool = option(
        "metrics.enable", False, "export metrics of this producer through prometheus-client's default registry"
    )
    callback_handler: str = option(
        "callback.handler",
        "",
        "callback handler: a producer.handlers.CallbackHandler with hooks around the queue",
        kind=CLASS,
    )
    callback_handler_props: Mapping[str, str] = option(
        "callback.handler.props", {}, "properties for init() of callback.handler: k=v,k=v", kind=properties_of
    )
    event_handler: str = option(
        "event.handler", "", "event handler: a producer.handlers.EventHandler that sends the batches itself", kind=CLASS
    )
    event_handler_props: Mapping[str, str] = option(
        "event.handler.props", {}, "properties for init() of event.handler: k=v,k=v", kind=properties_of
    )

    @property
    def response_timeout_ms(self) -> int:
        """Return the response timeout of a connection: longer than request.timeout.ms, after which a broker responds
        with error 7."""
        return self.request_timeout_ms + RESPONSE_GRACE_MS

    @property
    def numbers_batches(self) -> bool:
        """True if record batches get numbers, by which brokers recognize duplicates (KIP-98)."""
        return self.acks == -1 and self.idempotence is not False

    @property
    def patience(self) -> Patience:
        """Return the bounds of the retries."""
        return Patience(
            retries=self.retries,
            backoff_s=self.retry_backoff_ms / 1000,
            topic_wait_s=self.topic_wait_ms / 1000,
            delivery_s=self.delivery_timeout_ms / 1000,
        )

    def limits(self, dialect: Dialect) -> Limits:
        """Return the limits of batches and requests for brokers of this dialect."""
        return Limits(
            batch_bytes=self.batch_bytes,
            batch_count=self.batch_messages,
            linger_s=self.linger_ms / 1000,
            request_bytes=self.request_bytes,
            max_message_bytes=largest_entry(self.message_max_bytes, dialect),
            one_wrapper_per_set=dialect.one_wrapper_per_set,
            measures_whole_set=dialect.measures_whole_set,
        )

    def codec_of(self, topic: str) -> int:
        """Return the codec of a topic's messages: compression.codec, or none when compressed.topics does not name the
        topic."""
        named = self.compressed_topics
        return CODECS[self.codec] if not named or topic in named else 0

    @property
    def listed(self) -> tuple[Broker, ...]:
        """Return the brokers of metadata.broker.list; those without an id are numbered in order."""
        if isinstance(self.brokers, Addresses):
            return self.brokers.brokers
        return tuple(Broker(number, host, port) for number, (host, port) in enumerate(self.brokers))

    @property
    def sync(self) -> bool:
        return self.type == "sync"

    @property
    def knows_partitions(self) -> bool:
        """True if partitions can be chosen.  With a broker list of 0.7 there is no metadata, and keys are ignored."""
        return expected(self.version).describes_itself or bool(self.zookeeper_connect)

    def unfit(self, spoken: Dialect) -> Iterable[str]:
        """Yield why options do not fit brokers of this release.

        If no option names the release, the brokers are asked first, and until then nothing is refused because of it.
        """
        yield from self.acks_problems(spoken)
        if self.idempotence and not spoken.record_batches:
            yield f"enable.idempotence: Kafka {spoken.release} cannot; brokers support it since 0.11: leave it out"
        if CODECS[self.codec] not in spoken.codecs:
            yield f"compression.codec {self.codec} is not known to Kafka {spoken.release}"

    def _unanswered_problems(self, spoken: Dialect) -> Iterable[str]:
        """Yield errors about options that a release without produce responses (0.7) does not support, or that only it
        supports."""
        called = f"Kafka {spoken.release}"
        if spoken.answers_produce:
            if self.confirm != NO_CONFIRM and not self.version:
                yield (
                    "confirm is for Kafka 0.7, which acknowledges nothing and has to be configured: set kafka.version "
                    "to 0.7.2; for later brokers see request.required.acks"
                )
            elif self.confirm != NO_CONFIRM:
                yield f"confirm is for releases that acknowledge nothing; {called} does: see request.required.acks"
            return
        if "request.required.acks" in given(self):
            yield f"{called} acknowledges nothing: leave request.required.acks out, and see confirm"
        loaded = "partitioner.class" not in self.NOT_LOADED
        if loaded and self.partitioner != "default" and not self.knows_partitions:
            yield (
                f"partitioner.class needs zookeeper.connect: with a broker list alone {called} has no partitions to "
                "choose from, and keys are ignored"
            )

    @property
    def zookeeper_given(self) -> str:
        """Return the ZooKeeper to which the security options apply; empty: none."""
        return self.zookeeper_connect

    def acks_problems(self, spoken: Dialect) -> Iterable[str]:
        """Yield why brokers of this release do not support that number of acknowledgements.  A subclass with another
        option overrides it."""
        if self.acks > MAX_ACKS:
            yield f"request.required.acks={self.acks} is more than a request holds: at most {MAX_ACKS}; -1 is all"
        elif self.acks > 1 and spoken.answers_produce and not spoken.counts_replicas:
            yield (
                f"request.required.acks={self.acks}: Kafka {spoken.release} refuses a number of replicas (error 21, "
                "since 0.9); -1 waits for all that are in sync"
            )

    def queue_problems(self) -> Iterable[str]:
        """Yield why the queue cannot hold a batch; a subclass without such a queue overrides it."""
        if self.batch_messages > self.queue_messages:
            yield (
                f"batch.num.messages ({self.batch_messages}) is larger than queue.buffering.max.messages "
                f"({self.queue_messages}): a batch could never fill up"
            )

    def address_problems(self) -> Iterable[str]:
        """Yield why the addresses of brokers contradict each other; a subclass with other addresses overrides it."""
        if self.brokers and self.zookeeper_connect:
            yield (
                "'metadata.broker.list' and 'zookeeper.connect' are two ways to find the brokers, and both are given: "
                "keep one"
            )

    def problems(self) -> Iterable[str]:
        yield from security_problems(self, self.zookeeper_given)
        yield from broker_security_problems(self)
        if self.security_protocol != PLAINTEXT and expected(self.version).partitions_by_broker:
            yield f"'security.protocol' {self.security_protocol}: Kafka {self.version} supports neither TLS nor SASL"
        spoken = expected(self.version)
        yield from self.unfit(spoken) if self.version else self.acks_problems(spoken)
        yield from self.address_problems()
        yield from self.queue_problems()
        loaded = not self.NOT_LOADED & {"callback.handler", "event.handler"}
        if self.sync and loaded and (self.callback_handler or self.event_handler):
            yield (
                "callback.handler and event.handler need the queue: producer.type must be async for them, and is sync"
            )
        yield from self._unanswered_problems(spoken)
        if self.idempotence and self.acks != -1:
            yield (
                f"enable.idempotence needs request.required.acks -1, and it is {self.acks}: a batch that only the "
                "leader has would be lost with it"
            )
