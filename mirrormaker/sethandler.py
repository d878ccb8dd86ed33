"""message.set.handler: a user's Python function between source and target that gets whole sets of messages as columns.

    def handler(messages):              # a MessageColumns: lists of equal length, a row for each message
        messages.keep([value is not None for value in messages.values])         drop rows (counted)
        messages.keys = [value[:8] for value in messages.values]                change keys, values, timestamps
        messages.topics = ["errors" if b"ERROR" in value else None for value in messages.values]      route rows
        messages.partitions = [value[0] % 12 for value in messages.values]      choose partitions of the target topic
        return messages                 or another MessageColumns; DROP drops all

It does what message.handler does, without an object for each message.  Messages of a set are neighbours of one source
partition, in their order.  None alone is an error: a forgotten `return` would empty a topic.

Rows that come back as they were are copied as they were fetched, with their checksums: a handler that only drops rows,
or only looks at them, costs about half of one that changes a column.

An error, and what a handler raises, parks the partition at the message that caused it: the handler is called again with
each half of the set until a single message is left (of 0.7: those of one entry); what comes before it is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from kafkawire.dialects import Dialect
from kafkawire.headers import Headers, packed, unpacked
from kafkawire.model import PartitionId, TopicPartition
from mirrormaker.handler import DROP, Drops, Raised
from mirrormaker.masking import raised
from mirrormaker.outputs import Outputs
from producer.conversion import MessageHandlerFailed, Rows

OPTION = "message.set.handler"
RETURNS = "the columns it was given, other MessageColumns, or DROP"
Data = Sequence[bytes | None]


class MessageColumns:
    """Neighbouring messages of one source partition: lists of equal length, a row for each message.

    topic, partition    where they come from (of 0.7: a BrokerPartition)
    offsets             of the messages, ascending; those of an entry of 0.7 share theirs
    keys, values        bytes or None
    timestamps_ms       None where the source has none (0.8, 0.9)
    headers             a tuple of (name, bytes or None) a row; None: no row has any.  In what a handler makes itself,
                        None: each row has those of the message at its offset
    topics              target topics; None, for all or for a row: the source topic's own
    partitions          of the target topics; None, for all or for a row: chosen as for any other message

    A handler may replace any of the columns, also by ones of another length: rows that are left out are dropped, and a
    row may be there several times.  Offsets say which messages rows come from: they ascend, and are some of those that
    it was given.
    """

    __slots__ = ("headers", "keys", "offsets", "partition", "partitions", "timestamps_ms", "topic", "topics", "values")

    def __init__(
        self,
        topic: str,
        partition: PartitionId,
        offsets: Sequence[int],
        *,
        keys: Data,
        values: Data,
        timestamps_ms: Sequence[int | None],
        topics: Sequence[str | None] | None = None,
        partitions: Sequence[PartitionId | None] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offsets = offsets
        self.keys = keys
        self.values = values
        self.timestamps_ms = timestamps_ms
        self.topics = topics
        self.partitions = partitions
        self.headers = headers

    def __len__(self) -> int:
        return len(self.offsets)

    def keep(self, wanted: Iterable[object]) -> MessageColumns:
        """Drop the rows for which `wanted`, as long as the columns, is false.  Returns the columns themselves."""
        wanted = list(wanted)
        if len(wanted) != len(self):
            raise ValueError(f"keep() got {len(wanted)} values for {len(self)} rows")
        if all(wanted):
            return self
        for name in COLUMNS:
            column = getattr(self, name)
            if column is not None:
                setattr(self, name, list(compress(column, wanted)))
        return self

    def __repr__(self) -> str:
        return f"<MessageColumns {self.topic}/{self.partition}, {len(self)} messages>"


COLUMNS = ("offsets", "keys", "values", "timestamps_ms", "topics", "partitions", "headers")
TYPES: dict[str, tuple[type, ...]] = {
    "keys": (bytes, type(None)),
    "values": (bytes, type(None)),
    "timestamps_ms": (int, type(None)),
    "topics": (str, type(None)),
}
SetHandlerFunction = Callable[[MessageColumns], object]


class Handled(NamedTuple):
    """What a handler gave back.

    kept: of each message that it got whether it is among them; None: they are not simply some of those, unchanged.
    """

    columns: MessageColumns
    kept: list[bool] | None

    def outputs(self, rows: Rows) -> Outputs:
        """What to send for these messages.  LocalError for headers that are none."""
        given = self.columns
        columns = as_list(given.offsets), as_list(given.keys), as_list(given.values), as_list(given.timestamps_ms)
        return Outputs(*columns, rows.resume_at, blocks_of(given, rows), given.topics, given.partitions)


class SetHandler:
    """The message.set.handler of one flow.  name: as configured; source: the flow's, for the log; target: its dialect.

    dropped: messages that it dropped, by source topic.
    """

    def __init__(self, handler: SetHandlerFunction, name: str, source: str, target: Dialect) -> None:
        self._handler = handler
        self._name = name
        self._target = target
        self._drops = Drops(OPTION, name, source)
        self._raised = Raised(source)

    @property
    def dropped(self) -> dict[str, int]:
        return self._drops.by_topic

    def handled(self, source: TopicPartition, rows: Rows) -> Handled:
        """What the handler wants sent for messages of a source partition.

        Raises MessageHandlerFailed: names the first wrong message where it is known, else all of them.
        """
        before = offsets, keys, values, stamps, headers = (
            list(rows.offsets),
            rows.keys,
            rows.values,
            _without(rows.timestamps_ms),
            None if rows.headers is None else [unpacked(block) for block in rows.headers],
        )
        columns = MessageColumns(
            *source,
            offsets[:],
            keys=keys[:],
            values=values[:],
            timestamps_ms=stamps[:],
            headers=None if headers is None else headers[:],
        )
        try:
            given = self._handler(columns)
        except Exception as exc:  # a user's code may raise anything
            failed = self._failed(source, rows, raised(exc, (*keys, *values)))
            failed.__cause__ = exc
            self._raised.log(failed, source.topic)
            raise failed from exc
        if given is DROP:
            given = MessageColumns(*source, [], keys=[], values=[], timestamps_ms=[])
        if not isinstance(given, MessageColumns):
            raise self._failed(source, rows, f"gave back a {type(given).__name__}, not {RETURNS}")
        self._check_lengths(source, rows, given)
        kept = _kept(given, before) if self._target.has_keys else None
        if kept is None:
            self._check(source, rows, given)
        return Handled(given, kept)

    def count_dropped(self, source: TopicPartition, rows: Rows, handled: Handled) -> None:
        """Count the messages that are not in what the handler gave back: once that is going to be sent."""
        given, kept = handled
        if kept is not None:
            if not all(kept):
                self._drops.add(source, rows.offsets[kept.index(False)], kept.count(False))
            return
        if len(given) == len(rows.offsets) and as_list(given.offsets) == as_list(rows.offsets):
            return
        before, left = set(rows.offsets), set(given.offsets)
        if len(before) == len(rows.offsets):
            gone = len(before) - len(left)
        else:  # an offset may stand for several messages (0.7)
            counts = Counter(rows.offsets)
            counts.subtract(Counter(given.offsets))
            gone = sum(count for count in counts.values() if count > 0)
        if gone:
            first = next((offset for offset in rows.offsets if offset not in left), rows.offsets[0])
            self._drops.add(source, first, gone)

    def log_dropped(self) -> None:
        """Log how many messages it dropped of each topic."""
        self._drops.log()

    def _check_lengths(self, source: TopicPartition, rows: Rows, given: MessageColumns) -> None:
        """That columns have a value for each row.  Raises MessageHandlerFailed."""
        lengths = {name: len(column) for name in COLUMNS if (column := getattr(given, name)) is not None}
        if len(set(lengths.values())) != 1:
            there = ", ".join(f"{count} {name}" for name, count in lengths.items())
            raise self._failed(source, rows, f"gave back columns of different lengths: {there}")

    def _check(self, source: TopicPartition, rows: Rows, given: MessageColumns) -> None:
        """That columns can be sent.  Raises MessageHandlerFailed."""
        offsets = as_list(given.offsets)
        if offsets != as_list(rows.offsets) and (offsets != sorted(offsets) or not set(offsets) <= set(rows.offsets)):
            raise self._failed(source, rows, "gave back offsets that do not ascend, or that it was not given")
        for name, types in TYPES.items():
            column = getattr(given, name)
            if column is not None and not set(map(type, column)) <= {*types}:
                row = next(row for row, one in enumerate(column) if type(one) not in types)
                wrong, wanted = type(column[row]).__name__, " or ".join(one.__name__ for one in types)
                raise self._failed_at(source, offsets[row], f"gave back a {wrong} in {name}, not {wanted}")
        if not self._target.has_keys:
            for offset, key, value in zip(offsets, given.keys, given.values, strict=True):
                if key is not None or value is None:
                    what = "a key" if key is not None else "no value"
                    why = f"gave back {what}: messages of Kafka {self._target.release} have a value and no key"
                    raise self._failed_at(source, offset, why)

    def _failed(self, source: TopicPartition, rows: Rows, why: str) -> MessageHandlerFailed:
        """Names one offset, or all of them where the wrong one is not known."""
        first, last = rows.offsets[0], rows.offsets[-1]
        if first == last:
            return self._failed_at(source, first, why)
        return MessageHandlerFailed(f"{source} at {first} to {last}: {OPTION} {self._name} {why}")

    def _failed_at(self, source: TopicPartition, offset: int, why: str) -> MessageHandlerFailed:
        return MessageHandlerFailed(f"{source} at {offset}: {OPTION} {self._name} {why}", offset)


def _without(timestamps_ms: list[int | None]) -> list[int | None]:
    """Timestamps as a handler sees them: None for a message without."""
    if timestamps_ms.count(None) < len(timestamps_ms) and -1 in timestamps_ms:  # comparing None with -1 is slow
        return [None if stamp == -1 else stamp for stamp in timestamps_ms]
    return list(timestamps_ms)


def _kept(given: MessageColumns, before: Sequence[list[Any] | None]) -> list[bool] | None:
    """Of each row of columns as they were whether it is among those that the handler returned; None: these are others.

    before: offsets, keys, values, timestamps and headers.  Items that are the same object need no comparison.
    """
    offsets = before[0] or []
    if given.topics is not None or given.partitions is not None or (given.headers is not None and before[4] is None):
        return None
    kept = [True] * len(offsets)
    if len(given) < len(offsets):
        left = set(given.offsets)
        kept = [offset in left for offset in offsets]
        before = [None if column is None else list(compress(column, kept)) for column in before]
    after = given.offsets, given.keys, given.values, given.timestamps_ms, given.headers
    same = (now is None or as_list(now) == then for now, then in zip(after, before, strict=True))
    return kept if all(same) else None


def blocks_of(given: MessageColumns, rows: Rows) -> list[bytes | None] | None:
    """The header blocks of what a handler gave back for these messages.  LocalError for what are no headers."""
    if given.headers is not None:
        return [packed(headers) if headers else None for headers in given.headers]
    if rows.headers is None:
        return None
    there = dict(zip(as_list(rows.offsets), rows.headers, strict=True))
    return [there[offset] for offset in given.offsets]


def as_list(column: Sequence[Any]) -> list[Any]:
    """A column as a list: itself where it is one."""
    return column if isinstance(column, list) else list(column)
