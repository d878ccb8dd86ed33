"""Offsets in Kafka: the topic __consumer_offsets, written by the group's coordinator (0.8.2 and later).

Every partition it is given is committed, moved or not: a broker forgets an offset that is not committed again for
offsets.retention.minutes, a day by default, and an idle partition must not lose its position (KAFKA-1510).

In the hub the Coordinator waits with groundwork.crew's sleep and now and has a lock of crew's; elsewhere it is plain.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from kafkawire.errors import WireError
from kafkawire.model import TopicPartition
from zkconsumer.coordinator import Coordinator
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.store import Committed
from zkconsumer.session.lease import Lease, LeaseOver


class OffsetsAway(ConsumerError):
    """Offsets in Kafka cannot be asked for now; the reason is __cause__."""


class KafkaOffsets:
    """The offset store of `offsets.storage=kafka`."""

    def __init__(
        self,
        coordinator: Coordinator,
        retention_ms: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """retention_ms: how long the brokers are to keep what is committed; None leaves it to them.  now: monotonic
        seconds, the lease's clock."""
        self._coordinator = coordinator
        self._retention_ms = retention_ms
        self._now = now

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """The committed positions; Unknown where the coordinator has an error for a partition or leaves it out.

        Waits as long as the coordinator's time-outs allow.  Raises OffsetsAway when nobody could be asked, or the
        release keeps no offsets in Kafka.
        """
        try:
            return self._coordinator.fetch(group, list(tps), "kafka")
        except WireError as why:
            raise OffsetsAway(f"the offsets of group {group} cannot be read from Kafka: {why}") from why

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """Commit all of these.  The lease is looked at before each request goes out; once it is over none does."""
        rows = {tp: (at, "") for tp, at in positions.items()}
        try:
            return dict(
                self._coordinator.commit(
                    group, rows, "kafka", self._retention_ms, before_send=lambda: lease.check(self._now())
                )
            )
        except (LeaseOver, WireError) as why:  # what a request before it wrote is written: again changes nothing
            return dict.fromkeys(positions, why)
