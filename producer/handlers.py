"""Base classes of 0.7's handlers for the asynchronous producer: callback handler and event handler.

    callback.handler    seven hooks around the queue: they may read, change, leave out and add messages
    event.handler       sends the batches itself, instead of this producer

Names are package.module:Class, or an entry point of the group "producer.handlers"; callback.handler.props and
event.handler.props (`k=v,k=v`) are passed to init().  The order of the hooks is that of 0.7.2 (AsyncProducer,
ProducerSendThread, DefaultEventHandler).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafkawire.model import PartitionId
from producer.delivery import Delivery, Promise
from producer.messages import Headers

HANDLERS = "producer.handlers"


@dataclass(slots=True)
class Item:
    """A message in the queue, not encoded yet; hooks may change it, copy it, and create new ones.

    promise completes the sender's Delivery: copies keep it (dataclasses.replace), and the first copy that ends counts.
    """

    topic: str
    value: Any
    key: Any = None
    partition: PartitionId | None = None
    partition_key: Any = None
    promise: Promise | None = field(default=None, repr=False, compare=False)
    headers: Headers | None = None


class CallbackHandler:
    """Hooks that change nothing: override what you need.

    before_enqueue and after_enqueue run in the thread that sends, the others in a thread of the producer: that may take
    a message off the queue before after_enqueue is called, as in 0.7 (AsyncProducer, ProducerSendThread).  When a hook
    raises, its messages fail with that reason; when before_enqueue raises, send() raises.
    """

    def init(self, properties: Mapping[str, str]) -> None:
        """Called once, before all other hooks; properties: callback.handler.props."""

    def before_enqueue(self, item: Item) -> Item:
        """Return the item to queue instead."""
        return item

    def after_enqueue(self, item: Item, added: bool) -> None:
        """Called after the item was queued; added False: the queue was full, and send() raises QueueFull."""

    def after_dequeuing(self, item: Item | None) -> list[Item]:
        """Return the items for the batch instead of the one that left the queue. item None: no item came for
        queue.buffering.max.ms (at least 100); the returned items are sent, too."""
        return [] if item is None else [item]

    def before_sending(self, items: list[Item]) -> list[Item]:
        """Return the batch to send instead, before it is encoded."""
        return items

    def last_batch_before_close(self) -> list[Item]:
        """Return items to add to the last batch."""
        return []

    def close(self) -> None:
        """Called first by the producer's close(); the queue is then emptied through the hooks above."""


class Sending(Protocol):
    """Interface of this producer for event handlers: send() returns once the message is stored, or raises the
    reason."""

    def send(self, topic: str, value: Any, key: Any = None, partition: PartitionId | None = None) -> Delivery: ...


class EventHandler:
    """Base class of handlers that send batches themselves, as kafka.producer.async.EventHandler of 0.7."""

    def init(self, properties: Mapping[str, str]) -> None:
        """Called once; properties: event.handler.props."""

    def handle(self, items: list[Item], sending: Sending, encoder: Callable[[Any], bytes | None]) -> None:
        """Send a batch.  When it returns, the messages count as acknowledged; when it raises, all of them fail.

        encoder: the encoder of values (serializer.class); `sending` encodes by itself.
        """
        raise TypeError(f"{type(self).__name__} has no handle()")

    def close(self) -> None:
        """Called first by the producer's close()."""
