"""Sequence numbers of an idempotent producer, by partition (KIP-98).  Pure: no clock, no socket.

A record batch is *sealed* right before it is sent for the first time: it gets producer id, epoch and sequence, and is
retried with the same bytes until the broker reports whether it has stored it.  The broker stores it once, as long as it
remembers the producer, which expires by the timestamps of its messages (ProducerStateManager.isProducerExpired). Only
one batch of a partition is in flight, so each partition has at most one open seal:

    stored (0, or 46: it was stored before)    the next sequence follows it
    refused for sure, and given up or split    its numbers are free for the next batch
    it may be stored, and is never sent again (its part was dropped: the lease ended, or too many tries)
                                               Later numbers would leave a gap, and its own would look like a duplicate:
                                               the partition continues with another producer id, from 0
    45, 47, 59                                 the broker does not know the batches before it (its log was truncated, or
                                               it has forgotten the producer): this attempt stored nothing, and the
                                               batch is retried with another producer id, from 0.  If an earlier attempt
                                               may have stored it, it may be stored twice (see
                                               producer.outcomes.AtMostOnce)

It may be stored as soon as one attempt has an unknown outcome (producer.verdicts.unknown_outcome, or no response), and
until it is acknowledged: a later refusal applies to its own attempt only.

Each partition keeps its own producer id, so that a new id for one does not affect the others, and nothing has to be
drained first.  In a transaction no partition may continue with another id: the transaction is over instead (`broken`).

Sets of formats before v2 have no fields for numbers: they are not sealed, and may be stored twice.
Source: org.apache.kafka.clients.producer.internals.TransactionManager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkawire.batchseal import after, newest_ms, sealed
from kafkawire.model import RECORD_BATCH, ProducerId, TopicPartition
from producer.batches import Batch, Piece, Seal

OUT_OF_ORDER = 45
DUPLICATE = 46
REMEMBERED_MS = 12 * 3_600_000  # half of how long 3.4 and later remember a producer after its newest timestamp
FORGOTTEN = frozenset({45, 47, 59})  # out of order, an epoch that is over, unknown producer id
FENCED = frozenset({47, 90})
OVER = FORGOTTEN | {48, 49, 52, 90, 120}  # the transaction cannot continue


@dataclass(slots=True)
class _Partition:
    producer: ProducerId
    next: int = 0
    open: Seal | None = None


class Sequences:
    """Numbers of one producer.  want(): called when another producer id is needed, which renew() brings.

    transactional: batches belong to the transaction that is open; only partitions that were added to it may be sent to.
    clock_ms: ms since the epoch; without it no message counts as old.
    """

    def __init__(
        self, want: Callable[[], object], *, transactional: bool = False, clock_ms: Callable[[], int] = lambda: 0
    ) -> None:
        self.producer: ProducerId | None = None  # for partitions that begin now
        self.broken = ""  # why the transaction is over
        self.fenced = False  # because another producer has its transactional id
        self.renewals = 0  # partitions that continued with another id
        self.off = False  # batches are sent without numbers
        self._want = want
        self._clock_ms = clock_ms
        self._transactional = transactional
        self._added: set[TopicPartition] = set()  # to the transaction
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._left: dict[TopicPartition, ProducerId] = {}  # id with which a partition may not continue

    # ---- the producer's side ------------------------------------------------------------------------------------

    def renew(self, producer: ProducerId) -> None:
        """Use a new producer id; in a transactional producer all partitions begin again with it."""
        self.producer = producer
        if self._transactional:
            self._partitions.clear()
            self._added.clear()
            self._left.clear()
            self.broken, self.fenced = "", False

    def give_up(self) -> None:
        """Send batches without numbers, because the cluster does not assign a producer id."""
        self.off = True

    def added(self, tps: set[TopicPartition]) -> None:
        """Record that these partitions belong to the open transaction."""
        self._added |= tps

    def ended(self) -> None:
        """Record that the transaction is committed or aborted: partitions have to be added to the next one."""
        self._added.clear()

    # ---- the sender's side --------------------------------------------------------------------------------------

    def ready(self, tp: TopicPartition, head: Piece | None) -> bool:
        """True if the next batch of tp may be sealed, as far as is known; if not, request what is missing."""
        return head is None or self._unnumbered(head) or self._numbers(tp, head) is not None

    def seal(self, batch: Batch) -> bool:
        """Seal a batch before it is sent, unless it is sealed already.  Return False if it may not be sent yet."""
        piece = batch.pieces[0]
        if not self._unnumbered(piece):
            partition = self._numbers(batch.tp, piece)
            if partition is None:
                return False
            if piece.seal is None:
                buffers, count = sealed(piece.part.entries, partition.producer, partition.next, self._transactional)
                young = newest_ms(piece.part.entries) >= self._clock_ms() - REMEMBERED_MS
                piece.seal = partition.open = Seal(partition.producer, partition.next, count, buffers, young)
        if piece.seal is not None:
            piece.seal.sent += 1
        return True

    def _unnumbered(self, piece: Piece) -> bool:
        return piece.part.magic < RECORD_BATCH or self.off

    def _numbers(self, tp: TopicPartition, head: Piece) -> _Partition | None:
        """Return the numbers for the next batch of tp; None: they were requested."""
        if self._transactional and (self.broken or tp not in self._added):
            return None
        partition = self._known(tp, head)
        if partition is None:
            self._want()
        return partition

    def _known(self, tp: TopicPartition, head: Piece) -> _Partition | None:
        """Return the numbers for the next batch of tp; None: another producer id is needed first."""
        partition = self._partitions.get(tp)
        if partition is not None and partition.open is not None and partition.open is not head.seal:
            if partition.open.unknown:
                self._leave(tp)  # a gap: the batch may be stored, and is not sent again
                partition = None
            else:
                partition.open = None
        if partition is None and not self.broken:
            if self.producer is None or self._left.get(tp) == self.producer:
                return None
            partition = self._partitions[tp] = _Partition(self.producer)
        return partition

    def _leave(self, tp: TopicPartition) -> None:
        """Give tp another producer id; a transaction is over then."""
        if self._transactional:
            self._break(f"{tp}: a batch that may be stored is not sent again")
            return
        gone = self._partitions.pop(tp)
        self._left[tp] = gone.producer
        self.renewals += 1

    def stored(self, batch: Batch) -> None:
        """Record that the batch is stored."""
        partition = self._of(batch)
        if partition is not None and partition.open is not None:
            partition.next = after(partition.open.sequence, partition.open.count)
            partition.open = None

    def refused(self, batch: Batch) -> None:
        """Record that the broker appended nothing at this attempt."""
        seal = batch.pieces[0].seal
        if seal is not None:
            seal.refused += 1

    def forgotten(self, batch: Batch, code: int, why: str) -> bool:
        """True if this refusal says that the broker does not know the batches before.  Then the batch is unsealed, to
        be sent with another producer id; a transaction is over."""
        piece = batch.pieces[0]
        if piece.seal is None or code not in (OVER if self._transactional else FORGOTTEN):
            return False
        if self._transactional:
            self.fenced = self.fenced or code in FENCED
            self._break(why)
        else:
            self._leave(batch.tp)
        piece.seal = None
        return True

    def _break(self, why: str) -> None:
        if not self.broken:
            self.broken = why
            self._want()

    def _of(self, batch: Batch) -> _Partition | None:
        """Return the partition whose open seal is the batch's."""
        seal = batch.pieces[0].seal
        partition = self._partitions.get(batch.tp)
        return partition if seal is not None and partition is not None and partition.open is seal else None
