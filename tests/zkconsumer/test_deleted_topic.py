"""A topic that is deleted while messages of it are in memory: no log holds them, so they are still delivered."""

from __future__ import annotations

import math
import queue
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

from groundwork.queues import BoundedQueue
from groundwork.tasks import TaskGroup, sleep
from kafkawire.formats.v01 import messages as v08
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.budget import Budget
from zkconsumer.fetching.partitioncursor import Cursor, DeliveredSet
from zkconsumer.listeners import NO_LISTENER
from zkconsumer.member.ownership import OwnedPartitions
from zkconsumer.session.lease import Lease
from zkconsumer.streams.stream import Stream

TP = TopicPartition("gone", 0)
NOBODY: Any = None


class Owned:
    """One owned partition of a deleted topic, with five messages in the queue of its stream."""

    def __init__(self, drain_ms: int) -> None:
        self.events: list[ConsumerEvent] = []
        budget = Budget(65536, lambda: None)
        channel: BoundedQueue[DeliveredSet] = BoundedQueue(1 << 20, queue.SimpleQueue())
        self.stream = Stream("gone-0", channel, timeout_ms=50)
        lease = Lease()
        lease.valid_until = math.inf
        self.cursor = Cursor(TP, "g-0", lease=lease, budget=budget.for_stream(1), channel=channel)
        self.cursor.apply(self.cursor.partition.reset_to, 10)
        self.cursor.apply(self.cursor.partition.lead, True)
        entries = v08.encode([(10 + n, None, b"v%d" % n, None) for n in range(5)])
        self.cursor.enqueue(v08.message_set("gone", 0, 10, memoryview(entries), 15)[0], len(entries))
        self.cursor.apply(self.cursor.partition.delete_topic)
        self.owned = OwnedPartitions(
            cursors={TP: self.cursor},
            fetchers=self,  # type: ignore[arg-type]  # what is called of them
            commits=NOBODY,
            store=NOBODY,
            make_cursor=NOBODY,
            config=SimpleNamespace(rebalance_drain_ms=drain_ms, auto_commit=False),  # type: ignore[arg-type]
            listener=NO_LISTENER,
            on_event=self.events.append,
        )

    def read(self) -> list[bytes | None]:
        found = []
        try:
            while True:
                found.append(next(self.stream).value)
        except ConsumerTimeout:
            return found

    def remove(self, tps: Collection[TopicPartition]) -> None:
        self.cursor.apply(self.cursor.partition.lead, False)

    def revoke(self) -> None:
        self.owned.stop([TP])
        self.owned.drain([TP], closing=False)
        self.owned.commit([TP])


def test_what_was_fetched_of_a_deleted_topic_is_delivered_before_it_is_revoked() -> None:
    owned, tasks = Owned(drain_ms=10_000), TaskGroup()
    revoking = tasks.spawn("revoke", owned.revoke)
    sleep(0.05)  # as a rebalance that is at work already
    read = owned.read()
    revoking.join()
    assert read == [b"v0", b"v1", b"v2", b"v3", b"v4"]
    assert (owned.events, owned.cursor.dropped) == ([], True)


def test_what_is_not_done_of_a_deleted_topic_in_time_is_counted() -> None:
    owned = Owned(drain_ms=0)
    owned.revoke()
    [gap] = owned.events
    assert (gap.kind, gap.tp, gap.count) == ("gap", TP, 5)
