"""Entries of formats v0 and v1 found by their sizes: which are complete and how they travel; cut, counted.  Opens none.

    entry = offset:int64  size:int32  crc:uint32  magic:int8  attributes:int8  ...
            size counts all that follows it; attributes: bits 0-2 codec, bit 3 timestamp type

A set has no count and may be cut anywhere: its last entry is then left for the next fetch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

from kafkawire.columns import FEW, alike, column
from kafkawire.errors import CorruptMessage, UnknownMagic
from kafkawire.kernels import ready
from kafkawire.model import Entry, Run
from kafkawire.model import Scan as Scan
from kafkawire.primitives import Bytes

LOG_OVERHEAD = 12  # offset and size: what stands in front of the bytes that size counts
ENTRY_OVERHEAD = {0: 26, 1: 34}  # bytes of an entry besides key and value, by format
LOWEST = -(1 << 63)  # as a start: everything is wanted
CODEC = 0x07
LOG_APPEND_TIME = 0x08

HEAD = struct.Struct(">qi4xH")  # offset, size, magic and attributes in one
_START = struct.Struct(">qi")  # offset, size
_WORTH = 4096  # bytes: for less a call of the quicker loops costs more than it saves
_PIECE = 128 << 10  # bytes looked at at once: they stay in the processor's cache
_SPARSE = 512  # bytes of an entry: from here on only the little that is looked at gets into the cache
AGAIN = 8 * _WORTH  # bytes until the next try where neighbours were not alike
MANY_ALIKE = 32  # neighbours that are alike: for fewer a look at each costs less than what finds them
_SMALLEST = ENTRY_OVERHEAD[0]
_LOW_BYTES = bytes(range(256)) * 272  # the two lowest bytes of 0, 1, 2 .. as columns: more than a piece holds entries
_HIGH_BYTES = b"".join(bytes((n & 0xFF,)) * 256 for n in range(272))
LEAST = (ENTRY_OVERHEAD[0] - LOG_OVERHEAD, ENTRY_OVERHEAD[1] - LOG_OVERHEAD)  # the smallest size field, by format


def scan(buffer: Bytes, start: int) -> Scan:
    """Find the complete entries of a set fetched at offset start, without opening or checking any of them.

    Entries that end before start are hopped over and are in no run, and so are those that a broker sends twice: brokers
    that convert down begin a set with the first batch behind a control batch, and then begin it again.  Such an entry
    has an offset below what was reached, and the bytes of the one that stood there the first time; any other that goes
    back has a damaged offset, which no checksum covers, and is delivered.  A cut last entry is no damage; nor is the
    padding behind sets that such brokers convert, which reads as offset -1 with a size larger than what is left.
    """
    unpack, total, inside = HEAD.unpack_from, len(buffer), start == LOWEST
    first = begin = at = _first_wanted(buffer, start)
    runs: list[Run] = []
    last = start - 1
    plain = -1  # magic and attributes of the run we are in; -1: in none
    least = entries = 0
    twin = -1  # behind the entry that was repeated last; -1: none was
    ascends, damage = True, None
    quick = ready()
    hop, worth, again = (_hop_inside if inside else hop_alike, MANY_ALIKE, 0) if quick is None else (quick.hop, 1, 0)
    while at + _SMALLEST <= total:
        offset, size, kind = unpack(buffer, at)
        end = at + LOG_OVERHEAD + size
        if kind == plain and least <= size and end <= total and offset > last:  # the way of nearly all entries
            entries += 1
            last = offset
            at = end
            continue
        damage = _damage(at, offset, size, kind >> 8, cut=end > total)
        if damage is not None or end > total:
            break
        if offset <= last and inside:
            ascends = False
        elif offset <= last:
            again_at = next((n for n in (twin, first, 0) if buffer[n : n + end - at] == buffer[at:end]), -1)
            if again_at >= 0:
                if entries:
                    runs.append(Run(begin, at, 0, plain >> 8, entries, last + 1))
                twin, begin, plain, entries = again_at + end - at, end, -1, 0
                at = end
                continue
        if entries and (kind & CODEC or kind >> 8 != plain >> 8):
            runs.append(Run(begin, at, 0, plain >> 8, entries, last + 1))
            begin, entries = at, 0
        if kind & CODEC:
            runs.append(Run(at, end, kind & CODEC, kind >> 8, 1, offset + 1))
            begin, plain = end, -1
        else:
            plain, least, entries = kind, LEAST[kind >> 8], entries + 1
        last = offset
        at = end
        if plain >= 0 and at >= again and total - at > _WORTH:
            at, more, reached = hop(buffer, at, plain, least, last if ascends else None)
            if more:
                entries, last = entries + more, reached
            if more < worth:
                again = at + AGAIN
    else:
        damage = _short_tail(buffer, at)
    if entries:
        runs.append(Run(begin, at, 0, plain >> 8, entries, last + 1))
    if runs or damage:
        return Scan(at, max(start, last + 1), tuple(runs), 0, damage, ascends=ascends)
    if _is_padding(buffer, at):
        return Scan(at, start + 1, (), 0, None, left_out=True)
    return Scan(at, max(start, last + 1), (), _needed(buffer, at), None)


def hop_alike(
    buffer: Bytes, at: int, kind: int, least: int, last: int | None = None, exact: bool = False
) -> tuple[int, int, int]:
    """Past entries of one kind that are all of one size; none of fewer than eight.  Else as Kernels.hop.

    exact: offsets ascend in all of their bytes.  Otherwise the two lowest tell: enough to find what a broker repeats,
    and a fifth of the work.
    """
    entries = reached = 0
    most = 2 * MANY_ALIKE  # at first: a copy of all that follows would be wasted where sizes change soon
    while at + _SMALLEST <= len(buffer):
        _, size, first = HEAD.unpack_from(buffer, at)
        step = LOG_OVERHEAD + size
        if buffer[at + step + 8 : at + step + 12] != buffer[at + 8 : at + 12]:
            break  # the usual answer where sizes differ
        whole = _PIECE if step < _SPARSE else 4 * _PIECE
        piece, begin, room = buffer, at, min(most * step, whole, len(buffer) - at) if step > 0 else 0
        if step < _SPARSE and isinstance(buffer, memoryview):
            # Picking from bytes is quicker than from a view by more than the copy costs.
            piece, begin = bytes(buffer[at : at + room]), 0
        count = room // step if first == kind and size >= least else 0
        count = alike(piece, begin, step, count, (8, 9, 10, 11, 16, 17)) if count >= FEW else 0
        if last is not None and count >= FEW:
            count = _ascending(piece, begin, step, count, last, exact)
        if count < FEW:
            break
        at, entries = at + count * step, entries + count
        reached = _START.unpack_from(buffer, at - step)[0]
        last = None if last is None else reached
        if count < room // step:
            break
        most = _PIECE
    return at, entries, reached


_hop_inside = partial(hop_alike, exact=True)  # what is in a wrapper is numbered by its offsets


def _ascending(data: Bytes, at: int, step: int, count: int, last: int, exact: bool) -> int:
    """How many of `count` entries of `step` bytes have offsets that ascend from `last` on."""
    first = _START.unpack_from(data, at)[0]
    if first <= last:
        return 0
    end, low = at + count * step, first & 0xFFFF
    consecutive = (
        _START.unpack_from(data, end - step)[0] == first + count - 1
        and bytes(data[at + 7 : end : step]) == _LOW_BYTES[low : low + count]
        and bytes(data[at + 6 : end : step]) == _HIGH_BYTES[low : low + count]
        and not (exact and any(bytes(data[at + n : end : step]).count(data[at + n]) < count for n in range(6)))
    )  # one after the other, which two columns of bytes tell: a batch that is repeated has fewer than 65536 messages
    if consecutive:
        return count
    found = column(f"q{step - 8}x", memoryview(data)[at:end])
    return next((n for n, (one, other) in enumerate(pairwise(found), 1) if other <= one), count)


def _first_wanted(buffer: Bytes, start: int) -> int:
    """Where the first entry stands that does not end before start."""
    at = 0
    while at + _SMALLEST <= len(buffer):
        offset, size, kind = HEAD.unpack_from(buffer, at)
        end = at + LOG_OVERHEAD + size
        if offset >= start or kind >> 8 > 1 or size < LEAST[kind >> 8] or end > len(buffer):
            break
        at = end
    return at


def _damage(at: int, offset: int, size: int, magic: int, cut: bool) -> CorruptMessage | None:
    """What is wrong with an entry as far as its first bytes tell; one that is cut is judged when it comes whole."""
    if size < LEAST[0]:
        return CorruptMessage(f"impossible size {size}, the smallest is {LEAST[0]}", at, offset)
    if cut:
        return None
    if magic > 1:
        return UnknownMagic(f"unknown message format v{magic}", at, offset)
    if size < LEAST[magic]:
        return CorruptMessage(f"impossible size {size} for format v{magic}", at, offset)
    return None


def _short_tail(buffer: Bytes, at: int) -> CorruptMessage | None:
    """The same for a tail too short for the smallest entry."""
    if len(buffer) - at < LOG_OVERHEAD:
        return None
    offset, size = _START.unpack_from(buffer, at)
    return _damage(at, offset, size, 0, cut=True)


def _is_padding(buffer: Bytes, at: int) -> bool:
    """Whether a broker that converts down filled up what it had said it would send: an offset of -1, and a size larger
    than what is left.  A last few bytes of it hold less than the size."""
    left = len(buffer) - at
    if not left or bytes(buffer[at : at + 8]) != b"\xff" * min(8, left):
        return False
    return left < LOG_OVERHEAD or _START.unpack_from(buffer, at)[1] > left - LOG_OVERHEAD


def _needed(buffer: Bytes, at: int) -> int:
    left = len(buffer) - at
    if left < LOG_OVERHEAD:
        return at + _SMALLEST if left else 0
    return at + max(_SMALLEST, LOG_OVERHEAD + int(_START.unpack_from(buffer, at)[1]))


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
    """The entry that begins at byte `begin`; None: where it ends is unknown, since its size leads to no other.

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
    return Entry(offset, offset + 1, bool(attributes & CODEC), end - begin)


def behind(buffer: Bytes, begin: int, position: int) -> int | None:
    """The offset behind an entry whose head stands at byte `begin`; None: not even that is there."""
    if len(buffer) - begin < LOG_OVERHEAD:
        return None
    offset, _ = _START.unpack_from(buffer, begin)
    return int(offset) + 1 if offset >= position else None


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
