"""Record batches as brokers keep them, written apart from what is tested, by the tables of the protocol guide."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import cramjam
import crc32c

from kafkawire.compression import ZSTD, compress
from kafkawire.formats.v2.read import Record

TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = 0, 1


def number(n: int) -> bytes:
    n, out = (n << 1) ^ (n >> 63), b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def blob(data: bytes | None) -> bytes:
    return number(-1) if data is None else number(len(data)) + data


def record(row: Record, base: int, first_ms: int) -> bytes:
    body = b"\0" + number(row.timestamp_ms - first_ms) + number(row.offset - base) + blob(row.key) + blob(row.value)
    body += number(len(row.headers)) + b"".join(blob(name.encode()) + blob(value) for name, value in row.headers)
    return number(len(body)) + body


def batch(
    rows: Sequence[Record],
    attributes: int = 0,
    base: int | None = None,
    last: int | None = None,
    tail: bytes = b"",
    producer: int = 7,
) -> bytes:
    """A batch of rows; its base and last offset are those of the first and the last of them, unless they are given."""
    base = rows[0].offset if base is None else base
    first_ms = rows[0].timestamp_ms if rows else 0
    data = b"".join(record(row, base, first_ms) for row in rows) + tail
    codec = attributes & 7
    if codec == ZSTD:
        data = bytes(cramjam.zstd.compress(data))
    elif codec:
        data = compress(codec, data, 1)
    delta = (last if last is not None else rows[-1].offset) - base
    newest = max((row.timestamp_ms for row in rows), default=-1)
    head = struct.pack(">hiqqqhii", attributes, delta, first_ms, newest, producer, 1, 0, len(rows))
    return sealed(base, head + data)


def sealed(base: int, checked: bytes) -> bytes:
    """A batch of what its checksum covers."""
    body = struct.pack(">ibI", 3, 2, crc32c.crc32c(checked)) + checked
    return struct.pack(">qi", base, len(body)) + body


def rows_of(first: int, count: int, value: bytes = b"value") -> list[Record]:
    return [Record(n, 1000 + n, b"k%d" % n, value, ()) for n in range(first, first + count)]


def marker(offset: int, producer: int, kind: int) -> bytes:
    """The end of a transaction."""
    end = Record(offset, 5, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0), ())
    return batch([end], TRANSACTIONAL | CONTROL, producer=producer)
