"""Requests of one member to its group's coordinator, which is looked up whenever it does not answer or is another one.

join, sync     wait on the broker for the other members: connections with a time-out above the rebalance's
heartbeat      on a connection of its own, with a time-out well below the session's
leave          the same
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafkawire.dialects import Dialect
from kafkawire.errors import LinkLost
from kafkawire.model import Broker
from kafkawire.net.link import Connect
from kafkawire.net.links import Links
from kafkawire.protocol import grouprequests
from kafkawire.protocol.request import Request
from kafkawire.protocol.subscriptions import PROTOCOL_TYPE
from zkconsumer.kafkagroup.lifecycle import Claim
from zkconsumer.offsets.coordinator import Coordinator, GroupState
from zkconsumer.refusals import refusal

LOADING, NONE_NOW, ELSEWHERE = 14, 15, 16
MOVED = (NONE_NOW, ELSEWHERE)  # look the coordinator up again
GENERATION_OVER, NO_MEMBER, REBALANCING = 22, 25, 27
OTHER_PROTOCOL, BAD_GROUP, BAD_SESSION_TIMEOUT, NOT_ALLOWED = 23, 24, 26, 30
ID_FIRST, GROUP_FULL = 79, 81
LASTING = (OTHER_PROTOCOL, BAD_GROUP, BAD_SESSION_TIMEOUT, NOT_ALLOWED, GROUP_FULL)

JOIN_MARGIN_MS = 10_000  # above the rebalance timeout: a coordinator that answers late is not away
BEATS_LOST_PART = 4  # of the session timeout: a heartbeat without an answer for that long is lost


class MemberRequests:
    """brokers(): those to ask for the coordinator.  Every call raises LinkLost, and Refused where there is none."""

    def __init__(
        self,
        *,
        group: str,
        client_name: str,
        dialect: Dialect,
        brokers: Callable[[], Sequence[Broker]],
        connect: Connect,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        sleep: Callable[[float], object],
        now: Callable[[], float],
    ) -> None:
        self.group = group
        self._dialect = dialect
        self._session_ms = session_timeout_ms
        self._rebalance_ms = rebalance_timeout_ms
        patience_ms = max(session_timeout_ms, rebalance_timeout_ms) + JOIN_MARGIN_MS
        self._patient = Links(client_name, connect, patience_ms)
        self._quick = Links(client_name, connect, max(100, session_timeout_ms // BEATS_LOST_PART))
        self._lookup = Coordinator(
            brokers, self._quick, dialect, 0, 100, max(1000, session_timeout_ms), sleep=sleep, now=now
        )
        self.coordinator: Broker | None = None  # as it was found last

    def join(self, member_id: str, protocols: Sequence[tuple[str, bytes]]) -> Mapping[str, Any]:
        request = grouprequests.join_group(
            self._dialect,
            self.group,
            member_id,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._rebalance_ms,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
        )
        return self._call(self._patient, "join", request)

    def sync(self, claim: Claim, assignments: Mapping[str, bytes]) -> Mapping[str, Any]:
        request = grouprequests.sync_group(self._dialect, self.group, claim.generation, claim.member_id, assignments)
        return self._call(self._patient, "join", request)

    def heartbeat(self, claim: Claim) -> int:
        """The coordinator's error code."""
        request = grouprequests.heartbeat(self._dialect, self.group, claim.generation, claim.member_id)
        return int(self._call(self._quick, "heartbeat", request)["error"])

    def leave(self, member_id: str) -> int:
        """The coordinator's error code."""
        request = grouprequests.leave_group(self._dialect, self.group, member_id)
        return int(self._call(self._quick, "leave", request)["error"])

    def describe(self) -> GroupState:
        """The group as its coordinator has it."""
        return self._lookup.describe(self.group)

    def refused(self, code: int) -> str:
        """A coordinator's error code as a sentence."""
        return str(refusal(code, self.coordinator, group=self.group))

    def forget(self) -> None:
        """Look the coordinator up again before the next request."""
        self.coordinator = None

    def end(self) -> None:
        """Close all connections: calls that wait raise LinkLost."""
        self._patient.end()
        self._quick.end()

    def _call(self, links: Links, purpose: str, request: Request[Any]) -> Mapping[str, Any]:
        broker = self.coordinator
        if broker is None:
            broker = self.coordinator = self._lookup.find(self.group)
        link = links.fresh(broker, purpose)
        try:
            reply: Mapping[str, Any] = link.call(request)
        except LinkLost:
            if self.coordinator == broker:
                self.coordinator = None
            raise
        finally:
            if link.outstanding:  # ended during the wait: its answer would be taken for the next one's
                link.close()
        if reply["error"] in MOVED and self.coordinator == broker:
            self.coordinator = None
        return reply
