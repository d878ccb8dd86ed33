"""What a program has sent and the target has not acknowledged yet: gathered by partition, counted, bounded.

Any thread may call; the lock is held only over a few plain steps, never while anything waits.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from kafkawire.model import PartitionId, TopicPartition
from producer.config import ProducerConfig
from producer.partitioners import Sticky
from producer.rows import Row


class Put(Enum):
    NO_ROOM = "no room"  # nothing was put
    FIRST = "first of a round"
    FULL = "its bucket became full"
    ADDED = "added"


@dataclass(slots=True)
class Bucket:
    """What waits for one partition."""

    rows: list[Row] = field(default_factory=list)
    size: int = 0


class Buckets:
    """Bounded by queue.buffering.max.messages and queue.buffering.max.bytes of config."""

    def __init__(self, config: ProducerConfig) -> None:
        self.messages = 0  # sent and not yet settled
        self.bytes = 0
        self.failed = 0  # not stored, since failures() was asked last
        self._config = config
        self._lock = threading.Lock()
        self._buckets: dict[TopicPartition, Bucket] = {}
        self._first: Exception | None = None
        self._sticky = Sticky()

    def choose(self, topic: str, with_leader: Sequence[PartitionId]) -> PartitionId | None:
        """The partition of a message without key: the same one for a topic until the buckets are taken."""
        with self._lock:
            return self._sticky.choose(topic, with_leader)

    def put(self, tp: TopicPartition, row: Row, size: int) -> Put:
        """Put a row of `size` bytes into its partition's bucket, if there is room."""
        config = self._config
        with self._lock:
            if self.messages >= config.queue_messages or (self.bytes and self.bytes + size > config.queue_bytes):
                return Put.NO_ROOM
            self.messages += 1
            self.bytes += size
            first = not self._buckets
            bucket = self._buckets.setdefault(tp, Bucket())
            bucket.rows.append(row)
            bucket.size += size
            full = len(bucket.rows) == config.batch_messages or bucket.size - size < config.batch_bytes <= bucket.size
        return Put.FULL if full else Put.FIRST if first else Put.ADDED

    def take(self) -> dict[TopicPartition, Bucket]:
        """All buckets; what is put from now on goes into new ones."""
        with self._lock:
            taken, self._buckets = self._buckets, {}
            self._sticky.forget()
        return taken

    def has_room(self) -> bool:
        with self._lock:
            return self.messages < self._config.queue_messages and self.bytes < self._config.queue_bytes

    def settled(self, count: int, size: int) -> None:
        """So many messages are over, stored or not."""
        with self._lock:
            self.messages -= count
            self.bytes -= size

    def not_stored(self, count: int, reason: Exception) -> None:
        with self._lock:
            self.failed += count
            self._first = self._first or reason

    def failures(self) -> tuple[int, Exception | None]:
        """Messages not stored since this was asked last, and the first reason."""
        with self._lock:
            failed, first, self.failed, self._first = self.failed, self._first, 0, None
        return failed, first
