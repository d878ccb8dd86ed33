"""Header of a record batch: layout, reading and writing.  Records are not read.

    batch    0 base_offset:int64  8 size:int32  12 leader_epoch:int32  16 magic:int8=2  17 crc:uint32
             21 attributes:int16  23 last_offset_delta:int32  27 first_timestamp:int64  35 max_timestamp:int64
             43 producer_id:int64  51 producer_epoch:int16  53 base_sequence:int32  57 count:int32  61 records

size counts all that follows it.  crc is CRC-32C over all that follows it, so it does not cover base offset and leader
epoch, which brokers write.  attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control.

Source: org.apache.kafka.common.record.DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkawire.castagnoli import crc32c
from kafkawire.errors import CorruptMessage, UnknownMagic
from kafkawire.primitives import Bytes

HEAD = struct.Struct(">qiibIhiqqqhii")
OVERHEAD = HEAD.size  # 61 bytes of a batch besides its records
LOG_OVERHEAD = 12  # base offset and size: the bytes before those that size counts
MAGIC_AT = 16
CRC_FROM = 21
DELTA_AT = 23
PRODUCER_AT = 43
COUNT_AT = 57
MOST_OFFSET = (1 << 63) - 1  # largest offset from which a fetch can continue after a batch

CODEC = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

_BEGINNING = struct.Struct(">qi4xb")  # base offset, size, magic
_START = struct.Struct(">qiibI")  # base offset, size, leader epoch, magic, checksum
_DECIDING = struct.Struct(">qi4xbIhi30xi")  # base offset, size, magic, checksum, attributes, delta, count
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")  # id, epoch, base sequence
_CHECKED = struct.Struct(">hiqqqhii")  # the checksummed fields of the header: attributes to count


@dataclass(slots=True)  # not frozen: one is made per batch, and freezing takes three times as long
class Batch:
    """Header of a record batch. begin, end: its bytes in the buffer it was read from.  It is never modified."""

    begin: int
    end: int
    base_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def codec(self) -> int:
        return self.attributes & CODEC

    @property
    def log_append_time(self) -> bool:
        """True if the broker set the timestamp: max_timestamp_ms is that of every record."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """True if its only record ends a transaction and is not a message."""
        return bool(self.attributes & CONTROL)

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def resume_at(self) -> int:
        """Return where the next fetch continues: also after records that a cleaner has removed."""
        return self.last_offset + 1


def batch_at(buffer: Bytes, begin: int) -> Batch | None:
    """Return the batch that begins at a byte; None if the buffer ends inside it.

    Raises CorruptMessage for an impossible size, UnknownMagic for an entry of another format.  The checksum is not
    compared.
    """
    left = len(buffer) - begin
    if left <= MAGIC_AT:
        return None
    if left < OVERHEAD:
        base, size, magic = _BEGINNING.unpack_from(buffer, begin)
        rest: Sequence[int] = ()
    else:
        base, size, epoch, magic, crc, *rest = HEAD.unpack_from(buffer, begin)
    if magic != 2:
        raise UnknownMagic(f"a record batch has format v2, this entry v{magic}", begin, base)
    if size < OVERHEAD - LOG_OVERHEAD:
        raise CorruptMessage(f"impossible size {size}, the smallest is {OVERHEAD - LOG_OVERHEAD}", begin, base)
    if LOG_OVERHEAD + size > left:
        return None
    batch = Batch(begin, begin + LOG_OVERHEAD + size, base, epoch, crc, *rest)
    if batch.count < 0 or batch.last_offset_delta < 0 or batch.resume_at > MOST_OFFSET:
        raise CorruptMessage(
            f"impossible header: {batch.count} records up to offset {batch.last_offset}", begin, batch.base_offset
        )
    return batch


class Head(NamedTuple):
    """Fields of a batch header that decide whether its records may be forwarded; a Batch takes four times as long to
    make."""

    base_offset: int
    size: int  # bytes of the batch
    crc: int
    attributes: int
    last_offset_delta: int
    number: int  # number of records


def head_of(buffer: Bytes, begin: int) -> Head | None:
    """Return the header of a complete and plausible batch; None otherwise: batch_at() finds out why."""
    if len(buffer) - begin < OVERHEAD:
        return None
    base, size, magic, crc, attributes, delta, count = _DECIDING.unpack_from(buffer, begin)
    size += LOG_OVERHEAD
    if magic != 2 or not OVERHEAD <= size <= len(buffer) - begin or delta < 0 or count < 0:
        return None
    if base + delta >= MOST_OFFSET:
        return None
    return Head(base, size, crc, attributes, delta, count)


def under_producer(batch: memoryview, records: memoryview, attributes: int, producer: tuple[int, int, int]) -> bytes:
    """Return the header of a complete batch with other attributes and another producer, base offset 0, without a leader
    epoch.

    producer: id, epoch and base sequence; -1 each: none.
    """
    checked = b"%b%b%b%b" % (
        _ATTRIBUTES.pack(attributes),
        bytes(batch[DELTA_AT:PRODUCER_AT]),
        _PRODUCER.pack(*producer),
        bytes(batch[COUNT_AT:OVERHEAD]),
    )
    return _headed(checked, records, 0)


def head_over(
    records: Bytes,
    *,
    attributes: int,
    last_offset_delta: int,
    timestamps_ms: tuple[int, int],
    producer: tuple[int, int, int],
    count: int,
    base_offset: int = 0,
) -> bytes:
    """Return the header of a batch of these encoded records, without a leader epoch.

    timestamps_ms: the first and the newest.  producer: id, epoch and base sequence; -1 each: none.
    """
    return _headed(_CHECKED.pack(attributes, last_offset_delta, *timestamps_ms, *producer, count), records, base_offset)


def _headed(checked: bytes, records: Bytes, base_offset: int) -> bytes:
    """Return the whole header: `checked`, the checksummed fields, and the fields before them, without a leader
    epoch."""
    checksum = crc32c(records, crc32c(checked))
    return _START.pack(base_offset, OVERHEAD - LOG_OVERHEAD + len(records), -1, 2, checksum) + checked
