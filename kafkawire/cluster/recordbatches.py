"""Record batches in the log of a broker of 0.11 or later, fetched in the log's own format (Fetch v4, KIP-98).

Such a broker down-converts a fetch in an older format, and the response is incomplete: it has no headers and no ends of
transactions, it contains messages of aborted transactions, and it is empty if the batch is larger than the fetch.  So a
consumer that uses older request versions sends this Fetch to learn why nothing came and what is missing.  It reads the
headers of record batches (kafkawire.formats.v2), and enough of their records to tell whether any has message headers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafkawire.errors import RemoteError, WireError
from kafkawire.formats.layouts import OpenBudget
from kafkawire.formats.v2.layout import CODEC, LOG_OVERHEAD, MAGIC_AT, Batch, batch_at
from kafkawire.formats.v2.read import records
from kafkawire.model import TopicPartition
from kafkawire.primitives import Bytes
from kafkawire.protocol import requests08 as requests
from kafkawire.protocol.apis import FETCH as FETCH
from kafkawire.protocol.request import FetchedPartition, Request, Store

VERSION = 4
_SIZE = struct.Struct(">qi")
_OPEN_LIMIT = 16 << 20  # bytes of records that are decompressed per response to look for headers


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Header of one record batch. headers: True if any record has message headers; None: not known."""

    base_offset: int
    last_offset: int
    nbytes: int
    magic: int
    codec: int
    count: int
    headers: bool | None
    transactional: bool = False
    control: bool = False

    @property
    def empty(self) -> bool:
        """True if the batch has no messages: it ends a transaction, or a cleaner left only its header."""
        return self.control or (self.magic >= 2 and self.count == 0)


@dataclass(frozen=True, slots=True)
class LogBatches:
    """Result for one partition. batches: complete batches from the requested offset."""

    error: int
    high_watermark: int
    aborted: int
    batches: tuple[RecordBatch, ...]

    def behind_empty(self, position: int) -> int:
        """Return the offset to continue from: after the batches at `position` that have no message."""
        for batch in self.batches:
            if batch.last_offset < position:
                continue
            if not batch.empty:
                break
            position = batch.last_offset + 1
        return position

    def batch_at(self, position: int) -> RecordBatch | None:
        """Return the first batch that ends at or after `position`."""
        return next((batch for batch in self.batches if batch.last_offset >= position), None)


class _OfTheLog:
    """Fetch version that returns a log as it is, whichever request versions are used otherwise."""

    release = "0.11"

    def speaks(self, api_key: int, store: Store = "kafka") -> int:
        return VERSION


def ask(wanted: Sequence[tuple[TopicPartition, int, int]], committed: bool = False) -> Request[list[FetchedPartition]]:
    """Make a fetch request for each (partition, position, max_bytes), without waiting on the broker. held() reads the
    reply.

    The first batch of the first partition is returned whole however large it is; other batches that do not fit are left
    out. committed: also return aborted transactions (isolation level read_committed).  Use it only for brokers that
    support this version (kafkawire.cluster.release): older ones cannot parse it.
    """
    return requests.fetch(_OfTheLog(), 0, 0, wanted, committed=committed)


def held(fetched: Iterable[FetchedPartition]) -> dict[TopicPartition, LogBatches]:
    """Return the batches of each partition in a reply to ask().  Raises RemoteError for bytes that are not a batch."""
    budget = OpenBudget(_OPEN_LIMIT)
    return {
        row.tp: LogBatches(row.error, row.high_watermark or 0, len(row.aborted), tuple(batches(row.buffer, budget)))
        for row in fetched
    }


def batches(data: Bytes, budget: OpenBudget | None = None) -> list[RecordBatch]:
    """Return the complete batches in the bytes of a log, including entries of older formats; a truncated last one is
    left out.

    budget: bytes that may be decompressed; `headers` of a batch beyond it is None.  Raises RemoteError for bytes that
    are not a batch.
    """
    budget = budget or OpenBudget(_OPEN_LIMIT)
    found, at, view = [], 0, memoryview(data)
    while len(view) - at > MAGIC_AT:
        base, size = _SIZE.unpack_from(view, at)
        end = at + LOG_OVERHEAD + size
        if size <= 0:
            raise RemoteError(f"a record batch at offset {base} has a size field of {size} bytes")
        if end > len(view):
            break
        found.append(_batch(view[at:end], budget))
        at = end
    return found


def _batch(view: memoryview, budget: OpenBudget) -> RecordBatch:
    magic = view[MAGIC_AT]
    if magic < 2:
        offset, _ = _SIZE.unpack_from(view)
        codec = view[MAGIC_AT + 1] & CODEC
        return RecordBatch(offset, offset, nbytes=len(view), magic=magic, codec=codec, count=1, headers=False)
    head = batch_at(view, 0)
    assert head is not None, "a complete batch was truncated"
    return RecordBatch(
        head.base_offset,
        head.last_offset,
        nbytes=len(view),
        magic=magic,
        codec=head.codec,
        count=head.count,
        transactional=head.transactional,
        control=head.control,
        headers=None if head.control else _any_headers(view, head, budget),
    )


def _any_headers(view: memoryview, head: Batch, budget: OpenBudget) -> bool | None:
    """True if any record of a batch has headers; None if they cannot be decompressed."""
    if budget.exceeded:
        return None
    try:
        return any(record.headers for record in records(view, head, check_crcs=False, budget=budget))
    except WireError:  # a codec that is not installed, or damaged records
        return None
