"""What a program may put into the asynchronous path, as 0.7 had it: a callback handler, and an event handler.

    callback.handler    seven hooks around the queue: look at messages, change them, take them out, add others
    event.handler       sends the batches itself, in place of this producer

Names are package.module:Class, or an entry point of the group "producer.handlers"; callback.handler.props and
event.handler.props (`k=v,k=v`) are what init() gets.  The order of the hooks is that of 0.7.2 (AsyncProducer,
ProducerSendThread, DefaultEventHandler).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafkawire.model import PartitionId, TopicPartition
from producer.delivery import Bucket, Called, Delivery, Listener, Verdict

HANDLERS = "producer.handlers"


@dataclass(slots=True)
class Item:
    """A message on its way through the queue, not yet encoded; hooks may change it, copy it, or make new ones.

    promise is who is told at the end: copies keep it (dataclasses.replace), and the first that is settled counts.
    """

    topic: str
    value: Any
    key: Any = None
    partition: PartitionId | None = None
    partition_key: Any = None
    promise: Promise | None = field(default=None, repr=False, compare=False)


class Promise:
    """What became of an item, for the Delivery that its sender holds: a bucket of one, whose partition comes late."""

    __slots__ = ("_listener", "bucket")

    def __init__(self, bucket: Bucket, listener: Listener | None) -> None:
        self.bucket = bucket
        self._listener = listener

    @property
    def delivery(self) -> Delivery:
        return Delivery(self.bucket, 0)

    def settle(
        self, offset: int | None, error: Exception | None, tp: TopicPartition | None = None, sure: bool = True
    ) -> Called | None:
        """Who is to be called; None: it was settled before."""
        with self.bucket.lock:
            if self.bucket.verdicts:
                return None
            self.bucket.tp = tp or self.bucket.tp
            called = self.bucket.settle(Verdict(0, 1, offset, error, sure))
        return called if self._listener is None else [(self._listener, self.delivery), *called]

    def __call__(self, delivery: Delivery) -> Called:
        """As the listener of the message that was made of the item, in the hub: who is to be called."""
        stored = None if delivery.error is not None else delivery.result(0)
        offset, sure = (None, True) if stored is None else (stored.offset, stored.acknowledged)
        return self.settle(offset, delivery.error, delivery.tp, sure) or []


class CallbackHandler:
    """Each hook does nothing here: override those that are wanted.

    before_enqueue and after_enqueue run in the thread that sends, the others in one of the producer's own.  What a
    hook raises fails the messages it was given, with the reason; before_enqueue raises it to the sender.
    """

    def init(self, properties: Mapping[str, str]) -> None:
        """Once, before all else; properties: callback.handler.props."""

    def before_enqueue(self, item: Item) -> Item:
        """What is queued in place of item."""
        return item

    def after_enqueue(self, item: Item, added: bool) -> None:
        """It is in the queue, or, not added, the queue was full and the sender gets QueueFull."""

    def after_dequeuing(self, item: Item | None) -> list[Item]:
        """What joins the batch for an item of the queue; for None, which comes each time queue.buffering.max.ms (100 at
        least) pass without one, whatever is to be sent besides."""
        return [] if item is None else [item]

    def before_sending(self, items: list[Item]) -> list[Item]:
        """The batch that is sent in place of items, before it is encoded."""
        return items

    def last_batch_before_close(self) -> list[Item]:
        """What is added to the last batch."""
        return []

    def close(self) -> None:
        """At the beginning of the producer's close(): the queue is emptied after it, through the hooks above."""


class Sending(Protocol):
    """What an event handler sends with: each call returns once the message is stored, or raises why it is not."""

    def send(self, topic: str, value: Any, key: Any = None, partition: PartitionId | None = None) -> Delivery: ...


class EventHandler:
    """Sends batches itself: handle() is what kafka.producer.async.EventHandler is."""

    def init(self, properties: Mapping[str, str]) -> None:
        """Once; properties: event.handler.props."""

    def handle(self, items: list[Item], sending: Sending, encoder: Callable[[Any], bytes | None]) -> None:
        """Deal with a batch.  Once it returns, the messages count as acknowledged; what it raises fails all of them.

        encoder is serializer.class's; sending encodes by itself.
        """
        raise TypeError(f"{type(self).__name__} has no handle()")

    def close(self) -> None:
        """At the beginning of the producer's close()."""
