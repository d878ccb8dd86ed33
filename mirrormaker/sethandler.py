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

import enum
import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, NamedTuple

from groundwork.failures import kind_of
from kafkawire.dialects import Dialect
from kafkawire.headers import Headers, packed, unpacked
from kafkawire.model import PartitionId, TopicPartition
from mirrormaker.masking import frames, raised
from producer.conversion import Lists, MessageHandlerFailed, Output, Rows

log = logging.getLogger(__name__)

RETURNS = "the columns it was given, other MessageColumns, or DROP"
Data = Sequence[bytes | None]


class Drop(enum.Enum):
    """Type of DROP."""

    DROP = "drop"


DROP = Drop.DROP  # what a handler returns for messages that must not be sent


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
TYPES: dict[str, type] = {"keys": bytes, "values": bytes, "timestamps_ms": int, "topics": str}
SetHandlerFunction = Callable[[MessageColumns], object]


class Outputs(NamedTuple):
    """Messages that a handler wants sent: what both forms of handlers become, and what routes take.

    rows: with the offsets of the messages they come from, ascending.  topics, partitions: where rows are to go; None,
    for all or for a row: the source topic's own target, chosen as for any other message.  letters: records that are
    sent beside them as they are, each with the offset of the message it stands for.
    """

    rows: Rows
    topics: Sequence[str | None] | None = None
    partitions: Sequence[PartitionId | None] | None = None
    letters: tuple[tuple[int, Output], ...] = ()

    @property
    def offsets(self) -> Sequence[int]:
        return self.rows.offsets

    def before(self, offset: int) -> Outputs:
        """Return the outputs of messages with a smaller offset."""
        letters = tuple(one for one in self.letters if one[0] < offset)
        return self._part(self.rows.before(offset), slice(bisect_left(self.offsets, offset)), letters)

    def since(self, offset: int) -> Outputs:
        """Return the outputs of messages from an offset on."""
        letters = tuple(one for one in self.letters if one[0] >= offset)
        return self._part(self.rows.since(offset), slice(bisect_left(self.offsets, offset), None), letters)

    def _part(self, rows: Rows, those: slice, letters: tuple[tuple[int, Output], ...]) -> Outputs:
        topics = None if self.topics is None else self.topics[those]
        return Outputs(rows, topics, None if self.partitions is None else self.partitions[those], letters)

    def middle(self) -> int | None:
        """Return an offset near the middle, at which they can be cut in two, or None if they share one."""
        return self.rows.middle() if self.offsets else None

    def by_topic(self, source: str) -> Iterator[tuple[str | None, Rows, Sequence[PartitionId | None] | None]]:
        """Yield the rows for each target topic, with the partitions chosen for them, if any are.

        The topic is None for rows without one and for rows that name the source topic: those must keep their order.
        """
        if self.topics is None:
            yield None, self.rows, self.partitions
            return
        topics = [None if topic == source else topic for topic in self.topics]
        for topic in dict.fromkeys(topics):
            mine = [row for row, one in enumerate(topics) if one == topic]
            partitions = None if self.partitions is None else [self.partitions[row] for row in mine]
            yield topic, self.rows.taken(mine), partitions

    def add_letters(self, into: dict[TopicPartition, Lists]) -> None:
        """Add the records that are sent as they are to the lists of their target partitions."""
        for _, letter in self.letters:
            lists = into.setdefault(letter.tp, Lists([], [], []))
            if letter.headers is not None and lists.headers is None:
                lists = into[letter.tp] = lists._replace(headers=[None] * len(lists.keys))
            lists.keys.append(letter.key)
            lists.values.append(letter.value)
            lists.timestamps_ms.append(letter.timestamp_ms)
            if lists.headers is not None:
                lists.headers.append(letter.headers)


class Handled(NamedTuple):
    """Result of a handler.

    kept: of each message that it got whether it is among them; None: they are not simply some of those, unchanged.
    """

    columns: MessageColumns
    kept: list[bool] | None

    def outputs(self, rows: Rows) -> Outputs:
        """Return what is sent for these messages.  Raises LocalError if headers cannot be encoded."""
        given = self.columns
        columns = as_list(given.offsets), as_list(given.keys), as_list(given.values), as_list(given.timestamps_ms)
        return Outputs(Rows(*columns, rows.resume_at, blocks_of(given, rows)), given.topics, given.partitions)


class UserHandler:
    """Function of one flow, with checks of what it returns and counts of what it drops; both forms of handlers share
    it.

    name: as configured; source: the flow's, for the log; target: its dialect.  dropped: messages that the handler
    dropped since the start, by source topic.
    """

    option = ""  # that configures it

    def __init__(self, handler: Callable[..., object], name: str, source: str, target: Dialect) -> None:
        self.dropped: dict[str, int] = {}
        self._handler = handler
        self._name = name
        self._source = source
        self._target = target
        self._kinds: set[Hashable] = set()  # of exceptions that were logged with their traceback

    def log_dropped(self) -> None:
        """Log how many messages of each topic were dropped."""
        for topic, count in sorted(self.dropped.items()):
            log.info(
                "source %s: topic %s: %s dropped %s messages since the start",
                self._source, topic, self.option, f"{count:,}",
            )  # fmt: skip

    def _drop(self, source: TopicPartition, offset: int, count: int) -> None:
        """Count dropped messages, of which `offset` is the first.  Log the first of a topic."""
        topic = source.topic
        if topic not in self.dropped:
            log.info(
                "source %s: topic %s: %s %s dropped %s at %s; more that it drops of this topic is only counted",
                self._source, topic, self.option, self._name, source, offset,
                extra={"event": "dropped", "source": self._source, "topic": topic},
            )  # fmt: skip
        self.dropped[topic] = self.dropped.get(topic, 0) + count

    def _log_raised(self, failed: MessageHandlerFailed, topic: str) -> None:
        """Log what the handler raised, which is the cause of the failure: the traceback of each kind once."""
        cause = failed.__cause__
        if cause is not None and kind_of(cause) not in self._kinds:
            self._kinds.add(kind_of(cause))
            extra = {"event": "handler-failed", "source": self._source, "topic": topic}
            log.error("source %s: %s", self._source, failed, extra={**extra, "below": frames(cause)})

    def _check(self, source: TopicPartition, given: MessageColumns) -> None:
        """Raise MessageHandlerFailed, which names the first wrong message, if columns cannot be sent."""
        offsets = given.offsets
        for name, wanted in TYPES.items():
            column = getattr(given, name)
            if column is None or {wanted, type(None)}.issuperset(map(type, column)):
                continue
            for offset, one in zip(offsets, column, strict=True):
                if one is not None and not isinstance(one, wanted):
                    wrong = type(one).__name__
                    why = f"gave back a {wrong} in {name}, not {wanted.__name__} or None"
                    raise self._failed_at(source, offset, why)
        if not self._target.has_keys:
            for offset, key, value in zip(offsets, given.keys, given.values, strict=True):
                if key is not None or value is None:
                    what = "a key" if key is not None else "no value"
                    why = f"gave back {what}: messages of Kafka {self._target.release} have a value and no key"
                    raise self._failed_at(source, offset, why)

    def _failed_at(self, source: TopicPartition, offset: int, why: str) -> MessageHandlerFailed:
        return MessageHandlerFailed(f"{source} at {offset}: {self.option} {self._name} {why}", offset)


class SetHandler(UserHandler):
    """message.set.handler of one flow."""

    option = "message.set.handler"

    def handled(self, source: TopicPartition, rows: Rows) -> Handled:
        """Return what the handler sends for messages of a source partition.

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
            self._log_raised(failed, source.topic)
            raise failed from exc
        if given is DROP:
            given = MessageColumns(*source, [], keys=[], values=[], timestamps_ms=[])
        if not isinstance(given, MessageColumns):
            raise self._failed(source, rows, f"gave back a {type(given).__name__}, not {RETURNS}")
        self._check_lengths(source, rows, given)
        kept = _kept(given, before) if self._target.has_keys else None
        if kept is None:
            offsets, there = as_list(given.offsets), as_list(rows.offsets)
            if offsets != there and (offsets != sorted(offsets) or not set(offsets) <= set(there)):
                raise self._failed(source, rows, "gave back offsets that do not ascend, or that it was not given")
            self._check(source, given)
        return Handled(given, kept)

    def count_dropped(self, source: TopicPartition, rows: Rows, handled: Handled) -> None:
        """Count the messages that are not in what the handler returned, once that is going to be sent."""
        given, kept = handled
        if kept is not None:
            if not all(kept):
                self._drop(source, rows.offsets[kept.index(False)], kept.count(False))
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
            self._drop(source, first, gone)

    def _check_lengths(self, source: TopicPartition, rows: Rows, given: MessageColumns) -> None:
        """Check that columns have a value for each row.  Raises MessageHandlerFailed."""
        lengths = {name: len(column) for name in COLUMNS if (column := getattr(given, name)) is not None}
        if len(set(lengths.values())) != 1:
            there = ", ".join(f"{count} {name}" for name, count in lengths.items())
            raise self._failed(source, rows, f"gave back columns of different lengths: {there}")

    def _failed(self, source: TopicPartition, rows: Rows, why: str) -> MessageHandlerFailed:
        """Names one offset, or all of them where the wrong one is not known."""
        first, last = rows.offsets[0], rows.offsets[-1]
        if first == last:
            return self._failed_at(source, first, why)
        return MessageHandlerFailed(f"{source} at {first} to {last}: {self.option} {self._name} {why}")


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
    """Return the header blocks of what a handler returned for these messages.  Raises LocalError for other headers."""
    if given.headers is not None:
        return [packed(headers) if headers else None for headers in given.headers]
    if rows.headers is None:
        return None
    there = dict(zip(as_list(rows.offsets), rows.headers, strict=True))
    return [there[offset] for offset in given.offsets]


def as_list(column: Sequence[Any]) -> list[Any]:
    """A column as a list: itself where it is one."""
    return column if isinstance(column, list) else list(column)
