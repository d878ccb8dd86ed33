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
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

from groundwork.failures import kind_of
from kafkawire.columns import as_list
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError
from kafkawire.headers import Headers, packed, unpacked
from kafkawire.model import Message, PartitionId, TopicPartition
from mirrormaker.masking import frames, raised
from mirrormaker.outputs import Outputs
from producer.conversion import MessageHandlerFailed, Output, Rows

log = logging.getLogger(__name__)

Handler = Callable[[Message], object]


class Drop(enum.Enum):
    """The type of DROP."""

    DROP = "drop"


DROP = Drop.DROP  # what a handler returns for a message that must not be sent
TURN_S = 0.01  # of calls, after which others have a turn
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
    data = message.key, message.value  # it may change them
    try:
        given = handler(message)
    except Exception as exc:  # a user's code may raise anything
        raise MessageHandlerFailed(f"{where} {raised(exc, data)}") from exc
    return interpreted(given, message, where)


def interpreted(given: object, message: Message, where: str) -> list[Sent]:
    """What a handler gave back for a message, in one form.  Raises MessageHandlerFailed."""
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
    if timestamp_ms is not None and not isinstance(timestamp_ms, int):
        raise MessageHandlerFailed(f"{where} gave back a timestamp that is a {type(timestamp_ms).__name__}, not int")
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


class Raised:
    """What a user's code raised since the start: the traceback of each kind of exception is logged once."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._kinds: set[Hashable] = set()

    def log(self, failed: MessageHandlerFailed, topic: str) -> None:
        """Log what was raised, if anything was: the __cause__ of a failure."""
        cause = failed.__cause__
        if cause is not None and kind_of(cause) not in self._kinds:
            self._kinds.add(kind_of(cause))
            extra = {"event": "handler-failed", "source": self._source, "topic": topic}
            log.error("source %s: %s", self._source, failed, extra={**extra, "below": frames(cause)})


_MessageRow = tuple[int, bytes | None, bytes | None, int | None, int | None, bytes | None, int]


def _messages(rows: Rows, speaks: Dialect) -> Iterator[_MessageRow]:
    """(offset, key, value, timestamp, its type, header block, resume_at) of messages in a source's dialect."""
    offsets, stamps, kinds = as_list(rows.offsets), rows.timestamps_ms, rows.timestamp_types
    behind = [*offsets[1:], rows.resume_at]
    if speaks.offsets.count_messages:  # those of an entry that share an offset are followed by its last one
        behind = [offset + 1 if after > offset else offset for offset, after in zip(offsets, behind, strict=True)]
    its_kinds: Iterable[int | None] = repeat(None) if kinds is None else kinds
    if kinds is not None and -1 in kinds:  # of format v0, among others
        its_kinds = [None if kind < 0 else kind for kind in kinds]
        stamps = [None if kind is None else stamp for kind, stamp in zip(its_kinds, stamps, strict=True)]
    blocks = repeat(None) if rows.headers is None else rows.headers
    return zip(offsets, rows.keys, rows.values, stamps, its_kinds, blocks, behind, strict=False)


@dataclass(slots=True)
class _Made:
    """What a handler made of messages so far, in columns; topics, partitions and header blocks of the rows that have
    one."""

    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps_ms: list[int | None] = field(default_factory=list)
    headers: dict[int, bytes] = field(default_factory=dict)
    topics: dict[int, str] = field(default_factory=dict)
    partitions: dict[int, PartitionId] = field(default_factory=dict)
    letters: list[tuple[int, Output]] = field(default_factory=list)
    begun: int = 0  # rows that are taken

    def add(self, offset: int, sent: Sent, topic: str) -> None:
        """Add a message to send.  topic: the source topic."""
        row = len(self.offsets)
        if sent.topic != topic:
            self.topics[row] = sent.topic
        if sent.partition is not None:
            self.partitions[row] = sent.partition
        if sent.headers is not None:
            self.headers[row] = sent.headers
        self.offsets.append(offset)
        self.keys.append(sent.key)
        self.values.append(sent.value)
        self.timestamps_ms.append(sent.timestamp_ms)

    def taken(self, resume_at: int) -> Outputs:
        """The rows that are not taken yet."""
        begun, self.begun = self.begun, len(self.offsets)
        rows, numbers = slice(begun, None), range(begun, self.begun)
        letters, self.letters = tuple(self.letters), []
        return Outputs(
            self.offsets[rows],
            self.keys[rows],
            self.values[rows],
            self.timestamps_ms[rows],
            resume_at,
            list(map(self.headers.get, numbers)) if self.headers else None,
            list(map(self.topics.get, numbers)) if self.topics else None,
            list(map(self.partitions.get, numbers)) if self.partitions else None,
            letters,
        )


class MessageHandler:
    """The message.handler of one flow.  name: as configured; source: the flow's, for the log; target: its dialect.

    dropped: messages that it dropped, by source topic.
    """

    def __init__(self, handler: Handler, name: str, source: str, target: Dialect) -> None:
        self._drops = Drops("message.handler", name, source)
        self._handler = handler
        self._name = name
        self._target = target
        self._raised = Raised(source)

    @property
    def dropped(self) -> dict[str, int]:
        return self._drops.by_topic

    def outputs(
        self,
        source: TopicPartition,
        rows: Rows,
        *,
        speaks: Dialect,
        clock: Callable[[], float],
        instead: Callable[[Message, MessageHandlerFailed], Sequence[Output]],
    ) -> Iterator[Outputs | None]:
        """What the handler wants sent for messages of a source partition, in order.  speaks: the source's dialect.

        Once it has been called for TURN_S by the clock it yields what there is, or None inside of an entry of 0.7:
        others should have a turn.  instead(message, failure): records that are sent in place of a message it failed
        for; or it raises the failure, which is raised here behind the outputs of what comes before the message.
        """
        topic, partition = source
        handler, new, has_keys = self._handler, object.__new__, self._target.has_keys
        made = _Made()
        offsets, keys, values, stamps = made.offsets, made.keys, made.values, made.timestamps_ms
        no_headers: Headers | None = () if speaks.record_batches else None
        refused: MessageHandlerFailed | None = None
        dropped, first_dropped = 0, 0
        in_time = clock() + TURN_S
        for offset, key, value, stamp, kind, block, behind in _messages(rows, speaks):
            headers = no_headers if block is None else unpacked(block)
            message = new(Message)  # its __init__ would take twice as long: see kafkawire.model.made
            message.topic = topic
            message.partition = partition
            message.offset = offset
            message.key = key
            message.value = value
            message.timestamp_ms = stamp
            message.timestamp_type = kind
            message.headers = headers
            message.resume_at = behind
            message.handed = None
            try:
                try:
                    given: Any = handler(message)
                except Exception as exc:  # a user's code may raise anything
                    raise MessageHandlerFailed(f"{self._where(source, offset)} {raised(exc, (key, value))}") from exc
                plain: Message | None = None
                if given.__class__ is Message:
                    plain, to_send, its_key = given, given.value, given.key
                elif given.__class__ is tuple and len(given) == 2:
                    plain, (its_key, to_send) = message, given
                if (
                    plain is not None
                    and plain.headers is headers
                    and plain.topic.__class__ is str
                    and ((at_ms := plain.timestamp_ms) is None or at_ms.__class__ is int)
                    and (to_send.__class__ is bytes or (to_send is None and has_keys))
                    and (its_key is None or (its_key.__class__ is bytes and has_keys))
                ):
                    if plain.topic != topic:
                        made.topics[len(offsets)] = plain.topic
                    if block is not None:
                        made.headers[len(offsets)] = block
                    offsets.append(offset)
                    keys.append(its_key)
                    values.append(to_send)
                    stamps.append(at_ms)
                elif given is DROP or not (found := self._interpreted(given, message, source)):
                    first_dropped = first_dropped if dropped else offset
                    dropped += 1
                else:
                    for sent in found:
                        made.add(offset, sent, topic)
            except MessageHandlerFailed as failed:
                self._raised.log(failed, topic)
                again = Message(topic, partition, offset, key, value, stamp, kind, headers, behind)  # it may be changed
                try:
                    made.letters += ((offset, letter) for letter in instead(again, failed))
                except MessageHandlerFailed:
                    refused = failed
                    break
            if clock() > in_time:
                yield made.taken(behind) if behind > offset else None
                in_time = clock() + TURN_S
        if dropped:
            self._drops.add(source, first_dropped, dropped)
        if refused is not None:
            yield made.taken(offset).before(offset)
            raise refused
        yield made.taken(rows.resume_at)

    def _interpreted(self, given: object, message: Message, source: TopicPartition) -> list[Sent]:
        """What a handler gave back, where it is not plain.  Raises MessageHandlerFailed."""
        found = interpreted(given, message, self._where(source, message.offset))
        for sent in found:
            if not self._target.has_keys and (sent.key is not None or sent.value is None):
                what = "a key" if sent.key is not None else "no value"
                raise MessageHandlerFailed(
                    f"{source} at {message.offset}: message.handler gave back {what}: "
                    f"messages of Kafka {self._target.release} have a value and no key"
                )
        return found

    def _where(self, source: TopicPartition, offset: int) -> str:
        return f"{source} at {offset}: message.handler {self._name}"

    def log_dropped(self) -> None:
        """Log how many messages it dropped of each topic."""
        self._drops.log()
