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

import logging
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from groundwork.crew import now
from groundwork.hub import Which, pick_hub
from groundwork.named import NotLoaded, load_named
from groundwork.options import load
from kafkawire.dialects import dialect
from kafkawire.errors import LocalError
from kafkawire.model import PartitionId, TopicPartition
from producer.buckets import Buckets, Put
from producer.config import ProducerConfig
from producer.errors import Closed, QueueFull, SendFailed, Undeliverable
from producer.feeder import STEP_S, Feeder
from producer.rows import Row, codec_of, size_of

log = logging.getLogger(__name__)

Encoder = Callable[[Any], bytes | None]
Partitioner = Callable[[Any, int], int]
EXIT_S = 3.0  # at the interpreter's exit without a close()


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
        self._encode = encoder or _loaded("serializer.class", config.encoder)
        self._encode_key = key_encoder or (
            _loaded("key.serializer.class", config.key_encoder) if config.key_encoder else self._encode
        )
        self._partition_of = partitioner or _loaded("partitioner.class", config.partitioner)
        self._dialect = dialect(config.version)
        self._hub = pick_hub(hub)
        self._started = self._closed = False
        self._buckets = Buckets(config)
        self._feeder = Feeder(config, self._dialect, self._buckets)
        self._starting = threading.Lock()

    def start(self) -> None:
        """Start the hub and its greenlets; send() does it when need be.  Connects to nothing yet."""
        with self._starting:
            if self._closed:
                raise Closed("the producer is closed")
            if not self._started:
                self._hub.start()
                self._hub.call(self._feeder.start)
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
        if size > self.config.message_max_bytes and not codec_of(self.config, topic):
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
            self._report(self._hub.call(self._feeder.flush, timeout_s), timeout_s)

    def close(self, timeout_s: float = 30.0) -> None:
        """Flush within the time, then end, whatever is left.  Raises SendFailed as flush() does."""
        with self._starting:
            if self._closed:
                return
            self._closed = True
        if not self._started:
            return
        try:
            left = self._hub.call(self._feeder.end, timeout_s)
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
        return self._buckets.messages

    def _choose(self, topic: str, key: Any, partition: PartitionId | None) -> PartitionId:
        view = self._feeder.view
        if topic not in view.topics:
            view = self._hub.call(self._feeder.until_known, topic)
        ids = view.partitions(topic)
        if partition is not None:
            if partition not in ids:
                raise LocalError(f"{topic}/{partition}: topic {topic} has {len(ids)} partitions")
            return partition
        if key is not None:
            return ids[self._partition_of(key, len(ids))]
        led = [p for p in ids if view.topics[topic][p].leader is not None]
        chosen = self._buckets.choose(topic, led or ids)
        assert chosen is not None, "a topic without partitions is not in the view"
        return chosen

    def _reserve(self, tp: TopicPartition, row: Row, size: int) -> None:
        """Put the row into its bucket as soon as there is room."""
        wait_s = self.config.enqueue_timeout_ms / 1000
        deadline = None if wait_s < 0 else now() + wait_s
        buckets = self._buckets
        while (put := buckets.put(tp, row, size)) is Put.NO_ROOM:
            left = None if deadline is None else deadline - now()
            if left is not None and left <= 0:
                raise QueueFull(
                    f"{tp}: {buckets.messages} messages ({buckets.bytes} bytes) wait to be stored, and no room came "
                    f"within {wait_s:g} s (queue.enqueue.timeout.ms); raise queue.buffering.max.messages or .bytes"
                )
            self._hub.call(self._feeder.wait_room, STEP_S if left is None else left)
        if put is Put.FULL:
            self._hub.post(self._feeder.drain)
        elif put is Put.FIRST:
            self._hub.post(self._feeder.begin_round)

    def _report(self, left: int, timeout_s: float) -> None:
        failed, first = self._buckets.failures()
        if not failed and not left:
            return
        told = f"{failed} messages were not stored; the first reason: {first}" if failed else ""
        late = f"{left} messages are not acknowledged after {timeout_s:g} s" if left else ""
        raise SendFailed("; ".join(filter(None, (told, late))), first or TimeoutError(late))

    def _at_exit(self) -> None:
        """In the hub, when the interpreter ends."""
        if self._closed:
            return
        self._closed = True
        lost = self._feeder.end(EXIT_S) + self._buckets.failed
        if lost:
            log.error("the program ended without Producer.close(): %d messages are lost", lost)


def _loaded(option: str, named: str) -> Callable[..., Any]:
    """What an option names.  Raises LocalError saying what is missing."""
    try:
        return load_named(option, named)
    except NotLoaded as exc:
        raise LocalError(str(exc)) from exc
