"""Intake of a flow: how much came in from each source partition, and how much of it is acknowledged.  Pure.

A set counts as acknowledged once all of it is.  Sets that are fetched again (after a pause, a reset) are counted as
incoming each time, and as acknowledged once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from kafkawire.model import MessageSet, TopicPartition


def messages_in(fetched: MessageSet) -> int:
    """Return how many messages a set has, by its offsets; this includes holes of a compacted topic.  Offsets of 0.7 are
    bytes, so entries are counted there, a wrapper as one."""
    return fetched.resume_at - fetched.start if isinstance(fetched.partition, int) else fetched.entries


def bytes_in(fetched: MessageSet) -> int:
    """Return the bytes of the set's entries; a fetch of 0.8 also brings the beginning of the next entry."""
    return sum(run.end - run.begin for run in fetched.runs)


class _Partition:
    __slots__ = ("bytes", "messages", "pending")

    def __init__(self) -> None:
        self.pending: deque[tuple[int, int, int]] = deque()  # resume_at, bytes, messages of each set
        self.bytes = 0
        self.messages = 0


class Intake:
    """Intake of one flow."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Partition] = {}

    def count(self, fetched: MessageSet) -> None:
        """Count a set that came in."""
        partition = self._partitions.get(fetched.tp)
        if partition is None:
            partition = self._partitions[fetched.tp] = _Partition()
        pending = partition.pending
        while pending and pending[-1][0] > fetched.start:
            pending.pop()  # fetched again
        pending.append((fetched.resume_at, bytes_in(fetched), messages_in(fetched)))

    def acknowledged(self, tp: TopicPartition, done: int | None) -> tuple[int, int]:
        """Return messages and bytes of the sets acknowledged so far.  `done`: everything before this offset is
        acknowledged."""
        partition = self._partitions.get(tp)
        if partition is None:
            return 0, 0
        pending = partition.pending
        while done is not None and pending and pending[0][0] <= done:
            _, nbytes, messages = pending.popleft()
            partition.bytes += nbytes
            partition.messages += messages
        return partition.messages, partition.bytes

    def keep(self, owned: Collection[TopicPartition]) -> None:
        """Forget all partitions that are not in `owned`."""
        if len(self._partitions) > len(owned) or not self._partitions.keys() <= set(owned):
            self._partitions = {tp: each for tp, each in self._partitions.items() if tp in owned}
