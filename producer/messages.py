"""Message classes of 0.8 and 0.7, which send() takes instead of topic and value; and the rules of topic names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkawire.model import PartitionId
from kafkawire.topicnames import why_no_name
from producer.errors import InvalidTopic, NotSent

Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class KeyedMessage:
    """One message, as 0.8's kafka.producer.KeyedMessage.

    partition_key: passed to the partitioner instead of the key; not stored.  partition: the message's partition,
    whatever the key is.  headers: pairs of a name and bytes or None, or a mapping; brokers of 0.11 and later have them.
    """

    topic: str
    value: Any
    key: Any = None
    partition_key: Any = None
    partition: PartitionId | None = None
    headers: Headers | None = None


@dataclass(frozen=True, slots=True)
class ProducerData:
    """Several messages of one topic and key, as 0.7's kafka.javaapi.producer.ProducerData.

    The key chooses the partition.  In 0.8, where messages have keys, it is also stored.
    """

    topic: str
    values: Sequence[Any]
    key: Any = None

    def messages(self) -> list[KeyedMessage]:
        return [KeyedMessage(self.topic, value, self.key) for value in self.values]


Given = KeyedMessage | ProducerData | Sequence[KeyedMessage | ProducerData]


def messages_of(given: Given) -> list[KeyedMessage]:
    """Return the single messages, in order, from the argument of send().  Raises NotSent for anything else."""
    listed = [given] if isinstance(given, KeyedMessage | ProducerData) else given
    if not isinstance(listed, list | tuple):
        raise NotSent(
            "send() takes a topic (text) and a value, or KeyedMessage, ProducerData or a list of these; not a "
            f"{type(given).__name__} first"
        )
    messages = [m for one in listed for m in (one.messages() if isinstance(one, ProducerData) else (one,))]
    for m in messages:
        if not isinstance(m, KeyedMessage):
            raise NotSent(f"send() takes topic and value, KeyedMessage or ProducerData; not {type(m).__name__}")
    return messages


def check_topic(topic: str) -> None:
    """Raise InvalidTopic for an invalid name (kafka.common.Topic.validate)."""
    if why := why_no_name(topic):
        raise InvalidTopic(f"topic {topic[:40]!r}: {why}")
