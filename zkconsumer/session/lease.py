"""Lease: how long we may believe that our session, and with it our claims, are alive.  Pure: times are monotonic
seconds.

A heartbeat that ZooKeeper, or the group's coordinator, answered proves that the session lived when it was *sent*; from
then on they wait the negotiated time-out before they give our partitions to others.  We stop a margin earlier:

    valid_until = sent + negotiated - margin

The margin is the time in which something begun under the lease may still take effect: a request in flight, a tick of a
busy event loop.  A sixth of the negotiated time-out, and not below half a second (nor above half of the time-out).

With ZooKeeper a quarter: a follower reports the heartbeats of its clients to the leader each half tick, so the leader
may count from a heartbeat that is half a tick older (Learner.ping, LearnerHandler).  A session has two ticks at least.
"""

from __future__ import annotations

COORDINATOR_PART, ZOOKEEPER_PART = 6, 4  # of the time-out, as its margin
MIN_MARGIN_S = 0.5


class LeaseOver(Exception):
    """There was no answer for so long that others may own our partitions."""


def margin_of(negotiated_s: float, part: int = COORDINATOR_PART) -> float:
    """Return the margin for a session time-out, both in seconds."""
    return min(max(negotiated_s / part, MIN_MARGIN_S), negotiated_s / 2)


class Lease:
    """Valid from the first answered beat until valid_until; revoked at once when the session is known to be lost."""

    __slots__ = ("_limit", "_margin_part", "_margin_s", "_revoked_at", "_whose", "heard_of", "valid_until")

    def __init__(
        self, margin_s: float | None = None, whose: str = "ZooKeeper", margin_part: int = ZOOKEEPER_PART
    ) -> None:
        """margin_s: None takes margin_of the negotiated time-out and margin_part.  whose: who answers heartbeats."""
        self._margin_s = margin_s
        self._margin_part = margin_part
        self._whose = whose
        self._limit = float("inf")
        self._revoked_at = float("-inf")
        self.valid_until = float("-inf")
        self.heard_of: float | None = None  # when the last answered heartbeat was sent; kept after a lost session

    def beat_answered(self, sent_at: float, negotiated_s: float) -> None:
        """A heartbeat sent at sent_at was answered in a session of negotiated_s; answers may come in any order."""
        self.heard_of = sent_at if self.heard_of is None else max(self.heard_of, sent_at)
        margin = margin_of(negotiated_s, self._margin_part) if self._margin_s is None else self._margin_s
        if sent_at >= self._revoked_at:  # an answer of the session before proves nothing for this one
            self.valid_until = min(max(self.valid_until, sent_at + negotiated_s - margin), self._limit)

    def limit(self, until: float) -> None:
        """Not valid from then on, whatever is answered, until it is revoked."""
        self._limit = min(self._limit, until)
        self.valid_until = min(self.valid_until, self._limit)

    def lift(self) -> None:
        """Take back all limits: what is answered next counts again."""
        self._limit = float("inf")

    def revoke(self, now: float = float("-inf")) -> None:
        """The session is lost: not valid until a beat sent at now or later is answered."""
        self._revoked_at = max(self._revoked_at, now)
        self._limit = float("inf")
        self.valid_until = float("-inf")

    def check(self, now: float) -> None:
        """Raises LeaseOver once it is not valid."""
        if now < self.valid_until:
            return
        if self.valid_until == float("-inf"):
            raise LeaseOver(f"no lease: the {self._whose} session is lost or has not yet been confirmed")
        raise LeaseOver(
            f"lease over since {now - self.valid_until:.1f} s: {self._whose} does not answer, others may own our"
            " partitions"
        )

    def __repr__(self) -> str:
        return f"<Lease until {self.valid_until:.3f}>"
