"""A reader in its own thread beside one who pauses and resumes all the time: nothing is left out or repeated."""

from __future__ import annotations

import math
import queue
import random
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from groundwork.queues import BoundedQueue
from kafkawire.formats.v01 import columns as indexing
from kafkawire.formats.v01 import messages
from kafkawire.model import MessageSet, TopicPartition
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.fetching.budget import Budget
from zkconsumer.fetching.partitioncursor import Cursor, DeliveredSet
from zkconsumer.session.lease import Lease
from zkconsumer.streams.stream import Stream

TP = TopicPartition("orders", 3)
COUNT = 150
LIMIT_S = 20


@pytest.fixture(autouse=True)
def short_turns(monkeypatch) -> Iterator[None]:
    """Threads change places all the time, and sets make several batches."""
    monkeypatch.setattr(MessageSet, "pieces", lambda fetched, check=True: indexing.pieces(fetched, check, 120))
    before = sys.getswitchinterval()
    sys.setswitchinterval(2e-6)
    yield
    sys.setswitchinterval(before)


def a_set(start: int, count: int) -> MessageSet:
    data = messages.encode([(start + n, None, b"twenty bytes of text", None) for n in range(count)])
    return messages.message_set(*TP, start, memoryview(data), 1000)[0]


class Reading(threading.Thread):
    """Reads messages or batches, or now these and then those."""

    def __init__(self, stream: Stream, delivery: str, what: str, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.got: list[int] = []
        self.over = False
        self.error: BaseException | None = None
        self._stream, self._delivery, self._what, self._rng = stream, delivery, what, rng

    def run(self) -> None:
        batches = self._stream.batches()
        while not self.over:
            try:
                what = self._rng.choice(["messages", "batches"]) if self._what == "both" else self._what
                if what == "messages":
                    one = next(self._stream)
                    self.got.append(one.offset)
                else:
                    one = next(batches)
                    self.got.extend(one.offsets)
                if self._delivery == "on-ack":
                    one.ack()
            except ConsumerTimeout:
                pass
            except BaseException as e:
                self.error = e
                return


@pytest.mark.parametrize("delivery", ["at-least-once", "on-ack", "at-most-once"])
@pytest.mark.parametrize("what", ["messages", "batches", "both"])
def test_pauses_at_any_moment_leave_nothing_out_and_repeat_nothing(what, delivery):
    for seed in range(3):
        rng = random.Random(seed)
        lease, budget = Lease(), Budget(1_000_000)
        lease.valid_until = math.inf
        channel: BoundedQueue[DeliveredSet] = BoundedQueue(1_000_000, queue.SimpleQueue())
        commit = (lambda tp, at: None) if delivery == "at-most-once" else None
        stream = Stream("orders-0", channel, timeout_ms=10, delivery=delivery, commit=commit)
        cursor = Cursor(TP, "g-0", lease=lease, budget=budget.for_stream(1), channel=channel)
        cursor.apply(cursor.partition.reset_to, 0)
        reading = Reading(stream, delivery, what, rng)
        reading.start()
        until = time.monotonic() + LIMIT_S
        while len(reading.got) < COUNT and reading.error is None and time.monotonic() < until:
            cursor.apply(rng.choice([cursor.partition.pause, cursor.partition.resume]))
            if cursor.partition.refetch_due:
                cursor.apply(cursor.partition.refetch_withheld)  # as the engine's timer does
            while (at := cursor.partition.fetch_offset) is not None and at < COUNT:
                cursor.enqueue(a_set(at, min(rng.choice([1, 7, 12]), COUNT - at)), 10)
        reading.over = True
        reading.join(5)
        assert reading.error is None
        assert reading.got == list(range(COUNT)), (seed, cursor)
