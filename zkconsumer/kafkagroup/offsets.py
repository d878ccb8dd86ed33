"""Offset store of a member: Kafka, with commits that carry the generation and member id by which it owns the
partitions.

A commit belongs to the claim under which it began: if it were retried after the member joined again, it would be
accepted in the new generation, though others may own its partitions.  The coordinator's responses about the claim are
passed on: 22 and 25 fence the member, 27 makes it join, 7, 15 and 16 show that a replaced coordinator may answer
heartbeats, and 0 shows the opposite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from groundwork import clocks
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.kafkagroup import requests
from zkconsumer.member.steps import Claim
from zkconsumer.offsets.group import CountedOffsets, OffsetsStatus, StoreStatus
from zkconsumer.offsets.store import Committed, OffsetStore
from zkconsumer.refusals import Refused
from zkconsumer.session.lease import Lease, LeaseOver


class NotAMember(ConsumerError):
    """A commit that the coordinator refuses, because the partition may be another member's."""

    def __init__(self, group: str, tp: TopicPartition, position: int, why: str) -> None:
        super().__init__(f"group {group}, {tp}: {position} is not committed, for {why}; its owner reads on before it")
        self.tp = tp


class ClaimedOffsets:
    """Offset store that commits by claim().  store: the underlying KafkaOffsets.

    close(), cut(): close the connections to the coordinator, for good or for now: a commit in flight is cut off.
    claim(): the current claim, or None if we are not a member.  on_refused(claim, code): 22, 25, 27; 7, 15, 16.
    on_accepted(claim, sent_at): a commit was answered with 0; sent_at: by the boot clock.
    """

    def __init__(
        self,
        store: OffsetStore,
        claim: Callable[[], Claim | None],
        on_refused: Callable[[Claim, int], object],
        *,
        close: Callable[[], object] = lambda: None,
        cut: Callable[[], object] = lambda: None,
        on_accepted: Callable[[Claim, float], object] = lambda claim, sent_at: None,
    ) -> None:
        self.close = close
        self.cut = cut
        self._counted = CountedOffsets(store)
        self._claim = claim
        self._on_refused = on_refused
        self._on_accepted = on_accepted

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        return self._counted.read(group, tps)

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        claim = self._claim()
        if claim is None:
            return {
                tp: NotAMember(group, tp, at, "this is not a member of the group now") for tp, at in positions.items()
            }
        began = clocks.boot()
        results = self._counted.commit(group, positions, _OfClaim(lease, claim, self._claim))
        codes = {why.code for why in results.values() if isinstance(why, Refused)}
        if None in results.values():
            self._on_accepted(claim, began)
        for code in (requests.NO_MEMBER, requests.GENERATION_OVER, requests.REBALANCING, *requests.DOUBTFUL):
            if code in codes:
                self._on_refused(claim, code)
                break
        return {tp: _of_member(group, tp, positions[tp], claim, why) for tp, why in results.items()}

    @property
    def status(self) -> OffsetsStatus:
        """Return mode and counters, for users and metrics."""
        counted = self._counted
        return OffsetsStatus("kafka", (StoreStatus("kafka", counted.accepted, counted.failed, counted.last),))


class _OfClaim(Lease):
    """Lease of one claim: it is over as soon as there is another claim."""

    __slots__ = ("_claim", "_current", "_lease")

    def __init__(self, lease: Lease, claim: Claim, current: Callable[[], Claim | None]) -> None:
        super().__init__()
        self._lease = lease
        self._claim = claim
        self._current = current

    def check(self, moment: clocks.Moment) -> None:
        if self._current() is not self._claim:
            raise LeaseOver(f"{self._claim} of the group is over, others may own its partitions")
        self._lease.check(moment)


def _of_member(group: str, tp: TopicPartition, position: int, claim: Claim, why: Exception | None) -> Exception | None:
    if not isinstance(why, Refused):
        return why
    if why.code in (requests.GENERATION_OVER, requests.NO_MEMBER):
        return NotAMember(group, tp, position, f"{claim} of the group is over here (error {why.code})")
    if why.code == requests.REBALANCING:
        return NotAMember(group, tp, position, f"the group left {claim} before it (error {why.code})")
    return why
