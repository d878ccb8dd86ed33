"""message.handler: a user's Python function between source and target.

    def handler(message):          # a kafkawire.model.Message: .topic .partition .offset .key .value .timestamp_ms
                                   # .headers, a tuple of (name, bytes or None)
        return DROP                             drop it (counted); an empty list does the same
        return key, value                       send this instead, to the same topic
        return topic, key, value                ... to another topic
        return Send(value, key=..., topic=..., partition=..., timestamp_ms=..., headers=...)
                                                ... to a partition that the handler chooses
        return message                          send it (perhaps changed, perhaps with another topic)
        return [ ... ]                          several of these, in this order

Keys and values are bytes or None.  None alone is an error: a forgotten `return` would empty a topic.  An error, and
what a handler raises, parks the partition with the reason: nothing is lost.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from groundwork.failures import kind_of
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError
from kafkawire.headers import packed
from kafkawire.model import Message, PartitionId, TopicPartition
from producer.conversion import MessageHandlerFailed

log = logging.getLogger(__name__)

Handler = Callable[[Message], object]


class Drop(enum.Enum):
    DROP = "drop"


DROP = Drop.DROP  # what a handler returns for a message that must not be sent
RETURNS = "the message, (key, value), (topic, key, value), a Send or a list of these"


class Send(NamedTuple):
    """A message to send, as a handler makes it.

    topic: None: the message's own.  partition: of the target topic, a number (0.7: a BrokerPartition); None: chosen as
    for any other message.  timestamp_ms: None: the message's.  headers: pairs of a name and bytes or None; None: the
    message's, () none.
    """

    value: bytes | None
    key: bytes | None = None
    topic: str | None = None
    partition: PartitionId | None = None
    timestamp_ms: int | None = None
    headers: Iterable[tuple[str, bytes | None]] | None = None


class Sent(NamedTuple):
    """What a handler returned, in one form.  headers: their block (kafkawire.headers)."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    partition: PartitionId | None = None
    headers: bytes | None = None


class HandlerTopicMissing(MessageHandlerFailed):
    """message.handler sent a message to a topic that the target does not have, and does not create."""


def handled(handler: Handler, message: Message, name: str) -> list[Sent]:
    """What the handler wants sent for a message; empty: it is dropped.  name: the handler's, as configured.

    Raises MessageHandlerFailed, naming topic, partition, offset and handler; what the handler raised is its __cause__.
    """
    where = f"{message.topic}/{message.partition} at {message.offset}: message.handler {name}"
    try:
        given = handler(message)
    except Exception as exc:  # a user's code may raise anything
        raise MessageHandlerFailed(f"{where} raised {type(exc).__name__}: {exc}") from exc
    if given is None:
        raise MessageHandlerFailed(
            f"{where} gave back None: return {RETURNS}; to drop the message return DROP of mirrormaker.handler, or an "
            "empty list"
        )
    if given is DROP:
        return []
    many: Iterable[object] = given if isinstance(given, list) else [given]
    return [_sent(one, message, where) for one in many]


def _sent(given: object, message: Message, where: str) -> Sent:
    key: object
    value: object
    topic, timestamp_ms = message.topic, message.timestamp_ms
    headers: Iterable[tuple[str, bytes | None]] | None = message.headers
    partition: PartitionId | None = None
    match given:
        case Send():
            key, value, partition = given.key, given.value, given.partition
            topic = topic if given.topic is None else given.topic
            timestamp_ms = timestamp_ms if given.timestamp_ms is None else given.timestamp_ms
            headers = headers if given.headers is None else given.headers
        case Message():
            topic, key, value, timestamp_ms = given.topic, given.key, given.value, given.timestamp_ms
            headers = given.headers
        case (key, value):
            pass
        case (str(topic), key, value):
            pass
        case _:
            raise MessageHandlerFailed(f"{where} gave back a {type(given).__name__}, not {RETURNS}, or DROP")
    if not isinstance(topic, str):
        raise MessageHandlerFailed(f"{where} gave back a topic that is a {type(topic).__name__}, not text")
    data = _bytes(key, "key", where), _bytes(value, "value", where)
    return Sent(topic, *data, timestamp_ms, partition, _block(headers, where))


def _block(headers: Iterable[tuple[str, bytes | None]] | None, where: str) -> bytes | None:
    try:
        return packed(headers)
    except (LocalError, TypeError) as failed:
        raise MessageHandlerFailed(f"{where} gave back headers that cannot be sent: {failed}") from failed


def _bytes(data: object, name: str, where: str) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    raise MessageHandlerFailed(f"{where} gave back a {name} that is a {type(data).__name__}, not bytes or None")


class Drops:
    """Messages that a handler dropped since the start, by source topic.  option, name: the handler's, as configured."""

    def __init__(self, option: str, name: str, source: str) -> None:
        self.by_topic: dict[str, int] = {}
        self._option = option
        self._name = name
        self._source = source

    def add(self, tp: TopicPartition, offset: int, count: int = 1) -> None:
        """So many were dropped, the first of them at this offset.  The first of a topic is logged."""
        topic = tp.topic
        if topic not in self.by_topic:
            log.info(
                "source %s: topic %s: %s %s dropped %s at %s; more that it drops of this topic is only counted",
                self._source, topic, self._option, self._name, tp, offset,
                extra={"event": "dropped", "source": self._source, "topic": topic},
            )  # fmt: skip
        self.by_topic[topic] = self.by_topic.get(topic, 0) + count

    def log(self) -> None:
        """Log how many messages of each topic."""
        for topic, count in sorted(self.by_topic.items()):
            log.info(
                "source %s: topic %s: %s dropped %s messages since the start",
                self._source, topic, self._option, f"{count:,}",
            )  # fmt: skip


class MessageHandler:
    """The message.handler of one flow.  name: as configured; source: the flow's, for the log; target: its dialect.

    dropped: messages that it dropped, by source topic.
    """

    def __init__(self, handler: Handler, name: str, source: str, target: Dialect) -> None:
        self._drops = Drops("message.handler", name, source)
        self._handler = handler
        self._name = name
        self._source = source
        self._target = target
        self._raised: set[Hashable] = set()  # kinds of exceptions whose traceback is in the log

    @property
    def dropped(self) -> dict[str, int]:
        return self._drops.by_topic

    def sent(self, message: Message) -> list[Sent]:
        """What the handler wants sent for a message.  Raises MessageHandlerFailed.

        The traceback of its reason is logged the first time.
        """
        source_topic = message.topic  # a handler may change the message it was given
        try:
            found = handled(self._handler, message, self._name)
        except MessageHandlerFailed as failed:
            cause = failed.__cause__
            if cause is not None and kind_of(cause) not in self._raised:
                self._raised.add(kind_of(cause))
                extra = {"event": "handler-failed", "source": self._source, "topic": source_topic}
                log.error("source %s: %s", self._source, failed, exc_info=cause, extra=extra)
            raise
        if not found:
            self._drops.add(TopicPartition(source_topic, message.partition), message.offset)
        if not self._target.has_keys:
            for one in found:
                self._refuse_key(one, message)
        return found

    def _refuse_key(self, sent: Sent, message: Message) -> None:
        if sent.key is not None or sent.value is None:
            what = "a key" if sent.key is not None else "no value"
            raise MessageHandlerFailed(
                f"{message.topic}/{message.partition} at {message.offset}: message.handler gave back {what}: "
                f"messages of Kafka {self._target.release} have a value and no key"
            )

    def log_dropped(self) -> None:
        """Log how many messages it dropped of each topic."""
        self._drops.log()
