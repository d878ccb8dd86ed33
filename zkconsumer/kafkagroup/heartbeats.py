"""Heartbeats of a member to its coordinator, the lease that they prove, and the fence when it ends.

The lease lasts from the sending of the last answered heartbeat for session.timeout.ms, or rebalance.timeout.ms if that
is shorter and JoinGroup carries it (silent_member_s), less a margin (zkconsumer.session.lease): until then the
coordinator gives our partitions to no other member.  A response that the group rebalances (27) proves the same, but the
coordinator waits at most rebalance.timeout.ms for us to join; so the lease then ends that long after the last heartbeat
that was answered without 27.

A response that the coordinator loads the group (14) proves the same as long as the lease lasts.  Its broker has taken
the group over: the former coordinator did not get to remove us, and the new one gives every member a full session once
it has loaded (GroupCoordinator.onGroupLoaded).  So the time in between (a crash is noticed after up to 9 s by KRaft,
after zookeeper.session.timeout.ms and a tick by ZooKeeper's controller; then an election and the load) never shortens a
member's time, and is not added to it: a crash looks like a broken connection to us.

A coordinator that was replaced and does not know it answers heartbeats with 0 from memory, forever, while the new one
gives our partitions away.  Only commits reveal it: they do not get into the log.  So once a commit ended in 7, 15 or
16, heartbeats that the same broker answers prove nothing, and the lease counts from the last commit that was answered
with 0, until the next such commit, or until another broker answers a heartbeat.

All times are by the lease's clock, which continues while the machine is suspended.  Timers do not: so the clocks are
compared every LOOK_S, and after a jump a heartbeat is sent at once.

    connected   the last heartbeat was answered
    suspended   heartbeats get no response; keep reading until the lease is over, commit nothing
    lost        not a member: not joined (yet, or any more)
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from groundwork import clocks
from groundwork.tasks import Event, Lock
from kafkawire.errors import WireError
from kafkawire.model import Broker
from zkconsumer.kafkagroup import requests
from zkconsumer.kafkagroup.requests import MemberRequests
from zkconsumer.member.steps import Claim
from zkconsumer.session.lease import STOOD_STILL, Lease, margin_of
from zkconsumer.session.zksession import LOOK_S, WAITING, SessionState

log = logging.getLogger(__name__)

BEATS_PER_SESSION = 10
LONGEST_S = 3.0  # longest interval: a heartbeat's response reports a rebalance
RETRY_S = 0.25  # after a heartbeat without a response, or while the coordinator moves


def silent_member_s(session_s: float, rebalance_s: float) -> float:
    """Return how long a silent member certainly stays in its group, in seconds.

    Its session ends after session_s; but if another member joins, the coordinator waits rebalance_s for it to join,
    too, and then removes it, whatever is left of its session (GroupCoordinator.onCompleteJoin).
    """
    return min(session_s, rebalance_s)


class Heartbeats:
    """Heartbeats of one member, in the event loop.  The callbacks must not wait.

    session_timeout_ms()                           after which the coordinator removes a silent member
    rebalance_timeout_ms()                         how long the coordinator waits for us to join
    on_rebalance(claim), on_fenced(claim, code)    the coordinator's response: 27; 22, 25 or another lasting error
    on_over(claim)                                 the lease is over
    on_state(state, why)                           the state changed; why: the error of the last heartbeat
    """

    def __init__(
        self,
        members: MemberRequests,
        lease: Lease,
        *,
        session_timeout_ms: Callable[[], int],
        rebalance_timeout_ms: Callable[[], int],
        on_rebalance: Callable[[Claim], object],
        on_fenced: Callable[[Claim, int], object],
        on_over: Callable[[Claim], object],
        on_state: Callable[[SessionState, str], object],
    ) -> None:
        self.claim: Claim | None = None
        self.state = SessionState.LOST
        self._requests = members
        self._lease = lease
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._on_rebalance = on_rebalance
        self._on_fenced = on_fenced
        self._on_over = on_over
        self._on_state = on_state
        self._calm_at = 0.0  # when the last heartbeat that was answered with 0 was sent
        self._rebalances = False
        self._written_at = 0.0  # when the last commit that was answered with 0, or the claim's SyncGroup, was sent
        self._doubted: Broker | None = None  # the coordinator, since a commit showed that it may have been replaced
        self._lock = Lock()  # one heartbeat at a time
        self._wake = Event()
        self._wake_guard = Event()

    @property
    def lease_s(self) -> float:
        """Return how long an answered heartbeat proves that we are a member, less a margin."""
        return silent_member_s(self._session_timeout_ms() / 1000, self._rebalance_timeout_ms() / 1000)

    @property
    def over_why(self) -> str:
        """Return why the lease ended."""
        if self._doubted is not None:
            return (
                f"{self._doubted} answers heartbeats and takes no commits, so another broker may coordinate the group"
            )
        return "no answer of the group's coordinator in time"

    @property
    def interval_s(self) -> float:
        return min(LONGEST_S, self.lease_s / BEATS_PER_SESSION)

    def begin(self, claim: Claim, joined_at: float) -> None:
        """Send heartbeats for this claim from now on; on return, the first one was answered or lost.

        joined_at: when the request that gave the claim was sent.
        """
        self._lease.revoke(joined_at)
        self.claim = claim
        self._calm_at, self._rebalances = joined_at, False
        self._written_at, self._doubted = joined_at, None
        self._beat(claim)
        self._wake.set()
        self._wake_guard.set()

    def end(self) -> None:
        """End membership, and the lease with it."""
        self.claim = None
        self._lease.revoke(clocks.boot())

    def lost(self, why: str) -> None:
        """End membership that was lost from outside."""
        self.end()
        self._enter(SessionState.LOST, why)

    def doubt(self, claim: Claim) -> None:
        """Doubt the coordinator after a commit ended in 7, 15 or 16: it may have been replaced, whatever it answers."""
        if claim is self.claim:
            self._doubted = self._requests.doubt()

    def committed(self, claim: Claim, sent_at: float) -> None:
        """Record that a commit sent at that time was answered with 0."""
        if claim is self.claim:
            self._written_at = max(self._written_at, sent_at)
            self._trust()

    def _trust(self) -> None:
        """End a doubt."""
        if self._doubted is not None:
            self._doubted = None
            self._lease.lift()
            if self._rebalances:
                self._limit(self._calm_at, self._rebalance_timeout_ms() / 1000)

    def _limit(self, proved_at: float, timeout_s: float) -> None:
        self._lease.limit(proved_at + timeout_s - margin_of(timeout_s))

    def run(self) -> None:
        """Send heartbeats as long as there is a claim."""
        while True:
            self._wake.clear()
            claim = self.claim
            self._wake.wait(timeout=None if claim is None else self._pause_s())
            if claim is not None:
                self._beat(claim)

    def guard(self) -> None:
        """Report the end of the lease, when it comes."""
        while True:
            self._wake_guard.clear()
            claim = self.claim
            if claim is None:
                self._wake_guard.wait()
                continue
            moment = clocks.moment()
            if jump_s := self._lease.end_at_jump(moment):
                log.warning(WAITING, STOOD_STILL, f"the coordinator of group {self._requests.group}", jump_s)
                self._wake.set()
            left_s = max(self._lease.ends_at, self._calm_at + self.lease_s / 2) - moment.at
            if left_s > 0:  # a claim whose first heartbeat was lost has half a session left to be confirmed
                self._wake_guard.wait(timeout=min(left_s, LOOK_S))
            elif claim is self.claim:
                self.lost("")
                self._on_over(claim)

    def _pause_s(self) -> float:
        return self.interval_s if self.state is SessionState.CONNECTED else min(RETRY_S, self.interval_s)

    def _beat(self, claim: Claim) -> None:
        with self._lock:
            if claim is self.claim:
                self._beat_once(claim)

    def _beat_once(self, claim: Claim) -> None:
        sent = clocks.moment()
        try:
            code = self._requests.heartbeat(claim)
        except WireError as why:
            if claim is self.claim:
                self._enter(SessionState.SUSPENDED, str(why))
            return
        if claim is not self.claim:
            return  # joined again, or fenced, meanwhile
        if code in (0, requests.REBALANCING):
            if self._doubted is not None and self._requests.answered == self._doubted:
                self._limit(self._written_at, self.lease_s)
            else:
                self._trust()
                if code == 0:
                    self._calm_at = max(self._calm_at, sent.at)
                self._lease.beat_answered(sent, self.lease_s)
            self._enter(SessionState.CONNECTED, "")
            if code and not self._rebalances:
                self._rebalances = True
                self._limit(self._calm_at, self._rebalance_timeout_ms() / 1000)
                self._on_rebalance(claim)
            self._wake_guard.set()
        elif code in (requests.LOADING, *requests.MOVED):
            if code == requests.LOADING and self._lease.holds(clocks.moment()):
                self._lease.beat_answered(sent, self.lease_s)
                self._wake_guard.set()
            self._enter(SessionState.SUSPENDED, self._requests.refused(code))
        else:
            self.lost(self._requests.refused(code))
            self._on_fenced(claim, code)

    def _enter(self, state: SessionState, why: str) -> None:
        if state is not self.state:
            self.state = state
            self._on_state(state, why)
