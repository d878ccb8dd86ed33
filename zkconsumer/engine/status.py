"""What a connector says about the partitions it owns."""

from __future__ import annotations

from dataclasses import dataclass

from kafkawire.model import PartitionId, TopicPartition
from zkconsumer.fetching.cursor import Cursor
from zkconsumer.offsets.modes import Mode, StoreCommit

END_OLD_S = 10.0  # a broker that answers tells the end of a log twice as often


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One owned partition.  state is starting, looking for leader, reading, paused, parked or leaving.

    position: the next one to fetch; done: everything before it is done; committed: what the store has.  high_watermark:
    the end of what can be read, as of the last fetch, or as its leader was asked (where there was no fetch for a few
    seconds, and with 0.7); lag: from done to there.  Positions count messages, those of 0.7 bytes; the lag does as they
    do.  None: not known (yet); so are high_watermark and lag once no broker has told the end for END_OLD_S seconds.
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

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """What became of the offsets that were given to one store: zookeeper or kafka; counted one by one.

    last: its last commit of which anything was accepted.
    """

    store: str
    accepted: int
    failed: int
    last: StoreCommit | None


@dataclass(frozen=True, slots=True)
class OffsetsStatus:
    """Where a member of a group commits to."""

    mode: Mode
    stores: tuple[StoreStatus, ...]


def status_of(cursor: Cursor, fetched: bool, at: float) -> PartitionStatus:
    """The row of a cursor at a moment; fetched: a fetcher has it."""
    end_known = at - cursor.end_told_at <= END_OLD_S
    return PartitionStatus(
        cursor.tp.topic,
        cursor.tp.partition,
        cursor.thread,
        _state(cursor, fetched),
        cursor.position,
        cursor.committable(),
        cursor.committed,
        cursor.high_watermark if end_known else None,
        cursor.lag if end_known else None,
        cursor.buffered_bytes,
        cursor.parked,
    )


def _state(cursor: Cursor, fetched: bool) -> str:
    if cursor.closing:
        return "leaving"
    if cursor.parked is not None:
        return "parked"
    if cursor.paused:
        return "paused"
    if not fetched:
        return "looking for leader"
    return "starting" if cursor.position is None else "reading"
