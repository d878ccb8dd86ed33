"""Accumulator of messages not acknowledged yet: buckets by partition, with counts and limits in number and bytes.

    Appender      puts a message into its bucket, in the thread that sends: encodes it, chooses its partition, checks
                  its size, waits for room.  A refused message is not queued
    Accumulator   the buckets of the open round.  Thread-safe; its lock is held for a few steps, never during a wait

A round is the messages put between two calls of take().  The first message of a round, and one that fills a bucket,
notify the event loop (first, full).  It takes the buckets queue.buffering.max.ms after the first one, or when one is
full.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, NamedTuple, TypeVar

from groundwork.tasks import now
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError
from kafkawire.headers import packed
from kafkawire.model import PartitionId, TopicPartition
from producer.config import ProducerConfig
from producer.delivery import Bucket, Calls, Completion, Deliveries, Delivery, Flag, Listener
from producer.errors import NotSent, PartitionerFailed, QueueFull, Undeliverable
from producer.messages import Headers, check_topic
from producer.partitioners import UnkeyedPartitioner
from producer.plugins import Plugins

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class TopicInfo:
    """Partitions of one topic, by the newest metadata, and its buckets of the open round."""

    topic: str
    partitions: Sequence[PartitionId]  # all of them, in order
    with_leader: Sequence[PartitionId]  # all of them when none has one
    overhead: int  # bytes of an entry besides key and value
    max_entry_bytes: int
    buckets: dict[PartitionId, Bucket]
    unkeyed: Bucket | None = None  # for messages without a key, until the round is over


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages of a producer since it began: sent = acked + failed + pending.

    unacknowledged: those of acked that were only sent, because no broker acknowledges them (acks 0; Kafka 0.7 without
    confirm). maybe_lost: those of unacknowledged whose connection broke before the broker answered a barrier after
    them.
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


class Rows(NamedTuple):
    """Messages of send_many() as columns of equal length.  sizes: bytes of their entries; headers: their blocks, None:
    no message has any."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    sizes: Sequence[int]
    timestamp_ms: int | None  # of all messages
    headers: Sequence[bytes | None] | None = None

    def part(self, rows: slice) -> Rows:
        headers = None if self.headers is None else self.headers[rows]
        return Rows(self.keys[rows], self.values[rows], self.sizes[rows], self.timestamp_ms, headers)


class Accumulator:
    """Buckets by topic and partition, bounded by queue.buffering.max.messages and queue.buffering.max.bytes of config.

    first, full: called with the lock held, so they may only post a call to the event loop.  flag: see delivery.Bucket.
    """

    def __init__(
        self,
        config: ProducerConfig,
        unkeyed: UnkeyedPartitioner,
        *,
        first: Callable[[], object],
        full: Callable[[], object],
        flag: Callable[[], Flag],
    ) -> None:
        self._max_messages, self._max_bytes = config.queue_messages, config.queue_bytes
        self._batch_messages, self._batch_bytes = config.batch_messages, config.batch_bytes
        self._unkeyed, self._first, self._full, self.flag = unkeyed, first, full, flag
        self.lock = threading.Lock()
        self._topics: dict[str, TopicInfo] = {}
        self.topic: Callable[[str], TopicInfo | None] = self._topics.get  # called for each message
        self._round: list[Bucket] = []  # in the order they were opened
        self._pending = self._bytes = 0
        self._sent = self._acked = self._failed = self._unacknowledged = 0
        self._unreported: list[Exception] = []  # the first failure since the last failures()
        self._unreported_count = 0
        self._closed: Exception | None = None

    # ---- the program's side ----------------------------------------------------------------------------------------

    def put(
        self,
        info: TopicInfo,
        partition: PartitionId | None,
        row: tuple[bytes | None, bytes | None, int | None],
        size: int,
        listener: Listener | None = None,
        headers: bytes | None = None,
    ) -> Delivery | None:
        """Put a row (key, value, timestamp) of `size` bytes into the bucket of a partition; None: the bucket of
        messages without a key.

        headers: their block (kafkawire.headers).

        Returns None, putting nothing, if there is no room.  Raises the reason given to close().
        """
        with self.lock:
            if self._pending >= self._max_messages or (self._bytes and self._bytes + size > self._max_bytes):
                self._check_open()
                return None
            bucket = info.unkeyed if partition is None else info.buckets.get(partition)
            if bucket is None:
                bucket = self._open(info, partition)
            elif partition is not None:
                bucket.free = False
            number = len(bucket.sizes)
            bucket.keys.append(row[0])
            bucket.values.append(row[1])
            bucket.timestamps_ms.append(row[2])
            bucket.sizes.append(size)
            bucket.size += size
            self._bytes += size
            self._pending += 1
            self._sent += 1
            if listener is not None:
                bucket.listeners[number] = listener
            if headers is not None:
                bucket.headers[number] = headers
            if number + 1 == self._batch_messages or bucket.size - size < self._batch_bytes <= bucket.size:
                self._full()
        return Delivery(bucket, number)

    def put_many(
        self,
        info: TopicInfo,
        partition: PartitionId | None,
        rows: Rows,
        deliveries: Deliveries,
        listener: Listener | None = None,
    ) -> int:
        """Put as many of the rows as there is room for into one bucket, and return their number."""
        size = sum(rows.sizes)
        with self.lock:
            room = self._max_messages - self._pending
            if room <= 0 or (self._bytes and self._bytes + size > self._max_bytes):
                self._check_open()
                return 0
            bucket = info.unkeyed if partition is None else info.buckets.get(partition)
            if bucket is None:
                bucket = self._open(info, partition)
            elif partition is not None:
                bucket.free = False
            if room < len(rows.sizes):
                rows = rows.part(slice(room))
                size = sum(rows.sizes)
            begin = len(bucket.sizes)
            count = len(rows.sizes)
            bucket.keys.extend(rows.keys)
            bucket.values.extend(rows.values)
            bucket.timestamps_ms.extend(repeat(rows.timestamp_ms, count))
            bucket.sizes.extend(rows.sizes)
            bucket.size += size
            self._bytes += size
            self._pending += count
            self._sent += count
            if listener is not None:
                bucket.listeners.update(dict.fromkeys(range(begin, begin + count), listener))
            if rows.headers is not None:
                blocks = zip(range(begin, begin + count), rows.headers, strict=True)
                bucket.headers.update((number, block) for number, block in blocks if block is not None)
            if begin + count >= self._batch_messages or bucket.size >= self._batch_bytes:
                self._full()
        deliveries.add(bucket, range(begin, begin + count))
        return count

    def put_each(
        self,
        info: TopicInfo,
        partitions: Sequence[PartitionId | None],
        rows: Rows,
        deliveries: Deliveries,
        listener: Listener | None = None,
    ) -> bool:
        """Put all rows, each into the bucket of its partition (None: as put()).  Return False if there is no room for
        all."""
        size, count = sum(rows.sizes), len(rows.sizes)
        places: list[tuple[Bucket, int]] = []
        full = False
        stamp, headers = rows.timestamp_ms, rows.headers
        with self.lock:
            if self._pending + count > self._max_messages or (self._bytes and self._bytes + size > self._max_bytes):
                self._check_open()
                return False
            buckets = info.buckets.get
            for partition, key, value, its_size in zip(partitions, rows.keys, rows.values, rows.sizes, strict=True):
                bucket = info.unkeyed if partition is None else buckets(partition)
                if bucket is None:
                    bucket = self._open(info, partition)
                elif partition is not None:
                    bucket.free = False
                number = len(bucket.sizes)
                bucket.keys.append(key)
                bucket.values.append(value)
                bucket.timestamps_ms.append(stamp)
                bucket.sizes.append(its_size)
                bucket.size += its_size
                if listener is not None:
                    bucket.listeners[number] = listener
                if headers is not None and (block := headers[len(places)]) is not None:
                    bucket.headers[number] = block
                full = full or number + 1 >= self._batch_messages or bucket.size >= self._batch_bytes
                places.append((bucket, number))
            self._bytes += size
            self._pending += count
            self._sent += count
            if full:
                self._full()
        deliveries.add_each(places)
        return True

    def _open(self, info: TopicInfo, partition: PartitionId | None) -> Bucket:
        """Return the round's bucket of a partition, created if missing.  Called with the lock held."""
        self._check_open()
        free = partition is None
        if partition is None:
            partition = self._unkeyed.choose(info.topic, info.with_leader)
        bucket = info.buckets.get(partition)
        if bucket is None:
            bucket = info.buckets[partition] = Bucket(TopicPartition(info.topic, partition), self.lock, self.flag)
            bucket.free = free
            if not self._round:
                self._first()
            self._round.append(bucket)
        if free and self._unkeyed.whole_rounds:
            info.unkeyed = bucket
        return bucket

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed

    # ---- the event loop's side ---------------------------------------------------------------------------------------

    def set_topic(self, info: TopicInfo) -> TopicInfo:
        """Set a topic's metadata for messages put from now on; open buckets stay as they are.

        A topic keeps its first TopicInfo object for ever: with an older object a message could go into a bucket that
        was already taken.
        """
        with self.lock:
            known = self._topics.setdefault(info.topic, info)
            known.partitions, known.with_leader = info.partitions, info.with_leader
        return known

    def topics(self) -> list[TopicInfo]:
        return list(self._topics.values())

    def take(self) -> list[Bucket]:
        """Return the buckets of the round; messages put from now on go into new ones."""
        with self.lock:
            taken, self._round = self._round, []
            for bucket in taken:
                info = self._topics[bucket.tp.topic]
                info.buckets.pop(bucket.tp.partition, None)
                info.unkeyed = None
        return taken

    def complete(self, bucket: Bucket, completion: Completion) -> Calls:
        """Record the completion of some messages of a bucket; returns the callbacks to call."""
        count = completion.end - completion.begin
        with self.lock:
            self._pending -= count
            if completion.error is None:
                self._acked += count
                self._unacknowledged += 0 if completion.sure else count
            else:
                self._failed += count
                self._unreported_count += count
                self._unreported = self._unreported or [completion.error]
            return bucket.complete(completion)

    def count_failed(self, count: int, reason: Exception) -> None:
        """Count messages that failed before they were put, for failures()."""
        with self.lock:
            self._unreported_count += count
            self._unreported = self._unreported or [reason]

    def release(self, size: int) -> None:
        """Free the bytes of completed messages."""
        with self.lock:
            self._bytes -= size

    def has_room(self) -> bool:
        with self.lock:
            return self._pending < self._max_messages and self._bytes < self._max_bytes

    def close(self, reason: Exception) -> None:
        """Make put() raise the reason from now on."""
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
        """Return the number of messages that failed since the last call, and the first reason."""
        with self.lock:
            count, reasons = self._unreported_count, self._unreported
            self._unreported_count, self._unreported = 0, []
        return count, reasons[0] if reasons else None


def chunks(items: Iterable[T], size: int) -> Iterable[list[T]]:
    """Yield lists of `size` items; the last one may be shorter."""
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk


class Appender:
    """Encoder of messages, which puts them into the accumulator of one started producer.

    find_topic: waits for the metadata of a topic, and raises the reason when there is none.  wait_room: waits, with a
    timeout in seconds, until there may be room.
    """

    def __init__(
        self,
        config: ProducerConfig,
        *,
        dialect: Dialect,
        plugins: Plugins,
        accumulator: Accumulator,
        find_topic: Callable[[str], TopicInfo],
        wait_room: Callable[[float | None], object],
    ) -> None:
        self._config = config
        self._dialect = dialect
        self._keys, self._nulls = dialect.has_keys, dialect.has_nulls
        self._release, self._payload_only = dialect.release, dialect.measures_payload
        self._chooses = config.knows_partitions
        self._plugins = plugins
        self._accumulator = accumulator
        self._find_topic = find_topic
        self._wait_room = wait_room

    def put(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition_key: Any,
        partition: PartitionId | None,
        listener: Listener | None,
        *,
        patient: bool = False,
        headers: Headers | None = None,
    ) -> Delivery:
        """Put one message.  patient: wait for room without queue.enqueue.timeout.ms.  Raises the exceptions of
        Producer.send()."""
        info = self._accumulator.topic(topic) or self._topic_info(topic)
        plugins = self._plugins
        data = value if type(value) is bytes and plugins.takes_bytes else plugins.encoded(topic, value)
        if data is None and not self._nulls:
            raise self._null(topic)
        size = info.overhead + (len(data) if data is not None else 0)
        name: bytes | None = None
        if key is not None and self._keys:
            name = plugins.encoded_key(topic, key)
            size += len(name) if name is not None else 0
        if partition is not None or key is not None or partition_key is not None:
            partition = self._choose(info, key if partition_key is None else partition_key, partition)
        block = None
        if headers:
            block = self._block(topic, headers)
            size += len(block or b"")
        if size > info.max_entry_bytes:
            raise self._too_large(info, size)
        row = (name, data, self._stamp() if self._dialect.has_timestamps else None)
        delivery = self._accumulator.put(info, partition, row, size, listener, block)
        if delivery is not None:
            return delivery
        deadline = None if patient else self._deadline()
        while (delivery := self._accumulator.put(info, partition, row, size, listener, block)) is None:
            self._wait(info, partition, deadline)
        return delivery

    def put_all(
        self,
        topic: str,
        values: list[Any],
        keys: list[Any] | None,
        deliveries: Deliveries,
        listener: Listener | None,
        *,
        headers: list[Headers | None] | None = None,
    ) -> None:
        """Put messages, with as many keys (None: no key) and headers as values; without keys all into one partition.

        Raises the exceptions of Producer.send().
        """
        info = self._topic_info(topic)
        data = self._plugins.encoded_all(topic, values)
        if not self._nulls and None in data:
            raise self._null(topic)
        if keys is None:
            self._put_rows(info, None, self._rows(info, [None] * len(data), data, headers), deliveries, listener)
        elif not self._put_together(info, data, keys, deliveries, listener, headers=headers):
            self._put_keyed(info, data, keys, deliveries, listener, headers=headers)

    def _rows(
        self,
        info: TopicInfo,
        keys: Sequence[bytes | None],
        data: Sequence[bytes | None],
        headers: list[Headers | None] | None,
    ) -> Rows:
        overhead = info.overhead
        if not any(keys):
            sizes = [overhead + (len(value) if value else 0) for value in data]
        else:
            pairs = zip(keys, data, strict=True)
            sizes = [overhead + (len(key) if key else 0) + (len(value) if value else 0) for key, value in pairs]
        blocks = None
        if headers is not None and any(headers):
            blocks = [self._block(info.topic, one) if one else None for one in headers]
            sizes = [size + len(block or b"") for size, block in zip(sizes, blocks, strict=True)]
        return Rows(keys, data, sizes, self._stamp(), blocks)

    def _put_rows(
        self,
        info: TopicInfo,
        partition: PartitionId | None,
        rows: Rows,
        deliveries: Deliveries,
        listener: Listener | None,
    ) -> None:
        if max(rows.sizes) > info.max_entry_bytes:
            raise self._too_large(info, max(rows.sizes))
        deadline = self._deadline()
        while rows.sizes:
            done = self._accumulator.put_many(info, partition, rows, deliveries, listener)
            if done == len(rows.sizes):
                return
            rows = rows.part(slice(done, None))
            if not done:
                self._wait(info, partition, deadline)

    def _put_together(
        self,
        info: TopicInfo,
        data: Sequence[bytes | None],
        keys: list[Any],
        deliveries: Deliveries,
        listener: Listener | None,
        *,
        headers: list[Headers | None] | None,
    ) -> bool:
        """Put messages with keys all at once.  Return False, putting nothing, if each has to be put alone, since one
        may be refused or wait for room."""
        if not (self._keys and self._chooses):
            return False
        indexes = self._plugins.partitions_of(keys, len(info.partitions))
        if indexes is None:
            return False
        rows = self._rows(info, keys, data, headers)
        if max(rows.sizes) > info.max_entry_bytes:
            return False
        partitions: list[PartitionId | None] = [*info.partitions, None]  # KEYLESS is -1
        return self._accumulator.put_each(info, [partitions[n] for n in indexes], rows, deliveries, listener)

    def _put_keyed(
        self,
        info: TopicInfo,
        data: Sequence[bytes | None],
        keys: list[Any],
        deliveries: Deliveries,
        listener: Listener | None,
        *,
        headers: list[Headers | None] | None,
    ) -> None:
        """Put messages one by one: each may have another partition, and deliveries keep the order of the values."""
        given = repeat(None) if headers is None else headers
        for value, key, one in zip(data, keys, given, strict=False):
            name = None if key is None or not self._keys else self._plugins.encoded_key(info.topic, key)
            partition = None if key is None else self._choose(info, key, None)
            rows = self._rows(info, [name], [value], [one] if one else None)
            self._put_rows(info, partition, rows, deliveries, listener)

    def _topic_info(self, topic: str) -> TopicInfo:
        info = self._accumulator.topic(topic)
        if info is None:
            check_topic(topic)
            info = self._find_topic(topic)
        return info

    def _choose(self, info: TopicInfo, key: Any, partition: PartitionId | None) -> PartitionId | None:
        """Return the partition of a message; None: the one for messages without a key.  Raises PartitionerFailed."""
        partitions = info.partitions
        if partition is None and not self._chooses:
            return None
        if partition is not None:
            if partition not in partitions:
                raise PartitionerFailed(
                    f"{info.topic}/{partition}: topic {info.topic} has {len(partitions)} partitions"
                )
            return partition
        return partitions[self._plugins.partition_of(info.topic, key, len(partitions))]

    def _stamp(self) -> int | None:
        return int(time.time() * 1000) if self._dialect.has_timestamps else None

    def _block(self, topic: str, headers: Headers) -> bytes | None:
        if not self._dialect.record_batches:
            raise NotSent(f"topic {topic}: messages of Kafka {self._dialect.release} have no headers; nothing was sent")
        try:
            return packed(headers.items() if isinstance(headers, Mapping) else headers)
        except (LocalError, TypeError) as failed:
            raise NotSent(f"topic {topic}: headers that cannot be sent: {failed}; nothing was sent") from failed

    def _too_large(self, info: TopicInfo, size: int) -> Undeliverable:
        head = info.overhead if self._payload_only else 0
        most = info.max_entry_bytes - head
        return Undeliverable(
            f"{info.topic}: a message of {size - head} bytes is larger than message.max.bytes ({most})"
        )

    def _null(self, topic: str) -> NotSent:
        return NotSent(f"topic {topic}: a message of Kafka {self._release} cannot be null; nothing was sent")

    def _deadline(self) -> float | None:
        wait_s = self._config.enqueue_timeout_ms / 1000
        return None if wait_s < 0 else now() + wait_s

    def _wait(self, info: TopicInfo, partition: PartitionId | None, deadline: float | None) -> None:
        left = None if deadline is None else deadline - now()
        if left is not None and left <= 0:
            counts = self._accumulator.counts
            where = info.topic if partition is None else f"{info.topic}/{partition}"
            raise QueueFull(
                f"{where}: {counts.pending} messages ({counts.pending_bytes} bytes) wait to be stored, and no room "
                f"came within {self._config.enqueue_timeout_ms / 1000:g} s (queue.enqueue.timeout.ms); raise "
                "queue.buffering.max.messages or .bytes"
            )
        self._wait_room(left)
