"""The handlers of a producer in front of it: what send() is where there are some.

    send()  ->  before_enqueue, queue, the other hooks (handling.py)  ->  encoder, partition, bucket (putting.py)

A Delivery is made at once; its message, when it comes out of the queue, settles it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from groundwork.hub import Hub, HubStopped, OwnThread
from kafkawire.errors import LocalError
from kafkawire.model import PartitionId
from producer.buckets import Buckets
from producer.callbacks import Callbacks
from producer.config import ProducerConfig
from producer.delivery import Bucket, Deliveries, Delivery, Listener
from producer.feeder import Feeder
from producer.handlers import CallbackHandler, EventHandler, Item, Promise
from producer.handling import HandlerQueue
from producer.plugins import Plugins, loaded_handler
from producer.putting import Putting


@dataclass(frozen=True, slots=True)
class WaysOut:
    """The parts of a producer behind the queue."""

    putting: Putting
    buckets: Buckets
    feeder: Feeder
    hub: Hub
    callbacks: Callbacks


class Front:
    """The queue of the handlers, and both ways out of it: into the buckets, or waited for by an event handler."""

    def __init__(
        self,
        config: ProducerConfig,
        callbacks: CallbackHandler | None,
        events: EventHandler | None,
        plugins: Plugins,
        out: WaysOut,
    ) -> None:
        self._out = out
        own = isinstance(out.hub, OwnThread)
        tell = (out.buckets.not_put, out.callbacks.call)
        self.queue = HandlerQueue(config, callbacks, events, self, plugins.encode, *tell, own, out.buckets.flag)

    def put(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition_key: Any,
        partition: PartitionId | None,
        listener: Listener | None,
    ) -> Delivery:
        """Into the queue.  Raises as HandlerQueue.put()."""
        return self._queued(Item(topic, value, key, partition, partition_key), listener)

    def put_values(self, topic: str, values: list[Any], deliveries: Deliveries, listener: Listener | None) -> None:
        """Messages without keys, likewise."""
        self.put_pairs(topic, values, [None] * len(values), deliveries, listener)

    def put_pairs(
        self, topic: str, values: list[Any], keys: list[Any], deliveries: Deliveries, listener: Listener | None
    ) -> None:
        """Messages with keys, likewise."""
        for value, key in zip(values, keys, strict=True):
            deliveries.add(*self._queued(Item(topic, value, key), listener).place)

    def _queued(self, item: Item, listener: Listener | None) -> Delivery:
        bucket = Bucket.of_one(self._out.buckets.lock, self._out.buckets.flag, item.topic, item.partition)
        item.promise = Promise(bucket, listener)
        delivery = item.promise.delivery
        self.queue.put(item)
        return delivery

    def put_item(self, item: Item) -> None:
        """See handlers.Way."""
        self._out.putting.put(
            item.topic, item.value, item.key, item.partition_key, item.partition, item.promise, patient=True
        )

    def drain(self) -> None:
        """See handlers.Way."""
        try:
            self._out.hub.post(self._out.feeder.drain)
        except HubStopped:
            pass  # the producer was closed, and has told of what it was not given in time

    def send(self, topic: str, value: Any, key: Any = None, partition: PartitionId | None = None) -> Delivery:
        """Past the queue, for an event handler: returns once it is stored, or raises why it is not."""
        delivery = self._out.putting.put(topic, value, key, None, partition, None, patient=True)
        self._out.hub.post(self._out.feeder.drain)
        delivery.result()
        return delivery


def handlers_of(
    config: ProducerConfig, callbacks: CallbackHandler | None, events: EventHandler | None
) -> tuple[CallbackHandler | None, EventHandler | None]:
    """Those given, else those that the options name, told their properties.  LocalError for what cannot be."""
    callbacks = callbacks or loaded_handler("callback.handler", config.callback_handler, CallbackHandler)
    events = events or loaded_handler("event.handler", config.event_handler, EventHandler)
    if config.sync and (callbacks is not None or events is not None):
        raise LocalError("callback and event handlers stand behind the queue: producer.type must be async for them")
    if callbacks is not None:
        callbacks.init(config.callback_handler_props)
    if events is not None:
        events.init(config.event_handler_props)
    return callbacks, events
