"""message.handler: a user's Python function between source and target.

    def handler(message):          # a kafkawire.model.Message: .topic .partition .offset .key .value .timestamp_ms
        return DROP                             drop it (counted); an empty list does the same
        return key, value                       send this instead, to the same topic
        return topic, key, value                ... to another topic
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
from kafkawire.model import Message
from producer.conversion import MessageHandlerFailed

log = logging.getLogger(__name__)

Handler = Callable[[Message], object]


class Drop(enum.Enum):
    DROP = "drop"


DROP = Drop.DROP  # what a handler returns for a message that must not be sent
RETURNS = "the message, (key, value), (topic, key, value) or a list of these"


class Sent(NamedTuple):
    """What a handler returned, in one form."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None


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
    match given:
        case Message():
            topic, key, value, timestamp_ms = given.topic, given.key, given.value, given.timestamp_ms
        case (key, value):
            pass
        case (str(topic), key, value):
            pass
        case _:
            raise MessageHandlerFailed(f"{where} gave back a {type(given).__name__}, not {RETURNS}, or DROP")
    return Sent(topic, _bytes(key, "key", where), _bytes(value, "value", where), timestamp_ms)


def _bytes(data: object, name: str, where: str) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    raise MessageHandlerFailed(f"{where} gave back a {name} that is a {type(data).__name__}, not bytes or None")


class MessageHandler:
    """The message.handler of one flow.  name: as configured; source: the flow's, for the log; target: its dialect.

    dropped: messages that it dropped, by source topic.
    """

    def __init__(self, handler: Handler, name: str, source: str, target: Dialect) -> None:
        self.dropped: dict[str, int] = {}
        self._handler = handler
        self._name = name
        self._source = source
        self._target = target
        self._raised: set[Hashable] = set()  # kinds of exceptions whose traceback is in the log

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
            self._count_dropped(source_topic, message)
        if not self._target.has_keys:
            for one in found:
                self._refuse_key(one, message)
        return found

    def _count_dropped(self, topic: str, message: Message) -> None:
        if topic not in self.dropped:
            where = f"{topic}/{message.partition} at {message.offset}"
            log.info(
                "source %s: topic %s: message.handler %s dropped %s; more that it drops of this topic is only counted",
                self._source, topic, self._name, where,
                extra={"event": "dropped", "source": self._source, "topic": topic},
            )  # fmt: skip
        self.dropped[topic] = self.dropped.get(topic, 0) + 1

    def _refuse_key(self, sent: Sent, message: Message) -> None:
        if sent.key is not None or sent.value is None:
            what = "a key" if sent.key is not None else "no value"
            raise MessageHandlerFailed(
                f"{message.topic}/{message.partition} at {message.offset}: message.handler gave back {what}: "
                f"messages of Kafka {self._target.release} have a value and no key"
            )

    def log_dropped(self) -> None:
        """Log how many messages it dropped of each topic."""
        for topic, count in sorted(self.dropped.items()):
            log.info(
                "source %s: topic %s: message.handler dropped %s messages since the start",
                self._source, topic, f"{count:,}",
            )  # fmt: skip
