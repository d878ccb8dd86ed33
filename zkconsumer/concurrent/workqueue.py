"""Work queue: decides which message of many partitions a free worker takes next.  Pure: no thread, no clock; the caller
locks.

    turns      partitions take turns, so that a full one does not starve the others
    cap        maximum of queued messages of a partition, counted from its oldest unfinished one.  A full partition
               accepts more once it is half empty.  So a message that does not finish pauses its partition; neither
               memory nor what a restart repeats (everything from that message) grows
    by key     messages of one partition with the same key are taken one after another; those without a key as they come
    retries    a retried message keeps its place for its key, and is not taken before its time

Jobs are compared by identity, so any object may be an item.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)  # a partition
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Job(Generic[P, T]):
    """A message to be handled.  tries: how often it was taken."""

    partition: P
    item: T
    key: bytes | None
    number: int  # number within its partition
    not_before: float = 0.0
    tries: int = 0
    dropped: bool = False


@dataclass(slots=True)
class _PartitionQueue(Generic[P, T]):
    waiting: deque[Job[P, T]] = field(default_factory=deque)
    working: set[int] = field(default_factory=set)  # ids of jobs that workers have
    busy_keys: set[bytes] = field(default_factory=set)
    open: dict[int, None] = field(default_factory=dict)  # numbers of unfinished jobs, oldest first
    given: int = 0
    full: bool = False

    @property
    def span(self) -> int:
        """Return the number of messages from the oldest unfinished one."""
        return self.given - next(iter(self.open), self.given)


class WorkQueue(Generic[P, T]):
    """Queue of jobs.  cap: maximum per partition from its oldest unfinished message, at least 1; by_key: keep each
    key's order."""

    def __init__(self, cap: int, by_key: bool = False) -> None:
        if cap < 1:
            raise ValueError(f"{cap} messages per partition from the oldest unfinished one on: at least 1")
        self._cap = cap
        self._by_key = by_key
        self._queues: dict[P, _PartitionQueue[P, T]] = {}  # least recently taken from first

    def add(self, partition: P, item: T, key: bytes | None = None) -> bool:
        """Add a message.  Return True if its partition is full now, so that no more may be added for the time being."""
        queue = self._queues.setdefault(partition, _PartitionQueue())
        queue.waiting.append(Job(partition, item, key, queue.given))
        queue.open[queue.given] = None
        queue.given += 1
        if queue.full or queue.span < self._cap:
            return False
        queue.full = True
        return True

    def take(self, now: float) -> Job[P, T] | None:
        """Return the next message to work on, or None if none is ready."""
        for partition, queue in self._queues.items():
            job = self._ready(queue, now)
            if job is not None:
                queue.working.add(id(job))
                job.tries += 1
                if self._by_key and job.key is not None:
                    queue.busy_keys.add(job.key)
                self._queues[partition] = self._queues.pop(partition)  # to the end of the turns
                return job
        return None

    def _ready(self, queue: _PartitionQueue[P, T], now: float) -> Job[P, T] | None:
        behind: set[bytes] = set()  # keys with an earlier message that is not due yet
        for index, job in enumerate(queue.waiting):
            ordered = self._by_key and job.key is not None
            if ordered and (job.key in queue.busy_keys or job.key in behind):
                continue
            if job.not_before > now:
                if ordered and job.key is not None:
                    behind.add(job.key)
                continue
            del queue.waiting[index]
            return job
        return None

    def done(self, job: Job[P, T]) -> bool:
        """Finish a message.  Return True if its partition was full and is half empty now, so that more may be added.

        Half: of the cap, counted from the oldest unfinished message.
        """
        queue = self._put_down(job)
        if queue is None:
            return False
        del queue.open[job.number]
        if not queue.open:
            del self._queues[job.partition]
            return queue.full
        if queue.full and queue.span <= self._cap // 2:
            queue.full = False
            return True
        return False

    def retry(self, job: Job[P, T], not_before: float) -> None:
        """Schedule a message to be handled again at that time; a dropped one is ignored."""
        queue = self._put_down(job)
        if queue is not None:
            job.not_before = not_before
            queue.waiting.appendleft(job)

    def _put_down(self, job: Job[P, T]) -> _PartitionQueue[P, T] | None:
        queue = self._queues.get(job.partition)
        if job.dropped or queue is None or id(job) not in queue.working:
            return None
        queue.working.discard(id(job))
        if job.key is not None:
            queue.busy_keys.discard(job.key)
        return queue

    def drop(self, partitions: Iterable[P]) -> list[Job[P, T]]:
        """Revoke partitions: remove and return jobs that no worker has; the others may finish."""
        dropped: list[Job[P, T]] = []
        for partition in partitions:
            queue = self._queues.get(partition)
            if queue is None:
                continue
            for job in queue.waiting:
                job.dropped = True
                del queue.open[job.number]
            dropped += queue.waiting
            queue.waiting.clear()
            if not queue.working:
                del self._queues[partition]
        return dropped

    def partitions(self) -> list[P]:
        """Return the partitions with unfinished messages."""
        return list(self._queues)

    def unfinished(self, partition: P | None = None) -> int:
        """Return the number of messages that wait or are being handled, of one partition or of all."""
        queues = self._queues.values() if partition is None else [self._queues.get(partition, _PartitionQueue())]
        return sum(len(queue.open) for queue in queues)

    def wake_at(self, now: float) -> float | None:
        """Return when the next delayed message is due, or None."""
        later = [job.not_before for queue in self._queues.values() for job in queue.waiting if job.not_before > now]
        return min(later, default=None)
