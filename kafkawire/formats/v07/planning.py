"""What columns are read from: wrappers opened, and stretches of plain entries in the bytes they were laid into.

A plan opens everything and checks nothing but wrappers; it ends where the first of them cannot be read on.  A set
may be planned a piece at a time, in whole top-level entries: what a piece may be committed at is always their border.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.formats import layouts as planning
from kafkawire.formats.v07.hopping import cut
from kafkawire.formats.v07.layout import LENGTH, LOG_OVERHEAD
from kafkawire.formats.v07.read import within
from kafkawire.formats.v07.wrappers import Wrapper, opened, wrapper
from kafkawire.model import MessageSet, Run


@dataclass(frozen=True, slots=True)
class Segment:
    """Plain entries of one format side by side in the joined pieces of a plan."""

    begin: int
    end: int
    magic: int
    entries: int
    shift: int  # what to add to a byte of the joined pieces to get its position in the log
    pinned: int | None  # the position all of them have: that of the top-level wrapper around them
    behind: int  # what to take off a byte to get that of the bytes the entries came in
    wrapper_at: int | None  # where that wrapper stands in the set


class Plan(planning.Plan[Segment]):
    """A plan of sets of 0.7."""

    __slots__ = ()


def plans(message_set: MessageSet, check_crcs: bool, limit: int, most_bytes: int) -> Iterator[Plan]:
    """A set in pieces of about most_bytes, at least one; made when asked for.  After damage comes nothing.

    limit bounds the bytes one top-level wrapper opens to.  Raises nothing.
    """
    plan = Plan(message_set.start)
    for number, run in enumerate(message_set.runs, 1):
        if run.resume_at <= message_set.start:
            continue
        if run.codec:
            plan.damage = _outermost(plan, message_set, run, check_crcs, limit)
            if plan.damage is not None:
                yield plan
                return
            plan.resume_at = run.resume_at
            if 2 * plan.size >= most_bytes and number < len(message_set.runs):  # rather half of it than a copy more
                yield plan
                plan = Plan(plan.resume_at)
            continue
        for piece in cut(message_set.buffer, _wanted(message_set, run), most_bytes):
            if plan.size and plan.size + piece.end - piece.begin > most_bytes:
                yield plan
                plan = Plan(plan.resume_at)
            begin = plan.lay(message_set.buffer[piece.begin : piece.end])
            plan.segments.append(_plain(piece, begin))
            plan.resume_at = piece.resume_at
    plan.resume_at = message_set.resume_at
    yield plan


def _wanted(message_set: MessageSet, run: Run) -> Run:
    """A plain run without the entries that end at the set's start or before it."""
    behind = message_set.start - (run.resume_at - run.end)  # the byte of the set that has the position start
    at, entries = run.begin, run.entries
    while at < behind:
        after = at + LOG_OVERHEAD + LENGTH.unpack_from(message_set.buffer, at)[0]
        if after > behind:
            break
        at, entries = after, entries - 1
    return replace(run, begin=at, entries=entries) if at > run.begin else run


def _plain(run: Run, begin: int) -> Segment:
    """The segment of a plain run laid at begin."""
    end = begin + run.end - run.begin
    return Segment(begin, end, run.magic, run.entries, run.resume_at - end, None, begin - run.begin, None)


def _outermost(plan: Plan, message_set: MessageSet, run: Run, check_crcs: bool, limit: int) -> CorruptMessage | None:
    at = run.resume_at - run.end + run.begin
    try:
        outer = wrapper(message_set.buffer, run.begin, run.end, check_crcs, at)
    except CorruptMessage as exc:
        return exc
    try:
        _Opening(plan, check_crcs, run.begin, at, [limit]).inside(outer, 1)
    except RemoteError as exc:
        return within(exc, run.begin, at)
    return None


@dataclass(slots=True)
class _Opening:
    """One top-level wrapper on its way into a plan."""

    plan: Plan
    check_crcs: bool
    wrapper_at: int
    position: int
    left: list[int]  # bytes all depths may still open

    def inside(self, outer: Wrapper, depth: int) -> None:
        """What a wrapper holds."""
        data, found = opened(outer, depth, self.left)
        base = self.plan.lay(data)
        for run in found.runs:
            if run.codec:
                self.inside(wrapper(data, run.begin, run.end, self.check_crcs), depth + 1)
            else:
                begin, end = base + run.begin, base + run.end
                self.plan.segments.append(
                    Segment(begin, end, run.magic, run.entries, 0, self.position, base, self.wrapper_at)
                )
        if found.damage is not None:
            raise found.damage
