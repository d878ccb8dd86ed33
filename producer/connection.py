"""The way to one target broker: its connection, a greenlet that sends and one that receives.

Several requests may be in flight, never two with the same partition.  When the connection breaks, nobody knows what
became of those: all of them go back to where they came from, in order, and are sent again on a new connection or to a
new leader.  Connects are throttled and never in step with those of others.

What tells that a request was handled: flights.py, where brokers answer; silence.py, where they never do.

The link of one lane: opened when it is needed, no oftener than reconnect.backoff.ms, made anew when it is worn.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from groundwork.crew import Event, now
from groundwork.failpoints import failpoint
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Link
from kafkawire.net.links import Links
from producer.barrier import Silent
from producer.batches import Batch
from producer.flights import Answering, Flight, Shared

if TYPE_CHECKING:
    from producer.config import ProducerConfig


class Lane:
    """run_sending and run_receiving are its two greenlets; close() lets both end."""

    def __init__(self, broker_id: int, shared: Shared) -> None:
        self.broker_id = broker_id
        self.wake = Event()  # there may be something to send
        self._s = shared
        self._flights: deque[Flight] = deque()
        self._flying = Event()
        self._opener = Opener(shared.links, shared.config, self._cannot_connect, self._reached_again)
        self._closed = self._kept_open = False
        self._told = Answering(shared) if shared.dialect.answers_produce else Silent(shared)

    @property
    def unproved(self) -> int:
        """Messages that count as sent though their broker has shown no sign of life since."""
        return self._told.unproved

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
            if link is not None:
                self._ask(self._told.next_sign(link))
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
        sent = sum(1 for flight in self._flights if flight.batches)
        return sent >= self._s.config.max_in_flight or self._told.holds(self._flights)

    def _alone(self) -> bool | None:
        """See Batches.due."""
        return self._told.alone(self._flights)

    def _send_one(self) -> bool:
        """One request, if something is due and can go; False: wait."""
        batches = self._s.batches
        if self._full() or not batches.is_due(now(), self._mine, self._alone()):
            return False
        link = self._open()
        if link is None or self._closed:  # closed while it was opened: nobody would receive the answer
            return False
        due = batches.due(now(), self._mine, self._alone())
        going = self._told.fitting(due, link.broker)
        if len(going) < len(due):
            self.wake.set()
        if going:
            self._send(link, going)
        self._s.settled()  # what may not be sent any more is gone now
        return bool(going)

    def _send(self, link: Link, due: list[Batch]) -> None:
        config, dialect = self._s.config, self._s.dialect
        sets = {batch.tp: batch.buffers() for batch in due}
        request = dialect.requests.produce(dialect, config.acks, config.request_timeout_ms, sets)
        told_by = self._told.told_by(request, due[0].tp)
        self._ask(self._told.first_sign(link, due[0].tp))
        flight = Flight(link, told_by, due)
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

    def _written(self, flight: Flight) -> None:
        """Nobody will tell what became of it: it counts as sent, unless the link is over already."""
        if flight.link.closed_by_peer():
            self._lost(flight.link, LinkLost(f"{flight.link.broker}: the other side closed the connection"))
            return
        self._flights.remove(flight)
        if self._s.outages and self._s.dialect.answers_produce:  # acks 0: there will be no answer
            self._s.outages.over(self.broker_id, "is reached again", now())
        for batch in flight.batches:
            self._s.outcomes.stored(batch, now(), sure=False)
        self._told.written(flight)
        self._ask(self._told.next_sign(flight.link))

    def _ask(self, sign: Flight | None) -> None:
        """Send what only its answer is wanted of, if there is something."""
        if sign is None:
            return
        assert sign.told_by is not None
        self._flights.append(sign)
        try:
            sign.link.send(sign.told_by)
        except LinkLost as lost:
            self._lost(sign.link, lost)
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
        self._out(lost, "tried again until it answers or others lead its partitions")
        self._s.batches.sweep()
        self._s.leaders.ask()
        self._s.settled()

    def _out(self, lost: LinkLost, then: str) -> None:
        broker = self._s.leaders.view.brokers.get(self.broker_id)
        what = str(broker) if broker is not None else f"broker {self.broker_id}"
        self._s.outages.begin(self.broker_id, what, str(lost), then, now())

    def _reached_again(self, broker: Broker) -> None:
        """The end of an outage where nothing waits to be sent; else its answer is: one that hangs connects, too."""
        if self.idle:
            self._s.outages.over(self.broker_id, "is reached again", now())

    @property
    def wanted(self) -> bool:
        """Its broker has to be reached."""
        return not self.idle or (self._kept_open and not self.connected)

    @property
    def idle(self) -> bool:
        """Nothing is in flight, and nothing waits to be."""
        return not self._flights and self._s.batches.next_due(self._mine, None) is None

    def _lost(self, link: Link, lost: LinkLost) -> None:
        """A connection broke: everything on it goes back, to be sent again."""
        self._opener.lost(link)
        gone = [flight for flight in self._flights if flight.link is link]
        refused = self._told.lost(lost) if gone else False
        if not gone or self._closed:
            self._s.settled()
            return  # after close() nothing is sent again, and whoever closed counts what is left
        self._flights = deque(flight for flight in self._flights if flight.link is not link)
        sent = [flight for flight in gone if flight.batches]
        if sent:
            then = "what was on the way is sent again and may be stored twice"
            if link.closed_here:
                self._s.outages.closed(str(lost), then)
            else:
                self._out(lost, then)
        for flight in sent:
            tell = self._s.outcomes.suspect if refused and flight is sent[0] else self._s.outcomes.lost
            for batch in flight.batches:
                tell(batch, lost, now())
        self._s.leaders.ask()
        self._s.settled()

    def _settle(self, flight: Flight, answers: Any) -> None:
        if self._s.outages:
            self._s.outages.over(self.broker_id, "answers again", now())
        if self._told.settle(flight, answers):
            self._s.leaders.ask()
        if self._told.sign_wanted:
            self.wake.set()
        self._s.settled()

    def _pause(self) -> float | None:
        """How long there is nothing to do, unless woken; None: until then."""
        if self._full():
            return None
        due = self._s.batches.next_due(self._mine, self._alone())
        if due is None and self._kept_open and not self.connected:
            due = self._opener.next_connect
        if due is None:
            return None
        if not self.connected:
            due = max(due, self._opener.next_connect)
        return max(0.001, due - now())

    def __repr__(self) -> str:
        return f"<Lane to broker {self.broker_id}, {self.in_flight} in flight>"


PURPOSE = "produce"


class Opener:
    """refused(lost): a connection could not be made.  back(broker): one could, after some that could not."""

    def __init__(
        self,
        links: Links,
        config: ProducerConfig,
        refused: Callable[[LinkLost], object],
        back: Callable[[Broker], object],
    ) -> None:
        self.link: Link | None = None  # the one that is open
        self.sends = 0  # requests over it
        self.next_connect = 0.0
        self._links, self._config, self._refused, self._back = links, config, refused, back
        self._opening: Link | None = None  # the one that is being opened
        self._opened_at = 0.0
        self._unreachable = False
        self._rng = random.Random()

    @property
    def connected(self) -> bool:
        return self.link is not None and self.link.broken is None

    @property
    def begun(self) -> Link | None:
        """The one that is open, or being opened."""
        return self.link or self._opening

    def open(self, broker: Broker, idle: bool) -> Link | None:
        """The link, open; None: not now.  idle: nothing waits for an answer on it."""
        if idle and self._worn():
            self._links.drop(broker, PURPOSE)
            self.link, self.next_connect = None, 0.0
        link = self._links.link(broker, PURPOSE)
        if link is self.link and idle and link.closed_by_peer():
            self._links.drop(broker, PURPOSE)  # closed while nothing was on its way: no harm done
            self.link, link = None, self._links.link(broker, PURPOSE)
        if link is self.link:
            return link
        if now() < self.next_connect:
            return None
        self.throttle()
        self._opening = link
        try:
            link.open()
        except LinkLost as lost:
            self._refused(lost)
            self._unreachable = True
            return None
        finally:
            self._opening = None
        if self._unreachable:
            self._back(broker)
        self._unreachable = False
        self.link, self.sends, self._opened_at = link, 0, now()
        return link

    @property
    def unreachable(self) -> bool:
        """Whether the newest try failed."""
        return self._unreachable

    def throttle(self) -> None:
        """The next connect is some time away, and never in step with those of others."""
        self.next_connect = now() + self._config.reconnect_ms / 1000 * self._rng.uniform(1.0, 1.3)

    def lost(self, link: Link) -> None:
        """That link is over."""
        link.close()
        if self.link is link:
            self.link = None

    def drop(self, broker: Broker) -> None:
        self._links.drop(broker, PURPOSE)

    def _worn(self) -> bool:
        """Whether the connection is to be made anew (a load balancer may give another broker then)."""
        if self.link is None:
            return False
        by_sends = 0 < self._config.reconnect_sends <= self.sends
        return by_sends or 0 < self._config.reconnect_time_ms <= (now() - self._opened_at) * 1000
