"""Messages of sets of 0.7, one by one.  The bytes of an entry are described in messages.py.

What is damaged is reported when the reader gets there: everything before it has been yielded.

A wrapper's payload, opened, is again a set: entries of either format, wrappers among them to a fixed depth.  The last
one may be cut: brokers accept such a wrapper, and the cut entry is no message.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

from kafkawire.compression import GZIP, SNAPPY
from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.formats.layouts import MAX_DEPTH, OPEN_LIMIT, OpenBudget, Walk
from kafkawire.formats.v07.layout import CODEC, ENTRY_OVERHEAD, HEADS, LENGTH, LOG_OVERHEAD, MAGIC_1
from kafkawire.formats.v07.scan import AGAIN, scan
from kafkawire.formats.v07.uniform import are_right, find, values
from kafkawire.model import PIECE_BYTES, Message, MessageSet, Run, Scan, made
from kafkawire.primitives import Bytes

_HEAD = struct.Struct(">4xBBI")


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A compressed entry's own fields, and its payload still compressed.  Its format is always that of magic 1."""

    crc: int
    attributes: int
    value: memoryview
    magic: int = MAGIC_1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC


def wrapper(buffer: Bytes, begin: int, end: int, check_crcs: bool = True, offset: int | None = None) -> Wrapper:
    """The compressed entry at begin, whose position in the log is offset.  Raises CorruptMessage."""
    view = memoryview(buffer)
    _, attributes, crc = _HEAD.unpack_from(view, begin)
    value = view[begin + ENTRY_OVERHEAD[MAGIC_1] : end]
    if check_crcs and zlib.crc32(value) != crc:
        raise CorruptMessage(f"crc mismatch, stored {crc:08x}, computed {zlib.crc32(value):08x}", begin, offset)
    return Wrapper(crc, attributes, value)


def opened(outer: Wrapper, depth: int, budget: OpenBudget) -> tuple[Bytes, Scan]:
    """A wrapper's payload decompressed, and its complete entries found; their damage is for who has done them to raise.

    Raises CorruptMessage with a position in the opened bytes,
    or RemoteError for what does not decompress.
    """
    if depth > MAX_DEPTH:
        raise CorruptMessage(f"wrappers nested deeper than {MAX_DEPTH}", 0)
    if outer.codec not in (GZIP, SNAPPY):  # 3 is lz4 from 0.8.2 on, and nothing in 0.7
        raise RemoteError(f"unknown codec {outer.codec}")
    data = budget.opened(outer.codec, outer.value)
    found = scan(data, 0)
    return data, found if found.end == len(data) else replace(found, damage=_damaged_tail(data, found))


def _damaged_tail(data: Bytes, found: Scan) -> CorruptMessage | None:
    """What is wrong with the bytes behind the complete entries; None: the original's iterator just ends there.

    It ends at a length that is cut, and at one beyond the bytes there are, whatever the magic behind it says; but not
    at one beyond the bytes in front of all (ByteBufferMessageSet.internalIterator of 0.7.2).
    """
    at, left = found.end, len(data) - found.end
    if left < LOG_OVERHEAD or (at and LOG_OVERHEAD + LENGTH.unpack_from(data, at)[0] > left):
        return None
    damage = found.damage or CorruptMessage(f"cut {left} bytes after its beginning", at)
    return type(damage)(damage.why, at)  # nothing in here has a position in the log


def messages(message_set: MessageSet, check_crcs: bool = True, limit: int = OPEN_LIMIT) -> Iterator[Message]:
    """The messages of a set from its start on, lazily, inner ones included; what is before start is not even checked.

    limit bounds the bytes one wrapper opens to.  Raises CorruptMessage (UnknownMagic), whose position is a byte of the
    set's buffer, when it gets to the damage: everything before it has been yielded.
    """
    walk = Walk(message_set.topic, message_set.partition, message_set.start, check_crcs, limit)
    for run in message_set.runs:
        if run.resume_at <= walk.start:
            continue
        if run.codec:
            yield from opened_messages(walk, message_set.buffer, run)
        else:
            at, most, first = run.begin, PIECE_BYTES, run.resume_at - run.end
            while at < run.end:
                # Slices of bytes cost half of those of a view, and a piece of them stays in the processor's cache.
                data = bytes(message_set.buffer[at : min(at + most, run.end)])
                read = yield from _plain(walk, data, run.magic, at, first + at)
                at, most = at + read, PIECE_BYTES if read else LOG_OVERHEAD + LENGTH.unpack_from(data)[0]


NOBODY = Walk("", 0, 0, True, OPEN_LIMIT)


def _plain(walk: Walk, data: bytes, magic: int, base: int, first: int) -> Generator[Message, None, int]:
    """Plain entries of one format, the first of them at byte `base` of the set and position `first` of the log.

    Returns the end of the last complete entry.  No calls and no further generators for a message: each costs a tenth.
    """
    topic, partition, start, check = walk.topic, walk.partition, walk.start, walk.check_crcs
    unpack, crc32, overhead = HEADS[magic].unpack_from, zlib.crc32, ENTRY_OVERHEAD[magic]
    new = object.__new__
    at, end, one_by_one = 0, len(data), 0  # up to the last they are not alike
    while at + overhead <= end:
        if at >= one_by_one:
            same = find(data, at, end, magic)
            if same is not None and (not check or are_right(data, same)):
                here, step = first + at, same.step
                for value in values(data, same):
                    behind = here + step
                    if behind > start:
                        message = new(Message)  # made() without a call
                        message.topic = topic
                        message.partition = partition
                        message.offset = here
                        message.value = value
                        message.resume_at = behind
                        message.key = message.timestamp_ms = message.timestamp_type = None
                        message.headers = message.handed = None
                        yield message
                    here = behind
                at = one_by_one = same.end
                continue
            one_by_one = at + AGAIN if same is None else same.end  # what is damaged there is found one by one
        length, crc = unpack(data, at)
        after = at + LOG_OVERHEAD + length
        if after > end:
            break
        if first + after > start:
            value = data[at + overhead : after]
            if check and crc32(value) != crc:
                raise bad_crc(value, crc, base + at, first + at)
            yield made(topic, partition, first + at, None, value, None, None, first + after)
        at = after
    return at


def bad_crc(value: Bytes, stored: int, position: int, offset: int | None) -> CorruptMessage:
    return CorruptMessage(f"crc mismatch, stored {stored:08x}, computed {zlib.crc32(value):08x}", position, offset)


# ---- wrappers --------------------------------------------------------------------------------------------------


def opened_messages(walk: Walk, buffer: Bytes, run: Run, budget: OpenBudget | None = None) -> Iterator[Message]:
    """The messages of a top-level wrapper, all at its position; only the last moves the position past it.

    Any damage within is reported at the wrapper's own position, and what is before it is not known to be the last.
    """
    at, after = run.resume_at - run.end + run.begin, run.resume_at
    outer = wrapper(buffer, run.begin, run.end, walk.check_crcs, at)
    held: bytes | None = None
    try:
        for value in _inside(walk, outer, 1, budget or OpenBudget(walk.limit)):
            if held is not None:
                yield _inner(walk, at, held, at)
            held = value
    except RemoteError as exc:
        if held is not None:
            yield _inner(walk, at, held, at)
        raise within(exc, run.begin, at) from exc
    if held is not None:
        yield _inner(walk, at, held, after)


def _inner(walk: Walk, at: int, value: bytes, resume_at: int) -> Message:
    return made(walk.topic, walk.partition, at, None, value, None, None, resume_at)


def within(damage: RemoteError, wrapper_at: int, offset: int) -> CorruptMessage:
    """Damage in a wrapper is reported at the wrapper's own byte and position."""
    if not isinstance(damage, CorruptMessage):
        return CorruptMessage(str(damage), wrapper_at, offset)
    return type(damage)(f"inside the wrapper, {damage}", wrapper_at, offset)


def _inside(walk: Walk, outer: Wrapper, depth: int, budget: OpenBudget) -> Iterator[bytes]:
    """The payloads a wrapper holds, those of wrappers in it included.  budget: of all depths."""
    view, found = opened(outer, depth, budget)
    data = bytes(view)  # slices of bytes cost half of those of a view
    del view  # or there are two of it until the last message
    for run in found.runs:
        if run.codec:
            yield from _inside(walk, wrapper(data, run.begin, run.end, walk.check_crcs), depth + 1, budget)
            continue
        at, unpack, overhead = run.begin, HEADS[run.magic].unpack_from, ENTRY_OVERHEAD[run.magic]
        one_by_one = at
        while at < run.end:
            if at >= one_by_one:
                same = find(data, at, run.end, run.magic)
                if same is not None and (not walk.check_crcs or are_right(data, same)):
                    yield from values(data, same)
                    at = one_by_one = same.end
                    continue
                one_by_one = at + AGAIN if same is None else same.end
            length, crc = unpack(data, at)
            after = at + LOG_OVERHEAD + length
            value = data[at + overhead : after]
            if walk.check_crcs and zlib.crc32(value) != crc:
                raise bad_crc(value, crc, at, None)
            yield value
            at = after
    if found.damage is not None:
        raise found.damage
