"""Lease: how long our session, and with it our claims, is certainly alive.  Pure: moments (groundwork.clocks) come in,
times are seconds of the boot clock, which continues while the machine is suspended.

A heartbeat that ZooKeeper, or the group's coordinator, answered proves that the session lived when it was *sent*; from
then they wait the negotiated timeout before they give our partitions to others.  We stop a margin earlier:

    valid_until = sent + negotiated - margin

The margin is the time in which something begun under the lease may still take effect: a request in flight, a tick of a
busy event loop.  It is a sixth of the negotiated timeout, and not below half a second (nor above half of the timeout).

If a clock has jumped by more than the margin since that heartbeat was sent, the machine may have been stopped for
longer than its boot clock says (a paused virtual machine).  Then the lease is over until a heartbeat that was sent
after the jump is answered: one that was sent before proves nothing about now.

With ZooKeeper it is a quarter: a follower reports the heartbeats of its clients to the leader each half tick, so the
leader may count from a heartbeat that is half a tick older (Learner.ping, LearnerHandler).  A session has at least two
ticks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundwork.clocks import Moment

COORDINATOR_PART, ZOOKEEPER_PART = 6, 4  # margin as a fraction of the timeout
MIN_MARGIN_S = 0.5
STOOD_STILL = "this machine was suspended, or is a VM that was paused, or its clock was set forward"


class LeaseOver(Exception):
    """Raised when heartbeats were unanswered for so long that others may own our partitions."""


def margin_of(negotiated_s: float, part: int = COORDINATOR_PART) -> float:
    """Return the margin for a session time-out, both in seconds."""
    return min(max(negotiated_s / part, MIN_MARGIN_S), negotiated_s / 2)


class Lease:
    """Lease: valid from the first answered heartbeat until valid_until; revoked at once when the session is known to be
    lost.

    ends_at is its latest end.  valid_until is the same, but far in the past while a clock has jumped.
    """

    __slots__ = (
        "_limit", "_margin_part", "_margin_s", "_revocations", "_revoked_at", "_sent", "_tolerance_s", "_whose",
        "_why_over", "ends_at", "heard_of", "valid_until",
    )  # fmt: skip

    def __init__(
        self, margin_s: float | None = None, whose: str = "ZooKeeper", margin_part: int = ZOOKEEPER_PART
    ) -> None:
        """margin_s: None uses margin_of the negotiated timeout and margin_part.  whose: who answers heartbeats."""
        self._margin_s = margin_s
        self._margin_part = margin_part
        self._whose = whose
        self._limit = float("inf")
        self._revoked_at = float("-inf")
        self._revocations = 0
        self._why_over = ""  # why the work begun before the last fence is over
        self._sent: Moment | None = None  # latest answered heartbeat
        self._tolerance_s = 0.0
        self.ends_at = self.valid_until = float("-inf")
        self.heard_of: float | None = None  # when the last answered heartbeat was sent; kept after a lost session

    def beat_answered(self, sent: Moment, negotiated_s: float) -> None:
        """Record that a heartbeat sent then was answered in a session of negotiated_s; responses may come in
        any order."""
        self.heard_of = sent.at if self.heard_of is None else max(self.heard_of, sent.at)
        margin = margin_of(negotiated_s, self._margin_part) if self._margin_s is None else self._margin_s
        if sent.at < self._revoked_at:
            return  # a response of the former session proves nothing for this one
        if self._sent is None or sent.at >= self._sent.at:
            self._sent, self._tolerance_s = sent, max(margin, MIN_MARGIN_S)
        self.ends_at = self.valid_until = min(max(self.ends_at, sent.at + negotiated_s - margin), self._limit)

    def limit(self, until: float) -> None:
        """Limit the lease to this time, whatever is answered, until it is revoked."""
        self._limit = min(self._limit, until)
        self.ends_at = min(self.ends_at, self._limit)
        self.valid_until = min(self.valid_until, self._limit)

    def lift(self) -> None:
        """Remove all limits: the next response counts again."""
        self._limit = float("inf")

    def revoke(self, at: float = float("-inf")) -> None:
        """Revoke the lease, because the session is lost: not valid until a heartbeat sent at that time or later is
        answered."""
        self._revoked_at = max(self._revoked_at, at)
        self._revocations += 1
        self._why_over = ""
        self._limit = float("inf")
        self.ends_at = self.valid_until = float("-inf")

    def jump_s(self, moment: Moment) -> float:
        """Return the seconds by which a clock has jumped since the last answered heartbeat was sent; 0 if by less than
        the margin."""
        jump_s = 0.0 if self._sent is None else moment.jump_s(self._sent)
        return jump_s if jump_s > self._tolerance_s else 0.0

    def time(self, moment: Moment) -> float:
        """Return the lease's time at a moment; it is over at valid_until.  Infinite if a clock has jumped."""
        return float("inf") if self.jump_s(moment) else moment.at

    def holds(self, moment: Moment) -> bool:
        return self.time(moment) < self.valid_until

    def end_at_jump(self, moment: Moment) -> float:
        """End the lease until the next answered heartbeat if a clock has jumped, also for callers that only check
        valid_until.  Return jump_s() if the lease was valid, else 0."""
        jump_s = self.jump_s(moment)
        if not jump_s or self.valid_until == float("-inf"):
            return 0.0
        self.valid_until = float("-inf")
        return jump_s

    def check(self, moment: Moment) -> None:
        """Raise LeaseOver if the lease is not valid."""
        if self.holds(moment):
            return
        if moment.at < self.ends_at:
            raise LeaseOver(f"no lease: {STOOD_STILL}, and {self._whose} has not confirmed it since")
        if self.ends_at == float("-inf"):
            raise LeaseOver(f"no lease: the {self._whose} session is lost or has not yet been confirmed")
        raise LeaseOver(
            f"lease over since {moment.at - self.ends_at:.1f} s: {self._whose} does not answer, others may own our"
            " partitions"
        )

    def end_what_began(self, why: str = "") -> None:
        """End all work that began under the lease, even if the session lives and the lease is renewed.  why: a clause;
        by default it is a fence: others may own our partitions."""
        self._revocations += 1
        self._why_over = why

    def until_revoked(self) -> Lease:
        """Return this lease for work that begins now and waits: over for good once this lease is revoked, or after a
        fence.

        This lease becomes valid again in a later session, or when the session answers again; others may own our
        partitions then.
        """
        return _UntilRevoked(self)

    def __repr__(self) -> str:
        return f"<Lease until {self.valid_until:.3f}>"


class _UntilRevoked(Lease):
    """Lease up to the next fence.  It answers holds() and check(); valid_until says that it is over."""

    __slots__ = ("_of",)

    def __init__(self, of: Lease) -> None:
        super().__init__(whose=of._whose)
        self._of, self._revocations = of, of._revocations

    def holds(self, moment: Moment) -> bool:
        return self._of._revocations == self._revocations and self._of.holds(moment)

    def check(self, moment: Moment) -> None:
        if self._of._revocations != self._revocations:
            silent = f"{self._whose} was silent for too long since this began, others may own our partitions"
            raise LeaseOver(self._of._why_over or silent)
        self._of.check(moment)
