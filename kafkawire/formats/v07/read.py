"""Read messages of 0.7 sets one by one. messages.py describes the bytes of an entry.

Damage is reported when the reader reaches it: everything before it has been yielded.

A wrapper's decompressed payload is again a set: entries of either format, with nested wrappers to a fixed depth.  The
last entry may be truncated: brokers accept such a wrapper, and that entry is not a message.
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
    """Fields of a compressed entry, with its payload still compressed.  Its magic is always 1."""

    crc: int
    attributes: int
    value: memoryview
    magic: int = MAGIC_1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC


def wrapper(buffer: Bytes, begin: int, end: int, check_crcs: bool = True, offset: int | None = None) -> Wrapper:
    """Read the compressed entry at byte begin, whose offset in the log is `offset`.  Raises CorruptMessage."""
    view = memoryview(buffer)
    _, attributes, crc = _HEAD.unpack_from(view, begin)
    value = view[begin + ENTRY_OVERHEAD[MAGIC_1] : end]
    if check_crcs and zlib.crc32(value) != crc:
        raise CorruptMessage(f"crc mismatch, stored {crc:08x}, computed {zlib.crc32(value):08x}", begin, offset)
    return Wrapper(crc, attributes, value)


def opened(outer: Wrapper, depth: int, budget: OpenBudget) -> tuple[Bytes, Scan]:
    """Decompress a wrapper's payload and find its complete entries; the caller raises their damage after reading them.

    Raises CorruptMessage with a position in the decompressed bytes, or RemoteError if it cannot be decompressed.
    """
    if depth > MAX_DEPTH:
        raise CorruptMessage(f"wrappers nested deeper than {MAX_DEPTH}", 0)
    if outer.codec not in (GZIP, SNAPPY):  # 3 is lz4 in 0.8.2 and later, and undefined in 0.7
        raise RemoteError(f"unknown codec {outer.codec}")
    data = budget.opened(outer.codec, outer.value)
    found = scan(data, 0)
    return data, found if found.end == len(data) else replace(found, damage=_damaged_tail(data, found))


def _damaged_tail(data: Bytes, found: Scan) -> CorruptMessage | None:
    """Return what is wrong with the bytes after the complete entries; None if the original's iterator just ends there.

    That iterator ends at a truncated length, and at one beyond the remaining bytes, whatever magic follows; but not at
    a length larger than the whole buffer (ByteBufferMessageSet.internalIterator of 0.7.2).
    """
    at, left = found.end, len(data) - found.end
    if left < LOG_OVERHEAD or (at and LOG_OVERHEAD + LENGTH.unpack_from(data, at)[0] > left):
        return None
    damage = found.damage or CorruptMessage(f"truncated {left} bytes after its beginning", at)
    return type(damage)(damage.why, at)  # bytes in here have no offset in the log


def messages(message_set: MessageSet, check_crcs: bool = True, limit: int = OPEN_LIMIT) -> Iterator[Message]:
    """Yield the messages of a set from its start, lazily, including those in wrappers; entries before start are not
    checked.

    limit: maximum decompressed bytes of one wrapper.  Raises CorruptMessage (UnknownMagic), whose position is a byte of
    the set's buffer, when it reaches the damage; everything before it has been yielded.
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
                # Slicing bytes costs half of slicing a view, and a piece of them stays in the processor's cache.
                data = bytes(message_set.buffer[at : min(at + most, run.end)])
                read = yield from _plain(walk, data, run.magic, at, first + at)
                at, most = at + read, PIECE_BYTES if read else LOG_OVERHEAD + LENGTH.unpack_from(data)[0]


NOBODY = Walk("", 0, 0, True, OPEN_LIMIT)


def _plain(walk: Walk, data: bytes, magic: int, base: int, first: int) -> Generator[Message, None, int]:
    """Yield plain entries of one format, the first at byte `base` of the set and offset `first` of the log.

    Returns the end of the last complete entry.  There are no calls and no nested generators per message, since each
    costs a tenth.
    """
    topic, partition, start, check = walk.topic, walk.partition, walk.start, walk.check_crcs
    unpack, crc32, overhead = HEADS[magic].unpack_from, zlib.crc32, ENTRY_OVERHEAD[magic]
    new = object.__new__
    at, end, one_by_one = 0, len(data), 0  # entries before one_by_one have different shapes
    while at + overhead <= end:
        if at >= one_by_one:
            same = find(data, at, end, magic)
            if same is not None and (not check or are_right(data, same)):
                here, step = first + at, same.step
                for value in values(data, same):
                    behind = here + step
                    if behind > start:
                        message = new(Message)  # made() inlined
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
            one_by_one = at + AGAIN if same is None else same.end  # damage in there is found one by one
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
    """Yield the messages of a top-level wrapper, all at its offset; only the last moves the offset past it.

    Any damage inside is reported at the wrapper's own offset, and no message before it counts as the last.
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
    """Return damage inside a wrapper as damage at the wrapper's own byte and offset."""
    if not isinstance(damage, CorruptMessage):
        return CorruptMessage(str(damage), wrapper_at, offset)
    return type(damage)(f"inside the wrapper, {damage}", wrapper_at, offset)


def _inside(walk: Walk, outer: Wrapper, depth: int, budget: OpenBudget) -> Iterator[bytes]:
    """Yield the payloads in a wrapper, including those in nested wrappers. budget: of all depths."""
    view, found = opened(outer, depth, budget)
    data = bytes(view)  # slicing bytes costs half of slicing a view
    del view  # otherwise both copies stay in memory until the last message
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
