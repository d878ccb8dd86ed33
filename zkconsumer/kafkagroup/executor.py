"""Executor of a member's actions (lifecycle): runs one, and reports.  Runs in the event loop.

Each method runs the action of its name (lifecycle.Do says what each does and may report).  A failure of a broker or of
the coordinator is also a report: `Failed`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from groundwork import clocks
from groundwork.tasks import sleep
from kafkawire.errors import LinkLost, RemoteError, WireError
from kafkawire.model import TopicPartition
from kafkawire.protocol.subscriptions import Subscription, assignment_bytes, read_assignment, read_subscription
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.group.ownership import Offset, OwnedPartitions, some_of
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
from zkconsumer.kafkagroup.lifecycle import (
    Action,
    Claim,
    Do,
    Failed,
    Finished,
    IdGiven,
    IdUnknown,
    JoinAgain,
    Joined,
    Located,
    Refused,
    Report,
    Synced,
)
from zkconsumer.kafkagroup.requests import MemberRequests
from zkconsumer.kafkagroup.topics import GroupTopics
from zkconsumer.options.config import ConsumerConfig

log = logging.getLogger(__name__)

GONE = (requests.GENERATION_OVER, requests.NO_MEMBER, requests.REBALANCING)
CLASSES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
}


class GroupExecutor:
    """Executor of the actions of one member, one at a time.  closing(): True while the member shuts down."""

    def __init__(
        self,
        *,
        members: MemberRequests,
        heartbeats: Heartbeats,
        topics: GroupTopics,
        owned: OwnedPartitions,
        config: ConsumerConfig,
        on_event: OnEvent,
        closing: Callable[[], bool],
    ) -> None:
        self.owned = owned
        self.members = 0  # number of the group's members; only its leader knows it
        self.refusal = ""  # why the group refuses this member
        self.led: Mapping[str, int] | None = None  # partitions by topic that it assigned as leader; None: not leader
        self.joined_with: list[str] = []  # topics of our subscription
        self._unreadable: set[str] = set()  # members of the last generation whose subscription could not be read
        self.deleted: dict[str, str] = {}  # topics that were read and are deleted, with a sentence each
        self._requests = members
        self._heartbeats = heartbeats
        self._topics = topics
        self._config = config
        self._on_event = on_event
        self._closing = closing
        self._reply: Mapping[str, Any] = {}  # response to the last JoinGroup
        self._located: dict[TopicPartition, Offset] = {}
        self._known_at_start: frozenset[TopicPartition] | None = None
        self._topics_before: frozenset[str] | None = None  # topics that existed when the subscription was changed
        self._had: tuple[TopicPartition, ...] = ()  # last assignment, for sticky
        self._had_in = -1
        self._reported_absent: set[str] = set()
        self._do: dict[Do, Callable[[Action], Report]] = {
            Do.JOIN: self._join,
            Do.SYNC: self._sync,
            Do.LOCATE: self._locate,
            Do.START: self._start,
            Do.STOP: self._stop,
            Do.DRAIN: self._drain,
            Do.COMMIT: self._commit,
            Do.WAIT: self._wait,
            Do.LEAVE: self._leave,
        }

    def do(self, action: Action) -> Report:
        try:
            return self._do[action.do](action)
        except (ConsumerError, WireError) as e:
            return Failed(action.turn, str(e))

    def drop(self, assignment: Mapping[TopicPartition, str]) -> None:
        """Revoke partitions at once."""
        self._heartbeats.end()
        self.owned.drop(assignment)

    def resubscribed(self) -> None:
        """Record a new subscription: topics that are new to it begin as after a start."""
        if self._topics_before is None:
            self._topics_before = frozenset(self.joined_with)

    def changed(self) -> bool:
        """Read the topics again; return True if the group must rebalance because they changed.  Raises WireError."""
        self._topics.read()
        self._note_deleted()
        if self._topics.subscribed() != self.joined_with:
            return True
        return self.led is not None and self._topics.counted(self.led) != self.led

    # actions ---------------------------------------------------------------------------------------------------------

    def _join(self, action: Action) -> Report:
        self._heartbeats.end()
        self.owned.forget_unread()
        self._topics.read()
        self._note_deleted()
        self._report_absent()
        self.joined_with = self._topics.subscribed()
        strategy = self._config.assignment_strategy
        data = sticky_user_data(self._had, self._had_in) if strategy == STICKY else None
        metadata = Subscription(tuple(self.joined_with), data).encode()
        reply = self._requests.join(action.member_id, [(strategy, metadata)])
        code = reply["error"]
        if code == 0:
            self._reply, self.refusal = reply, ""
            return Joined(action.turn, Claim(reply["generation"], reply["member_id"]))
        if code == requests.ID_FIRST:
            return IdGiven(action.turn, reply["member_id"])
        if code == requests.NO_MEMBER:
            return IdUnknown(action.turn)
        if code in requests.LASTING:
            self.refusal = self._why_refused(code, strategy)
            return Refused(action.turn, self.refusal)
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
            self.led, self.members = None, 0
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
        self._know_at_start()
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
        self.led, self.members = self._topics.counted(wanted), len(rows)
        if protocol not in ASSIGNORS:
            raise RemoteError(
                f"group {self._requests.group}: the coordinator chose {protocol!r}, which was not offered"
            )
        assigned = ASSIGNORS[protocol](self.led, group)
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

    def _know_at_start(self) -> None:
        """Record which partitions existed at the start, and when our subscription was changed: others are new."""
        subscribed = self._topics.counted(self.joined_with)
        if self._known_at_start is None:
            self._known_at_start = _partitions(subscribed)
        elif self._topics_before is not None:
            new = {topic: n for topic, n in subscribed.items() if topic not in self._topics_before}
            self._known_at_start |= _partitions(new)
        self._topics_before = None

    def _locate(self, action: Action) -> Report:
        """Read the committed offsets, now that only this member moves them."""
        self._located = self.owned.offsets(action.assignment)
        return Located(action.turn, frozenset(self._located))

    def _start(self, action: Action) -> Report:
        claim = self._heartbeats.claim
        self.owned.start(
            action.assignment,
            self._located,
            ours=lambda tp: claim is not None and self._heartbeats.claim is claim,
            reset_of=self._reset_of,
        )
        return Finished(action.turn)

    def _reset_of(self, tp: TopicPartition) -> str:
        """Return the reset policy.  Partitions that appear while we run are read from the start: the user did not
        choose to skip them."""
        appeared = self._known_at_start is not None and tp not in self._known_at_start
        return "smallest" if appeared else self._config.auto_offset_reset

    def _stop(self, action: Action) -> Report:
        self.owned.stop(action.assignment)
        return Finished(action.turn)

    def _drain(self, action: Action) -> Report:
        self.owned.drain(action.assignment, self._closing())
        return Finished(action.turn)

    def _commit(self, action: Action) -> Report:
        failed = self.owned.commit(action.assignment)
        self.owned.forget(action.assignment)
        self._on_event(ConsumerEvent("released", some_of(action.assignment)))
        return Failed(action.turn, failed) if failed else Finished(action.turn)

    def _wait(self, action: Action) -> Report:
        sleep(action.wait_ms / 1000)
        return Finished(action.turn)

    def _leave(self, action: Action) -> Report:
        self._heartbeats.end()
        try:
            code = self._requests.leave(action.member_id)
        except LinkLost as lost:
            return Failed(action.turn, str(lost))
        return Failed(action.turn, self._requests.refused(code)) if code else Finished(action.turn)

    # reports about topics ---------------------------------------------------------------------------------------------

    def _report_absent(self) -> None:
        """Report once that a subscribed topic does not exist: perhaps its name is wrong."""
        absent = set(self._topics.absent)
        for topic in sorted(absent - self._reported_absent):
            self._on_event(ConsumerEvent("missing", f"topic {topic} does not exist (yet); waiting for it"))
        self._reported_absent = absent

    def _note_deleted(self) -> None:
        """Record topics that we read and that do not exist any more."""
        there = self._topics.counts
        self.deleted = {t: s for t, s in self.deleted.items() if t not in there and self._topics.subscribes(t)}
        for topic in sorted({tp.topic for tp in self.owned.cursors} - there.keys() - self.deleted.keys()):
            self.deleted[topic] = f"topic {topic} was deleted; waiting for a new one"
            self._on_event(ConsumerEvent("missing", self.deleted[topic]))


def _partitions(counts: Mapping[str, int]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, p) for topic, n in counts.items() for p in range(n))
