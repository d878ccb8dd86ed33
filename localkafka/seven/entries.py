"""Entries of 0.7: a broker's checks of them, and their construction for tests, independent of logs and sockets.

    entry = size:int32  magic:int8  [attributes:int8 if magic is 1]  crc:uint32  payload
            size counts all that follows it; crc covers the payload only; attributes & 3 is the codec

Independent of kafkawire's formats on purpose: the test broker must not share the clients' mistakes. Source: Message,
ByteBufferMessageSet, FileMessageSet.recover and Log.append of 0.7.2.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kafkawire.compression import compress, decompress
from kafkawire.errors import RemoteError

SIZE = struct.Struct(">i")
CRC = struct.Struct(">I")
HEADER = {0: 5, 1: 6}  # bytes before the payload, by magic
LEAST = HEADER[0]
OPENED = 1 << 28  # maximum of a wrapper's decompressed bytes; the original has no limit


class Refused(Exception):
    """The broker closes the connection without a response; the text is the reason."""


class BadCrc(Refused):
    """An entry whose CRC does not match its payload."""


class TooLarge(Exception):
    """A payload over max.message.size: 0.7.2 drops the whole set silently and keeps the connection."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A complete entry, with its position in its set.  Codec 3 does not exist; see `checked`."""

    start: int
    end: int
    magic: int
    codec: int
    payload: memoryview


@dataclass(frozen=True, slots=True)
class Row:
    """A message as read: its entry's position, the byte offset to resume at after it (the wrapper's start for all but
    the wrapper's last message), its value."""

    position: int
    resume_at: int
    value: bytes


def entries(data: memoryview) -> Iterator[Entry]:
    """Yield the complete entries of a set, without a truncated one at its end.  Raises Refused where the original
    throws: a truncated first entry, a negative size, an unknown magic, an entry too short for its header, a wrong
    CRC."""
    at = 0
    while len(data) - at >= SIZE.size:
        size: int = SIZE.unpack_from(data, at)[0]
        end = at + SIZE.size + size
        if size < 0 or end > len(data):
            if at == 0 or size < 0:
                raise Refused(f"message size {size} at {at} of {len(data)} bytes")
            return
        yield entry(data, at, end)
        at = end


def entry(data: memoryview, at: int, end: int) -> Entry:
    """Return the entry in these bytes.  Raises Refused."""
    body = data[at + SIZE.size : end]
    if not body:
        raise Refused(f"message of size 0 at {at}")
    magic = body[0]
    header = HEADER.get(magic)
    if header is None:
        raise Refused(f"unknown magic {magic} at {at}")
    if len(body) < header:
        raise Refused(f"message of size {len(body)} at {at} has no room for its header")
    payload = body[header:]
    if zlib.crc32(payload) != CRC.unpack_from(body, header - CRC.size)[0]:
        raise BadCrc(f"wrong CRC at {at}")
    return Entry(at, end, magic=magic, codec=body[1] & 3 if magic else 0, payload=payload)


def checked(data: memoryview, largest: int | None, codecs: frozenset[int]) -> tuple[int, int]:
    """Return (bytes of complete entries, messages in them) of a set that may be appended.  largest: maximum bytes of a
    payload. Raises TooLarge or Refused, in the original's order: it checks sizes before it decompresses wrappers."""
    found = []
    for one in entries(data):
        if largest is not None and len(one.payload) > largest:
            raise TooLarge(f"payload size of {len(one.payload)} larger than {largest}")
        found.append(one)
    messages = sum(1 if one.codec == 0 else _inside(one, codecs) for one in found)
    return found[-1].end if found else 0, messages


def _inside(wrapper: Entry, codecs: frozenset[int]) -> int:
    return sum(1 if one.codec == 0 else _inside(one, codecs) for one in _opened(wrapper, codecs))


def _opened(wrapper: Entry, codecs: Iterable[int]) -> Iterator[Entry]:
    if wrapper.codec not in codecs:
        raise Refused(f"unknown codec {wrapper.codec} at {wrapper.start}")
    try:
        inner = decompress(wrapper.codec, wrapper.payload, OPENED)
    except RemoteError as error:
        raise Refused(f"wrapper at {wrapper.start}: {error}") from error
    return entries(memoryview(inner))


def recovered(data: memoryview) -> int:
    """Return the number of bytes from the start that are complete entries with right CRCs: the part of a file kept
    after a kill -9.  Raises Refused if the original does not start either: an unknown magic, an entry too short for its
    header."""
    at = 0
    while len(data) - at >= SIZE.size:
        size: int = SIZE.unpack_from(data, at)[0]
        end = at + SIZE.size + size
        if size < LEAST or end > len(data):
            break
        try:
            entry(data, at, end)
        except BadCrc:
            break
        at = end
    return at


def rows(data: memoryview, position: int) -> Iterator[Row]:
    """Yield the messages of a fetched set that begins at this byte offset, including those in wrappers."""
    for one in entries(data):
        start, end = position + one.start, position + one.end
        if one.codec == 0:
            yield Row(start, end, bytes(one.payload))
            continue
        values = list(_values(one))
        for number, value in enumerate(values, 1):
            yield Row(start, end if number == len(values) else start, value)


def _values(wrapper: Entry) -> Iterator[bytes]:
    for one in _opened(wrapper, (1, 2)):
        if one.codec == 0:
            yield bytes(one.payload)
        else:
            yield from _values(one)


def message(payload: bytes, codec: int = 0, magic: int = 1) -> bytes:
    """Return an entry with this payload."""
    attributes = bytes([codec]) if magic else b""
    body = bytes([magic]) + attributes + CRC.pack(zlib.crc32(payload)) + payload
    return SIZE.pack(len(body)) + body


def plain(values: Iterable[bytes], magic: int = 1) -> bytes:
    """Return a set with one entry for each value."""
    return b"".join(message(value, magic=magic) for value in values)


def wrapper(values: Iterable[bytes], codec: int) -> bytes:
    """Return a set of one compressed entry (1 gzip, 2 snappy)."""
    return message(compress(codec, plain(values)), codec)


def batches(values: Sequence[bytes], size: int) -> Iterator[Sequence[bytes]]:
    """Yield values in batches of `size`."""
    for at in range(0, len(values), size):
        yield values[at : at + size]
