"""Cursor: thread-safe access to the life of one owned partition (partition.py), through one lock.

Each event is passed on under the lock, and its actions are carried out after the lock is released: bytes go back to the
budget, sets into the queue of the stream.  The event loop moves the position.  Streams deliver and senders acknowledge
in any thread; neither side waits while it holds the lock.

    paused     nothing is fetched or delivered; a set that arrives too late is fetched again at `resume`
    throttled  (fetch_limit 0) nothing is fetched; sets that are fetched already are delivered
    resting    caught up, done and quiet: nothing visits it until it changes (resting.py)
    withheld   a set was due and not delivered (the lease was over, a message was damaged): `refetch_withheld`

A partition is revoked in two steps.  `close` ends delivery, while delivered messages may still finish and count; `drop`
ends everything: afterwards nothing of it is sent or committed.
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
from zkconsumer.fetching.committable import DeliveryTicket, Parked, Progress
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
from zkconsumer.offsets.former import TopicCreation
from zkconsumer.session.lease import Lease

__all__ = ["Cursor", "DeliveredSet", "Rest", "Seek"]


class Rest(Protocol):
    """Interface of the place where a cursor rests.  answered_at: when a broker last said that nothing is new."""

    answered_at: float

    def leave(self, cursor: Cursor) -> None:
        """Remove a cursor that is about to change."""


class DeliveredSet(FetchedSet):
    """Fetched message set in a stream, through which its reader reports what is done.

    period: the same object for all sets of a partition from one reset to the next; a different one means that reading
    started again, most likely at another position.
    """

    __slots__ = ("cursor", "message_set", "period")

    cursor: Cursor
    message_set: MessageSet
    period: Progress | None

    def ticket(self, resume_at: int, parts: int = 1) -> DeliveryTicket:
        """Return a ticket for the messages before resume_at, with `parts` parts to be done.  Call in the order of the
        positions.

        The ticket that ends the set carries the bytes of the set: they are released when it completes.
        """
        return self.cursor.ticket(self, resume_at, parts)

    def may_deliver(self) -> bool:
        return self.cursor.may_deliver(self)

    def acked(self, resume_at: int) -> None:
        """Acknowledge a message and those before it (kafkawire.model.Handed)."""
        with self.cursor.lock:
            FetchedSet.acked(self, resume_at)

    @property
    def topic(self) -> int | None:
        """Return the czxid of the topic that the log belongs to: a different one means that the topic was created
        again."""
        return None if self.cursor.topic is None else self.cursor.topic.czxid

    @property
    def reset(self) -> Reset | None:
        """Return the newest reset of the partition, or None if it was always read from its committed offset, or a
        program's, since it is owned."""
        return self.cursor.reset

    @property
    def ended(self) -> Callable[[], bool]:
        """Return a check, valid after the set is gone, of whether its period is over for good.  A lease that is over
        may be renewed."""
        period = self.period
        assert period is not None
        return lambda: period.closed

    def holding(self) -> Callable[[], bool]:
        """Return a check, valid after the set is gone, of whether no other member can own the partition yet, because
        the lease holds and the partition was not revoked.  Calling it changes nothing."""
        period, lease = self.period, self.cursor.lease
        assert period is not None
        return lambda: not period.closed and lease.holds(clocks.moment())

    def __repr__(self) -> str:
        return f"<DeliveredSet of {self.message_set!r}>"


class Cursor:
    """Partition that this connector owns, from the claim onwards.

    thread       the thread id that owns it
    budget       its stream's part of the memory budget
    channel      the queue of its stream
    reset        where to start if no offset was ever committed
    on_corrupt   on_corrupt(cursor, resume_at, error) is called on the stream's side when a message that is iterated is
                 damaged; the event loop then calls refetch(resume_at), if next_delivery is unchanged
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
        self.topic: TopicCreation | None = None  # topic whose log is read; None: unknown
        self.reset: Reset | None = None  # newest reset
        self.rest: Rest | None = None  # set while it rests; its state does not change meanwhile
        self.changes = 0  # number of changes that may happen during rest, and of ended rests
        self._channel = channel
        self._end_known_at = float("-inf")
        self.lock = threading.Lock()

    def _carry_out(self, actions: Actions) -> None:
        """Carry out actions without the lock.  The fetcher finds what to fetch or locate in its next round; what to
        deliver, commit first or raise is returned to the calling stream."""
        for action in actions:
            if action.do is Do.GIVE_BACK:
                self.budget.give_back(self.holding, action.at)
            elif action.do is Do.QUEUE:
                assert isinstance(action.fetched, DeliveredSet)
                self._queue(action.fetched)
            elif action.do is Do.DISCARD:
                self.discard_fetched([self])

    # state ------------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self.partition.state

    @property
    def epoch(self) -> int:
        return self.partition.epoch

    @property
    def position(self) -> int | None:
        """Return the next offset to fetch; None if it must be looked up at the leader."""
        return self.partition.position

    @property
    def next_delivery(self) -> int:
        """Return where the next set to deliver begins."""
        return self.partition.next_delivery

    @property
    def progress(self) -> Progress | None:
        """Return the ledger of its tickets since the last reset; None if it has no position."""
        return self.partition.progress

    @property
    def seek(self) -> Seek:
        return self.partition.seek

    @property
    def refused(self) -> int | None:
        """Return the offset that the broker refused, until it is known where to resume."""
        return self.partition.refused

    @property
    def goes_back(self) -> bool:
        """True if its log was cut: it resumes at an earlier offset once everything that was fetched is done."""
        return self.partition.back_to is not None

    @property
    def high_watermark(self) -> int | None:
        return self.partition.high_watermark

    @property
    def committed(self) -> int | None:
        """Return the offset in the offset store."""
        return self.partition.committed

    @committed.setter
    def committed(self, position: int | None) -> None:
        if position != self.partition.committed:
            self.changes += 1
            self.partition.committed = position

    @property
    def topic_deleted(self) -> bool:
        """True if the topic whose log is read was deleted: its offsets must not be committed any more."""
        return self.partition.topic_deleted

    @topic_deleted.setter
    def topic_deleted(self, deleted: bool) -> None:
        if deleted != self.partition.topic_deleted:
            self.changes += 1
            self.partition.topic_deleted = deleted
            if deleted:
                # A commit written now would be newer than the next topic of the same name, and count for its log.
                self.lease.end_what_began(f"topic {self.tp.topic} was deleted: a waiting commit belongs to its log")

    @property
    def closing(self) -> bool:
        """True if it is about to be revoked, or revoked."""
        return self.partition.state in ENDING

    @property
    def dropped(self) -> bool:
        return self.partition.state is State.CLOSED

    @property
    def left_uncommitted(self) -> bool:
        """True if something was done and not committed when it was dropped."""
        return self.partition.left_uncommitted

    @property
    def paused(self) -> bool:
        return self.partition.paused

    @property
    def withheld(self) -> bool:
        """True if something was due and not delivered, for a reason other than a pause."""
        return self.partition.withheld >= Withheld.DUE

    @property
    def delivers(self) -> bool:
        """True if fetched sets reach its stream: it is neither parked, paused, withheld nor about to be revoked, and
        has a position."""
        return self.partition.delivers

    @property
    def has_leader(self) -> bool:
        """True if a fetcher has it."""
        return self.partition.has_leader

    @property
    def measures(self) -> bool:
        """True if an entry found damaged for good parks it together with the offset behind the damage."""
        return self.partition.measures

    @property
    def parked(self) -> str | None:
        """Return why nothing more is delivered, or None."""
        why = self.partition.undeliverable
        return None if why is None else str(why)

    @property
    def undeliverable(self) -> Exception | None:
        """Return why nothing more is delivered as an error: EntryTooLarge, DamagedMessage, OutOfRange, or a sender's
        failure."""
        return self.partition.undeliverable

    @property
    def parked_at(self) -> Parked | None:
        """Return why and at which offset it is parked; None if it is not, or has no position."""
        return self.partition.parked_at

    @property
    def fetchable(self) -> bool:
        """True if it is neither parked, paused, throttled nor about to be revoked, so a FetchPlan may fetch it."""
        partition = self.partition
        return partition.state in MAY_FETCH and partition.fetch_limit != 0

    @property
    def fetch_limit(self) -> int | None:
        """Return the throttled number of bytes per fetch (0: fetch nothing for now), or None without a throttle."""
        return self.partition.fetch_limit

    @fetch_limit.setter
    def fetch_limit(self, limit: int | None) -> None:
        if limit != self.partition.fetch_limit:
            self._stir()
            with self.lock:
                self.partition.throttle(limit)

    @property
    def skips(self) -> bool:
        """True if something ahead cannot be read."""
        return bool(self.partition.skips)

    @property
    def queued(self) -> bool:
        """True if the stream's queue has sets of it."""
        return self.partition.queued_sets > 0

    @property
    def drained(self) -> bool:
        """True if no delivered message of it may still be done."""
        with self.lock:
            return self.partition.drained

    @property
    def undone(self) -> int:
        """Return how much was fetched and is not done, in the unit of offsets."""
        with self.lock:
            return self.partition.undone

    @property
    def buffered_bytes(self) -> int:
        """Return the bytes in memory that are fetched and not done."""
        return self.partition.buffered_bytes

    @property
    def lag(self) -> int | None:
        """Return the distance from what is done to the last known end of the log, however old, in the unit of offsets:
        messages (an upper bound on a compacted topic), or bytes for 0.7."""
        with self.lock:
            return self.partition.lag

    def committable(self) -> int | None:
        """Return the offset before which everything is done, or None if nothing may be committed.

        It is None without a position, after a drop, if its topic is deleted, or if its log was cut and it goes back.
        """
        with self.lock:
            return self.partition.committable()

    # rest -----------------------------------------------------------------------------------------------------------

    @property
    def at_rest(self) -> bool:
        """True if it may rest: read to the end of its log, with everything done and nothing wrong."""
        with self.lock:
            return self.partition.at_rest

    @property
    def resting_at(self) -> int:
        """Return the position of a resting cursor."""
        position = self.partition.position
        assert position is not None
        return position

    @property
    def end_known_at(self) -> float:
        """Return when a broker last sent the high watermark, in monotonic seconds."""
        rest = self.rest
        return self._end_known_at if rest is None else max(self._end_known_at, rest.answered_at)

    def set_log_end(self, high_watermark: int, at: float) -> None:
        """Record the end of the log that a broker sent."""
        if high_watermark != self.partition.high_watermark:
            self._stir()
            self.partition.high_watermark = high_watermark
        self._end_known_at = at

    def end_rest(self, answered_at: float) -> None:
        """End its rest; called by the place where it rested."""
        self.rest = None
        self.changes += 1
        self._end_known_at = max(self._end_known_at, answered_at)

    def _stir(self) -> None:
        """End its rest, because it is about to change."""
        if self.rest is not None:
            self.rest.leave(self)

    # the event loop's side ------------------------------------------------------------------------------------------

    def _happens(self, event: Callable[..., Actions], *args: object) -> None:
        self._stir()
        with self.lock:
            actions = event(*args)
        self._carry_out(actions)

    def reset_to(self, position: int) -> None:
        """Read from this position; sets fetched from elsewhere are discarded."""
        self._happens(self.partition.reset_to, position)

    def refetch(self, position: int) -> None:
        """Fetch again from position, at which delivery stopped; delivered messages still count.

        If that is impossible (something behind it was delivered, or dropped), start at what is done.  Nothing is
        fetched beyond the parked position: unpark() does that.
        """
        self._happens(self.partition.refetch, position)

    def refetch_withheld(self) -> None:
        """Fetch again the sets that were withheld."""
        self._happens(self.partition.refetch_withheld)

    def seek_start(self, seek: Seek) -> None:
        """Look up at the leader where to start, for a partition that was not read yet."""
        self._happens(self.partition.seek_start, seek)

    def refuse_position(self) -> None:
        """Stop fetching, because the broker says that its log does not hold the position.

        Sets that were fetched are still delivered; relocate() gives the offset to resume at.
        """
        self._happens(self.partition.refuse_position)

    def relocate(self, to: int) -> None:
        """Resume at `to`: at a start, or instead of the position that the broker refused.

        A later offset leaves a gap; an earlier one is read once go_back() finds that everything fetched is done.
        """
        self._happens(self.partition.reset_to if self.refused is None else self.partition.relocate, to)

    def go_back(self) -> int | None:
        """Resume at the earlier offset of relocate() if everything fetched before is done.

        Return how much was fetched, given back and can never be fetched again; None if something is not done yet.
        """
        self._stir()
        with self.lock:
            lost, actions = self.partition.go_back()
        self._carry_out(actions)
        return lost

    def count_gap(self, begin: int, end: int) -> int:
        """Count the offsets in this range as gone from the log.  Return how many of them were not counted before."""
        with self.lock:
            return self.partition.count_gap(begin, end)

    def skip_to(self, to: int) -> None:
        """Resume at `to`, because nothing before it can be read.  Sets that were fetched before are still delivered."""
        self._happens(self.partition.skip_to, to)

    def pass_skips(self) -> None:
        """Move what is done behind a skip once everything before it is done, if nothing behind the skip was fetched
        yet."""
        if self.partition.skips:
            self._happens(self.partition.pass_skips)

    def count_damage(self, position: int) -> int:
        """Return how many times the entry at this position was found damaged, including this time."""
        with self.lock:
            return self.partition.damaged(position)

    def enqueue(self, message_set: MessageSet, nbytes: int, failure: Exception | None = None) -> None:
        """Pass a fetched set to the stream; its nbytes count until it is done or dropped.

        failure: the stream raises this instead of delivering the set, which is empty.
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
        """Fetch and deliver nothing until resume(); delivered messages may still be done and committed."""
        self._happens(self.partition.pause)

    def resume(self) -> None:
        """End a pause: a set in the middle of its iteration continues, and sets that came too late are fetched
        again."""
        self._happens(self.partition.resume)

    def lead(self, known: bool) -> None:
        """Record whether a fetcher has it."""
        with self.lock:
            self.partition.lead(known)

    def park(self, reason: str | Exception, at_once: bool = False) -> None:
        """Deliver nothing from the fetch position onwards; with at_once, nothing that is not delivered already.

        The partition stays owned.
        """
        self._happens(self.partition.park, parked_reason(reason), at_once)

    def unpark(self, go_on_at: int | None = None, measure: bool = False) -> bool:
        """Read again from what is done.  Return False if it is not parked, or if something delivered before is not done
        yet.

        go_on_at: resume there instead, once everything before is delivered and done; the message it is parked at counts
        as done. measure: if an entry is damaged again, search behind it, and park the partition with the offset at
        which the log is readable again (DamagedMessage.resume_at).
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
        """Remove sets of closing partitions from the streams' queues that users have not taken yet.  Called with all
        partitions at once, so that each queue is scanned once."""
        leaving = {cursor for cursor in cursors if cursor.queued}
        for channel in {id(cursor._channel): cursor._channel for cursor in leaving}.values():
            for delivered in channel.drop(lambda delivered: delivered.cursor in leaving):
                delivered.cursor.take(delivered)  # too late to deliver: releases its bytes

    def _lease_time(self) -> float:
        return self.lease.time(clocks.moment())

    # the stream's side ----------------------------------------------------------------------------------------------

    def may_deliver(self, delivered: DeliveredSet) -> bool:
        """True if the set may be delivered: the partition is neither closing, paused, nor reset since it was fetched;
        nothing before it was withheld; the lease holds; the set is before the parked position."""
        return self.partition.may_deliver(delivered, self._lease_time())

    def take(self, delivered: DeliveredSet, commit_first: bool = False) -> Do | None:
        """Return what a stream does with a set that it took off its queue; None if the set came too late.

        DELIVER; RAISE its failure; COMMIT its end before it is delivered, and report that to commit_ended().
        """
        with self.lock:
            actions = self.partition.taken(delivered, self._lease_time(), commit_first)
        return self._for_stream(actions)

    def commit_ended(self, delivered: DeliveredSet, committed: bool) -> Do | None:
        """Return DELIVER, or None if it was not committed in time, so that none of it may be delivered."""
        with self.lock:
            actions = self.partition.commit_ended(delivered, committed, self._lease_time())
        return self._for_stream(actions)

    def give_back(self, delivered: DeliveredSet) -> None:
        """Return a set that its stream took off the queue and cannot hand out: it is not delivered but fetched again.

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
        """Begin to iterate a set message by message, with one ticket for all of it, or with on_ack one for each
        message."""
        with self.lock:
            actions = self.partition.iterated(delivered, on_ack)
        self._carry_out(actions)

    def end_iteration(self, delivered: DeliveredSet, finished: bool) -> bool:
        """End the iteration of a set; if it is not finished, the rest is fetched again, by us or the next owner.

        Return False if the set is from before a reset, and changes nothing.
        """
        with self.lock:
            actions = self.partition.iteration_ended(delivered, finished)
            current = delivered.epoch == self.partition.epoch
        self._carry_out(actions)
        return current

    def end_delivery(self, delivered: DeliveredSet, at: int | None) -> bool:
        """End the delivery of a set; with `at`, its user does not get what is in it from that offset.

        Return False if the set is from before a reset, and changes nothing.
        """
        with self.lock:
            actions = self.partition.ended(delivered, at)
            current = delivered.epoch == self.partition.epoch
        self._carry_out(actions)
        return current

    # reports of senders: committable.TicketOwner ---------------------------------------------------------------------

    def ticket(self, delivered: DeliveredSet, resume_at: int, parts: int = 1) -> DeliveryTicket:
        with self.lock:
            ticket, actions = self.partition.ticket(delivered, resume_at, parts)
        if actions:
            self._carry_out(actions)
        return ticket

    def message_ticket(self, delivered: DeliveredSet, resume_at: int) -> DeliveryTicket:
        """Return a ticket for the next message alone; the bytes of the set stay with the set."""
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
