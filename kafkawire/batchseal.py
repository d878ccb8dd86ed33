"""A record batch as a producer sends it: its head says who sent it, and as which.  Its records are never copied.

    sealed(entries, producer, sequence)     under the head of an idempotent producer (KIP-98)
    unsealed(entries)                       under the head of a producer without an id

A broker keeps, for each producer id and partition, the last sequences it stored.  The same bytes with the same numbers
are stored once, however often they are sent while the broker remembers the producer; numbers that leave a gap are
refused (45, out of order).  So what was sent once may only be sent again as it is.

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
    """The one batch of `entries` as `producer` sends it, and how many sequence numbers it takes.

    Base offset 0, no leader epoch, the producer's own timestamps: as brokers want it.  Its checksum is not verified.
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
    """The largest timestamp of the one batch of `entries`; -1: it has none."""
    batch = batch_at(entries, 0)
    return -1 if batch is None else batch.max_timestamp_ms


def unsealed(entries: Bytes) -> list[bytes | memoryview]:
    """The same from a producer without an id: what another producer has sent does not go on under its name."""
    return sealed(entries, _NOBODY, -1)[0]


def after(sequence: int, count: int) -> int:
    """The sequence number that follows `count` records from `sequence` on; behind the largest comes 0."""
    return (sequence + count) & LARGEST_SEQUENCE
