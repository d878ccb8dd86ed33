"""Sender of parts to target partitions, which calls their tickets; used by mirrors and producers.

    submit      queues a part without waiting; the owner of the tickets bounds the memory
    flush       waits until nothing is pending
    drop        drops unwanted parts (of a revoked or parked partition)
    close_links the fence: no earlier request is acknowledged after it; parts that may still be sent are sent again

Delivery is at least once: a batch with an unknown outcome is sent again.  The order within a partition is kept across
retries.  Everything here runs in one event loop; `connect` must belong to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from groundwork.tasks import Event, TaskGroup, connect, now
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.model import Part, Ticket, TopicPartition
from kafkawire.net.link import Connect
from kafkawire.net.links import Links, Pins
from producer.batches import Batches
from producer.config import ProducerConfig
from producer.connection import BrokerConnection, Shared
from producer.outages import CLUSTER, Events, Outages, Reports
from producer.outcomes import Counters, Outcomes
from producer.producerids import ProducerIds
from producer.sequences import Sequences
from producer.targetleaders import Leaders, Metadata

CONFIRM_S = 1.0  # how long close() waits for barriers of 0.7 brokers


def ignore(level: int, sentence: str) -> None:
    """Ignore events."""


class Sender:
    """Sender with num.producer.connections connections per broker; one per 0.7 broker, because a barrier confirms only
    the messages of its own connection.

    metadata: a source used by this sender alone.  by_name: read metadata by the names of the submitted topics (which
    may create them); else of all topics.  events: called with a level of `logging` and a message when a state changes;
    outages are warnings.  created: see Outcomes.  live: returns the ids of live brokers, when ZooKeeper is the source:
    then each of these, and no other broker, has connections.  reports: shared by several senders to one cluster, whose
    outages are then reported once.  versions: of the cluster, requested by its connections; None: they are configured.
    sequences: numbers of a transaction, whose owner renews them; else the sender numbers its batches itself if the
    configuration and the brokers allow it (enable.idempotence).

    Tickets are called from the greenlets of `tasks`; they must neither wait nor raise.
    """

    def __init__(
        self,
        metadata: Metadata,
        config: ProducerConfig,
        tasks: TaskGroup,
        *,
        connect: Connect = connect,
        events: Events = ignore,
        by_name: bool = False,
        live: Callable[[], frozenset[int]] | None = None,
        created: Callable[[str], bool] = lambda topic: False,
        reports: Reports | None = None,
        versions: ClusterVersions | None = None,
        sequences: Sequences | None = None,
        transactional_id: str | None = None,
    ) -> None:
        dialect = metadata.dialect
        own = sequences is None and config.numbers_batches
        if own:
            sequences = Sequences(
                lambda: self._ids.want() if self._ids is not None else None, clock_ms=lambda: int(time.time() * 1000)
            )
        self._config = config
        self._tasks = tasks
        self._batches = Batches(config.limits(dialect))
        outcomes = Outcomes(
            self._batches,
            config.patience,
            dialect.messages,
            events,
            created=created,
            reports=reports,
            sequences=sequences,
        )
        outages = Outages(events, reports)
        self.leaders = Leaders(
            metadata,
            by_name=by_name,
            refresh_ms=config.refresh_ms,
            backoff_ms=config.retry_backoff_ms,
            after_refresh=self._after_refresh,
            outages=outages,
            waiting=self._waiting_topics,
            idle=live is not None,
        )
        connect = config.kafka_security.connect(connect)
        if versions is not None:
            connect = versions.connect(connect)
        links = Links(config.client_id, connect, config.response_timeout_ms)
        self._ids: ProducerIds | None = None
        if own and sequences is not None:
            self._ids = ProducerIds(
                sequences,
                links,
                dialect,
                view=lambda: self.leaders.view,
                required=bool(config.idempotence),
                events=events,
                renewed=self.wake,
            )
        self._s = Shared(
            dialect=dialect,
            config=config,
            batches=self._batches,
            outcomes=outcomes,
            leaders=self.leaders,
            links=links,
            pins=Pins(config.connections if dialect.answers_produce else 1),
            outages=outages,
            completed=self._completed,
            sequences=sequences,
            transactional_id=transactional_id,
        )
        self._connections: dict[tuple[int, int], BrokerConnection] = {}  # by broker id and number
        self._live = live
        self.on_refresh: Callable[[], object] = lambda: None  # called after each refresh of metadata
        self._empty = Event()
        self._empty.set()
        self._progress = Event()
        self._started = self._closed = False

    @property
    def counters(self) -> Counters:
        return self._s.outcomes.counters

    @property
    def bytes_pending(self) -> int:
        """Return the bytes of submitted entries that are not completed, including those in flight."""
        return self._batches.bytes_pending

    @property
    def bytes_in_flight(self) -> int:
        return self._batches.bytes_in_flight

    @property
    def dropped(self) -> int:
        """Return the number of parts that were not sent because their ticket refused them, or drop() removed them."""
        return self._batches.dropped

    @property
    def in_flight(self) -> int:
        """Return the number of requests that wait for a response."""
        return sum(connection.in_flight for connection in self._connections.values())

    def start(self) -> None:
        """Start the greenlet that refreshes metadata, which submit() would do, too."""
        if not self._started and not self._closed:
            self._started = True
            self._tasks.spawn("leaders", self.leaders.run)
            if self._ids is not None:
                self._tasks.spawn("producer-ids", self._ids.run)
            if self._live is not None:
                self.leaders.refresh()

    def submit(self, part: Part, ticket: Ticket) -> None:
        """Queue a part after all others of its partition, without waiting.  After close() nothing is sent."""
        if self._closed:
            self._batches.dropped += 1
            return
        self.start()
        self._empty.clear()
        self._batches.add(part, ticket, now())
        partition = self.leaders.view.topics.get(part.tp.topic, {}).get(part.tp.partition)
        if partition is None or partition.leader is None or not self._is_live(partition.leader):
            self.leaders.need(part.tp.topic)
            self.leaders.refresh()
        else:
            self._connection_of(part.tp, partition.leader).wake.set()

    def flush(self, timeout_s: float) -> bool:
        """Send without lingering, and wait until nothing is pending; False after timeout_s."""
        self._batches.flush(now())
        self._wake_all()
        self._completed()
        return bool(self._empty.wait(timeout_s))

    def wait_confirmed(self, timeout_s: float) -> bool:
        """Wait until each broker that never answers (0.7) has answered a barrier after all requests, or its connection
        is lost and the messages that may be lost are counted.  Return False after timeout_s."""
        until = now() + timeout_s
        while any(connection.unconfirmed for connection in self._connections.values()):
            self._progress.clear()
            if now() >= until:
                return False
            self._progress.wait(until - now())
        return True

    def drop(self, unwanted: Callable[[Part, Ticket], bool]) -> int:
        """Drop the unwanted parts without calling their tickets, and return their number.

        Parts in flight may still be stored, with their tickets called, but are not sent again.
        """
        count = self._batches.drop(unwanted)
        self._completed()
        return count

    def pending(self, topic: str) -> bool:
        """True if any part for a topic is not completed."""
        return any(piece.part.tp.topic == topic for piece in self._batches.submitted())

    def waiting(self) -> list[TopicPartition]:
        """Return the partitions with queued parts and nothing in flight."""
        return list(self._batches.waiting())

    def move(self, old: TopicPartition, new: TopicPartition, chosen: Callable[[Ticket], bool]) -> list[Ticket]:
        """Move the queued parts with a chosen ticket from one partition to another, and return the tickets."""
        moved = self._batches.move(old, new, chosen)
        self._wake_all()
        return moved

    def wake(self) -> None:
        """Check again what may be sent, after new numbers or more partitions in the transaction."""
        self._wake_all()

    def close_links(self) -> None:
        """Close every connection at once: requests in flight have an unknown outcome, and are sent again if allowed."""
        self._s.links.close()

    def close(self, timeout_s: float) -> int:
        """Flush within timeout_s, then end; return the number of parts left, whose tickets are not called."""
        self.flush(timeout_s)
        self.wait_confirmed(CONFIRM_S)
        self._closed = True
        self.leaders.close()
        if self._ids is not None:
            self._ids.close()
        for connection in self._connections.values():
            connection.close()
        self.close_links()
        return len(self._batches.submitted())

    @property
    def pool(self) -> dict[int, bool]:
        """Return the brokers with a connection, and whether one is connected."""
        return {broker: open_links > 0 for broker, open_links in self.connections.items()}

    @property
    def connections(self) -> dict[int, int]:
        """Return the number of open connections of each broker that has, or needs, one."""
        counts: dict[int, int] = {}
        for (broker, _), connection in self._connections.items():
            counts[broker] = counts.get(broker, 0) + connection.connected
        return counts

    @property
    def connections_max(self) -> int:
        """Return the maximum number of connections to each broker: num.producer.connections, 1 to Kafka 0.7."""
        return self._s.pins.lanes

    @property
    def outage(self) -> str:
        """Return the outages of brokers that parts wait for, with reason and time; "": none."""
        return self._s.outages.summary(now())

    def _waiting_topics(self) -> set[str]:
        """Return the topics with parts that are not completed."""
        return {tp.topic for tps in (self._batches.waiting(), self._batches.in_flight()) for tp in tps}

    def _is_live(self, broker_id: int) -> bool:
        """True if the broker is live, as far as is known."""
        return self._live is None or broker_id in self._live()

    def _connect_live(self, live: frozenset[int]) -> None:
        """Make a connection for each live broker; requests in flight to one that left are sent again elsewhere."""
        for key in [key for key in self._connections if key[0] not in live]:
            self._connections.pop(key).broker_left(f"broker {key[0]} has left the cluster")
        for broker in live:
            self._connection(broker).keep_open()

    def _connection(self, broker_id: int, number: int = 0) -> BrokerConnection:
        connection = self._connections.get((broker_id, number))
        if connection is None:
            connection = self._connections[broker_id, number] = BrokerConnection(broker_id, self._s, number)
            named = f"{broker_id}-{number}" if number else f"{broker_id}"
            self._tasks.spawn(f"sender-{named}", connection.run_sending)
            self._tasks.spawn(f"acks-{named}", connection.run_receiving)
        return connection

    def _connection_of(self, tp: TopicPartition, leader: int) -> BrokerConnection:
        return self._connection(leader, self._s.pins.lane(tp, leader))

    def _after_refresh(self, old: ClusterView) -> None:
        """Called after a refresh of metadata: send to new leaders, and fail parts that have waited too long."""
        if self._closed:
            return
        self._batches.limits = self._config.limits(self._s.dialect)  # the brokers' release may have changed
        view = self.leaders.view
        if self.leaders.nobody_answers:
            self._batches.sweep()  # as after a refused connection: no connection is tried meanwhile
        live = self._live() if self._live is not None and self.leaders.failure is None else None
        if live is not None:
            self._connect_live(live)
        self.on_refresh()  # nothing is in flight to a broker that has left
        left = False  # a leader has left, and no other was chosen yet
        for tp in list(self._batches.waiting()):
            leader = view.leader(tp)
            if leader is None:
                continue
            if self._is_live(leader.id):
                self._connection_of(tp, leader.id).wake.set()
            else:
                left = True
        waits = self._s.outcomes.expire(view, now(), self.leaders.failure is None) or left
        # A broker that has just started accepts messages before its metadata names a leader.  Once those are answered,
        # nothing would request the leader of the parts queued after them.
        if waits or any(view.leader(tp) is None for tp in self._batches.in_flight()):
            self.leaders.refresh()
        if self._s.outages:
            self._end_outages()
        self._completed()

    def _end_outages(self) -> None:
        """End the outages of brokers that nothing waits for any more, because others lead their partitions."""
        for broker_id in self._s.outages:
            wanted = any(each.wanted for each in self._connections.values() if each.broker_id == broker_id)
            if broker_id != CLUSTER and not wanted and broker_id not in self._leading():
                self._s.outages.over(broker_id, "is no longer needed", now())

    def _leading(self) -> set[int]:
        """Return the brokers that lead partitions with waiting parts."""
        return {leader.id for tp in self._batches.waiting() if (leader := self.leaders.view.leader(tp)) is not None}

    def _completed(self) -> None:
        """Called when a batch is completed: others may be sent, or nothing is pending."""
        self._progress.set()
        if self._batches:
            self._wake_all()
        else:
            self._empty.set()

    def _wake_all(self) -> None:
        for connection in self._connections.values():
            connection.wake.set()
