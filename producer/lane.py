"""The way to one target broker: its connection, a greenlet that sends and one that receives.

Several requests may be in flight, never two with the same partition.  When the connection breaks, nobody knows what
became of those: all of them go back to where they came from, in order, and are sent again on a new connection or to a
new leader.  Connects are throttled and never in step with those of others.

What tells that a request was handled:
    its answer                 where brokers answer
    the answer to a barrier    where they do not, and confirm asks for it: a request behind it on the same link
    nothing                    acks 0, or no confirm: it counts as sent once it is written.  Where brokers never answer,
                               a barrier follows all the same, so that what may be lost is counted (life.py)

A broker that refuses by closing the link is found out: what was the oldest on a link that had answered before goes
again by itself, and is given up when that happens a few times in a row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groundwork.crew import Event, now
from groundwork.failpoints import failpoint
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Link
from kafkawire.net.links import Links
from kafkawire.requests import ProducedPartition, Request
from producer.batches import Batches
from producer.config import NO_CONFIRM
from producer.leaders import Leaders
from producer.life import Life
from producer.opener import Opener
from producer.outcomes import Outcomes
from producer.pieces import Batch

if TYPE_CHECKING:
    from kafkawire.dialects import Dialect
    from producer.config import ProducerConfig

UNANSWERED = ProducedPartition(error=-1, base_offset=-1)


@dataclass(eq=False, slots=True)
class _Flight:
    """told_by: the request whose answer tells what became of the batches; None: nobody will.  covers: messages written
    unanswered before it, where it is there for them."""

    link: Link
    told_by: Request | None
    batches: list[Batch]
    covers: int = 0


@dataclass(frozen=True, slots=True)
class Shared:
    """What all lanes of a sender work on."""

    dialect: Dialect
    config: ProducerConfig
    batches: Batches
    outcomes: Outcomes
    leaders: Leaders
    links: Links
    events: Callable[[str], object]
    settled: Callable[[], object]  # something is over, or free to be sent elsewhere


class Lane:
    """run_sending and run_receiving are its two greenlets; close() lets both end."""

    def __init__(self, broker_id: int, shared: Shared) -> None:
        self.broker_id = broker_id
        self.wake = Event()  # there may be something to send
        self._s = shared
        self._flights: deque[_Flight] = deque()
        self._flying = Event()
        self._opener = Opener(shared.links, shared.config, self._cannot_connect, self._reached_again)
        self._closed = self._kept_open = False
        self._life = Life()
        self._asked_about: TopicPartition | None = None  # by the newest barrier
        self._unanswered = not shared.dialect.answers_produce
        self._confirms = self._unanswered and shared.config.confirm != NO_CONFIRM
        self._counts_on_life = self._unanswered and not self._confirms

    @property
    def unproved(self) -> int:
        """Messages that count as sent though their broker has shown no sign of life since."""
        return self._life.unproved

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    @property
    def connected(self) -> bool:
        return self._opener.connected

    def keep_open(self) -> None:
        """Connect also while there is nothing to send."""
        if not self._kept_open:
            self._kept_open = True
            self.wake.set()

    def leave(self, why: str) -> None:
        """Its broker is gone for good: what is in flight has an unknown outcome, and goes again elsewhere."""
        link = self._opener.begun
        if link is not None:
            self._lost(link, LinkLost(why))
            self._opener.drop(link.broker)
        self.close()

    def close(self) -> None:
        self._closed = True
        self.wake.set()
        self._flying.set()

    def run_sending(self) -> None:
        while not self._closed:
            self.wake.clear()
            if self._kept_open and not self.connected:
                self._open()
            link = self._opener.link
            if self._life.wanted and link is not None:
                self._ask_for_life(link, None)
            if not self._send_one():
                self.wake.wait(self._pause())

    def run_receiving(self) -> None:
        while not self._closed:
            if not self._flights or self._flights[0].told_by is None:
                self._flying.clear()
                self._flying.wait()
                continue
            flight = self._flights[0]
            try:
                reply = flight.link.receive()
            except LinkLost as lost:
                self._lost(flight.link, lost)
                continue
            assert reply.request is flight.told_by, "a reply of another request than the oldest"
            self._flights.popleft()
            self._settle(flight, reply.body)

    def _mine(self, tp: TopicPartition) -> bool:
        partition = self._s.leaders.view.topics.get(tp.topic, {}).get(tp.partition)
        return partition is not None and partition.leader == self.broker_id

    def _full(self) -> bool:
        sent = [flight for flight in self._flights if flight.batches]
        if len(sent) >= self._s.config.max_in_flight:
            return True  # or what is under suspicion is on its way, and is to be alone with it
        return self._unanswered and any(batch.refused for flight in sent for batch in flight.batches)

    def _send_one(self) -> bool:
        """One request, if something is due and can go; False: wait."""
        batches = self._s.batches
        if self._full() or not batches.is_due(now(), self._mine):
            return False
        link = self._open()
        if link is None or self._closed:  # closed while it was opened: nobody would receive the answer
            return False
        alone = not any(flight.batches for flight in self._flights) if self._unanswered else None
        due = self._fitting(batches.due(now(), self._mine, alone), link.broker)
        if due:
            self._send(link, due)
        self._s.settled()  # what may not be sent any more is gone now
        return bool(due)

    def _fitting(self, due: list[Batch], broker: Broker) -> list[Batch]:
        """Those that may go: what is too large for a broker that drops such a set without a word is split before."""
        if not self._unanswered:
            return due
        limit = self._s.batches.limits.max_message_bytes
        wrong = [
            batch for batch in due if any(piece.exceeds(limit, self._s.dialect.messages) for piece in batch.pieces)
        ]
        for batch in wrong:
            self._s.outcomes.oversize(batch, broker, now())
        if wrong:
            self.wake.set()
        return [batch for batch in due if batch not in wrong]

    def _send(self, link: Link, due: list[Batch]) -> None:
        config, dialect = self._s.config, self._s.dialect
        sets = {batch.tp: batch.buffers() for batch in due}
        request = dialect.requests.produce(dialect, config.acks, config.request_timeout_ms, sets)
        told_by = request if request.expects_reply else self._barrier(due[0].tp) if self._confirms else None
        if self._unanswered and self._life.fresh:
            self._ask_for_life(link, due[0].tp)  # so that, if this closes the link, it is known to have worked before
        flight = _Flight(link, told_by, due)
        self._flights.append(flight)
        failpoint("before send")
        try:
            link.send(request)
            if told_by is not None and told_by is not request:
                link.send(told_by)
        except LinkLost as lost:
            self._lost(link, lost)
            return
        self._s.outcomes.counters.requests += 1
        self._opener.sends += 1
        failpoint("after send before ack")
        if told_by is not None:
            self._flying.set()
        elif flight in self._flights:
            self._written(flight)

    def _written(self, flight: _Flight) -> None:
        """Nobody will tell what became of it: it counts as sent, unless the link is over already."""
        if flight.link.closed_by_peer():
            self._lost(flight.link, LinkLost(f"{flight.link.broker}: the other side closed the connection"))
            return
        self._flights.remove(flight)
        for batch in flight.batches:
            self._s.outcomes.stored(batch, now(), sure=False)
        if self._counts_on_life:
            self._life.wrote(sum(batch.count for batch in flight.batches))
            if self._life.wanted:
                self._ask_for_life(flight.link, flight.batches[0].tp)

    def _barrier(self, tp: TopicPartition) -> Request:
        self._asked_about = tp
        barrier: Request = self._s.dialect.requests.barrier(self._s.dialect, tp)
        return barrier

    def _ask_for_life(self, link: Link, tp: TopicPartition | None) -> None:
        tp = tp or self._asked_about
        assert tp is not None, "a sign of life is asked for before anything was sent"
        barrier = self._barrier(tp)
        self._flights.append(_Flight(link, barrier, [], self._life.ask()))
        try:
            link.send(barrier)
        except LinkLost as lost:
            self._lost(link, lost)
        else:
            self._flying.set()

    def _open(self) -> Link | None:
        """The connection, open; None: not now."""
        if self._closed:
            return None
        broker = self._s.leaders.view.brokers.get(self.broker_id)
        if broker is None:
            self._s.leaders.ask()
            self._opener.throttle()
            return None
        return self._opener.open(broker, idle=not self._flights)

    def _cannot_connect(self, lost: LinkLost) -> None:
        if self._closed:
            return
        if not self._opener.unreachable:
            self._s.events(f"{lost}; tried again until it answers or others lead its partitions")
        self._s.batches.sweep()
        self._s.leaders.ask()
        self._s.settled()

    def _reached_again(self, broker: Broker) -> None:
        self._s.events(f"{broker}: reached again")

    def _lost(self, link: Link, lost: LinkLost) -> None:
        """A connection broke: everything on it goes back, to be sent again."""
        self._opener.lost(link)
        gone = [flight for flight in self._flights if flight.link is link]
        worked = self._life.proved
        unproved = self._life.lost() if gone else 0
        if unproved:
            self._s.outcomes.maybe_lost(unproved, lost)
        if not gone or self._closed:
            self._s.settled()
            return  # after close() nothing is sent again, and whoever closed counts what is left
        self._flights = deque(flight for flight in self._flights if flight.link is not link)
        sent = [flight for flight in gone if flight.batches]
        if sent:
            self._s.events(f"{lost}; what was on the way is sent again and may be stored twice")
        for flight in sent:
            blamed = worked and not unproved and flight is sent[0]
            for batch in flight.batches:
                tell = self._s.outcomes.suspect if blamed else self._s.outcomes.lost
                tell(batch, lost, now())
        self._s.leaders.ask()
        self._s.settled()

    def _settle(self, flight: _Flight, answers: Any) -> None:
        if self._unanswered:
            self._life.answered(flight.covers)
            for batch in flight.batches:
                self._s.outcomes.stored(batch, now())
            if self._life.wanted:
                self.wake.set()
            self._s.settled()
            return
        refresh = False
        broker: Broker = flight.link.broker
        for batch in flight.batches:
            answer = answers.get(batch.tp, UNANSWERED)
            refresh |= self._s.outcomes.answered(batch, answer.error, answer.base_offset, broker, now())
        if refresh:
            self._s.leaders.ask()
        self._s.settled()

    def _pause(self) -> float | None:
        """How long there is nothing to do, unless woken; None: until then."""
        if self._full():
            return None
        due = self._s.batches.next_due(self._mine)
        if due is None and self._kept_open and not self.connected:
            due = self._opener.next_connect
        if due is None:
            return None
        if not self.connected:
            due = max(due, self._opener.next_connect)
        return max(0.001, due - now())

    def __repr__(self) -> str:
        return f"<Lane to broker {self.broker_id}, {self.in_flight} in flight>"
