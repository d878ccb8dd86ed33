"""What columns are read from: wrappers opened, and stretches of plain entries in the bytes they were laid into.

A plan opens everything and checks nothing but wrappers; it ends before the first of them that cannot be opened.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.model import MessageSet, Run
from kafkawire.v08.scanning import LOWEST, Scan
from kafkawire.v08.wrappers import Wrapper, opened, wrapper


@dataclass(frozen=True, slots=True)
class Segment:
    """Plain entries of one format side by side in the joined pieces of a plan."""

    begin: int
    end: int
    magic: int
    entries: int  # some of them may be before start
    start: int  # offsets before it are not wanted, and not checked
    shift: int  # what to add to offsets
    appended_ms: int | None  # the time of a wrapper that was stamped by its broker, for all in it
    pinned: int | None  # the offset all of them get: see messages._at_one_offset
    behind: int  # what to take off a position to get that of the bytes the entries came in
    wrapper_at: int | None  # where the top-level wrapper around them stands in the set


@dataclass(slots=True)
class Plan:
    """Segments in the order of their messages, up to the first wrapper that cannot be opened."""

    pieces: list[bytes] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    damage: CorruptMessage | None = None
    pinned: int | None = None  # of the nested wrapper we are in, and were in when damage was met
    _size: int = 0

    @property
    def timed(self) -> bool:
        """Whether any of its messages may have a timestamp."""
        return any(segment.magic for segment in self.segments)

    def lay(self, data: bytes) -> int:
        """Append bytes; where they begin."""
        begin = self._size
        self.pieces.append(data)
        self._size += len(data)
        return begin


def planned(message_set: MessageSet, check_crcs: bool, limit: int) -> Plan:
    """The plan of a set.  limit bounds the bytes one top-level wrapper opens to.  Raises nothing."""
    plan = Plan()
    for run in message_set.runs:
        if run.codec:
            plan.damage = _outermost(plan, message_set, run, check_crcs, limit)
            if plan.damage is not None:
                break
        else:
            data = bytes(message_set.buffer[run.begin : run.end])
            at = plan.lay(data)
            behind = at - run.begin
            plan.segments.append(
                Segment(at, at + len(data), run.magic, run.entries, message_set.start, 0, None, None, behind, None)
            )
    return plan


def _outermost(plan: Plan, message_set: MessageSet, run: Run, check_crcs: bool, limit: int) -> CorruptMessage | None:
    try:
        outer = wrapper(message_set.buffer, run.begin, run.end, check_crcs)
    except CorruptMessage as exc:
        return exc
    try:
        _Opening(plan, check_crcs, run.begin, message_set.start, [limit]).inside(outer, outer.offset, 1)
    except CorruptMessage as exc:
        return within(exc, run.begin)
    except RemoteError as exc:
        return CorruptMessage(str(exc), run.begin, outer.offset)
    return None


def within(damage: CorruptMessage, wrapper_at: int) -> CorruptMessage:
    """Damage in a wrapper is reported at the wrapper's own position."""
    return type(damage)(f"inside the wrapper, {damage}", wrapper_at, damage.offset)


@dataclass(slots=True)
class _Opening:
    """One top-level wrapper on its way into a plan; the rules are those of messages._inside."""

    plan: Plan
    check_crcs: bool
    at: int  # of the top-level wrapper
    start: int
    left: list[int]  # bytes all depths may still open

    def inside(self, outer: Wrapper, offset: int, depth: int) -> None:
        """What a wrapper holds.  offset: its absolute one."""
        data, found = opened(outer, depth, self.left)
        if not found.runs:
            return
        last = found.resume_at - 1
        shift = offset - last if outer.magic else 0
        if depth == 1 or last + shift == offset:
            self._lay(outer, data, found, shift, depth)
        elif self.plan.pinned is not None:
            self._lay(outer, data, found, 0, depth)
        elif offset >= self.start:
            start = self.start
            self.start, self.plan.pinned = LOWEST, offset
            self._lay(outer, data, found, 0, depth)
            self.start, self.plan.pinned = start, None

    def _lay(self, outer: Wrapper, data: bytes, found: Scan, shift: int, depth: int) -> None:
        plan, base = self.plan, self.plan.lay(data)
        for run in found.runs:
            if run.codec:
                nested = wrapper(data, run.begin, run.end, self.check_crcs)
                self.inside(nested, nested.offset + shift, depth + 1)
            else:
                plan.segments.append(
                    Segment(
                        begin=base + run.begin,
                        end=base + run.end,
                        magic=run.magic,
                        entries=run.entries,
                        start=self.start,
                        shift=shift,
                        appended_ms=outer.appended_ms,
                        pinned=plan.pinned,
                        behind=base,
                        wrapper_at=self.at,
                    )
                )
