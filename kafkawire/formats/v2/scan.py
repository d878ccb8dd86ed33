"""Scanner of record batches by their headers: finds complete ones, those with messages to deliver, and the offset to
resume at, without decompressing any.

    delivered    one run each: a batch is atomic, with or without a codec
    left out     batches that end before the wanted offset, that end a transaction (control), belong to an
                 aborted transaction, or were emptied by a cleaner.  Reading resumes after them

The checksum of a batch that is left out is checked here: otherwise a wrong bit in its header would silently lose
messages.  The reader checks the checksum of a delivered batch.

Source: org.apache.kafka.clients.consumer.internals.CompletedFetch (aborted transactions, KIP-98).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from kafkawire.errors import CorruptMessage
from kafkawire.formats.v2.layout import (
    CODEC,
    CONTROL,
    CRC_FROM,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MOST_OFFSET,
    OVERHEAD,
    TRANSACTIONAL,
    Batch,
    batch_at,
    head_of,
)
from kafkawire.formats.v2.read import check_crc, records
from kafkawire.model import RECORD_BATCH, Entry, Run, Scan
from kafkawire.primitives import Bytes

Aborted = Iterable[tuple[int, int]]  # producer id, first offset of an aborted transaction

_CONTROL_KEY = struct.Struct(">hh")  # version, type
_ABORT = 0
KEPT_BACK = TRANSACTIONAL | CONTROL  # may be left out; a batch with neither is not checked further
LOWEST = -(1 << 63)  # as a start: every batch is wanted
_START = struct.Struct(">qi")  # base offset, size
_FIRST_FIELDS = struct.Struct(">q15xi")  # base offset, last offset delta


class AbortedTransactions:
    """Aborted transactions of a fetch response, which say which of its batches to leave out.

    A transaction begins at its first offset and ends with its producer's abort marker, so batches have to be passed in
    the order of the log.  No state outlives a response: each has the list that it needs.
    """

    def __init__(self, aborted: Aborted = ()) -> None:
        self._to_begin = sorted(((first, producer) for producer, first in aborted), reverse=True)  # next one last
        self._open: set[int] = set()  # producer ids

    def contain(self, buffer: Bytes, batch: Batch) -> bool:
        """True if the batch has messages of an aborted transaction.  Raises CorruptMessage for a damaged marker."""
        if batch.producer_id < 0 or not (self._to_begin or self._open):
            return False
        while self._to_begin and self._to_begin[-1][0] <= batch.last_offset:
            self._open.add(self._to_begin.pop()[1])
        if batch.control:
            if batch.producer_id in self._open and _ends_by_abort(buffer, batch):
                self._open.discard(batch.producer_id)
            return False
        return batch.transactional and batch.producer_id in self._open


def _ends_by_abort(buffer: Bytes, batch: Batch) -> bool:
    marker = next(records(buffer, batch), None)
    if marker is None:
        return False  # a cleaner has removed it
    if marker.key is None or len(marker.key) < _CONTROL_KEY.size:
        raise CorruptMessage("the key of a control record is shorter than its type", batch.begin, batch.base_offset)
    _, kind = _CONTROL_KEY.unpack_from(marker.key)
    return bool(kind == _ABORT)


def scan(buffer: Bytes, start: int, aborted: AbortedTransactions | None = None, begin: int = 0) -> Scan:
    """Find the complete batches from byte `begin` of a buffer fetched at offset start.

    A truncated last batch is not damage.  Damage is an impossible size or header, a batch whose offsets do not follow
    those of the batch before, and a wrong checksum of a batch that would be left out; UnknownMagic is an entry of
    another format.  If only batches that are left out precede the damage, the scan resumes after them, and the next
    fetch meets the damage.
    """
    transactions = AbortedTransactions() if aborted is None else aborted
    runs: list[Run] = []
    kept_back: list[tuple[int, int]] = []
    at, reached, resume_at = begin, LOWEST, start
    damage = None
    try:
        while True:
            head = head_of(buffer, at)
            if head is not None and head.base_offset >= reached and head.number and not head.attributes & KEPT_BACK:
                base, size, _, attributes, delta, count = head
                since, at, reached = at, at + size, base + delta + 1
                if reached > start:
                    runs.append(Run(since, at, attributes & CODEC, RECORD_BATCH, count, reached))
                    resume_at = reached
                continue
            if (batch := batch_at(buffer, at)) is None:
                break
            if batch.base_offset < reached:
                why = f"it begins at offset {batch.base_offset}, and the batch before it ends at {reached - 1}"
                raise CorruptMessage(why, batch.begin, batch.base_offset)
            withheld = transactions.contain(buffer, batch) or batch.control
            if batch.last_offset >= start:
                if withheld:
                    kept_back.append((batch.base_offset, batch.resume_at))
                if withheld or not batch.count:
                    check_crc(buffer, batch)
                else:
                    runs.append(run_of(batch))
                resume_at = batch.resume_at
            reached, at = batch.resume_at, batch.end
    except CorruptMessage as exc:
        damage = exc
    if runs:
        return Scan(at, resume_at, tuple(runs), 0, damage, kept_back=tuple(kept_back))
    if resume_at > start:
        return Scan(at, resume_at, (), 0, None, left_out=True, kept_back=tuple(kept_back))
    return Scan(at, resume_at, (), 0 if damage else _needed(buffer, at), damage)


def run_of(batch: Batch) -> Run:
    """Return a batch as a run: atomic, also without a codec."""
    return Run(batch.begin, batch.end, batch.codec, 2, batch.count, batch.resume_at)


def _needed(buffer: Bytes, at: int) -> int:
    left = len(buffer) - at
    if left < LOG_OVERHEAD:
        return at + OVERHEAD if left else 0
    return at + max(OVERHEAD, LOG_OVERHEAD + int(_START.unpack_from(buffer, at)[1]))


def cut(buffer: Bytes, run: Run, limit: int) -> Iterator[Run]:
    """Yield the run itself: a batch is never split."""
    yield run


def before(buffer: Bytes, run: Run, until: int) -> Run | None:
    """Return the run if all of it is before offset `until`, else None: a batch is never split."""
    return run if run.resume_at <= until else None


def stamped(buffer: Bytes, run: Run) -> bool:
    """True if a broker set the timestamps of the batch (LogAppendTime)."""
    return bool(buffer[run.begin + CRC_FROM + 1] & LOG_APPEND_TIME)


def entry_at(buffer: Bytes, begin: int, position: int) -> Entry | None:
    """Return the batch at byte `begin`; None if its end is unknown, because no entry follows at the end that its header
    gives.

    Its offset is the offset of its last message, as for a wrapper.
    """
    try:
        batch = batch_at(buffer, begin)
    except CorruptMessage:
        return None
    if batch is None:
        return None
    if len(buffer) - batch.end >= LOG_OVERHEAD:
        following, its_size = _START.unpack_from(buffer, batch.end)
        if following < batch.resume_at or its_size <= 0:
            return None
    return Entry(batch.last_offset, batch.resume_at, True, batch.end - begin)


def behind(buffer: Bytes, begin: int, position: int) -> int | None:
    """Return the offset after the batch whose header is at byte `begin`; None if the header is incomplete."""
    if len(buffer) - begin < _FIRST_FIELDS.size:
        return None
    base, delta = _FIRST_FIELDS.unpack_from(buffer, begin)
    return int(base + delta) + 1 if delta >= 0 and position <= base + delta < MOST_OFFSET else None
