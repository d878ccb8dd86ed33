"""Status of the owned partitions, and the events of those that are parked."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from kafkawire.model import PartitionId, TopicPartition
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.cursor import Cursor
from zkconsumer.fetching.progress import Parked

END_OLD_S = 10.0  # a broker that answers sends the end of a log twice as often


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One owned partition.  state is starting, looking for leader, reading, paused, throttled, parked or leaving.

    position: the next one to fetch; done: everything before it is done; committed: what the store has.  high_watermark:
    the end of what can be read, as of the last fetch, or as its leader was asked (where there was no fetch for a few
    seconds, and with 0.7); lag: from done to there.  Positions count messages, those of 0.7 bytes; the lag does as they
    do.  None: not known (yet); so are high_watermark and lag once no broker has sent the end for END_OLD_S seconds.
    buffered_bytes: fetched and not done; waiting_bytes: as many where none of them was done for a second, else 0.
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
    """The row of a cursor at a moment."""
    done, parked, position = cursor.committable(), cursor.parked, cursor.position
    end = cursor.high_watermark if at - cursor.end_known_at <= END_OLD_S else None
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
        buffered_bytes=cursor.buffered_bytes,
        parked=parked,
        waiting_bytes=cursor.holding.waiting_bytes(at),
    )


class StatusRows:
    """The rows of cursors, in order; the same object for one that rests as the last time: its state did not change."""

    def __init__(self) -> None:
        self._cursors: list[Cursor] = []  # as they were given the last time
        self._sorted: list[Cursor] = []
        self._rested: list[tuple[int, PartitionStatus] | None] = []  # of each, with its changes until then

    def of(self, cursors: Iterable[Cursor], at: float) -> list[PartitionStatus]:
        """Their rows at a moment."""
        given = list(cursors)
        if given != self._cursors:
            self._cursors = given
            self._sorted = sorted(given, key=lambda c: (c.tp.topic, str(c.tp.partition).zfill(10)))
            self._rested = [None] * len(given)
        old = at - END_OLD_S
        rows: list[PartitionStatus] = []
        for n, (cursor, known) in enumerate(zip(self._sorted, self._rested, strict=True)):
            rest = cursor.rest
            if known is None or rest is None or known[0] != cursor.changes or rest.answered_at < old:
                known = cursor.changes, status_of(cursor, at)
                self._rested[n] = known if rest is not None and cursor.end_known_at >= old else None
            rows.append(known[1])
        return rows


def _state(cursor: Cursor, parked: str | None, position: int | None) -> str:
    if cursor.closing:
        return "leaving"
    if parked is not None:
        return "parked"
    if cursor.paused:
        return "paused"
    if not cursor.has_leader:
        return "looking for leader"
    if cursor.fetch_limit == 0:
        return "throttled"
    return "starting" if position is None and cursor.progress is None else "reading"


class Parkable(Protocol):
    """A cursor as far as it is needed here."""

    @property
    def tp(self) -> TopicPartition: ...

    @property
    def parked(self) -> str | None: ...

    @property
    def parked_at(self) -> Parked | None: ...

    def committable(self) -> int | None: ...


class ParkedReports:
    """Events of parked partitions: once when one is parked, once when it gets past the place, no retry in between."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._reported: dict[TopicPartition, tuple[str, int | None]] = {}  # the reason, and where it stands

    @property
    def known(self) -> Collection[TopicPartition]:
        """Those that are parked, or have not got past the place yet."""
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
                # What was on its way before the place may be done later: that is no flowing.
                place = cursor.parked_at
                at = done if place is None else place.position
                found = was is not None and place is not None and was[1] != at  # behind where it was taken to be
                if was is None or was[0] != reason or found:
                    self._on_event(ConsumerEvent("parked", _sentence(tp, reason), tp, offset=at))
                self._reported[tp] = (reason, at)
            elif was is not None and done is not None and (was[1] is None or done > was[1]):
                text = f"{tp} flows again; it stood still at {was[1]}" if was[1] is not None else f"{tp} flows again"
                self._on_event(ConsumerEvent("flows", text, tp, offset=done))
            elif was is not None:
                self._reported[tp] = was  # being retried


def _sentence(tp: TopicPartition, reason: str) -> str:
    return reason if reason.startswith(str(tp)) else f"{tp}: {reason}"
