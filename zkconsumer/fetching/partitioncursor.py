"""Cursor: the lock of one owned partition, and the executor of what its state machine decides (partition.py).

    cursor.apply(partition.park, reason)            an event of the event loop: it moves the position, pauses, revokes
    cursor.report(partition.ticket_done, ticket)    an event of a stream or of a sender, in any thread
    cursor.under_lease(partition.taken, delivered)  likewise, one that the end of the lease refuses
    cursor.partition.position.offset                one fact, read without the lock

An event happens under the lock.  Its actions are carried out after the lock is released: bytes go back to the budget,
sets into the queue of the stream.  No side waits while it holds the lock.

    resting    caught up, done and quiet: nothing visits it until it changes (resting.py).  `apply` ends its rest

A partition is revoked in two steps.  Partition.revoke ends delivery, while delivered messages may still finish and
count; Cursor.drop ends everything: afterwards nothing of it is sent or committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Protocol, TypeVar, TypeVarTuple

from groundwork import clocks
from groundwork.queues import BoundedQueue
from kafkawire.errors import CorruptMessage
from kafkawire.model import MessageSet, TopicPartition
from zkconsumer.fetching.budget import StreamBudget
from zkconsumer.fetching.committable import DeliveryTicket, Progress
from zkconsumer.fetching.partition import ENDING, Action, Do, FetchedSet, Partition, State
from zkconsumer.fetching.position import Reset
from zkconsumer.offsets.former import TopicCreation
from zkconsumer.session.lease import Lease

A = TypeVarTuple("A")
T = TypeVar("T")
W = TypeVar("W")


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
        return self.cursor.report(self.cursor.partition.ticket, self, resume_at, parts)

    def may_deliver(self) -> bool:
        """True if the set may be delivered: the partition is neither closing, paused, nor reset since it was fetched;
        nothing before it was withheld; the lease holds; the set is before the parked position."""
        return self.cursor.partition.may_deliver(self, self.cursor.lease_time())

    def acked(self, resume_at: int) -> None:
        """Acknowledge a message and those before it (kafkawire.model.Handed)."""
        with self.cursor.lock:
            FetchedSet.acked(self, resume_at)

    def give_back(self) -> None:
        """Fetch the set again, because its stream took it off the queue and cannot hand it out."""
        self.cursor.under_lease(self.cursor.partition.given_back, self)

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
                 damaged; the event loop then calls Partition.refetch(resume_at), if next_delivery is unchanged
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
        self.lock = threading.Lock()
        self.partition = Partition(tp, lease, reset, owner=self)
        self.committed: int | None = None  # the offset in the offset store
        self.left_uncommitted = False  # something was done and not committed when it was dropped
        self.topic: TopicCreation | None = None  # topic whose log is read; None: unknown
        self.reset: Reset | None = None  # newest reset
        self.rest: Rest | None = None  # set while it rests; its partition does not change meanwhile
        self.rests = 0  # number of rests that ended
        self._channel = channel
        self._end_known_at = float("-inf")

    def apply(self, event: Callable[[*A], T], *args: *A) -> T:
        """Let an event of the event loop happen.  It ends the rest of the partition."""
        if self.rest is not None:
            self.rest.leave(self)
        return self.report(event, *args)

    def report(self, event: Callable[[*A], T], *args: *A) -> T:
        """Let an event happen that cannot change a resting partition; called in any thread."""
        partition = self.partition
        with self.lock:
            result = event(*args)
            actions = partition.take_actions() if partition.actions else ()
        for action in actions:
            self._carry_out(action)
        return result

    def under_lease(self, event: Callable[[W, float, *A], T], what: W, *args: *A) -> T:
        """Let an event happen that needs the lease: event(what, now, ...); called in any thread."""
        partition = self.partition
        with self.lock:
            result = event(what, self.lease_time(), *args)  # the time is read last
            actions = partition.take_actions() if partition.actions else ()
        for action in actions:
            self._carry_out(action)
        return result

    def lease_time(self) -> float:
        """Return the time that the partition compares with the end of the lease."""
        return self.lease.time(clocks.moment())

    def _carry_out(self, action: Action) -> None:
        if action.do is Do.GIVE_BACK:
            self.budget.give_back(self.holding, action.nbytes)
        elif action.do is Do.QUEUE:
            assert isinstance(action.fetched, DeliveredSet)
            self.budget.take(self.holding, action.fetched.nbytes)
            self._channel.put(action.fetched, 0)  # bounded by the budget, so that no stream ever blocks a fetcher
        else:
            self.discard_fetched([self])

    # reads ------------------------------------------------------------------------------------------------------------

    @property
    def closing(self) -> bool:
        """True if it is about to be revoked, or revoked."""
        return self.partition.state in ENDING

    @property
    def dropped(self) -> bool:
        return self.partition.state is State.CLOSED

    @property
    def parked(self) -> str | None:
        """Return why nothing more is delivered, or None."""
        why = self.partition.undeliverable
        return None if why is None else str(why)

    @property
    def drained(self) -> bool:
        """True if no delivered message of it may still be done."""
        with self.lock:
            return self.partition.drained

    def committable(self) -> int | None:
        """Return the offset before which everything is done, or None if nothing may be committed."""
        with self.lock:
            return self.partition.committable()

    @property
    def end_known_at(self) -> float:
        """Return when a broker last sent the high watermark, in monotonic seconds."""
        rest = self.rest
        return self._end_known_at if rest is None else max(self._end_known_at, rest.answered_at)

    # events of the event loop -----------------------------------------------------------------------------------------

    def set_log_end(self, high_watermark: int, at: float) -> None:
        """Record the end of the log that a broker sent.  The same end as before does not end a rest."""
        if high_watermark != self.partition.high_watermark:
            self.apply(self.partition.log_ends, high_watermark)
        self._end_known_at = at

    def end_rest(self, answered_at: float) -> None:
        """End its rest; called by the place where it rested."""
        self.rest = None
        self.rests += 1
        self._end_known_at = max(self._end_known_at, answered_at)

    def enqueue(self, message_set: MessageSet, nbytes: int, failure: Exception | None = None) -> None:
        """Pass a fetched set to the stream; its nbytes count until it is done or dropped.

        failure: the stream raises this instead of delivering the set, which is empty.
        """
        delivered = DeliveredSet(message_set.start, message_set.resume_at, nbytes, failure)
        delivered.cursor, delivered.message_set = self, message_set
        delivered.period = self.partition.progress
        self.apply(self.partition.fetched, delivered)

    def drop(self) -> None:
        """Revoke at once: nothing more is delivered, sent or committed."""
        done = self.apply(self.partition.close)
        self.left_uncommitted |= done is not None and done != self.committed
        self.budget.close(self.holding)

    @staticmethod
    def discard_fetched(cursors: Collection[Cursor]) -> None:
        """Remove sets of closing partitions from the streams' queues that users have not taken yet.  Called with all
        partitions at once, so that each queue is scanned once."""
        leaving = {cursor for cursor in cursors if cursor.partition.queued_sets}
        for channel in {id(cursor._channel): cursor._channel for cursor in leaving}.values():
            for delivered in channel.drop(lambda delivered: delivered.cursor in leaving):
                delivered.give_back()  # too late to deliver: releases its bytes

    def __repr__(self) -> str:
        state = f"parked: {self.parked}" if self.parked else f"{self.partition.queued_sets} buffered"
        return f"<Cursor {self.tp} at {self.partition.position.offset}, {state}>"
