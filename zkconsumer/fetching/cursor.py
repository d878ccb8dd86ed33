"""Delivery state of one owned partition: where it is fetched, what is delivered and not done, what may be committed.

    position     the next one to fetch              >=
    delivered    sets that a stream gave its user   >=
    committable  everything before it is done       >=  committed, what the offset store has

Three ways to fetch on from a position: `reset_to` starts counting from there, and what is delivered does not count any
more (a seek, a reset); `refetch` keeps counting, for what was fetched and not delivered; `refetch_withheld` chooses.

A partition is revoked in two steps.  `close` ends delivery, while what is delivered may still be finished and counted;
`drop` ends everything: from then on nothing of it is sent or committed.  `epoch` counts how often what was fetched
became worthless (a reset, a refetch): a set of an older epoch is never delivered.

    paused     nothing is fetched or delivered; a set that arrives too late is fetched again at `resume`
    throttled  (fetch_limit 0) nothing is fetched; what is fetched already is delivered
    resting    caught up, done and quiet: nothing visits it until it changes (resting.py)
    withheld   a set was due and not delivered (the lease was over, a message was damaged): `refetch_withheld`

The event loop moves the position.  Streams deliver, in whatever thread their user reads.  Plain locks guard what both
touch; neither side waits while it holds one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from groundwork.queues import BoundedQueue
from groundwork.tasks import now
from kafkawire.errors import CorruptMessage
from kafkawire.model import MessageSet, TopicPartition
from zkconsumer.errors import Undeliverable
from zkconsumer.fetching.budget import StreamBudget
from zkconsumer.fetching.progress import DeliveryTicket, Parked, Progress
from zkconsumer.offsets.former import TopicCreation
from zkconsumer.session.lease import Lease


@dataclass(frozen=True, slots=True)
class Seek:
    """Why and how a position has to be looked up.

    out_of_range: the position that the broker refused.  former: that position is of an earlier topic
    (FormerOffset.reason), so it does not count even where it lies inside the log.
    """

    reset: str
    out_of_range: int | None = None
    former: str = ""


class Rest(Protocol):
    """Where a cursor rests.  answered_at: when a broker last said that nothing is new."""

    answered_at: float

    def leave(self, cursor: Cursor) -> None:
        """It is about to change."""


class DeliveredSet:
    """A fetched message set in a stream, and what of it its reader reports as done.

    A set that is iterated message by message has one ticket (set_ticket), which is reached step by step; with on-ack
    each message has a ticket of its own.
    """

    __slots__ = (
        "_progress",
        "cursor",
        "delivered_to",
        "done_first",
        "done_to",
        "epoch",
        "failure",
        "message_set",
        "nbytes",
        "set_ticket",
    )

    def __init__(self, cursor: Cursor, message_set: MessageSet, nbytes: int, failure: Exception | None = None) -> None:
        assert cursor.progress is not None
        self.cursor = cursor
        self.message_set = message_set
        self.nbytes = nbytes
        self.failure = failure  # raised in its place
        self.epoch = cursor.epoch
        self.done_first = False  # at-most-once: committed before it is delivered
        # Of a set that is iterated.  delivered_to: the end of the message that its user has, or is about to get.
        # done_to: messages before it are done, or have tickets of their own.
        self.delivered_to = self.done_to = message_set.start
        self.set_ticket: DeliveryTicket | None = None
        self._progress = cursor.progress

    def ticket(self, resume_at: int, parts: int = 1) -> DeliveryTicket:
        """A ticket for what lies before resume_at; `parts` of it have to be done.  Ask in the order of the positions.

        The ticket that ends the set carries the bytes of the set: they are released when it completes.
        """
        last = resume_at >= self.message_set.resume_at
        return self._progress.ticket(resume_at, parts, self.cursor.last_ticket_bytes(self) if last else 0)

    def may_deliver(self) -> bool:
        return self.cursor.may_deliver(self)

    @property
    def period(self) -> object:
        """The same object for all sets of a partition from one reset to the next: a different one says that reading
        started again, most likely at another position."""
        return self._progress

    @property
    def topic(self) -> int | None:
        """The czxid of the topic that the log belongs to: another one says that the topic was created again."""
        return None if self.cursor.topic is None else self.cursor.topic.czxid

    @property
    def begins_new_log(self) -> bool:
        """The reset policy chose the position, because the committed offset was of an earlier topic."""
        return bool(self.cursor.seek.former)

    def holding(self) -> Callable[[], bool]:
        """A check that outlives the set: whether no other member can own the partition yet, because the lease holds
        and the partition was not revoked.  Calling it changes nothing."""
        progress, lease = self._progress, self.cursor.lease
        return lambda: not progress.closed and now() < lease.valid_until

    # at-most-once -------------------------------------------------------------------------------------------------

    def count_done_first(self) -> None:
        """Count all of it as done before delivery; from here on its reader's progress does not count."""
        self._progress.ticket(self.message_set.resume_at, 0)
        cursor = self.cursor
        self._progress = Progress(self.message_set.start, cursor._may_send, cursor.budget.release)
        self.done_first = True

    # iteration ----------------------------------------------------------------------------------------------------

    def start_iteration(self, on_ack: bool = False) -> None:
        """It is iterated message by message: one ticket for all of it; on_ack: one for each message."""
        self.cursor.iterate(self)  # first: a set with its last ticket that is not iterated does not count as delivered
        if not on_ack:
            self.set_ticket = self.ticket(self.message_set.resume_at)

    @property
    def idle(self) -> bool:
        """All that was delivered of it is done."""
        return not self.done_first and self.done_to >= self.delivered_to

    def acked(self, resume_at: int) -> None:
        """A message was acknowledged (kafkawire.model.Handed), and with it those before: each was delivered before it,
        and its user asked for the next one."""
        if resume_at > self.done_to:
            self.done_to = resume_at

    def message_ticket(self, resume_at: int) -> DeliveryTicket:
        """A ticket for the next message alone; the bytes of the set stay with the set."""
        return self._progress.ticket(resume_at)

    def report_progress(self) -> None:
        if self.set_ticket is not None:
            self.set_ticket.reached(self.done_to)

    def end_iteration(self, finished: bool) -> bool:
        """The iteration is through, or it ends early, at done_to: the rest is fetched again, by us or the next owner.

        False: the set is from before a reset (Cursor.end_delivery).
        """
        if self.set_ticket is None and finished:
            self.ticket(self.message_set.resume_at, 0)
        elif self.set_ticket is not None and finished:
            self.set_ticket.done()
        elif self.set_ticket is not None:
            self.set_ticket.cut(self.done_to)
        return self.cursor.end_delivery(self, None if finished else self.done_to)

    def __repr__(self) -> str:
        return f"<DeliveredSet of {self.message_set!r}>"


class Cursor:
    """A partition that this connector owns, from the claim on.

    thread       the thread id that owns it
    budget       the part of the memory budget that its stream has
    channel      the queue of its stream
    reset        where to start when no position was ever committed
    on_corrupt   on_corrupt(cursor, resume_at, error) is called on the stream's side when a message that is iterated is
                 damaged; the event loop then calls refetch(resume_at), if next_delivery is still that
    """

    def __init__(
        self,
        tp: TopicPartition,
        thread: str,
        *,
        lease: Lease,
        budget: StreamBudget,
        channel: BoundedQueue[DeliveredSet],
        reset: str = "smallest",
        on_corrupt: Callable[[Cursor, int, CorruptMessage], None] = lambda cursor, at, error: None,
    ) -> None:
        self.tp = tp
        self.thread = thread
        self.lease = lease
        self.budget = budget
        self.on_corrupt = on_corrupt
        self._channel = channel
        self._lock = threading.Lock()

        # the log
        self.position: int | None = None  # None: to be looked up at the leader
        self.seek = Seek(reset)
        self.committed: int | None = None
        self.topic: TopicCreation | None = None  # the topic whose log is read; None: not known
        self.topic_deleted = False  # that topic was deleted: its positions must not be committed any more
        self.high_watermark: int | None = None
        self._end_known_at = float("-inf")
        self._skips: dict[int, int] = {}  # from where to where nothing can be read
        self._damage: dict[int, int] = {}  # by position, how often an entry was found damaged there
        self.measures = False  # found damaged for good, it is parked with where the log can be read again

        # delivery
        self.epoch = 0
        self.closing = False
        self.dropped = False
        self.left_uncommitted = False  # once it is dropped: something was done and not committed
        self.paused = False
        self.rest: Rest | None = None  # its state does not change while it rests
        self._fetch_limit: int | None = None
        self.withheld = False  # a set was due and not delivered
        self._withheld_by_pause = False
        self._sender_dropped = False  # a sender dropped something because the lease was over: only what is done counts
        self.progress: Progress | None = None
        self.next_delivery = -1  # where the next set to deliver begins: no set is ever left out
        self._parked: Exception | None = None  # before there was a position
        self._queued_bytes = 0
        self._queued_sets = 0
        self._unticketed: set[DeliveredSet] = set()  # delivered, and the last ticket was not yet made
        self._iterated: DeliveredSet | None = None  # the set that is iterated message by message
        self._withheld_failure: DeliveredSet | None = None  # a failure that was due and not raised

    # what it says of itself ---------------------------------------------------------------------------------------

    @property
    def parked(self) -> str | None:
        """Why nothing more is delivered, if so."""
        why = self.undeliverable
        return None if why is None else str(why)

    @property
    def undeliverable(self) -> Exception | None:
        """The same as an error: EntryTooLarge, DamagedMessage, OutOfRange, or what a sender failed by."""
        where = self.parked_at
        return self._parked if where is None else where.reason

    @property
    def parked_at(self) -> Parked | None:
        """Why and where it is parked; None: it is not, or it has no position."""
        return None if self.progress is None else self.progress.parked

    @property
    def fetchable(self) -> bool:
        """Neither parked, paused, throttled nor about to be revoked (a FetchPlan asks)."""
        if self.closing or self.paused or self.withheld or self.fetch_limit == 0:
            return False
        return self.parked is None

    @property
    def fetch_limit(self) -> int | None:
        """Throttled: bytes to ask for at once, 0: fetch nothing for now; None: it is not."""
        return self._fetch_limit

    @fetch_limit.setter
    def fetch_limit(self, limit: int | None) -> None:
        if limit != self._fetch_limit:
            self._stir()
            self._fetch_limit = limit

    @property
    def end_known_at(self) -> float:
        """When a broker last sent the high watermark, in monotonic seconds."""
        rest = self.rest
        return self._end_known_at if rest is None else max(self._end_known_at, rest.answered_at)

    @property
    def at_rest(self) -> bool:
        """Read to the end of its log, with everything done and nothing wrong: it may rest."""
        position = self.position
        return (
            position is not None
            and position == self.high_watermark == self.next_delivery
            and self._fetch_limit is None
            and self.fetchable
            and not (self._skips or self._queued_sets or self.topic_deleted)
            and self.drained
            and self.committable() == position
        )

    @property
    def resting_at(self) -> int:
        """The position of one that rests."""
        assert self.position is not None
        return self.position

    def _stir(self) -> None:
        """It is about to change."""
        if self.rest is not None:
            self.rest.leave(self)

    def end_rest(self, answered_at: float) -> None:
        """Called by where it rested."""
        self.rest = None
        self._end_known_at = max(self._end_known_at, answered_at)

    @property
    def skips(self) -> bool:
        """Something ahead cannot be read."""
        return bool(self._skips)

    @property
    def drained(self) -> bool:
        """Nothing of it is delivered that may still be done."""
        with self._lock:
            iterated = self._iterated
            unticketed = any(delivered is not iterated for delivered in self._unticketed)
        if iterated is not None and not (self.closing and iterated.idle):
            return False
        ticket = None if iterated is None else iterated.set_ticket
        return not unticketed and (self.progress is None or self.progress.idle_but(ticket))

    @property
    def buffered_bytes(self) -> int:
        """In memory: fetched and not done."""
        if not self._unticketed:
            return self._queued_bytes + (self.progress.undone_bytes if self.progress else 0)
        with self._lock:
            unticketed = sum(delivered.nbytes for delivered in self._unticketed)
            return self._queued_bytes + unticketed + (self.progress.undone_bytes if self.progress else 0)

    @property
    def lag(self) -> int | None:
        """From what is done to the last known end of the log, however old that is, in the unit of positions: messages
        (an upper bound on a compacted topic), or bytes of 0.7."""
        done = self.committable()
        return None if done is None or self.high_watermark is None else max(0, self.high_watermark - done)

    def committable(self) -> int | None:
        """Everything before it is done.  None: nothing may be committed (no position yet, dropped, its topic is
        deleted)."""
        progress = self.progress
        if self.dropped or self.topic_deleted or progress is None:
            return None
        iterated = self._iterated
        if iterated is not None:
            iterated.report_progress()
        return progress.committable

    # the event loop's side: positions -----------------------------------------------------------------------------

    def reset_to(self, position: int) -> None:
        """Read from here on; what was fetched before, from elsewhere, is worthless."""
        self._stir()
        self._end_progress()
        with self._lock:
            self.epoch += 1
            self.position = self.next_delivery = position
            self._skips.clear()
            self.withheld = self._sender_dropped = self._withheld_by_pause = False
            self.progress = Progress(position, self._may_send, self.budget.release)

    def refetch(self, position: int) -> None:
        """Fetch again from position on, which is where delivery stopped; what is delivered still counts.

        Where that cannot be (something from there on was delivered, or dropped) it starts at what is done.  Nothing is
        fetched from the parked position on: unpark() does that.
        """
        self._stir()
        with self._lock:
            keeps = self._refetch_from(position)
        if not keeps:
            self._restart(position)

    def refetch_withheld(self) -> None:
        """Fetch again what was withheld."""
        self._stir()
        with self._lock:  # a reader may just be reporting where it stopped
            position = self.next_delivery
            keeps = self._refetch_from(position)
        if not keeps and self.progress is not None:
            self._restart(position)

    def _refetch_from(self, position: int) -> bool:
        """With the lock held: fetch on at position, unless that cannot be."""
        if self._sender_dropped or self.progress is None or not self.progress.goes_on_at(position):
            return False
        self.epoch += 1
        self.position = self.next_delivery = self._after_skips(position)
        self.withheld = self._withheld_by_pause = False
        for delivered in (*self._unticketed, self._iterated):
            if delivered is not None:
                delivered.epoch = self.epoch  # what is delivered already is not too late
        return True

    def _restart(self, position: int) -> None:
        parked = self.progress.parked if self.progress is not None else None
        if self.dropped:
            return
        if parked is not None and position >= parked.position:
            self._queue_failure_again()
            return
        done = self.committable()
        self.reset_to(position if done is None else min(position, done))

    def _queue_failure_again(self) -> None:
        """The stream was to raise why the partition is parked, and that was withheld."""
        with self._lock:
            failure, self._withheld_failure = self._withheld_failure, None
            if failure is not None:
                self._withheld_by_pause = self.withheld = False
        if failure is not None and failure.epoch == self.epoch:
            self.enqueue(failure.message_set, failure.nbytes, failure.failure)

    def lose_position(self, seek: Seek) -> None:
        """The position is not usable (any more): it has to be looked up."""
        self._stir()
        self._end_progress()
        with self._lock:
            self.epoch += 1
            self.position = None
            self._skips.clear()
            self.progress = None
            self.seek = seek

    def skip_to(self, to: int) -> None:
        """Read on at `to`: nothing before it can be read.  What was fetched before is still delivered."""
        self._stir()
        if self.position is not None:
            with self._lock:
                self._skips[self.position] = to
                self.position = self._after_skips(to)  # what follows may be known to be damaged already
            self.pass_skips()

    def pass_skips(self) -> None:
        """Where nothing was fetched behind a skip yet, move what is done behind it, once all before it is done."""
        if not self._skips or self._passed():
            return
        done = self.committable()
        to = self.position
        if done is not None and to is not None and done != to == self._after_skips(done):
            ahead = {begin: end for begin, end in self._skips.items() if begin >= to}
            self.reset_to(to)
            self._skips = ahead  # damage that the fetch met already, behind what a reader met

    def _passed(self) -> bool:
        """A skip that everything before was delivered for, counted like a message that is done already."""
        progress, to = self.progress, self.position
        with self._lock:
            at = self.next_delivery
            if progress is None or to is None or at == to or self._after_skips(at) != to:
                return False
            if progress.given != at or not progress.goes_on_at(at):
                return False
            progress.ticket(to, 0)
            self.next_delivery = to
            self._forget_skips(to)
        return True

    def _after_skips(self, position: int) -> int:
        """Where to read on from a position that may have to be skipped."""
        while position in self._skips:
            position = self._skips[position]
        return position

    def _forget_skips(self, before: int) -> None:
        """With the lock held: only a reset leads back to positions before this one."""
        if self._skips:
            self._skips = {at: to for at, to in self._skips.items() if at >= before}

    def set_log_end(self, high_watermark: int, at: float) -> None:
        """The end of the log, as a broker sent it."""
        if high_watermark != self.high_watermark:
            self._stir()
            self.high_watermark = high_watermark
        self._end_known_at = at

    def count_damage(self, position: int) -> int:
        """How many times the entry at this position was found damaged, this one included."""
        times = self._damage.get(position, 0) + 1
        done = self.committable() or 0
        self._damage = {at: count for at, count in self._damage.items() if at >= done} | {position: times}
        return times

    # the event loop's side: delivery ------------------------------------------------------------------------------

    def enqueue(self, message_set: MessageSet, nbytes: int, failure: Exception | None = None) -> None:
        """Pass a fetched set to the stream; its nbytes count until it is done or dropped.

        failure: the stream raises this in place of the set, which is empty.
        """
        self._stir()
        with self._lock:
            delivered = DeliveredSet(self, message_set, nbytes, failure)
            self.position = self._after_skips(message_set.resume_at)
            if message_set.high_watermark is not None:
                self.high_watermark = message_set.high_watermark
            self._queued_bytes += nbytes
            self._queued_sets += 1
        self.budget.reserve(nbytes)
        self._channel.put(delivered, 0)  # bounded by the budget, so that no stream ever blocks a fetcher

    def pause(self) -> None:
        """Fetch and deliver nothing until resume(); what is delivered may still be done and committed."""
        self._stir()
        self.paused = True
        self.discard_fetched([self])

    def resume(self) -> None:
        """End a pause: a set in the middle of its iteration continues, what was too late is fetched again."""
        with self._lock:
            self.paused = False
            withheld = self._withheld_by_pause
        if withheld and not self.closing:
            self.refetch_withheld()

    def park(self, reason: str | Exception, at_once: bool = False) -> None:
        """Deliver nothing from the fetch position on; at_once: nothing that is not delivered already.

        The partition stays owned.
        """
        self._stir()
        why = Undeliverable(reason) if isinstance(reason, str) else reason
        if self.progress is None:
            self._parked = why
        else:
            self.progress.park(why, None if at_once else self.position)

    def unpark(self, go_on_at: int | None = None, measure: bool = False) -> bool:
        """Read once more from what is done.  False: not parked, or what was delivered before it is not done yet.

        go_on_at: from there instead; what it is parked at counts as done.  measure: an entry found damaged once more is
        searched behind, and parks the partition with where the log can be read again (DamagedMessage.resume_at).
        """
        if self.closing or self.parked is None or not self.drained:
            return False
        self._parked, self.measures = None, measure
        # Known already: found damaged once more it is parked at once, in the same words.
        self._damage = {at: times - 1 for at, times in self._damage.items()}
        at = self.committable()
        if at is not None:
            self.reset_to(at if go_on_at is None else max(at, go_on_at))
        return True

    def close(self) -> None:
        """Deliver nothing more."""
        self._stir()
        self.closing = True

    def drop(self) -> None:
        """Revoke at once: nothing more is delivered, sent or committed."""
        self._stir()
        self.left_uncommitted |= (done := self.committable()) is not None and done != self.committed
        self.closing = self.dropped = True
        self._end_progress()

    @staticmethod
    def discard_fetched(cursors: Collection[Cursor]) -> None:
        """Remove from the streams' queues what their users have not taken yet; of partitions that are closing.  For
        all of them at once: each queue is gone through once."""
        leaving = {cursor for cursor in cursors if cursor.queued}
        for channel in {id(cursor._channel): cursor._channel for cursor in leaving}.values():
            for delivered in channel.drop(lambda delivered: delivered.cursor in leaving):
                delivered.cursor.take(delivered)  # too late: releases its bytes

    @property
    def queued(self) -> bool:
        """Sets of it are in the stream's queue."""
        return self._queued_sets > 0

    def _end_progress(self) -> None:
        with self._lock:
            unticketed, self._unticketed = self._unticketed, set()
            self._iterated = None
        if self.progress is not None:
            self.progress.close()
        self.budget.release(sum(delivered.nbytes for delivered in unticketed))

    # the stream's side --------------------------------------------------------------------------------------------

    def _may_send(self) -> bool:
        """A sender that gets False drops what it has; so that is read again, even if the lease is renewed right
        after.
        """
        if now() < self.lease.valid_until:
            return True
        self._sender_dropped = self.withheld = True
        return False

    def may_deliver(self, delivered: DeliveredSet) -> bool:
        """Neither closing, paused, nor reset since it was fetched; nothing before it was withheld; the lease holds; it
        lies before what is parked."""
        if self.paused or self.withheld or delivered.epoch != self.epoch or now() >= self.lease.valid_until:
            return False
        if self.dropped or (self.closing and not delivered.done_first):
            return False
        parked = self.progress.parked if self.progress is not None else None
        return parked is None or delivered.message_set.resume_at <= parked.position

    def take(self, delivered: DeliveredSet) -> bool:
        """A stream took a set off its queue: True, it is delivered now; False, it came too late."""
        with self._lock:
            self._queued_bytes -= delivered.nbytes
            self._queued_sets -= 1
            in_turn = delivered.message_set.start == self._after_skips(self.next_delivery)
            fresh = in_turn and not self._withheld_by_pause and self.may_deliver(delivered)
            if fresh:
                self._forget_skips(delivered.message_set.start)
                self.next_delivery = delivered.message_set.resume_at
                if delivered.failure is None:
                    self._unticketed.add(delivered)
            elif delivered.epoch == self.epoch:
                self._withhold()
                if delivered.failure is not None:
                    self._withheld_failure = delivered
        if not fresh:
            self.budget.release(delivered.nbytes)
        return fresh

    def _withhold(self) -> None:
        """With the lock held: something that is due is not delivered now."""
        if self.paused or self._withheld_by_pause:
            self._withheld_by_pause = True
        elif not self.closing and self.parked is None:
            self.withheld = True

    def last_ticket_bytes(self, delivered: DeliveredSet) -> int:
        """The last ticket of a set is being made: the bytes that it carries from now on."""
        with self._lock:
            if delivered not in self._unticketed:
                return 0
            self._unticketed.remove(delivered)
            return delivered.nbytes

    def iterate(self, delivered: DeliveredSet) -> None:
        """The set that is iterated message by message: its done_to counts whenever the committable position is read."""
        self._iterated = delivered

    def end_delivery(self, delivered: DeliveredSet, at: int | None) -> bool:
        """A set is through, or its user does not get what is in it from `at` on.

        False: the set is from before a reset, and changes nothing.
        """
        with self._lock:
            if self._iterated is delivered:
                self._iterated = None
            current = delivered.epoch == self.epoch
            if current and at is not None:
                self.next_delivery = at
                self._withhold()
        self.budget.release(self.last_ticket_bytes(delivered))
        return current

    def __repr__(self) -> str:
        state = f"parked: {self.parked}" if self.parked else f"{self._queued_sets} buffered"
        return f"<Cursor {self.tp} at {self.position}, {state}>"
