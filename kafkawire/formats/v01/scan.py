"""Scanner of entries of formats v0 and v1 by their sizes: finds complete ones, cuts runs and counts entries, without
decompressing any.

    entry = offset:int64  size:int32  crc:uint32  magic:int8  attributes:int8  ...
            size counts all that follows it; attributes: bits 0-2 codec, bit 3 timestamp type

A set has no count and may be truncated anywhere: its last entry is then left for the next fetch.
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

LOG_OVERHEAD = 12  # offset and size: the bytes before those that size counts
ENTRY_OVERHEAD = {0: 26, 1: 34}  # bytes of an entry besides key and value, by format
LOWEST = -(1 << 63)  # as a start: every entry is wanted
CODEC = 0x07
LOG_APPEND_TIME = 0x08

HEAD = struct.Struct(">qi4xH")  # offset, size, magic and attributes in one
_START = struct.Struct(">qi")  # offset, size
_WORTH = 4096  # bytes; for fewer, calling the faster loops costs more than it saves
_PIECE = 128 << 10  # bytes read at once, so that they stay in the processor's cache
_SPARSE = 512  # bytes of an entry; above it only the bytes that are read get into the cache
AGAIN = 8 * _WORTH  # bytes until the next try if adjacent entries have different shapes
MANY_ALIKE = 32  # adjacent entries of one shape; for fewer, reading one by one is cheaper than detecting them
_SMALLEST = ENTRY_OVERHEAD[0]
_LOW_BYTES = bytes(range(256)) * 272  # the two lowest bytes of 0, 1, 2 .. as columns, for more entries than a piece has
_HIGH_BYTES = b"".join(bytes((n & 0xFF,)) * 256 for n in range(272))
LEAST = (ENTRY_OVERHEAD[0] - LOG_OVERHEAD, ENTRY_OVERHEAD[1] - LOG_OVERHEAD)  # the smallest size field, by format


def scan(buffer: Bytes, start: int) -> Scan:
    """Find the complete entries of a set fetched at offset start, without decompressing or checking any of them.

    Entries that end before start are skipped and in no run.  So are entries that a broker sends twice: brokers that
    down-convert begin a set with the first batch after a control batch, and then begin it again.  Such an entry has an
    offset below the one reached, and the same bytes as before; any other entry with a lower offset has a damaged
    offset, which no checksum covers, and is delivered.  A truncated last entry is not damage; nor is the padding after
    down-converted sets, which reads as offset -1 with a size larger than what is left.
    """
    unpack, total, inside = HEAD.unpack_from, len(buffer), start == LOWEST
    first = begin = at = _first_wanted(buffer, start)
    runs: list[Run] = []
    last = start - 1
    plain = -1  # magic and attributes of the current run; -1: no run
    least = entries = 0
    twin = -1  # end of the entry that was repeated last; -1: none
    ascends, damage = True, None
    quick = ready()
    hop, worth, again = (_hop_inside if inside else hop_alike, MANY_ALIKE, 0) if quick is None else (quick.hop, 1, 0)
    while at + _SMALLEST <= total:
        offset, size, kind = unpack(buffer, at)
        end = at + LOG_OVERHEAD + size
        if kind == plain and least <= size and end <= total and offset > last:  # nearly all entries take this branch
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
    """Skip entries of one kind and one size, if there are at least eight; parameters and result as in Kernels.hop.

    exact: compare whole offsets.  Otherwise only the two lowest bytes are compared, a fifth of the work, and enough to
    find entries that a broker repeats.
    """
    entries = reached = 0
    most = 2 * MANY_ALIKE  # at first: copying everything would be wasted if sizes change soon
    while at + _SMALLEST <= len(buffer):
        _, size, first = HEAD.unpack_from(buffer, at)
        step = LOG_OVERHEAD + size
        if buffer[at + step + 8 : at + step + 12] != buffer[at + 8 : at + 12]:
            break  # the usual result if sizes differ
        whole = _PIECE if step < _SPARSE else 4 * _PIECE
        piece, begin, room = buffer, at, min(most * step, whole, len(buffer) - at) if step > 0 else 0
        if step < _SPARSE and isinstance(buffer, memoryview):
            # Copying to bytes costs less than slicing a view does.
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


_hop_inside = partial(hop_alike, exact=True)  # offsets in a wrapper are its numbering


def _ascending(data: Bytes, at: int, step: int, count: int, last: int, exact: bool) -> int:
    """Return how many of `count` entries of `step` bytes have offsets that ascend from `last`."""
    first = _START.unpack_from(data, at)[0]
    if first <= last:
        return 0
    end, low = at + count * step, first & 0xFFFF
    consecutive = (
        _START.unpack_from(data, end - step)[0] == first + count - 1
        and bytes(data[at + 7 : end : step]) == _LOW_BYTES[low : low + count]
        and bytes(data[at + 6 : end : step]) == _HIGH_BYTES[low : low + count]
        and not (exact and any(bytes(data[at + n : end : step]).count(data[at + n]) < count for n in range(6)))
    )  # consecutive; two columns of bytes suffice: a repeated batch has fewer than 65536 messages
    if consecutive:
        return count
    found = column(f"q{step - 8}x", memoryview(data)[at:end])
    return next((n for n, (one, other) in enumerate(pairwise(found), 1) if other <= one), count)


def _first_wanted(buffer: Bytes, start: int) -> int:
    """Return the position of the first entry that does not end before start."""
    at = 0
    while at + _SMALLEST <= len(buffer):
        offset, size, kind = HEAD.unpack_from(buffer, at)
        end = at + LOG_OVERHEAD + size
        if offset >= start or kind >> 8 > 1 or size < LEAST[kind >> 8] or end > len(buffer):
            break
        at = end
    return at


def _damage(at: int, offset: int, size: int, magic: int, cut: bool) -> CorruptMessage | None:
    """Return what is wrong with an entry, judged by its first bytes; a truncated one is judged when it is fetched
    whole."""
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
    """Return what is wrong with a tail that is too short for the smallest entry."""
    if len(buffer) - at < LOG_OVERHEAD:
        return None
    offset, size = _START.unpack_from(buffer, at)
    return _damage(at, offset, size, 0, cut=True)


def _is_padding(buffer: Bytes, at: int) -> bool:
    """True for the padding of a broker that down-converts: offset -1 and a size larger than what is left.  The padding
    may be too short for its size field."""
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
    """Return the number of complete plain entries."""
    found = at = 0
    while at < len(entries):
        at += LOG_OVERHEAD + _START.unpack_from(entries, at)[1]
        found += 1
    return found


def cut(buffer: Bytes, run: Run, limit: int) -> Iterator[Run]:
    """Yield a run as runs of at most limit bytes, in order; a larger entry is yielded alone."""
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
    """Return the plain entries of a run before position `until` as a run; None if there are none."""
    at, entries = run.begin, 0
    while at < run.end:
        offset, size = _START.unpack_from(buffer, at)
        if offset >= until:
            break
        at, entries = at + LOG_OVERHEAD + size, entries + 1
    return replace(run, end=at, entries=entries, resume_at=until) if entries else None


def stamped(buffer: Bytes, run: Run) -> bool:
    """True if a broker set the timestamp of any entry (LogAppendTime): no broker accepts such entries from a
    producer."""
    at = run.begin if run.magic else run.end
    while at < run.end:
        if buffer[at + _ATTRIBUTES] & LOG_APPEND_TIME:
            return True
        at += LOG_OVERHEAD + _START.unpack_from(buffer, at)[1]
    return False


def entry_at(buffer: Bytes, begin: int, position: int) -> Entry | None:
    """Return the entry at byte `begin`; None if its end is unknown, because no entry follows at the end that its size
    gives.

    position is not used: an entry of 0.8 and later contains its offset.
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
    """Return the offset after the entry whose header is at byte `begin`; None if the header is incomplete."""
    if len(buffer) - begin < LOG_OVERHEAD:
        return None
    offset, _ = _START.unpack_from(buffer, begin)
    return int(offset) + 1 if offset >= position else None


def cut_short(buffer: Bytes, scan: Scan, position: int, asked: int) -> CorruptMessage | None:
    """Return the damage of a first entry that declares more bytes than the broker has, though more were requested; else
    None.

    A broker of 0.8 and later returns the requested bytes, or all up to the end of a segment, and no entry continues in
    the next segment.  The padding of newer brokers, with offset -1, is an exception.
    """
    left = len(buffer) - scan.end
    if scan.runs or scan.damage or left < LOG_OVERHEAD or len(buffer) >= asked:
        return None
    offset, size = _START.unpack_from(buffer, scan.end)
    if offset < position:
        return None
    text = f"it declares {LOG_OVERHEAD + size} bytes, and the log ends after {left}"
    return CorruptMessage(text, scan.end, offset)
