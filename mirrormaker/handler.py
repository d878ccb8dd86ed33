"""message.handler: a user's Python function between source and target, called with a message at a time.

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

What it returns becomes the same outputs as the columns of message.set.handler (mirrormaker.sethandler).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

from kafkawire.columns import as_list
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError
from kafkawire.headers import Headers, packed, unpacked
from kafkawire.model import Message, PartitionId, TopicPartition
from mirrormaker.masking import raised
from mirrormaker.sethandler import DROP as DROP
from mirrormaker.sethandler import Drop as Drop
from mirrormaker.sethandler import MessageColumns, Outputs, UserHandler
from producer.conversion import MessageHandlerFailed, Output, Rows

Handler = Callable[[Message], object]

TURN_S = 0.01  # of calls, after which others have a turn
BYTES, NUMBER = (bytes, type(None)), (int, type(None))
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


class HandlerTopicMissing(MessageHandlerFailed):
    """message.handler sent a message to a topic that the target does not have, and does not create."""


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
    """Results of a handler since the last outputs, in columns; topics, partitions and header blocks of the rows that
    have one."""

    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps_ms: list[int | None] = field(default_factory=list)
    headers: dict[int, bytes] = field(default_factory=dict)
    topics: dict[int, str] = field(default_factory=dict)
    partitions: dict[int, PartitionId] = field(default_factory=dict)
    letters: list[tuple[int, Output]] = field(default_factory=list)

    def add(self, offset: int, send: Send, block: bytes | None, topic: str) -> None:
        """Add a message to send, with its header block.  topic: the source topic."""
        row = len(self.offsets)
        if send.topic is not None and send.topic != topic:
            self.topics[row] = send.topic
        if send.partition is not None:
            self.partitions[row] = send.partition
        if block is not None:
            self.headers[row] = block
        self.offsets.append(offset)
        self.keys.append(send.key)
        self.values.append(send.value)
        self.timestamps_ms.append(send.timestamp_ms)

    def taken(self, resume_at: int) -> Outputs:
        """Return what there is, and start over."""
        numbers = range(len(self.offsets))
        headers = list(map(self.headers.get, numbers)) if self.headers else None
        topics = list(map(self.topics.get, numbers)) if self.topics else None
        partitions = list(map(self.partitions.get, numbers)) if self.partitions else None
        rows = Rows(self.offsets[:], self.keys[:], self.values[:], self.timestamps_ms[:], resume_at, headers)
        outputs = Outputs(rows, topics, partitions, tuple(self.letters))
        for column in (self.offsets, self.keys, self.values, self.timestamps_ms, self.letters):
            column.clear()
        for chosen in (self.headers, self.topics, self.partitions):
            chosen.clear()
        return outputs


class MessageHandler(UserHandler):
    """message.handler of one flow."""

    option = "message.handler"

    def outputs(
        self,
        source: TopicPartition,
        rows: Rows,
        *,
        speaks: Dialect,
        clock: Callable[[], float],
        instead: Callable[[Message, MessageHandlerFailed], Sequence[Output]],
    ) -> Iterator[Outputs | None]:
        """Yield what the handler sends for messages of a source partition, in order.  speaks: the source's dialect.

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
                    raise self._failed_at(source, offset, raised(exc, (key, value))) from exc
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
                elif given is DROP or (isinstance(given, list) and not given):
                    first_dropped = first_dropped if dropped else offset
                    dropped += 1
                else:
                    for send, block in self._interpreted(source, offset, given, message):
                        made.add(offset, send, block, topic)
            except MessageHandlerFailed as failed:
                self._log_raised(failed, topic)
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
            self._drop(source, first_dropped, dropped)
        if refused is not None:
            yield made.taken(offset).before(offset)
            raise refused
        yield made.taken(rows.resume_at)

    def _interpreted(
        self, source: TopicPartition, offset: int, given: object, message: Message
    ) -> list[tuple[Send, bytes | None]]:
        """Return the messages that the handler gave back for a message, with header blocks.

        Raises MessageHandlerFailed.
        """
        if given is None:
            raise self._failed_at(
                source, offset,
                f"gave back None: return {RETURNS}; to drop the message return DROP of mirrormaker.handler, or an empty"
                " list",
            )  # fmt: skip
        many: list[Any] = given if isinstance(given, list) else [given]
        sends = [self._send(source, offset, one, message) for one in many]
        for value, key, topic, _, stamp, _ in sends:
            usual = value.__class__ in BYTES and key.__class__ in BYTES and topic.__class__ is str
            if not (usual and stamp.__class__ in NUMBER and self._target.has_keys):
                columns = MessageColumns(
                    *source, [offset], keys=[key], values=[value], timestamps_ms=[stamp], topics=[topic]
                )
                self._check(source, columns)
        try:
            return [(send, packed(send.headers)) for send in sends]
        except (LocalError, TypeError) as failed:
            raise self._failed_at(source, offset, f"gave back headers that cannot be sent: {failed}") from failed

    def _send(self, source: TopicPartition, offset: int, given: Any, message: Message) -> Send:
        """Return one message that the handler gave back, with nothing left to default."""
        match given:
            case Send():
                stamp = message.timestamp_ms if given.timestamp_ms is None else given.timestamp_ms
                headers = message.headers if given.headers is None else given.headers
                topic = message.topic if given.topic is None else given.topic
                return Send(given.value, given.key, topic, given.partition, stamp, headers)
            case Message():
                return Send(given.value, given.key, given.topic, None, given.timestamp_ms, given.headers)
            case (key, value):
                return Send(value, key, message.topic, None, message.timestamp_ms, message.headers)
            case (str(topic), key, value):
                return Send(value, key, topic, None, message.timestamp_ms, message.headers)
        raise self._failed_at(source, offset, f"gave back a {type(given).__name__}, not {RETURNS}, or DROP")
