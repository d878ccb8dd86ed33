"""Intake of a flow: what came in of each source partition, and how much of that is acknowledged.  Pure.

A set counts as acknowledged once all of it is.  What is fetched again (after a pause, a reset) is counted again as it
comes, and once as acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from kafkawire.model import MessageSet, TopicPartition


def messages_in(fetched: MessageSet) -> int:
    """How many messages a set has, by its offsets: holes of a compacted topic count, too.  Offsets of 0.7 are bytes:
    there its entries are counted, a wrapper as one."""
    return fetched.resume_at - fetched.start if isinstance(fetched.partition, int) else fetched.entries


def bytes_in(fetched: MessageSet) -> int:
    """The bytes of its entries; a fetch of 0.8 also brings the beginning of the next one."""
    return sum(run.end - run.begin for run in fetched.runs)


class _Partition:
    __slots__ = ("bytes", "messages", "pending")

    def __init__(self) -> None:
        self.pending: deque[tuple[int, int, int]] = deque()  # resume_at, bytes, messages of each set
        self.bytes = 0
        self.messages = 0


class Intake:
    """The intake of one flow."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Partition] = {}

    def count(self, fetched: MessageSet) -> None:
        """A set came in."""
        partition = self._partitions.get(fetched.tp)
        if partition is None:
            partition = self._partitions[fetched.tp] = _Partition()
        pending = partition.pending
        while pending and pending[-1][0] > fetched.start:
            pending.pop()  # it is fetched again
        pending.append((fetched.resume_at, bytes_in(fetched), messages_in(fetched)))

    def acknowledged(self, tp: TopicPartition, done: int | None) -> tuple[int, int]:
        """Messages and bytes of the sets that are acknowledged so far; done: everything before it is."""
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
        """Forget all other partitions."""
        if len(self._partitions) > len(owned) or not self._partitions.keys() <= set(owned):
            self._partitions = {tp: each for tp, each in self._partitions.items() if tp in owned}
