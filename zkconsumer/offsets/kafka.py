"""Offsets in Kafka: the topic __consumer_offsets, written by the group's coordinator (0.8.2 and later).

Every partition it is given is committed, moved or not: a broker forgets an offset that is not committed again for
offsets.retention.minutes, a day by default, and an idle partition must not lose its position (KAFKA-1510).

Each commit names, in its metadata, the topic that was read (offsets/former.py): by that a FormerOffset is known.  A
commit without it has a time, which only the records of __consumer_offsets hold (`commit_times`).

In the hub the Coordinator waits with groundwork.tasks's sleep and now and has its lock; elsewhere it is plain.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

from kafkawire.errors import WireError
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.coordinator import CommittedRow, Coordinator
from zkconsumer.offsets.former import (
    TopicCreation,
    committed_before,
    former_commit,
    former_read,
    metadata_of,
    topic_in,
)
from zkconsumer.offsets.store import Committed, FormerOffset
from zkconsumer.session.lease import Lease, LeaseOver


class OffsetsAway(ConsumerError):
    """Offsets in Kafka cannot be asked for now; the reason is __cause__."""


class KafkaOffsets:
    """The offset store of `offsets.storage=kafka`."""

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        retention_ms: int | None = None,
        now: Callable[[], float] = time.monotonic,
        creations: Callable[[Collection[str]], Mapping[str, TopicCreation]] = lambda topics: {},
        read_from: Callable[[TopicPartition], TopicCreation | None] = lambda tp: None,
        commit_times: Callable[[str, Collection[TopicPartition]], Mapping[TopicPartition, int]] = lambda group, tps: {},
    ) -> None:
        """retention_ms: offset retention time; None: the brokers' own.  now: monotonic seconds, the lease's clock.

        creations      when topics were created, by ZooKeeper now; what is not known is left out
        read_from      the topic whose log a position that is committed belongs to
        commit_times   of a group, in ms since 1970; asked for commits that name no topic, what is not known is left out
        """
        self._coordinator = coordinator
        self._retention_ms = retention_ms
        self._now = now
        self._creations = creations
        self._read_from = read_from
        self._commit_times = commit_times

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """The committed positions; Unknown where the coordinator has an error for a partition or leaves it out.

        Waits as long as the coordinator's time-outs allow.  Raises OffsetsAway when no broker could be asked, or the
        release keeps no offsets in Kafka.
        """
        try:
            rows = self._coordinator.fetch_rows(group, list(tps), "kafka")
        except WireError as why:
            raise OffsetsAway(f"the offsets of group {group} cannot be read from Kafka: {why}") from why
        return {tp: row.at for tp, row in rows.items()} | self._former(group, rows)

    def _former(self, group: str, rows: Mapping[TopicPartition, CommittedRow]) -> dict[TopicPartition, FormerOffset]:
        """The positions of earlier topics."""
        held = {tp: (row.at, topic_in(row.metadata)) for tp, row in rows.items() if isinstance(row.at, int)}
        today = self._creations({tp.topic for tp in held})
        unnamed = [tp for tp, (_, read) in held.items() if read is None and tp.topic in today]
        times = self._commit_times(group, unnamed) if unnamed else {}
        found = {}
        for tp, (at, read) in held.items():
            topic, commit_ms = today.get(tp.topic), times.get(tp)
            if topic is None:
                continue
            if read is not None and read.czxid != topic.czxid:
                found[tp] = former_read(tp.topic, at, read, topic)
            elif read is None and commit_ms is not None and committed_before(commit_ms, topic.ctime_ms):
                found[tp] = former_commit(tp.topic, at, commit_ms, topic)
        return found

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """Commit all of these.  The lease is checked before each request is sent; once it is over none is."""
        rows = {tp: (at, metadata_of(self._read_from(tp))) for tp, at in positions.items()}
        try:
            return dict(
                self._coordinator.commit(
                    group, rows, "kafka", self._retention_ms, before_send=lambda: lease.check(self._now())
                )
            )
        except (LeaseOver, WireError) as why:  # what a request before it wrote is written: again changes nothing
            return dict.fromkeys(positions, why)
