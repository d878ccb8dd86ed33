"""What a program has sent and the target has not acknowledged yet: gathered by partition, counted, bounded.

Any thread may call; the lock is held over a few plain steps, never while anything waits.

A round is what is put between two take()s.  The first message of a round, and one that makes a bucket full, call the
hub (first, full); it takes the buckets then, or some time after.

From a message to its bucket: encoded, its partition chosen, its size looked at, and room waited for.

In the thread of whoever sends.  What is refused here is refused to the sender: nothing of it is queued.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, TypeVar

from groundwork.crew import now
from kafkawire.dialects import Dialect
from kafkawire.model import PartitionId, TopicPartition
from producer.config import ProducerConfig
from producer.delivery import Bucket, Called, Deliveries, Delivery, Flag, Listener, Row, Verdict
from producer.errors import NotSent, PartitionerFailed, QueueFull, Undeliverable
from producer.messages import check_topic
from producer.partitioners import Unkeyed
from producer.plugins import Plugins

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Route:
    """Where messages of one topic go, as the last look at the cluster said; the open buckets of the round."""

    topic: str
    ids: Sequence[PartitionId]  # all of them, in order
    led: Sequence[PartitionId]  # those with a leader; all where none has one
    overhead: int  # bytes of an entry besides key and value
    most: int  # of one entry
    buckets: dict[PartitionId, Bucket]
    unkeyed: Bucket | None = None  # where messages without a key go until the round is over


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages of a producer since it began: sent = acked + failed + pending.

    unacknowledged: those of acked that were only sent, and that nobody acknowledges (acks 0; Kafka 0.7 without
    confirm).  maybe_lost: those of them whose link broke before their broker gave another sign of life.
    """

    sent: int = 0
    acked: int = 0
    failed: int = 0
    pending_bytes: int = 0
    unacknowledged: int = 0
    maybe_lost: int = 0

    @property
    def pending(self) -> int:
        return self.sent - self.acked - self.failed


class Buckets:
    """Bounded by queue.buffering.max.messages and queue.buffering.max.bytes of config.

    first, full: called with the lock held, so they only leave word.  flag: see delivery.Bucket.
    """

    def __init__(
        self,
        config: ProducerConfig,
        unkeyed: Unkeyed,
        *,
        first: Callable[[], object],
        full: Callable[[], object],
        flag: Callable[[], Flag],
    ) -> None:
        self._most_messages, self._most_bytes = config.queue_messages, config.queue_bytes
        self._batch_messages, self._batch_bytes = config.batch_messages, config.batch_bytes
        self._unkeyed, self._first, self._full, self.flag = unkeyed, first, full, flag
        self.lock = threading.Lock()
        self._routes: dict[str, Route] = {}
        self.route: Callable[[str], Route | None] = self._routes.get  # called for each message
        self._round: list[Bucket] = []  # in the order they were opened
        self._pending = self._bytes = 0
        self._sent = self._acked = self._failed = self._unacknowledged = 0
        self._told: list[Exception] = []  # the first failure since failures() was asked
        self._told_count = 0
        self._closed: Exception | None = None

    # ---- the program's side ----------------------------------------------------------------------------------------

    def put(
        self, route: Route, partition: PartitionId | None, row: Row, size: int, listener: Listener | None = None
    ) -> Delivery | None:
        """Put a row of `size` bytes into the bucket of a partition (None: that of messages without a key).

        None when there is no room; nothing was put then.  Raises what close() was given.
        """
        with self.lock:
            if self._pending >= self._most_messages or (self._bytes and self._bytes + size > self._most_bytes):
                self._check_open()
                return None
            bucket = route.unkeyed if partition is None else route.buckets.get(partition)
            if bucket is None:
                bucket = self._open(route, partition)
            elif partition is not None:
                bucket.free = False
            rows = bucket.rows
            number = len(rows)
            rows.append(row)
            bucket.sizes.append(size)
            bucket.size += size
            self._bytes += size
            self._pending += 1
            self._sent += 1
            if listener is not None:
                bucket.listeners[number] = listener
            if number + 1 == self._batch_messages or bucket.size - size < self._batch_bytes <= bucket.size:
                self._full()
        return Delivery(bucket, number)

    def put_many(
        self,
        route: Route,
        partition: PartitionId | None,
        rows: Sequence[Row],
        sizes: Sequence[int],
        deliveries: Deliveries,
        listener: Listener | None = None,
    ) -> int:
        """As many of the rows as there is room for, at once; how many.  sizes: bytes of the entry of each."""
        size = sum(sizes)
        with self.lock:
            room = self._most_messages - self._pending
            if room <= 0 or (self._bytes and self._bytes + size > self._most_bytes):
                self._check_open()
                return 0
            bucket = route.unkeyed if partition is None else route.buckets.get(partition)
            if bucket is None:
                bucket = self._open(route, partition)
            elif partition is not None:
                bucket.free = False
            if room < len(rows):
                rows, sizes = rows[:room], sizes[:room]
                size = sum(sizes)
            begin = len(bucket.rows)
            bucket.rows.extend(rows)
            bucket.sizes.extend(sizes)
            bucket.size += size
            self._bytes += size
            self._pending += len(rows)
            self._sent += len(rows)
            if listener is not None:
                bucket.listeners.update(dict.fromkeys(range(begin, begin + len(rows)), listener))
            if begin + len(rows) >= self._batch_messages or bucket.size >= self._batch_bytes:
                self._full()
        deliveries.add(bucket, range(begin, begin + len(rows)))
        return len(rows)

    def _open(self, route: Route, partition: PartitionId | None) -> Bucket:
        """The bucket of a partition, made where the round has none.  With the lock held."""
        self._check_open()
        free = partition is None
        if partition is None:
            partition = self._unkeyed.choose(route.topic, route.led)
        bucket = route.buckets.get(partition)
        if bucket is None:
            bucket = route.buckets[partition] = Bucket(TopicPartition(route.topic, partition), self.lock, self.flag)
            bucket.free = free
            if not self._round:
                self._first()
            self._round.append(bucket)
        if free and self._unkeyed.whole_rounds:
            route.unkeyed = bucket
        return bucket

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed

    # ---- the hub's side --------------------------------------------------------------------------------------------

    def set_route(self, route: Route) -> Route:
        """A topic is known now, or known anew: what is put from now on goes by it; open buckets stay as they are.

        There is one Route of a topic for good: whoever put by an older one would put into buckets that are taken.
        """
        with self.lock:
            known = self._routes.setdefault(route.topic, route)
            known.ids, known.led = route.ids, route.led
        return known

    def routes(self) -> list[Route]:
        return list(self._routes.values())

    def take(self) -> list[Bucket]:
        """The buckets of the round; what is put from now on goes into new ones."""
        with self.lock:
            taken, self._round = self._round, []
            for bucket in taken:
                route = self._routes[bucket.tp.topic]
                route.buckets.pop(bucket.tp.partition, None)
                route.unkeyed = None
        return taken

    def settle(self, bucket: Bucket, verdict: Verdict) -> Called:
        """Some messages of a bucket are over; who is to be called about it."""
        count = verdict.end - verdict.begin
        with self.lock:
            self._pending -= count
            if verdict.error is None:
                self._acked += count
                self._unacknowledged += 0 if verdict.sure else count
            else:
                self._failed += count
                self._told_count += count
                self._told = self._told or [verdict.error]
            return bucket.settle(verdict)

    def not_put(self, count: int, reason: Exception) -> None:
        """So many messages failed before they came here: failures() has them."""
        with self.lock:
            self._told_count += count
            self._told = self._told or [reason]

    def freed(self, size: int) -> None:
        """So many bytes are not held any more."""
        with self.lock:
            self._bytes -= size

    def has_room(self) -> bool:
        with self.lock:
            return self._pending < self._most_messages and self._bytes < self._most_bytes

    def close(self, reason: Exception) -> None:
        """Nothing can be put from now on: it raises the reason."""
        with self.lock:
            self._closed = self._closed or reason

    # ---- for both --------------------------------------------------------------------------------------------------

    @property
    def counts(self) -> Counts:
        with self.lock:
            return Counts(
                sent=self._sent,
                acked=self._acked,
                failed=self._failed,
                pending_bytes=self._bytes,
                unacknowledged=self._unacknowledged,
            )

    def failures(self) -> tuple[int, Exception | None]:
        """Messages not stored since this was asked last, and the first reason."""
        with self.lock:
            count, told = self._told_count, self._told
            self._told_count, self._told = 0, []
        return count, told[0] if told else None


def chunks(items: Iterable[T], size: int) -> Iterable[list[T]]:
    """Lists of `size` items, the last one shorter."""
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk


class Putting:
    """Of one producer, which has started before anything is put.

    find_route: of a topic, waited for; raises why there is none.  wait_room: until there may be room, at most so many
    seconds.
    """

    def __init__(
        self,
        config: ProducerConfig,
        *,
        dialect: Dialect,
        plugins: Plugins,
        buckets: Buckets,
        find_route: Callable[[str], Route],
        wait_room: Callable[[float | None], object],
    ) -> None:
        self._config = config
        self._stamped = dialect.magic > 0
        self._keys, self._nulls = dialect.has_keys, dialect.has_nulls
        self._release, self._payload_only = dialect.release, dialect.measures_payload
        self._chooses = config.knows_partitions
        self._plugins = plugins
        self._buckets = buckets
        self._find_route = find_route
        self._wait_room = wait_room

    def put(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition_key: Any,
        partition: PartitionId | None,
        listener: Listener | None,
        patient: bool = False,
    ) -> Delivery:
        """One message.  patient: wait for room whatever queue.enqueue.timeout.ms says.  Raises as Producer.send()."""
        route = self._buckets.route(topic) or self._route(topic)
        plugins = self._plugins
        data = value if type(value) is bytes and plugins.takes_bytes else plugins.encoded(topic, value)
        if data is None and not self._nulls:
            raise self._null(topic)
        size = route.overhead + (len(data) if data is not None else 0)
        name: bytes | None = None
        if key is not None and self._keys:
            name = plugins.encoded_key(topic, key)
            size += len(name) if name is not None else 0
        if partition is not None or key is not None or partition_key is not None:
            partition = self._choose(route, key if partition_key is None else partition_key, partition)
        if size > route.most:
            raise self._too_large(route, size)
        row = (name, data, self._stamp() if self._stamped else None)
        delivery = self._buckets.put(route, partition, row, size, listener)
        if delivery is not None:
            return delivery
        deadline = None if patient else self._deadline()
        while (delivery := self._buckets.put(route, partition, row, size, listener)) is None:
            self._wait(route, partition, deadline)
        return delivery

    def put_values(self, topic: str, values: list[Any], deliveries: Deliveries, listener: Listener | None) -> None:
        """Messages without keys, all to one partition.  Raises as Producer.send()."""
        route = self._route(topic)
        data = self._encoded_all(topic, values)
        rows: list[Row] = list(zip(repeat(None), data, repeat(self._stamp())))
        sizes = [route.overhead + len(value or b"") for value in data]
        self._put_all(route, None, rows, sizes, deliveries, listener)

    def put_pairs(
        self, topic: str, values: list[Any], keys: list[Any], deliveries: Deliveries, listener: Listener | None
    ) -> None:
        """Messages with keys (None: without one), as many of these.  Raises as Producer.send()."""
        route = self._route(topic)
        self._put_keyed(route, self._encoded_all(topic, values), keys, deliveries, listener)

    def _encoded_all(self, topic: str, values: list[Any]) -> Sequence[bytes | None]:
        data = self._plugins.encoded_all(topic, values)
        if not self._nulls and None in data:
            raise self._null(topic)
        return data

    def _put_all(
        self,
        route: Route,
        partition: PartitionId | None,
        rows: list[Row],
        sizes: list[int],
        deliveries: Deliveries,
        listener: Listener | None,
    ) -> None:
        if max(sizes) > route.most:
            raise self._too_large(route, max(sizes))
        deadline = self._deadline()
        while rows:
            done = self._buckets.put_many(route, partition, rows, sizes, deliveries, listener)
            if done == len(rows):
                return
            rows, sizes = rows[done:], sizes[done:]
            if not done:
                self._wait(route, partition, deadline)

    def _put_keyed(
        self,
        route: Route,
        data: Sequence[bytes | None],
        keys: list[Any],
        deliveries: Deliveries,
        listener: Listener | None,
    ) -> None:
        """Message by message: neighbours may go to different partitions, and deliveries keep the order given."""
        for value, key in zip(data, keys, strict=True):
            name = None if key is None or not self._keys else self._plugins.encoded_key(route.topic, key)
            partition = None if key is None else self._choose(route, key, None)
            size = route.overhead + len(name or b"") + len(value or b"")
            self._put_all(route, partition, [(name, value, self._stamp())], [size], deliveries, listener)

    def _route(self, topic: str) -> Route:
        route = self._buckets.route(topic)
        if route is None:
            check_topic(topic)
            route = self._find_route(topic)
        return route

    def _choose(self, route: Route, key: Any, partition: PartitionId | None) -> PartitionId | None:
        """None: that of messages without a key.  Raises PartitionerFailed."""
        ids = route.ids
        if partition is None and not self._chooses:
            return None
        if partition is not None:
            if partition not in ids:
                raise PartitionerFailed(f"{route.topic}/{partition}: topic {route.topic} has {len(ids)} partitions")
            return partition
        return ids[self._plugins.partition_of(route.topic, key, len(ids))]

    def _stamp(self) -> int | None:
        return int(time.time() * 1000) if self._stamped else None

    def _too_large(self, route: Route, size: int) -> Undeliverable:
        head = route.overhead if self._payload_only else 0
        most = route.most - head
        return Undeliverable(
            f"{route.topic}: a message of {size - head} bytes is larger than message.max.bytes ({most})"
        )

    def _null(self, topic: str) -> NotSent:
        return NotSent(f"topic {topic}: a message of Kafka {self._release} cannot be null; nothing was sent")

    def _deadline(self) -> float | None:
        wait_s = self._config.enqueue_timeout_ms / 1000
        return None if wait_s < 0 else now() + wait_s

    def _wait(self, route: Route, partition: PartitionId | None, deadline: float | None) -> None:
        left = None if deadline is None else deadline - now()
        if left is not None and left <= 0:
            counts = self._buckets.counts
            where = route.topic if partition is None else f"{route.topic}/{partition}"
            raise QueueFull(
                f"{where}: {counts.pending} messages ({counts.pending_bytes} bytes) wait to be stored, and no room "
                f"came within {self._config.enqueue_timeout_ms / 1000:g} s (queue.enqueue.timeout.ms); raise "
                "queue.buffering.max.messages or .bytes"
            )
        self._wait_room(left)
