"""Read the records of a record batch one by one.

    record   length  attributes:int8=0  timestamp_delta  offset_delta  key  value  header_count  headers
    key      length (-1: null)  bytes           value length (-1: null) bytes
    header   length  name in UTF-8  value: length (-1: null)  bytes

All numbers are varints; length counts what follows it.  Deltas are relative to the batch's first timestamp and base
offset, and may be negative.  With a codec the records are compressed as one blob; header and count stay plain.

Source: org.apache.kafka.common.record.DefaultRecord.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkawire.castagnoli import crc32c
from kafkawire.errors import CorruptMessage, LibraryMissing, RemoteError
from kafkawire.formats.layouts import OPEN_LIMIT, OpenBudget
from kafkawire.formats.v2.layout import CRC_FROM, OVERHEAD, Batch
from kafkawire.headers import text
from kafkawire.primitives import Bytes
from kafkawire.varints import varint

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def check_crc(buffer: Bytes, batch: Batch) -> None:
    """Raise CorruptMessage for a batch whose bytes do not match its checksum."""
    check_bytes(buffer, batch.begin, batch.end, batch.crc, batch.base_offset)


def check_bytes(buffer: Bytes, begin: int, end: int, crc: int, base_offset: int) -> None:
    """Raise CorruptMessage for bytes that do not match a batch's checksum, if only these values of its header are
    known."""
    if crc32c(memoryview(buffer)[begin + CRC_FROM : end]) != crc:
        raise CorruptMessage("wrong checksum", begin, base_offset)


def opened(buffer: Bytes, batch: Batch, budget: OpenBudget) -> bytes:
    """Return the decompressed bytes of a batch's records.

    Raises CorruptMessage, and LibraryMissing if the codec's package is not installed.
    """
    records = memoryview(buffer)[batch.begin + OVERHEAD : batch.end]
    if not batch.codec:
        return bytes(records)
    try:
        return bytes(budget.opened(batch.codec, records))
    except LibraryMissing:
        raise
    except RemoteError as why:
        raise CorruptMessage(str(why), batch.begin, batch.base_offset) from why


def records(
    buffer: Bytes, batch: Batch, check_crcs: bool = True, limit: int = OPEN_LIMIT, budget: OpenBudget | None = None
) -> Iterator[Record]:
    """Yield all records of a batch, also of a control batch.  It may decompress to at most limit bytes, or what budget
    has left.

    Raises CorruptMessage for a wrong checksum before the first record, and for damaged records after yielding those
    before.
    """
    if check_crcs:
        check_crc(buffer, batch)
    data, at = opened(buffer, batch, budget or OpenBudget(limit)), 0
    for n in range(batch.count):
        try:
            record, at = _record(data, at, batch)
        except (IndexError, ValueError) as why:
            raise CorruptMessage(
                f"record {n} of {batch.count} is damaged: {why}", batch.begin, batch.base_offset
            ) from why
        yield record
    if at != len(data):
        raise CorruptMessage(f"{len(data) - at} bytes after the last record", batch.begin, batch.base_offset)


def _record(data: bytes, at: int, batch: Batch) -> tuple[Record, int]:
    length, at = varint(data, at)
    end = at + length
    if length < 0 or end > len(data):
        raise ValueError(f"it declares {length} bytes, {len(data) - at} are left")
    time_delta, at = varint(data, at + 1)  # after the attributes, which nothing uses
    offset_delta, at = varint(data, at)
    key, at = _blob(data, at, end)
    value, at = _blob(data, at, end)
    count, at = varint(data, at)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _blob(data, at, end)
        if name is None:
            raise ValueError("a header without a name")
        content, at = _blob(data, at, end)
        headers.append((text(name), content))
    if at != end:
        raise ValueError(f"its fields end at byte {at}, not at {end}")
    timestamp = batch.max_timestamp_ms if batch.log_append_time else batch.first_timestamp_ms + time_delta
    return Record(batch.base_offset + offset_delta, timestamp, key, value, tuple(headers)), end


def _blob(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = varint(data, at)
    if size < 0:
        return None, at
    if size > end - at:
        raise ValueError(f"a field of {size} bytes, with {end - at} left")
    return data[at : at + size], at + size
