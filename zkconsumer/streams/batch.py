"""Many messages at once: what a piece of a fetched set of one partition holds, as columns.

    for batch in stream.batches():
        for offset, value in zip(batch.offsets, batch.values): ...

Row i is one message: offsets[i], keys[i], values[i], timestamps_ms[i].  A column is made into a list when it is first
asked for, and those nobody asks for cost nothing.

A set is handed out in pieces of about 256 KB: what is made of them then lies in the processor's cache, and in memory
that was just free, when its user looks at it.  Whole sets are there by stream.sets() and MessageSet.index().
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkawire.columns import Columns
from kafkawire.errors import CorruptMessage
from kafkawire.model import PartitionId, TopicPartition
from zkconsumer.fetching.cursor import Share
from zkconsumer.fetching.progress import ShareTicket


class Batch:
    """One or more messages of one partition, in order.  Done when the next batch is asked for, or at ack().

    resume_at is where the next one begins: the position to commit once all of it is done.
    """

    __slots__ = ("_columns", "_keys", "_offsets", "_ticket", "_timestamps_ms", "_values", "resume_at", "tp")

    def __init__(self, tp: TopicPartition, columns: Columns, resume_at: int, ticket: ShareTicket) -> None:
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
        """Milliseconds since 1970; None where the stored format has no time (0.8 and 0.9)."""
        if self._timestamps_ms is None:
            stamps = self._columns.timestamps_ms
            self._timestamps_ms = [None] * len(self) if stamps is None else [ms if ms >= 0 else None for ms in stamps]
        return self._timestamps_ms

    def __len__(self) -> int:
        return len(self._columns)

    def ack(self) -> None:
        """All of it is done.  From any thread; a second time changes nothing."""
        self._ticket.done()

    def __repr__(self) -> str:
        return f"<Batch {self.tp} ..{self.resume_at}, {len(self)} messages>"


class BatchReader:
    """The batches of one stream; one at a time is in the user's hands.

    next_share   the next set that may be handed out; what it raises comes out of next()
    on_ack       only Batch.ack() says that one is done
    """

    def __init__(self, next_share: Callable[[], Share], check_crcs: bool, on_ack: bool) -> None:
        self._next_share = next_share
        self._check_crcs = check_crcs
        self._on_ack = on_ack
        self._share: Share | None = None  # the set that is handed out, as long as there may be more of it
        self._pieces: Iterator[Columns] = iter(())
        self._ticket: ShareTicket | None = None  # of the batch in the user's hands
        self._damage: tuple[Share, int, CorruptMessage] | None = None  # what comes behind it

    def next(self) -> Batch:
        """The next one; the one before is done."""
        self._put_down()
        while True:
            if self._share is None:
                share = self._next_share()
                self._share, self._pieces = share, share.message_set.pieces(self._check_crcs)
            batch = self._next_of(self._share)
            if batch is not None:
                return batch

    def _next_of(self, share: Share) -> Batch | None:
        """The next batch of a set; None: there is none in the next piece, or nothing more of it may be handed out."""
        columns = next(self._pieces, None)
        if columns is None:  # an exception ended them before the set did: ctrl-C, no memory
            self._leave_rest()
            return None
        at, damage = max(columns.resume_at, share.reached_at), columns.damage
        first = share.reached_at == share.message_set.start
        share.in_hand = at  # before the look: who closes looks at it after
        if not share.may_hand_out():
            self._leave_rest()
            return None
        ticket = share.ticket(at, 1 if len(columns) else 0)
        share.reached_at = at
        if damage is not None:
            self._share, self._damage = None, (share, at, damage)
        elif at >= share.message_set.resume_at:
            self._share = None
            share.cursor.stopped(share, None)
        elif first:
            share.start_reading(on_ack=True)
        if len(columns):
            self._ticket = ticket
            return Batch(share.message_set.tp, columns, at, ticket)
        self._tell_damage()
        return None

    def leave(self) -> None:
        """The user asks for something else: the batch in his hands is done, what is left of the set comes again."""
        self._put_down()
        if self._share is not None:
            self._leave_rest()

    def done(self) -> None:
        """The batch in the user's hands is done, though no other was asked for; on_ack only ack() says so."""
        if self._ticket is not None and not self._on_ack:
            self._ticket.done()

    def give_up(self) -> None:
        """The user will not come back: what is in his hands is not done, unless he acknowledges it."""
        if self._share is not None:
            self._leave_rest()
        ticket, self._ticket = self._ticket, None
        if ticket is not None and not self._on_ack:
            ticket.drop()
        if self._damage is not None:
            (share, at, _), self._damage = self._damage, None
            share.cursor.stopped(share, at)

    def _put_down(self) -> None:
        ticket, self._ticket = self._ticket, None
        if ticket is not None and not self._on_ack:
            ticket.done()
        self._tell_damage()

    def _leave_rest(self) -> None:
        share, self._share = self._share, None
        if share is not None:
            share.stop_reading(finished=False)

    def _tell_damage(self) -> None:
        """What comes from the damage on is fetched again."""
        if self._damage is not None:
            (share, at, damage), self._damage = self._damage, None
            if share.cursor.stopped(share, at):
                share.cursor.on_corrupt(share.cursor, at, damage)
