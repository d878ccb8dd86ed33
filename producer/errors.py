"""Errors of a producer.  Each sentence names topic, partition and broker, and what helps."""

from __future__ import annotations

from kafkawire.errors import LocalError, WireError
from kafkawire.model import Broker


class Undeliverable(WireError):
    """The target can never store this; a retry would not help."""


class UnknownOutcome(Undeliverable):
    """Whether it is stored is not known, and it may not be retried because it must not be stored twice."""


class TooLarge(Undeliverable):
    """One message that its target refuses for its size (bytes of its entry)."""

    def __init__(self, sentence: str, size: int, broker: Broker) -> None:
        super().__init__(sentence)
        self.size = size
        self.broker = broker


class QueueFull(WireError):
    """No room for another message within queue.enqueue.timeout.ms: the brokers take less than is sent."""


class SendFailed(WireError):
    """Messages were not stored.  The first reason and the counts are in the sentence; .first is the reason itself."""

    def __init__(self, sentence: str, first: Exception) -> None:
        super().__init__(sentence)
        self.first = first


class NotSent(LocalError):
    """Refused before it was queued: nothing of the message was sent.  The sentence names topic and option."""


class InvalidTopic(NotSent):
    """No broker takes a topic of this name."""


class EncoderFailed(NotSent):
    """serializer.class or key.serializer.class raised, or returned no bytes."""


class PartitionerFailed(NotSent):
    """partitioner.class raised, or returned no partition of the topic."""


class HandlerFailed(WireError):
    """callback.handler or event.handler raised, returned nonsense, or left a message out of its batch."""


class Closed(WireError):
    """The producer was closed before, or while, this message waited."""


def raised_by_users(own: bool) -> tuple[type[BaseException], ...]:
    """What to catch of a program's own code.  own: in a thread of ours, where sys.exit() would silently end just that
    thread.  Not own: in a greenlet of the program's event loop, where it ends the program, as intended."""
    return (Exception, SystemExit) if own else (Exception,)
