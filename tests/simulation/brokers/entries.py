"""What a log is made of: entries of format v0 and v1, record batches; validated, renumbered and converted by a broker.

Written apart from kafkawire's readers and writers, by the tables of wire-protocol 3 (only codecs are kafkawire's).

    admitted      a produced set as the entries that the log gets, or Refused with the code that the producer gets
                  (LogValidator, ByteBufferMessageSet.assignOffsets; 1.1 rows 9 to 12)
    stored        the entries of bytes that are in a log already (a follower's fetch)
    converted     an entry in an older format, for a fetch of an old version (FileRecords.downConvert)
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from crc32c import crc32c

from kafkawire import compression
from kafkawire.errors import WireError
from tests.simulation.brokers.releases import Rules

CODEC, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20
UNKNOWN, CORRUPT, TOO_LARGE, TIMESTAMP, UNSUPPORTED_FORMAT, ZSTD_TOO_OLD = -1, 2, 10, 32, 43, 76
OPEN_LIMIT = 256 << 20
UNREADABLE = (WireError, struct.error, IndexError, zlib.error)
HEAD = struct.Struct(">qiibIhiqqqhii")
_OFFSET = struct.Struct(">q")
_ENTRY = struct.Struct(">qiIbb")
_INT32 = struct.Struct(">i")
_CHECKED = struct.Struct(">hiqqqhii")
_BEFORE = struct.Struct(">qiibI")
OVERHEAD = HEAD.size


class Refused(Exception):
    """The broker does not append: the code of its answer; None closes the connection."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


class NothingInside(Exception):
    """Wrappers without messages: nothing is stored, and the log's end is told as the base offset."""


class Entry:
    """A plain entry, a wrapper or a batch in a log.  timestamp: its largest, -1 without any."""

    __slots__ = (
        "attributes", "base", "count", "data", "epoch", "last", "magic", "pepoch", "pid", "seq", "stored_ms",
        "timestamp",
    )  # fmt: skip

    def __init__(
        self, base: int, last: int, data: bytes, magic: int, attributes: int, timestamp: int, count: int,
        epoch: int = -1, pid: int = -1, pepoch: int = -1, seq: int = -1,
    ) -> None:  # fmt: skip
        self.base = base
        self.last = last
        self.data = data
        self.magic = magic
        self.attributes = attributes
        self.timestamp = timestamp
        self.count = count
        self.epoch = epoch
        self.pid = pid
        self.pepoch = pepoch
        self.seq = seq
        self.stored_ms = 0

    @property
    def transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def control(self) -> bool:
        return self.attributes & CONTROL != 0

    def __repr__(self) -> str:
        return f"<Entry {self.base}-{self.last} v{self.magic} {len(self.data)} bytes>"


class Message(NamedTuple):
    """One message.  headers: as they stand in a record; b"\\0" without any."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: bytes = b"\0"


# ---- produced sets ---------------------------------------------------------------------------------------------------


class Limits(NamedTuple):
    """What a topic's settings say about messages."""

    max_bytes: int
    segment_bytes: int
    append_time: bool
    compacted: bool
    largest_difference_ms: int | None  # message.timestamp.difference.max.ms


def admitted(
    data: bytes, rules: Rules, limits: Limits, version: int, base: int, epoch: int, now_ms: int
) -> list[Entry]:
    """The entries that a produced set becomes at offset `base`; none for a set without a complete entry."""
    if len(data) > 16 and data[16] == 2 and rules.message_format == 2:
        return [_batch(data, rules, limits, version, base, epoch, now_ms)]
    if len(data) > 16 and data[16] == 2 and rules.message_format == 1:
        raise Refused(CORRUPT)
    if version >= 3:  # a v2 batch must be there
        raise Refused(None if rules.closes_on_no_batch else rules.invalid_record)
    pieces = list(_shallow(data, limits.max_bytes))
    if not pieces:
        return []
    if rules.message_format == 2:
        return _as_batch(pieces, rules, limits, base, epoch, now_ms)
    if any(piece[17] & CODEC for piece in pieces):
        made = [_as_wrapper(pieces, rules, limits, base, now_ms)]
    elif rules.message_format == 0:
        made = [_plain(piece, base + n, rules, limits) for n, piece in enumerate(pieces)]
    else:
        made = [_plain_v1(piece, base + n, rules, limits, now_ms) for n, piece in enumerate(pieces)]
    if any(len(entry.data) > limits.max_bytes for entry in made):
        raise Refused(TOO_LARGE)
    if sum(len(entry.data) for entry in made) > limits.segment_bytes:
        raise Refused(18)
    return made


def _shallow(data: bytes, max_bytes: int) -> Iterator[bytes]:
    """Complete entries of v0 and v1; size is tested before the checksum (LOG.analyzeAndValidateMessageSet)."""
    at, end = 0, len(data)
    while at + 12 <= end:
        (size,) = _INT32.unpack_from(data, at + 8)
        if size < 14:
            raise Refused(CORRUPT)
        until = at + 12 + size
        if until > end:
            return
        if 12 + size > max_bytes:
            raise Refused(TOO_LARGE)
        piece = data[at:until]
        if piece[16] < 2 and zlib.crc32(memoryview(piece)[16:]) != int.from_bytes(piece[12:16], "big"):
            raise Refused(CORRUPT)
        yield piece
        at = until


def _plain(piece: bytes, offset: int, rules: Rules, limits: Limits) -> Entry:
    """0.8, 0.9: renumbered in place; the magic is not looked at."""
    if limits.compacted and rules.refuses_keyless and _INT32.unpack_from(piece, 18)[0] <= 0:
        raise Refused(CORRUPT)
    return Entry(offset, offset, _OFFSET.pack(offset) + piece[8:], piece[16], piece[17], -1, 1)


def _plain_v1(piece: bytes, offset: int, rules: Rules, limits: Limits, now_ms: int) -> Entry:
    message = _message(piece)
    _check_message(message, piece[16], piece[17], rules, limits, now_ms)
    if piece[16] == 1 and not limits.append_time:
        return Entry(offset, offset, _OFFSET.pack(offset) + piece[8:], 1, piece[17], message.timestamp, 1)
    stamp = now_ms if limits.append_time else message.timestamp
    attributes = LOG_APPEND_TIME if limits.append_time else 0
    return Entry(
        offset, offset, _entry(offset, 1, attributes, stamp, message.key, message.value), 1, attributes, stamp, 1
    )


def _check_message(message: Message, magic: int, attributes: int, rules: Rules, limits: Limits, now_ms: int) -> None:
    if limits.compacted and message.key is None and rules.refuses_keyless:
        raise Refused(rules.invalid_record)
    if magic >= 1 and attributes & LOG_APPEND_TIME and rules.refuses_append_time:
        raise Refused(TIMESTAMP)
    most = limits.largest_difference_ms
    if most is None or limits.append_time or (message.timestamp < 0 and (magic == 0 or rules.timeless_passes)):
        return
    if abs(now_ms - message.timestamp) > most:
        raise Refused(TIMESTAMP)


def _as_wrapper(pieces: Sequence[bytes], rules: Rules, limits: Limits, base: int, now_ms: int) -> Entry:
    """One wrapper of all messages with the codec of the last wrapper (ByteBufferMessageSet.assignOffsets)."""
    codec = next(piece[17] & CODEC for piece in reversed(pieces) if piece[17] & CODEC)
    inner: list[bytes] = []
    try:
        for piece in pieces:
            inner += _flattened(piece, rules)
    except UNREADABLE:
        raise Refused(UNKNOWN) from None
    if not inner:
        if rules.message_format:
            raise Refused(UNKNOWN)
        raise NothingInside
    if rules.message_format == 0:
        if any(one[16] != 0 for one in inner):
            raise Refused(UNKNOWN)
        if limits.compacted and rules.refuses_keyless and any(_INT32.unpack_from(one, 18)[0] <= 0 for one in inner):
            raise Refused(CORRUPT)
        last = base + len(inner) - 1
        numbered = b"".join(_OFFSET.pack(base + n) + one[8:] for n, one in enumerate(inner))
        value = _compressed(codec, numbered, 0)
        return Entry(base, last, _entry(last, 0, codec, -1, None, value), 0, codec, -1, len(inner))
    messages = [_message(one) for one in inner]
    for one, message in zip(inner, messages, strict=True):
        _check_message(message, one[16], one[17], rules, limits, now_ms)
    last = base + len(inner) - 1
    newest = now_ms if limits.append_time else max((message.timestamp for message in messages), default=-1)
    attributes = codec | (LOG_APPEND_TIME if limits.append_time else 0)
    only = pieces[0]
    if (
        len(pieces) == 1
        and only[16] == 1
        and not limits.append_time
        and all(one[16] == 1 and int.from_bytes(one[:8], "big") == n for n, one in enumerate(inner))
    ):  # kept in place
        outer = _message(only)
        return Entry(base, last, _entry(last, 1, codec, newest, None, outer.value), 1, codec, newest, len(inner))
    value = _compressed(
        codec, b"".join(_entry(n, 1, 0, m.timestamp, m.key, m.value) for n, m in enumerate(messages)), 1
    )
    return Entry(base, last, _entry(last, 1, attributes, newest, None, value), 1, attributes, newest, len(inner))


def _flattened(piece: bytes, rules: Rules, depth: int = 0) -> list[bytes]:
    """The plain entries in an entry; nested wrappers as the release does it."""
    codec = piece[17] & CODEC
    if not codec:
        return [piece]
    if depth and not rules.opens_nested:
        if rules.refuses_nested:
            raise Refused(rules.invalid_record)
        return [piece]
    found: list[bytes] = []
    outer = _message(piece)
    inside = list(_pieces(_opened(codec, outer.value or b"")))
    if rules.checks_inner and piece[16] == 1 and inside and 0 != outer.offset < _OFFSET.unpack_from(inside[-1])[0]:
        raise Refused(rules.invalid_record)
    for one in inside:
        if rules.checks_inner and zlib.crc32(memoryview(one)[16:]) != int.from_bytes(one[12:16], "big"):
            raise Refused(CORRUPT)
        found += _flattened(one, rules, depth + 1)
    return found


def _as_batch(pieces: Sequence[bytes], rules: Rules, limits: Limits, base: int, epoch: int, now_ms: int) -> list[Entry]:
    """Messages of Produce v0 to v2 as one record batch (LogValidator)."""
    wrappers = sum(1 for piece in pieces if piece[17] & CODEC)
    if rules.one_wrapper_a_set and (len({piece[16] for piece in pieces}) > 1 or (wrappers and len(pieces) > 1)):
        raise Refused(rules.invalid_record)
    codec = next((piece[17] & CODEC for piece in reversed(pieces) if piece[17] & CODEC), 0)
    inner: list[bytes] = []
    try:
        for piece in pieces:
            inner += _flattened(piece, rules)
        messages = [_message(one) for one in inner]
    except UNREADABLE:
        raise Refused(UNKNOWN) from None
    for one, message in zip(inner, messages, strict=True):
        _check_message(message, one[16], one[17], rules, limits, now_ms)
    if not messages:
        raise Refused(rules.invalid_record)
    entry = batch_of(messages, base, epoch, codec, append_ms=now_ms if limits.append_time else None)
    if len(entry.data) > limits.max_bytes:
        raise Refused(TOO_LARGE)
    if len(entry.data) > limits.segment_bytes:
        raise Refused(18)
    return [entry]


def _batch(data: bytes, rules: Rules, limits: Limits, version: int, base: int, epoch: int, now_ms: int) -> Entry:
    """A produced record batch, renumbered: base offset and leader epoch stand outside the checksum.

    0.11 numbers the last record and does not look at the number that the head tells: a batch that tells more than it
    holds begins below the log's end (seen with 0.11.0.3).
    """
    if len(data) < OVERHEAD:
        raise Refused(None if rules.closes_on_no_batch else rules.invalid_record)
    (first, size, _, _, crc, attributes, delta, first_ms, newest_ms, pid, pepoch, seq, count) = HEAD.unpack_from(data)
    if 12 + size != len(data):
        if 12 + size > len(data) or size < OVERHEAD - 12:
            raise Refused(CORRUPT)
        raise Refused(None if rules.closes_on_no_batch else rules.invalid_record)
    if first != 0:
        raise Refused(rules.invalid_record)
    if len(data) > limits.max_bytes:
        raise Refused(TOO_LARGE)
    if crc32c(memoryview(data)[21:]) != crc:
        raise Refused(CORRUPT)
    if len(data) > limits.segment_bytes:
        raise Refused(18)
    codec = attributes & CODEC
    if codec == 4 and (not rules.zstd or version < 7):
        raise Refused(ZSTD_TOO_OLD)
    if attributes & CONTROL or count < 1 or (rules.counts_records and delta != count - 1):
        raise Refused(rules.invalid_record)
    if pid >= 0 and seq < 0:
        raise Refused(rules.invalid_record)
    if attributes & TRANSACTIONAL and pid < 0 and rules.counts_records:
        raise Refused(rules.invalid_record)
    if attributes & LOG_APPEND_TIME and rules.refuses_append_time:
        raise Refused(TIMESTAMP)
    newest = _check_records(data, codec, count, first_ms, rules, limits, now_ms)
    base += count - 1 - delta
    if limits.append_time or newest != newest_ms or attributes & LOG_APPEND_TIME:
        newest = now_ms if limits.append_time else newest
        attributes = attributes | LOG_APPEND_TIME if limits.append_time else attributes & ~LOG_APPEND_TIME
        checked = _CHECKED.pack(attributes, delta, first_ms, newest, pid, pepoch, seq, count) + data[OVERHEAD:]
        data = _BEFORE.pack(base, size, epoch, 2, crc32c(checked)) + checked
    else:
        data = b"%b%b%b%b" % (_OFFSET.pack(base), data[8:12], _INT32.pack(epoch), data[16:])
    return Entry(base, base + delta, data, 2, attributes, newest, count, epoch, pid, pepoch, seq)


def _check_records(
    data: bytes, codec: int, count: int, first_ms: int, rules: Rules, limits: Limits, now_ms: int
) -> int:
    """The largest timestamp.  Refuses records whose offsets are not 0, 1, 2 ... or that do not fill the batch."""
    body = data[OVERHEAD:]
    if codec:
        try:
            body = _opened(codec, body)
        except UNREADABLE:
            raise Refused(rules.invalid_record) from None
    at, newest, most = 0, -1, limits.largest_difference_ms
    try:
        for n in range(count):
            size, at = varint(body, at)
            until = at + size
            if size < 0 or until > len(body):
                raise Refused(rules.invalid_record)
            delta_ms, at = varint(body, at + 1)
            delta, at = varint(body, at)
            if delta != n:
                raise Refused(rules.invalid_record)
            stamp = first_ms + delta_ms
            if limits.compacted and varint(body, at)[0] < 0:
                raise Refused(rules.invalid_record)
            if most is not None and not limits.append_time and stamp >= 0 and abs(now_ms - stamp) > most:
                raise Refused(TIMESTAMP)
            newest = max(newest, stamp)
            at = until
    except IndexError:
        raise Refused(rules.invalid_record) from None
    if at != len(body):
        raise Refused(rules.invalid_record)
    return newest


# ---- reading and writing of single forms -----------------------------------------------------------------------------


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A zig-zag number and where it ends."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at
        shift += 7


def written(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _blob(data: bytes | None) -> bytes:
    return b"\1" if data is None else written(len(data)) + data


def _entry(offset: int, magic: int, attributes: int, stamp: int, key: bytes | None, value: bytes | None) -> bytes:
    """One entry of format v0 or v1."""
    body = bytes((magic, attributes)) + (_OFFSET.pack(stamp) if magic else b"")
    body += _INT32.pack(-1) if key is None else _INT32.pack(len(key)) + key
    body += _INT32.pack(-1) if value is None else _INT32.pack(len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def _message(piece: bytes) -> Message:
    """The fields of one entry of format v0 or v1; a wrapper's value stays compressed."""
    (offset,) = _OFFSET.unpack_from(piece)
    stamp, at = (_OFFSET.unpack_from(piece, 18)[0], 26) if piece[16] else (-1, 18)
    (size,) = _INT32.unpack_from(piece, at)
    at += 4
    key = None if size < 0 else piece[at : at + size]
    at += max(size, 0)
    (size,) = _INT32.unpack_from(piece, at)
    return Message(offset, stamp, key, None if size < 0 else piece[at + 4 : at + 4 + size])


def _pieces(data: bytes) -> Iterator[bytes]:
    """Complete entries of any format."""
    at = 0
    while at + 17 <= len(data):
        until = at + 12 + _INT32.unpack_from(data, at + 8)[0]
        if until > len(data) or until < at + 26:
            return
        yield data[at:until]
        at = until


def _opened(codec: int, data: bytes) -> bytes:
    return zlib.decompress(data, wbits=31) if codec == 1 else compression.decompress(codec, data, OPEN_LIMIT)


def _compressed(codec: int, data: bytes, magic: int) -> bytes:
    return bytes(compression.compress(codec, data, magic))


def batch_of(
    messages: Sequence[Message], base: int, epoch: int, codec: int = 0, *, attributes: int = 0, pid: int = -1,
    pepoch: int = -1, seq: int = -1, append_ms: int | None = None, last: int | None = None,
    offsets: Sequence[int] | None = None,
) -> Entry:  # fmt: skip
    """A record batch of messages, numbered from `base` on, or at these offsets."""
    numbers = range(base, base + len(messages)) if offsets is None else offsets
    first_ms = messages[0].timestamp if messages else -1
    parts = []
    for number, m in zip(numbers, messages, strict=True):
        body = (
            b"\0" + written(m.timestamp - first_ms) + written(number - base) + _blob(m.key) + _blob(m.value) + m.headers
        )
        parts.append(written(len(body)) + body)
    records = b"".join(parts)
    newest = max((m.timestamp for m in messages), default=-1)
    if append_ms is not None:
        attributes, newest = attributes | LOG_APPEND_TIME, append_ms
    if codec and messages:
        attributes |= codec
        records = _compressed(codec, records, 2)
    last = last if last is not None else numbers[-1] if len(numbers) else base
    checked = _CHECKED.pack(attributes, last - base, first_ms, newest, pid, pepoch, seq, len(messages)) + records
    data = _BEFORE.pack(base, OVERHEAD - 12 + len(records), epoch, 2, crc32c(checked)) + checked
    return Entry(base, last, data, 2, attributes, newest, len(messages), epoch, pid, pepoch, seq)


def marker(base: int, epoch: int, pid: int, pepoch: int, coordinator_epoch: int, commit: bool, now_ms: int) -> Entry:
    """The control batch that ends a transaction."""
    end = Message(base, now_ms, struct.pack(">hh", 0, 1 if commit else 0), struct.pack(">hi", 0, coordinator_epoch))
    return batch_of([end], base, epoch, attributes=TRANSACTIONAL | CONTROL, pid=pid, pepoch=pepoch)


def stored(data: bytes) -> list[Entry]:
    """The entries of bytes that are in a log already, offsets and all."""
    found = []
    for piece in _pieces(data):
        if piece[16] == 2:
            (base, _, epoch, _, _, attributes, delta, _, newest, pid, pepoch, seq, count) = HEAD.unpack_from(piece)
            found.append(Entry(base, base + delta, piece, 2, attributes, newest, count, epoch, pid, pepoch, seq))
        else:
            messages = list(opened(piece))
            stamp = _OFFSET.unpack_from(piece, 18)[0] if piece[16] else -1
            last = int.from_bytes(piece[:8], "big")
            first = messages[0].offset if messages else last
            found.append(Entry(first, last, piece, piece[16], piece[17], stamp, len(messages)))
    return found


def opened(piece: bytes) -> Iterator[Message]:
    """The messages of one entry or batch with their offsets and timestamps in the log."""
    if piece[16] == 2:
        (base, _, _, _, _, attributes, _, first_ms, newest, _, _, _, count) = HEAD.unpack_from(piece)
        body = piece[OVERHEAD:]
        if attributes & CODEC and count:
            body = _opened(attributes & CODEC, body)
        at = 0
        for _ in range(count):
            size, at = varint(body, at)
            until = at + size
            delta_ms, at = varint(body, at + 1)
            delta, at = varint(body, at)
            size, at = varint(body, at)
            key = None if size < 0 else body[at : at + size]
            at += max(size, 0)
            size, at = varint(body, at)
            value = None if size < 0 else body[at : at + size]
            at += max(size, 0)
            stamp = newest if attributes & LOG_APPEND_TIME else first_ms + delta_ms
            yield Message(base + delta, stamp, key, value, body[at:until])
            at = until
        return
    codec = piece[17] & CODEC
    outer = _message(piece)
    if not codec:
        yield outer
        return
    inner = [_message(one) for one in _pieces(_opened(codec, outer.value or b""))]
    shift = outer.offset - inner[-1].offset if inner else 0
    for one in inner:
        stamp = outer.timestamp if piece[16] and piece[17] & LOG_APPEND_TIME else one.timestamp
        yield one._replace(offset=one.offset + shift, timestamp=stamp)


def converted(entry: Entry, magic: int, since: int) -> bytes:
    """An entry of a newer format as entries of an older one: messages from `since` on; none of a control batch.

    A compressed batch becomes one wrapper; headers are lost, of v0 timestamps too.
    """
    if entry.magic <= magic:
        return entry.data
    if entry.magic == 2 and entry.attributes & CONTROL:
        return b""
    codec = entry.attributes & CODEC
    messages = [one for one in opened(entry.data) if codec or one.offset >= since]
    if not messages:
        return b""
    bit = LOG_APPEND_TIME if magic and entry.attributes & LOG_APPEND_TIME else 0
    if not codec:
        return b"".join(_entry(m.offset, magic, bit, m.timestamp, m.key, m.value) for m in messages)
    return _wrapped(messages, magic, codec, bit)


def _wrapped(messages: Sequence[Message], magic: int, codec: int, bit: int) -> bytes:
    first, last = messages[0].offset, messages[-1].offset
    inner = b"".join(
        _entry(m.offset - first if magic else m.offset, magic, bit, m.timestamp, m.key, m.value) for m in messages
    )
    newest = max(m.timestamp for m in messages)
    return _entry(last, magic, codec | bit, newest, None, _compressed(codec, inner, magic))


def converted_as_one(entries: Sequence[Entry]) -> bytes:
    """Entries of format v1 as v0, all plain or all in one wrapper, as the first of them is (seen with 0.10.2.2)."""
    messages = [one for entry in entries for one in opened(entry.data)]
    codec = entries[0].attributes & CODEC
    if codec:
        return _wrapped(messages, 0, codec, 0)
    return b"".join(_entry(m.offset, 0, 0, -1, m.key, m.value) for m in messages)


def is_zstd(entry: Entry) -> bool:
    return entry.magic == 2 and entry.attributes & CODEC == 4


def keyed(piece: bytes) -> list[tuple[int, Any, bool]]:
    """(offset, key, whether it is a tombstone) of the messages of an entry, for compaction."""
    return [(one.offset, one.key, one.value is None) for one in opened(piece)]


def wrapper_of(messages: Sequence[Message], like: Entry) -> Entry:
    """A wrapper of some of the messages of another one, offsets as they are (compaction leaves holes)."""
    codec, magic, last = like.attributes & CODEC, like.magic, messages[-1].offset
    shift = like.base if magic else 0
    inner = b"".join(_entry(m.offset - shift, magic, 0, m.timestamp, m.key, m.value) for m in messages)
    newest = max(m.timestamp for m in messages)
    data = _entry(last, magic, like.attributes, newest, None, _compressed(codec, inner, magic))
    return Entry(messages[0].offset, last, data, magic, like.attributes, newest, len(messages))
