"""Columns of record batches, without one object per message, and their messages. read.py describes the bytes of a
record.

First comes a layout: checksums are compared, batches with a codec decompressed, and all records put side by side.  Then
one pass over all records finds where damage is; that record is read again to describe it.

A set is laid out in pieces of whole batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkawire.columns import Column, Columns
from kafkawire.errors import CorruptMessage
from kafkawire.formats import layouts as common
from kafkawire.formats.layouts import OPEN_LIMIT, Indexing, OpenBudget
from kafkawire.formats.v2.layout import OVERHEAD, Batch, batch_at
from kafkawire.formats.v2.read import check_crc, opened
from kafkawire.formats.v2.scan import before, cut, stamped
from kafkawire.headers import unpacked
from kafkawire.kernels import ready
from kafkawire.model import PIECE_BYTES, Message, MessageSet, Run, SetReader, made
from kafkawire.primitives import Bytes
from kafkawire.varints import varint

if TYPE_CHECKING:
    from kafkawire.formats.compiled import Kernels

LEAST_RECORD = 7  # bytes of the smallest record: it has seven fields
_FEW = 16  # records; for fewer, calling the compiled loop costs more than it saves
_FAR = 1 << 62  # offsets below it stay within int64
_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(slots=True)  # not frozen, like Batch
class Segment:
    """Records of one batch in the joined pieces of a layout."""

    begin: int
    end: int
    records: int
    start: int  # offsets before it are not wanted
    base_offset: int
    last_offset: int
    first_ms: int
    appended_ms: int | None  # timestamp of all of them, if the broker set it
    batch_at: int  # position of the batch in the set


@dataclass(slots=True)
class Layout(common.Layout[Segment]):
    """Layout of record batches. laid_to: where the last piece ends in the set, if it is a view of it."""

    laid_to: int = -1

    def lay_view(self, buffer: memoryview, run: Run) -> int:
        """Append the bytes of a batch without copying, and return where they begin.  Adjacent batches become one
        piece."""
        if run.begin != self.laid_to:
            begin = self.lay(buffer[run.begin : run.end])
        else:
            begin, size = self.size, len(self.pieces[-1])
            self.pieces[-1] = buffer[run.begin - size : run.end]
            self.size += run.end - run.begin
        self.laid_to = run.end
        return begin

    def lay_opened(self, data: bytes) -> int:
        self.laid_to = -1
        return self.lay(data)


def layouts(message_set: MessageSet, check_crcs: bool, budget: OpenBudget, most_bytes: int) -> Iterator[Layout]:
    """Yield a set in pieces of about most_bytes, at least one, each made when requested.  Nothing follows damage.

    budget: of the first piece; a batch that exceeds the rest of it begins the next piece.  Raises only LibraryMissing,
    if a codec's package is not installed.
    """
    layout = Layout(message_set.start, budget)
    for run in message_set.runs:
        size = layout.size + run.end - run.begin
        if layout.size and (size > most_bytes or (run.codec and 2 * layout.size >= most_bytes)):
            yield layout
            layout = Layout(layout.resume_at, OpenBudget(budget.limit))
        untouched = layout.budget.untouched
        layout.damage = _lay(layout, message_set, run, check_crcs)
        if layout.budget.exceeded and not untouched:  # the other batches of the piece may have used up the budget
            layout.damage, layout.full = None, True
            yield layout
            layout = Layout(layout.resume_at, OpenBudget(budget.limit))
            layout.damage = _lay(layout, message_set, run, check_crcs)
        if layout.damage is not None:
            yield layout
            return
        layout.resume_at = run.resume_at
    layout.resume_at = message_set.resume_at
    yield layout


def _lay(layout: Layout, message_set: MessageSet, run: Run, check_crcs: bool) -> CorruptMessage | None:
    """Add a batch to a layout; return its damage if it cannot be added."""
    try:
        layout.segments.append(_laid(layout, message_set, run, check_crcs))
    except CorruptMessage as damage:
        return damage
    return None


def _laid(layout: Layout, message_set: MessageSet, run: Run, check_crcs: bool) -> Segment:
    buffer = message_set.buffer
    batch = batch_at(buffer, run.begin)
    assert batch is not None, "a run must be a complete batch"
    if check_crcs:
        check_crc(buffer, batch)
    if batch.codec:
        data = opened(buffer, batch, layout.budget)
        _check_count(batch, len(data))
        begin = layout.lay_opened(data)
        end = begin + len(data)
    else:
        _check_count(batch, run.end - run.begin - OVERHEAD)
        begin = layout.lay_view(buffer, run) + OVERHEAD
        end = begin + run.end - run.begin - OVERHEAD
    return Segment(
        begin=begin,
        end=end,
        records=batch.count,
        start=message_set.start,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        first_ms=batch.first_timestamp_ms,
        appended_ms=batch.max_timestamp_ms if batch.log_append_time else None,
        batch_at=run.begin,
    )


def _check_count(batch: Batch, size: int) -> None:
    """Raise CorruptMessage for more records than fit, so that nothing is allocated for them."""
    if batch.count * LEAST_RECORD > size:
        raise CorruptMessage(f"{batch.count} records do not fit {size} bytes", batch.begin, batch.base_offset)


def _columns_of(kernels: Kernels | None, layout: Layout, start: int, check_crcs: bool) -> Columns:
    """Return the columns of a layout. start: offset that the previous pieces reached."""
    data = layout.data()
    found = _compiled(kernels, layout, data) if kernels is not None else None
    if found is None:
        data = bytes(data)  # indexing bytes takes two thirds of the time of a view
        found = _in_python(layout, data)
    offsets, key_at, key_size, value_at, value_size, stamps, types, header_at, header_size = found.columns
    damage = layout.damage
    if found.damaged is not None:
        damage = _damage(data, layout.segments[found.damaged[0]], found.damaged[1])
    reached = offsets[-1] + 1 if offsets else start
    return Columns(
        offsets=offsets,
        key_at=key_at,
        key_size=key_size,
        value_at=value_at,
        value_size=value_size,
        timestamps_ms=stamps,
        timestamp_types=types,
        data=data,
        resume_at=layout.resume_at if damage is None else reached,
        damage=damage,
        header_at=header_at if found.any_headers else None,
        header_size=header_size if found.any_headers else None,
    )


_INDEXING = Indexing(layouts, _columns_of)
index, index_by, pieces, pieces_by = _INDEXING.index, _INDEXING.index_by, _INDEXING.pieces, _INDEXING.pieces_by
index_within = _INDEXING.index_within


@dataclass(frozen=True, slots=True)
class _Found:
    columns: Sequence[Column]  # columns as in loops.py
    any_headers: bool
    damaged: tuple[int, int] | None  # segment and position of the first damage


# ---- messages --------------------------------------------------------------------------------------------------


def messages(message_set: MessageSet, check_crcs: bool = True, limit: int = OPEN_LIMIT) -> Iterator[Message]:
    """Yield the messages of a set from its start, lazily, one piece at a time.

    limit: maximum decompressed bytes of one batch.  Raises CorruptMessage, whose position is a byte of the set's
    buffer, when it reaches the damage; everything before it has been yielded.
    """
    few = sum(run.entries for run in message_set.runs[:_FEW]) < _FEW
    topic, partition = message_set.topic, message_set.partition
    for found in pieces_by(None if few else ready(), message_set, check_crcs, PIECE_BYTES, limit):
        assert found.timestamps_ms is not None
        assert found.timestamp_types is not None
        rows = zip(found.offsets, found.keys(), found.values(), found.timestamps_ms, found.timestamp_types, strict=True)
        blocks = found.headers()
        for n, (offset, key, value, stamp, kind) in enumerate(rows):
            message = made(topic, partition, offset, key, value, stamp, kind, offset + 1)
            message.headers = () if blocks is None else unpacked(blocks[n])
            yield message
        if found.damage is not None:
            raise found.damage


READER = SetReader(messages, index, pieces, cut, before, stamped)


# ---- in pure Python --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Lists:
    offsets: list[int] = field(default_factory=list)
    key_at: list[int] = field(default_factory=list)
    key_size: list[int] = field(default_factory=list)
    value_at: list[int] = field(default_factory=list)
    value_size: list[int] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    header_at: list[int] = field(default_factory=list)
    header_size: list[int] = field(default_factory=list)


def _in_python(layout: Layout, data: bytes) -> _Found:
    lists = _Lists()
    columns = (
        lists.offsets, lists.key_at, lists.key_size, lists.value_at, lists.value_size,
        lists.stamps, lists.types, lists.header_at, lists.header_size,
    )  # fmt: skip
    damaged = None
    for number, segment in enumerate(layout.segments):
        known = len(lists.offsets)
        stopped = _records(lists, data, segment)
        added = len(lists.offsets) - known
        lists.types += [0 if segment.appended_ms is None else 1] * added
        if stopped >= 0:
            damaged = number, stopped
            break
    return _Found(columns, any(lists.header_size), damaged)


def _records(lists: _Lists, data: bytes, segment: Segment) -> int:
    """Add the records of a batch, without the types of their timestamps; return the position of a damaged one, or
    -1."""
    offsets, key_at, key_sizes = lists.offsets.append, lists.key_at.append, lists.key_size.append
    values, value_sizes, stamps = lists.value_at.append, lists.value_size.append, lists.stamps.append
    header_at, header_sizes = lists.header_at.append, lists.header_size.append
    at, end, start, base = segment.begin, segment.end, segment.start, segment.base_offset
    first_ms, appended_ms, most = segment.first_ms, segment.appended_ms, segment.last_offset - base
    before, record = -1, at
    try:
        for _ in range(segment.records):
            record = at
            # Numbers of one byte, which most are, are read inline here.
            n = data[at]
            at += 1
            if n > 0x7F:
                length, at = varint(data, record)
            else:
                length = n >> 1 ^ -(n & 1)
            after = at + length
            if length < 1 or after > end:
                return record
            at += 2  # after the attributes, which nothing uses
            n = data[at - 1]
            if n > 0x7F:
                time, at = varint(data, at - 1)
            else:
                time = n >> 1 ^ -(n & 1)
            n = data[at]
            at += 1
            if n > 0x7F:
                delta, at = varint(data, at - 1)
            else:
                delta = n >> 1 ^ -(n & 1)
            if at > after or delta <= before or delta > most:
                return record
            before = delta
            if base + delta < start:
                at = after
                continue
            n = data[at]
            at += 1
            if n > 0x7F:
                key_size, at = varint(data, at - 1)
            else:
                key_size = n >> 1 ^ -(n & 1)
            begin = at
            if key_size > 0:
                at += key_size
            n = data[at]
            at += 1
            if n > 0x7F:
                value_size, at = varint(data, at - 1)
            else:
                value_size = n >> 1 ^ -(n & 1)
            value_at = at
            if value_size > 0:
                at += value_size
            block = at
            if data[at]:  # it has headers
                at = _behind_headers(data, at, after)
            else:
                at += 1
            stamp = first_ms + time
            if at != after or stamp not in _INT64:
                return record
            offsets(base + delta)
            key_at(begin)
            key_sizes(key_size if key_size > -1 else -1)
            values(value_at)
            value_sizes(value_size if value_size > -1 else -1)
            stamps(stamp if appended_ms is None else appended_ms)
            header_at(block)
            header_sizes(after - block if data[block] else 0)
    except (IndexError, ValueError):
        return record
    return -1 if at == end else at


def _behind_headers(data: bytes, at: int, end: int) -> int:
    """Return where a record's headers end.  Raises ValueError and IndexError if they are damaged."""
    count, at = varint(data, at)
    if not 0 <= count <= end - at:
        raise ValueError(f"{count} headers in {end - at} bytes")
    for _ in range(count):
        size, at = varint(data, at)
        if not 0 <= size <= end - at:
            raise ValueError(f"a header's name of {size} bytes, with {end - at} left")
        size, at = varint(data, at + size)
        if size > end - at:
            raise ValueError(f"a header's value of {size} bytes, with {end - at} left")
        at += max(size, 0)
    return at


# ---- compiled --------------------------------------------------------------------------------------------------


def _compiled(kernels: Kernels, layout: Layout, data: Bytes) -> _Found | None:
    """Return the columns from compiled kernels; None for offsets beyond int64, which only damage causes: pure Python
    handles them."""
    segments = layout.segments
    if not all(-_FAR < segment.base_offset < _FAR for segment in segments):
        return None
    rows: list[tuple[int, ...]] = [
        (
            segment.begin,
            segment.end,
            segment.records,
            segment.start,
            segment.base_offset,
            segment.last_offset,
            segment.first_ms,
            segment.appended_ms is not None,
            segment.appended_ms or 0,
        )
        for segment in segments
    ]
    found, any_headers = kernels.index2(data, rows, sum(segment.records for segment in segments))
    return _Found(found.columns, any_headers, found.damaged)


# ---- damage ----------------------------------------------------------------------------------------------------


def _damage(data: Bytes, segment: Segment, at: int) -> CorruptMessage:
    """Return what is wrong with the record at byte `at`, or with the bytes after the last one."""
    try:
        why = _why(bytes(data[at : segment.end]), segment)
    except (IndexError, ValueError) as exc:
        why = str(exc)
    where = f"inside the batch, the record at byte {at - segment.begin} of {segment.end - segment.begin}: {why}"
    return CorruptMessage(where, segment.batch_at, segment.base_offset)


def _why(data: bytes, segment: Segment) -> str:
    """Return what is wrong with the record at byte `at` in words.  Raises ValueError and IndexError, whose texts say
    it, too."""
    length, at = varint(data, 0)
    after = at + length
    if length < 1 or after > len(data):
        return f"it declares {length} bytes, {len(data) - at} are left"
    time, at = varint(data, at + 1)
    delta, at = varint(data, at)
    offset = segment.base_offset + delta
    for name in ("key", "value"):
        size, at = varint(data, at)
        if size > after - at:
            return f"a {name} of {size} bytes, with {after - at} left"
        at += max(size, 0)
    at = _behind_headers(data, at, after)
    if at != after:
        return f"its fields end at byte {at}, not at {after}"
    if segment.first_ms + time not in _INT64:
        return f"its timestamp is {segment.first_ms + time}"
    lies = f"{segment.base_offset} to {segment.last_offset}"
    return f"offset {offset} in a batch of offsets {lies}, not after the one before it, or one record too many"
