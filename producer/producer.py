"""Producer for any Python program: send(), send_many(), flush(), close().

    with Producer({"metadata.broker.list": "broker1:9092"}) as producer:
        producer.send("orders", b"value", key=b"customer 7")
        stored = producer.send("orders", b"value").result(10)         # stored.tp, stored.offset

send() encodes a message, chooses its partition and puts it into that partition's bucket (accumulator.py).  The event
loop drains the buckets into the Sender every queue.buffering.max.ms, or when one is full (dispatcher.py).  Any thread
of a plain program may send; in a gevent program, any greenlet of the hub that made the first call.

Each message ends in one of three ways: acknowledged; failed, with the reason in its Delivery, for its callback and in
the next flush() or close(); or refused by send() itself.  `counts` has the numbers.

queue.buffering.max.messages and queue.buffering.max.bytes bound the messages that are not acknowledged yet; send()
waits when there is no room.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from types import TracebackType
from typing import Any, cast, overload

from groundwork.forks import belongs_to_parent, not_in_a_fork
from groundwork.hub import OwnThread, Which, pick_hub
from groundwork.options import load
from groundwork.tasks import Event, now
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.errors import LinkLost, LocalError
from kafkawire.model import PartitionId
from producer.accumulator import Accumulator, Appender, Counts, chunks
from producer.callbacks import Callbacks
from producer.config import ProducerConfig
from producer.delivery import Deliveries, Delivery, Flag, Listener
from producer.dispatcher import Dispatcher
from producer.errors import Closed, NotSent, SendFailed
from producer.handlerqueue import HandlerQueue
from producer.handlers import CallbackHandler, EventHandler
from producer.messages import Given, Headers, messages_of
from producer.metrics import ProducerMetrics, Snapshot, TopicSizes
from producer.partitioners import UnkeyedPartitioner
from producer.plugins import Encoder, Partitioner, Plugins, loaded_handler

log = logging.getLogger(__name__)

CHUNK = 500  # messages of send_many that are put into one bucket
CALLBACKS_S = 1.0  # minimum time for delivery callbacks at close()
EXIT_S = 3.0  # for sending at the interpreter's exit, without close()
FORKED = belongs_to_parent("the producer")


class Producer:
    """A producer: NEW until start() or the first send(), then OPEN, and CLOSED for good.

    config: a ProducerConfig, or a mapping of option names to values; OptionError names its problems.
    encoder, key_encoder: functions from a value to bytes or None.  partitioner(key, partitions): returns an index; the
    key is not encoded.  callback_handler, event_handler: see producer.handlers.  Each overrides its option.
    on_delivery(delivery): called when a message is stored or has failed, unless send() got another callback.  hub: the
    event loop (groundwork.hub).
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
        self._versions = ClusterVersions(config.version)
        self._dialect = self._versions.dialect.through(config.security_protocol)
        self._sync = config.sync
        self._hub = pick_hub(hub)
        own = isinstance(self._hub, OwnThread)
        self._callbacks = Callbacks(own)
        self._on_delivery = on_delivery
        self._accumulator = Accumulator(
            config,
            UnkeyedPartitioner(config.unkeyed, config.refresh_ms / 1000),
            first=lambda: self._hub.post(self._dispatcher.begin_round),
            full=lambda: self._hub.post(self._dispatcher.drain),
            flag=self._flag,
        )
        self._dispatcher = Dispatcher(config, self._versions, self._accumulator, self._callbacks.call)
        appender = Appender(
            config,
            dialect=self._dialect,
            plugins=self._plugins,
            accumulator=self._accumulator,
            find_topic=lambda topic: self._hub.call(self._dispatcher.wait_topic, topic),
            wait_room=lambda timeout_s: self._hub.call(self._dispatcher.wait_room, timeout_s),
        )
        hooks = loaded_handler(
            "callback.handler",
            config.callback_handler,
            CallbackHandler,
            callback_handler,
            config.callback_handler_props,
        )
        events = loaded_handler(
            "event.handler", config.event_handler, EventHandler, event_handler, config.event_handler_props
        )
        self._queue: HandlerQueue | None = None
        if hooks is not None or events is not None:
            if config.sync:
                raise LocalError("callback and event handlers need the queue: producer.type must be async for them")
            self._queue = HandlerQueue(
                config,
                hooks or CallbackHandler(),
                events,
                encode=self._plugins.encode,
                appender=appender,
                accumulator=self._accumulator,
                drain=lambda: self._hub.post(self._dispatcher.drain),
                own=own,
                calls=self._callbacks,
            )
        self._input: Appender | HandlerQueue = self._queue or appender
        self._reported_lost = 0  # of counts.maybe_lost
        self._metrics = ProducerMetrics(config.client_id, self._snapshot) if config.metrics_enable else None
        self._starting = threading.Lock()
        self._started = self._closed = self._forked = False
        self._not_running = True  # not started, closed or forked: send() has to check
        not_in_a_fork(self)

    def start(self) -> None:
        """Start the event loop and its greenlets, which send() would do, too.  Does not connect yet.  Raises NoThread
        (groundwork.threads), an OSError, if no thread can be created."""
        if self._forked:
            raise Closed(FORKED)
        with self._starting:
            if self._closed:
                raise Closed("the producer is closed")
            if not self._started:
                if self._on_delivery is not None or isinstance(self._hub, OwnThread):
                    self._callbacks.start()
                self._hub.start()
                self._hub.call(self._dispatcher.start)
                self._hub.before_exit(self._at_exit)
                self._started = True
                self._not_running = False

    def prepare(self, topic: str) -> None:
        """Start, and request a topic's partitions, so that the first send() need not wait for them."""
        self.start()
        self._hub.post(self._dispatcher.need, topic)

    # ---- sending ---------------------------------------------------------------------------------------------------

    @overload
    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        partition: PartitionId | None = None,
        on_delivery: Listener | None = None,
        headers: Headers | None = None,
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
        headers: Headers | None = None,
    ) -> Delivery | list[Delivery]:
        """Send one message, in order within its partition; or the messages of message objects, in their order.

        headers: pairs of a name (text) and a value (bytes or None) in order, or a mapping; for brokers of 0.11 and
        later, else NotSent.

        Returns when the message is queued; with producer.type=sync when it is stored.  Raises QueueFull
        (queue.enqueue.timeout.ms); NotSent (InvalidTopic, EncoderFailed, PartitionerFailed) and Undeliverable for a
        message that cannot be sent; another WireError when no partitions of the topic are found; Closed.  In all these
        cases nothing of the message was sent.  With producer.type=sync it also raises the reason of a failure.
        """
        if self._not_running:
            self.start()
        if not isinstance(topic, str):
            return self._send_given(topic, on_delivery)
        listener = on_delivery or self._on_delivery
        delivery = self._input.put(topic, value, key, None, partition, listener, headers=headers)
        if self._sync:
            self._hub.post(self._dispatcher.drain)
            delivery.result()
        return delivery

    def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None = None,
        headers: Iterable[Headers | None] | None = None,
    ) -> Deliveries:
        """Send many messages of one topic, several times as fast as one by one; keys, headers: one for each value.

        Messages without a key are sent to one partition a few hundred at a time.  Raises as send() does; the messages
        taken from values before are still sent, and the exception's .deliveries has their deliveries.
        """
        if self._not_running:
            self.start()
        deliveries = Deliveries()
        of_keys = None if keys is None else iter(keys)
        of_headers = None if headers is None else iter(headers)
        try:
            for chunk in chunks(values, CHUNK):
                its_keys = None if of_keys is None else list(islice(of_keys, len(chunk)))
                if its_keys is not None and len(its_keys) < len(chunk):
                    raise NotSent(f"topic {topic}: there are fewer keys than values")
                its_headers = None if of_headers is None else list(islice(of_headers, len(chunk)))
                if its_headers is not None and len(its_headers) < len(chunk):
                    raise NotSent(f"topic {topic}: there are fewer headers than values")
                self._input.put_all(topic, chunk, its_keys, deliveries, self._on_delivery, headers=its_headers)
        except Exception as exc:
            exc.deliveries = deliveries  # type: ignore[attr-defined]
            raise
        if self._sync:
            self._hub.post(self._dispatcher.drain)
            deliveries.result()
        return deliveries

    def _send_given(self, given: Given, on_delivery: Listener | None) -> list[Delivery]:
        listener = on_delivery or self._on_delivery
        deliveries = [
            self._input.put(m.topic, m.value, m.key, m.partition_key, m.partition, listener, headers=m.headers)
            for m in messages_of(given)
        ]
        if self._sync:
            self._hub.post(self._dispatcher.drain)
            for delivery in deliveries:
                delivery.result()
        return deliveries

    # ---- flush and close -------------------------------------------------------------------------------------------

    def flush(self, timeout_s: float = 30.0) -> None:
        """Wait until everything sent so far is stored.

        Raises SendFailed, with the first reason and the counts, for messages that failed since the last flush(), or are
        not stored within timeout_s.
        """
        if self._forked:
            raise Closed(FORKED)
        if self._started and not self._closed:
            until = now() + timeout_s
            if self._queue is not None:
                self._queue.flush(timeout_s)
            self._hub.call(self._dispatcher.flush, max(0.0, until - now()))
            self._report(self.counts.pending, timeout_s)

    def close(self, timeout_s: float = 30.0) -> None:
        """Flush within timeout_s, then end.  Raises SendFailed as flush() does."""
        if self._forked:
            raise Closed(FORKED)
        until = now() + timeout_s
        with self._starting:
            if self._closed:
                return
            self._closed = self._not_running = True
        if self._metrics is not None:
            self._metrics.close()
        if not self._started:
            self._callbacks.close(CALLBACKS_S)
            return
        if self._queue is not None:
            self._queue.close(timeout_s)
        self._accumulator.close(Closed("the producer is closed"))
        if self._queue is not None:
            self._queue.abandon(timeout_s)
        try:
            left = self._hub.call(self._dispatcher.end, max(0.0, until - now()))
            self._callbacks.close(max(CALLBACKS_S, until - now()))
        finally:
            self._hub.stop()
        self._report(left, timeout_s)

    def _report(self, left: int, timeout_s: float) -> None:
        """Raise SendFailed for messages that failed since the last report, and for `left` pending messages after
        timeout_s."""
        failed, first = self._accumulator.failures()
        failed -= left if self._closed else 0  # the pending ones have failed by then, too
        lost = self.counts.maybe_lost - self._reported_lost
        self._reported_lost += lost
        if failed <= 0 and not left and not lost:
            return
        bad = f"{failed} messages were not stored; the first reason: {first}" if failed > 0 else ""
        late = f"{left} messages are not acknowledged after {timeout_s:g} s" if left else ""
        gone = ""
        if lost:
            gone = (
                f"{lost} messages may be lost: they were sent, no broker acknowledges them, and their connection broke"
            )
        raise SendFailed(
            "; ".join(filter(None, (bad, late, gone))), first or (TimeoutError(late) if late else LinkLost(gone))
        )

    def __enter__(self) -> Producer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._forked:
            return  # a child that exits: the parent closes it
        try:
            self.close()
        except SendFailed as failure:
            if error is None:
                raise
            log.error("%s", failure)  # the exception that ended the block is raised

    def _at_exit(self) -> None:
        """Send what is left at the interpreter's exit; runs in the event loop."""
        if self._closed:
            return
        self._closed = self._not_running = True
        before = self.counts.failed
        self._dispatcher.end(EXIT_S)  # the messages left fail, and are counted
        counts = self.counts
        lost = counts.failed - before + counts.pending  # pending: items in the handlers' queue
        if lost:
            log.error("the program ended without Producer.close(): %d messages are lost", lost)

    def _after_fork(self) -> None:
        """Mark the producer unusable in a forked child process: the event loop's thread and the connections belong to
        the parent."""
        self._forked = self._not_running = True

    def _flag(self) -> Flag:
        return threading.Event() if isinstance(self._hub, OwnThread) else cast(Flag, Event())

    # ---- counts and state ------------------------------------------------------------------------------------------

    @property
    def counts(self) -> Counts:
        """Return counts of messages so far: sent = acked + failed + pending."""
        counts, queue = self._accumulator.counts, self._queue
        if self._dispatcher.counters is not None and self._dispatcher.counters.maybe_lost:
            counts = replace(counts, maybe_lost=self._dispatcher.counters.maybe_lost)
        if queue is None:
            return counts
        return replace(
            counts,
            sent=counts.sent + queue.waiting + queue.handled + queue.dropped,
            acked=counts.acked + queue.handled,
            failed=counts.failed + queue.dropped,
        )

    @property
    def pending(self) -> int:
        """Return the number of messages not yet stored or failed."""
        return self.counts.pending

    def _snapshot(self) -> Snapshot:
        return Snapshot(self.counts, self._dispatcher.counters, self.sizes)

    @property
    def pool(self) -> dict[int, bool]:
        """Return brokers with a connection, by id, and whether it is connected; with zookeeper.connect: all live
        brokers."""
        live = self._started and not (self._closed or self._forked)
        return self._hub.call(lambda: self._dispatcher.pool) if live else {}

    @property
    def sizes(self) -> dict[str, TopicSizes]:
        """Return message sizes of each topic: a histogram, and the fetch.message.max.bytes that consumers need."""
        return dict(self._dispatcher.sizes.topics)
