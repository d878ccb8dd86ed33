"""Partition: the state machine of one owned partition, from its claim to its last commit.  It decides what is fetched,
delivered and done, and what may be committed.  Pure.

    actions = partition.<event>(...)

A state machine without clock, lock, queue or socket: `now` comes in with the events that need it, and work outside
comes back as actions.  Queries (committable, drained, may_deliver, lag ..) change nothing, however often they are
called.  Threads use it through one lock: that of its cursor (partitioncursor.py).

    position     the next one to fetch              >=
    delivered    sets that a stream gave its user   >=
    committable  everything before it is done       >=  committed, the offset in the store

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

    fetched  taken  commit_ended  iterated  ended           a set: in the queue, at its stream, in its reader
    given_back                                              .. its stream could not hand it out
    ticket  ticket_done  ticket_reached  ticket_cut         delivered messages are acknowledged, in any order
    ticket_failed  ticket_dropped  may_send                 .. or cannot be; a sender asks whether it still may
    reset_to  seek_start  refetch  refetch_withheld         it resumes elsewhere, or where it stopped
    refuse_position  relocate  go_back                      its log does not hold the position (any more)
    skip_to  pass_skips  damaged  park  unpark              something in the log cannot be read
    pause  resume  throttle  lead                           the program and the cluster stop and start it
    revoke  close                                           it is given away

`epoch` counts how often the fetched sets became invalid (a reset, a refetch): a set of an older epoch is never
delivered.  A reset also begins a new Progress, so that delivered sets do not count any more; a refetch keeps it.

A position that the broker refuses (OffsetOutOfRange) invalidates nothing: the log may have lost the fetched messages.
So all of them are delivered and done as before, and only the position moves: to the same offset again, over a gap (as
over a skip), or back, once everything that was fetched is done.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkawire.model import TopicPartition
from zkconsumer.errors import Undeliverable
from zkconsumer.fetching.committable import DeliveryTicket, Parked, Progress, TicketOwner
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


class Do(enum.Enum):
    LOCATE = "locate"
    FETCH = "fetch from"  # from `at`
    QUEUE = "queue"  # the fetched set; None: the set of the event
    DISCARD = "discard queued"  # the sets in the queue of its stream; each comes back by taken()
    DELIVER = "deliver"  # the set of the event
    COMMIT = "commit"  # up to `at`; then commit_ended()
    RAISE = "raise"  # the failure of the set of the event, to the reader
    GIVE_BACK = "give back"  # `at` is a number of bytes of the memory budget


class Action(NamedTuple):
    do: Do
    at: int = 0  # a position; GIVE_BACK: bytes
    fetched: FetchedSet | None = None


Actions = Sequence[Action]
NOTHING: Actions = ()
LOCATE: Actions = (Action(Do.LOCATE),)
DISCARD: Actions = (Action(Do.DISCARD),)
QUEUE: Actions = (Action(Do.QUEUE),)
DELIVER: Actions = (Action(Do.DELIVER),)
RAISE: Actions = (Action(Do.RAISE),)


def _give_back(nbytes: int) -> Actions:
    return (Action(Do.GIVE_BACK, nbytes),) if nbytes else NOTHING


def _fetch(position: int) -> Action:
    return Action(Do.FETCH, position)


@dataclass(frozen=True, slots=True)
class Seek:
    """Lookup of a position, with its reason.

    out_of_range: the committed offset, which cannot be used.  former: the reason, if it belongs to an earlier topic
    (FormerOffset.reason), so that it does not count even if it is inside the log.
    """

    reset: str
    out_of_range: int | None = None
    former: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Reset:
    """Start that auto.offset.reset or the listener chose; each reset is a separate object.

    to: where reading starts.  wanted: the position that it replaces; None if nothing was committed.  former: that
    position belongs to an earlier topic.
    """

    to: int
    wanted: int | None = None
    former: bool = False

    def sets_back(self, same_topic: bool) -> bool:
        """True if offsets from `to` onwards may hold other messages than those read there before.

        same_topic: the messages read before are known to be from today's topic.  If the start is not lower than the
        wanted position, the log only lost its oldest messages, and the rest is unchanged.
        """
        if self.wanted is None or self.former:
            return not same_topic
        return self.to < self.wanted


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
        self.position: int | None = None  # None: to be looked up at the leader
        self.seek = Seek(reset)
        self.refused: int | None = None  # the position that the broker refused, until it is known where to resume
        self.back_to: int | None = None  # an earlier offset to resume at once everything fetched is done
        self._gaps: list[tuple[int, int]] = []  # ranges that were cut off the log and are not done yet
        self.committed: int | None = None
        self.topic_deleted = False  # its offsets must not be committed any more
        self.high_watermark: int | None = None
        self.skips: dict[int, int] = {}  # ranges that cannot be read: begin to end
        self.measures = False  # an entry damaged for good parks it with the offset behind the damage
        self._damage: dict[int, int] = {}  # by offset, how often an entry was found damaged there

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
        self.left_uncommitted = False  # set when closed: something was done and not committed
        self._owner = owner
        self._unticketed: set[FetchedSet] = set()  # delivered sets without their last ticket yet
        self._unticketed_bytes = 0
        self._iterated: FetchedSet | None = None  # set that is iterated message by message
        self._failure: FetchedSet | None = None  # set whose failure was due and not raised

    def _enter(self) -> None:
        """Take the first state that applies."""
        if self.state in ENDING:
            pass
        elif self.paused:
            self.state = S.PAUSED
        elif self.withheld >= Withheld.DUE:
            self.state = S.WITHHELD
        elif self.undeliverable is not None:
            self.state = S.PARKED
        elif not self.has_leader:
            self.state = S.WAITING
        elif self.position is None:
            self.state = S.LOCATING
        elif self.fetch_limit == 0:
            self.state = S.THROTTLED
        else:
            self.state = S.FETCHING
        self.delivers = self.state in DELIVERS

    # queries ----------------------------------------------------------------------------------------------------------

    def committable(self) -> int | None:
        """Return the offset before which everything is done, or None if nothing may be committed.

        It is None without a position, after close, if its topic is deleted, or if its log was cut and it goes back.
        """
        if self.state is S.CLOSED or self.topic_deleted or self.back_to is not None:
            return None
        return self._done

    @property
    def _done(self) -> int | None:
        """Return the offset before which everything is done, or None if there is no position yet."""
        progress, iterated = self.progress, self._iterated
        if progress is None or iterated is None or iterated.set_ticket is None:
            return None if progress is None else progress.committable
        return progress.committable_with(iterated.set_ticket, iterated.reached)

    @property
    def undone(self) -> int:
        """Return how much was fetched and is not done, in the unit of offsets."""
        done, end = self._done, self.refused if self.position is None else self.position
        return 0 if done is None or end is None else max(0, end - self._after_skips(done))

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
        return parked is not None and self._after_skips(self.next_delivery) < parked.position

    @property
    def at_rest(self) -> bool:
        """True if it is read to the end of its log, with everything done and nothing wrong."""
        position = self.position
        return (
            position is not None
            and position == self.high_watermark == self.next_delivery
            and self.fetch_limit is None
            and self.state in MAY_FETCH
            and not (self.skips or self.queued_sets or self.topic_deleted)
            and self.drained
            and self.committable() == position
        )

    @property
    def lag(self) -> int | None:
        """Return the distance from what is done to the last known end of the log, in the unit of offsets."""
        done = self.committable()
        return None if done is None or self.high_watermark is None else max(0, self.high_watermark - done)

    def may_deliver(self, fetched: FetchedSet, now: float) -> bool:
        """True if the set belongs to this epoch, the lease holds, and the state allows delivery: see the table
        above."""
        if fetched.epoch != self.epoch or now >= self.lease.valid_until:
            return False
        if self.delivers:
            return True
        if self.paused or self.withheld >= Withheld.DUE or self.state is S.CLOSED:
            return False
        if self.state is S.REVOKING and not fetched.committed_first:
            return False
        parked = self.parked_at
        return parked is None or fetched.resume_at <= parked.position

    # a set ----------------------------------------------------------------------------------------------------------

    def fetched(self, fetched: FetchedSet, high_watermark: int | None = None) -> Actions:
        """Queue a set that was fetched at the position."""
        assert self.progress is not None
        fetched.epoch, fetched.progress = self.epoch, self.progress
        if high_watermark is not None:
            self.high_watermark = high_watermark
        self._queued(fetched)
        return QUEUE

    def _queued(self, fetched: FetchedSet) -> None:
        self.position = self._after_skips(fetched.resume_at) if self.skips else fetched.resume_at
        fetched.queued = True
        self.queued_bytes += fetched.nbytes
        self.queued_sets += 1

    def _left_queue(self, fetched: FetchedSet) -> None:
        fetched.queued = False
        self.queued_bytes -= fetched.nbytes
        self.queued_sets -= 1

    def _too_late(self, fetched: FetchedSet) -> Actions:
        """Handle a set that left its queue too late to be delivered."""
        if fetched.epoch == self.epoch:
            if fetched.failure is not None:
                self._failure = fetched
            self._withhold(fetched.start)
        return _give_back(fetched.nbytes)

    def taken(self, fetched: FetchedSet, now: float, commit_first: bool = False) -> Actions:
        """Deliver a set that its stream took off the queue, unless it came too late.

        commit_first: all of it is committed, and counts as done, before any of it is delivered.
        """
        self._left_queue(fetched)
        in_turn = fetched.start == (self._after_skips(self.next_delivery) if self.skips else self.next_delivery)
        if not (in_turn and self.withheld is Withheld.NOTHING and self.may_deliver(fetched, now)):
            return self._too_late(fetched)
        if self.skips:
            self._forget_skips(fetched.start)
        self.next_delivery = fetched.resume_at
        if fetched.failure is not None:
            return (*RAISE, *_give_back(fetched.nbytes))
        self._unticketed.add(fetched)
        self._unticketed_bytes += fetched.nbytes
        if not commit_first:
            return DELIVER
        assert fetched.progress is not None
        # Taken before the commit: otherwise a commit on the timer could write less after it.
        fetched.set_ticket = fetched.progress.ticket(fetched.resume_at, 0)
        fetched.progress = Progress(fetched.start, self._owner)  # for its reader only: this progress does not count
        fetched.committed_first = True
        return (Action(Do.COMMIT, fetched.resume_at, fetched),)

    def commit_ended(self, fetched: FetchedSet, committed: bool, now: float) -> Actions:
        """Deliver the set if the commit before the delivery succeeded in time; otherwise deliver nothing of it."""
        counted, fetched.set_ticket = fetched.set_ticket, None
        if committed and self.may_deliver(fetched, now):
            return DELIVER
        if counted is not None and not committed:
            # Otherwise the next commit would write it although no reader got it.
            counted.progress.take_back(counted, fetched.start)
        return self.ended(fetched, fetched.start)

    def given_back(self, fetched: FetchedSet, now: float) -> Actions:
        """Fetch a set again that its stream took off the queue and cannot hand out.

        Without this the ticket of the next set would count it as done.
        """
        if fetched.queued:
            self._left_queue(fetched)
            return self._too_late(fetched)
        if fetched not in self._unticketed:
            return NOTHING
        if fetched.set_ticket is not None:
            return self.commit_ended(fetched, False, now)
        return self.ended(fetched, fetched.start)

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
            and (self._after_skips(at) < parked.position or self._failure is not None)
        )

    def iterated(self, fetched: FetchedSet, on_ack: bool = False) -> Actions:
        """Begin to iterate a set message by message, with one ticket for all of it, or with on_ack one for each
        message."""
        self._iterated = fetched
        if on_ack:
            return NOTHING
        fetched.set_ticket, actions = self.ticket(fetched, fetched.resume_at)
        return actions

    def iteration_ended(self, fetched: FetchedSet, finished: bool) -> Actions:
        """End the iteration; if it is not finished, the rest is fetched again, by us or the next owner."""
        at, ticket = fetched.reached, fetched.set_ticket
        nbytes = 0
        if ticket is not None:
            ledger = ticket.progress
            nbytes = ledger.ticket_done(ticket) if finished else ledger.ticket_cut(ticket, at)
        elif finished and fetched.progress is not None and fetched.progress.given <= fetched.resume_at:
            # Otherwise a skip behind the set would have counted when its last message was handed out.
            return (*self.ticket(fetched, fetched.resume_at, 0)[1], *self.ended(fetched, None))
        return (*_give_back(nbytes), *self.ended(fetched, None if finished else at))

    def ended(self, fetched: FetchedSet, at: int | None) -> Actions:
        """End the delivery of a set; with `at`, its user does not get what is in it from that offset."""
        if self._iterated is fetched:
            self._iterated = None
        if at is not None and fetched.epoch == self.epoch:
            self.next_delivery = at
            self._withhold(at)
        nbytes = self._last_ticket_bytes(fetched)
        if at is not None and fetched.committed_first and fetched.progress is not None:
            nbytes += fetched.progress.close()  # only for its reader, so no reset closes it
        return _give_back(nbytes)

    # tickets --------------------------------------------------------------------------------------------------------

    def ticket(self, fetched: FetchedSet, resume_at: int, parts: int = 1) -> tuple[DeliveryTicket, Actions]:
        """Return a ticket for the messages before resume_at, with `parts` parts to be done.  Call in the order of the
        positions.

        The ticket that ends the set carries its bytes: they are released when it completes.
        """
        assert fetched.progress is not None
        nbytes = self._last_ticket_bytes(fetched) if resume_at >= fetched.resume_at else 0
        ticket = fetched.progress.ticket(resume_at, parts, nbytes)
        return ticket, NOTHING if ticket.live else _give_back(nbytes)

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

    def ticket_done(self, ticket: DeliveryTicket) -> Actions:
        nbytes = ticket.progress.ticket_done(ticket)
        return _give_back(nbytes) if nbytes else NOTHING

    def ticket_reached(self, ticket: DeliveryTicket, resume_at: int) -> Actions:
        ticket.progress.ticket_reached(ticket, resume_at)
        return NOTHING

    def ticket_cut(self, ticket: DeliveryTicket, resume_at: int) -> Actions:
        return _give_back(ticket.progress.ticket_cut(ticket, resume_at))

    def ticket_failed(self, ticket: DeliveryTicket, reason: Exception, resume_at: int | None = None) -> Actions:
        """Park the partition at a ticket that can never be stored, until unpark()."""
        nbytes = ticket.progress.ticket_failed(ticket, reason, resume_at)
        self._enter()
        return _give_back(nbytes)

    def ticket_dropped(self, ticket: DeliveryTicket) -> Actions:
        return _give_back(ticket.progress.ticket_dropped(ticket))

    # positions --------------------------------------------------------------------------------------------------------

    def reset_to(self, position: int) -> Actions:
        """Read from this position (a start, a seek); sets fetched from elsewhere are discarded."""
        if self.state is S.CLOSED:
            return NOTHING
        gone = self._end_progress()
        self._begin_epoch()
        self.position = self.next_delivery = position
        self.refused = self.back_to = None
        self.skips.clear()
        self.withheld = Withheld.NOTHING
        self.progress = Progress(position, self._owner)
        self._enter()
        return (*gone, _fetch(position))

    def seek_start(self, seek: Seek) -> Actions:
        """Look up at the leader where to start, for a partition that was not read yet."""
        if self.state is S.CLOSED:
            return NOTHING
        self.seek = seek
        return LOCATE

    def refuse_position(self) -> Actions:
        """Stop fetching, because the broker says that its log does not hold the position.

        Sets that were fetched are still delivered; relocate() gives the offset to resume at.
        """
        if self.state is S.CLOSED or self.position is None:
            return NOTHING
        self.refused, self.position = self.position, None
        self._enter()
        return LOCATE

    def relocate(self, to: int) -> Actions:
        """Resume at `to` instead of the position that the broker refused.

        A later offset leaves a gap, which committable passes once everything before it is done.  An earlier one means
        that the log was cut: go_back() follows.
        """
        if self.refused is None or self.back_to is not None:
            return NOTHING
        if to < self.refused:
            self.back_to = to
            self.lease.end_what_began(f"the log of {self.tp} was cut: a waiting commit may belong to the lost part")
            return NOTHING
        self.position, self.refused = self.refused, None
        self._enter()
        return self.skip_to(to) if to > self.position else (_fetch(to),)

    def go_back(self) -> tuple[int | None, Actions]:
        """Resume at the earlier offset of relocate() if everything fetched before is done.

        Return how much was fetched, given back (a pause, the end of the lease) and can never be fetched again, because
        the log was cut; None if something is not done yet.
        """
        to = self.back_to
        if to is None or self.queued_sets or not self.drained:
            return None, NOTHING
        if self.state in ENDING or self.withheld >= Withheld.DUE or self.undeliverable is not None:
            return None, NOTHING
        self.seek = Seek(self.seek.reset)
        self._gaps.clear()
        return self.undone, self.reset_to(to)

    def count_gap(self, begin: int, end: int) -> int:
        """Count the offsets in this range as gone from the log.  Return how many of them were not counted before.

        A returned set that is fetched again meets the same gap, and more of it.
        """
        done = self._done or 0
        counted = [gap for gap in self._gaps if gap[1] > done]
        met = [gap for gap in counted if gap[0] < end and begin < gap[1]]
        new = end - begin - sum(min(end, to) - max(begin, at) for at, to in met)
        self._gaps = [gap for gap in counted if gap not in met]
        self._gaps.append((min([begin, *(at for at, _ in met)]), max([end, *(to for _, to in met)])))
        return new

    def _begin_epoch(self) -> None:
        """Discard everything that was fetched so far and is not delivered."""
        self.epoch += 1
        self._failure = None

    def _end_progress(self) -> Actions:
        gone, self._unticketed_bytes = self._unticketed_bytes, 0
        self._unticketed.clear()
        self._iterated = None
        if self.progress is not None:
            gone += self.progress.close()
        return _give_back(gone)

    def refetch(self, position: int) -> Actions:
        """Fetch again from position, at which delivery stopped; delivered messages still count.

        If that is impossible (something behind it was delivered, or dropped), start at what is done.  A parked
        partition is fetched up to the parked position again, and not beyond: unpark() does that.
        """
        progress = self.progress
        goes_back = self.back_to is not None
        if not goes_back and (
            progress is None or self.withheld is Withheld.BY_SENDER or not progress.goes_on_at(position)
        ):
            return self._restart(position)
        if progress is not None and progress.parked is not None and not goes_back:
            progress.unpark()
            self._find_damage_again()
        self._begin_epoch()
        self.withheld = Withheld.NOTHING
        for fetched in (*self._unticketed, self._iterated):
            if fetched is not None:
                fetched.epoch = self.epoch  # keep sets that are delivered already
        if goes_back:  # the log does not hold it any more
            self._enter()
            return NOTHING
        self.position = self.next_delivery = self._after_skips(position)
        self.refused = None
        self._enter()
        return (_fetch(self.position),)

    def refetch_withheld(self) -> Actions:
        """Fetch again the sets that were withheld."""
        return NOTHING if self.progress is None else self.refetch(self.next_delivery)

    def _restart(self, position: int) -> Actions:
        if self.state is S.CLOSED:
            return NOTHING
        parked, done = self.parked_at, self._done
        # A sender may have dropped what is before it; otherwise all before it is done.
        dropped = (
            self.withheld is Withheld.BY_SENDER and done is not None and parked is not None and done < parked.position
        )
        if parked is not None and position >= parked.position and not dropped:
            return self._queue_failure_again()
        return self.reset_to(position if done is None else min(position, done))

    def _queue_failure_again(self) -> Actions:
        """Queue the failure again, which the stream should have raised and which was withheld."""
        failure, self._failure = self._failure, None
        if failure is None:
            return NOTHING
        self.withheld = Withheld.NOTHING
        self._enter()
        self._queued(failure)
        return (Action(Do.QUEUE, fetched=failure),)

    # unreadable entries -----------------------------------------------------------------------------------------------

    def skip_to(self, to: int) -> Actions:
        """Resume at `to`, because nothing before it can be read.  Sets that were fetched before are still delivered."""
        if self.position is None:
            return NOTHING
        self.skips[self.position] = to
        self.position = self._after_skips(to)  # entries behind it may be known to be damaged already
        return self.pass_skips() or (_fetch(self.position),)

    def pass_skips(self) -> Actions:
        """Move what is done behind a skip once everything before it is done, if nothing behind the skip was fetched
        yet."""
        if not self.skips or self._commit_pending or self._passed():
            return NOTHING
        done, to = self._done, self.position
        if done is None or to is None or not done != to == self._after_skips(done):
            return NOTHING
        ahead = {begin: end for begin, end in self.skips.items() if begin >= to}
        actions = self.reset_to(to)
        self.skips = ahead  # damage that the fetch met already, behind the reader's
        return actions

    def _passed(self) -> bool:
        """Pass skips before which everything was delivered, and count them like messages that are done already."""
        progress, to, at = self.progress, self.position, self.next_delivery
        if progress is None or to is None or at == to or self._after_skips(at) != to:
            return False
        if progress.given != at or not progress.goes_on_at(at):
            return False
        progress.ticket(to, 0)
        self.next_delivery = to
        self._forget_skips(to)
        return True

    def _after_skips(self, position: int) -> int:
        """Return where to resume, for a position that may have to be skipped."""
        while position in self.skips:
            position = self.skips[position]
        return position

    def _forget_skips(self, before: int) -> None:
        """Forget skips before this position: only a reset leads back to them."""
        self.skips = {at: to for at, to in self.skips.items() if at >= before}

    def damaged(self, position: int) -> int:
        """Count an entry at this position that was found damaged.  Return how many times so far, including this
        time."""
        times = self._damage.get(position, 0) + 1
        done = self._done or 0
        self._damage = {at: count for at, count in self._damage.items() if at >= done} | {position: times}
        return times

    def park(self, reason: Exception, at_once: bool = False) -> Actions:
        """Deliver nothing from the fetch position onwards; with at_once, nothing that is not delivered already.

        The partition stays owned.
        """
        if self.progress is None:
            self._unlocated = reason
        else:
            position = self.refused if self.position is None else self.position
            self.progress.park(reason, None if at_once else position)
        self._enter()
        return NOTHING

    def unpark(self, go_on_at: int | None = None, measure: bool = False) -> tuple[bool, Actions]:
        """Read again from what is done.  Return False if it is not parked, or if something delivered before is not done
        yet.

        go_on_at: resume there instead, once everything before is delivered and done; the message it is parked at counts
        as done. measure: if an entry is damaged again, search behind it, and park the partition with the offset at
        which the log is readable again (DamagedMessage.resume_at).
        """
        if self.state in ENDING or self.undeliverable is None or not self.drained:
            return False, NOTHING
        if go_on_at is not None and self._before_parked:
            return False, NOTHING
        self._unlocated, self.measures = None, measure
        self._find_damage_again()
        done = self._done
        if done is None:
            self._enter()
            return True, LOCATE
        return True, self.reset_to(done if go_on_at is None else max(done, go_on_at))

    def _find_damage_again(self) -> None:
        """Park it at once, with the same reason, when damage that is known already is found again."""
        self._damage = {at: times - 1 for at, times in self._damage.items()}

    # stops and starts -------------------------------------------------------------------------------------------------

    def pause(self) -> Actions:
        """Fetch and deliver nothing until resume(); delivered messages may still be done and committed."""
        self.paused = True
        self._enter()
        return DISCARD if self.queued_sets else NOTHING

    def resume(self) -> Actions:
        """End a pause: a set in the middle of its iteration continues, and sets that came too late are fetched
        again."""
        self.paused = False
        self._enter()
        if self.state in ENDING:
            return NOTHING
        if self.withheld is Withheld.BY_PAUSE:
            return self.refetch_withheld()
        return (_fetch(self.position),) if self.state is S.FETCHING and self.position is not None else NOTHING

    def throttle(self, limit: int | None) -> None:
        """Limit the bytes per fetch, 0: fetch nothing for now; None: no limit.  Sets that are fetched already are
        delivered."""
        self.fetch_limit = limit
        self._enter()

    def lead(self, known: bool) -> None:
        """Record whether a broker is known to lead it."""
        self.has_leader = known
        self._enter()

    def revoke(self) -> Actions:
        """Deliver nothing more; delivered messages may still finish and be committed."""
        if self.state is not S.CLOSED:
            self.state = S.REVOKING
        self._enter()
        return NOTHING

    def close(self) -> Actions:
        """Give it up: nothing more is delivered, sent or committed."""
        self.left_uncommitted |= (done := self.committable()) is not None and done != self.committed
        self.state = S.CLOSED
        self._enter()
        return self._end_progress()

    def __repr__(self) -> str:
        why = self.undeliverable
        return f"<Partition {self.tp} at {self.position}, {self.state.value}{f': {why}' if why else ''}>"


def parked_reason(reason: str | Exception) -> Exception:
    """Return the reason that parks a partition as an error."""
    return Undeliverable(reason) if isinstance(reason, str) else reason
