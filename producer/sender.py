"""Parts to their target partitions, and back to their tickets: what a mirror and a plain producer both end in.

    submit      never waits; memory is bounded by who holds the tickets
    flush       until nothing is pending
    drop        what became unwanted (a partition was released, or parked)
    close_links the fence: nothing that was sent before can be acknowledged after; what may still be sent is sent anew

At least once: a batch whose outcome nobody knows is sent again.  In order: per partition, across retries.  Everything
here belongs to one hub; `connect` must be that hub's.
"""

from __future__ import annotations

from collections.abc import Callable

from groundwork.crew import Crew, Event, connect, now
from kafkawire.cluster.view import ClusterView
from kafkawire.model import Part, Ticket, TopicPartition
from kafkawire.net.link import Connect
from kafkawire.net.links import Links
from producer.batches import Batches, Limits
from producer.config import ProducerConfig
from producer.connection import BrokerConnection, Shared
from producer.leaders import Leaders, Metadata
from producer.outages import CLUSTER, Events, Outages
from producer.outcomes import Counters, Outcomes, Patience

SIGN_OF_LIFE_S = 1.0  # at the end, for brokers that never answer


def nothing(level: int, sentence: str) -> None:
    """Events nobody wants to hear of."""


class Sender:
    """metadata must be this sender's own.  by_name: leaders are looked up by the names of the topics submitted (and may
    be created by that); else all topics are read.  events gets a level of `logging` and a sentence each time the state
    of something changes: a warning where that is an outage.  created: see Outcomes.
    live: which brokers there are, where somebody knows: then each of them has its connection, and no other.

    Tickets are told from the greenlets of `crew`; they must neither wait nor raise.
    """

    def __init__(
        self,
        metadata: Metadata,
        config: ProducerConfig,
        crew: Crew,
        *,
        connect: Connect = connect,
        events: Events = nothing,
        by_name: bool = False,
        live: Callable[[], frozenset[int]] | None = None,
        created: Callable[[str], bool] = lambda topic: False,
    ) -> None:
        dialect = metadata.dialect
        self._config = config
        self._crew = crew
        self._batches = Batches(Limits.of(config, dialect))
        outcomes = Outcomes(self._batches, Patience.of(config), dialect.messages, events, created=created)
        outages = Outages(events)
        self.leaders = Leaders(
            metadata,
            by_name=by_name,
            refresh_ms=config.refresh_ms,
            backoff_ms=config.retry_backoff_ms,
            after_look=self._after_look,
            outages=outages,
            idle=live is not None,
        )
        links = Links(config.client_id, connect, config.answer_timeout_ms)
        self._s = Shared(
            dialect=dialect,
            config=config,
            batches=self._batches,
            outcomes=outcomes,
            leaders=self.leaders,
            links=links,
            outages=outages,
            settled=self._settled,
        )
        self._connections: dict[int, BrokerConnection] = {}
        self._live = live
        self.looked: Callable[[], object] = lambda: None  # called after each look at the leaders
        self._empty = Event()
        self._empty.set()
        self._moved = Event()
        self._started = self._closed = False

    @property
    def counters(self) -> Counters:
        return self._s.outcomes.counters

    @property
    def bytes_pending(self) -> int:
        """Bytes of entries submitted and not yet settled, those in flight included."""
        return self._batches.bytes_pending

    @property
    def bytes_in_flight(self) -> int:
        return self._batches.bytes_in_flight

    @property
    def dropped(self) -> int:
        """Parts that were not sent because their ticket said no, or drop() took them."""
        return self._batches.dropped

    @property
    def in_flight(self) -> int:
        """Requests that wait for an answer."""
        return sum(connection.in_flight for connection in self._connections.values())

    def start(self) -> None:
        """Start the greenlet that looks up leaders; submit() does it when need be."""
        if not self._started and not self._closed:
            self._started = True
            self._crew.spawn("leaders", self.leaders.run)
            if self._live is not None:
                self.leaders.ask()

    def submit(self, part: Part, ticket: Ticket) -> None:
        """Have a part sent behind all others of its partition.  Never waits.  After close() nothing is sent."""
        if self._closed:
            self._batches.dropped += 1
            return
        self.start()
        self._empty.clear()
        self._batches.add(part, ticket, now())
        partition = self.leaders.view.topics.get(part.tp.topic, {}).get(part.tp.partition)
        if partition is None or partition.leader is None or not self._lives(partition.leader):
            self.leaders.need(part.tp.topic)
            self.leaders.ask()
        else:
            self._connection(partition.leader).wake.set()

    def flush(self, timeout_s: float) -> bool:
        """Send without waiting for company, until nothing is pending; False: not within the time."""
        self._batches.hurry(now())
        self._wake_all()
        self._settled()
        return bool(self._empty.wait(timeout_s))

    def proven(self, timeout_s: float) -> bool:
        """Until each broker that never answers has shown a sign of life after all that was sent to it, or its link is
        over and what may be lost is counted; False: not within the time."""
        until = now() + timeout_s
        while any(connection.unconfirmed for connection in self._connections.values()):
            self._moved.clear()
            if now() >= until:
                return False
            self._moved.wait(until - now())
        return True

    def drop(self, unwanted: Callable[[Part, Ticket], bool]) -> int:
        """Forget the parts that are unwanted, and tell how many; their tickets are told nothing.

        Those in flight may still be stored, which their tickets hear of, but are not sent again.
        """
        count = self._batches.drop(unwanted)
        self._settled()
        return count

    def waiting(self) -> list[TopicPartition]:
        """Partitions that something waits for, with nothing of it in flight."""
        return list(self._batches.waiting())

    def move(self, old: TopicPartition, new: TopicPartition, chosen: Callable[[Ticket], bool]) -> list[Ticket]:
        """What waits for one partition is sent to another instead, where its ticket is chosen; their tickets."""
        moved = self._batches.move(old, new, chosen)
        self._wake_all()
        return moved

    def close_links(self) -> None:
        """Break every connection at once: what is in flight has an unknown outcome, and goes again if it may."""
        self._s.links.close()

    def close(self, timeout_s: float) -> int:
        """Flush within the time, then end; how many parts are left.  Their tickets are told nothing."""
        self.flush(timeout_s)
        self.proven(SIGN_OF_LIFE_S)
        self._closed = True
        self.leaders.close()
        for connection in self._connections.values():
            connection.close()
        self.close_links()
        return len(self._batches.submitted())

    @property
    def pool(self) -> dict[int, bool]:
        """Brokers that have a connection, and whether it is connected."""
        return {broker: connection.connected for broker, connection in self._connections.items()}

    @property
    def outage(self) -> str:
        """The brokers that are out of reach and waited for, why, and since when; "": none."""
        return self._s.outages.summary(now())

    def _lives(self, broker_id: int) -> bool:
        """As far as anybody knows."""
        return self._live is None or broker_id in self._live()

    def _fit_pool(self, live: frozenset[int]) -> None:
        """A connection for each live broker; what was on its way to one that left is sent again, elsewhere."""
        for broker in [broker for broker in self._connections if broker not in live]:
            self._connections.pop(broker).leave(f"broker {broker} has left the cluster")
        for broker in live:
            self._connection(broker).keep_open()

    def _connection(self, broker_id: int) -> BrokerConnection:
        connection = self._connections.get(broker_id)
        if connection is None:
            connection = self._connections[broker_id] = BrokerConnection(broker_id, self._s)
            self._crew.spawn(f"sender-{broker_id}", connection.run_sending)
            self._crew.spawn(f"acks-{broker_id}", connection.run_receiving)
        return connection

    def _after_look(self, old: ClusterView) -> None:
        """A look at the leaders is over: send on to those that are new, give up what has waited too long."""
        if self._closed:
            return
        view = self.leaders.view
        live = self._live() if self._live is not None and self.leaders.failure is None else None
        if live is not None:
            self._fit_pool(live)
        self.looked()  # nothing is in flight any more to a broker that has left
        for tp in list(self._batches.waiting()):
            leader = view.leader(tp)
            if leader is not None and self._lives(leader.id):
                self._connection(leader.id).wake.set()
        if self._s.outcomes.hopeless(view, now(), self.leaders.failure is None):
            self.leaders.ask()
        if self._s.outages:
            self._end_outages()
        self._settled()

    def _end_outages(self) -> None:
        """Of brokers that nothing waits for any more: others lead what they led."""
        for broker_id in self._s.outages:
            connection = self._connections.get(broker_id)
            wanted = connection is not None and connection.wanted
            if broker_id != CLUSTER and not wanted and broker_id not in self._leading():
                self._s.outages.over(broker_id, "is waited for by nothing any more", now())

    def _leading(self) -> set[int]:
        """Brokers that lead what waits."""
        return {leader.id for tp in self._batches.waiting() if (leader := self.leaders.view.leader(tp)) is not None}

    def _settled(self) -> None:
        """Something is over: others may go, or all of it is done."""
        self._moved.set()
        if self._batches:
            self._wake_all()
        else:
            self._empty.set()

    def _wake_all(self) -> None:
        for connection in self._connections.values():
            connection.wake.set()
