"""The producer's side in the hub: turns buckets into parts, gives them to the sender, waits for what callers wait for.

Made by the producer's thread; everything in here runs in the hub, from start() on.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from groundwork.crew import Crew, Event, connect, now, sleep
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import ENTRY_OVERHEAD, Dialect
from kafkawire.errors import BrokerError
from kafkawire.model import Ticket, TopicPartition
from kafkawire.net.links import Links
from producer.accumulator import Buckets, Route
from producer.batches import largest_entry
from producer.config import ProducerConfig
from producer.delivery import Bucket, Called, Verdict
from producer.errors import Closed, Undeliverable
from producer.leaders import source_of
from producer.metrics import Sizes
from producer.outcomes import NEVER, Counters
from producer.rows import codec_of, limit_of, parts
from producer.sender import SIGN_OF_LIFE_S, Sender

if TYPE_CHECKING:
    from producer.zookeeper import ZookeeperSource

log = logging.getLogger(__name__)

BEING_CREATED = 5  # LeaderNotAvailable, which is also what naming a missing topic gets while it is created
STEP_S = 0.25  # how often a wait looks whether the crew is dead
UNBOUNDED = 1 << 62


class Feeder:
    """call(what) has listeners called, outside the hub's own greenlets.  Waits raise the crew's death, if any."""

    def __init__(
        self, config: ProducerConfig, dialect: Dialect, buckets: Buckets, call: Callable[[Called], None]
    ) -> None:
        self._config = config
        self._dialect = dialect
        self._buckets = buckets
        self._call = call
        self._tickets: set[_Ticket] = set()
        self._view: ClusterView | None = None  # the one that routes were made from
        self._largest = largest_entry(config.message_max_bytes, dialect)
        self.sizes = Sizes()
        self.counters: Counters | None = None  # what the sender did, for any thread; None: not started

    def start(self) -> None:
        config = self._config
        self._crew = Crew(on_death=self._died)
        self._armed = Event()
        self._room = Event()
        self._links = Links(config.client_id, connect, config.request_timeout_ms)
        source = source_of(config, self._dialect, self._links)
        self._zookeeper = cast("ZookeeperSource", source) if config.zookeeper_connect else None
        live = None if self._zookeeper is None else self._live
        quick = replace(config, linger_ms=0)  # messages waited for company in their buckets
        self._sender = Sender(source, quick, self._crew, events=log.log, by_name=True, live=live)
        if self._zookeeper is not None:
            self._zookeeper.changed = self._sender.leaders.ask
        self._sender.looked = self._reroute
        self.counters = self._sender.counters
        self._sender.start()
        self._crew.spawn("linger", self._linger)

    def _live(self) -> frozenset[int]:
        assert self._zookeeper is not None
        return self._zookeeper.brokers

    @property
    def pool(self) -> dict[int, bool]:
        """Brokers that there is a way to, and whether it is connected."""
        return self._sender.pool

    # ---- rounds ----------------------------------------------------------------------------------------------------

    def begin_round(self) -> None:
        """The first message of a round is in its bucket."""
        self._armed.set()

    def _linger(self) -> None:
        """Some time after the first message of a round, all buckets go."""
        while True:
            self._armed.wait()
            sleep(self._config.linger_ms / 1000)
            self._armed.clear()
            self.drain()

    def drain(self) -> None:
        """All buckets to the sender.  Nothing in here waits, so that rounds cannot overtake each other."""
        for bucket in self._buckets.take():
            self._submit(bucket)

    def _reroute(self) -> None:
        """The cluster was looked at: what is put from now on goes by that."""
        view = self._sender.leaders.view
        if view is not self._view:
            self._view = view
            for route in self._buckets.routes():
                if view.topics.get(route.topic):
                    self._buckets.set_route(self._route(route.topic, view))
            if self._dialect.partitions_by_broker:
                self._rehome(view)

    def _rehome(self, view: ClusterView) -> None:
        """Messages without a key, on their way to a partition that went with its broker, go to another one."""
        for tp in self._sender.waiting():
            there = view.topics.get(tp.topic, {})
            led = [partition for partition, seen in there.items() if seen.leader is not None]
            if led and tp.partition not in there:
                new = TopicPartition(tp.topic, random.choice(led))
                for ticket in self._sender.move(tp, new, _is_free):
                    cast(_Ticket, ticket).tp = new

    def _submit(self, bucket: Bucket) -> None:
        config, tp = self._config, bucket.tp
        codec = codec_of(config, tp.topic)
        limit = limit_of(self._dialect, codec, config.batch_bytes, self._largest)
        rows, sizes = bucket.rows, bucket.sizes
        at = 0
        for part in parts(tp, rows, self._dialect, codec, limit, sizes):
            end = at + part.count
            mine = sizes[at:end]
            ticket = _Ticket(self, bucket, begin=at, end=end, size=sum(mine))
            self._tickets.add(ticket)
            self._sender.submit(part, ticket)
            self.sizes.note(tp.topic, mine, len(part.entries) if codec else 0)
            at = end

    # ---- where messages go -----------------------------------------------------------------------------------------

    def need(self, topic: str) -> None:
        """Have its partitions looked up, unless they are known; by name, which may create the topic."""
        self._sender.leaders.need(topic)

    def until_known(self, topic: str) -> Route:
        """The route of a topic; asking for it by name may create it.  Raises why there is none."""
        leaders = self._sender.leaders
        deadline = now() + self._config.delivery_timeout_ms / 1000
        tries = 0
        while topic not in leaders.view.topics:
            leaders.need(topic)
            leaders.ask()
            looked = leaders.wait_look(max(0.0, min(STEP_S, deadline - now())))
            self._alive()
            code = leaders.view.errors.get(topic, 0) if leaders.failure is None else 0
            tries += looked and code != BEING_CREATED
            if code in NEVER or (code and now() >= deadline) or (code and self._tried(tries)):
                raise BrokerError(code, f"topic {topic}")
            if leaders.failure is not None and self._tried(tries):
                raise leaders.failure
            if now() >= deadline and self._config.retries >= 0:
                raise Undeliverable(f"topic {topic} has no partitions after {self._config.delivery_timeout_ms} ms")
        return self._buckets.set_route(self._route(topic, leaders.view))

    def _route(self, topic: str, view: ClusterView) -> Route:
        ids = view.partitions(topic)
        led = [partition for partition in ids if view.topics[topic][partition].leader is not None]
        most = UNBOUNDED if codec_of(self._config, topic) else self._largest
        overhead = ENTRY_OVERHEAD[self._dialect.magic]
        return Route(topic=topic, ids=ids, led=led or ids, overhead=overhead, most=most, buckets={})

    def _tried(self, tries: int) -> bool:
        return 0 <= self._config.retries < tries

    # ---- waiting, and the end --------------------------------------------------------------------------------------

    def wait_room(self, timeout_s: float | None) -> None:
        """Until something is settled, STEP_S at most; back at once when there is room."""
        self._alive()
        self.drain()
        self._room.clear()
        if not self._buckets.has_room():
            self._room.wait(STEP_S if timeout_s is None else min(timeout_s, STEP_S))

    def flush(self, timeout_s: float) -> int:
        """Messages that are still not settled when the time is over."""
        deadline = now() + timeout_s
        self.drain()
        while not self._sender.flush(max(0.0, min(STEP_S, deadline - now()))):
            self._alive()
            if now() >= deadline:
                return self._buckets.counts.pending
        self._sender.proven(max(0.0, min(SIGN_OF_LIFE_S, deadline - now())))
        self._alive()
        return 0

    def end(self, timeout_s: float) -> int:
        """Flush within the time, then end all of it; messages that are left, whose deliveries fail then."""
        left = 0
        try:
            left = self.flush(timeout_s)
        finally:
            self._sender.close(0.0)
            if self._zookeeper is not None:
                self._zookeeper.close()
            self._links.end()
            self._fail_all(
                Closed(f"not acknowledged within {timeout_s:g} s when the producer was closed: it may be stored")
            )
            self._crew.stop(1.0)
        return left

    def settled(self, ticket: _Ticket, verdict: Verdict) -> None:
        """Of a ticket: some of its messages are over."""
        called = self._buckets.settle(ticket.bucket, verdict)
        if called:
            self._call(called)
        if ticket.at == ticket.end:
            self._tickets.discard(ticket)
            self._buckets.freed(ticket.size)
            self._room.set()

    def _died(self, name: str, exc: BaseException) -> None:
        reason = Closed(f"the producer ended by itself: {name}: {type(exc).__name__}: {exc}")
        self._fail_all(reason)

    def _fail_all(self, reason: Exception) -> None:
        """Whatever is not settled fails: nobody waits for ever."""
        self._buckets.close(reason)
        for ticket in list(self._tickets):
            ticket.failed(reason, None)
        for bucket in self._buckets.take():
            called = self._buckets.settle(bucket, Verdict(0, len(bucket.rows), None, reason))
            self._buckets.freed(bucket.size)
            self._call(called)

    def _alive(self) -> None:
        if self._crew.death is not None:
            raise self._crew.death


def _is_free(ticket: Ticket) -> bool:
    return isinstance(ticket, _Ticket) and ticket.bucket.free


class _Ticket:
    """Of one part: the messages begin to end of a bucket, settled in this order.

    A message of it that is too large is left out, and its neighbours go on.
    """

    __slots__ = ("_feeder", "at", "bucket", "end", "size", "tp")

    def __init__(self, feeder: Feeder, bucket: Bucket, *, begin: int, end: int, size: int) -> None:
        self._feeder, self.bucket, self.at, self.end, self.size = feeder, bucket, begin, end, size
        self.tp: TopicPartition | None = None  # another one than its bucket's

    def may_send(self) -> bool:
        return True

    def reached(self, resume_at: int) -> None:
        raise AssertionError(f"a part without source positions cannot have reached {resume_at}")

    def stored(self, count: int, offset: int | None, sure: bool) -> None:
        self._settle(count, offset, None, sure)

    def skipped(self, reason: Exception) -> None:
        self._settle(1, None, reason)

    def done(self) -> None:
        """All of it was told by stored() and skipped()."""

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        self._settle(self.end - self.at, None, reason)

    def _settle(self, count: int, offset: int | None, error: Exception | None, sure: bool = True) -> None:
        begin, self.at = self.at, min(self.at + count, self.end)
        if begin < self.at:
            self._feeder.settled(self, Verdict(begin, self.at, offset, error, sure, self.tp))
