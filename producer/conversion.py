"""Conversion of one fetched set into parts for target partitions.  Pure: bytes and counts, no socket, no clock.

    pass_through(set)   its runs as they are: views, no copy, no message object
    reencode(set)       its messages decoded, turned into outputs, given a partition, encoded again
    transcode(set)      the same by columns, without an object a message, where all go to one partition as they are:
                        several times as quick

All yield steps.  A step is what one ticket covers: once all its parts are stored, the source may resume at its
resume_at.  Steps of a set ascend, and the last one ends where the set ends.

What may be forwarded unchanged is the table of wire-protocol.md §4.3:
    a wrapper travels by itself (two in one set are merged into one by the target, and then measured)
    a wrapper that begins before the wanted position is opened and only its wanted part sent (positions that are bytes
    are entry borders: there no wrapper is ever opened)
    magic 1 goes to a magic 1 target only, and only without the LogAppendTime bit, which brokers refuse

"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, count
from typing import NamedTuple

from kafkawire.columns import Columns, as_list
from kafkawire.dialects import ENTRY_OVERHEAD, Dialect
from kafkawire.errors import LocalError, RemoteError
from kafkawire.model import Message, MessageSet, Part, Run, TopicPartition

STEP_BYTES = 1 << 20  # of entries, worth a step
PART_MAX_BYTES = 8 << 20  # a request of several parts stays far below socket.request.max.bytes (100 MiB)
_ENTRY_BYTES = 34  # at most, besides key and value, in any format we write
BATCH_OVERHEAD = 61  # header of the format v2 batch that 1.1 and later make of a set, and then measure


Row = tuple[int, bytes | None, bytes | None, int | None]  # number, key, value, timestamp


@dataclass(frozen=True, slots=True)
class Step:
    """What one ticket covers.  No parts: there is nothing to send before resume_at (a handler dropped it all)."""

    resume_at: int
    parts: tuple[Part, ...]


class MessageHandlerFailed(LocalError):
    """message.handler raised, or returned something that is no message; names topic, partition and offset."""


# ---- as they are ----------------------------------------------------------------------------------------------


def pass_through(
    fetched: MessageSet, target: TopicPartition, dialect: Dialect, message_max_bytes: int, aligned: bool = False
) -> Iterator[Step]:
    """The runs of a set, for one target partition.  dialect is the target's.

    aligned: start is where an earlier set of this partition ended, so no wrapper can begin before it; without it the
    first wrapper is opened to look.  Raises CorruptMessage where something has to be opened and cannot be.
    """
    limit = PART_MAX_BYTES
    if dialect.measures_whole_set:
        limit = min(limit, message_max_bytes - BATCH_OVERHEAD)
    start = fetched.start
    within = not (dialect.offsets.entries_only or aligned)
    for number, run in enumerate(fetched.runs):
        may_begin_before = number == 0 and run.codec and within
        if must_rewrite(fetched, run, dialect) or (may_begin_before and _begins_before(one_run(fetched, run, start))):
            yield from _rewritten(one_run(fetched, run, start), target, dialect, message_max_bytes)
        elif run.codec or run.end - run.begin <= limit:
            view = fetched.buffer[run.begin : run.end]
            part = Part(target, view, run.magic, run.codec, run.entries, run.resume_at, counted=not run.codec)
            yield Step(run.resume_at, (part,))
        else:
            yield from _cut(fetched, run, target, dialect, limit)
        start = run.resume_at


def one_run(fetched: MessageSet, run: Run, start: int) -> MessageSet:
    """A run as a set of its own, wanted from start on."""
    view = fetched.buffer[run.begin : run.end]
    alone = replace(run, begin=0, end=len(view))
    return replace(fetched, start=start, resume_at=run.resume_at, buffer=view, runs=(alone,))


def must_rewrite(fetched: MessageSet, run: Run, dialect: Dialect) -> bool:
    """Whether the target would refuse these bytes, or be poisoned by them (wire-protocol.md §4.3)."""
    return run.magic not in dialect.formats or run.codec not in dialect.codecs or fetched.stamped(run)


def _begins_before(alone: MessageSet) -> bool:
    """Whether a wrapper holds messages before the wanted start: it must not be sent whole then."""
    first = next(iter(replace(alone, start=0).messages(check_crcs=False)), None)
    return first is not None and first.offset < alone.start


def _cut(fetched: MessageSet, run: Run, target: TopicPartition, dialect: Dialect, limit: int) -> Iterator[Step]:
    """A run of plain entries in pieces of at most limit bytes; an entry that is larger by itself goes alone."""
    for piece in fetched.cut(run, limit):
        part = Part(target, fetched.buffer[piece.begin : piece.end], run.magic, 0, piece.entries, piece.resume_at)
        yield Step(piece.resume_at, (part,))


def _rewritten(alone: MessageSet, target: TopicPartition, dialect: Dialect, message_max_bytes: int) -> Iterator[Step]:
    """The wanted messages of one run in the target's format, to the same partition."""

    def keep(message: Message) -> Sequence[Output]:
        return (Output(target, message.key, message.value, message.timestamp_ms),)

    return reencode(alone, keep, dialect, message_max_bytes)


# ---- decoded and encoded again --------------------------------------------------------------------------------


class Output(NamedTuple):
    """A message to send, and its target partition."""

    tp: TopicPartition
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None


def reencode(
    fetched: MessageSet,
    outputs: Callable[[Message], Sequence[Output]],
    dialect: Dialect,
    message_max_bytes: int,
    codec: int | None = None,
) -> Iterator[Step]:
    """The messages of a set as outputs() turns them, grouped by target partition, each group in order.

    codec None: neighbours that share a codec at the source share it at the target, as far as it knows it.
    Messages that share a position (those of a wrapper of 0.7) are in one step, or in none.
    A corrupt message or a failing handler raises only after everything before it was yielded.
    """
    builder = _Outputs(dialect, message_max_bytes)
    for alone, wanted in coded_runs(fetched, dialect, codec):
        if wanted != builder.codec:
            yield from builder.build()
            builder.codec = wanted
        try:
            for message in alone.messages():
                if message.resume_at <= message.offset:  # not the last at its position
                    builder.inside += outputs(message)
                    continue
                builder.border()
                for output in outputs(message):
                    builder.add(output)
                builder.resume_at = message.resume_at
                if builder.full:
                    yield from builder.build()
        except (RemoteError, MessageHandlerFailed):
            builder.inside.clear()
            yield from builder.build()
            raise
        builder.resume_at = alone.resume_at
    yield from builder.build()


def coded_runs(fetched: MessageSet, dialect: Dialect, codec: int | None) -> Iterator[tuple[MessageSet, int]]:
    """Each run of a set as a set of its own, and the codec that its messages get at the target."""
    start = fetched.start
    for run in fetched.runs:
        yield one_run(fetched, run, start), _known_codec(run.codec if codec is None else codec, dialect)
        start = run.resume_at


def _known_codec(codec: int, dialect: Dialect) -> int:
    """The codec, or the nearest the target can read: lz4 came with 0.8.2."""
    return codec if codec in dialect.codecs else max(dialect.codecs)


def _part_limit(dialect: Dialect, codec: int, message_max_bytes: int) -> int:
    """Bytes of entries in one part, before compression: a wrapper may grow a little at the target."""
    if codec or dialect.measures_whole_set:
        return message_max_bytes - message_max_bytes // 16 - BATCH_OVERHEAD
    return PART_MAX_BYTES


@dataclass(slots=True)
class StepBuilder(ABC):
    """Messages of one codec until they are worth a builder."""

    dialect: Dialect
    message_max_bytes: int
    codec: int = 0
    resume_at: int | None = None
    reached: int | None = None  # resume_at of the step before, or where the set begins
    size: int = 0  # bytes of their entries

    @property
    def limit(self) -> int:
        return _part_limit(self.dialect, self.codec, self.message_max_bytes)

    @property
    def full(self) -> bool:
        return self.size >= min(self.limit, STEP_BYTES)

    def build(self) -> Iterator[Step]:
        """What was gathered as one step, if there is anything; then starts over."""
        if self.resume_at is None or self.resume_at == self.reached:
            return
        parts = tuple(self.parts())
        self.size, self.reached = 0, self.resume_at
        yield Step(self.resume_at, parts)

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """What was gathered, as parts; then nothing is gathered any more."""

    def part(self, tp: TopicPartition, rows: Iterable[Row], count: int) -> Part:
        """A part of rows that are numbered from 0 on."""
        magic = self.dialect.magic
        entries = self.dialect.messages.encode(rows, codec=self.codec, magic=magic)
        # The entries carry numbers of our own, not source offsets: halves of this part could not tell where they end.
        return Part(tp, entries, magic, self.codec, count, resume_at=None)


@dataclass(slots=True)
class _Outputs(StepBuilder):
    """Outputs by target partition."""

    by_partition: dict[TopicPartition, list[Output]] = field(default_factory=dict)
    inside: list[Output] = field(default_factory=list)  # at the position of the message being read: not to be split

    def border(self) -> None:
        """The last message at the position of `inside` was added."""
        for output in self.inside:
            self.add(output)
        self.inside.clear()

    def add(self, output: Output) -> None:
        self.by_partition.setdefault(output.tp, []).append(output)
        self.size += _size(output)

    def parts(self) -> Iterator[Part]:
        by_partition, self.by_partition = self.by_partition, {}
        for tp, outputs in by_partition.items():
            yield from self._parts(tp, outputs)

    def _parts(self, tp: TopicPartition, outputs: list[Output]) -> Iterator[Part]:
        at = 0
        while at < len(outputs):
            end, size = at, 0
            while end < len(outputs) and (end == at or size + _size(outputs[end]) <= self.limit):
                size += _size(outputs[end])
                end += 1
            rows = ((number, o.key, o.value, o.timestamp_ms) for number, o in enumerate(outputs[at:end]))
            yield self.part(tp, rows, end - at)
            at = end


def _size(output: Output) -> int:
    return _ENTRY_BYTES + len(output.key or b"") + len(output.value or b"")


def transcode(
    fetched: MessageSet, target: TopicPartition, dialect: Dialect, message_max_bytes: int, codec: int | None = None
) -> Iterator[Step]:
    """The messages of a set from its start on, in the target's format and in order.  dialect is the target's.

    codec None: neighbours that share a codec at the source share it at the target, as far as it knows it.
    Messages that share a position (those of a wrapper of 0.7) are in one step, or in none.
    Raises CorruptMessage only after everything before the damage was yielded.
    """
    builder = _Rows(dialect, message_max_bytes, reached=fetched.start, target=target)
    for alone, wanted in coded_runs(fetched, dialect, codec):
        if wanted != builder.codec:
            yield from builder.build()
            builder.codec = wanted
        for columns in alone.pieces():
            builder.add(columns)
            if builder.full or columns.damage is not None:
                yield from builder.build()
            if columns.damage is not None:
                raise columns.damage
        builder.resume_at = alone.resume_at
    yield from builder.build()


@dataclass(slots=True)
class _Rows(StepBuilder):
    """Rows for one target partition."""

    target: TopicPartition = field(kw_only=True)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    stamps: list[int | None] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # of the entries they will be

    def add(self, columns: Columns) -> None:
        """Add the rows of a piece; of an entry that is damaged inside none."""
        end = len(columns)
        if columns.damage is not None:
            end = bisect_left(as_list(columns.offsets), columns.resume_at)
        keys, values = columns.keys()[:end], columns.values()[:end]
        overhead = ENTRY_OVERHEAD[self.dialect.magic]
        sizes = [overhead + (len(k) if k else 0) + (len(v) if v else 0) for k, v in zip(keys, values, strict=True)]
        self.keys += keys
        self.values += values
        self.stamps += [None] * end if columns.timestamps_ms is None else as_list(columns.timestamps_ms[:end])
        self.sizes += sizes
        self.size += sum(sizes)
        self.resume_at = columns.resume_at

    def parts(self) -> Iterator[Part]:
        ends, at, total = list(accumulate(self.sizes)), 0, len(self.sizes)
        while at < total:
            before = ends[at - 1] if at else 0
            end = max(at + 1, bisect_left(ends, before + self.limit + 1, at))
            rows = zip(count(), self.keys[at:end], self.values[at:end], self.stamps[at:end], strict=False)
            yield self.part(self.target, rows, end - at)
            at = end
        self.keys, self.values, self.stamps, self.sizes = [], [], [], []
