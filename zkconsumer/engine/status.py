"""Status of the owned partitions, and the events of parked ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from kafkawire.model import PartitionId, TopicPartition
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.committable import Parked
from zkconsumer.fetching.partitioncursor import Cursor

END_OLD_S = 10.0  # twice the interval at which an answering broker sends the end of a log

_RestState = tuple[int, int | None, bool]  # of a cursor: the row of a resting one stays the same while this does


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One owned partition.  state is starting, looking for leader, reading, paused, throttled, parked or leaving.

    position: the next offset to fetch; done: everything before it is done; committed: the offset in the store.
    high_watermark: the end of what can be read, from the last fetch, or from a request to the leader (after a few
    seconds without a fetch, and with 0.7); lag: from done to there.  Offsets and lag count messages, or bytes for 0.7.
    None: not known yet; high_watermark and lag are also None if no broker has sent the end for END_OLD_S seconds.
    buffered_bytes: fetched and not done; waiting_bytes: the same bytes if none of them was done for a second, else 0.
    """

    topic: str
    partition: PartitionId
    owner: str
    state: str
    position: int | None
    done: int | None
    committed: int | None
    high_watermark: int | None
    lag: int | None
    buffered_bytes: int
    parked: str | None
    waiting_bytes: int = 0

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def status_of(cursor: Cursor, at: float) -> PartitionStatus:
    """Return the row of a cursor at a moment."""
    partition, parked = cursor.partition, cursor.parked
    done, position = cursor.committable(), partition.position.offset
    end = partition.high_watermark if at - cursor.end_known_at <= END_OLD_S else None
    return PartitionStatus(
        topic=cursor.tp.topic,
        partition=cursor.tp.partition,
        owner=cursor.thread,
        state=_state(cursor, parked, position),
        position=position,
        done=done,
        committed=cursor.committed,
        high_watermark=end,
        lag=None if done is None or end is None else max(0, end - done),
        buffered_bytes=partition.buffered_bytes,
        parked=parked,
        waiting_bytes=cursor.holding.waiting_bytes(at),
    )


class StatusRows:
    """Rows of cursors, in order; a resting cursor returns the same object as last time, because its state did not
    change."""

    def __init__(self) -> None:
        self._cursors: list[Cursor] = []  # the cursors of the last call
        self._sorted: list[Cursor] = []
        self._rested: list[tuple[_RestState, PartitionStatus] | None] = []

    def of(self, cursors: Iterable[Cursor], at: float) -> list[PartitionStatus]:
        """Return the rows of cursors at a moment."""
        given = list(cursors)
        if given != self._cursors:
            self._cursors = given
            self._sorted = sorted(given, key=lambda c: (c.tp.topic, str(c.tp.partition).zfill(10)))
            self._rested = [None] * len(given)
        old = at - END_OLD_S
        rows: list[PartitionStatus] = []
        for n, (cursor, known) in enumerate(zip(self._sorted, self._rested, strict=True)):
            rest = cursor.rest
            state = cursor.rests, cursor.committed, cursor.partition.topic_deleted
            if known is None or rest is None or known[0] != state or rest.answered_at < old:
                known = state, status_of(cursor, at)
                self._rested[n] = known if rest is not None and cursor.end_known_at >= old else None
            rows.append(known[1])
        return rows


def _state(cursor: Cursor, parked: str | None, position: int | None) -> str:
    if cursor.closing:
        return "leaving"
    if parked is not None:
        return "parked"
    partition = cursor.partition
    if partition.paused:
        return "paused"
    if not partition.has_leader:
        return "looking for leader"
    if partition.fetch_limit == 0:
        return "throttled"
    return "starting" if position is None and partition.progress is None else "reading"


class ParkablePartition(Protocol):
    """Interface of a partition, reduced to what is needed here."""

    @property
    def parked_at(self) -> Parked | None: ...


class Parkable(Protocol):
    """Interface of a cursor, reduced to what is needed here."""

    @property
    def tp(self) -> TopicPartition: ...

    @property
    def partition(self) -> ParkablePartition: ...

    @property
    def parked(self) -> str | None: ...

    def committable(self) -> int | None: ...


class ParkedReports:
    """Events of parked partitions: one when it is parked, one when it gets past that offset; none for retries in
    between."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._reported: dict[TopicPartition, tuple[str, int | None]] = {}  # the reason, and the offset

    @property
    def known(self) -> Collection[TopicPartition]:
        """Return partitions that are parked, or have not got past that offset yet."""
        return self._reported.keys()

    def update(self, cursors: Iterable[Parkable]) -> None:
        """Report what changed.  A cursor that is left out is not owned any more, and forgotten."""
        before, self._reported = self._reported, {}
        for cursor in cursors:
            tp, reason = cursor.tp, cursor.parked
            was = before.get(tp)
            if reason is None and was is None:
                continue
            done = cursor.committable()
            if reason is not None:
                # Messages in flight before the parked offset may still finish; that does not mean the partition is
                # moving again.
                place = cursor.partition.parked_at
                at = done if place is None else place.position
                found = was is not None and place is not None and was[1] != at  # parked behind the reported offset
                if was is None or was[0] != reason or found:
                    self._on_event(ConsumerEvent("parked", _sentence(tp, reason), tp, offset=at))
                self._reported[tp] = (reason, at)
            elif was is not None and done is not None and (was[1] is None or done > was[1]):
                text = f"{tp} flows again; it was parked at {was[1]}" if was[1] is not None else f"{tp} flows again"
                self._on_event(ConsumerEvent("flows", text, tp, offset=done))
            elif was is not None:
                self._reported[tp] = was  # being retried


def _sentence(tp: TopicPartition, reason: str) -> str:
    return reason if reason.startswith(str(tp)) else f"{tp}: {reason}"
