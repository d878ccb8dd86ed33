"""Messages of sets read one by one: the slow twin of messages(), which reads columns."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.formats.layouts import OPEN_LIMIT, OpenBudget
from kafkawire.formats.v01 import wrappers as v01
from kafkawire.formats.v01.scan import LOG_APPEND_TIME, LOWEST, Scan
from kafkawire.formats.v07 import wrappers as v07
from kafkawire.model import Message, MessageSet, Run
from kafkawire.primitives import Bytes


class OfSet:
    """Reader of one set.  Raises CorruptMessage when it reaches damage."""

    def __init__(self, whole: MessageSet, check_crcs: bool, limit: int) -> None:
        self.whole, self.check, self.limit = whole, check_crcs, limit
        self.start = whole.start

    def message(self, offset: int, value: bytes | None, resume_at: int) -> Message:
        return Message(self.whole.topic, self.whole.partition, offset, None, value, None, None, None, resume_at)

    def checked(self, covered: Bytes, stored: int, position: int, offset: int | None) -> None:
        if self.check and (computed := zlib.crc32(covered)) != stored:
            raise CorruptMessage(f"crc mismatch, stored {stored:08x}, computed {computed:08x}", position, offset)


def only_the_last_moves(messages: Iterator[Message], offset: int, after: int) -> Iterator[Message]:
    """Messages that share an offset; before damage there is no last one."""
    held: Message | None = None
    try:
        for message in messages:
            if held is not None:
                yield held
            held = replace(message, offset=offset, resume_at=offset)
    except RemoteError:
        if held is not None:
            yield held
        raise
    if held is not None:
        yield replace(held, resume_at=after)


def within(damage: RemoteError, position: int, offset: int | None) -> CorruptMessage:
    if not isinstance(damage, CorruptMessage):
        return CorruptMessage(str(damage), position, offset)
    return type(damage)(f"inside the wrapper, {damage}", position, offset)


# ---- 0.8 to 0.10 ------------------------------------------------------------------------------------------------


def messages08(whole: MessageSet, check_crcs: bool = True, limit: int = OPEN_LIMIT) -> Iterator[Message]:
    reader = Of08(whole, check_crcs, limit)
    for run in whole.runs:
        yield from reader.wrapper(run) if run.codec else reader.plain(whole.buffer, run, 0, None)


class Of08(OfSet):
    def plain(self, data: Bytes, run: Run, shift: int, appended_ms: int | None) -> Iterator[Message]:
        at = run.begin
        while at < run.end:
            offset, size, crc, magic, attributes = struct.unpack_from(">qiIBB", data, at)
            offset, after, entry = offset + shift, at + 12 + size, bytes(data[at : at + 12 + size])
            if offset >= self.start:
                self.checked(entry[16:], crc, at, offset)
                key, value = self.blobs(entry, 26 if magic else 18, at, offset)
                message = replace(self.message(offset, value, offset + 1), key=key)
                if magic:
                    message.timestamp_ms = (
                        struct.unpack_from(">q", entry, 18)[0] if appended_ms is None else appended_ms
                    )
                    message.timestamp_type = 1 if attributes & LOG_APPEND_TIME or appended_ms is not None else 0
                yield message
            at = after

    def blobs(self, entry: bytes, key_at: int, at: int, offset: int) -> tuple[bytes | None, bytes | None]:
        (key_size,) = struct.unpack_from(">i", entry, key_at)
        value_at = key_at + 4 + (0 if key_size == -1 else key_size)
        if key_size < -1 or value_at + 4 > len(entry):
            raise CorruptMessage(f"a key of {key_size} bytes does not fit", at, offset)
        (size,) = struct.unpack_from(">i", entry, value_at)
        left = len(entry) - value_at - 4
        if size != left and (size, left) != (-1, 0):
            raise CorruptMessage(f"a value of {size} bytes, with {left} left", at, offset)
        key = None if key_size == -1 else entry[key_at + 4 : value_at]
        return key, None if size == -1 else entry[value_at + 4 :]

    def wrapper(self, run: Run) -> Iterator[Message]:
        outer = v01.wrapper(self.whole.buffer, run.begin, run.end, self.check)
        try:
            yield from self.inside(outer, outer.offset, 1, OpenBudget(self.limit))
        except CorruptMessage as damage:
            raise within(damage, run.begin, damage.offset) from damage
        except RemoteError as damage:
            raise within(damage, run.begin, outer.offset) from damage

    def inside(self, outer: v01.Wrapper, offset: int, depth: int, budget: OpenBudget) -> Iterator[Message]:
        data, found = v01.opened(outer, depth, budget)
        shift = v01.shift_of(outer, found, offset, depth) if found.runs else 0
        if shift is not None:
            yield from self.content(outer, data, found, shift, depth, budget)
        elif offset >= self.start:
            before, self.start = self.start, LOWEST
            yield from only_the_last_moves(self.content(outer, data, found, 0, depth, budget), offset, offset + 1)
            self.start = before

    def content(
        self, outer: v01.Wrapper, data: Bytes, found: Scan, shift: int, depth: int, budget: OpenBudget
    ) -> Iterator[Message]:
        for run in found.runs:
            if run.codec:
                nested = v01.wrapper(data, run.begin, run.end, self.check)
                yield from self.inside(nested, nested.offset + shift, depth + 1, budget)
            else:
                yield from self.plain(data, run, shift, outer.appended_ms)


# ---- 0.7 --------------------------------------------------------------------------------------------------------


def messages07(whole: MessageSet, check_crcs: bool = True, limit: int = OPEN_LIMIT) -> Iterator[Message]:
    reader = Of07(whole, check_crcs, limit)
    for run in whole.runs:
        if run.resume_at > whole.start:
            yield from reader.wrapper(run) if run.codec else reader.plain(whole.buffer, run, run.resume_at - run.end)


class Of07(OfSet):
    def plain(self, data: Bytes, run: Run, shift: int | None) -> Iterator[Message]:
        """shift: added to a position to get the offset; None inside a wrapper, where there are no offsets."""
        at = run.begin
        while at < run.end:
            length, magic = struct.unpack_from(">iB", data, at)
            value_at, after = at + 9 + magic, at + 4 + length
            if shift is None or after + shift > self.start:
                value = bytes(data[value_at:after])
                offset = None if shift is None else at + shift
                self.checked(value, struct.unpack_from(">I", data, value_at - 4)[0], at, offset)
                yield self.message(offset or 0, value, after + (shift or 0))
            at = after

    def wrapper(self, run: Run) -> Iterator[Message]:
        at = run.resume_at - run.end + run.begin
        outer = v07.wrapper(self.whole.buffer, run.begin, run.end, self.check, at)
        try:
            inside = self.inside(outer, 1, OpenBudget(self.limit))
            yield from only_the_last_moves(inside, at, run.resume_at)
        except RemoteError as damage:
            raise within(damage, run.begin, at) from damage

    def inside(self, outer: v07.Wrapper, depth: int, budget: OpenBudget) -> Iterator[Message]:
        data, found = v07.opened(outer, depth, budget)
        for run in found.runs:
            if run.codec:
                yield from self.inside(v07.wrapper(data, run.begin, run.end, self.check), depth + 1, budget)
            else:
                yield from self.plain(data, run, None)
        if found.damage is not None:
            raise found.damage


def told(read: Callable[[], Iterator[Message]]) -> tuple[list[Message], CorruptMessage | None]:
    """The messages before the damage, and the damage."""
    found: list[Message] = []
    try:
        found.extend(read())
    except CorruptMessage as damage:
        return found, damage
    return found, None
