"""Encode messages as record batches for a producer: one batch per set, with one codec. layout.py describes the layout.

    encode(rows)             rows in the form of all formats, with header blocks
    encode_lists(...)        messages in lists
    encode_columns(columns)  rows of columns, without one object per message
    may_pass(batch)          True if the records of a fetched batch may be forwarded unchanged, with a producer's header

Offsets of records count by one, and the base offset is 0: a broker refuses anything else from a producer.  A timestamp
that is None or below 0 is -1, no timestamp.  Without a producer id (KIP-98) producer id, epoch and sequence are -1;
partition leader epoch always is.

Records are written by compiled loops if numba is installed (writeloops.py), else by pure Python: several times slower,
the same bytes.

Source: org.apache.kafka.common.record.MemoryRecordsBuilder, DefaultRecord, LogValidator.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, Any

from kafkawire import compression
from kafkawire.columns import Columns, headers_of, laid, numbered
from kafkawire.columns import Part as Stretch
from kafkawire.errors import CorruptMessage, LocalError
from kafkawire.formats.layouts import middle
from kafkawire.formats.v2.columns import READER, index
from kafkawire.formats.v2.layout import CONTROL, LOG_APPEND_TIME, OVERHEAD, Batch, batch_at, head_of, head_over
from kafkawire.formats.v2.read import check_bytes, records
from kafkawire.headers import NO_HEADERS
from kafkawire.kernels import ready
from kafkawire.model import RECORD_BATCH, MessageSet, Part, Run
from kafkawire.primitives import Bytes
from kafkawire.varints import written

if TYPE_CHECKING:
    from kafkawire.formats.compiled import Kernels

Blobs = Sequence[Bytes | None]
Row = tuple[int, Bytes | None, Bytes | None, int | None]  # offset, key, value, timestamp in ms
NO_TIMESTAMP = -1
_VARINTS = tuple(written(number) for number in range(1 << 13))  # varints of at most two bytes
_NULL = written(-1)
# Bytes of a record besides key, value and headers, at most: DefaultRecord.MAX_RECORD_OVERHEAD.
RECORD_OVERHEAD = 21

MANY = 64  # messages in lists; for fewer, the compiled loops cost more than they save

_OFFSET = struct.Struct(">q")
_LARGEST = (1 << 31) - 1


# ---- encode --------------------------------------------------------------------------------------------------------


def encode(rows: Iterable[Row], codec: int = 0, headers: Blobs | None = None) -> bytes:
    """Encode all rows in order as one batch; b"" for no rows.  The first offset is the batch's, the others follow it.

    headers: a block or None for each row; None: no row has headers.  Raises LocalError for an unknown codec, or a batch
    over 2 GiB.
    """
    rows = list(rows)
    if not rows:
        return b""
    offsets, keys, values, stamps = zip(*rows, strict=True)
    made = encode_lists(keys, values, stamps, headers, codec)
    return _numbered_from(offsets[0], made)


def _numbered_from(offset: int, made: bytes) -> bytes:
    """Return a batch with this base offset; no checksum covers it."""
    return made if offset == 0 else _OFFSET.pack(offset) + made[_OFFSET.size :]


def encode_lists(
    keys: Blobs,
    values: Blobs,
    timestamps_ms: Sequence[int | None] | None,
    headers: Blobs | None,
    codec: int = 0,
) -> bytes:
    """Encode messages given as lists of equal length, at least one, as one batch."""
    return encode_lists_by(ready() if len(keys) >= MANY else None, keys, values, timestamps_ms, headers, codec)


def encode_lists_by(
    kernels: Kernels | None,
    keys: Blobs,
    values: Blobs,
    timestamps_ms: Sequence[int | None] | None,
    headers: Blobs | None,
    codec: int = 0,
) -> bytes:
    """Encode messages given as lists as one batch with these kernels; None: in pure Python."""
    stamps = _stamps(timestamps_ms)
    first = stamps[0] if stamps else NO_TIMESTAMP
    newest = max(stamps) if stamps else NO_TIMESTAMP
    if headers is not None and not any(headers):
        headers = None
    if kernels is None:
        return _batch(_records(keys, values, stamps, headers), len(keys), first, newest, codec)
    found = kernels.records([Stretch(laid(kernels, keys, values, stamps, headers), 0, len(keys))])
    return _batch(found.data, len(keys), first, newest, codec)


def encode_columns(parts: Sequence[Stretch], codec: int = 0) -> bytes:
    """Encode rows of columns, at least one, as one batch."""
    return encode_columns_by(ready(), parts, codec)


def encode_columns_by(kernels: Kernels | None, parts: Sequence[Stretch], codec: int = 0) -> bytes:
    """Encode rows of columns as one batch with these kernels; None: in pure Python."""
    if kernels is not None:
        found = kernels.records(parts)
        return _batch(found.data, found.rows, found.first_timestamp_ms, found.max_timestamp_ms, codec)
    _, keys, values, stamps = zip(*numbered(parts), strict=True)
    return encode_lists_by(None, keys, values, stamps, headers_of(parts), codec)


def _stamps(timestamps_ms: Sequence[int | None] | None) -> list[int] | None:
    """Return timestamps for a batch; None if no message has one."""
    if timestamps_ms is None or timestamps_ms.count(None) == len(timestamps_ms):
        return None
    return [NO_TIMESTAMP if stamp is None or stamp < 0 else stamp for stamp in timestamps_ms]


def _batch(records: Bytes, count: int, first: int, newest: int, codec: int) -> bytes:
    """Return the header followed by the records, compressed if a codec is given."""
    data = compression.compress(codec, records, 2) if codec else records
    if len(data) + OVERHEAD > _LARGEST:
        raise LocalError(f"a record batch of {len(data)} bytes does not fit format v2")
    head = head_over(
        data,
        attributes=codec,
        last_offset_delta=count - 1,
        timestamps_ms=(first, newest),
        producer=(-1, -1, -1),
        count=count,
    )
    return b"".join((head, data))


# ---- existing batches ----------------------------------------------------------------------------------------------


def may_pass(entries: Bytes, begin: int, start: int) -> bool:
    """True if a broker accepts the records of a fetched batch from a producer, and all of them are at or after offset
    start.

    It does not accept a batch from which a cleaner removed records (compaction); and timestamps set by a broker would
    become the producer's.  Raises CorruptMessage for a wrong checksum, because the new header would have a right one.
    """
    head = head_of(entries, begin)
    if head is None:
        batch_at(entries, begin)  # raises if it is not a batch
        return False
    base, size, crc, attributes, delta, number = head
    if number != delta + 1 or base < start or attributes & (LOG_APPEND_TIME | CONTROL):
        return False
    check_bytes(entries, begin, begin + size, crc, base)
    return True


def check(entries: Bytes) -> CorruptMessage | None:
    """Return the first damage in complete batches: a wrong checksum, or damaged records; None if there is none."""
    at, view = 0, memoryview(entries)
    try:
        while at < len(view):
            batch = batch_at(view, at)
            if batch is None:
                return CorruptMessage(f"truncated {len(view) - at} bytes after its beginning", at)
            for _ in records(view, batch):
                pass
            at = batch.end
    except CorruptMessage as damage:
        return damage
    return None


def count(entries: Bytes) -> int:
    """Return the number of records of complete batches, by their headers."""
    found = at = 0
    while (batch := batch_at(entries, at)) is not None:
        found, at = found + batch.count, batch.end
    return found


def split(part: Part, first: int | None = None) -> list[Part]:
    """Return a part of one batch as two, split near the middle of its bytes or after its `first` records; [part] for a
    single record.

    Both are compressed again with its codec, get headers without a producer, and keep their offsets.  If the part has a
    resume_at, the first half gets that of its own last record.  Raises CorruptMessage for a batch that cannot be read.
    """
    batch = batch_at(part.entries, 0)
    if batch is None:
        raise CorruptMessage(f"truncated {len(part.entries)} bytes after its beginning", 0)
    if batch.count < 2:
        return [part]
    columns = _columns(part, batch)
    sizes = [key + value for key, value in zip(columns.key_size, columns.value_size, strict=True)]
    if columns.header_size is not None:
        sizes = [size + more for size, more in zip(sizes, columns.header_size, strict=True)]
    ends = list(accumulate(RECORD_OVERHEAD + size for size in sizes))
    count = middle(ends, first)
    reached = None if part.resume_at is None else columns.offsets[count]
    halves = []
    for since, until, resume_at in ((0, count, reached), (count, len(ends), part.resume_at)):
        entries = _numbered_from(columns.offsets[since], encode_columns([Stretch(columns, since, until)], batch.codec))
        halves.append(replace(part, entries=entries, count=until - since, resume_at=resume_at, counted=True))
    return halves


def _columns(part: Part, batch: Batch) -> Columns:
    run = Run(0, batch.end, batch.codec, RECORD_BATCH, batch.count, batch.resume_at)
    view = memoryview(part.entries)
    topic, partition = part.tp
    columns = index(MessageSet(topic, partition, batch.base_offset, batch.resume_at, view, None, (run,), READER))
    if columns.damage is not None:
        raise columns.damage
    return columns


# ---- in pure Python ------------------------------------------------------------------------------------------------


def _records(
    keys: Blobs,
    values: Blobs,
    stamps: list[int] | None,
    headers: Blobs | None,
) -> bytes:
    """Return the records of all messages, side by side."""
    count, out = len(keys), list[bytes]()
    add, known, limit = out.append, _VARINTS, len(_VARINTS)
    blocks: Iterable[Bytes | None] = repeat(NO_HEADERS, count) if headers is None else headers
    rows: Iterator[Any] = zip(_numbers(count), _deltas(stamps, count), keys, values, blocks, strict=True)
    for number, delta, key, value, block in rows:
        if key is None:
            key, key_size = b"", _NULL
        else:
            size = len(key)
            key_size = known[size] if size < limit else written(size)
        if value is None:
            value, value_size = b"", _NULL
        else:
            size = len(value)
            value_size = known[size] if size < limit else written(size)
        body = b"\0%b%b%b%b%b%b%b" % (delta, number, key_size, key, value_size, value, block or NO_HEADERS)
        size = len(body)
        add(known[size] if size < limit else written(size))
        add(body)
    return b"".join(out)


def _numbers(count: int) -> list[bytes]:
    """Return the varints of 0, 1, 2 .. as `count` offset deltas."""
    found = list(_VARINTS[:count])
    found += map(written, range(len(found), count))
    return found


def _deltas(stamps: list[int] | None, count: int) -> Iterable[bytes]:
    """Return the varint of each timestamp minus the first."""
    if stamps is None or stamps.count(stamps[0]) == count:
        return repeat(_VARINTS[0], count)
    base, known, limit = stamps[0], _VARINTS, len(_VARINTS)
    return [known[stamp - base] if 0 <= stamp - base < limit else written(stamp - base) for stamp in stamps]
