"""Entries hopped over by their sizes: cut into pieces, counted, looked at one by one.  Opens and checks nothing.

entry = offset:int64  size:int32  crc:uint32  magic:int8  attributes:int8  ...
        size counts all that follows it
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

from kafkawire.errors import CorruptMessage
from kafkawire.formats.v01.scan import CODEC, LEAST, LOG_APPEND_TIME, LOG_OVERHEAD
from kafkawire.model import Entry, Run, Scan
from kafkawire.primitives import Bytes

_START = struct.Struct(">qi")  # offset, size
_ENTRY = struct.Struct(">qi5xB")  # offset, size, attributes
_ATTRIBUTES = 17


def count(entries: Bytes) -> int:
    """How many there are in complete plain ones."""
    found = at = 0
    while at < len(entries):
        at += LOG_OVERHEAD + _START.unpack_from(entries, at)[1]
        found += 1
    return found


def cut(buffer: Bytes, run: Run, limit: int) -> Iterator[Run]:
    """A run as runs of at most limit bytes, in order; an entry that is larger by itself goes alone."""
    if run.codec:
        yield run
        return
    begin = at = run.begin
    entries = last = 0
    while at < run.end:
        offset, size = _START.unpack_from(buffer, at)
        end = at + LOG_OVERHEAD + size
        if entries and end - begin > limit:
            yield replace(run, begin=begin, end=at, entries=entries, resume_at=last + 1)
            begin, entries = at, 0
        at, entries, last = end, entries + 1, offset
    yield replace(run, begin=begin, entries=entries)


def before(buffer: Bytes, run: Run, until: int) -> Run | None:
    """The plain entries of a run that stand before position `until`, as a run; None: there are none."""
    at, entries = run.begin, 0
    while at < run.end:
        offset, size = _START.unpack_from(buffer, at)
        if offset >= until:
            break
        at, entries = at + LOG_OVERHEAD + size, entries + 1
    return replace(run, end=at, entries=entries, resume_at=until) if entries else None


def stamped(buffer: Bytes, run: Run) -> bool:
    """Whether a broker set the timestamp of any of them (LogAppendTime): such entries no broker takes back."""
    at = run.begin if run.magic else run.end
    while at < run.end:
        if buffer[at + _ATTRIBUTES] & LOG_APPEND_TIME:
            return True
        at += LOG_OVERHEAD + _START.unpack_from(buffer, at)[1]
    return False


def entry_at(buffer: Bytes, begin: int, position: int) -> Entry | None:
    """The entry that begins at byte `begin`; None: nobody can tell where it ends, for its size leads to no other.

    position is not needed here: an entry of 0.8 and later has its offset in it.
    """
    if len(buffer) - begin < _ENTRY.size:
        return None
    offset, size, attributes = _ENTRY.unpack_from(buffer, begin)
    end = begin + LOG_OVERHEAD + size
    if size < LEAST[0] or end > len(buffer):
        return None
    if len(buffer) - end >= LOG_OVERHEAD:
        following, its_size = _START.unpack_from(buffer, end)
        if following <= offset or its_size < LEAST[0]:
            return None
    return Entry(offset, offset + 1, bool(attributes & CODEC))


def cut_short(buffer: Bytes, scan: Scan, position: int, asked: int) -> CorruptMessage | None:
    """A first entry that says it is larger than all that the broker has, though more was asked for.

    A broker of 0.8 and later gives what is asked for, or all up to the end of a segment, and no entry goes on in the
    next one.  Not so the padding of newer brokers, which has offset -1.
    """
    left = len(buffer) - scan.end
    if scan.runs or scan.damage or left < LOG_OVERHEAD or len(buffer) >= asked:
        return None
    offset, size = _START.unpack_from(buffer, scan.end)
    if offset < position:
        return None
    text = f"it says {LOG_OVERHEAD + size} bytes, and the log ends after {left}"
    return CorruptMessage(text, scan.end, offset)
