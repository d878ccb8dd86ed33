"""Conversion of one fetched set into parts for target partitions.  Pure: no socket, no clock.

    pass_through(set)   its runs unchanged: views, without copies or message objects
    transcode(set)      columns written again in the target's format, where all messages go to one partition unchanged;
                        to several partitions, or some of the messages: producer.reslice
    by_columns(set)     messages as lists, turned by a program's own code into others with partitions, and encoded again

All yield steps.  One ticket covers a step: once all its parts are stored, the source may resume at its resume_at.  The
steps of a set ascend, and the last one ends at the end of the set.

Rules for bytes that are forwarded unchanged:
    a wrapper is sent alone (the target merges two wrappers of a set into one, and then measures it)
    a wrapper that begins before the wanted offset is decompressed, and only its wanted messages are sent (byte offsets
        are always entry borders: there no wrapper is ever decompressed)
    magic 1 is sent to a magic 1 target only, and only without the LogAppendTime bit, which brokers refuse
    a record batch gets a producer's header when it is sent, and its records are unchanged (_passes); it is encoded
        again if its header covers more than its records (compaction, LogAppendTime), if it begins before the wanted
        offset, or if it and adjacent ones are small: a request has one record batch per partition
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple, Protocol, Self, TypeVar

from kafkawire.columns import Columns, as_list
from kafkawire.columns import Part as Stretch
from kafkawire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kafkawire.dialects import ENTRY_OVERHEAD, Dialect
from kafkawire.errors import CorruptMessage, LocalError, RemoteError
from kafkawire.model import PIECE_BYTES, RECORD_BATCH, MessageSet, Part, Run, TopicPartition
from producer.errors import MessageRefused as MessageRefused
from producer.reslice import Share, Sharing, StretchBuilder, resliced, rows_before_damage
from producer.steps import BATCH_OVERHEAD, PART_MAX_BYTES
from producer.steps import Step as Step

# Record batches below it are joined with neighbours, since a request takes one a partition: by codec, as compressing
# anew costs more than a request from about there on.
JOINED_BYTES: Mapping[int, int] = {NONE: 32 << 10, SNAPPY: 8 << 10, LZ4: 8 << 10, GZIP: 4 << 10, ZSTD: 4 << 10}


class MessageHandlerFailed(MessageRefused):
    """A program's own code (a handler, an encoder, a partitioner) raised for a message, or returned an invalid
    value."""


class FieldLost(MessageRefused):
    """A message has a field that the target's message format lacks, and no option allows dropping it."""


# ---- pass-through ----------------------------------------------------------------------------------------------


def pass_through(
    fetched: MessageSet,
    target: TopicPartition,
    dialect: Dialect,
    message_max_bytes: int,
    aligned: bool = False,
    *,
    fit: Fit | None = None,
) -> Iterator[Step]:
    """Yield the runs of a set, for one target partition. dialect is the target's.

    aligned: the set starts where an earlier set of this partition ended, so no wrapper can begin before it; otherwise
    the first wrapper is decompressed to check. fit: drops fields, as in transcode(), of entries that have to be encoded
    again.  Raises CorruptMessage if a wrapper or record batch that has to be read is damaged, and the exceptions of
    fit().
    """
    limit = PART_MAX_BYTES
    if dialect.measures_whole_set:
        limit = min(limit, message_max_bytes - BATCH_OVERHEAD)
    start = fetched.start
    within = not (dialect.offsets.entries_only or aligned)
    for number, runs in enumerate(_travelling(fetched)):
        run = runs[-1]
        if run.magic >= RECORD_BATCH and len(runs) == 1 and _passes(fetched, run, start, dialect):
            entries = fetched.buffer[run.begin : run.end]
            start = run.resume_at
            yield Step(start, (Part(target, entries, run.magic, run.codec, run.entries, start),))
            continue
        wrapped = run.atomic and not run.record_batch
        may_begin_before = number == 0 and wrapped and within
        if (
            run.record_batch
            or must_rewrite(fetched, run, dialect)
            or (may_begin_before and _begins_before(one_run(fetched, run, start)))
        ):
            yield from transcode(some_runs(fetched, runs, start), target, dialect, message_max_bytes, fit=fit)
        elif wrapped or run.end - run.begin <= limit:
            view = fetched.buffer[run.begin : run.end]
            part = Part(target, view, run.magic, run.codec, run.entries, run.resume_at, counted=not wrapped)
            yield Step(run.resume_at, (part,))
        else:
            yield from _cut(fetched, run, target, dialect, limit)
        start = run.resume_at
    if start < fetched.resume_at:  # the set ends with entries that are not messages: ends of transactions, aborted ones
        yield Step(fetched.resume_at, ())


def _travelling(fetched: MessageSet) -> Iterator[tuple[Run, ...]]:
    """Yield the runs of a set; adjacent record batches that are better encoded as one are yielded together.

    A request has one record batch per partition: small ones would need a request each.
    """
    joined: list[Run] = []
    for run in fetched.runs:
        small = run.magic >= RECORD_BATCH and run.end - run.begin < JOINED_BYTES.get(run.codec, 0)
        if joined and (not small or run.codec != joined[0].codec):
            yield tuple(joined)
            joined = []
        if small:
            joined.append(run)
        else:
            yield (run,)
    if joined:
        yield tuple(joined)


def _passes(fetched: MessageSet, run: Run, start: int, dialect: Dialect) -> bool:
    """True if the target accepts a record batch with a new header and unchanged records.  Raises CorruptMessage if it
    is damaged."""
    known = run.magic in dialect.formats and run.codec in dialect.codecs
    return known and dialect.messages.may_pass(fetched.buffer, run.begin, start)


def one_run(fetched: MessageSet, run: Run, start: int) -> MessageSet:
    """Return a run as a separate set that is wanted from `start`."""
    return some_runs(fetched, (run,), start)


def some_runs(fetched: MessageSet, runs: Sequence[Run], start: int) -> MessageSet:
    """Return adjacent runs as a separate set that is wanted from `start`."""
    begin, last = runs[0].begin, runs[-1]
    view = fetched.buffer[begin : last.end]
    moved = tuple(replace(run, begin=run.begin - begin, end=run.end - begin) for run in runs)
    return replace(fetched, start=start, resume_at=last.resume_at, buffer=view, runs=moved)


def must_rewrite(fetched: MessageSet, run: Run, dialect: Dialect) -> bool:
    """True if the target would refuse these bytes, or store them and not be able to serve them."""
    return run.magic not in dialect.formats or run.codec not in dialect.codecs or fetched.stamped(run)


def _begins_before(alone: MessageSet) -> bool:
    """True if a wrapper has messages before the wanted start, and so must not be sent whole."""
    first = next(iter(replace(alone, start=0).messages(check_crcs=False)), None)
    return first is not None and first.offset < alone.start


def _cut(fetched: MessageSet, run: Run, target: TopicPartition, dialect: Dialect, limit: int) -> Iterator[Step]:
    """Yield a run of plain entries in pieces of at most `limit` bytes; a larger entry is a piece of its own."""
    for piece in fetched.cut(run, limit):
        part = Part(target, fetched.buffer[piece.begin : piece.end], run.magic, 0, piece.entries, piece.resume_at)
        yield Step(piece.resume_at, (part,))


# ---- re-encoding ----------------------------------------------------------------------------------------------


class Output(NamedTuple):
    """A message to send, and its target partition."""

    tp: TopicPartition
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    headers: bytes | None = None  # their block: see kafkawire.headers


def coded_sets(fetched: MessageSet, dialect: Dialect, codec: int | None) -> Iterator[tuple[MessageSet, int]]:
    """Yield adjacent runs that share a codec at the target as separate sets, with that codec.  The last one ends where
    the set does, after trailing entries that are not messages."""
    start, runs, wanted = fetched.start, list[Run](), 0
    for run in fetched.runs:
        found = _known_codec(run.codec if codec is None else codec, dialect)
        if runs and found != wanted:
            yield some_runs(fetched, runs, start), wanted
            start, runs = runs[-1].resume_at, []
        runs.append(run)
        wanted = found
    if runs:
        yield replace(some_runs(fetched, runs, start), resume_at=fetched.resume_at), wanted
    elif start < fetched.resume_at:
        yield fetched, wanted


def _known_codec(codec: int, dialect: Dialect) -> int:
    """Return the codec, or the nearest one that the target supports: lz4 came with 0.8.2."""
    return codec if codec in dialect.codecs else max(dialect.codecs)


def _part(builder: StretchBuilder, tp: TopicPartition, rows: Lists) -> Part:
    """Return a part with rows that are numbered from 0."""
    dialect, codec = builder.dialect, builder.codec
    entries = dialect.messages.encode_lists(*rows, codec, dialect.magic)
    # The entries have new offsets, so after a split their source offsets are not known.
    return Part(tp, entries, dialect.magic, codec, len(rows.keys), resume_at=None)


class Rows(NamedTuple):
    """Messages of a set as columns of equal length.  resume_at: where the source resumes once all of them are done.

    headers: a block for each message that has headers (kafkawire.headers); None: no message has any. timestamp_types:
    as in kafkawire.columns, for one piece; None: no message has any, or they are not known. stretches: the rows of
    fetched columns from which they come, in order; (): not known any more.
    """

    offsets: Sequence[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps_ms: list[int | None]
    resume_at: int
    headers: list[bytes | None] | None = None
    timestamp_types: list[int] | None = None
    stretches: tuple[Stretch, ...] = ()

    def before(self, offset: int) -> Rows:
        """Return the rows before an offset, which has to be one of theirs."""
        return self._part(slice(bisect_left(self.offsets, offset)), offset)

    def since(self, offset: int) -> Rows:
        """Return the rows at and after an offset."""
        return self._part(slice(bisect_left(self.offsets, offset), None), self.resume_at)

    def _part(self, rows: slice, resume_at: int) -> Rows:
        lists = self.offsets[rows], self.keys[rows], self.values[rows], self.timestamps_ms[rows]
        types = None if self.timestamp_types is None else self.timestamp_types[rows]
        return Rows(*lists, resume_at, None if self.headers is None else self.headers[rows], types)

    def behind(self, count: int) -> Rows:
        """Return the rows after the first `count`."""
        return self._part(slice(count, None), self.resume_at)

    def taken(self, rows: Sequence[int]) -> Rows:
        """Return the rows with these numbers, ascending."""
        if len(rows) == 1:
            return self._part(slice(rows[0], rows[0] + 1), self.resume_at)
        take = itemgetter(*rows)
        lists = list(take(self.offsets)), list(take(self.keys)), list(take(self.values)), list(take(self.timestamps_ms))
        types = None if self.timestamp_types is None else list(take(self.timestamp_types))
        return Rows(*lists, self.resume_at, None if self.headers is None else list(take(self.headers)), types)

    def middle(self) -> int | None:
        """Return an offset near the middle, at which they can be split; None if all share one offset."""
        first, middle = self.offsets[0], self.offsets[len(self.offsets) // 2]
        if middle > first:
            return middle
        after = bisect_right(self.offsets, first)
        return self.offsets[after] if after < len(self.offsets) else None


class Lists(NamedTuple):
    """Keys, values, timestamps and header blocks of messages for one target partition, in order.

    headers: None: no message has any.
    """

    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps_ms: list[int | None]
    headers: list[bytes | None] | None = None


class Placed(NamedTuple):
    """Converted messages by target partition. resume_at: of the source, once all of them are stored.

    shares: messages that are sent as fetched, by columns; for one partition they come before its lists.
    """

    by_partition: Mapping[TopicPartition, Lists]
    resume_at: int
    shares: Sequence[Share] = ()


Place = Callable[[Rows], Iterable[Placed]]


class Fit(Protocol):
    """Conversion of messages to a format with fewer fields.  Raises FieldLost."""

    def __call__(self, rows: Rows, /) -> Rows: ...

    def of_columns(self, columns: Columns, end: int, /) -> Columns:
        """Return columns whose first rows are converted; other rows are unchanged."""


def transcode(
    fetched: MessageSet,
    target: TopicPartition,
    dialect: Dialect,
    message_max_bytes: int,
    codec: int | None = None,
    *,
    fit: Fit | None = None,
) -> Iterator[Step]:
    """Yield the messages of a set from its start, in the target's format and in order, for one partition.

    fit: drops fields that the target's format lacks; None: it has all fields. codec: None keeps the source's, as in
    by_columns().  Raises CorruptMessage and FieldLost after everything before it was yielded.
    """
    return resliced(coded_sets(fetched, dialect, codec), to_one(target, fit), dialect, message_max_bytes)


def to_one(target: TopicPartition, fit: Fit | None) -> Sharing:
    """Return a function that yields all rows of columns for one target partition. fit: drops fields that the target's
    format lacks."""

    def share(columns: Columns, end: int) -> Sequence[Share]:
        size = len(columns.data)  # minimum size that they need
        return (Share(target, Stretch(columns if fit is None else fit.of_columns(columns, end), 0, end), size),)

    return share


def by_columns(
    fetched: MessageSet,
    place: Place,
    dialect: Dialect,
    message_max_bytes: int,
    codec: int | None = None,
    *,
    least_bytes: int = 0,
) -> Iterator[Step]:
    """Yield what place() makes from the messages of a set from its start, in the target's format. dialect is the
    target's.

    place() gets one piece of the set at a time, and yields its conversion, at message borders. least_bytes: minimum of
    decoded messages per piece, if the set has that many with one codec. codec None: adjacent messages with one codec at
    the source keep it at the target, if the target supports it.  Messages that share an offset (those of a 0.7 wrapper)
    are in the same step, or in none.  Raises CorruptMessage, and the exceptions of place(), only after everything
    before was yielded.
    """
    builder = _Rows(dialect, message_max_bytes, reached=fetched.start)
    for rows, wanted, damage in _pieces(fetched, dialect, codec, least_bytes):
        if wanted != builder.codec:
            yield from builder.build()
            builder.codec = wanted
        try:
            for placed in place(rows) if rows.offsets else ():
                builder.add(placed)
                if builder.full:
                    yield from builder.build()
        except (RemoteError, LocalError):
            yield from builder.build()
            raise
        builder.resume_at = rows.resume_at
        builder.read += sum(len(stretch.columns.data) for stretch in rows.stretches)
        if builder.full or damage is not None:
            yield from builder.build()
        if damage is not None:
            raise damage
    yield from builder.build()


def _pieces(
    fetched: MessageSet, dialect: Dialect, codec: int | None, least_bytes: int
) -> Iterator[tuple[Rows, int, CorruptMessage | None]]:
    """Yield pieces of a set, each with the codec for its messages at the target, and the damage after it."""
    held: list[Rows] = []
    size = held_codec = 0
    for alone, wanted in coded_sets(fetched, dialect, codec):
        if held and wanted != held_codec:
            yield _joined(held), held_codec, None
            held, size = [], 0
        held_codec = wanted
        for columns in alone.pieces(most_bytes=max(least_bytes, PIECE_BYTES)):
            held.append(rows_of(columns))
            size += len(columns.data)
            if size >= least_bytes or columns.damage is not None:
                yield _joined(held), wanted, columns.damage
                held, size = [], 0
    if held:
        yield _joined(held), held_codec, None


def _joined(pieces: Sequence[Rows]) -> Rows:
    """Join adjacent pieces."""
    if len(pieces) == 1:
        return pieces[0]
    offsets: list[int] = []
    stretches = tuple(stretch for rows in pieces for stretch in rows.stretches)
    found = Rows(offsets, [], [], [], pieces[-1].resume_at, stretches=stretches)
    for rows in pieces:
        offsets += rows.offsets
        found.keys.extend(rows.keys)
        found.values.extend(rows.values)
        found.timestamps_ms.extend(rows.timestamps_ms)
    if all(rows.headers is None for rows in pieces):
        return found
    blocks = [block for rows in pieces for block in rows.headers or [None] * len(rows.keys)]
    return found._replace(headers=blocks)


class Narrowable(Protocol):
    """Messages in the order of their offsets, which can be split: Rows, or a handler's results."""

    @property
    def offsets(self) -> Sequence[int]: ...
    def before(self, offset: int) -> Self: ...
    def since(self, offset: int) -> Self: ...
    def middle(self) -> int | None: ...


SomeRows = TypeVar("SomeRows", bound=Narrowable)


def narrowed(place: Callable[[SomeRows], Placed]) -> Callable[[SomeRows], Iterator[Placed]]:
    """Return place() wrapped so that everything before the message at which it fails is yielded.

    If it does not say which message that is, it is called with each half of them, until it fails at one offset.
    """

    def placed(rows: SomeRows) -> Iterator[Placed]:
        try:
            found = place(rows)
        except MessageRefused as failed:
            middle = rows.middle() if failed.offset is None else None
            if middle is not None:
                yield from placed(rows.before(middle))
                yield from placed(rows.since(middle))
                return
            if failed.offset is not None and failed.offset > rows.offsets[0]:
                yield from placed(rows.before(failed.offset))
            raise
        yield found

    return placed


def rows_of(columns: Columns) -> Rows:
    """Return the messages of a piece, without those of an entry with damage inside."""
    offsets, end = columns.offsets, rows_before_damage(columns)
    if columns.damage is not None:
        offsets = as_list(offsets)
    stamps: list[int | None] = [None] * end
    if columns.timestamps_ms is not None:
        stamps = as_list(columns.timestamps_ms[:end])  # type: ignore[assignment]  # no number of it is changed
    headers = columns.headers()
    return Rows(
        offsets[:end],
        columns.keys()[:end],
        columns.values()[:end],
        stamps,
        columns.resume_at,
        None if headers is None else headers[:end],
        None if columns.timestamp_types is None else as_list(columns.timestamp_types[:end]),
        (Stretch(columns, 0, end),),
    )


@dataclass(slots=True)
class _Collected:
    """Rows for one target partition."""

    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    stamps: list[int | None] = field(default_factory=list)
    headers: list[bytes | None] | None = None
    sizes: list[int] = field(default_factory=list)  # sizes of their future entries

    def add(self, lists: Lists, overhead: int) -> int:
        """Add messages, and return the bytes of their future entries."""
        keys, values, stamps, headers = lists
        if any(keys) or None in values:
            sizes = [overhead + (len(k) if k else 0) + (len(v) if v else 0) for k, v in zip(keys, values, strict=True)]
        else:
            sizes = list(map(overhead.__add__, map(len, values)))  # type: ignore[arg-type]  # as none is None
        if headers is not None and any(headers):
            sizes = [size + (len(block) if block else 0) for size, block in zip(sizes, headers, strict=True)]
            if self.headers is None:
                self.headers = [None] * len(self.keys)
            self.headers += headers
        elif self.headers is not None:
            self.headers += [None] * len(keys)
        self.keys += keys
        self.values += values
        self.stamps += stamps
        self.sizes += sizes
        return sum(sizes)


@dataclass(slots=True)
class _Rows(StretchBuilder):
    """Rows by target partition, as lists and as columns."""

    by_partition: dict[TopicPartition, _Collected] = field(default_factory=dict)

    def add(self, placed: Placed) -> None:
        overhead = ENTRY_OVERHEAD[self.dialect.magic]
        for tp, lists in placed.by_partition.items():
            self.close(tp)
            found = self.by_partition.get(tp)
            if found is None:
                found = self.by_partition[tp] = _Collected()
            self.size += found.add(lists, overhead)
        for share in placed.shares:
            if share.target in self.by_partition:
                self._close_lists(share.target)
        self.add_shares(placed.shares, placed.resume_at)

    def parts(self) -> Iterator[Part]:
        for tp in list(self.by_partition):
            self._close_lists(tp)
        return StretchBuilder.parts(self)

    def _close_lists(self, tp: TopicPartition) -> None:
        """Make parts from the lists for a partition."""
        self.target(tp).parts += self._parts(tp, self.by_partition.pop(tp))

    def _parts(self, tp: TopicPartition, rows: _Collected) -> Iterator[Part]:
        ends, at, total = list(accumulate(rows.sizes)), 0, len(rows.sizes)
        while at < total:
            before = ends[at - 1] if at else 0
            end = max(at + 1, bisect_left(ends, before + self.limit + 1, at))
            headers = None if rows.headers is None else rows.headers[at:end]
            yield _part(self, tp, Lists(rows.keys[at:end], rows.values[at:end], rows.stamps[at:end], headers))
            at = end
