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
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kafkawire.model import Message
from mirrormaker.routes import HandlerFailed

Handler = Callable[[Message], object]


class Drop(enum.Enum):
    DROP = "drop"


DROP = Drop.DROP  # what a handler returns for a message that is not to be sent
RETURNS = "the message, (key, value), (topic, key, value) or a list of these"


class Sent(NamedTuple):
    """What a handler gave back, in one form."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None


def handled(handler: Handler, message: Message, name: str) -> list[Sent]:
    """What the handler wants sent for a message; nothing: it is dropped.  name: the handler's, as configured.

    Raises HandlerFailed, naming topic, partition, offset and handler; what the handler raised is its __cause__.
    """
    where = f"{message.topic}/{message.partition} at {message.offset}: message.handler {name}"
    try:
        given = handler(message)
    except Exception as exc:  # a user's code may raise anything
        raise HandlerFailed(f"{where} raised {type(exc).__name__}: {exc}") from exc
    if given is None:
        raise HandlerFailed(
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
            raise HandlerFailed(f"{where} gave back a {type(given).__name__}, not {RETURNS}, or DROP")
    return Sent(topic, _bytes(key, "key", where), _bytes(value, "value", where), timestamp_ms)


def _bytes(data: object, name: str, where: str) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    raise HandlerFailed(f"{where} gave back a {name} that is a {type(data).__name__}, not bytes or None")
