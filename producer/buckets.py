"""What a program has sent and the target has not acknowledged yet: gathered by partition, counted, bounded.

Any thread may call; the lock is held over a few plain steps, never while anything waits.

A round is what is put between two take()s.  The first message of a round, and one that makes a bucket full, call the
hub (first, full); it takes the buckets then, or some time after.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from kafkawire.model import PartitionId, TopicPartition
from producer.config import ProducerConfig
from producer.delivery import Bucket, Called, Deliveries, Delivery, Flag, Listener, Row, Verdict
from producer.unkeyed import Unkeyed

T = TypeVar("T")


@dataclass(slots=True)
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
            return Counts(self._sent, self._acked, self._failed, self._bytes, self._unacknowledged)

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
