"""A record batch as an idempotent producer sends it (KIP-98): its head says who sent it, and as which.

    sealed(entries, producer, sequence)     the batch under another head; its records are a view, never copied

A broker keeps, for each producer id and partition, the last sequences it stored.  The same bytes with the same numbers
are stored once, however often they are sent; numbers that leave a gap are refused (45, out of order).  So what was sent
once may only be sent again as it is.

Source: org.apache.kafka.common.record.DefaultRecordBatch.setProducerState, incrementSequence.
"""

from __future__ import annotations

import struct

from kafkawire.castagnoli import crc32c
from kafkawire.errors import CorruptMessage
from kafkawire.formats.v2.layout import CODEC, HEAD, OVERHEAD, TRANSACTIONAL, batch_at
from kafkawire.model import ProducerId
from kafkawire.primitives import Bytes

LARGEST_SEQUENCE = (1 << 31) - 1

_CHECKED = struct.Struct(">hiqqqhii")  # what the checksum covers of the head: attributes to count
_START = struct.Struct(">qiibI")  # base offset, size, leader epoch, magic, checksum


def sealed(
    entries: Bytes, producer: ProducerId, sequence: int, transactional: bool = False
) -> tuple[list[bytes | memoryview], int]:
    """The one batch of `entries` as `producer` sends it, and how many sequence numbers it takes.

    Base offset 0, no leader epoch, the producer's own timestamps: as brokers want it.  Its checksum is not verified.
    Raises CorruptMessage for entries that are not exactly one batch.
    """
    batch = batch_at(entries, 0)
    if batch is None or batch.end != len(entries):
        raise CorruptMessage("not exactly one record batch", 0)
    attributes = batch.attributes & CODEC | (TRANSACTIONAL if transactional else 0)
    checked = _CHECKED.pack(
        attributes,
        batch.last_offset_delta,
        batch.first_timestamp_ms,
        batch.max_timestamp_ms,
        producer.id,
        producer.epoch,
        sequence,
        batch.count,
    )
    records = memoryview(entries)[OVERHEAD:]
    checksum = crc32c(records, crc32c(checked))
    _, size, *_ = HEAD.unpack_from(entries)
    return [_START.pack(0, size, -1, 2, checksum) + checked, records], batch.last_offset_delta + 1


def after(sequence: int, count: int) -> int:
    """The sequence number that follows `count` records from `sequence` on; behind the largest comes 0."""
    return (sequence + count) & LARGEST_SEQUENCE
