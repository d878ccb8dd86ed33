"""What tells a lane that its requests were handled where brokers never answer a produce request (0.7).

    confirm        a barrier behind each request on the same link: its answer says that the request was handled
    no confirm     the request counts as sent once it is written; a barrier follows every now and then all the same, so
                   that what may be lost is counted (Life)

Such a broker drops a set with an entry that is too large without a word, so that is looked at before, and refuses
other things by closing the link.  That is found out: what was the oldest on a link that had answered before is under
suspicion, goes again with nothing else on its way, and is given up when that happens a few times in a row.

What is known of one link whose broker answers no produce request.  Pure: no clock, no socket.

Such a broker handles the requests of a link in order and closes it on one that it refuses.  So the answer to any other
request on the link (the dialect's barrier) is a sign of life that covers all that was written before it.

    wrote(7); covers = ask(); answered(covers)     the 7 were handled
    wrote(7); lost()                               7: nobody knows
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from groundwork.crew import now
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Link
from kafkawire.requests import Request
from producer.batches import Batch
from producer.config import NO_CONFIRM
from producer.flights import Answering, Flight, Shared


class Silent(Answering):
    """Of one lane, whose links come one after the other."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._confirms = shared.config.confirm != NO_CONFIRM
        self._life = Life()
        self._link: Link | None = None  # the one that life is of
        self._asked_about: TopicPartition | None = None  # by the newest barrier

    @property
    def unproved(self) -> int:
        return self._life.unproved

    @property
    def sign_wanted(self) -> bool:
        return self._life.wanted

    def holds(self, flights: Iterable[Flight]) -> bool:
        return any(batch.refused for flight in flights for batch in flight.batches)  # it is to be alone on its way

    def alone(self, flights: Iterable[Flight]) -> bool | None:
        return not any(flight.batches for flight in flights)

    def fitting(self, due: list[Batch], broker: Broker) -> list[Batch]:
        """What is too large is split before."""
        limit, messages = self._s.batches.limits.max_message_bytes, self._s.dialect.messages
        wrong = [batch for batch in due if any(piece.exceeds(limit, messages) for piece in batch.pieces)]
        for batch in wrong:
            self._s.outcomes.oversize(batch, broker, now())
        return [batch for batch in due if batch not in wrong]

    def told_by(self, request: Request, tp: TopicPartition) -> Request | None:
        return self._barrier(tp) if self._confirms else None

    def first_sign(self, link: Link, tp: TopicPartition) -> Flight | None:
        """So that, if what follows closes the link, it is known to have worked before."""
        return self._sign(link, tp) if self._life_of(link).fresh else None

    def next_sign(self, link: Link) -> Flight | None:
        if not self._life_of(link).wanted:
            return None
        assert self._asked_about is not None, "a sign of life is asked for before anything was sent"
        return self._sign(link, self._asked_about)

    def written(self, flight: Flight) -> None:
        self._asked_about = flight.batches[0].tp
        self._life.wrote(sum(batch.count for batch in flight.batches))

    def settle(self, flight: Flight, answers: Any) -> bool:
        self._life.answered(flight.covers)
        for batch in flight.batches:
            self._s.outcomes.stored(batch, now())
        return False

    def lost(self, lost: LinkLost) -> bool:
        worked, unproved = self._life.proved, self._life.lost()
        if unproved:
            self._s.outcomes.maybe_lost(unproved, lost)
        return worked and not unproved

    def _life_of(self, link: Link) -> Life:
        """What another link has shown before is not this one's."""
        if link is not self._link:
            self.lost(LinkLost(f"{link.broker}: the connection was made anew"))
            self._link = link
        return self._life

    def _sign(self, link: Link, tp: TopicPartition) -> Flight:
        return Flight(link, self._barrier(tp), covers=self._life.ask())

    def _barrier(self, tp: TopicPartition) -> Request:
        self._asked_about = tp
        barrier: Request = self._s.dialect.requests.barrier(self._s.dialect, tp)
        return barrier


class Life:
    """unproved messages were written since the last sign of life; proved: this link has given one at all.

    At most one sign is asked for at a time; as long as something is unproved, one is asked for, or wanted.
    """

    def __init__(self) -> None:
        self.unproved = 0
        self.proved = False
        self._asked = False

    @property
    def wanted(self) -> bool:
        """Whether a sign is to be asked for now."""
        return self.unproved > 0 and not self._asked

    @property
    def fresh(self) -> bool:
        """Whether this link has given no sign yet, nor been asked for one."""
        return not (self.proved or self._asked)

    def wrote(self, count: int) -> None:
        self.unproved += count

    def ask(self) -> int:
        """A sign is asked for; how many messages it will cover."""
        self._asked = True
        return self.unproved

    def answered(self, covers: int) -> None:
        self._asked = False
        self.proved = True
        self.unproved -= covers

    def lost(self) -> int:
        """The link is over, and another one begins; messages that may be lost with it."""
        unproved, self.unproved = self.unproved, 0
        self.proved = self._asked = False
        return unproved
