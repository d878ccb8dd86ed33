"""One connection to a target broker: a greenlet that sends produce requests, and one that receives the responses.

A broker may have several (num.producer.connections), because 0.8 handles the requests of a connection one after the
other: one connection uses one of its cores.  Each partition is pinned to one of them (kafkawire.net.links.Pins).

Several requests may be in flight, never two with the same partition.  A broker is far when no response came sooner than
FAR_S: then the waiting bytes are split over several requests, and sets of several codecs are sent as one (see
batches.py).  When the connection breaks, the outcome of those in flight is unknown: their batches return to their
partitions' queues, in order, and are sent again on a new connection or to a new leader.  Reconnects back off, with
jitter.

A 0.7 broker never answers a produce request: its link is a BarrierLink (barrier.py), which confirms them.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from groundwork.failpoints import failpoint
from groundwork.tasks import Event, now
from kafkawire.dialects import Dialect
from kafkawire.errors import LinkLost, LocalError, RemoteError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Link
from kafkawire.net.links import Links, Pins
from kafkawire.net.session import Reply
from kafkawire.protocol.request import Request
from producer.barrier import BarrierLink
from producer.batches import Batch, Batches
from producer.config import NO_CONFIRM, ProducerConfig
from producer.formatchange import outdated, renewed
from producer.outages import Outages
from producer.outcomes import Outcomes
from producer.sequences import Sequences
from producer.targetleaders import Leaders
from producer.verdicts import UNANSWERED

PURPOSE = "produce"
FAR_S = 0.02  # seconds; for longer round trips, extra work on the broker pays


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Objects that all connections of a sender share.

    completed() is called when a batch is completed, or may be sent elsewhere.
    """

    dialect: Dialect
    config: ProducerConfig
    batches: Batches
    outcomes: Outcomes
    leaders: Leaders
    links: Links
    pins: Pins  # connections of partitions
    outages: Outages
    completed: Callable[[], object]
    sequences: Sequences | None = None  # of an idempotent producer
    transactional_id: str | None = None  # of a transactional producer


@dataclass(eq=False, slots=True)
class InFlight:
    """A produce request that is being written, or waits for its response."""

    link: Link | BarrierLink
    request: Request[Any]
    batches: Sequence[Batch]
    sent_at: float = 0.0


class BrokerConnection:
    """One of the connections to a broker, numbered from 0.  run_sending and run_receiving are its two greenlets;
    close() ends both."""

    def __init__(self, broker_id: int, shared: Shared, number: int = 0) -> None:
        self.broker_id, self.number = broker_id, number
        self.wake = Event()  # there may be something to send
        self._s = shared
        self._silent = not shared.dialect.answers_produce
        self._in_flight: deque[InFlight] = deque()  # oldest first
        self._sent = Event()  # there may be a response to wait for
        self._round_trip_s: float | None = None  # shortest so far
        self._opener = Opener(
            shared.links.lane(number),
            shared.config,
            wrap=self._barrier_link if self._silent else None,
            refused=self._cannot_connect,
            back=self._reached_again,
            replaced=self._replaced,
        )
        self._closed = self._kept_open = False

    @property
    def unconfirmed(self) -> int:
        """Return the number of messages that count as sent although no barrier after them was answered."""
        link = self._opener.link
        return link.unconfirmed if isinstance(link, BarrierLink) else 0

    @property
    def in_flight(self) -> int:
        """Return the number of requests that wait for a response, including barriers."""
        link = self._opener.link
        return 0 if link is None else link.outstanding

    @property
    def connected(self) -> bool:
        return self._opener.connected

    def keep_open(self) -> None:
        """Keep connected even while there is nothing to send."""
        if not (self._kept_open and self.connected):
            self._kept_open = True
            self.wake.set()

    def broker_left(self, why: str) -> None:
        """Close after the broker has left: requests in flight have an unknown outcome, and are sent again elsewhere."""
        link = self._opener.begun
        if link is not None:
            self._lost(link, LinkLost(why))
            self._opener.drop(link.broker)
        self.close()

    def close(self) -> None:
        self._closed = True
        self.wake.set()
        self._sent.set()

    def run_sending(self) -> None:
        while not self._closed:
            self.wake.clear()
            if self._kept_open and not self.connected and not self._draining:
                self._open()
            self._send_barrier(self._opener.link)
            if not self._send_one():
                self.wake.wait(self._pause())

    def run_receiving(self) -> None:
        while not self._closed:
            link = self._in_flight[0].link if self._in_flight else self._opener.link
            if link is None or not link.outstanding:
                self._sent.clear()
                self._sent.wait()
                continue
            try:
                reply = link.receive()
            except LinkLost as lost:
                self._lost(link, lost)
            else:
                self._received(link, reply)

    def _mine(self, tp: TopicPartition) -> bool:
        partition = self._s.leaders.view.topics.get(tp.topic, {}).get(tp.partition)
        if partition is None or partition.leader != self.broker_id:
            return False
        if self._s.pins.lane(tp, self.broker_id) != self.number:
            return False
        sequences = self._s.sequences
        return sequences is None or sequences.ready(tp, self._s.batches.head(tp))

    @property
    def _draining(self) -> bool:
        """True if the broker closed the connection and its earlier responses are still being received."""
        return bool(self._in_flight) and self._in_flight[0].link.draining

    def _full(self) -> bool:
        if self._draining or len(self._in_flight) >= self._s.config.max_in_flight:
            return True
        return self._silent and any(batch.refused for sent in self._in_flight for batch in sent.batches)

    def _alone(self) -> bool | None:
        """Return the argument `alone` of Batches.due."""
        return not self._in_flight if self._silent else None

    @property
    def _far(self) -> bool:
        return self._round_trip_s is not None and self._round_trip_s >= FAR_S

    def _send_one(self) -> bool:
        """Send one request if a batch is due and may be sent; Return False if the caller has to wait."""
        batches = self._s.batches
        if self._full() or not batches.is_due(now(), self._mine, self._alone()):
            return False
        link = self._open()
        if link is None or self._closed:  # closed while it was opening: no greenlet would receive the response
            return False
        due = batches.due(now(), self._mine, self._alone(), self._far)
        fitting = self._fitting(due, link.broker) if self._silent else self._sealed(self._in_format(due))
        if len(fitting) < len(due):
            self.wake.set()
        if fitting:
            self._send(link, fitting)
        self._s.completed()  # due() dropped parts that may not be sent any more
        return bool(fitting)

    def _in_format(self, due: list[Batch]) -> list[Batch]:
        """Return batches whose format the brokers support; the others, from before an upgrade, are converted and put
        back into their queues."""
        dialect = self._s.dialect
        old = [batch for batch in due if outdated(batch, dialect)]
        for batch in old:
            try:
                self._s.batches.put_back(batch, renewed(batch, dialect), now())
            except (RemoteError, LocalError) as unreadable:
                self._s.outcomes.unsendable(batch, unreadable, now())
        return [batch for batch in due if batch not in old] if old else due

    def _sealed(self, due: list[Batch]) -> list[Batch]:
        """Number the batches of an idempotent producer; those that may not be sent yet return to their queues."""
        sequences = self._s.sequences
        if sequences is None:
            return due
        sealed = [batch for batch in due if sequences.seal(batch)]
        for batch in due:
            if batch not in sealed:
                self._s.batches.put_back(batch, batch.pieces, now())
        return sealed

    def _fitting(self, due: list[Batch], broker: Broker) -> list[Batch]:
        """Split batches that a broker which never answers would silently drop for their size."""
        limit, messages = self._s.batches.limits.max_message_bytes, self._s.dialect.messages
        too_large = [batch for batch in due if any(piece.exceeds(limit, messages) for piece in batch.pieces)]
        for batch in too_large:
            self._s.outcomes.oversize(batch, broker, now())
        return [batch for batch in due if batch not in too_large]

    def _send(self, link: Link | BarrierLink, due: list[Batch]) -> None:
        config, dialect = self._s.config, self._s.dialect
        sets = {batch.tp: batch.buffers() for batch in due}
        magic = max(batch.magic for batch in due)
        whose = self._s.transactional_id
        request = dialect.requests.produce(dialect, config.acks, config.request_timeout_ms, sets, magic, whose)
        sent = InFlight(link, request, due, now())
        self._in_flight.append(sent)
        failpoint("before send")
        try:
            answered = _produce(link, request, due[0].tp)
        except LinkLost as lost:
            if not self._draining:
                self._lost(link, lost)
            return
        self._s.outcomes.counters.requests += 1
        self._opener.sends += 1
        failpoint("after send before ack")
        if link.outstanding:
            self._sent.set()
        if not answered and sent in self._in_flight:
            self._written(sent)

    def _written(self, sent: InFlight) -> None:
        """Complete a request that gets no response: it counts as sent, unless the connection is closed already."""
        link = sent.link
        if link.closed_by_peer():
            self._lost(link, LinkLost(f"{link.broker}: the other side closed the connection"))
            return
        self._in_flight.remove(sent)
        if self._s.outages and not self._silent:  # acks 0: no response will come
            self._s.outages.over(self.broker_id, "is reached again", now())
        for batch in sent.batches:
            self._s.outcomes.stored(batch, now(), sure=False)
        if isinstance(link, BarrierLink):
            link.written(sum(batch.count for batch in sent.batches))
            self._send_barrier(link)

    def _send_barrier(self, link: Link | BarrierLink | None) -> None:
        """Send a barrier if one is due."""
        if not isinstance(link, BarrierLink) or not link.barrier_due:
            return
        try:
            link.send_barrier()
        except LinkLost as lost:
            self._lost(link, lost)
        else:
            self._sent.set()

    def _received(self, link: Link | BarrierLink, reply: Reply) -> None:
        if self._s.outages:
            self._s.outages.over(self.broker_id, "answers again", now())
        if self._in_flight and reply.request is self._in_flight[0].request:
            sent = self._in_flight.popleft()
            if not self._silent:
                took = now() - sent.sent_at
                self._round_trip_s = took if self._round_trip_s is None else min(took, self._round_trip_s)
            self._answered(sent, reply.body)
        else:
            assert isinstance(link, BarrierLink), "a response to another request than the oldest"
        if isinstance(link, BarrierLink) and link.barrier_due:
            self.wake.set()
        self._s.completed()

    def _answered(self, sent: InFlight, answers: Any) -> None:
        """Pass the response to Outcomes.  answers: by partition; None: a barrier confirmed the request."""
        refresh, outcomes, at, broker = False, self._s.outcomes, now(), sent.link.broker
        for batch in sent.batches:
            if answers is None:
                outcomes.stored(batch, at)
                continue
            answer = answers.get(batch.tp, UNANSWERED)
            if answer.stored:
                outcomes.stored(batch, at, answer.base_offset)
                continue
            refresh |= outcomes.answered(batch, answer, broker, at)
        if refresh:
            self._s.leaders.refresh()

    def _open(self) -> Link | BarrierLink | None:
        """Return the open link; None: not now."""
        if self._closed:
            return None
        broker = self._s.leaders.view.brokers.get(self.broker_id)
        if broker is None:
            self._s.leaders.refresh()
            self._opener.throttle()
            return None
        if not self.connected and self._s.leaders.nobody_answers:
            return None
        return self._opener.open(broker, idle=not (self._in_flight or self.in_flight))

    def _cannot_connect(self, lost: LinkLost, began: float) -> None:
        if self._closed:
            return
        self._begin_outage(lost, "retrying until it answers or others lead its partitions", began)
        self._s.batches.sweep()
        self._s.leaders.refresh()
        self._s.completed()

    def _begin_outage(self, lost: LinkLost, then: str, since: float) -> None:
        broker = self._s.leaders.view.brokers.get(self.broker_id)
        what = str(broker) if broker is not None else f"broker {self.broker_id}"
        self._s.outages.begin(self.broker_id, what, str(lost), then, since)

    def _reached_again(self, broker: Broker) -> None:
        """End an outage if nothing waits to be sent; otherwise only a response ends it, since a hanging broker accepts
        connections, too."""
        if self.idle:
            self._s.outages.over(self.broker_id, "is reached again", now())

    @property
    def wanted(self) -> bool:
        """True if it has a batch to send, or a request in flight."""
        return not self.idle or (self._kept_open and not self.connected)

    @property
    def idle(self) -> bool:
        """True if nothing is in flight and nothing waits to be sent."""
        return not (self._in_flight or self.in_flight) and self._s.batches.next_due(self._mine, None) is None

    def _barrier_link(self, link: Link) -> BarrierLink:
        dialect = self._s.dialect
        confirm = self._s.config.confirm != NO_CONFIRM
        return BarrierLink(link, lambda tp: dialect.requests.barrier(dialect, tp), confirm)

    def _replaced(self, link: Link | BarrierLink) -> None:
        """Count the unconfirmed messages of a link that was replaced without being lost."""
        self._count_unconfirmed(link, LinkLost(f"{link.broker}: the connection was replaced"))

    def _count_unconfirmed(self, link: Link | BarrierLink, lost: LinkLost) -> int:
        count = link.lose() if isinstance(link, BarrierLink) else 0
        if count:
            self._s.outcomes.maybe_lost(count, lost)
        return count

    def _lost(self, link: Link | BarrierLink, lost: LinkLost) -> None:
        """Handle a broken connection: all batches in flight return to their queues."""
        self._opener.lost(link)
        gone = [sent for sent in self._in_flight if sent.link is link]
        proven = isinstance(link, BarrierLink) and link.proven
        unconfirmed = self._count_unconfirmed(link, lost)
        if not (gone or unconfirmed) or self._closed:
            self._s.completed()
            return  # after close() nothing is sent again; the caller of close() counts what is left
        self._in_flight = deque(sent for sent in self._in_flight if sent.link is not link)
        if gone:
            then = "messages in flight are sent again and may be stored twice"
            if link.closed_here:
                self._s.outages.closed(str(lost), then)
            else:
                self._begin_outage(lost, then, gone[0].sent_at)
        for sent in gone:
            # The broker closed a proven link because of its oldest request.
            refused = proven and not unconfirmed and sent is gone[0]
            outcome = self._s.outcomes.maybe_refused if refused else self._s.outcomes.lost
            for batch in sent.batches:
                outcome(batch, lost, now())
        self._s.leaders.refresh()
        self._s.completed()

    def _pause(self) -> float | None:
        """Wait until a batch is due or the task is woken: return the seconds; None: only an event can make one due."""
        if self._full():
            return None  # a response, or the end of the connection, wakes us
        if not self.connected and self._s.leaders.nobody_answers:
            return None  # the refresh that finds one wakes us
        due = self._s.batches.next_due(self._mine, self._alone())
        if due is None and self._kept_open and not self.connected:
            due = self._opener.next_connect
        if due is None:
            return None
        if not self.connected:
            due = max(due, self._opener.next_connect)
        return max(0.001, due - now())

    def __repr__(self) -> str:
        return f"<BrokerConnection {self.number} to broker {self.broker_id}, {self.in_flight} in flight>"


def _produce(link: Link | BarrierLink, request: Request[Any], tp: TopicPartition) -> bool:
    """Send a produce request; return True if it gets a response.  Raises LinkLost."""
    if isinstance(link, BarrierLink):
        return link.produce(request, tp)
    link.send(request)
    return request.expects_reply


class Opener:
    """Opener of a connection's link: connects when needed, at most once per reconnect.backoff.ms, and replaces old
    links.

    wrap: wraps an open link.  refused(lost, began): called when connecting failed, with when it began.  back(broker):
    called when connecting succeeded after failures.  replaced(link): called when a link that was not lost is not used
    any more.
    """

    def __init__(
        self,
        links: Links,
        config: ProducerConfig,
        *,
        wrap: Callable[[Link], BarrierLink] | None,
        refused: Callable[[LinkLost, float], object],
        back: Callable[[Broker], object],
        replaced: Callable[[Link | BarrierLink], object],
    ) -> None:
        self.link: Link | BarrierLink | None = None  # the open link
        self.sends = 0  # requests sent over it
        self.next_connect = 0.0
        self._links, self._config = links, config
        self._wrap, self._refused, self._back, self._replaced = wrap, refused, back, replaced
        self._answered = wrap is None and config.acks != 0
        self._raw: Link | None = None  # self.link, or the link inside it
        self._opening: Link | None = None  # the one being opened
        self._opened_at = 0.0
        self._unreachable = False
        self._rng = random.Random()

    @property
    def connected(self) -> bool:
        return self.link is not None and self.link.broken is None

    @property
    def begun(self) -> Link | BarrierLink | None:
        """Return the link that is open or being opened."""
        return self.link or self._opening

    def open(self, broker: Broker, idle: bool) -> Link | BarrierLink | None:
        """Return the open link; None: not now.  idle: no response is outstanding on it."""
        if idle and self._worn():
            self._links.drop(broker, PURPOSE)
            self._use(None)
            self.next_connect = 0.0
        link = self._links.link(broker, PURPOSE)
        if link is self._raw:
            return self.link
        if idle:
            self._use(None)  # stale, or closed while nothing was in flight: not an outage
        if now() < self.next_connect:
            return None
        self.throttle()
        link.aborts_at_exit = self._answered  # a request left by a dead process would arrive after its next start
        self._opening = link
        began = now()
        try:
            link.open()
        except LinkLost as lost:
            self._refused(lost, began)
            self._unreachable = True
            return None
        finally:
            self._opening = None
        if self._unreachable:
            self._back(broker)
        self._unreachable = False
        self._use(link)
        return self.link

    def _use(self, link: Link | None) -> None:
        if self.link is not None:
            self._replaced(self.link)
        self._raw, self.link = link, link if link is None or self._wrap is None else self._wrap(link)
        self.sends, self._opened_at = 0, now()

    def throttle(self) -> None:
        """Delay the next connect by reconnect.backoff.ms, with jitter."""
        self.next_connect = now() + self._config.reconnect_ms / 1000 * self._rng.uniform(1.0, 1.3)

    def lost(self, link: Link | BarrierLink) -> None:
        """Forget a broken link."""
        link.close()
        if self.link is link:
            self.link = self._raw = None

    def drop(self, broker: Broker) -> None:
        self._links.drop(broker, PURPOSE)

    def _worn(self) -> bool:
        """True if the link is to be replaced, so that a load balancer may choose another broker."""
        if self.link is None:
            return False
        by_sends = 0 < self._config.reconnect_sends <= self.sends
        return by_sends or 0 < self._config.reconnect_time_ms <= (now() - self._opened_at) * 1000
