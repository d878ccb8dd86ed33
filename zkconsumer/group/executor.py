"""Executor of rebalance actions: runs one action of the step machine (rebalance), and reports.  Runs in the event loop.

Each method runs the action of its name (steps.Do says what each does and what it may report).  A failure of ZooKeeper,
a store or a broker is also a report: `Failed`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from groundwork.tasks import Event, now, sleep
from kafkawire.errors import WireError
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError, FilterUnknown, ZooKeeperAway
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.cursor import Cursor
from zkconsumer.fetching.fetchers import Fetchers
from zkconsumer.group.claims import Claims
from zkconsumer.group.groupreader import GroupReader
from zkconsumer.group.membership import StrategyNotAllowed, Surplus, Unreadable, Unregistered, Untranslatable
from zkconsumer.group.ownership import Offset, OwnedPartitions, some_of
from zkconsumer.group.steps import (
    Action,
    ClaimsRefused,
    Do,
    Failed,
    Finished,
    GroupRead,
    Located,
    NotRegistered,
    Report,
    Unrecoverable,
)
from zkconsumer.group.verify import SESSIONLESS
from zkconsumer.listeners import ListenerCalls
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


class RebalanceExecutor:
    """Executor of the actions of one member, one at a time.

    cursors: the partitions that the member owns and reads; made, started and dropped here.  closing(): True while the
    member shuts down.  unrecoverable: why the group can never be read here, once that is known.
    """

    def __init__(
        self,
        *,
        session: ZkSession,
        group: GroupReader,
        claims: Claims,
        fetchers: Fetchers,
        commits: Commits,
        store: GroupOffsets,
        make_cursor: Callable[[TopicPartition, str, str], Cursor],
        cursors: dict[TopicPartition, Cursor],
        config: ConsumerConfig,
        on_event: OnEvent,
        listener: ListenerCalls,
        closing: Callable[[], bool],
    ) -> None:
        self.cursors = cursors
        self.freed = Event()  # set when a contested owner node went away
        self.unrecoverable: FilterUnknown | None = None
        self.deleted: dict[str, str] = {}  # topics that were read and are deleted, with a sentence each
        self._session = session
        self._group = group
        self._claims = claims
        self._owned = OwnedPartitions(
            cursors=cursors,
            fetchers=fetchers,
            commits=commits,
            store=store,
            make_cursor=make_cursor,
            config=config,
            listener=listener,
            on_event=on_event,
        )
        self._store = store
        self._commits = commits
        self._config = config
        self._on_event = on_event
        self._closing = closing
        self._taken: dict[TopicPartition, _Place] = {}  # state of partitions when they were taken from us
        self._went_on: set[TopicPartition] = set()  # those of them whose committed offset was gone
        self._id_deleted = False  # True if it was deleted in this session
        self._located: dict[TopicPartition, Offset] = {}
        self._recreated: dict[TopicPartition, TopicCreation] = {}  # former topic of partitions with a new log
        self._known_at_start: frozenset[TopicPartition] | None = None
        self._topics_before: frozenset[str] | None = None  # read until the subscription was changed
        self._reported_absent: set[str] = set()
        self._reported_surplus: set[Surplus] = set()
        self._do: dict[Do, Callable[[Action], Report]] = {
            Do.REGISTER: self._register,
            Do.READ: self._read,
            Do.STOP: self._stop,
            Do.DRAIN: self._drain,
            Do.COMMIT: self._commit,
            Do.RELEASE: self._release,
            Do.CLAIM: self._claim,
            Do.LOCATE: self._locate,
            Do.START: self._start,
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
        for tp in assignment:
            cursor = self.cursors.get(tp)
            if cursor is not None and cursor.committed is not None and not cursor.topic_deleted:
                self._taken[tp] = _Place(cursor.committed, cursor.topic)
        self._owned.drop(assignment)
        self._no_longer_recreated(assignment)
        self._claims.forget(assignment)

    def readable(self, cursor: Cursor) -> bool:
        """True unless the committed offset of a parked partition cannot be read."""
        return self._owned.readable(cursor)

    def resubscribed(self) -> None:
        """Record a new subscription: topics that are new to it begin as after a start."""
        if self._topics_before is None:
            self._topics_before = frozenset(self._group.partitions)

    def sweep(self) -> None:
        """Delete owner nodes of our session that we do not hold: an attempt broke off, or the lease was over for a
        while."""
        paths = self._claims.sweep()
        if paths:
            text = f"{len(paths)} owner nodes were left over from us and are deleted, the first {paths[0]}"
            self._on_event(ConsumerEvent("claim", text))

    def rewrite_offsets(self, tps: Iterable[TopicPartition]) -> None:
        """Have offsets written again whose nodes were deleted by others: only their owner knows them.  Raises
        ZooKeeperAway."""
        for tp in self._store.deleted(self._config.group_id, [tp for tp in tps if tp in self.cursors]):
            cursor = self.cursors.get(tp)
            if cursor is not None and cursor.committed is not None and not cursor.dropped:
                text = f"{tp}: the offset node was deleted by another client; {cursor.committed} is written again"
                self._on_event(ConsumerEvent("offset", text, tp, offset=cursor.committed))
                self._commits.commit_soon()

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
        if self._known_at_start is None:
            known = {TopicPartition(topic, p) for topic, ids in self._group.partitions.items() for p in ids}
            self._known_at_start = frozenset(known)
        if self._topics_before is not None and self._group.subscribed:
            there = {topic: ids for topic, ids in self._group.partitions.items() if topic not in self._topics_before}
            self._known_at_start |= {TopicPartition(topic, p) for topic, ids in there.items() for p in ids}
            self._topics_before = None
        self._report_absent()
        self._report_surplus()
        left_out = "; ".join(f"{one}, so it is not counted" for one in self._group.left_out)
        recreated = frozenset(tp for tp, cursor in self.cursors.items() if cursor.topic_deleted and not cursor.dropped)
        return GroupRead(action.turn, found, left_out, recreated)

    def _end_former_logs(self) -> None:
        """Commit nothing more for partitions whose topic was deleted, whether or not there is a new one: such a commit
        would be newer than the new topic."""
        lost: dict[str, list[Cursor]] = {}
        self.deleted = {
            topic: text
            for topic, text in self.deleted.items()
            if topic not in self._group.creations and self._group.subscribes(topic)
        }
        for tp, cursor in self.cursors.items():
            today = self._group.creations.get(tp.topic)
            if today is None and not self._group.subscribes(tp.topic):
                continue  # it was not read, because the former subscription did not select it
            if cursor.topic is None or cursor.topic_deleted or today == cursor.topic:
                continue
            cursor.topic_deleted, cursor.committed = True, None
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
                self.deleted[topic] = (
                    f"topic {topic}, created at {cursors[0].topic}, was deleted; waiting for a new one"
                )

    def _report_surplus(self) -> None:
        """Report, once for each number of threads and partitions of a topic, that some threads have nothing to read."""
        for one in self._group.surplus:
            if one not in self._reported_surplus:
                self._on_event(ConsumerEvent("idle", str(one)))
        self._reported_surplus = set(self._group.surplus)

    def _report_absent(self) -> None:
        """Report once that a subscribed topic does not exist: perhaps its name is wrong."""
        absent = set(self._group.absent)
        for topic in sorted(absent - self._reported_absent):
            self._on_event(ConsumerEvent("missing", f"topic {topic} does not exist (yet); waiting for it"))
        self._reported_absent = absent

    def _stop(self, action: Action) -> Report:
        self._owned.stop(action.assignment)
        return Finished(action.turn)

    def _drain(self, action: Action) -> Report:
        self._owned.drain(action.assignment, self._closing())  # a JVM member waits about 6 s for its partitions
        return Finished(action.turn)

    def _commit(self, action: Action) -> Report:
        with suppress(ZooKeeperAway):  # the commit reports it
            self.rewrite_offsets(action.assignment)
        failed = self._owned.commit(action.assignment)
        self._owned.forget(tp for tp in action.assignment if tp in self._recreated)
        return Failed(action.turn, failed) if failed else Finished(action.turn)

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

    def _locate(self, action: Action) -> Report:
        """Read the committed offsets, now that only this member moves them."""
        self._located = known = self._owned.offsets(action.assignment)
        for tp, at in known.items():
            then, today = self._recreated.get(tp), self._group.creations.get(tp.topic)
            if isinstance(at, int) and then is not None and today is not None:
                known[tp] = former_read(
                    tp.topic, at, then, today
                )  # at any time: only this member could have written it
            elif at is None and self._owned.sought(tp) is None:
                known[tp] = self._place_of(tp)
        return Located(action.turn, frozenset(known))

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

    def _start(self, action: Action) -> Report:
        self._owned.start(
            action.assignment,
            self._located,
            ours=lambda tp: tp in self._claims.held,
            reset_of=self._reset_of,
            prepare=self._of_todays_topic,
        )
        for tp in action.assignment:
            if tp not in self.cursors:
                continue
            if tp in self._went_on:  # it counts until something is committed again
                self.cursors[tp].committed = None  # the store has no offset
                self._commits.commit_soon()
            else:
                self._taken.pop(tp, None)
        self._went_on.difference_update(action.assignment)
        return Finished(action.turn)

    def _of_todays_topic(self, cursor: Cursor) -> None:
        cursor.topic = self._group.creations.get(cursor.tp.topic)
        self._recreated.pop(cursor.tp, None)

    def _reset_of(self, tp: TopicPartition) -> str:
        """Return the reset policy.  Partitions that appear while we run are read from the start: the user did not
        choose to skip them."""
        appeared = self._known_at_start is not None and tp not in self._known_at_start
        return "smallest" if appeared else self._config.auto_offset_reset

    def _wait(self, action: Action) -> Report:
        self.freed.wait(timeout=action.wait_ms / 1000)
        self.freed.clear()  # freed ends one wait only: the next round may fail before it claims, and must wait
        return Finished(action.turn)

    def _leave(self, action: Action) -> Report:
        self._group.leave()
        return Finished(action.turn)

    def _no_longer_recreated(self, tps: Iterable[TopicPartition]) -> None:
        for tp in tps:
            self._recreated.pop(tp, None)
