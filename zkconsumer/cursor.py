"""One owned partition: where it is read, what of it is in memory, what may be committed.

    position     the next one to fetch              >=
    handed out   sets that a stream gave its user   >=
    committable  everything before it is done       >=  committed, what the offset store has

A cursor is let go in two steps.  `close` ends handing out, while what is in the user's hands may still be finished and
counted; `drop` ends everything: from then on nobody may send for it, and nothing of it is committed.  `epoch` counts
the times what was fetched became worthless (a reset, a refetch): a set of an older epoch is never handed out.

The hub moves the position; the user's side, perhaps a plain thread, hands out and settles.  What both touch is guarded
by plain locks, which are never held while anybody waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from groundwork.crew import now
from groundwork.handover import Handover
from kafkawire.errors import CorruptMessage
from kafkawire.model import MessageSet, TopicPartition
from zkconsumer.budget import Lane
from zkconsumer.errors import ConsumerError
from zkconsumer.lease import Lease
from zkconsumer.progress import Progress, ShareTicket


class Undeliverable(ConsumerError):
    """Why a partition is parked."""


@dataclass(frozen=True, slots=True)
class Seek:
    """Why and how a position has to be looked up: out_of_range is the one that was refused."""

    reset: str
    out_of_range: int | None = None


class Cursor:
    """A partition this connector owns, from the claim on; thread is the thread id that owns it.

    reset says where to begin when no position was ever committed.

    on_corrupt(cursor, resume_at, error) is called, on the user's side, when a message met while iterating is damaged.
    """

    def __init__(
        self,
        tp: TopicPartition,
        thread: str,
        lease: Lease,
        lane: Lane,
        channel: Handover[Share],
        reset: str = "smallest",
        on_corrupt: Callable[[Cursor, int, CorruptMessage], None] = lambda cursor, at, error: None,
    ) -> None:
        self.tp = tp
        self.thread = thread
        self.position: int | None = None  # None: to be looked up at the leader
        self.seek = Seek(reset)
        self.committed: int | None = None
        self.high_watermark: int | None = None
        self.epoch = 0
        self.closing = False
        self.dropped = False
        self._damage = (-1, 0)  # position, and how often it was met
        self.on_corrupt = on_corrupt
        self.progress: Progress | None = None
        self.stranded = False  # a set was not handed out though it was due (lease over): fetch again from what is done
        self._next_out = -1  # where the next set to hand out begins: none is ever left out
        self._parked: str | None = None  # before there was a position
        self._lease = lease
        self.lane = lane
        self._channel = channel
        self._fetched_bytes = 0
        self._fetched_sets = 0
        self._untold: set[Share] = set()  # sets in the user's hands whose last ticket was not yet asked for
        self._reading: Share | None = None  # the one that is iterated message by message
        self._given_up = False  # the iteration ended inside a set: the rest of it is for the next owner
        self._lock = threading.Lock()

    # the hub's side -----------------------------------------------------------------------------------------------

    def begin(self, position: int) -> None:
        """Read from here on; what was fetched before, from elsewhere, is worthless."""
        self._end_progress()
        with self._lock:
            self.epoch += 1
            self.position = self._next_out = position
            self.stranded = False
            self.progress = Progress(position, self._lease_holds, self.lane.give_back)

    def lose(self, seek: Seek) -> None:
        """The position is no good (any more): it has to be looked up."""
        self._end_progress()
        with self._lock:
            self.epoch += 1
            self.position = None
            self.progress = None
            self.seek = seek

    def deliver(self, message_set: MessageSet, nbytes: int) -> None:
        """Pass a fetched set to the stream; its nbytes count until it is done or dropped."""
        with self._lock:
            share = Share(self, message_set, nbytes)
            self.position = message_set.resume_at
            self.high_watermark = message_set.high_watermark
            self._fetched_bytes += nbytes
            self._fetched_sets += 1
        self.lane.take(nbytes)
        self._channel.put(share, 0)  # bounded by the budget, so that no stream ever blocks a fetcher

    def committable(self) -> int | None:
        """Everything before it is done.  None: nothing may be committed (no position yet, or dropped)."""
        progress = self.progress
        if self.dropped or progress is None:
            return None
        reading = self._reading
        if reading is not None:
            reading.tell()
        return progress.committable

    def close(self) -> None:
        """Hand out nothing more."""
        self.closing = True

    def drop(self) -> None:
        """Let go at once: nothing more is handed out, sent or committed."""
        self.closing = self.dropped = True
        self._end_progress()

    def park(self, reason: str, at_once: bool = False) -> None:
        """Deliver nothing from the fetch position on; at_once: nothing that is not in the user's hands already.

        The partition stays owned.
        """
        if self.progress is None:
            self._parked = reason
        else:
            self.progress.park(Undeliverable(reason), None if at_once else self.position)

    def unpark(self) -> bool:
        """Read once more from what is done.  False: not parked, or what came before it is still under way."""
        if self.closing or self.parked is None or not self.drained:
            return False
        self._parked = None
        position, times = self._damage
        self._damage = (position, times - 1)  # known already: found damaged once more it is parked at once
        at = self.committable()
        if at is not None:
            self.begin(at)
        return True

    def discard_fetched(self) -> None:
        """Take what nobody has taken yet off the stream's queue; for one that is closing."""
        for share in self._channel.drop(lambda share: share.cursor is self):
            self.taken(share)  # too late: gives its bytes back

    def count_damage(self, position: int) -> int:
        """How many times in a row the entry at this position was found damaged, this one included."""
        times = self._damage[1] + 1 if self._damage[0] == position else 1
        self._damage = (position, times)
        return times

    def _end_progress(self) -> None:
        with self._lock:
            untold, self._untold = self._untold, set()
            self._reading = None
            self._given_up = False
        if self.progress is not None:
            self.progress.close()
        self.lane.give_back(sum(share.nbytes for share in untold))

    @property
    def fetchable(self) -> bool:
        """Neither parked nor about to be let go, and its stream has room (a FetchPlan asks)."""
        return not self.closing and self.parked is None and not self.stranded

    @property
    def parked(self) -> str | None:
        """Why nothing more is delivered, if so."""
        if self.progress is not None and self.progress.parked is not None:
            return str(self.progress.parked.reason)
        return self._parked

    @property
    def drained(self) -> bool:
        """Nothing of it is in the user's hands that may still be done."""
        return not self._untold and (self._given_up or self.progress is None or self.progress.idle)

    @property
    def buffered_bytes(self) -> int:
        """In memory: fetched and not done."""
        with self._lock:
            untold = sum(share.nbytes for share in self._untold)
            return self._fetched_bytes + untold + (self.progress.undone_bytes if self.progress else 0)

    @property
    def lag(self) -> int | None:
        """Messages between what is done and the end, as of the last fetch; an upper bound on a compacted topic."""
        done = self.committable()
        return None if done is None or self.high_watermark is None else max(0, self.high_watermark - done)

    # the user's side ----------------------------------------------------------------------------------------------

    def _lease_holds(self) -> bool:
        """Whoever hears no lets go of what it has; so it has to be read again, even if the lease is renewed right
        after.
        """
        if now() < self._lease.valid_until:
            return True
        self.stranded = True
        return False

    def may_hand_out(self, share: Share) -> bool:
        """Neither closing nor reset since it was fetched, nothing before it was kept back, the lease holds, and it lies
        before what is parked."""
        if self.closing or self.stranded or share.epoch != self.epoch or not self._lease_holds():
            return False
        parked = self.progress.parked if self.progress is not None else None
        return parked is None or share.message_set.resume_at <= parked.position

    def taken(self, share: Share) -> bool:
        """A stream took a set off its queue: True, it is in the user's hands now; False, it came too late."""
        with self._lock:
            self._fetched_bytes -= share.nbytes
            self._fetched_sets -= 1
            fresh = self.may_hand_out(share) and share.message_set.start == self._next_out
            if fresh:
                self._next_out = share.message_set.resume_at
                self._untold.add(share)
            else:
                self.stranded |= share.epoch == self.epoch and not self.closing and self.parked is None
        if not fresh:
            self.lane.give_back(share.nbytes)
        return fresh

    def told(self, share: Share) -> int:
        """The last ticket of a set is being asked for: the bytes it answers for from now on."""
        with self._lock:
            if share not in self._untold:
                return 0
            self._untold.remove(share)
            return share.nbytes

    def reading(self, share: Share) -> None:
        """The set that is iterated message by message: how far that is counts whenever somebody asks what is done."""
        self._reading = share
        self._given_up = False

    def stopped_reading(self, share: Share, finished: bool) -> None:
        """The iteration of it ended; of one from before a reset nobody wants to know."""
        if self._reading is share:
            self._reading = None
            self._given_up = not finished
            self.stranded |= not finished and not self.closing

    def __repr__(self) -> str:
        state = f"parked: {self.parked}" if self.parked else f"{self._fetched_sets} buffered"
        return f"<Cursor {self.tp} at {self.position}, {state}>"


class Share:
    """One fetched set on its way through a stream, and how its reader says what of it is done."""

    __slots__ = ("_progress", "_ticket", "cursor", "epoch", "message_set", "nbytes", "reached_at")

    def __init__(self, cursor: Cursor, message_set: MessageSet, nbytes: int) -> None:
        assert cursor.progress is not None
        self.cursor = cursor
        self.message_set = message_set
        self.nbytes = nbytes
        self.epoch = cursor.epoch
        self.reached_at: int | None = None  # of a set that is iterated: everything before it is done
        self._ticket: ShareTicket | None = None
        self._progress = cursor.progress

    def ticket(self, resume_at: int, parts: int = 1) -> ShareTicket:
        """A ticket for what lies before resume_at; `parts` of it have to be done.  Ask in the order of the positions.

        The one that ends the set carries the set's bytes: they are given back when it settles.
        """
        last = resume_at >= self.message_set.resume_at
        return self._progress.ticket(resume_at, parts, self.cursor.told(self) if last else 0)

    def may_hand_out(self) -> bool:
        return self.cursor.may_hand_out(self)

    def start_reading(self) -> None:
        """It is iterated message by message: one ticket for all of it, reached step by step."""
        self._ticket = self.ticket(self.message_set.resume_at)
        self.cursor.reading(self)

    def tell(self) -> None:
        if self._ticket is not None and self.reached_at is not None:
            self._ticket.reached(self.reached_at)

    def stop_reading(self, finished: bool) -> None:
        """The iteration is through, or it ends early: then the rest of the set is not done and never will be."""
        self.tell()
        if finished and self._ticket is not None:
            self._ticket.done()
        self.cursor.stopped_reading(self, finished)

    def __repr__(self) -> str:
        return f"<Share of {self.message_set!r}>"
