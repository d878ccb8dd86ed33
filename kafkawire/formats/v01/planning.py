"""What columns are read from: wrappers opened, and stretches of plain entries in the bytes they were laid into.

A plan opens everything and checks nothing but wrappers; it ends before the first of them that cannot be opened.  A set
may be planned a piece at a time, in whole entries, so that what is made of a piece is still in the processor's cache
when it is used, and its memory is free for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.formats import layouts as planning
from kafkawire.formats.v01.scan import HEAD, LEAST, LOG_OVERHEAD, LOWEST, Scan, hop_alike
from kafkawire.formats.v01.wrappers import Wrapper, opened, wrapper
from kafkawire.kernels import ready
from kafkawire.model import MessageSet, Run
from kafkawire.primitives import Bytes


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
class Plan(planning.Plan[Segment]):
    """A plan of sets of formats v0 and v1."""

    pinned: int | None = None  # of the nested wrapper we are in, and were in when damage was met

    @property
    def timed(self) -> bool:
        """Whether any of its messages may have a timestamp."""
        return any(segment.magic for segment in self.segments)


def plans(message_set: MessageSet, check_crcs: bool, limit: int, most_bytes: int) -> Iterator[Plan]:
    """A set in pieces of about most_bytes, at least one; made when asked for.  After damage comes nothing.

    limit bounds the bytes one top-level wrapper opens to.  Raises nothing.

    No checksum covers an offset: a piece with a senseless one ends before the set does all the same.
    """
    plan, before_end = Plan(message_set.start), message_set.resume_at - 1
    for number, run in enumerate(message_set.runs, 1):
        if run.codec:
            plan.damage = _outermost(plan, message_set, run, check_crcs, limit)
            if plan.damage is not None:
                yield plan
                return
            plan.resume_at = max(plan.resume_at, min(run.resume_at, before_end))
            if 2 * plan.size >= most_bytes and number < len(message_set.runs):  # rather half of it than a copy more
                yield plan
                plan = Plan(plan.resume_at)
            continue
        for piece in _cut(message_set.buffer, run, most_bytes):
            if plan.size and plan.size + piece.end - piece.begin > most_bytes:
                yield plan
                plan = Plan(plan.resume_at)
            begin = plan.lay(message_set.buffer[piece.begin : piece.end])
            plan.segments.append(_plain(piece, begin, message_set.start))
            plan.resume_at = max(plan.resume_at, min(piece.resume_at, before_end))
    plan.resume_at = message_set.resume_at
    yield plan


def _plain(run: Run, at: int, start: int) -> Segment:
    """The segment of a plain run laid at `at`."""
    end = at + run.end - run.begin
    return Segment(at, end, run.magic, run.entries, start, 0, None, None, at - run.begin, None)


def _cut(buffer: memoryview, run: Run, most_bytes: int) -> Iterator[Run]:
    """A plain run as runs of at most most_bytes, or of a single entry."""
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
    """Where the complete entries of a view end, how many they are, the last one's offset."""
    quick = ready()
    hop = hop_alike if quick is None else quick.hop
    total, at, count, last = len(view), 0, 0, 0
    while at + LOG_OVERHEAD + LEAST[magic] <= total:
        offset, size, kind = HEAD.unpack_from(view, at)
        if at + LOG_OVERHEAD + size > total:
            break
        at, entries, reached = hop(view, at, kind, LEAST[magic])
        if not entries:
            at, entries, reached = at + LOG_OVERHEAD + size, 1, offset
        count, last = count + entries, reached
    return at, count, last


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

    def _lay(self, outer: Wrapper, data: Bytes, found: Scan, shift: int, depth: int) -> None:
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
