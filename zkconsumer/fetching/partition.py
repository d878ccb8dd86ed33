"""Partition: the state machine of one owned partition, from its claim to its last commit.  It decides what is fetched,
delivered and done, and what may be committed.  Pure.

    result = partition.<event>(...)
    for action in partition.take_actions(): ...

A state machine without clock, lock, queue or socket: `now` comes in with the events that need it, and work outside
comes out as actions.  Queries (committable, drained, may_deliver, lag ..) change nothing, however often they are
called.  Threads use it under the lock of its cursor, which carries out the actions (partitioncursor.py).

    position     the next one to fetch (position.py)                 >=
    delivered    sets that a stream gave its user                    >=
    committable  everything before it is done (committable.py)       >=  committed, the offset in the store

The state is the first of these that applies:

    state        why                                              fetched   delivered          counts, is committed
    closed       released or lost; final state                    no        no                 no
    revoking     about to be released; leads to closed only       no        (1)                yes
    paused       by the program                                   no        no                 yes
    withheld     something was due and not delivered (2)          no        no                 yes
    parked       a message can never be delivered, or stored      no        what comes before  yes, up to there
    waiting      no broker leads it                               no        yes                yes
    locating     its position is unknown: ask the leader          no        yes                yes (3)
    throttled    no bytes may be requested                        no        yes                yes
    fetching                                                      yes       yes                yes

    (1) only the rest of a set that was committed before its delivery: no other member would deliver it
    (2) the lease was over, a message was damaged, a commit failed: fetched again by refetch_withheld()
    (3) not while it goes back: its log was cut, so these offsets belong to messages that the log has lost

Events, by method:

    reset_to  seek_start  refetch  refetch_withheld         it resumes elsewhere, or where it stopped
    refuse_position  relocate  go_back                      its log does not hold the position (any more)
    skip_to  pass_skips  park  unpark                       something in the log cannot be read
    pause  resume  throttle  lead                           the program and the cluster stop and start it
    delete_topic  revoke  close                             its topic is deleted; it is given away
    fetched  taken  commit_ended  iterated  ended           a set: in the queue, at its stream, in its reader
    given_back                                              .. its stream could not hand it out
    ticket  ticket_done  ticket_reached  ticket_cut         delivered messages are acknowledged, in any order
    ticket_failed  ticket_dropped  may_send                 .. or cannot be; a sender asks whether it still may

The events of a set and of its tickets come from any thread, and may come too late.  The others come from the event
loop; only they change a partition that rests.

`epoch` counts how often the fetched sets became invalid (a reset, a refetch): a set of an older epoch is never
delivered.  A reset also begins a new Progress, so that delivered sets do not count any more; a refetch keeps it.

A position that the broker refuses (OffsetOutOfRange) invalidates nothing: the log may have lost the fetched messages.
So all of them are delivered and done as before, and only the position moves: to the same offset again, over a gap (as
over a skip), or back, once everything that was fetched is done.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from kafkawire.model import TopicPartition
from zkconsumer.errors import Undeliverable
from zkconsumer.fetching.committable import DeliveryTicket, Parked, Progress, TicketOwner
from zkconsumer.fetching.position import FetchPosition, Seek
from zkconsumer.session.lease import Lease


class State(enum.Enum):
    CLOSED = "closed"
    REVOKING = "revoking"
    PAUSED = "paused"
    WITHHELD = "withheld"
    PARKED = "parked"
    WAITING = "waiting for a leader"
    LOCATING = "locating"
    THROTTLED = "throttled"
    FETCHING = "fetching"


S = State
ENDING = {S.CLOSED, S.REVOKING}
MAY_FETCH = {S.WAITING, S.LOCATING, S.FETCHING}  # states that fetch once it has a leader and a position
DELIVERS = {S.WAITING, S.LOCATING, S.THROTTLED, S.FETCHING}  # sets of the epoch; parked and revoking: see may_deliver


class Withheld(enum.IntEnum):
    """Reason why something is due and not delivered; a larger value includes the smaller ones."""

    NOTHING = 0
    BY_PAUSE = 1  # fetched again at resume()
    DUE = 2
    BY_SENDER = 3  # a sender dropped messages because the lease was over: only what is done counts


class Taken(enum.Enum):
    """What a stream does with a set that it took off its queue."""

    DELIVER = "deliver"
    COMMIT = "commit"  # up to the end of the set, before it is delivered; then commit_ended()
    RAISE = "raise"  # its failure, to the reader


class Do(enum.Enum):
    GIVE_BACK = "give back"  # bytes of the memory budget
    QUEUE = "queue"  # the set, for its stream
    DISCARD = "discard queued"  # the sets in the queue of its stream; each comes back by given_back()


class Action(NamedTuple):
    do: Do
    nbytes: int = 0  # for GIVE_BACK
    fetched: FetchedSet | None = None  # for QUEUE


class FetchedSet:
    """Fetched message set on its way through the partition; nbytes count until it is done or dropped.

    failure: raised instead; then the set is empty.  A set that is iterated message by message has one ticket
    (set_ticket), and its reader moves delivered_to and done_to, which only grow:

        delivered_to   the end of the message that the user has, or is about to get
        done_to        messages before it are done (the user asked for the next), or have tickets of their own
        acked_to       messages before it were acknowledged
    """

    __slots__ = (
        "acked_to",
        "committed_first",
        "delivered_to",
        "done_to",
        "epoch",
        "failure",
        "nbytes",
        "progress",
        "queued",
        "resume_at",
        "set_ticket",
        "start",
    )

    def __init__(self, start: int, resume_at: int, nbytes: int, failure: Exception | None = None) -> None:
        self.start = start
        self.resume_at = resume_at
        self.nbytes = nbytes
        self.failure = failure
        self.epoch = -1
        self.progress: Progress | None = None  # the ledger of its tickets
        self.queued = False  # in the queue of its stream
        self.committed_first = False  # at-most-once: committed before it is delivered
        self.delivered_to = self.done_to = self.acked_to = start
        self.set_ticket: DeliveryTicket | None = None

    def acked(self, resume_at: int) -> None:
        """Acknowledge a message and those before it: each was delivered before it, and its user asked for the
        next one."""
        if resume_at > self.acked_to:
            self.acked_to = resume_at

    @property
    def reached(self) -> int:
        """Return the offset before which everything of it is done, or has tickets of its own."""
        return max(self.done_to, self.acked_to)

    @property
    def idle(self) -> bool:
        """True if everything that was delivered of it is done."""
        return not self.committed_first and self.reached >= self.delivered_to

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.start}..{self.resume_at}, {self.nbytes} bytes>"


class Partition:
    """One owned partition, from its claim onwards.

    lease    how long we may assume that it is ours
    reset    where to start if no offset was ever committed
    owner    receives the reports of its tickets: its cursor; None: they report to their Progress, and the caller passes
             them on
    """

    def __init__(
        self, tp: TopicPartition, lease: Lease, reset: str = "smallest", owner: TicketOwner | None = None
    ) -> None:
        self.tp = tp
        self.lease = lease
        self.state = S.WAITING
        self.delivers = True  # cached: whether the state is one of DELIVERS, which is read for each message
        self.epoch = 0

        # the log
        self.position = FetchPosition(Seek(reset))
        self.high_watermark: int | None = None
        self.topic_deleted = False  # its offsets must not be committed any more
        self.measures = False  # an entry damaged for good parks it with the offset behind the damage

        # facts that determine the state
        self.has_leader = False
        self.paused = False
        self.withheld = Withheld.NOTHING
        self.fetch_limit: int | None = None  # bytes per fetch, 0: fetch nothing for now; None: no limit
        self._unlocated: Exception | None = None  # why it is parked without a position

        # delivery
        self.progress: Progress | None = None
        self.next_delivery = -1  # where the next set to deliver begins: no set is ever skipped
        self.queued_bytes = 0
        self.queued_sets = 0
        self._owner = owner
        self.actions: list[Action] = []  # what the newest events lead to outside
        self._unticketed: set[FetchedSet] = set()  # delivered sets without their last ticket yet
        self._unticketed_bytes = 0
        self._iterated: FetchedSet | None = None  # set that is iterated message by message
        self._failure: FetchedSet | None = None  # set whose failure was due and not raised

    def take_actions(self) -> Sequence[Action]:
        """Return the actions, each once."""
        actions, self.actions = self.actions, []
        return actions

    def _give_back(self, nbytes: int) -> None:
        if nbytes:
            self.actions.append(Action(Do.GIVE_BACK, nbytes))

    def _enter(self) -> None:
        """Take the first state that applies."""
        if self.state in ENDING:
            pass
        elif self.paused:
            self.state = S.PAUSED
        elif self.refetch_due:
            self.state = S.WITHHELD
        elif self.undeliverable is not None:
            self.state = S.PARKED
        elif not self.has_leader:
            self.state = S.WAITING
        elif self.position.offset is None:
            self.state = S.LOCATING
        elif self.fetch_limit == 0:
            self.state = S.THROTTLED
        else:
            self.state = S.FETCHING
        self.delivers = self.state in DELIVERS

    # queries ----------------------------------------------------------------------------------------------------------

    @property
    def fetch_offset(self) -> int | None:
        """Return the offset that a FetchPlan may fetch now; None if there is none, or if nothing may be fetched."""
        return self.position.offset if self.state in MAY_FETCH and self.fetch_limit != 0 else None

    @property
    def refetch_due(self) -> bool:
        """True if something was due and not delivered, for a reason other than a pause: refetch_withheld() helps."""
        return self.withheld >= Withheld.DUE

    def committable(self) -> int | None:
        """Return the offset before which everything is done, or None if nothing may be committed.

        It is None without a position, after close, if its topic is deleted, or if its log was cut and it goes back.
        """
        if self.state is S.CLOSED or self.topic_deleted or self.position.back_to is not None:
            return None
        return self.done

    @property
    def done(self) -> int | None:
        """Return the offset before which everything is done, whether or not it may be committed; None if there is no
        position yet."""
        progress, iterated = self.progress, self._iterated
        if progress is None or iterated is None or iterated.set_ticket is None:
            return None if progress is None else progress.committable
        return progress.committable_with(iterated.set_ticket, iterated.reached)

    @property
    def undone(self) -> int:
        """Return how much was fetched and is not done, in the unit of offsets."""
        done, end = self.done, self.position.reached
        return 0 if done is None or end is None else max(0, end - self.position.after_skips(done))

    @property
    def drained(self) -> bool:
        """True if no delivered message of it may still be done."""
        iterated = self._iterated
        if iterated is not None and not (self.state in ENDING and iterated.idle):
            return False
        if any(other is not iterated for other in self._unticketed):
            return False
        return self.progress is None or self.progress.idle_but(None if iterated is None else iterated.set_ticket)

    @property
    def buffered_bytes(self) -> int:
        """Return the bytes in memory that are fetched and not done."""
        undone = self.progress.undone_bytes if self.progress is not None else 0
        return self.queued_bytes + self._unticketed_bytes + undone

    @property
    def undeliverable(self) -> Exception | None:
        """Return why it is parked: EntryTooLarge, DamagedMessage, OutOfRange, or a sender's failure."""
        parked = self.parked_at
        return self._unlocated if parked is None else parked.reason

    @property
    def parked_at(self) -> Parked | None:
        """Return why and at which offset it is parked; None if it is not, or has no position."""
        return None if self.progress is None else self.progress.parked

    @property
    def _commit_pending(self) -> bool:
        """True if a set counts as done before its delivery, and its commit may still fail."""
        return any(fetched.committed_first and fetched.set_ticket is not None for fetched in self._unticketed)

    @property
    def _before_parked(self) -> bool:
        """True if sets before the parked offset wait in its stream's queue, or were withheld."""
        parked = self.parked_at
        return parked is not None and self.position.after_skips(self.next_delivery) < parked.position

    @property
    def at_rest(self) -> bool:
        """True if it is read to the end of its log, with everything done and nothing wrong."""
        offset = self.position.offset
        return (
            offset is not None
            and offset == self.high_watermark == self.next_delivery
            and self.fetch_limit is None
            and self.state in MAY_FETCH
            and not (self.position.skips or self.queued_sets or self.topic_deleted)
            and self.drained
            and self.committable() == offset
        )

    @property
    def lag(self) -> int | None:
        """Return the distance from what is done to the last known end of the log, however old, in the unit of offsets:
        messages (an upper bound on a compacted topic), or bytes for 0.7."""
        done = self.committable()
        return None if done is None or self.high_watermark is None else max(0, self.high_watermark - done)

    def may_deliver(self, fetched: FetchedSet, now: float) -> bool:
        """True if the set belongs to this epoch, the lease holds, and the state allows delivery: see the table
        above."""
        if fetched.epoch != self.epoch or now >= self.lease.valid_until:
            return False
        if self.delivers:
            return True
        if self.paused or self.refetch_due or self.state is S.CLOSED:
            return False
        if self.state is S.REVOKING and not fetched.committed_first:
            return False
        parked = self.parked_at
        return parked is None or fetched.resume_at <= parked.position

    # a set ----------------------------------------------------------------------------------------------------------

    def log_ends(self, high_watermark: int) -> None:
        """Record the end of the log."""
        self.high_watermark = high_watermark

    def fetched(self, fetched: FetchedSet) -> None:
        """Queue a set that was fetched at the position."""
        assert self.progress is not None
        fetched.epoch, fetched.progress = self.epoch, self.progress
        self._queue(fetched)

    def _queue(self, fetched: FetchedSet) -> None:
        self.position.resume(fetched.resume_at)
        fetched.queued = True
        self.queued_bytes += fetched.nbytes
        self.queued_sets += 1
        self.actions.append(Action(Do.QUEUE, fetched=fetched))

    def _left_queue(self, fetched: FetchedSet) -> None:
        fetched.queued = False
        self.queued_bytes -= fetched.nbytes
        self.queued_sets -= 1

    def _too_late(self, fetched: FetchedSet) -> None:
        """Handle a set that left its queue too late to be delivered."""
        if fetched.epoch == self.epoch:
            if fetched.failure is not None:
                self._failure = fetched
            self._withhold(fetched.start)
        self._give_back(fetched.nbytes)

    def taken(self, fetched: FetchedSet, now: float, commit_first: bool = False) -> Taken | None:
        """Return what a stream does with a set that it took off its queue; None if the set came too late.

        commit_first: all of it is committed, and counts as done, before any of it is delivered.
        """
        self._left_queue(fetched)
        skips, due_at = self.position.skips, self.next_delivery
        in_turn = fetched.start == (self.position.after_skips(due_at) if skips else due_at)
        if not (in_turn and self.withheld is Withheld.NOTHING and self.may_deliver(fetched, now)):
            self._too_late(fetched)
            return None
        if skips:
            self.position.forget_skips(fetched.start)
        self.next_delivery = fetched.resume_at
        if fetched.failure is not None:
            self._give_back(fetched.nbytes)
            return Taken.RAISE
        self._unticketed.add(fetched)
        self._unticketed_bytes += fetched.nbytes
        if not commit_first:
            return Taken.DELIVER
        assert fetched.progress is not None
        # Taken before the commit: otherwise a commit on the timer could write less after it.
        fetched.set_ticket = fetched.progress.ticket(fetched.resume_at, 0)
        fetched.progress = Progress(fetched.start, self._owner)  # for its reader only: this progress does not count
        fetched.committed_first = True
        return Taken.COMMIT

    def commit_ended(self, fetched: FetchedSet, now: float, committed: bool) -> Taken | None:
        """Return DELIVER if the commit before the delivery succeeded in time, otherwise None: nothing of the set is
        delivered."""
        counted, fetched.set_ticket = fetched.set_ticket, None
        if committed and self.may_deliver(fetched, now):
            return Taken.DELIVER
        if counted is not None and not committed:
            # Otherwise the next commit would write it although no reader got it.
            counted.progress.take_back(counted, fetched.start)
        self.ended(fetched, fetched.start)
        return None

    def given_back(self, fetched: FetchedSet, now: float) -> None:
        """Fetch a set again that its stream took off the queue and cannot hand out, or that is still in the queue and
        is discarded.

        Otherwise the ticket of the next set would count it as done.  A second call, and one for a set that came too
        late, changes nothing.
        """
        if fetched.queued:
            self._left_queue(fetched)
            self._too_late(fetched)
        elif fetched in self._unticketed:
            if fetched.set_ticket is not None:
                self.commit_ended(fetched, now, False)
            else:
                self.ended(fetched, fetched.start)

    def _withhold(self, at: int) -> None:
        """Withhold everything that is due from this offset onwards."""
        if self.withheld is Withheld.NOTHING:
            if self.paused:
                self.withheld = Withheld.BY_PAUSE
            elif self.state not in ENDING and (self.undeliverable is None or self._is_due(at)):
                self.withheld = Withheld.DUE
            self._enter()

    def _is_due(self, at: int) -> bool:
        """True if the set is due.  A parked partition delivers sets that were fetched before that offset, and raises
        the reason.  If a sender failed, everything before was delivered already."""
        parked = self.parked_at
        return (
            parked is not None
            and parked.until is None
            and (self.position.after_skips(at) < parked.position or self._failure is not None)
        )

    def iterated(self, fetched: FetchedSet, on_ack: bool = False) -> None:
        """Begin to iterate a set message by message, with one ticket for all of it, or with on_ack one for each
        message."""
        self._iterated = fetched
        if not on_ack:
            fetched.set_ticket = self.ticket(fetched, fetched.resume_at)

    def iteration_ended(self, fetched: FetchedSet, finished: bool) -> bool:
        """End the iteration; if it is not finished, the rest is fetched again, by us or the next owner.

        Return False if the set is from before a reset, so that this changes nothing.
        """
        at, ticket = fetched.reached, fetched.set_ticket
        if ticket is not None:
            if finished:
                self.ticket_done(ticket)
            else:
                self.ticket_cut(ticket, at)
        elif finished and fetched.progress is not None and fetched.progress.given <= fetched.resume_at:
            # Otherwise a skip behind the set would have counted when its last message was handed out.
            self.ticket(fetched, fetched.resume_at, 0)
        return self.ended(fetched, None if finished else at)

    def ended(self, fetched: FetchedSet, at: int | None) -> bool:
        """End the delivery of a set; with `at`, its user does not get what is in it from that offset.

        Return False if the set is from before a reset, so that this changes nothing.
        """
        if self._iterated is fetched:
            self._iterated = None
        current = fetched.epoch == self.epoch
        if at is not None and current:
            self.next_delivery = at
            self._withhold(at)
        self._give_back(self._last_ticket_bytes(fetched))
        if at is not None and fetched.committed_first and fetched.progress is not None:
            self._give_back(fetched.progress.close())  # only for its reader, so no reset closes it
        return current

    # tickets --------------------------------------------------------------------------------------------------------

    def ticket(self, fetched: FetchedSet, resume_at: int, parts: int = 1) -> DeliveryTicket:
        """Return a ticket for the messages before resume_at, with `parts` parts to be done.  Call in the order of the
        positions.

        The ticket that ends the set carries its bytes: they are released when it completes.
        """
        assert fetched.progress is not None
        nbytes = self._last_ticket_bytes(fetched) if resume_at >= fetched.resume_at else 0
        ticket = fetched.progress.ticket(resume_at, parts, nbytes)
        if not ticket.live:
            self._give_back(nbytes)
        return ticket

    def _last_ticket_bytes(self, fetched: FetchedSet) -> int:
        """Return the bytes that its last ticket carries from now on."""
        if fetched not in self._unticketed:
            return 0
        self._unticketed.remove(fetched)
        self._unticketed_bytes -= fetched.nbytes
        return fetched.nbytes

    def message_ticket(self, fetched: FetchedSet, resume_at: int) -> DeliveryTicket:
        """Return a ticket for the next message alone; the bytes of the set stay with the set."""
        assert fetched.progress is not None
        return fetched.progress.ticket(resume_at)

    def may_send(self, ticket: DeliveryTicket, now: float) -> bool:
        """Answer a sender whether it may send.  A sender that gets False drops its parts.  If the lease is over, they
        are read again, with everything behind them, even if the lease is renewed right after: nothing may overtake them
        meanwhile."""
        if not ticket.live or self.withheld is Withheld.BY_SENDER:
            return False
        if now < self.lease.valid_until:
            return True
        self.withheld = Withheld.BY_SENDER
        self._enter()
        return False

    def ticket_done(self, ticket: DeliveryTicket) -> None:
        self._give_back(ticket.progress.ticket_done(ticket))

    def ticket_reached(self, ticket: DeliveryTicket, resume_at: int) -> None:
        ticket.progress.ticket_reached(ticket, resume_at)

    def ticket_cut(self, ticket: DeliveryTicket, resume_at: int) -> None:
        self._give_back(ticket.progress.ticket_cut(ticket, resume_at))

    def ticket_failed(self, ticket: DeliveryTicket, reason: Exception, resume_at: int | None = None) -> None:
        """Park the partition at a ticket that can never be stored, until unpark()."""
        self._give_back(ticket.progress.ticket_failed(ticket, reason, resume_at))
        self._enter()

    def ticket_dropped(self, ticket: DeliveryTicket) -> None:
        self._give_back(ticket.progress.ticket_dropped(ticket))

    # the position moves -----------------------------------------------------------------------------------------------

    def reset_to(self, offset: int) -> None:
        """Read from this offset (a start, a seek); sets fetched from elsewhere are discarded."""
        if self.state is S.CLOSED:
            return
        self._end_progress()
        self._begin_epoch()
        self.position.reset(offset)
        self.next_delivery = offset
        self.withheld = Withheld.NOTHING
        self.progress = Progress(offset, self._owner)
        self._enter()

    def seek_start(self, seek: Seek) -> None:
        """Look up at the leader where to start, for a partition that was not read yet."""
        self.position.seek = seek

    def refuse_position(self) -> None:
        """Stop fetching, because the broker says that its log does not hold the position.

        Sets that were fetched are still delivered; relocate() gives the offset to resume at.
        """
        if self.state is not S.CLOSED and self.position.offset is not None:
            self.position.refuse()
            self._enter()

    def relocate(self, to: int) -> None:
        """Resume at `to`: at a start, or instead of the position that the broker refused.

        A later offset leaves a gap, which committable passes once everything before it is done.  An earlier one means
        that the log was cut: it is read once go_back() finds that everything fetched is done.
        """
        position = self.position
        refused = position.refused
        if refused is None:
            self.reset_to(to)
        elif position.back_to is not None:
            pass  # it goes back already
        elif to < refused:
            position.back_to = to
            self.lease.end_what_began(f"the log of {self.tp} was cut: a waiting commit may belong to the lost part")
        else:
            position.offset, position.refused = refused, None
            self._enter()
            if to > refused:
                self.skip_to(to)

    def go_back(self) -> int | None:
        """Resume at the earlier offset of relocate() if everything fetched before is done.

        Return how much was fetched, given back (a pause, the end of the lease) and can never be fetched again, because
        the log was cut; None if something is not done yet.
        """
        to = self.position.back_to
        if to is None or self.queued_sets or not self.drained:
            return None
        if self.state in ENDING or self.refetch_due or self.undeliverable is not None:
            return None
        lost = self.undone
        self.position.start_again()
        self.reset_to(to)
        return lost

    def _begin_epoch(self) -> None:
        """Discard everything that was fetched so far and is not delivered."""
        self.epoch += 1
        self._failure = None

    def _end_progress(self) -> None:
        self._give_back(self._unticketed_bytes + (0 if self.progress is None else self.progress.close()))
        self._unticketed_bytes = 0
        self._unticketed.clear()
        self._iterated = None

    def refetch(self, offset: int) -> None:
        """Fetch again from this offset, at which delivery stopped; delivered messages still count.

        If that is impossible (something behind it was delivered, or dropped), start at what is done.  A parked
        partition is fetched up to the parked position again, and not beyond: unpark() does that.
        """
        progress = self.progress
        goes_back = self.position.back_to is not None
        if not goes_back and (
            progress is None or self.withheld is Withheld.BY_SENDER or not progress.goes_on_at(offset)
        ):
            self._restart(offset)
            return
        if progress is not None and progress.parked is not None and not goes_back:
            progress.unpark()
            self.position.find_damage_again()
        self._begin_epoch()
        self.withheld = Withheld.NOTHING
        for fetched in (*self._unticketed, self._iterated):
            if fetched is not None:
                fetched.epoch = self.epoch  # keep sets that are delivered already
        if not goes_back:  # otherwise the log does not hold it any more
            self.next_delivery = self.position.offset = self.position.after_skips(offset)
            self.position.refused = None
        self._enter()

    def refetch_withheld(self) -> None:
        """Fetch again the sets that were withheld."""
        if self.progress is not None:
            self.refetch(self.next_delivery)

    def _restart(self, offset: int) -> None:
        if self.state is S.CLOSED:
            return
        parked, done = self.parked_at, self.done
        # A sender may have dropped what is before it; otherwise all before it is done.
        dropped = (
            self.withheld is Withheld.BY_SENDER and done is not None and parked is not None and done < parked.position
        )
        if parked is not None and offset >= parked.position and not dropped:
            self._queue_failure_again()
        else:
            self.reset_to(offset if done is None else min(offset, done))

    def _queue_failure_again(self) -> None:
        """Queue the failure again, which the stream should have raised and which was withheld."""
        failure, self._failure = self._failure, None
        if failure is not None:
            self.withheld = Withheld.NOTHING
            self._enter()
            self._queue(failure)

    # unreadable entries -----------------------------------------------------------------------------------------------

    def skip_to(self, to: int) -> None:
        """Resume at `to`, because nothing before it can be read.  Sets that were fetched before are still delivered."""
        if self.position.offset is not None:
            self.position.skip(to)
            self.pass_skips()

    def pass_skips(self) -> None:
        """Move what is done behind a skip once everything before it is done, if nothing behind the skip was fetched
        yet."""
        position = self.position
        if not position.skips or self._commit_pending or self._passed():
            return
        done, to = self.done, position.offset
        if done is None or to is None or not done != to == position.after_skips(done):
            return
        ahead = {begin: end for begin, end in position.skips.items() if begin >= to}
        self.reset_to(to)
        position.skips = ahead  # damage that the fetch met already, behind the reader's

    def _passed(self) -> bool:
        """Pass skips before which everything was delivered, and count them like messages that are done already."""
        progress, to, at = self.progress, self.position.offset, self.next_delivery
        if progress is None or to is None or at == to or self.position.after_skips(at) != to:
            return False
        if progress.given != at or not progress.goes_on_at(at):
            return False
        progress.ticket(to, 0)
        self.next_delivery = to
        self.position.forget_skips(to)
        return True

    def park(self, reason: str | Exception, at_once: bool = False) -> None:
        """Deliver nothing from the fetch position onwards; with at_once, nothing that is not delivered already.

        The partition stays owned.
        """
        error = Undeliverable(reason) if isinstance(reason, str) else reason
        if self.progress is None:
            self._unlocated = error
        else:
            self.progress.park(error, None if at_once else self.position.reached)
        self._enter()

    def unpark(self, go_on_at: int | None = None, measure: bool = False) -> bool:
        """Read again from what is done.  Return False if it is not parked, or if something delivered before is not done
        yet.

        go_on_at: resume there instead, once everything before is delivered and done; the message it is parked at counts
        as done. measure: if an entry is damaged again, search behind it, and park the partition with the offset at
        which the log is readable again (DamagedMessage.resume_at).
        """
        if self.state in ENDING or self.undeliverable is None or not self.drained:
            return False
        if go_on_at is not None and self._before_parked:
            return False
        self._unlocated, self.measures = None, measure
        self.position.find_damage_again()
        done = self.done
        if done is None:
            self._enter()
        else:
            self.reset_to(done if go_on_at is None else max(done, go_on_at))
        return True

    # stops and starts -------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Fetch and deliver nothing until resume(); delivered messages may still be done and committed."""
        self.paused = True
        self._enter()
        if self.queued_sets:
            self.actions.append(Action(Do.DISCARD))

    def resume(self) -> None:
        """End a pause: a set in the middle of its iteration continues, and sets that came too late are fetched
        again."""
        self.paused = False
        self._enter()
        if self.state not in ENDING and self.withheld is Withheld.BY_PAUSE:
            self.refetch_withheld()

    def throttle(self, limit: int | None) -> None:
        """Limit the bytes per fetch, 0: fetch nothing for now; None: no limit.  Sets that are fetched already are
        delivered."""
        self.fetch_limit = limit
        self._enter()

    def lead(self, known: bool) -> None:
        """Record whether a broker is known to lead it."""
        self.has_leader = known
        self._enter()

    def delete_topic(self) -> None:
        """Commit nothing more, because the topic whose log is read was deleted: a commit written now would be newer
        than the next topic of the same name, and count for its log."""
        if not self.topic_deleted:
            self.topic_deleted = True
            self.lease.end_what_began(f"topic {self.tp.topic} was deleted: a waiting commit belongs to its log")

    def revoke(self) -> None:
        """Deliver nothing more; delivered messages may still finish and be committed."""
        if self.state is not S.CLOSED:
            self.state = S.REVOKING
        self._enter()

    def close(self) -> int | None:
        """Give it up: nothing more is delivered, sent or committed.  Return what could be committed until now."""
        done = self.committable()
        self.state = S.CLOSED
        self._enter()
        self._end_progress()
        return done

    def __repr__(self) -> str:
        why = self.undeliverable
        return f"<Partition {self.tp} at {self.position.offset}, {self.state.value}{f': {why}' if why else ''}>"
