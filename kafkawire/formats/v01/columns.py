"""Columns of a set of formats v0 and v1, without one object per message. messages.py describes the bytes of an entry.

First comes a layout: plain entries and the decompressed content of wrappers, side by side.  A layout decompresses
everything and checks only wrappers.  It ends before the first wrapper that cannot be decompressed.  A set may be laid
out in pieces of whole entries: the result is then still in the processor's cache when it is used, and its memory is
free for the next piece.

Then one pass over the segments of a layout.  It only finds where damage is; read.py reads there again to describe it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import add, itemgetter
from typing import TYPE_CHECKING

from kafkawire.columns import Alike, Column, Columns, Entries, Later, column, in_order, sorted_out
from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.formats import layouts as common
from kafkawire.formats.layouts import Indexing, OpenBudget
from kafkawire.formats.v01.read import Wrapper, opened, shift_of, wrapper
from kafkawire.formats.v01.scan import (
    AGAIN,
    ENTRY_OVERHEAD,
    HEAD,
    LEAST,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    LOWEST,
    MANY_ALIKE,
    Scan,
    hop_alike,
)
from kafkawire.formats.v01.uniform import all_alike, are_right, find, offsets, timestamps
from kafkawire.kernels import ready
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
    pinned: int | None  # offset that all of them get: see messages._at_one_offset
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
            layout.resume_at = max(layout.resume_at, min(run.resume_at, before_end))
            if 2 * layout.size >= most_bytes and number < len(message_set.runs):  # half a piece costs less than a copy
                yield layout
                layout = Layout(layout.resume_at, OpenBudget(budget.limit))
            continue
        for piece in _cut(message_set.buffer, run, most_bytes):
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


def _cut(buffer: memoryview, run: Run, most_bytes: int) -> Iterator[Run]:
    """Yield a plain run as runs of at most most_bytes, or of a single entry."""
    at = run.begin
    while run.end - at > most_bytes:
        end, entries, last = _hop(buffer[at : at + most_bytes], run.magic)
        if not entries:
            last, size, _ = HEAD.unpack_from(buffer, at)
            end, entries = LOG_OVERHEAD + size, 1
        yield Run(at, at + end, 0, run.magic, entries, last + 1)
        at += end
        run = Run(at, run.end, 0, run.magic, run.entries - entries, run.resume_at)
    if at < run.end:
        yield run


def _hop(view: memoryview, magic: int) -> tuple[int, int, int]:
    """Return where the complete entries of a view end, their number, and the offset of the last."""
    quick = ready()
    hop, worth = (hop_alike, MANY_ALIKE) if quick is None else (quick.hop, 1)
    total, size_of = len(view), _INT32.unpack_from
    least_at = total - LOG_OVERHEAD - LEAST[magic]  # last position at which a complete entry can begin
    at, count, last, again = 0, 0, 0, 0
    while at <= least_at:
        entries = 0
        if at >= again:
            _, size, kind = HEAD.unpack_from(view, at)
            if at + LOG_OVERHEAD + size > total:
                break
            at, entries, reached = hop(view, at, kind, LEAST[magic])
            again = at + AGAIN if entries < worth else 0
            if entries:
                count, last = count + entries, reached
        if not entries:  # the next entries differ: read some one by one
            begin, until = at, min(again, least_at + 1)
            while at < until:
                after = at + LOG_OVERHEAD + size_of(view, at + _SIZE_AT)[0]
                if after > total:
                    least_at = -1
                    break
                begin, at, count = at, after, count + 1
            if at > begin:
                last = HEAD.unpack_from(view, begin)[0]
    return at, count, last


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
    """One top-level wrapper while it is laid out; messages._inside describes the rules."""

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


_V0 = struct.Struct(">qiI2xii")  # offset, size, crc, key length, value length if the key is null
_V1 = struct.Struct(">qiIxBqii")  # as _V0, with attributes and timestamp before the key length
_INT32 = struct.Struct(">i")
_SIZE_AT = 8  # position in an entry
_CRC_FROM = 16
_ATTRIBUTES = 17
_GLANCE_BYTES = 32 << 10  # bytes of entries that are read before all of them are separated
_PER_SHAPE = 16  # average number of entries per shape for which this pays
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
        entries=found.entries,
    )


_INDEXING = Indexing(layouts, _columns_of)
index, index_by, pieces, pieces_by = _INDEXING.index, _INDEXING.index_by, _INDEXING.pieces, _INDEXING.pieces_by
index_within = _INDEXING.index_within


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
    entries: Entries | None = None


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


def _in_python(layout: Layout, data: bytes, check_crcs: bool) -> _Found:
    quick = _by_shape(layout, data, check_crcs)
    if quick is not None:
        return quick
    lists = _Lists()
    columns = (lists.offsets, lists.key_at, lists.key_size, lists.value_at, lists.value_size, lists.stamps, lists.types)
    timed = layout.timed
    for number, segment in enumerate(layout.segments):
        known = len(lists.offsets)
        stopped = _segment(lists, data, segment, check_crcs)
        added = len(lists.offsets) - known
        if segment.pinned is not None:
            lists.offsets[known:] = [segment.pinned] * added
        if segment.magic == 0 and timed:
            lists.stamps += [-1] * added
            lists.types += [-1] * added
        if stopped >= 0:
            return _Found(columns, (number, stopped))
    return _Found(columns, None)


def _segment(lists: _Lists, data: bytes, segment: Segment, check: bool) -> int:
    """Add a segment; return the position of damage, or -1."""
    loop, at = _LOOPS[segment.magic], segment.begin
    while at < segment.end:
        same = find(data, at, segment.end, segment.magic)
        if same is not None and same.count >= MANY_ALIKE and _add_alike(lists, data, same, segment, check):
            at = same.end
            continue
        # Adjacent entries differ: read some one by one, then check again for equal shapes.
        until = at + AGAIN if same is None else max(same.end, at + AGAIN)
        at, right = loop(lists, data, replace(segment, begin=at, end=min(until, segment.end)), check)
        if not right:
            return at
    return -1


def _add_alike(lists: _Lists, data: bytes, same: Alike, segment: Segment, check: bool) -> bool:
    """Add entries of one shape.  Return False, adding nothing, if some are not wanted or damaged."""
    if check and not are_right(data, same):
        return False
    found = offsets(data, same)
    if min(found) + segment.shift < segment.start:
        return False
    begin, end, step, count = same.begin, same.end, same.step, same.count
    lists.offsets += [offset + segment.shift for offset in found] if segment.shift else found
    lists.key_at += range(begin + same.key_at, end + same.key_at, step)
    lists.key_size += [same.key_size] * count
    lists.value_at += range(begin + same.value_at, end + same.value_at, step)
    lists.value_size += [same.value_size] * count
    if segment.magic:
        stamp = segment.appended_ms
        lists.stamps += timestamps(data, same) if stamp is None else [stamp] * count
        lists.types += [(data[begin + _ATTRIBUTES] & LOG_APPEND_TIME) >> 3 if stamp is None else 1] * count
    return True


def _by_shape(layout: Layout, data: bytes, check: bool) -> _Found | None:
    """Return the result of _in_python for entries of a few shapes; None if there are more.

    Entries of one shape are put side by side, then a few calls read all of them.
    """
    magic, end = layout.magic, 0
    for segment in layout.segments:
        if segment.begin != end or segment.pinned is not None or segment.shift or segment.appended_ms is not None:
            return None
        end = segment.end
    if magic is None:
        return None
    same = find(data, 0, end, magic)
    cut = _one_shape(data, same, magic) if same is not None and same.end == end else _few_shapes(data, end, magic)
    if cut is None or (check and not all(are_right(*shape) for shape in cut.alike)):
        return None
    by_shape = [offsets(*shape) for shape in cut.alike]
    if min(map(min, by_shape)) < layout.segments[0].start:
        return None
    return _Found(_columns(by_shape, cut, magic), None, _without_attributes(cut))


def _one_shape(data: bytes, same: Alike, magic: int) -> Entries:
    entries = Later[bytes](same.count, lambda: column(f"{same.step}s", memoryview(data)[: same.end]))
    return Entries(entries, ENTRY_OVERHEAD[magic], [(data, same)])


def _few_shapes(data: bytes, end: int, magic: int) -> Entries | None:
    """Separate entries of a few shapes; None if there are too few entries or too many shapes."""
    entries: list[bytes] = []
    at, size_at, found = 0, _INT32.unpack_from, entries.append
    for until in (min(_GLANCE_BYTES, end), end):
        while at < until:
            after = at + LOG_OVERHEAD + size_at(data, at + _SIZE_AT)[0]
            found(data[at:after])
            at = after
        if len(entries) <= MANY_ALIKE or len(set(map(len, entries))) * _PER_SHAPE > len(entries):
            return None
    return _sorted_by(list(map(len, entries)), entries, magic) or _sorted_by(
        _sizes_and_keys(entries, magic), entries, magic
    )


def _sizes_and_keys(entries: list[bytes], magic: int) -> list[tuple[int, bytes]]:
    """Return the size of each entry and the four bytes of its key's length."""
    key_at = ENTRY_OVERHEAD[magic] - 4
    return list(zip(map(len, entries), map(itemgetter(slice(key_at - 4, key_at)), entries), strict=True))


def _sorted_by(marks: Sequence[Hashable], entries: list[bytes], magic: int) -> Entries | None:
    """Group entries by these marks; entries with the same mark have the same shape."""
    number = {mark: n for n, mark in enumerate(dict.fromkeys(marks))}
    if len(number) > min(256, len(entries) // _PER_SHAPE):
        return None
    kinds, shapes = bytes(map(number.__getitem__, marks)), []
    for members in sorted_out(entries, kinds, len(number)):
        side_by_side = b"".join(members)
        same = all_alike(side_by_side, len(members[0]), magic)
        if same is None:
            return None
        shapes.append((side_by_side, same))
    return Entries(entries, ENTRY_OVERHEAD[magic], shapes, kinds)


def _columns(by_shape: list[list[int]], cut: Entries, magic: int) -> list[Column]:
    """Return the columns of entries of a few shapes. by_shape: the offsets of each."""
    if cut.kinds is None:
        data, same = cut.alike[0]
        begin, end, step, count = same.begin, same.end, same.step, same.count
        found: list[Column] = [
            by_shape[0],
            range(begin + same.key_at, end + same.key_at, step),
            [same.key_size] * count,
            range(begin + same.value_at, end + same.value_at, step),
            [same.value_size] * count,
        ]
        return [*found, timestamps(data, same), [_type(data)] * count] if magic else found
    kinds, shapes = cut.kinds, [same for _, same in cut.alike]

    def of_shape(fields: list[int]) -> Later[int]:
        return Later(len(kinds), lambda: list(map(fields.__getitem__, kinds)))

    begins = Later(len(kinds), lambda: list(accumulate(map(len, cut.all), initial=0))[:-1])

    def places(fields: list[int]) -> Later[int]:
        return Later(len(kinds), lambda: list(map(add, begins, of_shape(fields))))

    found = [
        Later(len(kinds), lambda: in_order(by_shape, kinds)),
        places([same.key_at for same in shapes]),
        of_shape([same.key_size for same in shapes]),
        places([same.value_at for same in shapes]),
        of_shape([same.value_size for same in shapes]),
    ]
    if magic:
        found.append(Later(len(kinds), lambda: in_order([timestamps(*shape) for shape in cut.alike], kinds)))
        found.append(of_shape([_type(data) for data, _ in cut.alike]))
    return found


def _type(data: bytes) -> int:
    """Return the timestamp type of format v1 entries of one shape."""
    return (data[_ATTRIBUTES] & LOG_APPEND_TIME) >> 3


def _without_attributes(cut: Entries) -> Entries | None:
    return None if any(data[_ATTRIBUTES] for data, _ in cut.alike) else cut


def _loop_v0(lists: _Lists, data: bytes, segment: Segment, check: bool) -> tuple[int, bool]:
    """Add the entries that begin in a segment of format v0, without timestamps.  Return (their end, True), or the
    position of a damaged one and False."""
    unpack, unpack_int32, crc32 = _V0.unpack_from, _INT32.unpack_from, zlib.crc32
    offsets, key_at, key_sizes = lists.offsets.append, lists.key_at.append, lists.key_size.append
    values, value_sizes = lists.value_at.append, lists.value_size.append
    at, end, start, shift = segment.begin, segment.end, segment.start, segment.shift
    while at < end:
        offset, size, crc, key_size, value_size = unpack(data, at)
        after = at + LOG_OVERHEAD + size
        if offset + shift < start:
            at = after
            continue
        if check and crc32(data[at + _CRC_FROM : after]) != crc:
            return at, False
        value_at = at + 26
        if key_size != -1:
            value_at += key_size
            if key_size < 0 or value_at > after:
                return at, False
            (value_size,) = unpack_int32(data, value_at - 4)
        if value_at + value_size != after and (value_size != -1 or value_at != after):
            return at, False
        offsets(offset + shift)
        key_at(at + 22)
        key_sizes(key_size)
        values(value_at)
        value_sizes(value_size)
        at = after
    return at, True


def _loop_v1(lists: _Lists, data: bytes, segment: Segment, check: bool) -> tuple[int, bool]:
    """Add the entries that begin in a segment of format v1, with timestamps.  Return (their end, True), or the position
    of a damaged one and False."""
    unpack, unpack_int32, crc32 = _V1.unpack_from, _INT32.unpack_from, zlib.crc32
    offsets, key_at, key_sizes = lists.offsets.append, lists.key_at.append, lists.key_size.append
    values, value_sizes, stamps = lists.value_at.append, lists.value_size.append, lists.stamps.append
    types = lists.types.append
    at, end, start, shift = segment.begin, segment.end, segment.start, segment.shift
    appended_ms = segment.appended_ms
    while at < end:
        offset, size, crc, attributes, stamp, key_size, value_size = unpack(data, at)
        after = at + LOG_OVERHEAD + size
        if offset + shift < start:
            at = after
            continue
        if check and crc32(data[at + _CRC_FROM : after]) != crc:
            return at, False
        value_at = at + 34
        if key_size != -1:
            value_at += key_size
            if key_size < 0 or value_at > after:
                return at, False
            (value_size,) = unpack_int32(data, value_at - 4)
        if value_at + value_size != after and (value_size != -1 or value_at != after):
            return at, False
        offsets(offset + shift)
        key_at(at + 30)
        key_sizes(key_size)
        values(value_at)
        value_sizes(value_size)
        stamps(stamp if appended_ms is None else appended_ms)
        types((attributes & LOG_APPEND_TIME) >> 3 if appended_ms is None else 1)
        at = after
    return at, True


_Loop = Callable[[_Lists, bytes, Segment, bool], tuple[int, bool]]
_LOOPS: tuple[_Loop, _Loop] = (_loop_v0, _loop_v1)


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
    computed = zlib.crc32(data[at + _CRC_FROM : after])
    if check_crcs and computed != crc:
        return CorruptMessage(f"crc mismatch, stored {crc:08x}, computed {computed:08x}", position, offset)
    value_at = at + ENTRY_OVERHEAD[segment.magic]
    if key_size != -1:
        value_at += key_size
        if key_size < 0 or value_at > after:
            return CorruptMessage(f"a key of {key_size} bytes does not fit", position, offset)
        (value_size,) = _INT32.unpack_from(data, value_at - 4)
    return CorruptMessage(f"a value of {value_size} bytes, with {after - value_at} left", position, offset)
