"""Handlers of 0.7 that a program may put into the asynchronous path: a callback handler, and an event handler.

    callback.handler    seven hooks around the queue: read messages, change them, leave them out, add others
    event.handler       sends the batches itself, in place of this producer

Names are package.module:Class, or an entry point of the group "producer.handlers"; callback.handler.props and
event.handler.props (`k=v,k=v`) are what init() gets.  The order of the hooks is that of 0.7.2 (AsyncProducer,
ProducerSendThread, DefaultEventHandler).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafkawire.model import PartitionId
from producer.delivery import Delivery, Promise

HANDLERS = "producer.handlers"


@dataclass(slots=True)
class Item:
    """A message in the queue, not encoded yet; hooks may change it, copy it, or create new ones.

    promise completes the sender's Delivery: copies keep it (dataclasses.replace), and the first that ends counts.
    """

    topic: str
    value: Any
    key: Any = None
    partition: PartitionId | None = None
    partition_key: Any = None
    promise: Promise | None = field(default=None, repr=False, compare=False)


class CallbackHandler:
    """Hooks that change nothing: override what you need.

    before_enqueue and after_enqueue run in the thread that sends, the others in one of the producer's own.  What a
    hook raises fails the messages it was given, with that reason; what before_enqueue raises, send() raises.
    """

    def init(self, properties: Mapping[str, str]) -> None:
        """Once, before all else; properties: callback.handler.props."""

    def before_enqueue(self, item: Item) -> Item:
        """What is queued in place of item."""
        return item

    def after_enqueue(self, item: Item, added: bool) -> None:
        """The item was queued; not added: the queue was full, and send() raises QueueFull."""

    def after_dequeuing(self, item: Item | None) -> list[Item]:
        """Items for the batch in place of the one that left the queue.  None: no item for queue.buffering.max.ms (at
        least 100); what is returned is sent all the same."""
        return [] if item is None else [item]

    def before_sending(self, items: list[Item]) -> list[Item]:
        """The batch that is sent in place of items, before it is encoded."""
        return items

    def last_batch_before_close(self) -> list[Item]:
        """Items that are added to the last batch."""
        return []

    def close(self) -> None:
        """Called first by the producer's close(); the queue is emptied after it, through the hooks above."""


class Sending(Protocol):
    """How an event handler sends by this producer: send() returns once the message is stored, or raises why not."""

    def send(self, topic: str, value: Any, key: Any = None, partition: PartitionId | None = None) -> Delivery: ...


class EventHandler:
    """Sends batches itself, as kafka.producer.async.EventHandler of 0.7."""

    def init(self, properties: Mapping[str, str]) -> None:
        """Once; properties: event.handler.props."""

    def handle(self, items: list[Item], sending: Sending, encoder: Callable[[Any], bytes | None]) -> None:
        """Send a batch.  Once it returns, the messages count as acknowledged; what it raises fails all of them.

        encoder: serializer.class; sending encodes by itself.
        """
        raise TypeError(f"{type(self).__name__} has no handle()")

    def close(self) -> None:
        """Called first by the producer's close()."""
