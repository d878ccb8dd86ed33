"""Record batches found by their heads: which are complete, which hold messages to deliver, where to go on.  Opens none.

    delivered    a run each: a batch is atomic, with a codec and without
    left out     what ends before the wanted position; batches that end a transaction (control), those of transactions
                 that were aborted, and those that a cleaner has emptied.  Reading goes on behind them

The checksum of what is left out is checked here: otherwise a wrong bit in a head would lose messages without a word.
The checksum of what is delivered is left to its reader.

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

Aborted = Iterable[tuple[int, int]]  # producer id, first offset of a transaction that it aborted

_CONTROL_KEY = struct.Struct(">hh")  # version, type
_ABORT = 0
KEPT_BACK = TRANSACTIONAL | CONTROL  # what may be: most batches are of no transaction, and asked nothing more
LOWEST = -(1 << 63)  # as a start: everything is wanted
_START = struct.Struct(">qi")  # base offset, size
_FIRST_FIELDS = struct.Struct(">q15xi")  # base offset, last offset delta


class AbortedTransactions:
    """Which batches of a fetch belong to transactions that were aborted, by the list in its response.

    A transaction begins at its first offset and ends with its producer's abort marker, so batches have to be asked
    about in the order of the log.  Nothing lasts beyond a response: each brings the list that it needs.
    """

    def __init__(self, aborted: Aborted = ()) -> None:
        self._to_begin = sorted(((first, producer) for producer, first in aborted), reverse=True)  # the next one last
        self._open: set[int] = set()  # producer ids

    def contain(self, buffer: Bytes, batch: Batch) -> bool:
        """Whether the batch holds messages of an aborted transaction.  Raises CorruptMessage for a damaged marker."""
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
    """Find the complete batches from byte `begin` on of what was fetched at offset start.

    A cut last batch is no damage.  Damage is a size or a head that no batch has, a batch whose offsets do not lie
    behind those of the one before, and a wrong checksum of what would be left out; UnknownMagic where an entry of
    another format stands.  What is left out in front of damage is behind: then it is the next fetch that meets it.
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
                why = f"it begins at offset {batch.base_offset}, and what is before it ends at {reached - 1}"
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
    """A batch as a run: atomic, also without a codec."""
    return Run(batch.begin, batch.end, batch.codec, 2, batch.count, batch.resume_at)


def _needed(buffer: Bytes, at: int) -> int:
    left = len(buffer) - at
    if left < LOG_OVERHEAD:
        return at + OVERHEAD if left else 0
    return at + max(OVERHEAD, LOG_OVERHEAD + int(_START.unpack_from(buffer, at)[1]))


def cut(buffer: Bytes, run: Run, limit: int) -> Iterator[Run]:
    """The run itself: a batch is never cut."""
    yield run


def before(buffer: Bytes, run: Run, until: int) -> Run | None:
    """The run, where all of it stands before position `until`; else None: a batch is never cut."""
    return run if run.resume_at <= until else None


def stamped(buffer: Bytes, run: Run) -> bool:
    """Whether a broker set the timestamps of the batch (LogAppendTime)."""
    return bool(buffer[run.begin + CRC_FROM + 1] & LOG_APPEND_TIME)


def entry_at(buffer: Bytes, begin: int, position: int) -> Entry | None:
    """The batch that begins at byte `begin`; None: where it ends is unknown, since its head leads to no other entry.

    Its offset is that of its last message, as that of a wrapper is.
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
    """The offset behind a batch whose head stands at byte `begin`; None: not even that is there."""
    if len(buffer) - begin < _FIRST_FIELDS.size:
        return None
    base, delta = _FIRST_FIELDS.unpack_from(buffer, begin)
    return int(base + delta) + 1 if delta >= 0 and position <= base + delta < MOST_OFFSET else None
