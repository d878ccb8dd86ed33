"""Cursor: the life of one owned partition (partition.py) as threads reach it, through one lock.

Each event is passed on under the lock, and its actions are carried out after it: bytes go back to the budget, sets into
the queue of the stream.  The event loop moves the position.  Streams deliver, and senders acknowledge, in whatever
thread their user likes; neither side waits while it holds the lock.

    paused     nothing is fetched or delivered; a set that arrives too late is fetched again at `resume`
    throttled  (fetch_limit 0) nothing is fetched; what is fetched already is delivered
    resting    caught up, done and quiet: nothing visits it until it changes (resting.py)
    withheld   a set was due and not delivered (the lease was over, a message was damaged): `refetch_withheld`

A partition is revoked in two steps.  `close` ends delivery, while what is delivered may still be finished and counted;
`drop` ends everything: from then on nothing of it is sent or committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Protocol

from groundwork import clocks
from groundwork.queues import BoundedQueue
from kafkawire.errors import CorruptMessage
from kafkawire.model import MessageSet, TopicPartition
from zkconsumer.fetching.budget import StreamBudget
from zkconsumer.fetching.partition import (
    DELIVER,
    ENDING,
    MAY_FETCH,
    Actions,
    Do,
    FetchedSet,
    Partition,
    Reset,
    Seek,
    State,
    Withheld,
    parked_reason,
)
from zkconsumer.fetching.progress import DeliveryTicket, Parked, Progress
from zkconsumer.offsets.former import TopicCreation
from zkconsumer.session.lease import Lease

__all__ = ["Cursor", "DeliveredSet", "Rest", "Seek"]


class Rest(Protocol):
    """Where a cursor rests.  answered_at: when a broker last said that nothing is new."""

    answered_at: float

    def leave(self, cursor: Cursor) -> None:
        """It is about to change."""


class DeliveredSet(FetchedSet):
    """A fetched message set in a stream, and what of it its reader reports as done.

    period: the same object for all sets of a partition from one reset to the next; a different one says that reading
    started again, most likely at another position.
    """

    __slots__ = ("cursor", "message_set", "period")

    cursor: Cursor
    message_set: MessageSet
    period: Progress | None

    def ticket(self, resume_at: int, parts: int = 1) -> DeliveryTicket:
        """A ticket for what lies before resume_at; `parts` of it have to be done.  Ask in the order of the positions.

        The ticket that ends the set carries the bytes of the set: they are released when it completes.
        """
        return self.cursor.ticket(self, resume_at, parts)

    def may_deliver(self) -> bool:
        return self.cursor.may_deliver(self)

    def acked(self, resume_at: int) -> None:
        """A message was acknowledged (kafkawire.model.Handed), and with it those before."""
        with self.cursor.lock:
            FetchedSet.acked(self, resume_at)

    @property
    def topic(self) -> int | None:
        """The czxid of the topic that the log belongs to: another one says that the topic was created again."""
        return None if self.cursor.topic is None else self.cursor.topic.czxid

    @property
    def reset(self) -> Reset | None:
        """The newest reset of the partition; None: it was read from its committed offset, or a program's, ever since it
        is owned."""
        return self.cursor.reset

    @property
    def ended(self) -> Callable[[], bool]:
        """A check that outlives the set: whether its period is over for good.  A lease that is over may be renewed."""
        period = self.period
        assert period is not None
        return lambda: period.closed

    def holding(self) -> Callable[[], bool]:
        """A check that outlives the set: whether no other member can own the partition yet, because the lease holds
        and the partition was not revoked.  Calling it changes nothing."""
        period, lease = self.period, self.cursor.lease
        assert period is not None
        return lambda: not period.closed and lease.holds(clocks.moment())

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
        self.holding = budget.open()
        self.on_corrupt = on_corrupt
        self.partition = Partition(tp, lease, reset, owner=self)
        self.topic: TopicCreation | None = None  # the topic whose log is read; None: not known
        self.reset: Reset | None = None  # the newest
        self.rest: Rest | None = None  # its state does not change while it rests
        self.changes = 0  # of what may change while it rests, and ends of rests
        self._channel = channel
        self._end_known_at = float("-inf")
        self.lock = threading.Lock()

    def _carry_out(self, actions: Actions) -> None:
        """With the lock free.  What is to be fetched or located is read by the fetcher in its next round; what is to be
        delivered, committed first or raised is returned to the stream that asked."""
        for action in actions:
            if action.do is Do.GIVE_BACK:
                self.budget.give_back(self.holding, action.at)
            elif action.do is Do.QUEUE:
                assert isinstance(action.fetched, DeliveredSet)
                self._queue(action.fetched)
            elif action.do is Do.DISCARD:
                self.discard_fetched([self])

    # what it says of itself -----------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self.partition.state

    @property
    def epoch(self) -> int:
        return self.partition.epoch

    @property
    def position(self) -> int | None:
        """The next one to fetch; None: to be looked up at the leader."""
        return self.partition.position

    @property
    def next_delivery(self) -> int:
        """Where the next set to deliver begins."""
        return self.partition.next_delivery

    @property
    def progress(self) -> Progress | None:
        """The ledger of its tickets, since the last reset; None: it has no position."""
        return self.partition.progress

    @property
    def seek(self) -> Seek:
        return self.partition.seek

    @property
    def refused(self) -> int | None:
        """The position that the broker refused, until it is known where to read on."""
        return self.partition.refused

    @property
    def goes_back(self) -> bool:
        """Its log was cut: it is read on at an earlier offset once everything that was fetched is done."""
        return self.partition.back_to is not None

    @property
    def high_watermark(self) -> int | None:
        return self.partition.high_watermark

    @property
    def committed(self) -> int | None:
        """What the offset store has."""
        return self.partition.committed

    @committed.setter
    def committed(self, position: int | None) -> None:
        if position != self.partition.committed:
            self.changes += 1
            self.partition.committed = position

    @property
    def topic_deleted(self) -> bool:
        """The topic whose log is read was deleted: its positions must not be committed any more."""
        return self.partition.topic_deleted

    @topic_deleted.setter
    def topic_deleted(self, deleted: bool) -> None:
        if deleted != self.partition.topic_deleted:
            self.changes += 1
            self.partition.topic_deleted = deleted
            if deleted:
                # Written now, it would be newer than the next topic of the name, and count for its log.
                self.lease.end_what_began(f"topic {self.tp.topic} was deleted: a commit that waits is of its log")

    @property
    def closing(self) -> bool:
        """It is about to be revoked, or is."""
        return self.partition.state in ENDING

    @property
    def dropped(self) -> bool:
        return self.partition.state is State.CLOSED

    @property
    def left_uncommitted(self) -> bool:
        """Once it is dropped: something was done and not committed."""
        return self.partition.left_uncommitted

    @property
    def paused(self) -> bool:
        return self.partition.paused

    @property
    def withheld(self) -> bool:
        """Something was due and not delivered, and not because of a pause."""
        return self.partition.withheld >= Withheld.DUE

    @property
    def delivers(self) -> bool:
        """Neither parked, paused, withheld, about to be revoked nor without a position: nothing keeps what is fetched
        from its stream."""
        return self.partition.delivers

    @property
    def has_leader(self) -> bool:
        """A fetcher has it."""
        return self.partition.has_leader

    @property
    def measures(self) -> bool:
        """Found damaged for good, it is parked with where the log can be read again."""
        return self.partition.measures

    @property
    def parked(self) -> str | None:
        """Why nothing more is delivered, if so."""
        why = self.partition.undeliverable
        return None if why is None else str(why)

    @property
    def undeliverable(self) -> Exception | None:
        """The same as an error: EntryTooLarge, DamagedMessage, OutOfRange, or what a sender failed by."""
        return self.partition.undeliverable

    @property
    def parked_at(self) -> Parked | None:
        """Why and where it is parked; None: it is not, or it has no position."""
        return self.partition.parked_at

    @property
    def fetchable(self) -> bool:
        """Neither parked, paused, throttled nor about to be revoked (a FetchPlan asks)."""
        partition = self.partition
        return partition.state in MAY_FETCH and partition.fetch_limit != 0

    @property
    def fetch_limit(self) -> int | None:
        """Throttled: bytes to ask for at once, 0: fetch nothing for now; None: it is not."""
        return self.partition.fetch_limit

    @fetch_limit.setter
    def fetch_limit(self, limit: int | None) -> None:
        if limit != self.partition.fetch_limit:
            self._stir()
            with self.lock:
                self.partition.throttle(limit)

    @property
    def skips(self) -> bool:
        """Something ahead cannot be read."""
        return bool(self.partition.skips)

    @property
    def queued(self) -> bool:
        """Sets of it are in the stream's queue."""
        return self.partition.queued_sets > 0

    @property
    def drained(self) -> bool:
        """Nothing of it is delivered that may still be done."""
        with self.lock:
            return self.partition.drained

    @property
    def undone(self) -> int:
        """How much was fetched and is not done, in the unit of positions."""
        with self.lock:
            return self.partition.undone

    @property
    def buffered_bytes(self) -> int:
        """In memory: fetched and not done."""
        return self.partition.buffered_bytes

    @property
    def lag(self) -> int | None:
        """From what is done to the last known end of the log, however old that is, in the unit of positions: messages
        (an upper bound on a compacted topic), or bytes of 0.7."""
        with self.lock:
            return self.partition.lag

    def committable(self) -> int | None:
        """Return the offset before which everything is done, or None if nothing may be committed.

        None: it has no position yet, it is dropped, its topic is deleted, or its log was cut and it goes back.
        """
        with self.lock:
            return self.partition.committable()

    # rest -----------------------------------------------------------------------------------------------------------

    @property
    def at_rest(self) -> bool:
        """Read to the end of its log, with everything done and nothing wrong: it may rest."""
        with self.lock:
            return self.partition.at_rest

    @property
    def resting_at(self) -> int:
        """The position of one that rests."""
        position = self.partition.position
        assert position is not None
        return position

    @property
    def end_known_at(self) -> float:
        """When a broker last sent the high watermark, in monotonic seconds."""
        rest = self.rest
        return self._end_known_at if rest is None else max(self._end_known_at, rest.answered_at)

    def set_log_end(self, high_watermark: int, at: float) -> None:
        """The end of the log, as a broker sent it."""
        if high_watermark != self.partition.high_watermark:
            self._stir()
            self.partition.high_watermark = high_watermark
        self._end_known_at = at

    def end_rest(self, answered_at: float) -> None:
        """Called by where it rested."""
        self.rest = None
        self.changes += 1
        self._end_known_at = max(self._end_known_at, answered_at)

    def _stir(self) -> None:
        """It is about to change."""
        if self.rest is not None:
            self.rest.leave(self)

    # the event loop's side ------------------------------------------------------------------------------------------

    def _happens(self, event: Callable[..., Actions], *args: object) -> None:
        self._stir()
        with self.lock:
            actions = event(*args)
        self._carry_out(actions)

    def reset_to(self, position: int) -> None:
        """Read from here on; what was fetched before, from elsewhere, is worthless."""
        self._happens(self.partition.reset_to, position)

    def refetch(self, position: int) -> None:
        """Fetch again from position on, which is where delivery stopped; what is delivered still counts.

        Where that cannot be (something from there on was delivered, or dropped) it starts at what is done.  Nothing is
        fetched from the parked position on: unpark() does that.
        """
        self._happens(self.partition.refetch, position)

    def refetch_withheld(self) -> None:
        """Fetch again what was withheld."""
        self._happens(self.partition.refetch_withheld)

    def seek_start(self, seek: Seek) -> None:
        """Ask the leader where to start; for a partition that was not read yet."""
        self._happens(self.partition.seek_start, seek)

    def refuse_position(self) -> None:
        """Stop fetching, because the broker says that its log does not hold the position.

        What was fetched is still delivered; relocate() says where to read on.
        """
        self._happens(self.partition.refuse_position)

    def relocate(self, to: int) -> None:
        """Read on at `to`: at a start, or in place of the position that the broker refused.

        A later offset leaves a gap; an earlier one is read once go_back() finds that everything fetched is done.
        """
        self._happens(self.partition.reset_to if self.refused is None else self.partition.relocate, to)

    def go_back(self) -> int | None:
        """Read on at the earlier offset of relocate(), if everything that was fetched before is done.

        Returns how much was fetched, given back and can be fetched no more; None if something is not done yet.
        """
        self._stir()
        with self.lock:
            lost, actions = self.partition.go_back()
        self._carry_out(actions)
        return lost

    def count_gap(self, begin: int, end: int) -> int:
        """Count the offsets between as gone from the log.  Returns how many of them were not counted before."""
        with self.lock:
            return self.partition.count_gap(begin, end)

    def skip_to(self, to: int) -> None:
        """Read on at `to`: nothing before it can be read.  What was fetched before is still delivered."""
        self._happens(self.partition.skip_to, to)

    def pass_skips(self) -> None:
        """Where nothing was fetched behind a skip yet, move what is done behind it, once all before it is done."""
        if self.partition.skips:
            self._happens(self.partition.pass_skips)

    def count_damage(self, position: int) -> int:
        """How many times the entry at this position was found damaged, this one included."""
        with self.lock:
            return self.partition.damaged(position)

    def enqueue(self, message_set: MessageSet, nbytes: int, failure: Exception | None = None) -> None:
        """Pass a fetched set to the stream; its nbytes count until it is done or dropped.

        failure: the stream raises this in place of the set, which is empty.
        """
        self._stir()
        delivered = DeliveredSet(message_set.start, message_set.resume_at, nbytes, failure)
        delivered.cursor, delivered.message_set = self, message_set
        with self.lock:
            self.partition.fetched(delivered, message_set.high_watermark)
            delivered.period = delivered.progress
        self._queue(delivered)

    def _queue(self, delivered: DeliveredSet) -> None:
        self.budget.take(self.holding, delivered.nbytes)
        self._channel.put(delivered, 0)  # bounded by the budget, so that no stream ever blocks a fetcher

    def pause(self) -> None:
        """Fetch and deliver nothing until resume(); what is delivered may still be done and committed."""
        self._happens(self.partition.pause)

    def resume(self) -> None:
        """End a pause: a set in the middle of its iteration continues, what was too late is fetched again."""
        self._happens(self.partition.resume)

    def lead(self, known: bool) -> None:
        """A fetcher has it, or has it no more."""
        with self.lock:
            self.partition.lead(known)

    def park(self, reason: str | Exception, at_once: bool = False) -> None:
        """Deliver nothing from the fetch position on; at_once: nothing that is not delivered already.

        The partition stays owned.
        """
        self._happens(self.partition.park, parked_reason(reason), at_once)

    def unpark(self, go_on_at: int | None = None, measure: bool = False) -> bool:
        """Read once more from what is done.  False: not parked, or what was delivered before it is not done yet.

        go_on_at: from there instead, once all before it is delivered and done; what it is parked at counts as done.
        measure: an entry found damaged once more is searched behind, and parks the partition with where the log can be
        read again (DamagedMessage.resume_at).
        """
        self._stir()
        with self.lock:
            begun, actions = self.partition.unpark(go_on_at, measure)
        self._carry_out(actions)
        return begun

    def close(self) -> None:
        """Deliver nothing more."""
        self._happens(self.partition.revoke)

    def drop(self) -> None:
        """Revoke at once: nothing more is delivered, sent or committed."""
        self._happens(self.partition.close)
        self.budget.close(self.holding)

    @staticmethod
    def discard_fetched(cursors: Collection[Cursor]) -> None:
        """Remove from the streams' queues what their users have not taken yet; of partitions that are closing.  For
        all of them at once: each queue is gone through once."""
        leaving = {cursor for cursor in cursors if cursor.queued}
        for channel in {id(cursor._channel): cursor._channel for cursor in leaving}.values():
            for delivered in channel.drop(lambda delivered: delivered.cursor in leaving):
                delivered.cursor.take(delivered)  # too late: releases its bytes

    def _lease_time(self) -> float:
        return self.lease.time(clocks.moment())

    # the stream's side ----------------------------------------------------------------------------------------------

    def may_deliver(self, delivered: DeliveredSet) -> bool:
        """Neither closing, paused, nor reset since it was fetched; nothing before it was withheld; the lease holds; it
        lies before what is parked."""
        return self.partition.may_deliver(delivered, self._lease_time())

    def take(self, delivered: DeliveredSet, commit_first: bool = False) -> Do | None:
        """A stream took a set off its queue: what it does with it; None: it came too late.

        DELIVER; RAISE its failure; COMMIT its end before it is delivered, and report that to commit_ended().
        """
        with self.lock:
            actions = self.partition.taken(delivered, self._lease_time(), commit_first)
        return self._for_stream(actions)

    def commit_ended(self, delivered: DeliveredSet, committed: bool) -> Do | None:
        """DELIVER; None: it was not committed in time, so none of it may be delivered."""
        with self.lock:
            actions = self.partition.commit_ended(delivered, committed, self._lease_time())
        return self._for_stream(actions)

    def give_back(self, delivered: DeliveredSet) -> None:
        """Its stream took a set off the queue and cannot hand it out: nothing of it is delivered, it is fetched again.

        A second call, and one for a set that came too late, changes nothing.
        """
        with self.lock:
            actions = self.partition.given_back(delivered, self._lease_time())
        self._carry_out(actions)

    def _for_stream(self, actions: Actions) -> Do | None:
        if actions is DELIVER:
            return Do.DELIVER
        self._carry_out(actions)
        return None if not actions or actions[0].do is Do.GIVE_BACK else actions[0].do

    def start_iteration(self, delivered: DeliveredSet, on_ack: bool = False) -> None:
        """It is iterated message by message: one ticket for all of it; on_ack: one for each message."""
        with self.lock:
            actions = self.partition.iterated(delivered, on_ack)
        self._carry_out(actions)

    def end_iteration(self, delivered: DeliveredSet, finished: bool) -> bool:
        """The iteration is through, or it ends early: the rest is fetched again, by us or the next owner.

        False: the set is from before a reset, and changes nothing.
        """
        with self.lock:
            actions = self.partition.iteration_ended(delivered, finished)
            current = delivered.epoch == self.partition.epoch
        self._carry_out(actions)
        return current

    def end_delivery(self, delivered: DeliveredSet, at: int | None) -> bool:
        """A set is through, or its user does not get what is in it from `at` on.

        False: the set is from before a reset, and changes nothing.
        """
        with self.lock:
            actions = self.partition.ended(delivered, at)
            current = delivered.epoch == self.partition.epoch
        self._carry_out(actions)
        return current

    # what senders report: zkconsumer.fetching.progress.TicketOwner --------------------------------------------------

    def ticket(self, delivered: DeliveredSet, resume_at: int, parts: int = 1) -> DeliveryTicket:
        with self.lock:
            ticket, actions = self.partition.ticket(delivered, resume_at, parts)
        if actions:
            self._carry_out(actions)
        return ticket

    def message_ticket(self, delivered: DeliveredSet, resume_at: int) -> DeliveryTicket:
        """A ticket for the next message alone; the bytes of the set stay with the set."""
        with self.lock:
            return self.partition.message_ticket(delivered, resume_at)

    def may_send(self, ticket: DeliveryTicket) -> bool:
        with self.lock:
            return self.partition.may_send(ticket, self._lease_time())

    def ticket_done(self, ticket: DeliveryTicket) -> None:
        with self.lock:
            actions = self.partition.ticket_done(ticket)
        if actions:
            self._carry_out(actions)

    def ticket_reached(self, ticket: DeliveryTicket, resume_at: int) -> None:
        with self.lock:
            self.partition.ticket_reached(ticket, resume_at)

    def ticket_cut(self, ticket: DeliveryTicket, resume_at: int) -> None:
        with self.lock:
            actions = self.partition.ticket_cut(ticket, resume_at)
        self._carry_out(actions)

    def ticket_failed(self, ticket: DeliveryTicket, reason: Exception, resume_at: int | None) -> None:
        with self.lock:
            actions = self.partition.ticket_failed(ticket, reason, resume_at)
        self._carry_out(actions)

    def ticket_dropped(self, ticket: DeliveryTicket) -> None:
        with self.lock:
            actions = self.partition.ticket_dropped(ticket)
        self._carry_out(actions)

    def __repr__(self) -> str:
        state = f"parked: {self.parked}" if self.parked else f"{self.partition.queued_sets} buffered"
        return f"<Cursor {self.tp} at {self.position}, {state}>"
