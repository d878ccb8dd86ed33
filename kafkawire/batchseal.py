"""A record batch as a producer sends it: its header carries producer id, epoch and sequence.  Its records are never
copied.

    sealed(entries, producer, sequence)     with the header of an idempotent producer (KIP-98)
    unsealed(entries)                       with the header of a producer without an id

A broker keeps, for each producer id and partition, the last sequences it stored.  The same bytes with the same numbers
are stored once, however often they are sent while the broker remembers the producer; numbers that leave a gap are
refused (45, out of order).  So a batch that was sent once may only be sent again unchanged.

Source: org.apache.kafka.common.record.DefaultRecordBatch.setProducerState, incrementSequence.
"""

from __future__ import annotations

from kafkawire.errors import CorruptMessage
from kafkawire.formats.v2.layout import CODEC, OVERHEAD, TRANSACTIONAL, batch_at, head_of, under_producer
from kafkawire.model import ProducerId
from kafkawire.primitives import Bytes

LARGEST_SEQUENCE = (1 << 31) - 1

_NOBODY = ProducerId(-1, -1)


def sealed(
    entries: Bytes, producer: ProducerId, sequence: int, transactional: bool = False
) -> tuple[list[bytes | memoryview], int]:
    """Return the one batch of `entries` as `producer` sends it, and the number of sequence numbers that it uses.

    Base offset 0, no leader epoch, the producer's own timestamps: as brokers require.  Its checksum is not verified.
    Raises CorruptMessage for entries that are not exactly one batch.
    """
    head = head_of(entries, 0)
    if head is None or head.size != len(entries):
        raise CorruptMessage("not exactly one record batch", 0)
    view = memoryview(entries)
    records = view[OVERHEAD:]
    attributes = head.attributes & CODEC | (TRANSACTIONAL if transactional else 0)
    return [under_producer(view, records, attributes, (*producer, sequence)), records], head.last_offset_delta + 1


def newest_ms(entries: Bytes) -> int:
    """Return the largest timestamp of the one batch of `entries`; -1 if it has no timestamp."""
    batch = batch_at(entries, 0)
    return -1 if batch is None else batch.max_timestamp_ms


def unsealed(entries: Bytes) -> list[bytes | memoryview]:
    """Return the one batch of `entries` with the header of a producer without an id, so that another producer's batch
    is not sent under its id."""
    return sealed(entries, _NOBODY, -1)[0]


def after(sequence: int, count: int) -> int:
    """Return the sequence number that follows `count` records starting at `sequence`; 0 follows the largest one."""
    return (sequence + count) & LARGEST_SEQUENCE
