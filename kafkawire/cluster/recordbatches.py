"""What the log of a broker of 0.11 or later holds at a position, asked in the log's own format (Fetch v4, KIP-98).

A fetch in an older format is converted down by such a broker, and does not show everything: headers and the ends of
transactions are left out, messages of aborted transactions are not, and of a batch that is larger than the fetch
nothing comes.  So a consumer that speaks to a broker as to an older release asks in this version why nothing
came, and what it does not get.  Of record batches (kafkawire.formats.v2) the heads are read, and of their records as
much as tells whether any has headers.
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
_OPEN_LIMIT = 16 << 20  # bytes of the records of one response that are opened to look for headers


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """What the head of one batch says.  headers: whether any record has some; None: not known."""

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
        """Nothing of it is a message: it ends a transaction, or a cleaner left its head alone."""
        return self.control or (self.magic >= 2 and self.count == 0)


@dataclass(frozen=True, slots=True)
class LogBatches:
    """What a broker said of one partition.  batches: the complete ones from the position asked for on."""

    error: int
    high_watermark: int
    aborted: int
    batches: tuple[RecordBatch, ...]

    def behind_empty(self, position: int) -> int:
        """Where to go on for one who is at position: behind the batches there that hold no message."""
        for batch in self.batches:
            if batch.last_offset < position:
                continue
            if not batch.empty:
                break
            position = batch.last_offset + 1
        return position

    def batch_at(self, position: int) -> RecordBatch | None:
        """The first batch that ends at position or behind it."""
        return next((batch for batch in self.batches if batch.last_offset >= position), None)


class _OfTheLog:
    """The version that shows a log as it is, whatever release a cluster is spoken to as."""

    release = "0.11"

    def speaks(self, api_key: int, store: Store = "kafka") -> int:
        return VERSION


def ask(wanted: Sequence[tuple[TopicPartition, int, int]], committed: bool = False) -> Request[list[FetchedPartition]]:
    """Ask for (partition, position, max_bytes) each; waits for nothing.  held() reads the reply.

    The first batch of the first partition comes whole however large it is, another one that does not fit not at all.
    committed: say which transactions were aborted (isolation level read_committed).
    Only for brokers that take this version (kafkawire.cluster.release): to older ones it is nonsense.
    """
    return requests.fetch(_OfTheLog(), 0, 0, wanted, committed=committed)


def held(fetched: Iterable[FetchedPartition]) -> dict[TopicPartition, LogBatches]:
    """What a reply to ask() says of each partition.  Raises RemoteError for what is no batch."""
    budget = OpenBudget(_OPEN_LIMIT)
    return {
        row.tp: LogBatches(row.error, row.high_watermark or 0, len(row.aborted), tuple(batches(row.buffer, budget)))
        for row in fetched
    }


def batches(data: Bytes, budget: OpenBudget | None = None) -> list[RecordBatch]:
    """The complete batches in the bytes of a log, entries of older formats too; a last one that is cut is left out.

    budget: of what is opened; whether a batch beyond it has headers is not known.  Raises RemoteError for what is none.
    """
    budget = budget or OpenBudget(_OPEN_LIMIT)
    found, at, view = [], 0, memoryview(data)
    while len(view) - at > MAGIC_AT:
        base, size = _SIZE.unpack_from(view, at)
        end = at + LOG_OVERHEAD + size
        if size <= 0:
            raise RemoteError(f"a record batch at offset {base} says that it has {size} bytes")
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
    assert head is not None, "a complete batch was cut"
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
    """Whether any of a batch's records has headers; None where they cannot be opened."""
    if budget.exceeded:
        return None
    try:
        return any(record.headers for record in records(view, head, check_crcs=False, budget=budget))
    except WireError:  # a codec that we cannot open, or bytes that are no records
        return None
