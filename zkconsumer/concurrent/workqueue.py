"""Which message a free worker takes next, of many partitions.  Pure: no thread, no clock; who calls holds the lock.

    turns      partitions in a circle, so that a full one does not starve the others
    cap        so many messages of one partition may have been given out from its oldest unfinished one on; then it is
               full, until it is down to half: one message that is stuck pauses its partition, and neither memory nor
               what a restart repeats (everything from that message on) grows
    by key     messages of one partition with the same key one after another; those without a key (null) as they come
    retries    a message that is tried again keeps its place for its key, and is not taken before its time

What was worked on is known by identity, so any object will do as an item.
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
    """One message on its way through the workers; tries: how often it was taken."""

    partition: P
    item: T
    key: bytes | None
    number: int  # in its partition
    not_before: float = 0.0
    tries: int = 0
    dropped: bool = False


@dataclass(slots=True)
class _Lane(Generic[P, T]):
    waiting: deque[Job[P, T]] = field(default_factory=deque)
    working: set[int] = field(default_factory=set)  # ids of jobs in the hands of workers
    busy_keys: set[bytes] = field(default_factory=set)
    open: dict[int, None] = field(default_factory=dict)  # numbers of unfinished jobs, the oldest first
    given: int = 0
    full: bool = False

    @property
    def span(self) -> int:
        """Messages from the oldest unfinished one on."""
        return self.given - next(iter(self.open), self.given)


class Workplan(Generic[P, T]):
    """cap: messages of a partition from its oldest unfinished one on, at least 1; by_key: keep each key's order."""

    def __init__(self, cap: int, by_key: bool = False) -> None:
        if cap < 1:
            raise ValueError(f"{cap} messages per partition from the oldest unfinished one on: at least 1")
        self._cap = cap
        self._by_key = by_key
        self._lanes: dict[P, _Lane[P, T]] = {}  # whoever was served last is last

    def add(self, partition: P, item: T, key: bytes | None = None) -> bool:
        """A message to be worked on.  True: its partition became full with it, give no more of it for now."""
        lane = self._lanes.setdefault(partition, _Lane())
        lane.waiting.append(Job(partition, item, key, lane.given))
        lane.open[lane.given] = None
        lane.given += 1
        if lane.full or lane.span < self._cap:
            return False
        lane.full = True
        return True

    def take(self, now: float) -> Job[P, T] | None:
        """The next message to work on; None: none is ready."""
        for partition, lane in self._lanes.items():
            job = self._ready(lane, now)
            if job is not None:
                lane.working.add(id(job))
                job.tries += 1
                if self._by_key and job.key is not None:
                    lane.busy_keys.add(job.key)
                self._lanes[partition] = self._lanes.pop(partition)  # to the end of the circle
                return job
        return None

    def _ready(self, lane: _Lane[P, T], now: float) -> Job[P, T] | None:
        behind: set[bytes] = set()  # keys whose earlier message waits for its time
        for index, job in enumerate(lane.waiting):
            ordered = self._by_key and job.key is not None
            if ordered and (job.key in lane.busy_keys or job.key in behind):
                continue
            if job.not_before > now:
                if ordered and job.key is not None:
                    behind.add(job.key)
                continue
            del lane.waiting[index]
            return job
        return None

    def done(self, job: Job[P, T]) -> bool:
        """A message is finished.  True: its partition was full and is half empty now, more of it may come.

        Half: of the cap, counted from the oldest unfinished one on.
        """
        lane = self._put_down(job)
        if lane is None:
            return False
        del lane.open[job.number]
        if not lane.open:
            del self._lanes[job.partition]
            return lane.full
        if lane.full and lane.span <= self._cap // 2:
            lane.full = False
            return True
        return False

    def again(self, job: Job[P, T], not_before: float) -> None:
        """A message has to be worked on once more, from then on; of one that was dropped nobody wants to know."""
        lane = self._put_down(job)
        if lane is not None:
            job.not_before = not_before
            lane.waiting.appendleft(job)

    def _put_down(self, job: Job[P, T]) -> _Lane[P, T] | None:
        lane = self._lanes.get(job.partition)
        if job.dropped or lane is None or id(job) not in lane.working:
            return None
        lane.working.discard(id(job))
        if job.key is not None:
            lane.busy_keys.discard(job.key)
        return lane

    def drop(self, partitions: Iterable[P]) -> list[Job[P, T]]:
        """These partitions leave: what nobody has begun is forgotten and given back, what is worked on may end."""
        dropped: list[Job[P, T]] = []
        for partition in partitions:
            lane = self._lanes.get(partition)
            if lane is None:
                continue
            for job in lane.waiting:
                job.dropped = True
                del lane.open[job.number]
            dropped += lane.waiting
            lane.waiting.clear()
            if not lane.working:
                del self._lanes[partition]
        return dropped

    def partitions(self) -> list[P]:
        """Those with messages that are not done."""
        return list(self._lanes)

    def unfinished(self, partition: P | None = None) -> int:
        """Messages that wait or are worked on, of one partition or of all."""
        lanes = self._lanes.values() if partition is None else [self._lanes.get(partition, _Lane())]
        return sum(len(lane.open) for lane in lanes)

    def wake_at(self, now: float) -> float | None:
        """When the next message that waits for its time is due; None: none does."""
        later = [job.not_before for lane in self._lanes.values() for job in lane.waiting if job.not_before > now]
        return min(later, default=None)
