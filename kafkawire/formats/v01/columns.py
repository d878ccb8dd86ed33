"""Columns of a set of formats v0 and v1, without one object per message. messages.py describes the bytes of an entry.

First comes a layout: plain entries and the decompressed content of wrappers, side by side.  A layout decompresses
everything and checks only wrappers.  It ends before the first wrapper that cannot be decompressed.  A set may be laid
out in pieces of whole entries: the result is then still in the processor's cache when it is used, and its memory is
free for the next piece.

Then one pass over the segments of a layout, in pure Python or compiled (loops.py).  It only finds where damage is; that
entry is read again to describe it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkawire.columns import Column, Columns, as_list
from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.formats import layouts as common
from kafkawire.formats.layouts import Indexing, OpenBudget
from kafkawire.formats.v01.scan import ENTRY_OVERHEAD, LOG_OVERHEAD, LOWEST, Scan, cut
from kafkawire.formats.v01.wrappers import CRC_FROM, Wrapper, bad_crc, opened, shift_of, wrapper
from kafkawire.model import MessageSet, Run
from kafkawire.primitives import Bytes

if TYPE_CHECKING:
    from kafkawire.formats.compiled import Kernels


@dataclass(frozen=True, slots=True)
class Segment:
    """Plain entries of one format side by side in the joined pieces of a layout."""

    begin: int
    end: int
    magic: int
    entries: int  # including entries before start
    start: int  # offsets before it are not wanted, and not checked
    shift: int  # what to add to offsets
    appended_ms: int | None  # timestamp of a wrapper that its broker set, for all messages in it
    pinned: int | None  # offset that all of them get: that of a nested wrapper whose content is not numbered
    behind: int  # what to subtract from a position to get the position in the original bytes
    wrapper_at: int | None  # position of the top-level wrapper in the set


@dataclass(slots=True)
class Layout(common.Layout[Segment]):
    """Layout of sets of formats v0 and v1."""

    pinned: int | None = None  # of the nested wrapper being read, or read when damage was met

    def back_to(self, pieces: int, segments: int, size: int) -> None:
        """Undo everything laid since there were this many pieces, segments and bytes."""
        common.Layout.back_to(self, pieces, segments, size)
        self.pinned = None

    @property
    def timed(self) -> bool:
        """True if any of its messages may have a timestamp."""
        return any(segment.magic for segment in self.segments)

    @property
    def magic(self) -> int | None:
        """Return the format of all its entries; None if there are several."""
        magics = {segment.magic for segment in self.segments}
        return magics.pop() if len(magics) == 1 else None


def layouts(message_set: MessageSet, check_crcs: bool, budget: OpenBudget, most_bytes: int) -> Iterator[Layout]:
    """Yield a set in pieces of about most_bytes, at least one, each made when requested.  Nothing follows damage.

    budget: of the first piece; a top-level wrapper that exceeds the rest of it begins the next piece.  Raises
    LibraryMissing.

    No checksum covers an offset; a piece with a damaged one still ends where the set does or earlier.
    """
    layout, before_end = Layout(message_set.start, budget), message_set.resume_at - 1
    for number, run in enumerate(message_set.runs, 1):
        if run.codec:
            before = len(layout.pieces), len(layout.segments), layout.size
            final = layout.budget.final
            layout.damage = _outermost(layout, message_set, run, check_crcs)
            if layout.budget.exceeded and not final:  # the other entries of the piece may have used up the budget
                layout.back_to(*before)
                layout.full = True
                yield layout
                layout = Layout(layout.resume_at, OpenBudget(budget.limit))
                layout.damage = _outermost(layout, message_set, run, check_crcs)
            if layout.damage is not None:
                yield layout
                return
            layout.resume_at = max(layout.resume_at, min(run.resume_at, before_end))
            if 2 * layout.size >= most_bytes and number < len(message_set.runs):  # half a piece costs less than a copy
                yield layout
                layout = Layout(layout.resume_at, OpenBudget(budget.limit))
            continue
        for piece in cut(message_set.buffer, run, most_bytes):
            if layout.size and layout.size + piece.end - piece.begin > most_bytes:
                yield layout
                layout = Layout(layout.resume_at, OpenBudget(budget.limit))
            begin = layout.lay(message_set.buffer[piece.begin : piece.end])
            layout.segments.append(_plain(piece, begin, message_set.start))
            layout.resume_at = max(layout.resume_at, min(piece.resume_at, before_end))
    layout.resume_at = message_set.resume_at
    yield layout


def _plain(run: Run, at: int, start: int) -> Segment:
    """Return the segment of a plain run laid at `at`."""
    end = at + run.end - run.begin
    return Segment(at, end, run.magic, run.entries, start, 0, None, None, at - run.begin, None)


def _outermost(layout: Layout, message_set: MessageSet, run: Run, check_crcs: bool) -> CorruptMessage | None:
    try:
        outer = wrapper(message_set.buffer, run.begin, run.end, check_crcs)
    except CorruptMessage as exc:
        return exc
    try:
        _Opening(layout, check_crcs, run.begin, message_set.start).inside(outer, outer.offset, 1)
    except CorruptMessage as exc:
        return within(exc, run.begin)
    except RemoteError as exc:
        return CorruptMessage(str(exc), run.begin, outer.offset)
    return None


def within(damage: CorruptMessage, wrapper_at: int) -> CorruptMessage:
    """Return damage inside a wrapper as damage at the wrapper's own position."""
    return type(damage)(f"inside the wrapper, {damage}", wrapper_at, damage.offset)


@dataclass(slots=True)
class _Opening:
    """One top-level wrapper while it is laid out.

    0.9 numbers a nested wrapper of format v0 but not its content: all its messages get the wrapper's offset, and only
    the last moves the position past it, so a restart in the middle repeats some and loses none.
    """

    layout: Layout
    check_crcs: bool
    at: int  # position of the top-level wrapper
    start: int

    def inside(self, outer: Wrapper, offset: int, depth: int) -> None:
        """Lay out the content of a wrapper. offset: the wrapper's absolute offset."""
        data, found = opened(outer, depth, self.layout.budget)
        if not found.runs:
            return
        shift = shift_of(outer, found, offset, depth)
        if shift is not None:
            self._lay(outer, data, found, shift, depth)
        elif self.layout.pinned is not None:
            self._lay(outer, data, found, 0, depth)
        elif offset >= self.start:
            start = self.start
            self.start, self.layout.pinned = LOWEST, offset
            self._lay(outer, data, found, 0, depth)
            self.start, self.layout.pinned = start, None

    def _lay(self, outer: Wrapper, data: Bytes, found: Scan, shift: int, depth: int) -> None:
        layout, base = self.layout, self.layout.lay(data)
        for run in found.runs:
            if run.codec:
                nested = wrapper(data, run.begin, run.end, self.check_crcs)
                self.inside(nested, nested.offset + shift, depth + 1)
            else:
                layout.segments.append(
                    Segment(
                        begin=base + run.begin,
                        end=base + run.end,
                        magic=run.magic,
                        entries=run.entries,
                        start=self.start,
                        shift=shift,
                        appended_ms=outer.appended_ms,
                        pinned=layout.pinned,
                        behind=base,
                        wrapper_at=self.at,
                    )
                )


# Fields of a plain entry, no more than needed, since each costs time.
_V0 = struct.Struct(">qiI2xii")  # offset, size, crc, key length, and the value length that follows a null key
_V1 = struct.Struct(">qiIxBqii")  # as _V0, with attributes and timestamp before the key length
_INT32 = struct.Struct(">i")
_FAR = 1 << 62  # offsets and shifts below it add up within int64


def _columns_of(kernels: Kernels | None, layout: Layout, start: int, check_crcs: bool) -> Columns:
    """Return the columns of a layout. start: offset that the previous pieces reached."""
    data = layout.data()
    found = _compiled(kernels, layout, data, check_crcs) if kernels is not None else None
    if found is None:
        data = bytes(data)  # slicing bytes costs half of slicing a view
        found = _in_python(layout, data, check_crcs)
    offsets, key_at, key_size, value_at, value_size, *times = found.columns
    damage, pinned = layout.damage, layout.pinned
    if found.damaged is not None:
        segment = layout.segments[found.damaged[0]]
        damage, pinned = _damage(data, segment, found.damaged[1], check_crcs), segment.pinned
    return Columns(
        offsets=offsets,
        key_at=key_at,
        key_size=key_size,
        value_at=value_at,
        value_size=value_size,
        timestamps_ms=times[0] if layout.timed else None,
        timestamp_types=times[1] if layout.timed else None,
        data=data,
        resume_at=layout.resume_at if damage is None else _reached(start, offsets, pinned),
        damage=damage,
        entry_magic=layout.magic,
    )


def _resumes(layout: Layout, found: Columns) -> Iterable[int]:
    """Return the offset at which reading resumes after each message: the next one, but not past an offset that a later
    message shares."""
    offsets = as_list(found.offsets)
    if all(segment.pinned is None for segment in layout.segments):
        return [offset + 1 for offset in offsets]
    following = [*offsets[1:], None if found.damage is None else found.resume_at]
    return [offset + (offset != after) for offset, after in zip(offsets, following, strict=False)]


_INDEXING = Indexing(layouts, _columns_of, _resumes)
index, index_by, pieces, pieces_by = _INDEXING.index, _INDEXING.index_by, _INDEXING.pieces, _INDEXING.pieces_by
index_within, messages = _INDEXING.index_within, _INDEXING.messages


def _reached(start: int, offsets: Column, pinned: int | None) -> int:
    """Return the offset to commit once everything before some damage is done; it does not pass an offset that the
    damaged entry may share."""
    if not offsets:
        return start
    return offsets[-1] if offsets[-1] == pinned else offsets[-1] + 1


@dataclass(frozen=True, slots=True)
class _Found:
    columns: Sequence[Column]  # offsets, key_at, key_size, value_at, value_size; if timed also timestamps and types
    damaged: tuple[int, int] | None  # segment and position of the first damage


# ---- in pure Python --------------------------------------------------------------------------------------------


def _in_python(layout: Layout, data: bytes, check_crcs: bool) -> _Found:
    columns: tuple[list[int], ...] = ([], [], [], [], [], [], [])
    offsets, *_, stamps, types = columns
    for number, segment in enumerate(layout.segments):
        known = len(offsets)
        stopped = (_entries_v1 if segment.magic else _entries_v0)(columns, data, segment, check_crcs)
        added = len(offsets) - known
        if segment.pinned is not None:
            offsets[known:] = [segment.pinned] * added
        if segment.magic == 0:
            stamps += [-1] * added
            types += [-1] * added
        elif segment.appended_ms is not None:
            stamps[known:] = [segment.appended_ms] * added
            types[known:] = [1] * added
        if stopped >= 0:
            return _Found(columns, (number, stopped))
    return _Found(columns, None)


def _entries_v0(columns: Sequence[list[int]], data: bytes, segment: Segment, check: bool) -> int:
    """Add the entries of a segment of format v0, without timestamps; return the position of a damaged one, or -1."""
    add_offset, add_key_at, add_key_size, add_value_at, add_value_size, *_ = (column.append for column in columns)
    unpack, unpack_int32, crc32 = _V0.unpack_from, _INT32.unpack_from, zlib.crc32
    at, end, start, shift = segment.begin, segment.end, segment.start, segment.shift
    while at < end:
        offset, size, crc, key_size, value_size = unpack(data, at)
        offset += shift
        after = at + 12 + size
        if offset < start:
            at = after
            continue
        if check and crc32(data[at + 16 : after]) != crc:
            return at
        value_at = at + 26
        if key_size != -1:
            value_at += key_size
            if key_size < 0 or value_at > after:
                return at
            (value_size,) = unpack_int32(data, value_at - 4)
        if value_at + value_size != after and (value_size != -1 or value_at != after):
            return at
        add_offset(offset)
        add_key_at(at + 22)
        add_key_size(key_size)
        add_value_at(value_at)
        add_value_size(value_size)
        at = after
    return -1


def _entries_v1(columns: Sequence[list[int]], data: bytes, segment: Segment, check: bool) -> int:
    """Add the entries of a segment of format v1, with their own timestamps; return the position of a damaged one, or
    -1."""
    add_offset, add_key_at, add_key_size, add_value_at, add_value_size, *_ = (column.append for column in columns)
    add_stamp, add_type = columns[5].append, columns[6].append
    unpack, unpack_int32, crc32 = _V1.unpack_from, _INT32.unpack_from, zlib.crc32
    at, end, start, shift = segment.begin, segment.end, segment.start, segment.shift
    while at < end:
        offset, size, crc, attributes, stamp, key_size, value_size = unpack(data, at)
        offset += shift
        after = at + 12 + size
        if offset < start:
            at = after
            continue
        if check and crc32(data[at + 16 : after]) != crc:
            return at
        value_at = at + 34
        if key_size != -1:
            value_at += key_size
            if key_size < 0 or value_at > after:
                return at
            (value_size,) = unpack_int32(data, value_at - 4)
        if value_at + value_size != after and (value_size != -1 or value_at != after):
            return at
        add_offset(offset)
        add_key_at(at + 30)
        add_key_size(key_size)
        add_value_at(value_at)
        add_value_size(value_size)
        add_stamp(stamp)
        add_type((attributes & 0x08) >> 3)
        at = after
    return -1


# ---- compiled --------------------------------------------------------------------------------------------------


def _compiled(kernels: Kernels, layout: Layout, data: Bytes, check_crcs: bool) -> _Found | None:
    """Return the columns from compiled kernels; None for offsets beyond int64, which only damage causes: pure Python
    handles them."""
    if not all(-_FAR < segment.shift < _FAR for segment in layout.segments):
        return None
    rows = [_row(segment) for segment in layout.segments]
    found = kernels.index(data, rows, sum(segment.entries for segment in layout.segments), check_crcs, layout.timed)
    return None if found is None else _Found(found.columns, found.damaged)


def _row(segment: Segment) -> tuple[int, ...]:
    """Return a segment as a row for the kernels."""
    stamp, pinned = segment.appended_ms, segment.pinned
    return (
        segment.begin,
        segment.end,
        segment.magic,
        segment.start,
        segment.shift,
        stamp is not None,
        stamp or 0,
        pinned is not None,
        pinned or 0,
    )


# ---- damage ----------------------------------------------------------------------------------------------------


def _damage(data: Bytes, segment: Segment, at: int, check_crcs: bool) -> CorruptMessage:
    """Return what is wrong with the entry at `at`, in the words of messages()."""
    found = _entry_damage(data, segment, at, check_crcs)
    return found if segment.wrapper_at is None else within(found, segment.wrapper_at)


def _entry_damage(data: Bytes, segment: Segment, at: int, check_crcs: bool) -> CorruptMessage:
    position = at - segment.behind
    offset, size, crc, *_, key_size, value_size = (_V1 if segment.magic else _V0).unpack_from(data, at)
    offset += segment.shift
    after = at + LOG_OVERHEAD + size
    computed = zlib.crc32(data[at + CRC_FROM : after])
    if check_crcs and computed != crc:
        return bad_crc(crc, computed, position, offset)
    value_at = at + ENTRY_OVERHEAD[segment.magic]
    if key_size != -1:
        value_at += key_size
        if key_size < 0 or value_at > after:
            return CorruptMessage(f"a key of {key_size} bytes does not fit", position, offset)
        (value_size,) = _INT32.unpack_from(data, value_at - 4)
    return CorruptMessage(f"a value of {value_size} bytes, with {after - value_at} left", position, offset)
