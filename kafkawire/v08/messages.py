"""Message sets of formats v0 and v1 (Kafka 0.8 to 0.10).  Knows bytes; knows no socket, no cluster, no offset store.

    entry = offset:int64  size:int32  crc:uint32  magic:int8  attributes:int8  [timestamp:int64 in v1]  key  value
            size counts all that follows it; crc covers magic to the end of the entry
            attributes: bits 0-2 codec, bit 3 timestamp type (v1: 0 as created, 1 as appended)
            key and value: length:int32 (-1 is null) and bytes

A set has no count and may be cut anywhere: its last entry is then left for the next fetch.  An entry with a codec is a
wrapper: its value, opened, is again a set of the same format, and its own offset is that of its last message.
Inner offsets are absolute in v0; in v1 they are relative: the last of them stands for the wrapper's own offset.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

from kafkawire.columns import Columns
from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.model import Message, MessageSet, Part, PartitionId, Run
from kafkawire.primitives import Bytes
from kafkawire.v08.alike import Alike, find, rows
from kafkawire.v08.indexing import PIECE_BYTES
from kafkawire.v08.indexing import index as index
from kafkawire.v08.indexing import pieces as pieces
from kafkawire.v08.scanning import AGAIN
from kafkawire.v08.scanning import CODEC as CODEC
from kafkawire.v08.scanning import ENTRY_OVERHEAD as ENTRY_OVERHEAD
from kafkawire.v08.scanning import LOG_APPEND_TIME as LOG_APPEND_TIME
from kafkawire.v08.scanning import LOG_OVERHEAD as LOG_OVERHEAD
from kafkawire.v08.scanning import LOWEST as LOWEST
from kafkawire.v08.scanning import Scan as Scan
from kafkawire.v08.scanning import scan as scan
from kafkawire.v08.wrappers import MAX_DEPTH as MAX_DEPTH
from kafkawire.v08.wrappers import OPEN_LIMIT as OPEN_LIMIT
from kafkawire.v08.wrappers import Wrapper as Wrapper
from kafkawire.v08.wrappers import opened
from kafkawire.v08.wrappers import wrapper as wrapper
from kafkawire.v08.writing import Row as Row
from kafkawire.v08.writing import encode as encode
from kafkawire.v08.writing import wrap

# What a plain entry is read by: no more fields than are needed, each costs.
_V0 = struct.Struct(">qiI2xii")  # offset, size, crc, key length, value length where the key is null
_V1 = struct.Struct(">qiIxBqii")  # the same with attributes and a timestamp before the key length
_ENTRY = struct.Struct(">qiI")
_INT32 = struct.Struct(">i")
_CRC_FROM = 16
_SMALLEST = ENTRY_OVERHEAD[0]


def message_set(
    topic: str, partition: PartitionId, start: int, buffer: memoryview, high_watermark: int
) -> tuple[MessageSet, Scan]:
    """The complete entries of a fetched buffer as a set, and the scan that found them.  Raises nothing."""
    found = scan(buffer, start)
    view = buffer[: found.end]
    return MessageSet(topic, partition, start, found.resume_at, view, high_watermark, found.runs, READER), found


# ---- messages --------------------------------------------------------------------------------------------------


class _V08Reader:
    """How a MessageSet of this generation is read."""

    def messages(self, message_set: MessageSet, check_crcs: bool = True) -> Iterator[Message]:
        return messages(message_set, check_crcs)

    def index(self, message_set: MessageSet, check_crcs: bool = True) -> Columns:
        return index(message_set, check_crcs)

    def pieces(self, message_set: MessageSet, check_crcs: bool = True) -> Iterator[Columns]:
        return pieces(message_set, check_crcs)


READER = _V08Reader()


def messages(message_set: MessageSet, check_crcs: bool = True, limit: int = OPEN_LIMIT) -> Iterator[Message]:
    """The messages of a set from its start on, lazily, inner ones included; what is before start is not even checked.

    limit bounds the bytes one wrapper opens to.  Raises CorruptMessage (UnknownMagic), whose position is a byte of the
    set's buffer, when it gets to the damage: everything before it has been yielded.
    """
    walk = _Walk(message_set.topic, message_set.partition, message_set.start, check_crcs, limit)
    for run in message_set.runs:
        if run.codec:
            yield from _opened(walk, message_set.buffer, run)
        else:
            at, most = run.begin, PIECE_BYTES
            while at < run.end:
                # Slices of bytes cost half of those of a view, and a piece of them stays in the processor's cache.
                data = bytes(message_set.buffer[at : min(at + most, run.end)])
                read = yield from _PLAIN[run.magic](walk, data, 0, len(data), at, 0, None)
                at, most = at + read, PIECE_BYTES if read else LOG_OVERHEAD + _ENTRY.unpack_from(data)[1]


@dataclass(slots=True)
class _Walk:
    """What stays the same on the way through a set."""

    topic: str
    partition: PartitionId
    start: int
    check_crcs: bool
    limit: int


def _plain_v0(
    walk: _Walk, data: bytes, at: int, end: int, base: int, shift: int, appended_ms: int | None
) -> Generator[Message, None, int]:
    """Plain entries of format v0.  base: what to add to a position in errors; shift: what to add to offsets.

    Returns the end of the last complete entry.  No calls and no further generators for a message: each costs a tenth.
    """
    topic, partition, start, check = walk.topic, walk.partition, walk.start, walk.check_crcs
    unpack, unpack_int32, crc32 = _V0.unpack_from, _INT32.unpack_from, zlib.crc32
    crc_from, log_overhead = _CRC_FROM, LOG_OVERHEAD  # locals are quicker than globals
    one_by_one = at  # up to here they are not alike
    while at + _SMALLEST <= end:
        if at >= one_by_one:
            same = find(data, at, end, 0)
            if same is not None:
                key_from, key_to, value_from = (place - crc_from for place in same.places)
                keyed, valued = same.key_size >= 0, same.value_size >= 0
                for offset, crc, body in rows(data, same):
                    offset += shift
                    if offset < start:
                        continue
                    if check and crc32(body) != crc:
                        raise _first_bad_crc(walk, data, same, base, shift)
                    key = body[key_from:key_to] if keyed else None
                    value = body[value_from:] if valued else None
                    yield Message(topic, partition, offset, key, value, None, None, None, offset + 1)
                at = one_by_one = same.end
                continue
            one_by_one = at + AGAIN
        offset, size, crc, key_size, value_size = unpack(data, at)
        offset += shift
        after = at + log_overhead + size
        if after > end:
            break
        if offset < start:
            at = after
            continue
        if check and crc32(data[at + crc_from : after]) != crc:
            raise _bad_crc(data, at, after, base, offset, crc)
        value_at = at + 26
        if key_size == -1:
            key = None
        else:
            value_at += key_size
            if key_size < 0 or value_at > after:
                raise CorruptMessage(f"a key of {key_size} bytes does not fit", base + at, offset)
            key = data[at + 22 : value_at - 4]
            (value_size,) = unpack_int32(data, value_at - 4)
        if value_at + value_size == after:
            value = data[value_at:after]
        elif value_size == -1 and value_at == after:
            value = None
        else:
            raise CorruptMessage(f"a value of {value_size} bytes where {after - value_at} are", base + at, offset)
        yield Message(topic, partition, offset, key, value, None, None, None, offset + 1)
        at = after
    return at


def _plain_v1(
    walk: _Walk, data: bytes, at: int, end: int, base: int, shift: int, appended_ms: int | None
) -> Generator[Message, None, int]:
    """Plain entries of format v1.  appended_ms: the time of a wrapper that was stamped by its broker, for all in it."""
    topic, partition, start, check = walk.topic, walk.partition, walk.start, walk.check_crcs
    unpack, unpack_int32, crc32 = _V1.unpack_from, _INT32.unpack_from, zlib.crc32
    crc_from, log_overhead = _CRC_FROM, LOG_OVERHEAD
    while at + ENTRY_OVERHEAD[1] <= end:
        offset, size, crc, attributes, timestamp, key_size, value_size = unpack(data, at)
        offset += shift
        after = at + log_overhead + size
        if after > end:
            break
        if offset < start:
            at = after
            continue
        if check and crc32(data[at + crc_from : after]) != crc:
            raise _bad_crc(data, at, after, base, offset, crc)
        value_at = at + 34
        if key_size == -1:
            key = None
        else:
            value_at += key_size
            if key_size < 0 or value_at > after:
                raise CorruptMessage(f"a key of {key_size} bytes does not fit", base + at, offset)
            key = data[at + 30 : value_at - 4]
            (value_size,) = unpack_int32(data, value_at - 4)
        if value_at + value_size == after:
            value: bytes | None = data[value_at:after]
        elif value_size == -1 and value_at == after:
            value = None
        else:
            raise CorruptMessage(f"a value of {value_size} bytes where {after - value_at} are", base + at, offset)
        stamped = (attributes & LOG_APPEND_TIME) >> 3
        if appended_ms is not None:
            timestamp, stamped = appended_ms, 1
        yield Message(topic, partition, offset, key, value, timestamp, stamped, None, offset + 1)
        at = after
    return at


_Plain = Callable[[_Walk, bytes, int, int, int, int, int | None], Generator[Message, None, int]]
_PLAIN: tuple[_Plain, _Plain] = (_plain_v0, _plain_v1)


def _first_bad_crc(walk: _Walk, data: bytes, same: Alike, base: int, shift: int) -> CorruptMessage:
    """The error of the first of them, from the start of the walk on, that is damaged."""
    ats = range(same.begin, same.end, same.step)
    for at, (offset, crc, body) in zip(ats, rows(data, same), strict=True):
        if offset + shift >= walk.start and zlib.crc32(body) != crc:
            return _bad_crc(data, at, at + same.step, base, offset + shift, crc)
    raise AssertionError("no checksum is wrong")


def _bad_crc(data: bytes, at: int, after: int, base: int, offset: int, stored: int) -> CorruptMessage:
    computed = zlib.crc32(data[at + _CRC_FROM : after])
    return CorruptMessage(f"crc mismatch, stored {stored:08x}, computed {computed:08x}", base + at, offset)


# ---- wrappers --------------------------------------------------------------------------------------------------


def _opened(walk: _Walk, buffer: Bytes, run: Run) -> Iterator[Message]:
    """The messages of a top-level wrapper; any damage within is reported at the wrapper's own position."""
    outer = wrapper(buffer, run.begin, run.end, walk.check_crcs)
    try:
        yield from _inside(walk, outer, outer.offset, 1, [walk.limit])
    except CorruptMessage as exc:
        kind = type(exc)
        raise kind(f"inside the wrapper, {exc}", run.begin, exc.offset) from exc
    except RemoteError as exc:
        raise CorruptMessage(str(exc), run.begin, outer.offset) from exc


def _inside(walk: _Walk, outer: Wrapper, offset: int, depth: int, left: list[int]) -> Iterator[Message]:
    """What a wrapper holds.  offset: its absolute one; left: bytes all depths may still open."""
    data, found = opened(outer, depth, left)
    if not found.runs:
        return
    last = found.resume_at - 1
    shift = offset - last if outer.magic else 0
    if depth > 1 and last + shift != offset:
        yield from _at_one_offset(walk, outer, data, found, offset, depth, left)
        return
    for run in found.runs:
        if run.codec:
            nested = wrapper(data, run.begin, run.end, walk.check_crcs)
            yield from _inside(walk, nested, nested.offset + shift, depth + 1, left)
        else:
            yield from _PLAIN[run.magic](walk, data, run.begin, run.end, 0, shift, outer.appended_ms)


def _at_one_offset(
    walk: _Walk, outer: Wrapper, data: bytes, found: Scan, offset: int, depth: int, left: list[int]
) -> Iterator[Message]:
    """A nested wrapper of v0 as 0.9 stores it: the broker numbered the wrapper and not what is in it.

    All its messages get the wrapper's offset, and only the last moves the position past it: nothing is lost, and a
    restart in the middle repeats.
    """
    if offset < walk.start:
        return
    held: Message | None = None
    try:
        for message in _unnumbered(replace(walk, start=LOWEST), outer, data, found, depth, left):
            if held is not None:
                yield held
            held = replace(message, offset=offset, resume_at=offset)
    except CorruptMessage:
        if held is not None:
            yield held  # it is before the damage, and not known to be the last
        raise
    if held is not None:
        yield replace(held, resume_at=offset + 1)


def _unnumbered(
    walk: _Walk, outer: Wrapper, data: bytes, found: Scan, depth: int, left: list[int]
) -> Iterator[Message]:
    """What such a wrapper holds, with the offsets its producer gave."""
    for run in found.runs:
        if run.codec:
            nested = wrapper(data, run.begin, run.end, walk.check_crcs)
            yield from _inside(walk, nested, nested.offset, depth + 1, left)
        else:
            yield from _PLAIN[run.magic](walk, data, run.begin, run.end, 0, 0, outer.appended_ms)


# ---- looking into entries that are to be sent ------------------------------------------------------------------


def check(entries: Bytes) -> CorruptMessage | None:
    """The first damage in complete entries: a wrong checksum, outer or inner, or bytes that make no entry."""
    found = scan(entries, LOWEST)
    view = memoryview(entries)
    try:
        for run in found.runs:
            if run.codec:
                for _ in _opened(_NOBODY, view, run):
                    pass
            else:
                _check_crcs(view, run)
    except CorruptMessage as exc:
        return exc
    if found.damage is None and found.end != len(entries):
        return CorruptMessage(f"cut {len(entries) - found.end} bytes after its beginning", found.end)
    return found.damage


def _check_crcs(view: memoryview, run: Run) -> None:
    at, crc32, unpack = run.begin, zlib.crc32, _ENTRY.unpack_from
    while at < run.end:
        offset, size, crc = unpack(view, at)
        after = at + LOG_OVERHEAD + size
        if crc32(view[at + _CRC_FROM : after]) != crc:
            raise _bad_crc(bytes(view[at:after]), 0, after - at, at, offset, crc)
        at = after


def split(part: Part) -> list[Part]:
    """A part as two, cut near the middle of its bytes; [part] where it is a single message.

    A wrapper is opened and both halves are compressed again with its codec.  Where the part has a resume_at the first
    half gets its own last offset + 1.  Raises CorruptMessage for a wrapper that cannot be opened.
    """
    return _split_wrapper(part) if part.codec else _split_plain(part)


def _split_plain(part: Part) -> list[Part]:
    view = memoryview(part.entries)
    ends, offsets, at = [], [], 0
    while at < len(view):
        offset, size, _ = _ENTRY.unpack_from(view, at)
        at += LOG_OVERHEAD + size
        ends.append(at)
        offsets.append(offset)
    count = _middle(ends)
    if not count:
        return [part]
    cut = ends[count - 1]
    reached = None if part.resume_at is None else offsets[count - 1] + 1
    return [
        replace(part, entries=part.entries[:cut], count=count, resume_at=reached),
        replace(part, entries=part.entries[cut:], count=len(ends) - count),
    ]


def _split_wrapper(part: Part) -> list[Part]:
    walk = replace(_NOBODY, topic=part.tp.topic, partition=part.tp.partition)
    run = Run(0, len(part.entries), part.codec, part.magic, 1, 0)
    inner = list(_opened(walk, part.entries, run))
    ends, total = [], 0
    for message in inner:
        total += ENTRY_OVERHEAD[part.magic] + len(message.key or b"") + len(message.value or b"")
        ends.append(total)
    count = _middle(ends)
    if not count:
        return [part]
    reached = None if part.resume_at is None else inner[count - 1].resume_at
    return [
        _rewrapped(part, inner[:count], reached),
        _rewrapped(part, inner[count:], part.resume_at),
    ]


def _rewrapped(part: Part, inner: list[Message], resume_at: int | None) -> Part:
    rows: list[Row] = [(m.offset, m.key, m.value, m.timestamp_ms) for m in inner]
    # Gaps stay gaps: counted from 0 by one, a second split would take a message for one before it.
    relative = [m.offset - inner[0].offset for m in inner]
    return replace(
        part,
        entries=wrap(rows, part.codec, part.magic, relative),
        count=len(rows),
        resume_at=resume_at,
    )


def _middle(ends: list[int]) -> int:
    """How many of the things that end at `ends` make the first half; 0 where there are not two."""
    if len(ends) < 2:
        return 0
    half = ends[-1] // 2
    return min(max(1, bisect_right(ends, half)), len(ends) - 1)


_NOBODY = _Walk("", 0, LOWEST, True, OPEN_LIMIT)
