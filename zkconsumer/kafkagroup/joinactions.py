"""Actions that only a member of a coordinated group has: join and sync.

The leader of the group computes the assignment of every member, between its JoinGroup and its SyncGroup.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from groundwork import clocks
from groundwork.sentences import counted
from kafkawire.errors import RemoteError, WireError
from kafkawire.model import TopicPartition
from kafkawire.protocol.subscriptions import Subscription, assignment_bytes, read_assignment, read_subscription
from kafkawire.znodes.group import Registration
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.kafkagroup import requests
from zkconsumer.kafkagroup.assignors import (
    ASSIGNORS,
    STICKY,
    GroupMember,
    read_sticky_user_data,
    spread,
    sticky_user_data,
)
from zkconsumer.kafkagroup.heartbeats import Heartbeats
from zkconsumer.kafkagroup.requests import MemberRequests
from zkconsumer.kafkagroup.topics import GroupTopics
from zkconsumer.member.executor import GroupActions
from zkconsumer.member.history import TopicHistory
from zkconsumer.member.ownership import OwnedPartitions, some_of
from zkconsumer.member.steps import (
    Action,
    Assignment,
    Claim,
    Do,
    Failed,
    Finished,
    IdGiven,
    IdUnknown,
    JoinAgain,
    Joined,
    Refused,
    Report,
    Synced,
)
from zkconsumer.options.config import ConsumerConfig

log = logging.getLogger(__name__)

GONE = (requests.GENERATION_OVER, requests.NO_MEMBER, requests.REBALANCING)
CLASSES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
}


class JoinActions(GroupActions):
    """Actions of one member of a coordinated group."""

    def __init__(
        self,
        *,
        members: MemberRequests,
        heartbeats: Heartbeats,
        topics: GroupTopics,
        owned: OwnedPartitions,
        config: ConsumerConfig,
        on_event: OnEvent,
    ) -> None:
        own = {Do.JOIN: self._join, Do.SYNC: self._sync, Do.LEAVE: self._leave}
        super().__init__(own, TopicHistory(on_event))
        self._members = 0  # number of the group's members; only its leader knows it
        self._led: Mapping[str, int] | None = None  # partitions by topic that it assigned as leader; None: not leader
        self._joined_with: list[str] = []  # topics of our subscription
        self._joined_as: Registration | None = None  # our subscription
        self._unreadable: set[str] = set()  # members of the last generation whose subscription could not be read
        self._requests = members
        self._heartbeats = heartbeats
        self._topics = topics
        self._owned = owned
        self._config = config
        self._on_event = on_event
        self._reply: Mapping[str, Any] = {}  # response to the last JoinGroup
        self._had: tuple[TopicPartition, ...] = ()  # last assignment, for sticky
        self._had_in = -1

    def subscribe(self, registration: Registration) -> None:
        """Subscribe to other topics with the next join."""
        self.history.resubscribed(self._joined_with)
        self._topics.registration = registration

    def changed(self) -> bool:
        """Read the topics again; return True if the group must rebalance because they changed.  Raises WireError."""
        self._topics.read()
        self._note_deleted()
        if self._topics.subscribed() != self._joined_with:
            return True
        return self._led is not None and self._topics.counted(self._led) != self._led

    def as_seen(self) -> str:
        generation = f", generation {self._reply['generation']}"
        if self._led is None:
            return generation
        return f"{generation}; {counted(self._members, 'member')} in the group, which this one leads"

    # actions ---------------------------------------------------------------------------------------------------------

    def _join(self, action: Action) -> Report:
        self._heartbeats.end()
        self._owned.forget_unread()
        self._topics.read()
        self._note_deleted()
        self.history.report_absent(self._topics.absent)
        self._joined_as, self._joined_with = self._topics.registration, self._topics.subscribed()
        strategy = self._config.assignment_strategy
        data = sticky_user_data(self._had, self._had_in) if strategy == STICKY else None
        metadata = Subscription(tuple(self._joined_with), data).encode()
        reply = self._requests.join(action.member_id, [(strategy, metadata)])
        code = reply["error"]
        if code == 0:
            self._reply = reply
            return Joined(action.turn, Claim(reply["generation"], reply["member_id"]))
        if code == requests.ID_FIRST:
            return IdGiven(action.turn, reply["member_id"])
        if code == requests.NO_MEMBER and action.member_id:
            return IdUnknown(action.turn)
        if code in requests.LASTING:
            return Refused(action.turn, self._why_refused(code, strategy))
        return Failed(action.turn, self._requests.refused(code))

    def _why_refused(self, code: int, strategy: str) -> str:
        """Return a sentence about the refusal, with what helps."""
        said = self._requests.refused(code)
        if code == requests.OTHER_PROTOCOL:
            return (
                f"{said}: its members share no assignment strategy with this one{self._theirs()}, or they are not "
                f"consumers; this one's is {strategy}: set partition.assignment.strategy to one of theirs, or add "
                f"{CLASSES[strategy]} to theirs, at all of them first"
            )
        if code == requests.BAD_SESSION_TIMEOUT:
            return (
                f"{said}: session.timeout.ms is {self._requests.session_timeout_ms()}, outside the brokers' "
                "group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        if code == requests.GROUP_FULL:
            return f"{said}: the group has as many members as the brokers' group.max.size allows"
        return said

    def _theirs(self) -> str:
        """Return the strategy that the group uses now, if its coordinator says so."""
        try:
            state = self._requests.describe()
        except WireError:
            return ""
        kind = f" of type {state.protocol_type}" if state.protocol_type not in ("", "consumer") else ""
        return f" (they use {state.protocol}{kind})" if state.protocol else kind

    def _sync(self, action: Action) -> Report:
        claim = action.claim
        assert claim is not None
        leads = self._reply["leader_id"] == claim.member_id
        assignments: dict[str, bytes] = self._divide() if leads else {}
        if not leads:
            self._led, self._members = None, 0
        sent = clocks.boot()
        reply = self._requests.sync(claim, assignments)
        code = reply["error"]
        if code in GONE:
            return JoinAgain(action.turn, forget=code == requests.NO_MEMBER)
        if code:
            return Failed(action.turn, self._requests.refused(code))
        found = read_assignment(reply["assignment"])
        threads = spread(found, self._topics.threads())
        self._had, self._had_in = tuple(found), claim.generation
        for tp in sorted(set(found) - threads.keys()):
            self._on_event(
                ConsumerEvent("claim", f"{tp} is assigned to this member, which does not subscribe to it", tp)
            )
        partitions = {
            TopicPartition(t, p) for t, n in self._topics.counted(self._joined_with).items() for p in range(n)
        }
        self.history.read(partitions, self._joined_as is self._topics.registration)
        self._heartbeats.begin(claim, sent)
        return Synced(action.turn, threads)

    def _divide(self) -> dict[str, bytes]:
        """Return the assignment of each member, by member id, because this member leads.  Raises RemoteError and
        Unreachable.

        A member whose subscription cannot be read gets nothing, and is reported.
        """
        protocol = self._reply["protocol"]
        rows = self._reply["members"]
        group: list[GroupMember] = []
        unreadable: dict[str, str] = {}
        for row in rows:
            try:
                read = read_subscription(row["metadata"])
            except RemoteError as why:
                unreadable[row["member_id"]] = str(why)
                continue
            had, had_in = read_sticky_user_data(read.user_data) if protocol == STICKY else ((), -1)
            member = GroupMember(
                row["member_id"], frozenset(read.topics), row.get("group_instance_id"), had=had, had_in=had_in
            )
            group.append(member)
        self._report_unreadable(unreadable)
        wanted = sorted({topic for member in group for topic in member.topics})
        if set(wanted) - self._topics.counts.keys():
            self._topics.read()  # another member knows a topic that is new to us
        self._led, self._members = self._topics.counted(wanted), len(rows)
        if protocol not in ASSIGNORS:
            raise RemoteError(
                f"group {self._requests.group}: the coordinator chose {protocol!r}, which was not offered"
            )
        assigned = ASSIGNORS[protocol](self._led, group)
        return {row["member_id"]: assignment_bytes(assigned.get(row["member_id"], ())) for row in rows}

    def _report_unreadable(self, unreadable: Mapping[str, str]) -> None:
        """Report members whose subscription cannot be read, each once."""
        new = {member_id: why for member_id, why in unreadable.items() if member_id not in self._unreadable}
        self._unreadable = set(unreadable)
        clients: dict[str, str] = {}
        if new:
            try:
                members = self._requests.describe().members
                clients = {member_id: f" (client {client}, host {host})" for member_id, client, host in members}
            except WireError as away:
                log.info("the clients whose subscriptions cannot be read are not known: %s", away)
        for member_id, why in new.items():
            self._on_event(
                ConsumerEvent(
                    "claim",
                    f"member {member_id}{clients.get(member_id, '')} of the group gets no partitions, for its"
                    f" subscription cannot be read ({why}); stop it, or give it another group",
                )
            )

    def _leave(self, action: Action) -> Report:
        self._heartbeats.end()
        code = self._requests.leave(action.member_id)
        return Failed(action.turn, self._requests.refused(code)) if code else Finished(action.turn)

    # around the actions of every member ------------------------------------------------------------------------------

    def dropping(self, assignment: Assignment) -> None:
        self._heartbeats.end()

    def committed(self, assignment: Assignment) -> None:
        self._owned.forget(assignment)
        self._on_event(ConsumerEvent("released", some_of(assignment)))

    def claimed(self) -> Callable[[TopicPartition], bool]:
        claim = self._heartbeats.claim
        return lambda tp: claim is not None and self._heartbeats.claim is claim

    def _note_deleted(self) -> None:
        """Record topics that we read and that do not exist any more."""
        there = self._topics.counts
        self.history.forget_deleted(there, self._topics.subscribes)
        deleted = self.history.deleted
        for topic in sorted({tp.topic for tp in self._owned.cursors} - there.keys() - deleted.keys()):
            deleted[topic] = f"topic {topic} was deleted; waiting for a new one"
            self._on_event(ConsumerEvent("missing", deleted[topic]))
