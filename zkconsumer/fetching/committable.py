"""Committable offset of one partition: everything before it is done.  Pure.

Tickets are issued in the order of offsets and completed in any order:

    ticket(40)  ticket(70)  ticket(90)      the offset once this ticket, and all before it, are done
    done: 2nd                               committable does not move
    done: 1st                               committable is 70

A ticket may have several parts (each must be done); a ticket of a single part may be `reached` somewhere inside, and
the newest one may be `cut` there: the rest is issued again, by other tickets.  A ticket that `failed` parks the
partition: tickets issued before it may still be done and committed, nothing from it onwards is.

    open     tickets are issued, sent and completed
    parked   a message cannot be delivered: nothing from it onwards is sent or committed; .parked has reason and offset
    closed   the partition is revoked (released, lost): nothing is sent, and a late done() changes nothing

This is the ledger of a Partition (partition.py), which may also refuse a commit as a whole: Partition.committable().
Senders and readers hold tickets and report to them from any thread; a ticket passes the report to the partition through
the cursor, which has the lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar, TypeVarTuple

A = TypeVarTuple("A")
T = TypeVar("T")
W = TypeVar("W")


class Parked(NamedTuple):
    reason: Exception
    position: int  # offset of the first message that is not delivered, as far as known
    until: int | None = None  # the undeliverable message is before this; None: it is the entry at position


class TicketReports(Protocol):
    """Receiver of the reports of tickets: a partition, or a progress that has none."""

    def may_send(self, ticket: DeliveryTicket, now: float) -> bool: ...
    def ticket_done(self, ticket: DeliveryTicket) -> object: ...
    def ticket_reached(self, ticket: DeliveryTicket, resume_at: int) -> object: ...
    def ticket_cut(self, ticket: DeliveryTicket, resume_at: int) -> object: ...
    def ticket_failed(self, ticket: DeliveryTicket, reason: Exception, resume_at: int | None) -> object: ...
    def ticket_dropped(self, ticket: DeliveryTicket) -> object: ...


class TicketOwner(Protocol):
    """Owner of tickets: a cursor, which lets their reports happen one at a time; without one, the progress itself."""

    @property
    def partition(self) -> TicketReports: ...

    def report(self, event: Callable[[*A], T], *args: *A) -> T: ...

    def under_lease(self, event: Callable[[W, float, *A], T], what: W, *args: *A) -> T: ...


class Progress:
    """Progress of one owned partition, from the offset where its fetching began.

    owner: its tickets report through it; None: this object.  A report returns how many bytes can be released,
    because their tickets are done, parked or closed: the bytes of each ticket once.
    """

    def __init__(self, position: int, owner: TicketOwner | None = None) -> None:
        self.committable = position  # everything before it is done; only take_back() moves it back
        self.given = position  # tickets were issued up to here
        self.parked: Parked | None = None
        self.closed = False
        self.undone_bytes = 0  # bytes of the tickets that are neither done nor dropped
        self.owner: TicketOwner = self if owner is None else owner
        self._undone: deque[DeliveryTicket] = deque()  # in the order of offsets; the first one is never done
        self._last: int | None = None  # tickets may be issued up to here; None: without limit
        self._end = position  # how far the failed ticket was reached

    def ticket(self, resume_at: int, parts: int = 1, nbytes: int = 0) -> DeliveryTicket:
        """Return a ticket for what must be done before resume_at may be committed.  With parts 0, only the position
        moves.

        Offsets may have gaps and may stay equal, but not go back: ValueError.  If nothing more may be delivered
        (closed, parked before resume_at) the ticket is dropped at once: its may_send() is False.  A ticket that is not
        live keeps no bytes.
        """
        if parts < 0 or resume_at < self.given:
            raise ValueError(f"ticket of {parts} parts up to {resume_at} after one up to {self.given}")
        ticket = DeliveryTicket(self, self.given, resume_at, parts, nbytes)
        if self.closed or (self._last is not None and resume_at > self._last):
            ticket.live = False
            return ticket
        self.given = resume_at
        self.undone_bytes += nbytes
        self._undone.append(ticket)
        if parts == 0:
            self._complete(ticket)
        return ticket

    def take_back(self, ticket: DeliveryTicket, begin: int) -> None:
        """Undo that the newest ticket, without parts, counts as done from begin: a skip may be before that."""
        if self.closed or self.given != ticket.resume_at:
            return
        if self._undone and self._undone[-1] is ticket:
            self._undone.pop()
        self.given = begin
        self.committable = min(self.committable, begin)

    def park(self, reason: Exception, position: int | None = None) -> None:
        """Deliver nothing from position onwards; None: nothing beyond the issued tickets.

        For problems that the fetcher meets (a damaged entry, a message above the cap).  Messages before it are still
        delivered, and an earlier reason stays.
        """
        if self.parked is None and not self.closed:
            last = self.given if position is None else max(position, self.given)
            self.parked = Parked(reason, last)
            self._last = last if self._last is None else min(last, self._last)

    def unpark(self) -> None:
        """Issue tickets again after park(), because everything from there, and what comes before, is fetched again."""
        self.parked = self._last = None

    def close(self) -> int:
        """Revoke the partition: nothing more is sent or counted; committable stays as it is."""
        self.closed = True
        return self._drop_from(0)

    # Queries ----------------------------------------------------------------------------------------------------------

    def committable_with(self, ticket: DeliveryTicket, reached: int) -> int:
        """Return what may be committed if everything of this one-part ticket before `reached` is done, too."""
        if self._undone and self._undone[0] is ticket:
            return max(self.committable, min(reached, ticket.resume_at))
        return self.committable

    @property
    def idle(self) -> bool:
        """True if no issued ticket can still be done: drained, or only the parked message is left."""
        return not self._undone

    def idle_but(self, ticket: DeliveryTicket | None) -> bool:
        """True if no ticket except this one can still be done."""
        return all(other is ticket for other in self._undone)

    def goes_on_at(self, position: int) -> bool:
        """True if tickets may be issued from position onwards, with everything before it counted here."""
        return not self.closed and self.given <= position and (self._last is None or position < self._last)

    def __repr__(self) -> str:
        how = "closed" if self.closed else "parked" if self.parked else "open"
        return f"<Progress {how}, committable {self.committable}, {len(self._undone)} undone>"

    # Its own owner, in one thread -------------------------------------------------------------------------------------

    @property
    def partition(self) -> TicketReports:
        return self

    def report(self, event: Callable[[*A], T], *args: *A) -> T:
        return event(*args)

    def under_lease(self, event: Callable[[W, float, *A], T], what: W, *args: *A) -> T:
        return event(what, 0.0, *args)

    def may_send(self, ticket: DeliveryTicket, now: float) -> bool:
        """True if it is neither done nor dropped."""
        return ticket.live

    # Reports of tickets: each returns the bytes that can be released --------------------------------------------------

    def ticket_done(self, ticket: DeliveryTicket) -> int:
        if not ticket.live:
            return 0
        ticket.left -= 1
        return self._complete(ticket) if ticket.left == 0 else 0

    def ticket_reached(self, ticket: DeliveryTicket, resume_at: int) -> int:
        if ticket.live and ticket.parts == 1:
            ticket.at = max(ticket.at, min(resume_at, ticket.resume_at))
            self._advance()
        return 0

    def ticket_failed(self, ticket: DeliveryTicket, reason: Exception, resume_at: int | None) -> int:
        if not ticket.live:
            return 0
        self.parked = Parked(reason, ticket.at if resume_at is None else resume_at, ticket.resume_at)
        return self._end_at(ticket)

    def ticket_cut(self, ticket: DeliveryTicket, resume_at: int) -> int:
        if not ticket.live:
            return 0
        if self._undone[-1] is ticket and self.given == ticket.resume_at:
            ticket.resume_at = self.given = max(ticket.at, min(resume_at, ticket.resume_at))
            return self._complete(ticket)
        ticket.at = max(ticket.at, min(resume_at, ticket.resume_at))
        return self._end_at(ticket)

    def ticket_dropped(self, ticket: DeliveryTicket) -> int:
        return self._end_at(ticket) if ticket.live else 0

    # Inside ----------------------------------------------------------------------------------------------------------

    def _complete(self, ticket: DeliveryTicket) -> int:
        ticket.live = False
        self.undone_bytes -= ticket.nbytes
        self._advance()
        return ticket.nbytes

    def _advance(self) -> None:
        """Remove finished tickets from the front; the next one may be reached partly."""
        undone = self._undone
        while undone and not undone[0].live:
            self.committable = undone.popleft().resume_at
        self.committable = max(self.committable, undone[0].at if undone else self._end)

    def _end_at(self, ticket: DeliveryTicket) -> int:
        """End at this ticket: nothing from it onwards will ever be committed here."""
        self._last = -1  # not its offset: in 0.7 the next message of a compressed entry has the same one
        self._end = ticket.at
        gone = self._drop_from(self._undone.index(ticket))
        self._advance()
        return gone

    def _drop_from(self, index: int) -> int:
        gone = 0
        while len(self._undone) > index:
            ticket = self._undone.pop()
            if ticket.live:
                ticket.live = False
                gone += ticket.nbytes
        self.undone_bytes -= gone
        return gone


class DeliveryTicket:
    """Ticket of a delivered range: its sender reports the outcome of its parts here (kafkawire.model.Ticket).

    All methods may be called from any thread if the owner of its progress has a lock.
    """

    __slots__ = ("at", "begin", "left", "live", "nbytes", "parts", "progress", "resume_at")

    def __init__(self, progress: Progress, begin: int, resume_at: int, parts: int, nbytes: int) -> None:
        self.progress = progress
        self.begin = begin  # the end of the previous ticket
        self.resume_at = resume_at
        self.parts = parts
        self.nbytes = nbytes
        self.left = parts  # parts still to be done
        self.at = begin  # everything of it before this offset is stored
        self.live = True  # neither done nor dropped

    def may_send(self) -> bool:
        """Return False if it is done or dropped, or the lease is over, so that nothing of it may be sent."""
        owner = self.progress.owner
        return owner.under_lease(owner.partition.may_send, self)

    def done(self) -> None:
        """Report that one part is stored.  After the last part, and once dropped, this changes nothing."""
        owner = self.progress.owner
        owner.report(owner.partition.ticket_done, self)

    def reached(self, resume_at: int) -> None:
        """Report that everything of a one-part ticket before resume_at is stored; ignored for several parts."""
        owner = self.progress.owner
        owner.report(owner.partition.ticket_reached, self, resume_at)

    def acked(self, resume_at: int) -> None:
        """Acknowledge its message (kafkawire.model.Handed); a second call changes nothing."""
        self.done()

    def cut(self, resume_at: int) -> None:
        """Report that everything of a one-part ticket before resume_at is done; the rest will be issued again from
        there.

        If later tickets were issued already, it counts as dropped there, and they are issued again, too.
        """
        owner = self.progress.owner
        owner.report(owner.partition.ticket_cut, self, resume_at)

    def failed(self, reason: Exception, resume_at: int | None = None) -> None:
        """Report that a part can never be stored: the partition is parked here.

        resume_at names the message for the report; reached() has said what was stored before it.
        """
        owner = self.progress.owner
        owner.report(owner.partition.ticket_failed, self, reason, resume_at)

    def drop(self) -> None:
        """Drop it, because it will not be done: nothing from it onwards is sent or committed by its progress; a new one
        may begin there."""
        owner = self.progress.owner
        owner.report(owner.partition.ticket_dropped, self)

    def __repr__(self) -> str:
        return f"<DeliveryTicket {self.begin}..{self.resume_at}, {self.left} of {self.parts} parts to do>"
