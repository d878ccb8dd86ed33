"""Heartbeats of a member to its coordinator, the lease that they prove, and the fence when it ends.

The lease holds from the sending of the last answered heartbeat for session.timeout.ms, or rebalance.timeout.ms where
that is shorter and JoinGroup carries it (silent_member_s), less a margin (zkconsumer.session.lease): until then the
coordinator gives our partitions to no other.  An answer that the group
rebalances (27) proves the same, but the coordinator waits rebalance.timeout.ms at most for us to join; so from then on
the lease ends that long after the last heartbeat that was answered without it.

An answer that the coordinator loads the group (14) proves the same as long as the lease holds.  Its broker has taken
the group over: the one before did not get to count us out, and the new one gives every member a full session once it
has loaded (GroupCoordinator.onGroupLoaded).  So what comes in between (a crash is noticed after up to 9 s by KRaft,
after zookeeper.session.timeout.ms and a tick by ZooKeeper's controller; then an election and the load) never shortens
the time that a member has, and is not added to it: a crash looks like a cut line to us.

A coordinator that was replaced and does not know it answers heartbeats with 0 from memory, without end, while the next
one gives our partitions away.  Only commits show it: they do not get into the log.  So once a commit ended in 7, 15 or
16, heartbeats that the same broker answers prove nothing, and the lease counts from the last commit that was answered
0, until the next one is, or another broker answers a heartbeat.

All times are of the lease's clock, which goes on while the machine is suspended.  Timers do not: so the clocks are
looked at each LOOK_S, and after a jump of one a heartbeat is sent at once.

    connected   the last heartbeat was answered
    suspended   heartbeats have no answer; read on until the lease is over, commit nothing
    lost        no member: not joined (yet, or any more)
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from groundwork import clocks
from groundwork.tasks import Event, Lock
from kafkawire.errors import WireError
from kafkawire.model import Broker
from zkconsumer.kafkagroup import requests
from zkconsumer.kafkagroup.lifecycle import Claim
from zkconsumer.kafkagroup.requests import MemberRequests
from zkconsumer.session.lease import STOOD_STILL, Lease, margin_of
from zkconsumer.session.zksession import LOOK_S, WAITING, SessionState

log = logging.getLogger(__name__)

BEATS_PER_SESSION = 10
LONGEST_S = 3.0  # between two: by a heartbeat a member hears of a rebalance
RETRY_S = 0.25  # after one without an answer, or while the coordinator moves


def silent_member_s(session_s: float, rebalance_s: float) -> float:
    """How long a silent member certainly stays in its group, in seconds.

    Its session ends after session_s; but where another member joins, the coordinator waits rebalance_s for it to join,
    too, and then counts it out, whatever is left of its session (GroupCoordinator.onCompleteJoin).
    """
    return min(session_s, rebalance_s)


class Heartbeats:
    """One member's, in the event loop.  The callbacks must not wait.

    session_timeout_ms()                           after which the coordinator counts a silent member out
    rebalance_timeout_ms()                         how long the coordinator waits for us to join
    on_rebalance(claim), on_fenced(claim, code)    what the coordinator answered: 27; 22, 25 or another that lasts
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
        self._calm_at = 0.0  # the last heartbeat that was answered with 0 was sent then
        self._rebalances = False
        self._written_at = 0.0  # the last commit that was answered with 0 was sent then, or the SyncGroup of the claim
        self._doubted: Broker | None = None  # the coordinator, since a commit showed that it may be none any more
        self._lock = Lock()  # one heartbeat at a time
        self._wake = Event()
        self._wake_guard = Event()

    @property
    def lease_s(self) -> float:
        """How long an answered heartbeat proves that we are a member, less a margin."""
        return silent_member_s(self._session_timeout_ms() / 1000, self._rebalance_timeout_ms() / 1000)

    @property
    def over_why(self) -> str:
        """Why the lease ended."""
        if self._doubted is not None:
            return (
                f"{self._doubted} answers heartbeats and takes no commits, so another broker may coordinate the group"
            )
        return "no answer of the group's coordinator in time"

    @property
    def interval_s(self) -> float:
        return min(LONGEST_S, self.lease_s / BEATS_PER_SESSION)

    def begin(self, claim: Claim, joined_at: float) -> None:
        """Beat for this claim from now on; the first beat is answered, or lost, when it returns.

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
        """No member any more: the lease ends with it."""
        self.claim = None
        self._lease.revoke(clocks.boot())

    def lost(self, why: str) -> None:
        """No member, and not by our own doing."""
        self.end()
        self._enter(SessionState.LOST, why)

    def doubt(self, claim: Claim) -> None:
        """A commit ended in 7, 15 or 16: the coordinator may be none any more, whatever it answers."""
        if claim is self.claim:
            self._doubted = self._requests.doubt()

    def committed(self, claim: Claim, sent_at: float) -> None:
        """A commit that was sent then was answered with 0."""
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
        """Report the end of the lease, at its time."""
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
            if left_s > 0:  # a claim whose first beat was lost has half a session to prove itself
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
