"""The first message of a time, where the cluster's own answer is only as fine as a segment file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkawire.errors import LinkLost
from kafkawire.model import MessageSet, TopicPartition
from kafkawire.protocol.request import FetchedPartition
from sparkpipeline.errors import CorruptData, MessageTooLarge, NoLeader, OffsetOutOfRange, Refused
from zkconsumer.refusals import OffsetOutOfRange as Gone
from zkconsumer.refusals import refusal

if TYPE_CHECKING:
    from sparkpipeline.cluster.brokers import Brokers

PURPOSE = "times"
FETCH_BYTES = 1024 * 1024
MOST_FETCH_BYTES = 64 * 1024 * 1024


def refined(brokers: Brokers, tp: TopicPartition, at: int, time_ms: int, until: int) -> int:
    """The first offset from `at` on that may be of time_ms (ms since 1970) or later; until where there is none.

    Reads forward.  A message without a timestamp (format v0) cannot be called older: reading ends there, so that in a
    log of 0.9 the answer is `at` itself after one fetch.  Raises OffsetOutOfRange, NoLeader, MessageTooLarge,
    CorruptData.
    """
    for message_set in _sets(brokers, tp, at, until):
        for columns in message_set.pieces():
            times = columns.timestamps_ms
            for n, offset in enumerate(columns.offsets):
                if offset >= until:
                    return until
                if times is None or times[n] < 0 or times[n] >= time_ms:
                    return offset
            if columns.damage is not None:
                raise CorruptData(str(columns.damage), topic=tp.topic, partition=tp.partition)
    return until


def _sets(brokers: Brokers, tp: TopicPartition, at: int, until: int) -> Iterator[MessageSet]:
    """Consecutive sets from `at` on, until one reaches `until` or the log ends."""
    size = FETCH_BYTES
    while at < until:
        row = fetched(brokers, tp, at, size)
        message_set, scan = brokers.dialect.messages.message_set(
            tp.topic, tp.partition, at, row.buffer, row.high_watermark
        )
        if message_set.resume_at > at:
            yield message_set
            at = message_set.resume_at
        elif scan.damage is not None:
            raise CorruptData(str(scan.damage), **_where(tp, at))
        elif not len(row.buffer) and ((row.high_watermark or 0) <= at or size >= MOST_FETCH_BYTES):
            return  # `until` lies beyond the end of the log: nothing there is of that time yet
        elif size >= MOST_FETCH_BYTES:
            raise MessageTooLarge(f"does not fit into {size} bytes", **_where(tp, at))
        else:
            size = min(max(size * 2, scan.needed), MOST_FETCH_BYTES)


def fetched(brokers: Brokers, tp: TopicPartition, at: int, size: int) -> FetchedPartition:
    """One fetch of at most `size` bytes, asked again of another leader where that may help.

    Raises OffsetOutOfRange, Refused, NoLeader, and as Brokers.leader."""
    d = brokers.dialect
    afresh, why = False, ""
    for _ in brokers.attempts(brokers.access.election_ms / 1000):
        broker = brokers.leader(tp, afresh)
        try:
            row: FetchedPartition
            (row,) = brokers.link(broker, PURPOSE).call(d.requests.fetch(d, 0, 0, [(tp, at, size)]))
        except LinkLost as lost:
            afresh, why = True, str(lost)
            continue
        if row.error == 0:
            return row
        refused = refusal(row.error, broker, tp, at)
        if isinstance(refused, Gone):
            raise OffsetOutOfRange(str(refused), **_where(tp, at), broker=f"{broker.host}:{broker.port}")
        if not refused.retriable:
            raise Refused(str(refused), **_where(tp, at))
        afresh, why = True, str(refused)
    raise NoLeader(f"its leader does not answer: {why}", **_where(tp, at))


def _where(tp: TopicPartition, at: int) -> dict[str, object]:
    return {"topic": tp.topic, "partition": tp.partition, "offset": at}
