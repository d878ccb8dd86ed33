"""Dispatcher: the producer's part in the event loop, which drains the accumulator into the sender.

It is created in the producer's thread; after start() everything here runs in the event loop.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from groundwork.tasks import Event, TaskGroup, connect, now, sleep
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import ENTRY_OVERHEAD
from kafkawire.errors import BrokerError, LocalError
from kafkawire.model import Ticket, TopicPartition
from kafkawire.net.links import Links
from producer.accumulator import Accumulator, TopicInfo
from producer.batches import largest_entry
from producer.config import ProducerConfig
from producer.delivery import Bucket, Calls, Completion
from producer.errors import Closed, Undeliverable
from producer.metrics import Sizes
from producer.outcomes import NEVER, Counters
from producer.rows import limit_of, parts_of_lists
from producer.sender import CONFIRM_S, Sender
from producer.targetleaders import source_of

if TYPE_CHECKING:
    from producer.zookeeper import ZookeeperSource

log = logging.getLogger(__name__)

BEING_CREATED = 5  # LeaderNotAvailable, also the response for a topic that is being created
STEP_S = 0.25  # how often a wait checks whether a greenlet has died
UNBOUNDED = 1 << 62


class Dispatcher:
    """Drains the accumulator into the sender, and waits for topics, room and completion for callers.

    call(calls) runs delivery callbacks outside of its greenlets.  When one of its greenlets has died, waits raise the
    reason.
    """

    def __init__(
        self, config: ProducerConfig, versions: ClusterVersions, accumulator: Accumulator, call: Callable[[Calls], None]
    ) -> None:
        self._config = config
        self._versions = versions
        self._dialect = dialect = versions.dialect
        self._accumulator = accumulator
        self._call = call
        self._tickets: set[_Ticket] = set()
        self.view = ClusterView()  # from which the accumulator's topics come
        self._largest = largest_entry(config.message_max_bytes, dialect)
        self.sizes = Sizes()
        self.counters: Counters | None = None  # the sender's, readable from any thread; None: not started

    def start(self) -> None:
        config = self._config
        self._tasks = TaskGroup(on_death=self._died)
        self._round_begun = Event()
        self._room = Event()
        asking = self._versions.connect(config.kafka_security.connect(connect))
        self._links = Links(config.client_id, asking, config.request_timeout_ms)
        source = source_of(config, self._dialect, self._links)
        self._zookeeper = cast("ZookeeperSource", source) if config.zookeeper_connect else None
        live = None if self._zookeeper is None else self._live
        quick = replace(config, linger_ms=0)  # messages have already lingered in their buckets
        self._sender = Sender(
            source, quick, self._tasks, events=log.log, by_name=True, live=live, versions=self._versions
        )
        if self._zookeeper is not None:
            self._zookeeper.changed = self._sender.leaders.changed
        self._sender.on_refresh = self._metadata_refreshed
        self.counters = self._sender.counters
        self._sender.start()
        self._tasks.spawn("linger", self._linger)

    def _live(self) -> frozenset[int]:
        assert self._zookeeper is not None
        return self._zookeeper.brokers

    @property
    def pool(self) -> dict[int, bool]:
        """Return brokers with a connection, by id, and whether it is connected."""
        return self._sender.pool

    # ---- rounds ----------------------------------------------------------------------------------------------------

    def begin_round(self) -> None:
        """Called when the first message of a round is in its bucket."""
        self._round_begun.set()

    def _linger(self) -> None:
        """Drain all buckets queue.buffering.max.ms after the first message of a round."""
        while True:
            self._round_begun.wait()
            sleep(self._config.linger_ms / 1000)
            self._round_begun.clear()
            self.drain()

    def drain(self) -> None:
        """Submit all buckets to the sender, without waiting, so that rounds cannot overtake each other."""
        for bucket in self._accumulator.take():
            self._submit(bucket)

    def _metadata_refreshed(self) -> None:
        """Use the new view for messages put from now on."""
        view, before = self._sender.leaders.view, self.view
        if view is not before:
            self.view = view
            for info in self._accumulator.topics():
                found = view.topics.get(info.topic)
                if found and found is not before.topics.get(info.topic):
                    self._accumulator.set_topic(self._topic_info(info.topic, view))
            if self._dialect.partitions_by_broker:
                self._move_unkeyed(view)

    def _move_unkeyed(self, view: ClusterView) -> None:
        """Move messages without a key that are queued for a partition of a dead broker to another partition."""
        for tp in self._sender.waiting():
            there = view.topics.get(tp.topic, {})
            led = [partition for partition, seen in there.items() if seen.leader is not None]
            if led and tp.partition not in there:
                new = TopicPartition(tp.topic, random.choice(led))
                for ticket in self._sender.move(tp, new, _is_free):
                    cast(_Ticket, ticket).tp = new

    def _submit(self, bucket: Bucket) -> None:
        config, tp = self._config, bucket.tp
        codec = config.codec_of(tp.topic)
        limit = limit_of(self._dialect, codec, config.batch_bytes, self._largest)
        lists, sizes = (bucket.keys, bucket.values, bucket.timestamps_ms), bucket.sizes
        headers = list(map(bucket.headers.get, range(len(sizes)))) if bucket.headers else None
        at = 0
        for part in parts_of_lists(tp, *lists, headers, dialect=self._dialect, codec=codec, limit=limit, sizes=sizes):
            end = at + part.count
            its_sizes = sizes[at:end]
            ticket = _Ticket(self, bucket, begin=at, end=end, size=sum(its_sizes))
            self._tickets.add(ticket)
            self._sender.submit(part, ticket)
            self.sizes.record(tp.topic, its_sizes, len(part.entries) if codec else 0)
            at = end

    # ---- partitions of topics --------------------------------------------------------------------------------------

    def need(self, topic: str) -> None:
        """Request the topic's partitions by name, which may create it, unless they are known."""
        self._sender.leaders.look_up(topic)

    def wait_topic(self, topic: str) -> TopicInfo:
        """Wait for the partitions of a topic; the request by name may create it.  Raises the reason when there are
        none."""
        leaders = self._sender.leaders
        deadline = now() + self._config.delivery_timeout_ms / 1000
        tries = code = 0
        leaders.look_up(topic)
        while topic not in leaders.view.topics:
            refreshed = leaders.wait_refresh(max(0.0, min(STEP_S, deadline - now())))
            self._check_alive()
            if refreshed and topic in leaders.named:
                code = leaders.view.errors.get(topic, 0) if leaders.failure is None else 0
                tries += code != BEING_CREATED
            if code in NEVER or (code and now() >= deadline) or (code and self._tried(tries)):
                raise BrokerError(code, f"topic {topic}")
            if leaders.failure is not None and self._tried(tries):
                raise leaders.failure
            if now() >= deadline and self._config.retries >= 0:
                raise Undeliverable(f"topic {topic} has no partitions after {self._config.delivery_timeout_ms} ms")
            if topic not in leaders.view.topics:
                leaders.need(topic)
        if self._versions.asked:
            for why in self._config.unfit(self._dialect):
                raise LocalError(f"{why}; the brokers are of that release")
        return self._accumulator.set_topic(self._topic_info(topic, leaders.view))

    def _topic_info(self, topic: str, view: ClusterView) -> TopicInfo:
        ids = view.partitions(topic)
        led = [partition for partition in ids if view.topics[topic][partition].leader is not None]
        most = UNBOUNDED if self._config.codec_of(topic) else self._largest
        overhead = ENTRY_OVERHEAD[self._dialect.magic]
        return TopicInfo(
            topic=topic, partitions=ids, with_leader=led or ids, overhead=overhead, max_entry_bytes=most, buckets={}
        )

    def _tried(self, tries: int) -> bool:
        return 0 <= self._config.retries < tries

    # ---- waits, and the end -----------------------------------------------------------------------------------------

    def wait_room(self, timeout_s: float | None) -> None:
        """Wait until some messages are completed, STEP_S at most; returns at once when there is room."""
        self._check_alive()
        self.drain()
        self._room.clear()
        if not self._accumulator.has_room():
            self._room.wait(STEP_S if timeout_s is None else min(timeout_s, STEP_S))

    def flush(self, timeout_s: float) -> int:
        """Send everything and wait; return the number of messages still pending after timeout_s."""
        deadline = now() + timeout_s
        self.drain()
        while not self._sender.flush(max(0.0, min(STEP_S, deadline - now()))):
            self._check_alive()
            if now() >= deadline:
                return self._accumulator.counts.pending
        self._sender.wait_confirmed(max(0.0, min(CONFIRM_S, deadline - now())))
        self._check_alive()
        return 0

    def end(self, timeout_s: float) -> int:
        """Flush within timeout_s, then end; return the number of messages left, whose deliveries have failed."""
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
            self._tasks.stop(1.0)
        return left

    def completed(self, ticket: _Ticket, completion: Completion) -> None:
        """Record a completion of some messages of a ticket."""
        calls = self._accumulator.complete(ticket.bucket, completion)
        if calls:
            self._call(calls)
        if ticket.at == ticket.end:
            self._tickets.discard(ticket)
            self._accumulator.release(ticket.size)
            self._room.set()

    def _died(self, name: str, exc: BaseException) -> None:
        reason = Closed(f"the producer ended by itself: {name}: {type(exc).__name__}: {exc}")
        self._fail_all(reason)

    def _fail_all(self, reason: Exception) -> None:
        """Fail all pending messages, so that no caller waits forever."""
        self._accumulator.close(reason)
        for ticket in list(self._tickets):
            ticket.failed(reason, None)
        for bucket in self._accumulator.take():
            calls = self._accumulator.complete(bucket, Completion(0, len(bucket.values), None, reason))
            self._accumulator.release(bucket.size)
            self._call(calls)

    def _check_alive(self) -> None:
        if self._tasks.death is not None:
            raise self._tasks.death


def _is_free(ticket: Ticket) -> bool:
    return isinstance(ticket, _Ticket) and ticket.bucket.free


class _Ticket:
    """Ticket of one part: the messages begin to end of a bucket, completed in order.

    A message that is too large fails alone; its neighbours are sent.
    """

    __slots__ = ("_dispatcher", "at", "bucket", "end", "size", "tp")

    def __init__(self, dispatcher: Dispatcher, bucket: Bucket, *, begin: int, end: int, size: int) -> None:
        self._dispatcher, self.bucket, self.at, self.end, self.size = dispatcher, bucket, begin, end, size
        self.tp: TopicPartition | None = None  # partition to which it was moved; None: its bucket's

    def may_send(self) -> bool:
        return True

    def reached(self, resume_at: int) -> None:
        raise AssertionError(f"a part without source offsets cannot have reached {resume_at}")

    def stored(self, count: int, offset: int | None, sure: bool) -> None:
        self._complete(count, offset, None, sure)

    def skipped(self, reason: Exception) -> None:
        self._complete(1, None, reason)

    def done(self) -> None:
        """Do nothing: stored() and skipped() have completed all its messages."""

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        self._complete(self.end - self.at, None, reason)

    def _complete(self, count: int, offset: int | None, error: Exception | None, sure: bool = True) -> None:
        begin, self.at = self.at, min(self.at + count, self.end)
        if begin < self.at:
            self._dispatcher.completed(self, Completion(begin, self.at, offset, error, sure, self.tp))
