"""Damaged entries of a log that a reader skips and counts, if ReadOptions.skip_damaged is set.

An entry whose size is right is skipped alone: the entries after it in the same bytes are read.  After an entry whose
size is wrong too, the next readable offset is searched: at +1, +2, +4 .. and back by halves, because a broker finds
offsets by a sparse index.  Only offsets of 0.8 and later are skipped, never bytes of 0.7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kafkawire.dialects import Dialect
from kafkawire.errors import CorruptMessage
from kafkawire.model import RECORD_BATCH, MessageSet, Run
from sparkpipeline.ranges import OffsetRange

Readable = Callable[[int], int | None]  # returns the first readable offset at or after one; None: nothing is readable


@dataclass(frozen=True, slots=True)
class DamagedEntry:
    """Offsets start <= offset < until of a range that cannot be read.  raw: the bytes of the log, if known."""

    range: OffsetRange
    start: int
    until: int
    why: str
    raw: bytes = b""


@dataclass(slots=True)
class DamageLog:
    """Skipped entries of one reader.  counts: offsets by range; entries: None if only the counts are wanted."""

    counts: dict[OffsetRange, int] = field(default_factory=dict)
    entries: list[DamagedEntry] | None = None

    def add(self, entry: DamagedEntry) -> None:
        """Record an entry that was skipped, within its range."""
        until = min(entry.until, entry.range.until)
        self.counts[entry.range] = self.counts.get(entry.range, 0) + max(0, until - entry.start)
        if self.entries is not None:
            self.entries.append(replace(entry, until=until))


def behind_damage(spoken: Dialect, message_set: MessageSet, damage: CorruptMessage) -> tuple[MessageSet, bytes] | None:
    """Return the rest of a set after damaged content, and the bytes of the damaged entry; None if the damage is not in
    an entry of the set."""
    run = next((run for run in message_set.runs if run.begin <= damage.position < run.end), None)
    if run is None:
        return None
    rest: list[Run] = [other for other in message_set.runs if other.begin >= run.end]
    if run.codec or run.magic >= RECORD_BATCH:
        end, resume_at = run.end, run.resume_at
    else:
        entry = spoken.messages.entry_at(message_set.buffer[: run.end], damage.position, message_set.start)
        if entry is None:
            return None
        end, resume_at = damage.position + entry.nbytes, entry.resume_at
        if end < run.end:
            count = spoken.messages.count(message_set.buffer[end : run.end])
            rest.insert(0, replace(run, begin=end, entries=count))
    raw = bytes(message_set.buffer[damage.position : end])
    return replace(message_set, start=max(resume_at, message_set.start), runs=tuple(rest)), raw


def first_readable(position: int, until: int, readable: Readable) -> int:
    """Return the first readable offset after a damaged one; until if none is found."""
    bad, good, found = position, None, until
    step = 1
    while good is None and bad < until - 1:
        probe = min(position + step, until - 1)
        at = readable(probe)
        if at is None:
            bad, step = probe, 2 * step
        else:
            good, found = probe, at
    while good is not None and good - bad > 1:
        probe = (bad + good) // 2
        at = readable(probe)
        if at is None:
            bad = probe
        else:
            good, found = probe, at
    return min(found, until)
