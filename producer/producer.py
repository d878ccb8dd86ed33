"""A producer for any Python program: send(), send_many(), flush(), close().

    with Producer({"metadata.broker.list": "broker1:9092"}) as producer:
        producer.send("orders", b"value", key=b"customer 7")
        stored = producer.send("orders", b"value").result(10)         # stored.tp, stored.offset

send() encodes, chooses a partition and puts the message into that partition's bucket; a greenlet of the hub turns
buckets into parts every queue.buffering.max.ms, or sooner when one is full, and gives them to the Sender.  Any thread
of a plain program may send; in a gevent program, any greenlet of the hub that made the first call.

Each message ends in one of three ways: acknowledged; failed, with the reason in its Delivery, at its callback and in
the next flush() or close(); or refused by the send() that was given it.  counts says how many of each there are.

Bounded: queue.buffering.max.messages and queue.buffering.max.bytes count what is not acknowledged yet; send() waits
when there is no room.

How many messages of a producer ended how, and what flush() and close() tell of those that did not end well.

Producers learn that their process was forked: a child has neither the hub's thread nor connections of its own.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from types import TracebackType
from typing import Any, cast, overload
from weakref import WeakSet

from groundwork.crew import Event, now
from groundwork.hub import OwnThread, Which, pick_hub
from groundwork.options import load
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost
from kafkawire.model import PartitionId
from producer.accumulator import Buckets, Counts, Putting, chunks
from producer.callbacks import Callbacks
from producer.config import ProducerConfig
from producer.delivery import Deliveries, Delivery, Flag, Listener
from producer.dispatcher import Feeder
from producer.errors import Closed, NotSent, SendFailed
from producer.handlerqueue import HandlerQueue, handlers_of
from producer.handlers import CallbackHandler, EventHandler
from producer.messages import Given, messages_of
from producer.metrics import Look, ProducerMetrics, TopicSizes
from producer.partitioners import Unkeyed
from producer.plugins import Encoder, Partitioner, Plugins

log = logging.getLogger(__name__)

CHUNK = 500  # messages of send_many that go into one bucket
CALLBACKS_S = 1.0  # least time for those that hear of the end of their messages
EXIT_S = 3.0  # at the interpreter's exit without a close()
FORKED = "this process was forked after the producer was made: its connections stayed behind; make a producer here"


class Producer:
    """NEW until start() or the first send(); OPEN; CLOSED for good.

    config is a ProducerConfig, or a mapping of option names to values; OptionError names what is wrong with it.
    encoder and key_encoder turn what is sent into bytes or None; partitioner(key, partitions) gets the key as it was
    sent; callback_handler and event_handler are producer.handlers'.  Each overrides the option of the configuration.
    on_delivery(delivery) is called for each message without one of its own, once it is stored or has failed.  hub: see
    groundwork.hub.
    """

    def __init__(
        self,
        config: ProducerConfig | Mapping[str, object],
        *,
        encoder: Encoder | None = None,
        key_encoder: Encoder | None = None,
        partitioner: Partitioner | None = None,
        hub: Which = "auto",
        on_delivery: Listener | None = None,
        callback_handler: CallbackHandler | None = None,
        event_handler: EventHandler | None = None,
    ) -> None:
        if not isinstance(config, ProducerConfig):
            config = load(ProducerConfig, config, "Producer")
        self.config = config
        self._plugins = Plugins(config, encoder, key_encoder, partitioner)
        self._dialect = dialect(config.version)
        self._sync = config.sync
        self._hub = pick_hub(hub)
        own = isinstance(self._hub, OwnThread)
        self._callbacks = Callbacks(own)
        self._on_delivery = on_delivery
        self._buckets = Buckets(
            config,
            Unkeyed(config.unkeyed, config.refresh_ms / 1000),
            first=lambda: self._hub.post(self._feeder.begin_round),
            full=lambda: self._hub.post(self._feeder.drain),
            flag=self._flag,
        )
        self._feeder = Feeder(config, self._dialect, self._buckets, self._callbacks.call)
        putting = Putting(
            config,
            dialect=self._dialect,
            plugins=self._plugins,
            buckets=self._buckets,
            find_route=lambda topic: self._hub.call(self._feeder.until_known, topic),
            wait_room=lambda timeout_s: self._hub.call(self._feeder.wait_room, timeout_s),
        )
        handlers = handlers_of(config, callback_handler, event_handler)
        self._queue: HandlerQueue | None = None
        if any(handlers):
            self._queue = HandlerQueue(
                config,
                callbacks=handlers[0],
                events=handlers[1],
                plugins=self._plugins,
                appender=putting,
                buckets=self._buckets,
                dispatcher=self._feeder,
                hub=self._hub,
                calls=self._callbacks,
            )
        self._way: Putting | HandlerQueue = self._queue or putting
        self._tally = Tally(self._buckets, self._feeder, self._queue)
        self._metrics = ProducerMetrics(config.client_id, self._look) if config.metrics_enable else None
        self._starting = threading.Lock()
        self._started = self._closed = self._forked = False
        self._resting = True  # not started, closed or forked: send() has to look
        _producers.add(self)

    def start(self) -> None:
        """Start the hub and its greenlets; send() does it when need be.  Connects to nothing yet."""
        if self._forked:
            raise Closed(FORKED)
        with self._starting:
            if self._closed:
                raise Closed("the producer is closed")
            if not self._started:
                self._hub.start()
                self._hub.call(self._feeder.start)
                self._hub.before_exit(self._at_exit)
                if self._on_delivery is not None:
                    self._callbacks.start()
                self._started = True
                self._resting = False

    def prepare(self, topic: str) -> None:
        """Start, and have the cluster asked for a topic's partitions, so that the first send() need not wait."""
        self.start()
        self._hub.post(self._feeder.need, topic)

    # ---- sending ---------------------------------------------------------------------------------------------------

    @overload
    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        partition: PartitionId | None = None,
        on_delivery: Listener | None = None,
    ) -> Delivery: ...

    @overload
    def send(self, topic: Given, *, on_delivery: Listener | None = None) -> list[Delivery]: ...

    def send(
        self,
        topic: str | Given,
        value: Any = None,
        key: Any = None,
        partition: PartitionId | None = None,
        on_delivery: Listener | None = None,
    ) -> Delivery | list[Delivery]:
        """Have one message sent, in order within its partition; or those of message objects, in their order.

        Returns once there is room, not once it is stored; with producer.type=sync once it is stored.  Raises QueueFull
        (queue.enqueue.timeout.ms); NotSent (InvalidTopic, EncoderFailed, PartitionerFailed) and Undeliverable for a
        message that cannot be sent; another WireError when the topic has no partitions to be found; Closed.  Then
        nothing of this message was sent.  With producer.type=sync also why it was not stored.
        """
        if self._resting:
            self.start()
        if not isinstance(topic, str):
            return self._send_given(topic, on_delivery)
        listener = on_delivery or self._on_delivery
        delivery = self._way.put(topic, value, key, None, partition, listener)
        if self._sync:
            self._hub.post(self._feeder.drain)
            delivery.result()
        return delivery

    def send_many(self, topic: str, values: Iterable[Any], keys: Iterable[Any] | None = None) -> Deliveries:
        """Have many messages of one topic sent, several times as fast as one by one; keys: one for each value.

        Those without a key go to one partition a few hundred at a time.  Raises as send() does; what was taken from
        values before is on its way then, and the exception's .deliveries has it.
        """
        if self._resting:
            self.start()
        deliveries = Deliveries()
        of_keys = None if keys is None else iter(keys)
        try:
            for chunk in chunks(values, CHUNK):
                some = None if of_keys is None else list(islice(of_keys, len(chunk)))
                if some is not None and len(some) < len(chunk):
                    raise NotSent(f"topic {topic}: there are fewer keys than values")
                if some is None:
                    self._way.put_values(topic, chunk, deliveries, self._on_delivery)
                else:
                    self._way.put_pairs(topic, chunk, some, deliveries, self._on_delivery)
        except Exception as exc:
            exc.deliveries = deliveries  # type: ignore[attr-defined]
            raise
        if self._sync:
            self._hub.post(self._feeder.drain)
            deliveries.result()
        return deliveries

    def _send_given(self, given: Given, on_delivery: Listener | None) -> list[Delivery]:
        listener = on_delivery or self._on_delivery
        deliveries = [
            self._way.put(m.topic, m.value, m.key, m.partition_key, m.partition, listener) for m in messages_of(given)
        ]
        if self._sync:
            self._hub.post(self._feeder.drain)
            for delivery in deliveries:
                delivery.result()
        return deliveries

    # ---- the end of it ---------------------------------------------------------------------------------------------

    def flush(self, timeout_s: float = 30.0) -> None:
        """Wait until everything sent so far is stored.

        Raises SendFailed when something was not since the last flush(), or not within the time: it names the first
        reason and the counts.
        """
        if self._forked:
            raise Closed(FORKED)
        if self._started and not self._closed:
            until = now() + timeout_s
            if self._queue is not None:
                self._queue.flush(timeout_s)
            self._hub.call(self._feeder.flush, max(0.0, until - now()))
            self._tally.report(self.counts.pending, timeout_s, self._closed)

    def close(self, timeout_s: float = 30.0) -> None:
        """Flush within the time, then end, whatever is left.  Raises SendFailed as flush() does."""
        if self._forked:
            raise Closed(FORKED)
        until = now() + timeout_s
        with self._starting:
            if self._closed:
                return
            self._closed = self._resting = True
        if self._metrics is not None:
            self._metrics.close()
        if not self._started:
            return
        if self._queue is not None:
            self._queue.close(timeout_s)
        self._buckets.close(Closed("the producer is closed"))
        if self._queue is not None:
            self._queue.abandon(timeout_s)
        try:
            left = self._hub.call(self._feeder.end, max(0.0, until - now()))
            self._callbacks.close(max(CALLBACKS_S, until - now()))
        finally:
            self._hub.stop()
        self._tally.report(left, timeout_s, self._closed)

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

    def _at_exit(self) -> None:
        """In the hub, when the interpreter ends."""
        if self._closed:
            return
        self._closed = self._resting = True
        before = self.counts.failed
        self._feeder.end(EXIT_S)  # what is left there fails, and is counted
        counts = self.counts
        lost = counts.failed - before + counts.pending  # pending: what handlers still hold
        if lost:
            log.error("the program ended without Producer.close(): %d messages are lost", lost)

    def after_fork(self) -> None:
        """In a child process: the hub's thread and the connections are the parent's."""
        self._forked = self._resting = True

    def _flag(self) -> Flag:
        return threading.Event() if isinstance(self._hub, OwnThread) else cast(Flag, Event())

    # ---- what it says ----------------------------------------------------------------------------------------------

    @property
    def counts(self) -> Counts:
        """Messages so far: sent = acked + failed + pending."""
        return self._tally.counts

    @property
    def pending(self) -> int:
        """Messages sent and not yet settled."""
        return self.counts.pending

    def _look(self) -> Look:
        return Look(self.counts, self._feeder.counters, self.sizes)

    @property
    def pool(self) -> dict[int, bool]:
        """Brokers by id that there is a connection for, and whether it is up; with zookeeper.connect: all that live."""
        live = self._started and not (self._closed or self._forked)
        return self._hub.call(lambda: self._feeder.pool) if live else {}

    @property
    def sizes(self) -> dict[str, TopicSizes]:
        """Of each topic: a histogram, and the fetch.message.max.bytes that consumers need."""
        return dict(self._feeder.sizes.topics)


class Tally:
    """queue: of the handlers, where there are some.  Each failure is told once."""

    def __init__(self, buckets: Buckets, feeder: Feeder, queue: HandlerQueue | None) -> None:
        self._buckets, self._feeder, self._queue = buckets, feeder, queue
        self._told_lost = 0  # of counts.maybe_lost

    @property
    def counts(self) -> Counts:
        """Messages so far: sent = acked + failed + pending."""
        counts, queue = self._buckets.counts, self._queue
        if self._feeder.counters is not None and self._feeder.counters.maybe_lost:
            counts = replace(counts, maybe_lost=self._feeder.counters.maybe_lost)
        if queue is None:
            return counts
        return replace(
            counts,
            sent=counts.sent + queue.waiting + queue.handled + queue.dropped,
            acked=counts.acked + queue.handled,
            failed=counts.failed + queue.dropped,
        )

    def report(self, left: int, timeout_s: float, closed: bool) -> None:
        """After waiting for so long: raise SendFailed for what failed since the last report, and for `left` messages
        that did not end.  closed: those have failed by now, too."""
        failed, first = self._buckets.failures()
        failed -= left if closed else 0
        lost = self.counts.maybe_lost - self._told_lost
        self._told_lost += lost
        if failed <= 0 and not left and not lost:
            return
        told = f"{failed} messages were not stored; the first reason: {first}" if failed > 0 else ""
        late = f"{left} messages are not acknowledged after {timeout_s:g} s" if left else ""
        gone = ""
        if lost:
            gone = f"{lost} messages may be lost: they were sent, nobody acknowledges them, and their connection broke"
        raise SendFailed(
            "; ".join(filter(None, (told, late, gone))), first or (TimeoutError(late) if late else LinkLost(gone))
        )


_producers: WeakSet[Producer] = WeakSet()  # those of this process, as long as they are there


def _in_child() -> None:
    for producer in list(_producers):
        producer.after_fork()


os.register_at_fork(after_in_child=_in_child)
