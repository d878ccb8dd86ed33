"""How the simulation drives a partition's delivery state, in one place: what fetchers, streams and senders do to it.

    fetch -> enqueue -> take -> tickets of a message or two -> may_send? -> stored by the broker -> done, in any order

Everything else of the simulation knows a partition as `Cursor` of zkconsumer.fetching through the functions here:
`make`, `may_send`, and `Reader`, which stands for Fetchers as the assignment knows them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from groundwork.clocks import Moment
from kafkawire.model import TopicPartition
from tests.simulation.process import Process
from zkconsumer.fetching.budget import Budget, StreamBudget
from zkconsumer.fetching.committable import DeliveryTicket
from zkconsumer.fetching.partitioncursor import Cursor, DeliveredSet
from zkconsumer.session.lease import Lease

FETCHED_AT_ONCE = 6  # messages
UNDONE = 24  # messages, fetched and not done: then nothing more is asked for
FETCH_S, HAND_ON_S, STORE_S = 0.03, 0.6, 0.25  # at most
AGAIN_S = 0.3


@dataclass(eq=False)
class Log:
    """One partition at its broker.  Positions are offsets from 0 on; waiting: called when there is news."""

    end: int = 0
    up: bool = True
    waiting: list[Callable[[], object]] = field(default_factory=list)

    def news(self) -> None:
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call()


@dataclass(frozen=True, slots=True)
class FetchedSet:
    """As much of a message set as delivery asks for."""

    start: int
    resume_at: int
    high_watermark: int | None


class Observer(Protocol):
    """Who watches over the promises.  begun: a partition is read from a position, right after its claim."""

    def begun(self, reader: Reader, tp: TopicPartition, position: int) -> None: ...
    def sent(self, reader: Reader, tp: TopicPartition) -> None: ...
    def stored(self, tp: TopicPartition, begin: int, end: int) -> None: ...


def make(tp: TopicPartition, thread: str, reset: str, *, lease: Lease, budget: StreamBudget, channel: Any) -> Cursor:
    return Cursor(tp, thread, lease=lease, budget=budget, channel=channel, reset=reset)


def may_send(cursor: Cursor, moment: Moment) -> bool:
    """Whether something of it could be sent at this moment; asking changes nothing."""
    return not cursor.dropped and cursor.partition.progress is not None and cursor.lease.holds(moment)


class Reader:
    """Fetchers, streams and senders of one member."""

    def __init__(
        self, *, process: Process, rng: Random, logs: dict[TopicPartition, Log], observer: Observer, lease: Lease
    ) -> None:
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.lease = lease
        self.process = process
        self._rng = rng
        self._logs = logs
        self._observer = observer
        self._budget = Budget(1 << 30).for_stream(1)
        self._queue: deque[DeliveredSet] = deque()

    def make(self, tp: TopicPartition, thread: str, reset: str) -> Cursor:
        return make(tp, thread, reset, lease=self.lease, budget=self._budget, channel=self)

    def may_send(self, tp: TopicPartition) -> bool:
        cursor = self.cursors.get(tp)
        return cursor is not None and may_send(cursor, self.process.moment())

    # Fetchers, as the assignment knows them -----------------------------------------------------------------------

    def add(self, cursors: Iterable[Cursor]) -> None:
        for cursor in cursors:
            cursor.apply(cursor.partition.lead, True)
            position = cursor.partition.position
            if position.offset is None:
                cursor.apply(cursor.partition.reset_to, 0)  # the log begins there, and so says auto.offset.reset
            assert position.offset is not None
            self._observer.begun(self, cursor.tp, position.offset)
            self._fetch(cursor)

    def remove(self, tps: Collection[TopicPartition]) -> None:
        pass  # a cursor that is closed is not fetched

    def refresh(self) -> None:
        pass

    def _fetch(self, cursor: Cursor) -> None:
        if cursor.closing or cursor.dropped:
            return
        if cursor.partition.refetch_due and cursor.lease.holds(self.process.moment()):
            cursor.apply(cursor.partition.refetch_withheld)
        log, position = self._logs[cursor.tp], cursor.partition.fetch_offset
        if position is None or cursor.partition.buffered_bytes >= UNDONE:
            self.process.after(AGAIN_S, self._fetch, cursor)
        elif not log.up or position >= log.end:
            log.waiting.append(lambda: self.process.hears(FETCH_S * self._rng.random(), self._fetch, cursor))
        else:
            upto = min(log.end, position + self._rng.randint(1, FETCHED_AT_ONCE))
            fetched = FetchedSet(position, upto, log.end)
            self.process.hears(FETCH_S * self._rng.random(), self._fetched, cursor, cursor.partition.epoch, fetched)

    def _fetched(self, cursor: Cursor, epoch: int, fetched: FetchedSet) -> None:
        if cursor.partition.epoch == epoch and cursor.partition.fetch_offset == fetched.start:
            cursor.enqueue(fetched, fetched.resume_at - fetched.start)  # type: ignore[arg-type]
        self._fetch(cursor)

    # the queue of a stream ----------------------------------------------------------------------------------------

    def put(self, delivered: DeliveredSet, _: int) -> None:
        self._queue.append(delivered)
        self.process.after(FETCH_S * self._rng.random(), self._hand_on)

    def drop(self, which: Callable[[DeliveredSet], bool]) -> list[DeliveredSet]:
        gone = [delivered for delivered in self._queue if which(delivered)]
        self._queue = deque(delivered for delivered in self._queue if not which(delivered))
        return gone

    def _hand_on(self) -> None:
        if not self._queue:
            return
        delivered = self._queue.popleft()
        cursor = delivered.cursor
        if not cursor.under_lease(cursor.partition.taken, delivered):
            self._recover(cursor)
            return
        at, end = delivered.message_set.start, delivered.message_set.resume_at
        while at < end:
            to = min(end, at + self._rng.randint(1, 2))
            ticket = delivered.ticket(to)
            self.process.after(HAND_ON_S * self._rng.random() ** 3, self._send, cursor, ticket, at, to)
            at = to

    def _recover(self, cursor: Cursor) -> None:
        if cursor.partition.refetch_due and not cursor.dropped:
            self.process.after(AGAIN_S, self._fetch, cursor)

    # a sender -----------------------------------------------------------------------------------------------------

    def _send(self, cursor: Cursor, ticket: DeliveryTicket, begin: int, end: int) -> None:
        if not ticket.may_send():
            ticket.drop()
            self._recover(cursor)
            return
        self._observer.sent(self, cursor.tp)
        took_s = STORE_S * self._rng.random() ** 2
        self.process.timeline.after(took_s, self._observer.stored, cursor.tp, begin, end)
        self.process.hears(took_s + 0.001, ticket.done)
