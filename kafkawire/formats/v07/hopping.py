"""Entries of 0.7 hopped over by their lengths: cut into pieces, counted, looked at one by one.  Opens, checks nothing.

    entry = length:int32  magic:int8  [attributes:int8 in magic 1]  ...
            length counts all that follows it

Positions are bytes: an entry that ends n bytes before a run's end ends n before the run's resume_at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kafkawire.errors import CorruptMessage
from kafkawire.formats.v07.layout import CODEC, HEAD, LENGTH, LOG_OVERHEAD, nonsense
from kafkawire.formats.v07.scan import AGAIN, hop
from kafkawire.model import Entry, Run, Scan
from kafkawire.primitives import Bytes


def count(entries: Bytes) -> int:
    """How many there are in complete plain ones."""
    found = at = 0
    while at < len(entries):
        at += LOG_OVERHEAD + LENGTH.unpack_from(entries, at)[0]
        found += 1
    return found


def cut(buffer: Bytes, run: Run, limit: int) -> Iterator[Run]:
    """A run as runs of at most limit bytes, in order; an entry that is larger by itself goes alone."""
    first, view = run.resume_at - run.end, memoryview(buffer)
    while not run.codec and run.end - run.begin > limit:
        at = again = run.begin
        entries, until = 0, run.begin + limit
        within = view[: min(run.end, until)]
        while True:
            if at >= again:
                at, more = hop(within, at, run.magic, until)
                entries, again = entries + more, at if more else at + AGAIN
            after = at + LOG_OVERHEAD + LENGTH.unpack_from(view, at)[0]
            if entries and after > until:
                break
            at, entries = after, entries + 1
            if at >= until:
                break
        yield Run(run.begin, at, 0, run.magic, entries, first + at)
        if at >= run.end:
            return
        run = replace(run, begin=at, entries=run.entries - entries)
    yield run


def before(buffer: Bytes, run: Run, until: int) -> Run | None:
    """The plain entries of a run that begin before position `until`, as a run; None: there are none."""
    at, entries, last = run.begin, 0, run.end - (run.resume_at - until)
    while at < min(last, run.end):
        at, entries = at + LOG_OVERHEAD + LENGTH.unpack_from(buffer, at)[0], entries + 1
    return replace(run, end=at, entries=entries, resume_at=run.resume_at - (run.end - at)) if entries else None


def stamped(buffer: Bytes, run: Run) -> bool:
    """No message of 0.7 has a time."""
    return False


def entry_at(buffer: Bytes, begin: int, position: int) -> Entry | None:
    """The entry that begins at byte `begin`, which is at `position` of the log; None: nobody can tell where it ends,
    for its length leads to no other."""
    if len(buffer) - begin < HEAD.size:
        return None
    length, magic, attributes = HEAD.unpack_from(buffer, begin)
    end = begin + LOG_OVERHEAD + length
    if nonsense(begin, length, magic, 0) or end > len(buffer):
        return None
    if len(buffer) - end >= HEAD.size:
        following, its_magic, _ = HEAD.unpack_from(buffer, end)
        if nonsense(end, following, its_magic, 0):
            return None
    return Entry(position, position + end - begin, bool(magic and attributes & CODEC))


def cut_short(buffer: Bytes, scan: Scan, position: int, asked: int) -> CorruptMessage | None:
    """A first entry that says it is larger than all that the broker has, though more was asked for.

    A broker gives what is asked for, or all up to the end of a segment, and no entry goes on in the next one.
    """
    left = len(buffer) - scan.end
    if scan.runs or scan.damage or left < LOG_OVERHEAD or len(buffer) >= asked:
        return None
    (length,) = LENGTH.unpack_from(buffer, scan.end)
    text = f"it says {LOG_OVERHEAD + length} bytes, and the log ends after {left}"
    return CorruptMessage(text, scan.end, position)
