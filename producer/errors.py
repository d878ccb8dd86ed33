"""Errors of a producer.  Each sentence names topic, partition and broker, and the remedy."""

from __future__ import annotations

from kafkawire.errors import BrokerError, LocalError, WireError
from kafkawire.model import Broker, TopicPartition


class Undeliverable(WireError):
    """The target can never store this; a retry would not help."""


class UnknownOutcome(Undeliverable):
    """The outcome is unknown, and the message is not retried because it must not be stored twice."""


class Waiting(Undeliverable):
    """A partition cannot be written, because the target lacks something. group: partitions with the same cause, which
    get one warning."""

    def __init__(self, tp: TopicPartition, lacks: str) -> None:
        super().__init__(f"{tp}: {lacks}")
        self.group = (tp.topic, lacks)


class TooLarge(Undeliverable):
    """The target refuses a message for its size (bytes of its entry)."""

    def __init__(self, sentence: str, size: int, broker: Broker) -> None:
        super().__init__(sentence)
        self.size = size
        self.broker = broker


class RecordRefused(BrokerError):
    """The target refuses one message for its content, such as its timestamp or a missing key; its bytes are not
    damaged, and a retry would not help. plain: the message text without the source offset."""

    def __init__(self, code: int, where: str, said: str = "", source: str = "") -> None:
        super().__init__(code, where, said + source)
        self.plain = str(BrokerError(code, where, said))


class QueueFull(WireError):
    """No room for another message within queue.enqueue.timeout.ms: the brokers accept less than is sent."""


class SendFailed(WireError):
    """Messages were not stored.  The sentence has the first reason and the counts; .first is the first reason."""

    def __init__(self, sentence: str, first: Exception) -> None:
        super().__init__(sentence)
        self.first = first


class NotSent(LocalError):
    """Refused before it was queued: nothing of the message was sent.  The sentence names topic and option."""


class InvalidTopic(NotSent):
    """The topic's name is invalid."""


class EncoderFailed(NotSent):
    """serializer.class or key.serializer.class raised, or returned something other than bytes."""


class PartitionerFailed(NotSent):
    """partitioner.class raised, or returned an index that is not a partition of the topic."""


class HandlerFailed(WireError):
    """callback.handler or event.handler raised, returned an invalid value, or left a message out of its batch."""


class Closed(WireError):
    """The producer was closed before, or while, this message waited."""


def raised_by_users(own: bool) -> tuple[type[BaseException], ...]:
    """Return the exceptions to catch from a program's own code. own: it runs in a thread of the producer, where
    sys.exit() would silently end just that thread.  Otherwise it runs in a greenlet of the program's hub, where
    sys.exit() ends the program."""
    return (Exception, SystemExit) if own else (Exception,)


class MessageRefused(LocalError):
    """A message cannot be sent.  The sentence names topic, partition, offset and option.

    offset: of the message; None: it is not known which of several messages it was.
    """

    def __init__(self, sentence: str, offset: int | None = None) -> None:
        super().__init__(sentence)
        self.offset = offset
