"""Outages of the source cluster: partitions that cannot be read, by broker; reported when one begins and ends.

    lost         a broker closed its connection, refused one, or does not answer: an outage at once
    leaderless   a partition has no leader: an outage after GRACE_S, because an election takes a moment
    answered     a broker answered for a partition: with the last one of an outage the outage is over

However many partitions an outage has, and however often they are tried, it is one event at each end.  A partition
belongs to one outage: if its broker died and it then has no leader, that is still the outage of the broker.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkawire.model import Broker, TopicPartition
from zkconsumer.events import ConsumerEvent, OnEvent

GRACE_S = 2.0
NO_LEADER = -1  # key for partitions whose broker is unknown; no broker of a cluster has that id


@dataclass(slots=True)
class Outage:
    """An outage.  what: the broker, or "" if partitions have no leader; reported: the event of its beginning was sent.

    partitions: each with the last reason.
    """

    what: str
    since: float
    reported: bool = False
    partitions: dict[TopicPartition, str] = field(default_factory=dict)

    @property
    def why(self) -> str:
        """Return the reason, with the broker or the first partition."""
        tp = min(self.partitions, key=lambda tp: (tp.topic, str(tp.partition).zfill(10)))
        begins, said = self.what or str(tp), self.partitions[tp]
        return said if said.startswith(begins) else f"{begins}: {said}"

    @property
    def count(self) -> str:
        return f"{len(self.partitions):,} partition{'' if len(self.partitions) == 1 else 's'}"


class Outages:
    """Outages of one connector.  Times are seconds of a monotonic clock."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._outages: dict[int, Outage] = {}  # by broker id
        self._blamed: dict[TopicPartition, int] = {}  # broker whose outage a partition belongs to

    def lost(
        self, broker: Broker, tps: Iterable[TopicPartition], why: str, at: float, since: float | None = None
    ) -> None:
        """Record that the broker of these partitions cannot be reached.  since: when the unanswered request was sent;
        None for now."""
        for tp in tps:
            if self._blamed.get(tp) != broker.id:
                self._drop(tp, at)
                self._blamed[tp] = broker.id
            outage = self._outages.setdefault(broker.id, Outage(str(broker), at if since is None else since))
            outage.partitions[tp] = why
        lost = self._outages.get(broker.id)
        if lost is not None and not lost.reported:
            self._begin(lost)

    def leaderless(self, tp: TopicPartition, why: str, at: float) -> None:
        """Record that the partition has no leader that can be reached."""
        if self._blamed.setdefault(tp, NO_LEADER) == NO_LEADER:
            self._outages.setdefault(NO_LEADER, Outage("", at)).partitions[tp] = why

    def answered(self, tps: Iterable[TopicPartition], at: float) -> None:
        """Record that a broker answered for these partitions."""
        for tp in tps:
            self._drop(tp, at)

    def forget(self, tps: Iterable[TopicPartition], at: float) -> None:
        """Forget partitions that are not read any more."""
        for tp in tps:
            self._drop(tp, at, "; the last of its partitions is not read here any more")

    def report_due(self, at: float) -> None:
        """Report the outages that last longer than an election."""
        for outage in self._outages.values():
            if not outage.reported and at - outage.since >= GRACE_S:
                self._begin(outage)

    def summary(self, at: float) -> str:
        """Return the reported outages that are not over, for a status line; "" if none."""
        return "; ".join(
            f"{outage.why} (for {at - outage.since:.0f} s, {outage.count})"
            for outage in self._outages.values()
            if outage.reported
        )

    def _drop(self, tp: TopicPartition, at: float, but: str = "") -> None:
        blamed = self._blamed.pop(tp, None)
        if blamed is None:
            return
        outage = self._outages[blamed]
        del outage.partitions[tp]
        if outage.partitions:
            return
        del self._outages[blamed]
        if outage.reported:
            what = outage.what or "partitions without a leader"
            self._on_event(ConsumerEvent("over", f"{what}: over after {at - outage.since:.1f} s{but}"))

    def _begin(self, outage: Outage) -> None:
        outage.reported = True
        self._on_event(ConsumerEvent("outage", f"{outage.why}; {outage.count} cannot be read until that is over"))
