"""Read messages of sets of formats v0 and v1 one by one. messages.py describes the bytes of an entry.

One loop for each format, and one for neighbouring entries of one size (uniform.py).  Damage is reported when the reader
reaches it: everything before it has been yielded.

A wrapper's decompressed value is again a set of the same format: complete entries only, with nested wrappers to a fixed
depth.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

from kafkawire import compression
from kafkawire.errors import CorruptMessage, RemoteError, UnknownMagic
from kafkawire.formats.layouts import MAX_DEPTH, OPEN_LIMIT, OpenBudget, Walk
from kafkawire.formats.v01.scan import AGAIN, CODEC, ENTRY_OVERHEAD, LOG_APPEND_TIME, LOG_OVERHEAD, LOWEST, Scan, scan
from kafkawire.formats.v01.uniform import are_right, find, rows
from kafkawire.model import PIECE_BYTES, Message, MessageSet, Run, made
from kafkawire.primitives import Bytes

_WRAPPER_V0 = struct.Struct(">qiIBBii")
_WRAPPER_V1 = struct.Struct(">qiIBBqii")
_INT32 = struct.Struct(">i")
_CRC_FROM = 16


@dataclass(frozen=True, slots=True)
class Wrapper:
    """Fields of a compressed entry, with its value still compressed."""

    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp: int | None
    value: memoryview

    @property
    def codec(self) -> int:
        return self.attributes & CODEC

    @property
    def appended_ms(self) -> int | None:
        """Return the broker's timestamp for every message in it, if the broker set it."""
        return self.timestamp if self.magic and self.attributes & LOG_APPEND_TIME else None


def wrapper(buffer: Bytes, begin: int, end: int, check_crcs: bool = True) -> Wrapper:
    """Read the compressed entry at begin.  Raises CorruptMessage.  A key is legal there and ignored."""
    view = memoryview(buffer)
    offset, _, crc, magic, attributes, key_size, value_size = _WRAPPER_V0.unpack_from(view, begin)
    timestamp = None
    if magic == 1:
        offset, _, crc, magic, attributes, timestamp, key_size, value_size = _WRAPPER_V1.unpack_from(view, begin)
    if check_crcs and zlib.crc32(view[begin + _CRC_FROM : end]) != crc:
        computed = zlib.crc32(view[begin + _CRC_FROM : end])
        raise CorruptMessage(f"crc mismatch, stored {crc:08x}, computed {computed:08x}", begin, offset)
    value_at = begin + ENTRY_OVERHEAD[magic]
    if key_size != -1:
        value_at += key_size
        if key_size < 0 or value_at > end:
            raise CorruptMessage(f"a key of {key_size} bytes does not fit", begin, offset)
        (value_size,) = _INT32.unpack_from(view, value_at - 4)
    if value_size < 0 or value_at + value_size != end:
        raise CorruptMessage(f"a compressed value of {value_size} bytes, with {end - value_at} left", begin, offset)
    return Wrapper(offset, crc, magic, attributes, timestamp, view[value_at:end])


def opened(outer: Wrapper, depth: int, budget: OpenBudget) -> tuple[Bytes, Scan]:
    """Decompress a wrapper's value and find its entries: all complete, all of the wrapper's format.

    Raises CorruptMessage with a position in the decompressed bytes, or RemoteError if it cannot be decompressed.
    """
    if depth > MAX_DEPTH:
        raise CorruptMessage(f"wrappers nested deeper than {MAX_DEPTH}", 0, outer.offset)
    if outer.codec > compression.LZ4:  # zstd came with record batches
        raise RemoteError(f"unknown codec {outer.codec}")
    data = budget.opened(outer.codec, outer.value)
    found = scan(data, LOWEST)
    if found.damage:
        raise found.damage
    if found.end != len(data):
        raise CorruptMessage(f"truncated {len(data) - found.end} bytes after its beginning", found.end)
    for run in found.runs:
        if run.magic != outer.magic:
            raise UnknownMagic(f"format v{run.magic} in a wrapper of format v{outer.magic}", run.begin)
    return data, found


# Structs to read a plain entry, with no more fields than needed: each costs time.
_V0 = struct.Struct(">qiI2xii")  # offset, size, crc, key length, value length if the key is null
_V1 = struct.Struct(">qiIxBqii")  # as _V0, with attributes and timestamp before the key length
_ENTRY = struct.Struct(">qi")
CRC_FROM = 16
_SMALLEST = ENTRY_OVERHEAD[0]


def messages(message_set: MessageSet, check_crcs: bool = True, limit: int = OPEN_LIMIT) -> Iterator[Message]:
    """Yield the messages of a set from its start, lazily, including those in wrappers; entries before start are not
    checked.

    limit: maximum decompressed bytes of one wrapper.  Raises CorruptMessage (UnknownMagic), whose position is a byte of
    the set's buffer, when it reaches the damage; everything before it has been yielded.
    """
    walk = Walk(message_set.topic, message_set.partition, message_set.start, check_crcs, limit)
    for run in message_set.runs:
        if run.codec:
            yield from opened_messages(walk, message_set.buffer, run)
        else:
            at, most = run.begin, PIECE_BYTES
            while at < run.end:
                # Slicing bytes costs half of slicing a view, and a piece of them stays in the processor's cache.
                data = bytes(message_set.buffer[at : min(at + most, run.end)])
                read = yield from _PLAIN[run.magic](walk, data, 0, len(data), at, 0, None)
                at, most = at + read, PIECE_BYTES if read else LOG_OVERHEAD + _ENTRY.unpack_from(data)[1]


def _plain_v0(
    walk: Walk, data: bytes, at: int, end: int, base: int, shift: int, appended_ms: int | None
) -> Generator[Message, None, int]:
    """Yield plain entries of format v0. base: added to positions in errors; shift: added to offsets.

    Returns the end of the last complete entry.  There are no calls and no nested generators per message, since each
    costs a tenth.
    """
    topic, partition, start, check = walk.topic, walk.partition, walk.start, walk.check_crcs
    unpack, unpack_int32, crc32 = _V0.unpack_from, _INT32.unpack_from, zlib.crc32
    crc_from, log_overhead, new = CRC_FROM, LOG_OVERHEAD, object.__new__  # locals are faster than globals
    one_by_one = at  # entries before this position have different shapes
    key: bytes | None
    value: bytes | None
    while at + _SMALLEST <= end:
        if at >= one_by_one:
            same = find(data, at, end, 0)
            if same is not None and (not check or are_right(data, same)):
                keyed, valued = same.key_size >= 0, same.value_size >= 0
                for offset, key, value in rows(data, same):
                    offset += shift
                    if offset >= start:
                        message = new(Message)  # made() inlined
                        message.topic = topic
                        message.partition = partition
                        message.offset = offset
                        message.key = key if keyed else None
                        message.value = value if valued else None
                        message.resume_at = offset + 1
                        message.timestamp_ms = message.timestamp_type = message.headers = message.handed = None
                        yield message
                at = one_by_one = same.end
                continue
            one_by_one = at + AGAIN if same is None else same.end  # damage in there is found one by one
        offset, size, crc, key_size, value_size = unpack(data, at)
        offset += shift
        after = at + log_overhead + size
        if after > end:
            break
        if offset < start:
            at = after
            continue
        if check and crc32(data[at + crc_from : after]) != crc:
            raise bad_crc(data, at, after, base, offset, crc)
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
            raise CorruptMessage(f"a value of {value_size} bytes, with {after - value_at} left", base + at, offset)
        yield made(topic, partition, offset, key, value, None, None, offset + 1)
        at = after
    return at


def _plain_v1(
    walk: Walk, data: bytes, at: int, end: int, base: int, shift: int, appended_ms: int | None
) -> Generator[Message, None, int]:
    """Yield plain entries of format v1. appended_ms: timestamp of a wrapper that its broker set, for all messages in
    it."""
    topic, partition, start, check = walk.topic, walk.partition, walk.start, walk.check_crcs
    unpack, unpack_int32, crc32 = _V1.unpack_from, _INT32.unpack_from, zlib.crc32
    crc_from, log_overhead = CRC_FROM, LOG_OVERHEAD
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
            raise bad_crc(data, at, after, base, offset, crc)
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
            raise CorruptMessage(f"a value of {value_size} bytes, with {after - value_at} left", base + at, offset)
        stamped = (attributes & LOG_APPEND_TIME) >> 3
        if appended_ms is not None:
            timestamp, stamped = appended_ms, 1
        yield made(topic, partition, offset, key, value, timestamp, stamped, offset + 1)
        at = after
    return at


_Plain = Callable[[Walk, bytes, int, int, int, int, int | None], Generator[Message, None, int]]
_PLAIN: tuple[_Plain, _Plain] = (_plain_v0, _plain_v1)


def bad_crc(data: bytes, at: int, after: int, base: int, offset: int, stored: int) -> CorruptMessage:
    computed = zlib.crc32(data[at + CRC_FROM : after])
    return CorruptMessage(f"crc mismatch, stored {stored:08x}, computed {computed:08x}", base + at, offset)


# ---- wrappers --------------------------------------------------------------------------------------------------


def opened_messages(walk: Walk, buffer: Bytes, run: Run, budget: OpenBudget | None = None) -> Iterator[Message]:
    """Yield the messages of a top-level wrapper; any damage inside is reported at the wrapper's own position."""
    outer = wrapper(buffer, run.begin, run.end, walk.check_crcs)
    try:
        yield from _inside(walk, outer, outer.offset, 1, budget or OpenBudget(walk.limit))
    except CorruptMessage as exc:
        kind = type(exc)
        raise kind(f"inside the wrapper, {exc}", run.begin, exc.offset) from exc
    except RemoteError as exc:
        raise CorruptMessage(str(exc), run.begin, outer.offset) from exc


def _inside(walk: Walk, outer: Wrapper, offset: int, depth: int, budget: OpenBudget) -> Iterator[Message]:
    """Yield the content of a wrapper. offset: the wrapper's absolute offset; budget: of all depths."""
    view, found = opened(outer, depth, budget)
    data = bytes(view)  # slicing bytes costs half of slicing a view
    del view  # otherwise both copies stay in memory until the last message
    if not found.runs:
        return
    shift = shift_of(outer, found, offset, depth)
    if shift is None:
        yield from _at_one_offset(walk, outer, data, found, offset, depth, budget)
        return
    for run in found.runs:
        if run.codec:
            nested = wrapper(data, run.begin, run.end, walk.check_crcs)
            yield from _inside(walk, nested, nested.offset + shift, depth + 1, budget)
        else:
            yield from _PLAIN[run.magic](walk, data, run.begin, run.end, 0, shift, outer.appended_ms)


def shift_of(outer: Wrapper, found: Scan, offset: int, depth: int) -> int | None:
    """Return the number to add to the offsets in a wrapper with absolute offset `offset`; None if the broker did not
    number them.

    Brokers number the content of a top-level wrapper up to the wrapper's own offset.  Raises CorruptMessage for other
    offsets: resuming after them would skip messages or repeat them forever.
    """
    last = found.resume_at - 1
    shift = offset - last if outer.magic else 0
    right = found.ascends and last + shift == offset
    if depth > 1:
        return shift if right else None
    if not found.ascends or last + shift > offset:
        raise CorruptMessage(f"offsets that do not ascend to that of the wrapper, {offset}", 0, offset)
    return shift


def _at_one_offset(
    walk: Walk, outer: Wrapper, data: bytes, found: Scan, offset: int, depth: int, budget: OpenBudget
) -> Iterator[Message]:
    """Yield the messages of a nested v0 wrapper as 0.9 stores it: the broker numbered the wrapper but not its content.

    All its messages get the wrapper's offset, and only the last moves the position past it: nothing is lost, and a
    restart in the middle repeats.
    """
    if offset < walk.start:
        return
    held: Message | None = None
    try:
        for message in _unnumbered(replace(walk, start=LOWEST), outer, data, found, depth, budget):
            if held is not None:
                yield held
            held = replace(message, offset=offset, resume_at=offset)
    except RemoteError:
        if held is not None:
            yield held  # it precedes the damage, and may not be the last
        raise
    if held is not None:
        yield replace(held, resume_at=offset + 1)


def _unnumbered(
    walk: Walk, outer: Wrapper, data: bytes, found: Scan, depth: int, budget: OpenBudget
) -> Iterator[Message]:
    """Yield the messages of such a nested wrapper with the offsets that its producer set."""
    for run in found.runs:
        if run.codec:
            nested = wrapper(data, run.begin, run.end, walk.check_crcs)
            yield from _inside(walk, nested, nested.offset, depth + 1, budget)
        else:
            yield from _PLAIN[run.magic](walk, data, run.begin, run.end, 0, 0, outer.appended_ms)


NOBODY = Walk("", 0, LOWEST, True, OPEN_LIMIT)
