"""The way to one target broker: its connection, a greenlet that sends and one that receives.

Several requests may be in flight, never two with the same partition.  When the connection breaks, nobody knows what
became of those: all of them go back to where they came from, in order, and are sent again on a new connection or to a
new leader.  Connects are throttled and never in step with those of others.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groundwork.crew import Event, now
from groundwork.failpoints import failpoint
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Link
from kafkawire.net.links import Links
from kafkawire.requests import ProducedPartition, Request
from producer.batches import Batches
from producer.leaders import Leaders
from producer.outcomes import Outcomes
from producer.pieces import Batch

if TYPE_CHECKING:
    from kafkawire.dialects import Dialect
    from producer.config import ProducerConfig

PURPOSE = "produce"
UNANSWERED = ProducedPartition(error=-1, base_offset=-1)


@dataclass(eq=False, slots=True)
class _Flight:
    link: Link
    request: Request
    batches: list[Batch]


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
        self._link: Link | None = None  # the one that is open
        self._opening: Link | None = None  # the one that is being opened
        self._next_connect = 0.0
        self._unreachable = False
        self._closed = self._kept_open = False
        self._sends, self._opened_at = 0, 0.0  # of the link that is open
        self._rng = random.Random()

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    @property
    def connected(self) -> bool:
        return self._link is not None and self._link.broken is None

    def keep_open(self) -> None:
        """Connect also while there is nothing to send."""
        if not self._kept_open:
            self._kept_open = True
            self.wake.set()

    def leave(self, why: str) -> None:
        """Its broker is gone for good: what is in flight has an unknown outcome, and goes again elsewhere."""
        link = self._link or self._opening
        if link is not None:
            self._lost(link, LinkLost(why))
            self._s.links.drop(link.broker, PURPOSE)
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
            if not self._send_one():
                self.wake.wait(self._pause())

    def run_receiving(self) -> None:
        while not self._closed:
            if not self._flights or not self._s.config.acks:  # with acks 0 nobody answers
                self._flying.clear()
                self._flying.wait()
                continue
            flight = self._flights[0]
            try:
                reply = flight.link.receive()
            except LinkLost as lost:
                self._lost(flight.link, lost)
                continue
            assert reply.request is flight.request, "a reply of another request than the oldest"
            self._flights.popleft()
            self._settle(flight, reply.body)

    def _mine(self, tp: TopicPartition) -> bool:
        partition = self._s.leaders.view.topics.get(tp.topic, {}).get(tp.partition)
        return partition is not None and partition.leader == self.broker_id

    def _send_one(self) -> bool:
        """One request, if something is due and can go; False: wait."""
        batches = self._s.batches
        if len(self._flights) >= self._s.config.max_in_flight or not batches.is_due(now(), self._mine):
            return False
        link = self._open()
        if link is None or self._closed:  # closed while it was opened: nobody would receive the answer
            return False
        due = batches.due(now(), self._mine)
        if due:
            self._send(link, due)
        self._s.settled()  # what may not be sent any more is gone now
        return bool(due)

    def _send(self, link: Link, due: list[Batch]) -> None:
        config = self._s.config
        sets = {batch.tp: batch.buffers() for batch in due}
        request = self._s.dialect.requests.produce(self._s.dialect, config.acks, config.request_timeout_ms, sets)
        flight = _Flight(link, request, due)
        self._flights.append(flight)
        failpoint("before send")
        try:
            link.send(request)
        except LinkLost as lost:
            self._lost(link, lost)
            return
        self._s.outcomes.counters.requests += 1
        self._sends += 1
        failpoint("after send before ack")
        if request.expects_reply:
            self._flying.set()
        elif flight in self._flights:
            self._flights.remove(flight)
            for batch in due:
                self._s.outcomes.stored(batch, now())

    def _open(self) -> Link | None:
        """The connection, open; None: not now."""
        if self._closed:
            return None
        broker = self._s.leaders.view.brokers.get(self.broker_id)
        if broker is None:
            self._s.leaders.ask()
            self._throttle()
            return None
        if self._worn():
            self._s.links.drop(broker, PURPOSE)
            self._link, self._next_connect = None, 0.0
        link = self._s.links.link(broker, PURPOSE)
        if link is self._link:
            return link
        if now() < self._next_connect:
            return None
        self._throttle()
        self._opening = link
        try:
            link.open()
        except LinkLost as lost:
            if not self._closed:
                self._cannot_connect(lost)
            return None
        finally:
            self._opening = None
        if self._unreachable:
            self._s.events(f"{broker}: reached again")
        self._unreachable = False
        self._link, self._sends, self._opened_at = link, 0, now()
        return link

    def _worn(self) -> bool:
        """Whether the connection is to be made anew (a load balancer may give another broker then)."""
        config = self._s.config
        if self._link is None or self._flights:
            return False
        by_sends = 0 < config.reconnect_sends <= self._sends
        return by_sends or 0 < config.reconnect_time_ms <= (now() - self._opened_at) * 1000

    def _throttle(self) -> None:
        self._next_connect = now() + self._s.config.reconnect_ms / 1000 * self._rng.uniform(1.0, 1.3)

    def _cannot_connect(self, lost: LinkLost) -> None:
        if not self._unreachable:
            self._s.events(f"{lost}; tried again until it answers or others lead its partitions")
        self._unreachable = True
        self._s.batches.sweep()
        self._s.leaders.ask()
        self._s.settled()

    def _lost(self, link: Link, lost: LinkLost) -> None:
        """A connection broke: everything on it goes back, to be sent again."""
        link.close()
        if self._link is link:
            self._link = None
        gone = [flight for flight in self._flights if flight.link is link]
        if not gone or self._closed:
            return  # after close() nothing is sent again, and whoever closed counts what is left
        self._flights = deque(flight for flight in self._flights if flight.link is not link)
        self._s.events(f"{lost}; what was on the way is sent again and may be stored twice")
        for flight in gone:
            for batch in flight.batches:
                self._s.outcomes.lost(batch, lost, now())
        self._s.leaders.ask()
        self._s.settled()

    def _settle(self, flight: _Flight, answers: dict[TopicPartition, ProducedPartition]) -> None:
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
        if len(self._flights) >= self._s.config.max_in_flight:
            return None
        due = self._s.batches.next_due(self._mine)
        if due is None and self._kept_open and not self.connected:
            due = self._next_connect
        if due is None:
            return None
        if self._link is None or self._link.broken is not None:
            due = max(due, self._next_connect)
        return max(0.001, due - now())

    def __repr__(self) -> str:
        return f"<Lane to broker {self.broker_id}, {self.in_flight} in flight>"
