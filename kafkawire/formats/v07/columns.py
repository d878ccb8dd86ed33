"""The columns of a set of 0.7, without an object a message.  The layout is that of messages.py.

One pass over the segments of a plan (planning.py).  It only says where damage is: what it is is read there once more.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkawire.columns import Column, Columns
from kafkawire.errors import CorruptMessage
from kafkawire.formats.layouts import Indexing
from kafkawire.formats.v07.layout import ENTRY_OVERHEAD, HEADS, LOG_OVERHEAD
from kafkawire.formats.v07.planning import Plan, Segment, plans
from kafkawire.formats.v07.read import bad_crc, within
from kafkawire.formats.v07.scan import AGAIN
from kafkawire.formats.v07.uniform import Alike, are_right, find
from kafkawire.primitives import Bytes

if TYPE_CHECKING:
    from kafkawire.formats.compiled import Kernels

_FARTHEST = (1 << 63) - 1


def _columns_of(kernels: Kernels | None, plan: Plan, start: int, check_crcs: bool) -> Columns:
    """start: what was reached by the pieces before."""
    data = plan.data()
    found = _compiled(kernels, plan, data, check_crcs) if kernels is not None else None
    if found is None:
        data = bytes(data)  # slices of bytes cost half of those of a view
        found = _in_python(plan, data, check_crcs)
    offsets, value_at, value_size = found.columns
    damage = plan.damage
    if found.damaged is not None:
        segment, at = found.damaged
        damage = _damage(data, plan.segments[segment], at)
    return Columns(
        offsets=offsets,
        key_at=value_at,
        key_size=[-1] * len(offsets),
        value_at=value_at,
        value_size=value_size,
        timestamps_ms=None,
        timestamp_types=None,
        data=data,
        # A damaged entry cannot be passed, nor can the wrapper that holds one: what it held before is done again.
        resume_at=plan.resume_at if damage is None else max(start, damage.offset or start),
        damage=damage,
    )


_INDEXING = Indexing(plans, _columns_of)
index, index_by, pieces, pieces_by = _INDEXING.index, _INDEXING.index_by, _INDEXING.pieces, _INDEXING.pieces_by


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


def _in_python(plan: Plan, data: bytes, check_crcs: bool) -> _Found:
    quick = _all_alike(plan, data, check_crcs)
    if quick is not None:
        return quick
    lists = _Lists()
    columns = (lists.offsets, lists.value_at, lists.value_size)
    for number, segment in enumerate(plan.segments):
        stopped = _segment(lists, data, segment, check_crcs)
        if stopped >= 0:
            return _Found(columns, (number, stopped))
    return _Found(columns, None)


def _all_alike(plan: Plan, data: bytes, check: bool) -> _Found | None:
    """What _in_python finds where all there is are plain entries that are alike; None: it is not like that."""
    if len(plan.segments) != 1 or plan.segments[0].pinned is not None:
        return None
    segment = plan.segments[0]
    same = find(data, segment.begin, segment.end, segment.magic)
    if same is None or same.end != segment.end or (check and not are_right(data, same)):
        return None
    at, end, step = same.begin + segment.shift, same.end + segment.shift, same.step
    values = range(same.begin + same.overhead, same.end + same.overhead, step)
    return _Found((range(at, end, step), values, [same.value_size] * same.count), None)


def _segment(lists: _Lists, data: bytes, segment: Segment, check: bool) -> int:
    """Add a segment; where it is damaged, or -1."""
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
    """Add the entries of a segment that begin before `until`; where they end and True, or the first that is damaged and
    False."""
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


def _compiled(kernels: Kernels, plan: Plan, data: Bytes, check_crcs: bool) -> _Found | None:
    """None for positions beyond int64, which only damage makes: the pure form knows larger numbers."""
    if plan.resume_at > _FARTHEST:
        return None
    found = kernels.index07(
        data, [_row(segment) for segment in plan.segments], sum(s.entries for s in plan.segments), check_crcs
    )
    return None if found is None else _Found(found.columns, found.damaged)


def _row(segment: Segment) -> tuple[int, ...]:
    """A segment as kernels.py has it."""
    pinned = segment.pinned
    return segment.begin, segment.end, segment.magic, segment.shift, pinned is not None, pinned or 0


# ---- damage ----------------------------------------------------------------------------------------------------


def _damage(data: Bytes, segment: Segment, at: int) -> CorruptMessage:
    """What is wrong with the entry at `at`, in the words of messages(): only a checksum can be."""
    length, crc = HEADS[segment.magic].unpack_from(data, at)
    value = data[at + ENTRY_OVERHEAD[segment.magic] : at + LOG_OVERHEAD + length]
    position = at - segment.behind
    if segment.wrapper_at is None or segment.pinned is None:
        return bad_crc(value, crc, position, at + segment.shift)
    return within(bad_crc(value, crc, position, None), segment.wrapper_at, segment.pinned)
