"""Actions that only a member in ZooKeeper has: register, read the group, release and claim.

The offset of a partition, or its topic, may be deleted while the member does not own it.  So the member remembers at
which offset a partition was taken from it, and to which topic the log belongs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from groundwork.sentences import counted
from groundwork.tasks import now, sleep
from kafkawire.model import TopicPartition
from kafkawire.znodes.group import Registration
from zkconsumer.errors import FilterUnknown, ZooKeeperAway
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.group.claims import Claims
from zkconsumer.group.groupreader import GroupReader
from zkconsumer.group.membership import StrategyNotAllowed, Surplus, Unreadable, Unregistered, Untranslatable
from zkconsumer.group.verify import SESSIONLESS
from zkconsumer.member.executor import GroupActions
from zkconsumer.member.history import TopicHistory
from zkconsumer.member.ownership import Offset, OwnedPartitions, some_of
from zkconsumer.member.steps import (
    Action,
    Assignment,
    ClaimsRefused,
    Do,
    Failed,
    Finished,
    GroupRead,
    NotRegistered,
    Report,
    Unrecoverable,
)
from zkconsumer.offsets.commits import Commits
from zkconsumer.offsets.former import TopicCreation, former_read
from zkconsumer.offsets.group import GroupOffsets
from zkconsumer.options.config import ConsumerConfig
from zkconsumer.session.zksession import SessionState, ZkSession

SESSION_POLL_S = 0.05
OTHERS_REGISTER_S = 1.0
REPORT_AFTER_S = 3.0  # an id node of another session is reported only if it stays longer


class _Place(NamedTuple):
    """State of a partition when it was taken: its last committed offset, and the topic whose log it belongs to."""

    committed: int
    topic: TopicCreation | None


class ClaimActions(GroupActions):
    """Actions of one member in ZooKeeper.  closing(): True while the member shuts down.

    unrecoverable: why the group can never be read here, once that is known.
    """

    def __init__(
        self,
        *,
        session: ZkSession,
        group: GroupReader,
        claims: Claims,
        commits: Commits,
        store: GroupOffsets,
        owned: OwnedPartitions,
        config: ConsumerConfig,
        on_event: OnEvent,
        closing: Callable[[], bool],
    ) -> None:
        own: dict[Do, Callable[[Action], Report]] = {
            Do.REGISTER: self._register,
            Do.READ: self._read,
            Do.RELEASE: self._release,
            Do.CLAIM: self._claim,
            Do.LEAVE: self._leave,
        }
        super().__init__(own, TopicHistory(on_event))
        self.unrecoverable: FilterUnknown | None = None
        self._session = session
        self._group = group
        self._claims = claims
        self._commits = commits
        self._store = store
        self._owned = owned
        self._cursors = owned.cursors
        self._config = config
        self._on_event = on_event
        self._closing = closing
        self._taken: dict[TopicPartition, _Place] = {}  # state of partitions when they were taken from us
        self._went_on: set[TopicPartition] = set()  # those of them whose committed offset was gone
        self._id_deleted = False  # True if it was deleted in this session
        self._recreated: dict[TopicPartition, TopicCreation] = {}  # former topic of partitions with a new log
        self._reported_surplus: set[Surplus] = set()

    def subscribe(self, registration: Registration) -> None:
        """Subscribe to other topics, which the next round registers; kept partitions are read meanwhile."""
        self._group.subscribe(registration)
        self.history.resubscribed(self._group.partitions)

    def sweep(self) -> None:
        """Delete owner nodes of our session that we do not hold: an attempt broke off, or the lease was over for a
        while."""
        paths = self._claims.sweep()
        if paths:
            text = f"{len(paths)} owner nodes were left over from us and are deleted, the first {paths[0]}"
            self._on_event(ConsumerEvent("claim", text))

    def rewrite_offsets(self, tps: Iterable[TopicPartition]) -> None:
        """Write offsets again whose nodes other clients deleted, since only the owner knows them.  Raises
        ZooKeeperAway."""
        for tp in self._store.deleted(self._config.group_id, [tp for tp in tps if tp in self._cursors]):
            cursor = self._cursors.get(tp)
            if cursor is not None and cursor.committed is not None and not cursor.dropped:
                text = f"{tp}: the offset node was deleted by another client; {cursor.committed} is written again"
                self._on_event(ConsumerEvent("offset", text, tp, offset=cursor.committed))
                self._commits.commit_soon()

    def as_seen(self) -> str:
        return f"; {counted(self._group.members, 'member')} in the group"

    # actions ---------------------------------------------------------------------------------------------------------

    def _register(self, action: Action) -> Report:
        began = now()
        while self._session.state is not SessionState.CONNECTED or self._session.fenced:
            if self._closing():
                return Failed(action.turn, "ZooKeeper is disconnected, and this member is shutting down")
            sleep(SESSION_POLL_S)
        while (holder := self._group.register(int(time.time() * 1000))) is not None:
            if now() - began > REPORT_AFTER_S:
                began = now()
                fixed = self._config.consumer_id
                helps = (
                    f"; consumer.id is {fixed} there too: give each member its own, or leave it out" if fixed else ""
                )
                text = f"id node {self._group.consumer_id} is held by {holder}; waiting until it ends{helps}"
                if holder == SESSIONLESS:
                    text = f"id node {self._group.consumer_id}: {SESSIONLESS}; waiting until it is deleted"
                self._on_event(ConsumerEvent("claim" if fixed else "rebalance", text))
            if self._closing():
                held = f"id node {self._group.consumer_id} is held by {holder}"
                return Failed(action.turn, f"{held}, and this member is shutting down")
            self._group.wait_for_id(1.0)
        self.sweep()
        if self._id_deleted:
            # A client that deletes the nodes of a group deletes those of all members.  If this member claimed at once,
            # it would take the partitions of the others, whose offsets it does not know.
            self._id_deleted = False
            sleep(OTHERS_REGISTER_S)
        return Finished(action.turn)

    def _read(self, action: Action) -> Report:
        found = self._group.read(self._config.assignment_strategy, action.accept_partial)
        self._end_former_logs()
        if isinstance(found, Unregistered):
            self._id_deleted = found.deleted
            return NotRegistered(action.turn)
        if isinstance(found, Untranslatable):
            self.unrecoverable = FilterUnknown(found.member, found.pattern, found.why)
            self._on_event(ConsumerEvent("rebalance", str(self.unrecoverable)))
            return Unrecoverable(action.turn, str(self.unrecoverable))
        if isinstance(found, Unreadable | StrategyNotAllowed):
            return Failed(action.turn, str(found))
        partitions = {TopicPartition(topic, p) for topic, ids in self._group.partitions.items() for p in ids}
        self.history.read(partitions, self._group.subscribed)
        self.history.report_absent(self._group.absent)
        self._report_surplus()
        left_out = "; ".join(f"{one}, so it is not counted" for one in self._group.left_out)
        recreated = frozenset(
            tp for tp, cursor in self._cursors.items() if cursor.partition.topic_deleted and not cursor.dropped
        )
        return GroupRead(action.turn, found, left_out, recreated)

    def _end_former_logs(self) -> None:
        """Commit nothing more for partitions whose topic was deleted, whether or not there is a new one: such a commit
        would be newer than the new topic."""
        lost: dict[str, list[Cursor]] = {}
        self.history.forget_deleted(self._group.creations, self._group.subscribes)
        for tp, cursor in self._cursors.items():
            today = self._group.creations.get(tp.topic)
            if today is None and not self._group.subscribes(tp.topic):
                continue  # it was not read, because the former subscription did not select it
            if cursor.topic is None or cursor.partition.topic_deleted or today == cursor.topic:
                continue
            cursor.apply(cursor.partition.delete_topic)
            cursor.committed = None
            lost.setdefault(tp.topic, []).append(cursor)
            if today is not None:
                self._recreated[tp] = cursor.topic
        for topic, cursors in lost.items():
            again = f" and created again at {self._group.creations[topic]}" if topic in self._group.creations else ""
            text = (
                f"topic {topic}, created at {cursors[0].topic}, was deleted{again}: what is committed of its"
                f" {len(cursors)} partitions here does not count for a new log, and nothing more is committed of the"
                " deleted one"
            )
            self._on_event(ConsumerEvent("reset", text, min(cursor.tp for cursor in cursors)))
            if not again:
                text = f"topic {topic}, created at {cursors[0].topic}, was deleted; waiting for a new one"
                self.history.deleted[topic] = text

    def _report_surplus(self) -> None:
        """Report, once for each number of threads and partitions of a topic, that some threads have nothing to read."""
        for one in self._group.surplus:
            if one not in self._reported_surplus:
                self._on_event(ConsumerEvent("idle", str(one)))
        self._reported_surplus = set(self._group.surplus)

    def _release(self, action: Action) -> Report:
        self._owned.forget(action.assignment)
        for tp in action.assignment:
            self._taken.pop(tp, None)  # its next owner continues
        self._no_longer_recreated(action.assignment)
        self._claims.release(action.assignment)
        self._on_event(ConsumerEvent("released", some_of(action.assignment)))
        return Finished(action.turn)

    def _claim(self, action: Action) -> Report:
        self.freed.clear()
        contested = self._claims.claim(action.assignment, keep=action.accept_partial)
        if not contested:
            return Finished(action.turn)
        for tp, holder in contested.items():
            if SESSIONLESS in holder:
                self._on_event(ConsumerEvent("unread", f"{tp} is not read: it is owned by {holder}", tp))
        won = frozenset(action.assignment) - contested.keys() if action.accept_partial else frozenset()
        return ClaimsRefused(action.turn, contested, won)

    def _leave(self, action: Action) -> Report:
        self._group.leave()
        return Finished(action.turn)

    # around the actions of every member ------------------------------------------------------------------------------

    def dropping(self, assignment: Assignment) -> None:
        for tp in assignment:
            cursor = self._cursors.get(tp)
            if cursor is not None and cursor.committed is not None and not cursor.partition.topic_deleted:
                self._taken[tp] = _Place(cursor.committed, cursor.topic)
        self._no_longer_recreated(assignment)
        self._claims.forget(assignment)

    def committing(self, assignment: Assignment) -> None:
        with suppress(ZooKeeperAway):  # the commit reports it
            self.rewrite_offsets(assignment)

    def committed(self, assignment: Assignment) -> None:
        self._owned.forget(tp for tp in assignment if tp in self._recreated)

    def located(self, offsets: dict[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
        for tp, at in offsets.items():
            then, today = self._recreated.get(tp), self._group.creations.get(tp.topic)
            if isinstance(at, int) and then is not None and today is not None:
                offsets[tp] = former_read(tp.topic, at, then, today)  # only this member could have written it
            elif at is None and self._owned.sought(tp) is None:
                offsets[tp] = self._place_of(tp)
        return offsets

    def _place_of(self, tp: TopicPartition) -> int | None:
        """Return the offset at which a partition was taken from this member, if nothing is committed for it."""
        place = self._taken.get(tp)
        if place is None or place.topic != self._group.creations.get(tp.topic):
            return None
        self._went_on.add(tp)
        text = (
            f"{tp}: its committed offset is gone, as if it had never been read; going on at {place.committed}, which"
            " this member committed before the partition was taken from it"
        )
        self._on_event(ConsumerEvent("offset", text, tp, offset=place.committed))
        return place.committed

    def claimed(self) -> Callable[[TopicPartition], bool]:
        return lambda tp: tp in self._claims.held

    def prepare(self, cursor: Cursor) -> None:
        if cursor.tp in self._store.out_of_sync:
            self._commits.commit_soon()  # otherwise the two stores of an idle partition would differ forever
        cursor.topic = self._group.creations.get(cursor.tp.topic)
        self._recreated.pop(cursor.tp, None)

    def started(self, assignment: Assignment) -> None:
        for tp in assignment:
            if tp not in self._cursors:
                continue
            if tp in self._went_on:  # it counts until something is committed again
                self._cursors[tp].committed = None  # the store has no offset
                self._commits.commit_soon()
            else:
                self._taken.pop(tp, None)
        self._went_on.difference_update(assignment)

    def _no_longer_recreated(self, tps: Iterable[TopicPartition]) -> None:
        for tp in tps:
            self._recreated.pop(tp, None)
