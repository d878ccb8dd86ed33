"""Conversion of DataFrame rows to messages by partition: columns in use, and the partition of a row.

key        string or binary, optional          value  string or binary, required
topic      string; needed without the option topic, and of no effect with it
partition  int, optional; null: the partitioner chooses
timestamp  timestamp, only used with includeTimestamps
headers    array<struct<key:string,value:binary>>, optional: as includeHeaders says.  Other columns are ignored.

Columns and refusals are those of Spark's own kafka format.  Rows keep their order within a partition.  A row is called
by its number within its task, from 0.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError
from kafkawire.headers import packed
from kafkawire.model import PartitionId, TopicPartition
from kafkawire.topicnames import why_never_written
from producer.partitioners import Sticky, byte_array_partitioner, default_of, murmur2_partitioner
from producer.rows import Row, size_of
from sparkpipeline.errors import NotDelivered, OptionRefused
from sparkpipeline.sink.sinkoptions import SinkOptions

TAKEN = {  # column -> types it may have
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns in use. names: as the DataFrame spells them."""

    value: str
    key: str | None
    topic: str | None
    partition: str | None
    timestamp: str | None
    headers: str | None = None


def columns_of(schema: Any, options: SinkOptions) -> Columns:
    """Return the columns in use. schema: a StructType.  Raises OptionRefused naming the column."""
    found: dict[str, str | None] = dict.fromkeys(TAKEN)
    for column in schema.fields:
        name, kind = column.name.lower(), column.dataType.simpleString()
        counts = name in TAKEN and not (name == "timestamp" and not options.include_timestamps)
        counts = counts and not (name == "topic" and options.topic is not None)
        counts = counts and not (name == "headers" and options.include_headers is False)
        if not counts:
            continue
        if kind.split("(")[0].split(" ")[0] not in TAKEN[name]:
            if name == "headers" and options.include_headers is None:
                continue  # of another kind of table: it was ignored when brokers had no headers
            raise OptionRefused(f"must be {' or '.join(TAKEN[name])}, and is {kind}: cast it", column=column.name)
        found[name] = column.name
    return _checked(found, options)


def _checked(found: dict[str, str | None], options: SinkOptions) -> Columns:
    value = found["value"]
    if value is None:
        raise OptionRefused("the DataFrame has no column value; it must have one, string or binary", column="value")
    if found["topic"] is None and options.topic is None:
        raise OptionRefused("the option topic is needed when the DataFrame has no column topic", option="topic")
    if found["timestamp"] is None and options.include_timestamps:
        raise OptionRefused("includeTimestamps needs a column timestamp", column="timestamp")
    if found["headers"] is None and options.include_headers:
        raise OptionRefused("includeHeaders needs a column headers", column="headers")
    return Columns(value, found["key"], found["topic"], found["partition"], found["timestamp"], found["headers"])


KEYS_KEPT = 1 << 16  # hashes of keys: the old ones are slow in Python, and keys come again
BUCKET_BYTES = 256 << 10  # of a partition, then it is sent
WAITING_BYTES = 8 << 20  # of all partitions, then all are sent


def by_key(rule: str, dialect: Dialect) -> Callable[[Any, int], int] | None:
    """Return a function from a key and a number of partitions to a partition; None: the rule does not use keys."""
    if rule == "default":
        return default_of(dialect)
    if rule == "byte-array":
        return lambda key, count: byte_array_partitioner(_as_bytes(key) or b"", count)
    return murmur2_partitioner if rule == "murmur2" else None


@dataclass(slots=True)
class _Bucket:
    """Rows of one partition that wait to be sent together: a larger batch compresses better."""

    rows: list[Row] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    headers: list[bytes | None] = field(default_factory=list)
    size: int = 0


class Target(Protocol):
    """Interface of sink.sender.TaskSender used here."""

    def partitions(self, topic: str) -> list[PartitionId]: ...

    def led(self, topic: str) -> list[PartitionId]: ...

    def send(
        self,
        tp: TopicPartition,
        rows: Sequence[Row],
        numbers: Sequence[int],
        headers: Sequence[bytes | None] | None = None,
    ) -> None: ...


class RowSender:
    """Rows of one task; finish() when there are no more.

    topic: for all rows; None: from the column.  task: its number, for errors.
    """

    def __init__(
        self,
        target: Target,
        columns: Columns,
        *,
        topic: str | None,
        partitioner: str,
        dialect: Dialect,
        max_bytes: int,
        task: int | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.rows = 0  # taken so far
        self._target, self._columns, self._topic = target, columns, topic
        self._magic, self._max_bytes, self._task = dialect.magic, max_bytes, task
        self._has_headers = dialect.record_batches and columns.headers is not None
        self._rng = rng or random.Random()
        self._sticky = Sticky(self._rng)
        self._rule = partitioner
        self._buckets: dict[TopicPartition, _Bucket] = {}
        self._waiting = 0  # bytes in them
        self._ids: dict[str, list[PartitionId]] = {}
        self._led: dict[str, list[PartitionId]] = {}  # looked up once a batch
        chosen = by_key(partitioner, dialect)
        self._by_key = lru_cache(KEYS_KEPT)(chosen) if chosen is not None else None

    def take(self, batch: Any) -> None:
        """Send all rows of a pyarrow.RecordBatch.  Raises NotDelivered, naming the row, and the target's exceptions."""
        first, self.rows = self.rows, self.rows + batch.num_rows
        self._sticky.forget()
        self._led.clear()
        blocks = self._blocks(batch, first)
        for number, (topic, partition, key, row) in enumerate(self._rows(batch), first):
            tp = self._where(topic, partition, key, number)
            block = None if blocks is None else blocks[number - first]
            size = size_of(row, self._magic) + len(block or b"")
            if size > self._max_bytes:
                raise self._refused(
                    f"a message of {size} bytes is larger than kafka.message.max.bytes ({self._max_bytes}): raise it "
                    "when the brokers take more",
                    tp.topic, tp.partition, number,
                )  # fmt: skip
            bucket = self._buckets.get(tp)
            if bucket is None:
                bucket = self._buckets[tp] = _Bucket()
            bucket.rows.append(row)
            bucket.numbers.append(number)
            if blocks is not None:
                bucket.headers.append(block)
            bucket.size += size
            self._waiting += size
            if bucket.size >= BUCKET_BYTES:
                self._send(tp)
        if self._waiting >= WAITING_BYTES:
            self.finish()

    def finish(self) -> None:
        """Send the waiting rows.  Raises the target's exceptions."""
        for tp in list(self._buckets):
            self._send(tp)

    def _send(self, tp: TopicPartition) -> None:
        bucket = self._buckets.pop(tp)
        self._waiting -= bucket.size
        self._target.send(tp, bucket.rows, bucket.numbers, bucket.headers if any(bucket.headers) else None)

    def _rows(self, batch: Any) -> Any:
        """Return (topic, partition, key as it is hashed, row) of each row."""
        columns, count = self._columns, batch.num_rows
        nothing = [None] * count
        keys = nothing if columns.key is None else batch.column(columns.key).to_pylist()
        values = batch.column(columns.value).to_pylist()
        topics = nothing if columns.topic is None else batch.column(columns.topic).to_pylist()
        partitions = nothing if columns.partition is None else batch.column(columns.partition).to_pylist()
        for topic, partition, key, value, stamp in zip(
            topics, partitions, keys, values, self._timestamps(batch), strict=True
        ):
            yield topic, partition, key, Row(_as_bytes(key), _as_bytes(value), stamp)

    def _blocks(self, batch: Any, first: int) -> list[bytes | None] | None:
        """Return the block of each row's headers; None: they are not written.  Raises NotDelivered for an invalid
        header."""
        if not self._has_headers:
            return None
        found: list[bytes | None] = []
        for number, row in enumerate(batch.column(self._columns.headers).to_pylist(), first):
            try:
                found.append(packed(None if row is None else ((each["key"], each["value"]) for each in row)))
            except (LocalError, TypeError) as wrong:
                raise self._refused(f"its headers cannot be written: {wrong}", None, None, number) from None
        return found

    def _timestamps(self, batch: Any) -> list[int | None]:
        """Return milliseconds; the time of sending for null; −1 (none) stays −1.  None in formats without
        timestamps."""
        if not self._magic:
            return [None] * batch.num_rows
        now_ms = int(time.time() * 1000)
        if self._columns.timestamp is None:
            return [now_ms] * batch.num_rows
        stamps = batch.column(self._columns.timestamp).cast("int64").to_pylist()  # microseconds: Spark has no others
        return [now_ms if us is None else us // 1000 for us in stamps]

    def _where(self, named: str | None, partition: int | None, key: Any, number: int) -> TopicPartition:
        topic = self._topic if self._topic is not None else named
        if topic is None:
            raise self._refused(
                "the column topic is null: the option topic can say where such rows go", None, None, number
            )
        ids = self._ids.get(topic)
        if ids is None:
            if why := why_never_written(topic):
                raise self._refused(f"no row goes to {topic}, {why}", topic, None, number)
            ids = self._ids[topic] = self._target.partitions(topic)
        if partition is not None:
            if partition not in ids:
                raise self._refused(f"the topic has {len(ids)} partitions", topic, partition, number)
            return TopicPartition(topic, partition)
        if key is not None and self._by_key is not None:
            return TopicPartition(topic, ids[self._by_key(key, len(ids))])
        led = self._led.get(topic)
        if led is None:
            led = self._led[topic] = self._target.led(topic) or ids
        if self._rule == "random":
            return TopicPartition(topic, self._rng.choice(led))
        chosen = self._sticky.choose(topic, led)
        assert chosen is not None, "a topic without partitions is not known"
        return TopicPartition(topic, chosen)

    def _refused(self, why: str, topic: str | None, partition: PartitionId | None, number: int) -> NotDelivered:
        return NotDelivered(why, topic=topic, partition=partition, row=number, task=self._task)


def _as_bytes(field: Any) -> bytes | None:
    return field.encode() if isinstance(field, str) else field
