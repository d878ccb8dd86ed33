"""Scanner of 0.7 entries by their lengths: finds complete ones, cuts runs and counts entries, without decompressing
any.

    entry = length:int32  magic:int8  [attributes:int8 in magic 1]  ...
            length counts all that follows it

An entry does not contain its offset: it is the set's offset plus the bytes before the entry.  So an entry that ends n
bytes before a run's end ends n before the run's resume_at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

from kafkawire.errors import CorruptMessage
from kafkawire.formats.v07.layout import (
    CODEC,
    ENTRY_OVERHEAD,
    HEAD,
    LEAST,
    LENGTH,
    LOG_OVERHEAD,
    MAGIC_0,
    MAGIC_1,
    nonsense,
)
from kafkawire.formats.v07.uniform import hop as hop_alike
from kafkawire.kernels import ready
from kafkawire.model import Entry, Run
from kafkawire.model import Scan as Scan
from kafkawire.primitives import Bytes

_START = struct.Struct(">iH")  # length, magic and attributes in one
_SMALLEST = ENTRY_OVERHEAD[MAGIC_0]
_LEAST = LEAST[MAGIC_1]
_WORTH = 4096  # bytes; for fewer, calling the faster loops costs more than it saves
AGAIN = 8 * _WORTH  # bytes until the next try if it saved nothing


def scan(buffer: Bytes, start: int) -> Scan:
    """Find the complete entries of a set whose first byte has offset start, without decompressing or checking any of
    them.

    A truncated last entry is not damage, but one with invalid first bytes is: a fetch from an offset inside an entry
    returns such bytes, and must not lead to a fetch of two gigabytes.
    """
    unpack, total, overhead = _START.unpack_from, len(buffer), LOG_OVERHEAD
    at = begin = entries = plain = again = 0
    usual = -1  # magic and attributes of the previous entry, if the next one may be skipped by them
    runs: list[Run] = []
    damage = None
    while at + _SMALLEST <= total:
        length, kind = unpack(buffer, at)
        end = at + overhead + length
        if kind == usual and length >= _LEAST and end <= total and at < again:
            entries += 1
            at = end
            continue
        damage = nonsense(at, length, kind >> 8, start)
        if damage is not None or end > total:
            break
        codec, form = (kind & CODEC, MAGIC_1) if kind >> 8 else (0, MAGIC_0)
        if entries and (codec or form != plain):
            runs.append(Run(begin, at, 0, plain, entries, start + at))
            begin, entries = at, 0
        if codec:
            runs.append(Run(at, end, codec, form, 1, start + end))
            begin, usual = end, -1
        else:
            plain, entries, usual = form, entries + 1, kind if form == MAGIC_1 else -1
        at = end
        if entries and at >= again:
            at, more = hop(buffer, at, plain, total) if total - at > _WORTH else (at, 0)
            entries, again = entries + more, at if more else at + AGAIN
    else:
        damage = _short_tail(buffer, at, start)
    if entries:
        runs.append(Run(begin, at, 0, plain, entries, start + at))
    needed = 0 if runs or damage else _needed(buffer)
    return Scan(at, start + at, tuple(runs), needed, damage)


def hop(buffer: Bytes, at: int, magic: int, limit: int) -> tuple[int, int]:
    """Skip complete plain entries of one format begun before `limit`, by the faster loop available; it may skip none.
    Return (their end, their number)."""
    quick = ready()
    return hop_alike(buffer, at, magic, limit) if quick is None else quick.hop07(buffer, at, magic, limit)


def _short_tail(buffer: Bytes, at: int, start: int) -> CorruptMessage | None:
    """Return what is wrong with a tail that is too short for the smallest entry."""
    left = len(buffer) - at
    if left < LOG_OVERHEAD:
        return None
    (length,) = LENGTH.unpack_from(buffer, at)
    return nonsense(at, length, buffer[at + LOG_OVERHEAD] if left > LOG_OVERHEAD else 0, start)


def _needed(buffer: Bytes) -> int:
    """Return the bytes of the first entry; enough for its length field if that is incomplete."""
    if len(buffer) < LOG_OVERHEAD:
        return _SMALLEST if len(buffer) else 0
    return LOG_OVERHEAD + int(LENGTH.unpack_from(buffer)[0])


def count(entries: Bytes) -> int:
    """Return the number of complete plain entries."""
    found = at = 0
    while at < len(entries):
        at += LOG_OVERHEAD + LENGTH.unpack_from(entries, at)[0]
        found += 1
    return found


def cut(buffer: Bytes, run: Run, limit: int) -> Iterator[Run]:
    """Yield a run as runs of at most limit bytes, in order; a larger entry is yielded alone."""
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
    """Return the plain entries of a run that begin before offset `until` as a run; None if there are none."""
    at, entries, last = run.begin, 0, run.end - (run.resume_at - until)
    while at < min(last, run.end):
        at, entries = at + LOG_OVERHEAD + LENGTH.unpack_from(buffer, at)[0], entries + 1
    return replace(run, end=at, entries=entries, resume_at=run.resume_at - (run.end - at)) if entries else None


def stamped(buffer: Bytes, run: Run) -> bool:
    """Return False: messages of 0.7 have no timestamp."""
    return False


def entry_at(buffer: Bytes, begin: int, position: int) -> Entry | None:
    """Return the entry at byte `begin`, offset `position` of the log; None if its end is unknown, because no entry
    follows at the end that its length gives."""
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
    return Entry(position, position + end - begin, bool(magic and attributes & CODEC), end - begin)


def behind(buffer: Bytes, begin: int, position: int) -> int | None:
    """Return the offset after the entry whose header is at byte `begin`; None if the header is incomplete."""
    if len(buffer) - begin < LOG_OVERHEAD:
        return None
    length = int(LENGTH.unpack_from(buffer, begin)[0])
    return position + LOG_OVERHEAD + length if length > 0 else None


def cut_short(buffer: Bytes, scan: Scan, position: int, asked: int) -> CorruptMessage | None:
    """Return the damage of a first entry that declares more bytes than the broker has, though more were requested; else
    None.

    A broker returns the requested bytes, or all up to the end of a segment, and no entry continues in the next segment.
    """
    left = len(buffer) - scan.end
    if scan.runs or scan.damage or left < LOG_OVERHEAD or len(buffer) >= asked:
        return None
    (length,) = LENGTH.unpack_from(buffer, scan.end)
    text = f"it declares {LOG_OVERHEAD + length} bytes, and the log ends after {left}"
    return CorruptMessage(text, scan.end, position)
