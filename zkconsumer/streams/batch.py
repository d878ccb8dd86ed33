"""Batches: many messages of one partition at once, as columns.

    for batch in stream.batches():
        for offset, value in zip(batch.offsets, batch.values): ...

Row i is one message: offsets[i], keys[i], values[i], timestamps_ms[i].  A column becomes a list when it is first read;
a column that is not read costs nothing.

A set is delivered in pieces of about 256 KB: their columns are then in the processor's cache, and in recently freed
memory, when the user reads them.  For whole sets, use stream.sets() and MessageSet.index().
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkawire.columns import Columns
from kafkawire.errors import CorruptMessage
from kafkawire.model import PartitionId, TopicPartition
from zkconsumer.fetching.committable import DeliveryTicket
from zkconsumer.fetching.partitioncursor import DeliveredSet
from zkconsumer.streams.observer import SafeObserver


class Batch:
    """One or more messages of one partition, in order.  Done when the next batch is requested, or at ack().

    resume_at is where the next batch begins: the offset to commit once all of this one is done.
    """

    __slots__ = ("_columns", "_keys", "_offsets", "_ticket", "_timestamps_ms", "_values", "resume_at", "tp")

    def __init__(self, tp: TopicPartition, columns: Columns, resume_at: int, ticket: DeliveryTicket) -> None:
        self.tp = tp
        self.resume_at = resume_at
        self._columns = columns
        self._ticket = ticket
        self._offsets: list[int] | None = None
        self._keys: list[bytes | None] | None = None
        self._values: list[bytes | None] | None = None
        self._timestamps_ms: list[int | None] | None = None

    @property
    def topic(self) -> str:
        return self.tp.topic

    @property
    def partition(self) -> PartitionId:
        return self.tp.partition

    @property
    def offsets(self) -> list[int]:
        if self._offsets is None:
            self._offsets = list(self._columns.offsets)
        return self._offsets

    @property
    def keys(self) -> list[bytes | None]:
        if self._keys is None:
            self._keys = self._columns.keys()
        return self._keys

    @property
    def values(self) -> list[bytes | None]:
        if self._values is None:
            self._values = self._columns.values()
        return self._values

    @property
    def timestamps_ms(self) -> list[int | None]:
        """Return milliseconds since 1970; None if the stored format has no time (0.8 and 0.9)."""
        if self._timestamps_ms is None:
            stamps = self._columns.timestamps_ms
            self._timestamps_ms = [None] * len(self) if stamps is None else [ms if ms >= 0 else None for ms in stamps]
        return self._timestamps_ms

    def __len__(self) -> int:
        return len(self._columns)

    def ack(self) -> None:
        """Acknowledge the whole batch, from any thread; a second call changes nothing."""
        self._ticket.done()

    def __repr__(self) -> str:
        return f"<Batch {self.tp} ..{self.resume_at}, {len(self)} messages>"


class BatchReader:
    """Batches of one stream; its user has one at a time.

    next_set   returns the next set that may be delivered; next() raises its errors
    on_ack     only Batch.ack() marks a batch as done
    observer   called with the columns of each batch
    """

    def __init__(
        self,
        next_set: Callable[[], DeliveredSet],
        check_crcs: bool,
        on_ack: bool,
        observer: SafeObserver | None = None,
    ) -> None:
        self._next_set = next_set
        self._check_crcs = check_crcs
        self._on_ack = on_ack
        self._observer = observer
        self._set: DeliveredSet | None = None  # set that is delivered, as long as it may have more batches
        self._pieces: Iterator[Columns] = iter(())
        self._ticket: DeliveryTicket | None = None  # ticket of the batch that the user has
        self._damage: tuple[DeliveredSet, int, CorruptMessage] | None = None  # damage behind that batch

    def next(self) -> Batch:
        """Return the next batch; the previous one is done."""
        self._finish_batch()
        while True:
            if self._set is None:
                delivered = self._next_set()
                self._set, self._pieces = delivered, delivered.message_set.pieces(self._check_crcs)
            batch = self._next_of(self._set)
            if batch is not None:
                return batch

    def _next_of(self, delivered: DeliveredSet) -> Batch | None:
        """Return the next batch of a set; None if the next piece has none, or nothing more of it may be delivered."""
        reached = delivered.done_to
        try:
            columns = next(self._pieces, None)
            if columns is not None:
                return self._batch(delivered, columns)
        except BaseException:  # ctrl-C, no memory: otherwise the ticket of the next piece would cover this one
            self._give_back(delivered, reached)
            raise
        self._end_set()
        return None

    def _batch(self, delivered: DeliveredSet, columns: Columns) -> Batch | None:
        """Return a piece as a batch; None if it is empty, or may not be delivered."""
        if self._observer is not None:
            self._observer.batch(delivered.message_set.tp, columns)
        at, damage = max(columns.resume_at, delivered.done_to), columns.damage
        first = delivered.done_to == delivered.message_set.start
        delivered.delivered_to = at  # before the check: a thread that closes reads it afterwards
        if not delivered.may_deliver():
            self._end_set()
            return None
        ticket = delivered.ticket(at, 1 if len(columns) else 0)
        self._ticket = ticket if len(columns) else None
        delivered.done_to = at
        if damage is not None:
            self._set, self._damage = None, (delivered, at, damage)
        elif at >= delivered.message_set.resume_at:
            self._set = None
            delivered.cursor.report(delivered.cursor.partition.ended, delivered, None)
        elif first:
            delivered.cursor.report(delivered.cursor.partition.iterated, delivered, True)
        if len(columns):
            return Batch(delivered.message_set.tp, columns, at, ticket)
        self._report_damage()
        return None

    def _give_back(self, delivered: DeliveredSet, reached: int) -> None:
        """Return a piece that could not be handed out: the set is fetched again from `reached`."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            ticket.cut(ticket.begin)
        delivered.delivered_to = delivered.done_to = reached
        self._iteration_ended(delivered)
        self._set = self._damage = None

    def leave(self) -> None:
        """Leave this style of reading: its batch is done, and the rest of the set is fetched again."""
        self._finish_batch()
        if self._set is not None:
            self._end_set()

    def done(self) -> None:
        """Mark the user's batch as done, though no other was requested; with on_ack only ack() does so."""
        if self._ticket is not None and not self._on_ack:
            self._ticket.done()

    def give_up(self) -> None:
        """Give up, because the user will not come back: its batch is not done, unless it is acknowledged."""
        if self._set is not None:
            self._end_set()
        if self._ticket is not None and not self._on_ack:
            self._ticket.drop()
        self._ticket = None
        if self._damage is not None:
            delivered, at, _ = self._damage
            delivered.cursor.report(delivered.cursor.partition.ended, delivered, at)
            self._damage = None

    def _finish_batch(self) -> None:
        if self._ticket is not None and not self._on_ack:
            self._ticket.done()
        self._ticket = None
        self._report_damage()

    def _end_set(self) -> None:
        if self._set is not None:
            self._iteration_ended(self._set)
            self._set = None  # at the end: after an interrupt before it, another try follows

    def _iteration_ended(self, delivered: DeliveredSet) -> None:
        """Let the rest of a set be fetched again."""
        delivered.cursor.report(delivered.cursor.partition.iteration_ended, delivered, False)

    def _report_damage(self) -> None:
        """Report the damage, so that the set is fetched again from there."""
        if self._damage is not None:
            delivered, at, damage = self._damage
            if delivered.cursor.report(delivered.cursor.partition.ended, delivered, at):
                delivered.cursor.on_corrupt(delivered.cursor, at, damage)
            self._damage = None  # at the end: after an interrupt before it, another try follows
