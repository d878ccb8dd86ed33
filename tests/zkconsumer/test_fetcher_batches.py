"""A fetcher against a broker of 0.11 and later: record batches, transactions, entries that come whole."""

from __future__ import annotations

import math
import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from groundwork.queues import BoundedQueue
from groundwork.tasks import TaskGroup, now, sleep
from kafkawire.dialects import dialect
from kafkawire.formats.v2.layout import batch_at
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.session import Reply
from kafkawire.protocol import apis, requests08
from kafkawire.protocol.request import FetchedPartition
from tests.kafkawire.recordbatches import ABORT, COMMIT, TRANSACTIONAL, batch, marker, rows_of
from zkconsumer.engine.status import status_of
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.brokerfetcher import Fetcher
from zkconsumer.fetching.budget import Budget
from zkconsumer.fetching.fetchplan import FetchPlan
from zkconsumer.fetching.formatprobe import FormatWarnings
from zkconsumer.fetching.partitioncursor import Cursor, DeliveredSet
from zkconsumer.session.lease import Lease
from zkconsumer.streams.stream import Stream

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SPEAKS = dialect("3.9")
VERSION = requests08.LEADERS_FETCH


@dataclass
class Log:
    batches: list[bytes] = field(default_factory=list)
    stable: int | None = None  # the first offset of an open transaction
    aborted: tuple[tuple[int, int], ...] = ()

    @property
    def end(self) -> int:
        head = batch_at(self.batches[-1], 0) if self.batches else None
        return 0 if head is None else head.resume_at


class Modern:
    """A broker and the links to it: what it answers to Fetch as Kafka's ReplicaManager does."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {T0: Log(), T1: Log()}
        self.asked: list[dict[str, Any]] = []
        self.sent: deque[Any] = deque()

    def link(self, broker: Broker, purpose: str) -> Modern:
        return self

    def drop(self, broker: Broker, purpose: str) -> None: ...

    def send(self, request: Any) -> None:
        self.sent.append(request)

    def receive(self) -> Reply:
        request = self.sent.popleft()
        return Reply(request, self.call(request))

    def call(self, request: Any) -> list[FetchedPartition]:
        assert request.api is apis.FETCH
        asked = apis.FETCH.decode_request(VERSION, b"".join(request.buffers))
        self.asked.append(asked)
        left, first, rows = asked["max_bytes"], True, []
        for topic in asked["topics"]:
            for row in topic["partitions"]:
                tp = TopicPartition(topic["topic"], row["partition"])
                log, most = self.logs[tp], min(row["max_bytes"], left)
                until = log.end if log.stable is None or not asked["isolation_level"] else log.stable
                data = b""
                for one in log.batches:
                    head = batch_at(one, 0)
                    assert head is not None
                    if head.last_offset < row["fetch_offset"] or head.base_offset >= until:
                        continue
                    if len(data) + len(one) > most and (data or not first):
                        break
                    data += one
                first &= not data
                left = max(0, left - len(data))
                stable = log.end if log.stable is None else log.stable
                rows.append(FetchedPartition(tp, 0, log.end, memoryview(data), stable, 0, log.aborted))
        if first:
            sleep(0.01)  # it waits for data
        return rows


class Fetching:
    def __init__(self, broker: Modern, fetch_bytes: int = 4096, committed: bool = True) -> None:
        self.events: list[ConsumerEvent] = []
        self.budget = Budget(1 << 20, lambda: self.fetcher.wake())
        self.lease = Lease()
        self.lease.valid_until = math.inf
        self.channel: BoundedQueue[DeliveredSet] = BoundedQueue(1 << 20, queue.SimpleQueue())
        self.stream = Stream("t-0", self.channel, timeout_ms=0)
        self.tasks = TaskGroup()
        self.fetcher = Fetcher(
            Broker(1, "127.0.0.1", 9092),
            links=broker,  # type: ignore[arg-type]
            dialect=SPEAKS,
            plan=FetchPlan(fetch_bytes, fetch_bytes, min_bytes=16),
            budget=self.budget,
            max_wait_ms=20,
            min_bytes=1,
            backoff_s=0.01,
            finder=self,
            located=lambda cursors: None,
            on_event=self.events.append,
            spawn=self.tasks.spawn,
            warnings=FormatWarnings(self.events.append, SPEAKS),
            committed=committed,
        )
        self.read: list[tuple[object, int]] = []

    def find_leaders(self, cursors: Iterable[Cursor], why: str) -> None:
        raise AssertionError(why)

    def lost(self, broker: Broker, tps: Iterable[TopicPartition], why: str, since: float) -> None:
        raise AssertionError(why)

    def answered(self, tps: Iterable[TopicPartition]) -> None: ...

    def start(self, *tps: TopicPartition) -> list[Cursor]:
        cursors = []
        for tp in tps:
            budget = self.budget.for_stream(1)
            cursor = Cursor(tp, "g-0", lease=self.lease, budget=budget, channel=self.channel)
            cursor.apply(cursor.partition.reset_to, 0)
            cursors.append(cursor)
            self.fetcher.add(cursor)
        self.tasks.spawn("fetcher", self.fetcher.run)
        return cursors

    def until(self, there: Callable[[], object]) -> None:
        end = now() + 5
        while not there():
            try:
                while True:
                    message = next(self.stream)
                    self.read.append((message.partition, message.offset))
            except ConsumerTimeout:
                pass
            assert self.tasks.death is None, self.tasks.death
            assert now() < end, f"waited in vain; {self.events}, {self.read}"
            sleep(0.005)

    def offsets(self, partition: int) -> list[int]:
        return [offset for of, offset in self.read if of == partition]


@pytest.fixture
def broker() -> Modern:
    return Modern()


@pytest.fixture
def fetching(broker: Modern, request: pytest.FixtureRequest) -> Iterator[Fetching]:
    made = Fetching(broker, **getattr(request, "param", {}))
    yield made
    made.tasks.stop(2)


def test_what_is_read_is_committed_and_the_lag_ends_where_a_transaction_is_open(
    broker: Modern, fetching: Fetching
) -> None:
    log = broker.logs[T0]
    log.batches = [
        batch(rows_of(0, 5), TRANSACTIONAL, producer=1), marker(5, 1, ABORT),
        batch(rows_of(6, 4), TRANSACTIONAL, producer=1), marker(10, 1, COMMIT),
        batch(rows_of(11, 3), TRANSACTIONAL, producer=2),
    ]  # fmt: skip
    log.aborted, log.stable = ((1, 0),), 11
    (cursor,) = fetching.start(T0)
    fetching.until(lambda: cursor.committable() == 11)
    assert fetching.offsets(0) == [6, 7, 8, 9]
    assert (
        status_of(cursor, now()).lag,
        cursor.partition.high_watermark,
        cursor.partition.position.offset,
        cursor.parked,
    ) == (0, 11, 11, None)
    assert {asked["isolation_level"] for asked in broker.asked} == {1}
    before = len(broker.asked)
    fetching.until(lambda: len(broker.asked) > before + 5)  # an open transaction is no reason to ask why nothing comes
    assert fetching.fetcher._blanks == {}
    log.batches.append(marker(14, 2, ABORT))
    log.aborted, log.stable = ((2, 11),), None
    fetching.until(lambda: cursor.committable() == 15)
    assert (fetching.offsets(0), status_of(cursor, now()).lag) == ([6, 7, 8, 9], 0)
    assert fetching.events == []  # nothing is lost, so nothing is said


@pytest.mark.parametrize("fetching", [{"committed": False}], indirect=True)
def test_all_messages_of_transactions_are_read_where_that_is_asked_for(broker: Modern, fetching: Fetching) -> None:
    log = broker.logs[T0]
    log.batches = [
        batch(rows_of(0, 5), TRANSACTIONAL, producer=1),
        marker(5, 1, ABORT),
        batch(rows_of(6, 4), producer=1),
    ]
    log.stable = 6
    (cursor,) = fetching.start(T0)
    fetching.until(lambda: cursor.committable() == 10)
    assert fetching.offsets(0) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert {asked["isolation_level"] for asked in broker.asked} == {0}


@pytest.mark.parametrize("fetching", [{"fetch_bytes": 1024}], indirect=True)
def test_a_large_batch_comes_whole_and_starves_no_neighbour(broker: Modern, fetching: Fetching) -> None:
    """Each request has room for a small part of one batch."""
    for tp in (T0, T1):
        broker.logs[tp].batches = [batch(rows_of(n, 10, b"x" * 1000)) for n in range(0, 50, 10)]
    cursors = fetching.start(T0, T1)
    fetching.until(lambda: all(cursor.committable() == 50 for cursor in cursors))
    assert fetching.offsets(0) == fetching.offsets(1) == list(range(50))
    assert [cursor.parked for cursor in cursors] == [None, None]
    assert {row["max_bytes"] for asked in broker.asked for topic in asked["topics"] for row in topic["partitions"]} == {
        1024
    }  # nothing is asked for by its size


def test_a_neighbour_that_always_has_messages_does_not_keep_a_large_batch_away(
    broker: Modern, fetching: Fetching
) -> None:
    broker.logs[T0].batches = [batch(rows_of(n, 1, b"y" * 3000)) for n in range(100)]
    broker.logs[T1].batches = [batch(rows_of(0, 10, b"x" * 1000))]
    _, second = fetching.start(T0, T1)
    fetching.until(lambda: second.committable() == 10)
    assert len(fetching.offsets(0)) < 100  # long before the neighbour is read to its end
