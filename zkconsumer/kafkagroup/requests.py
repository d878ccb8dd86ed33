"""Requests of one member to its group's coordinator, which is looked up whenever it does not answer or has moved.

look-up        asks any broker, which answers from memory: LOOK_UP_S at most, then the next one is asked
join, sync     wait on the broker for the other members: connections with a timeout above the rebalance's.  As long as
               they wait, the other brokers are asked every LOOK_S who coordinates the group; once one names another
               broker, and that broker confirms it (metadata of the first may be old), the wait is over
heartbeat      on a separate connection, with a timeout well below the session's
leave          likewise

The Java client has one connection to its coordinator, and a broker answers the requests of a connection one after the
other.  Here a heartbeat waits for no other request, since the lease is counted from it: not for a JoinGroup, which the
broker keeps until the group has joined, nor for a commit, which it keeps until its replicas have it.

So a hanging coordinator delays a joining member by LOOK_S + LOOK_UP_S, once the brokers that answer know the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from groundwork.tasks import deadline
from kafkawire.dialects import Dialect
from kafkawire.errors import BrokerError, LinkLost, WireError
from kafkawire.model import Broker
from kafkawire.net.link import Connect, Link
from kafkawire.net.links import Links
from kafkawire.protocol import grouprequests
from kafkawire.protocol.request import Request
from kafkawire.protocol.subscriptions import PROTOCOL_TYPE
from zkconsumer.member.steps import Claim
from zkconsumer.offsets.coordinator import Coordinator, GroupState
from zkconsumer.refusals import refusal

LOADING, NONE_NOW, ELSEWHERE = 14, 15, 16
MOVED = (NONE_NOW, ELSEWHERE)  # codes after which the coordinator is looked up again
DOUBTFUL = (7, *MOVED)  # codes of a commit
GENERATION_OVER, NO_MEMBER, REBALANCING = 22, 25, 27
OTHER_PROTOCOL, BAD_GROUP, BAD_SESSION_TIMEOUT, NOT_ALLOWED = 23, 24, 26, 30
ID_FIRST, GROUP_FULL = 79, 81
# Meaning of codes for members; refusals.py describes them for clients that are not members and commit for a group.
TO_MEMBERS = {
    GENERATION_OVER: "the group has rebalanced without this member",
    NO_MEMBER: (
        "the coordinator counts this member no more: it heard nothing of it for session.timeout.ms, it waited for it "
        "to join for rebalance.timeout.ms, or the member was removed by hand"
    ),
    REBALANCING: "the group rebalances, and this member has to join again",
    NOT_ALLOWED: "the brokers' access control lists forbid it; a member needs Read on the group",
}
LASTING = (OTHER_PROTOCOL, BAD_GROUP, BAD_SESSION_TIMEOUT, NOT_ALLOWED, GROUP_FULL)

JOIN_MARGIN_MS = 10_000  # above the rebalance timeout: a coordinator that answers late is not unreachable
BEATS_LOST_PART = (
    4  # part of the time that a silent member stays in its group: a heartbeat unanswered for that long is lost
)
LOOK_UP_S = 3.0  # a broker that does not name a group's coordinator within this time is skipped
LOOK_S = 2.0  # interval of looking for another coordinator while the known one makes us wait
CONNECT_S = 5.0  # for a connection to join on, with TLS and login


class MemberRequests:
    """Requests of a member.  brokers(): brokers to ask for the coordinator.  Every call raises LinkLost, and Refused if
    there is no coordinator."""

    def __init__(
        self,
        *,
        group: str,
        client_name: str,
        dialect: Dialect,
        brokers: Callable[[], Sequence[Broker]],
        connect: Connect,
        session_timeout_ms: Callable[[], int],
        rebalance_timeout_ms: int,
        sleep: Callable[[float], object],
        now: Callable[[], float],
    ) -> None:
        self.group = group
        self._dialect = dialect
        self.session_timeout_ms = session_timeout_ms
        self._rebalance_ms = rebalance_timeout_ms
        session_ms = session_timeout_ms()
        patience_ms = max(session_ms, rebalance_timeout_ms) + JOIN_MARGIN_MS
        self._patience_s = patience_ms / 1000
        self._patient = Links(client_name, connect, patience_ms)
        quick_ms = max(100, min(session_ms, rebalance_timeout_ms) // BEATS_LOST_PART)
        self._quick = Links(client_name, connect, quick_ms)
        self._asking = Links(client_name, connect, min(quick_ms, int(LOOK_UP_S * 1000)))

        def asking(whom: Broker | Callable[[], Sequence[Broker]]) -> Coordinator:
            limit_ms = max(1000, session_ms)
            return Coordinator(whom, self._asking, dialect, 0, 100, limit_ms, sleep=sleep, now=now)

        self._asked = asking
        self._now = now
        self._lookup = asking(brokers)
        self.coordinator: Broker | None = None  # as last found
        self.answered: Broker | None = None  # broker that answered the last heartbeat
        self._suspect: Broker | None = None  # the last coordinator that did not answer, or denied to be one

    def join(self, member_id: str, protocols: Sequence[tuple[str, bytes]]) -> Mapping[str, Any]:
        request = grouprequests.join_group(
            self._dialect,
            self.group,
            member_id,
            session_timeout_ms=self.session_timeout_ms(),
            rebalance_timeout_ms=self._rebalance_ms,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
        )
        return self._wait(request)

    def sync(self, claim: Claim, assignments: Mapping[str, bytes]) -> Mapping[str, Any]:
        request = grouprequests.sync_group(self._dialect, self.group, claim.generation, claim.member_id, assignments)
        return self._wait(request)

    def heartbeat(self, claim: Claim) -> int:
        """Send a heartbeat, and return the coordinator's error code."""
        request = grouprequests.heartbeat(self._dialect, self.group, claim.generation, claim.member_id)
        broker = self._found()
        code = int(self._call("heartbeat", request)["error"])
        self.answered = broker
        return code

    def doubt(self) -> Broker | None:
        """Look the coordinator up again before the next request, at other brokers: it may have been replaced.  Return
        it."""
        broker = self.coordinator or self._suspect
        if broker is not None:
            self._not(broker)
        return broker

    def leave(self, member_id: str) -> int:
        """Leave the group, and return the coordinator's error code."""
        request = grouprequests.leave_group(self._dialect, self.group, member_id)
        return int(self._call("leave", request)["error"])

    def describe(self) -> GroupState:
        """Return the group as its coordinator has it."""
        return self._lookup.describe(self.group)

    def refused(self, code: int) -> str:
        """Return a coordinator's error code as a sentence."""
        if code in TO_MEMBERS:
            return f"{BrokerError(code, f'group {self.group} on {self.coordinator}')}: {TO_MEMBERS[code]}"
        return str(refusal(code, self.coordinator, group=self.group))

    def end(self) -> None:
        """Close all connections: calls that wait raise LinkLost."""
        for links in (self._patient, self._quick, self._asking):
            links.end()

    def _call(self, purpose: str, request: Request[Any]) -> Mapping[str, Any]:
        broker = self._found()
        try:
            reply: Mapping[str, Any] = self._quick.call(broker, purpose, request)
        except LinkLost:
            self._not(broker)
            raise
        return self._heard(broker, reply)

    def _wait(self, request: Request[Any]) -> Mapping[str, Any]:
        """Send a request that the coordinator answers only when the other members are ready."""
        broker = self._found()
        try:
            with self._patient.lent(broker, "join") as link:
                try:
                    with deadline(CONNECT_S):
                        link.open()
                except TimeoutError:
                    raise LinkLost(f"{broker}: not connected within {CONNECT_S:g} s") from None
                link.send(request)
                reply: Mapping[str, Any] = self._received(link)
        except LinkLost:
            self._not(broker)
            raise
        return self._heard(broker, reply)

    def _received(self, link: Link) -> Mapping[str, Any]:
        """Wait for the response on a link.

        Raises LinkLost once another broker is the coordinator, and after the longest time that a coordinator may take:
        a firewall may have forgotten the connection, and neither side would notice.
        """
        over_at = self._now() + self._patience_s
        while True:
            try:
                with deadline(LOOK_S):
                    reply: Mapping[str, Any] = link.receive().body
                    return reply
            except TimeoutError:
                pass
            if self._now() > over_at:  # receive() restarts its own timeout each time, so it never expires
                raise LinkLost(f"{link.broker}: no answer within {self._patience_s:g} s")
            other = self._other(link.broker)
            if other is not None:
                raise LinkLost(f"{link.broker}: no answer, and {other} coordinates group {self.group} now")

    def _other(self, known: Broker) -> Broker | None:
        """Return another broker that coordinates the group now, as brokers and it itself say; else None."""
        try:
            with deadline(LOOK_UP_S):
                found = self._lookup.find(self.group, known)
                return found if found != known and self._asked(found).find(self.group) == found else None
        except (WireError, TimeoutError):
            return None

    def _found(self) -> Broker:
        """Return the coordinator, looked up if it is unknown."""
        if self.coordinator is None:
            self.coordinator = self._lookup.find(self.group, self._suspect)
        return self.coordinator

    def _not(self, broker: Broker) -> None:
        """Look the coordinator up again before the next request, and ask this broker last."""
        self._suspect = broker
        if self.coordinator == broker:
            self.coordinator = None

    def _heard(self, broker: Broker, reply: Mapping[str, Any]) -> Mapping[str, Any]:
        if reply["error"] in MOVED:
            self._not(broker)
        elif self._suspect == broker:
            self._suspect = None
        return reply
