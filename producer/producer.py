"""A producer for any Python program: send(), flush(), close().

    with Producer({"metadata.broker.list": "broker1:9092"}) as producer:
        producer.send("orders", b"value", key=b"customer 7")

send() encodes, chooses a partition and puts the message into that partition's bucket; a greenlet of the hub turns
buckets into parts every queue.buffering.max.ms, or sooner when one is full, and gives them to the Sender.  What could
not be stored is raised by the next flush() or close(), with the first reason.  Any thread of a plain program may send;
in a gevent program, any greenlet of the hub that made the first call.

Bounded: queue.buffering.max.messages and queue.buffering.max.bytes count what is not acknowledged yet; send() waits
when there is no room.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from groundwork.crew import Crew, Event, connect, now, sleep
from groundwork.hub import Which, pick_hub
from groundwork.options import load
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.view import ClusterView
from kafkawire.compression import CODECS
from kafkawire.dialects import dialect
from kafkawire.errors import BrokerError, LocalError
from kafkawire.model import PartitionId, TopicPartition
from kafkawire.net.links import Links
from producer.config import ProducerConfig
from producer.errors import Closed, QueueFull, SendFailed, Undeliverable
from producer.outcomes import NEVER
from producer.partitioners import Sticky
from producer.rows import Bucket, Row, limit_of, parts, size_of
from producer.sender import Sender

log = logging.getLogger(__name__)

Encoder = Callable[[Any], bytes | None]
Partitioner = Callable[[Any, int], int]
BEING_CREATED = 5  # LeaderNotAvailable, which is also what naming a missing topic gets while it is created
EXIT_S = 3.0  # at the interpreter's exit without a close()
STEP_S = 0.25  # how often a wait looks whether the crew is dead


class Producer:
    """NEW until start() or the first send(); OPEN; CLOSED for good.

    config is a ProducerConfig, or a mapping of option names to values; OptionError names what is wrong with it.
    encoder and key_encoder turn what is sent into bytes or None; partitioner(key, partitions) gets the key as it was
    sent.  Each overrides the option of the configuration.  hub: see groundwork.hub.
    """

    def __init__(
        self,
        config: ProducerConfig | Mapping[str, object],
        encoder: Encoder | None = None,
        key_encoder: Encoder | None = None,
        partitioner: Partitioner | None = None,
        hub: Which = "auto",
    ) -> None:
        if not isinstance(config, ProducerConfig):
            config = load(ProducerConfig, config, "Producer")
        self.config = config
        self._encode = encoder or _callable(config.encoder)
        self._encode_key = key_encoder or (_callable(config.key_encoder) if config.key_encoder else self._encode)
        self._partition_of = partitioner or _callable(config.partitioner)
        self._dialect = dialect(config.version)
        self._codec = CODECS[config.codec]
        self._hub = pick_hub(hub)
        self._started = self._closed = False
        self._lock = threading.Lock()  # held only over a few plain steps, never while anything waits
        self._buckets: dict[TopicPartition, Bucket] = {}
        self._messages = 0  # sent and not yet settled
        self._bytes = 0
        self._failed = 0
        self._first: Exception | None = None
        self._sticky = Sticky()
        self._starting = threading.Lock()

    def start(self) -> None:
        """Start the hub and its greenlets; send() does it when need be.  Connects to nothing yet."""
        with self._starting:
            if self._closed:
                raise Closed("the producer is closed")
            if not self._started:
                self._hub.start()
                self._hub.call(self._start)
                self._hub.before_exit(self._at_exit)
                self._started = True

    def send(self, topic: str, value: Any, key: Any = None, partition: PartitionId | None = None) -> None:
        """Have one message sent, in order within its partition.  Returns once there is room, not once it is stored.

        Raises QueueFull (queue.enqueue.timeout.ms), Undeliverable for a message no broker takes, another WireError when
        the topic has no partitions to be found, and whatever the encoder or partitioner raises: then nothing was sent.
        """
        if not self._started or self._closed:
            self.start()
        stamp = int(time.time() * 1000) if self._dialect.magic else None
        row = Row(self._encode_key(key) if key is not None else None, self._encode(value), stamp)
        size = size_of(row, self._dialect.magic)
        if size > self.config.message_max_bytes and not self._codec_of(topic):
            raise Undeliverable(
                f"{topic}: a message of {size} bytes is larger than message.max.bytes ({self.config.message_max_bytes})"
            )
        tp = TopicPartition(topic, self._choose(topic, key, partition))
        self._reserve(tp, row, size)

    def flush(self, timeout_s: float = 30.0) -> None:
        """Wait until everything sent so far is stored.

        Raises SendFailed when something was not since the last flush(), or not within the time: it names the first
        reason and the counts.
        """
        if self._started and not self._closed:
            self._report(self._hub.call(self._flush, timeout_s), timeout_s)

    def close(self, timeout_s: float = 30.0) -> None:
        """Flush within the time, then end, whatever is left.  Raises SendFailed as flush() does."""
        with self._starting:
            if self._closed:
                return
            self._closed = True
        if not self._started:
            return
        try:
            left = self._hub.call(self._end, timeout_s)
        finally:
            self._hub.stop()
        self._report(left, timeout_s)

    def __enter__(self) -> Producer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.close()
        except SendFailed as failure:
            if error is None:
                raise
            log.error("%s", failure)  # what ended the block goes on, and is the greater news

    @property
    def pending(self) -> int:
        """Messages sent and not yet settled."""
        return self._messages

    # the caller's side: any thread

    def _choose(self, topic: str, key: Any, partition: PartitionId | None) -> PartitionId:
        view = self._sender.leaders.view
        if topic not in view.topics:
            view = self._hub.call(self._until_known, topic)
        ids = view.partitions(topic)
        if partition is not None:
            if partition not in ids:
                raise LocalError(f"{topic}/{partition}: topic {topic} has {len(ids)} partitions")
            return partition
        if key is not None:
            return ids[self._partition_of(key, len(ids))]
        with self._lock:
            led = [p for p in ids if view.topics[topic][p].leader is not None]
            chosen = self._sticky.choose(topic, led or ids)
        assert chosen is not None, "a topic without partitions is not in the view"
        return chosen

    def _reserve(self, tp: TopicPartition, row: Row, size: int) -> None:
        """Put the row into its bucket as soon as there is room."""
        wait_s = self.config.enqueue_timeout_ms / 1000
        deadline = None if wait_s < 0 else now() + wait_s
        while not self._put(tp, row, size):
            left = None if deadline is None else deadline - now()
            if left is not None and left <= 0:
                raise QueueFull(
                    f"{tp}: {self._messages} messages ({self._bytes} bytes) wait to be stored, and no room came within "
                    f"{wait_s:g} s (queue.enqueue.timeout.ms); raise queue.buffering.max.messages or .bytes"
                )
            self._hub.call(self._wait_room, STEP_S if left is None else min(left, STEP_S))

    def _put(self, tp: TopicPartition, row: Row, size: int) -> bool:
        config = self.config
        with self._lock:
            if self._messages >= config.queue_messages or (self._bytes and self._bytes + size > config.queue_bytes):
                return False
            self._messages += 1
            self._bytes += size
            first = not self._buckets
            bucket = self._buckets.setdefault(tp, Bucket())
            bucket.rows.append(row)
            bucket.size += size
            full = len(bucket.rows) == config.batch_messages or bucket.size - size < config.batch_bytes <= bucket.size
        if full:
            self._hub.post(self._drain)
        elif first:
            self._hub.post(self._armed.set)
        return True

    def _report(self, left: int, timeout_s: float) -> None:
        with self._lock:
            failed, first, self._failed, self._first = self._failed, self._first, 0, None
        if not failed and not left:
            return
        told = f"{failed} messages were not stored; the first reason: {first}" if failed else ""
        late = f"{left} messages are not acknowledged after {timeout_s:g} s" if left else ""
        raise SendFailed("; ".join(filter(None, (told, late))), first or TimeoutError(late))

    # in the hub

    def _start(self) -> None:
        self._crew = Crew()
        self._armed = Event()
        self._room = Event()
        self._links = Links(self.config.client_id, connect, self.config.request_timeout_ms)
        source = MetadataSource(self.config.brokers, self._dialect, self._links)
        quick = replace(self.config, linger_ms=0)  # messages waited for company in their buckets
        self._sender = Sender(source, quick, self._crew, connect, log.warning, by_name=True)
        self._sender.start()
        self._crew.spawn("linger", self._linger)

    def _linger(self) -> None:
        """Some time after the first message of a round, all buckets go."""
        while True:
            self._armed.wait()
            sleep(self.config.linger_ms / 1000)
            self._armed.clear()
            self._drain()

    def _drain(self) -> None:
        """All buckets to the sender.  Nothing in here waits, so that rounds cannot overtake each other."""
        with self._lock:
            buckets, self._buckets = self._buckets, {}
            self._sticky.forget()
        config = self.config
        for tp, bucket in buckets.items():
            codec = self._codec_of(tp.topic)
            limit = limit_of(self._dialect, codec, config.batch_bytes, config.message_max_bytes)
            at = 0
            for part in parts(tp, bucket.rows, self._dialect, codec, limit):
                rows = bucket.rows[at : at + part.count]
                size = sum(size_of(row, self._dialect.magic) for row in rows)
                self._sender.submit(part, _Sent(self, part.count, size))
                at += part.count

    def _codec_of(self, topic: str) -> int:
        named = self.config.compressed_topics
        return self._codec if not named or topic in named else 0

    def _until_known(self, topic: str) -> ClusterView:
        """The view once it has the topic; asking by name may create it.  Raises why it has not."""
        leaders = self._sender.leaders
        deadline = now() + self.config.delivery_timeout_ms / 1000
        tries = 0
        while topic not in leaders.view.topics:
            leaders.need(topic)
            leaders.ask()
            looked = leaders.wait_look(max(0.0, min(STEP_S, deadline - now())))
            self._alive()
            code = leaders.view.errors.get(topic, 0) if leaders.failure is None else 0
            tries += looked and code != BEING_CREATED
            if code in NEVER or (code and now() >= deadline) or (code and self._tried(tries)):
                raise BrokerError(code, f"topic {topic}")
            if leaders.failure is not None and self._tried(tries):
                raise leaders.failure
            if now() >= deadline and self.config.retries >= 0:
                raise Undeliverable(f"topic {topic} has no partitions after {self.config.delivery_timeout_ms} ms")
        return leaders.view

    def _tried(self, tries: int) -> bool:
        return 0 <= self.config.retries < tries

    def _wait_room(self, timeout_s: float) -> None:
        self._alive()
        self._drain()
        self._room.clear()
        with self._lock:
            if self._messages < self.config.queue_messages and self._bytes < self.config.queue_bytes:
                return
        self._room.wait(timeout_s)

    def _flush(self, timeout_s: float) -> int:
        """Messages that are still not settled when the time is over."""
        deadline = now() + timeout_s
        self._drain()
        while not self._sender.flush(max(0.0, min(STEP_S, deadline - now()))):
            self._alive()
            if now() >= deadline:
                return self._messages
        self._alive()
        return 0

    def _end(self, timeout_s: float) -> int:
        try:
            left = self._flush(timeout_s)
        finally:
            self._sender.close(0.0)
            self._links.close()
            self._crew.stop(1.0)
        return left

    def _at_exit(self) -> None:
        if self._closed:
            return
        self._closed = True
        left = self._end(EXIT_S)
        if left or self._failed:
            log.error("the program ended without Producer.close(): %d messages are lost", left + self._failed)

    def _alive(self) -> None:
        if self._crew.death is not None:
            raise self._crew.death

    def _settled(self, count: int, size: int) -> None:
        with self._lock:
            self._messages -= count
            self._bytes -= size
        self._room.set()

    def _not_stored(self, count: int, reason: Exception) -> None:
        with self._lock:
            self._failed += count
            self._first = self._first or reason


class _Sent:
    """The ticket of one part.  A message of it that is too large is left out, and its neighbours go on."""

    __slots__ = ("_count", "_producer", "_size")

    def __init__(self, producer: Producer, count: int, size: int) -> None:
        self._producer, self._count, self._size = producer, count, size

    def may_send(self) -> bool:
        return True

    def reached(self, resume_at: int) -> None:
        raise AssertionError(f"a part without source positions cannot have reached {resume_at}")

    def skipped(self, reason: Exception) -> None:
        self._producer._not_stored(1, reason)

    def done(self) -> None:
        self._producer._settled(self._count, self._size)

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        self._producer._not_stored(self._count, reason)
        self._producer._settled(self._count, self._size)


def _callable(name: str) -> Callable[..., Any]:
    """MODULE:NAME -> what it names.  Raises LocalError saying what is missing."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as missing:
        raise LocalError(f"{name}: {missing}") from missing
    if not callable(found):
        raise LocalError(f"{name} cannot be called")
    return found  # type: ignore[no-any-return]
