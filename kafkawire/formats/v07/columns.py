"""Columns of a 0.7 set, without one object per message. messages.py describes the bytes of an entry.

First comes a layout: plain entries and the decompressed content of wrappers, side by side.  A layout decompresses
everything and checks only wrappers.  It ends where the first wrapper cannot be read.  A set may be laid out in pieces
of whole top-level entries: the offset to commit after a piece is always the end of such an entry.

Then one pass over the segments of a layout.  It only finds where damage is; read.py reads there again to describe it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafkawire.columns import Column, Columns
from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.formats import layouts as common
from kafkawire.formats.layouts import Indexing, OpenBudget
from kafkawire.formats.v07.layout import ENTRY_OVERHEAD, HEADS, LENGTH, LOG_OVERHEAD
from kafkawire.formats.v07.read import Wrapper, bad_crc, opened, within, wrapper
from kafkawire.formats.v07.scan import AGAIN, cut
from kafkawire.formats.v07.uniform import Alike, are_right, find
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
    entries: int
    shift: int  # added to a byte of the joined pieces to get its offset in the log
    pinned: int | None  # offset of all messages: that of the top-level wrapper around them
    behind: int  # what to subtract from a byte to get the position in the original bytes
    wrapper_at: int | None  # position of that wrapper in the set


class Layout(common.Layout[Segment]):
    """Layout of 0.7 sets."""

    __slots__ = ()


def layouts(message_set: MessageSet, check_crcs: bool, budget: OpenBudget, most_bytes: int) -> Iterator[Layout]:
    """Yield a set in pieces of about most_bytes, at least one, each made when requested.  Nothing follows damage.

    budget: of the first piece; a top-level wrapper that exceeds the rest of it begins the next piece.  Raises
    LibraryMissing.
    """
    layout = Layout(message_set.start, budget)
    for number, run in enumerate(message_set.runs, 1):
        if run.resume_at <= message_set.start:
            continue
        if run.codec:
            before = len(layout.pieces), len(layout.segments), layout.size
            untouched = layout.budget.untouched
            layout.damage = _outermost(layout, message_set, run, check_crcs)
            if layout.budget.exceeded and not untouched:  # the other entries of the piece may have used up the budget
                layout.back_to(*before)
                layout.full = True
                yield layout
                layout = Layout(layout.resume_at, OpenBudget(budget.limit))
                layout.damage = _outermost(layout, message_set, run, check_crcs)
            if layout.damage is not None:
                yield layout
                return
            layout.resume_at = run.resume_at
            if 2 * layout.size >= most_bytes and number < len(message_set.runs):  # half a piece costs less than a copy
                yield layout
                layout = Layout(layout.resume_at, OpenBudget(budget.limit))
            continue
        for piece in cut(message_set.buffer, _wanted(message_set, run), most_bytes):
            if layout.size and layout.size + piece.end - piece.begin > most_bytes:
                yield layout
                layout = Layout(layout.resume_at, OpenBudget(budget.limit))
            begin = layout.lay(message_set.buffer[piece.begin : piece.end])
            layout.segments.append(_plain(piece, begin))
            layout.resume_at = piece.resume_at
    layout.resume_at = message_set.resume_at
    yield layout


def _wanted(message_set: MessageSet, run: Run) -> Run:
    """Return a plain run without the entries that end at or before the set's start."""
    behind = message_set.start - (run.resume_at - run.end)  # the byte of the set at offset `start`
    at, entries = run.begin, run.entries
    while at < behind:
        after = at + LOG_OVERHEAD + LENGTH.unpack_from(message_set.buffer, at)[0]
        if after > behind:
            break
        at, entries = after, entries - 1
    return replace(run, begin=at, entries=entries) if at > run.begin else run


def _plain(run: Run, begin: int) -> Segment:
    """Return the segment of a plain run laid at begin."""
    end = begin + run.end - run.begin
    return Segment(begin, end, run.magic, run.entries, run.resume_at - end, None, begin - run.begin, None)


def _outermost(layout: Layout, message_set: MessageSet, run: Run, check_crcs: bool) -> CorruptMessage | None:
    at = run.resume_at - run.end + run.begin
    try:
        outer = wrapper(message_set.buffer, run.begin, run.end, check_crcs, at)
    except CorruptMessage as exc:
        return exc
    try:
        _Opening(layout, check_crcs, run.begin, at).inside(outer, 1)
    except RemoteError as exc:
        return within(exc, run.begin, at)
    return None


@dataclass(slots=True)
class _Opening:
    """One top-level wrapper while it is laid out."""

    layout: Layout
    check_crcs: bool
    wrapper_at: int
    position: int

    def inside(self, outer: Wrapper, depth: int) -> None:
        """Lay out the content of a wrapper."""
        data, found = opened(outer, depth, self.layout.budget)
        base = self.layout.lay(data)
        for run in found.runs:
            if run.codec:
                self.inside(wrapper(data, run.begin, run.end, self.check_crcs), depth + 1)
            else:
                begin, end = base + run.begin, base + run.end
                self.layout.segments.append(
                    Segment(begin, end, run.magic, run.entries, 0, self.position, base, self.wrapper_at)
                )
        if found.damage is not None:
            raise found.damage


_FARTHEST = (1 << 63) - 1


def _columns_of(kernels: Kernels | None, layout: Layout, start: int, check_crcs: bool) -> Columns:
    """Return the columns of a layout. start: offset that the previous pieces reached."""
    data = layout.data()
    found = _compiled(kernels, layout, data, check_crcs) if kernels is not None else None
    if found is None:
        data = bytes(data)  # slicing bytes costs half of slicing a view
        found = _in_python(layout, data, check_crcs)
    offsets, value_at, value_size = found.columns
    damage = layout.damage
    if found.damaged is not None:
        segment, at = found.damaged
        damage = _damage(data, layout.segments[segment], at)
    return Columns(
        offsets=offsets,
        key_at=value_at,
        key_size=[-1] * len(offsets),
        value_at=value_at,
        value_size=value_size,
        timestamps_ms=None,
        timestamp_types=None,
        data=data,
        # A reader cannot pass a damaged entry, nor the wrapper around one: the wrapper's earlier messages are repeated.
        resume_at=layout.resume_at if damage is None else max(start, damage.offset or start),
        damage=damage,
    )


_INDEXING = Indexing(layouts, _columns_of)
index, index_by, pieces, pieces_by = _INDEXING.index, _INDEXING.index_by, _INDEXING.pieces, _INDEXING.pieces_by
index_within = _INDEXING.index_within


@dataclass(frozen=True, slots=True)
class _Found:
    columns: Sequence[Column]  # offsets, value_at, value_size
    damaged: tuple[int, int] | None  # segment and byte of the first damage


# ---- in pure Python --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Lists:
    offsets: list[int] = field(default_factory=list)
    value_at: list[int] = field(default_factory=list)
    value_size: list[int] = field(default_factory=list)


def _in_python(layout: Layout, data: bytes, check_crcs: bool) -> _Found:
    quick = _all_alike(layout, data, check_crcs)
    if quick is not None:
        return quick
    lists = _Lists()
    columns = (lists.offsets, lists.value_at, lists.value_size)
    for number, segment in enumerate(layout.segments):
        stopped = _segment(lists, data, segment, check_crcs)
        if stopped >= 0:
            return _Found(columns, (number, stopped))
    return _Found(columns, None)


def _all_alike(layout: Layout, data: bytes, check: bool) -> _Found | None:
    """Return the result of _in_python for a layout of plain entries of one shape; None if it is different."""
    if len(layout.segments) != 1 or layout.segments[0].pinned is not None:
        return None
    segment = layout.segments[0]
    same = find(data, segment.begin, segment.end, segment.magic)
    if same is None or same.end != segment.end or (check and not are_right(data, same)):
        return None
    at, end, step = same.begin + segment.shift, same.end + segment.shift, same.step
    values = range(same.begin + same.overhead, same.end + same.overhead, step)
    return _Found((range(at, end, step), values, [same.value_size] * same.count), None)


def _segment(lists: _Lists, data: bytes, segment: Segment, check: bool) -> int:
    """Add a segment; return the position of damage, or -1."""
    at = segment.begin
    while at < segment.end:
        same = find(data, at, segment.end, segment.magic)
        if same is not None and (not check or are_right(data, same)):
            _add_alike(lists, same, segment)
            at = same.end
            continue
        until = min(segment.end, at + AGAIN) if same is None else same.end
        at, right = _one_by_one(lists, data, segment, at, until, check)
        if not right:
            return at
    return -1


def _add_alike(lists: _Lists, same: Alike, segment: Segment) -> None:
    begin, end, step, pinned = same.begin, same.end, same.step, segment.pinned
    shift, overhead = segment.shift, same.overhead
    lists.offsets += range(begin + shift, end + shift, step) if pinned is None else [pinned] * same.count
    lists.value_at += range(begin + overhead, end + overhead, step)
    lists.value_size += [same.value_size] * same.count


def _one_by_one(lists: _Lists, data: bytes, segment: Segment, at: int, until: int, check: bool) -> tuple[int, bool]:
    """Add the entries of a segment that begin before `until`.  Return their end and True, or the position of the first
    damaged one and False."""
    unpack, crc32, overhead = HEADS[segment.magic].unpack_from, zlib.crc32, ENTRY_OVERHEAD[segment.magic]
    offsets, values, sizes = lists.offsets.append, lists.value_at.append, lists.value_size.append
    shift, pinned = segment.shift, segment.pinned
    while at < until:
        length, crc = unpack(data, at)
        after = at + LOG_OVERHEAD + length
        value_at = at + overhead
        if check and crc32(data[value_at:after]) != crc:
            return at, False
        offsets(at + shift if pinned is None else pinned)
        values(value_at)
        sizes(after - value_at)
        at = after
    return at, True


# ---- compiled --------------------------------------------------------------------------------------------------


def _compiled(kernels: Kernels, layout: Layout, data: Bytes, check_crcs: bool) -> _Found | None:
    """Return the columns from compiled kernels; None for offsets beyond int64, which only damage causes: pure Python
    handles them."""
    if layout.resume_at > _FARTHEST:
        return None
    found = kernels.index07(
        data, [_row(segment) for segment in layout.segments], sum(s.entries for s in layout.segments), check_crcs
    )
    return None if found is None else _Found(found.columns, found.damaged)


def _row(segment: Segment) -> tuple[int, ...]:
    """Return a segment as a row for the kernels."""
    pinned = segment.pinned
    return segment.begin, segment.end, segment.magic, segment.shift, pinned is not None, pinned or 0


# ---- damage ----------------------------------------------------------------------------------------------------


def _damage(data: Bytes, segment: Segment, at: int) -> CorruptMessage:
    """Return what is wrong with the entry at `at`, in the words of messages(): only its checksum can be wrong."""
    length, crc = HEADS[segment.magic].unpack_from(data, at)
    value = data[at + ENTRY_OVERHEAD[segment.magic] : at + LOG_OVERHEAD + length]
    position = at - segment.behind
    if segment.wrapper_at is None or segment.pinned is None:
        return bad_crc(value, crc, position, at + segment.shift)
    return within(bad_crc(value, crc, position, None), segment.wrapper_at, segment.pinned)
