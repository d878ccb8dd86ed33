"""Commits without ZooKeeper: which position is written, and who hears of one that was not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from groundwork import clocks
from groundwork.queues import BoundedQueue
from groundwork.tasks import TaskGroup, now, sleep
from kafkawire.errors import LinkLost
from kafkawire.model import TopicPartition
from tests.fakes.stores import MemoryOffsets, held
from zkconsumer.errors import ConsumerError, ZooKeeperAway
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.budget import Budget
from zkconsumer.fetching.partitioncursor import Cursor as RealCursor
from zkconsumer.fetching.partitioncursor import DeliveredSet
from zkconsumer.offsets.commits import CommitRetries, Commits, all_every_s
from zkconsumer.offsets.store import NONE, Committed
from zkconsumer.refusals import refusal
from zkconsumer.session.lease import Lease

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Store:
    """Keeps positions, or refuses all of them with an error."""

    def __init__(self) -> None:
        self.kept: dict[TopicPartition, int] = {}
        self.refusal: Exception | None = None
        self.commits = 0
        self.leases: list[Lease] = []  # that commits were given
        self.works_at = 0  # the commit from which on it is not refused
        self.takes_s = 0.0

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        return {tp: self.kept.get(tp, NONE) for tp in tps}

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        self.commits += 1
        self.leases.append(lease)
        if self.takes_s:
            sleep(self.takes_s)
        if self.refusal is None or 0 < self.works_at <= self.commits:
            self.kept |= positions
            return dict.fromkeys(positions)
        return dict.fromkeys(positions, self.refusal)


class Cursor(SimpleNamespace):
    """What a commit needs of a cursor."""

    __hash__ = object.__hash__

    def committable(self) -> int | None:
        return self.done


class World:
    def __init__(self) -> None:
        self.store = Store()
        self.events: list[ConsumerEvent] = []
        self.failed: list[Exception] = []
        self.ours = {A, B}
        self.patience: CommitRetries | None = None
        self.lease = Lease()
        self.commits = Commits(
            self.store,
            "g",
            lease=self.lease,
            still_ours=lambda tps: [tp for tp in tps if tp in self.ours],
            on_event=self.events.append,
            on_failed=self.failed.append,
            retries=lambda: self.patience,
        )

    def cursor(self, tp: TopicPartition, done: int | None) -> Any:
        return Cursor(tp=tp, done=done, committed=None)


def test_a_chosen_position_is_written_whatever_is_done_and_no_other_is():
    world = World()
    one, other = world.cursor(A, 50), world.cursor(B, 60)
    assert world.commits.commit_at({one: 7}) == {A: None}
    assert world.store.kept == {A: 7}
    assert (one.committed, other.committed) == (7, None)
    world.commits.commit([one, other])
    assert world.store.kept == {A: 50, B: 60}


def test_what_has_to_be_written_before_a_commit_can_refuse_it():
    world = World()
    cursor, refused = world.cursor(A, 50), [ConsumerError("the map is not written")]
    world.commits._before = lambda positions: refused[0] if refused else None
    assert world.commits.commit([cursor]) == {A: refused[0]}
    assert (world.store.kept, cursor.committed) == ({}, None)
    refused.clear()
    assert world.commits.commit([cursor]) == {A: None}
    assert world.store.kept == {A: 50}


def test_the_program_hears_once_that_commits_begin_to_fail():
    world = World()
    cursor = world.cursor(A, 50)
    world.store.refusal = ZooKeeperAway("the session is suspended")
    for _ in range(3):
        assert isinstance(world.commits.commit([cursor])[A], ZooKeeperAway)
    assert world.failed == [world.store.refusal]
    assert cursor.committed is None
    world.store.refusal = None
    world.commits.commit([cursor])
    world.store.refusal = ZooKeeperAway("the session is suspended again")
    world.commits.commit([cursor])
    assert len(world.failed) == 2
    assert [event.kind for event in world.events] == ["offset"] * 3


@pytest.mark.parametrize("between", ["another session", "a fence"])
@pytest.mark.parametrize("commit", ["commit", "commit_at"])
def test_a_commit_that_waited_until_there_was_another_lease_is_not_written(commit, between):
    """The offset map's disk takes its time.  Meanwhile the session ends and another one begins, or is silent up to the
    fence and answers again; another member has the partition."""
    lease, store = held(), MemoryOffsets()

    def another_lease(_: object) -> None:
        if between == "a fence":
            lease.end_what_began()
        else:
            lease.revoke(clocks.boot())
        lease.beat_answered(clocks.moment(), 60.0)

    commits = Commits(
        store, "g", lease=lease, still_ours=lambda tps: tps, on_event=lambda event: None, before=another_lease
    )
    cursor = Cursor(tp=A, done=50, committed=None)
    found = commits.commit([cursor]) if commit == "commit" else commits.commit_at({cursor: 50})
    assert "was silent for too long since this began" in str(found[A])
    assert (store.held, cursor.committed) == ({}, None)
    lease.check(clocks.moment())


@pytest.mark.parametrize("happens", ["its topic is deleted", "its log is cut"])
def test_a_commit_that_waits_is_not_written_once_the_log_that_it_is_of_is_gone(happens: str):
    """Written behind the next topic of that name it would count for its log, whose messages before it nobody would
    read."""
    lease, store = held(), MemoryOffsets()
    channel: BoundedQueue[DeliveredSet] = BoundedQueue(1000, SimpleQueue())
    reads = RealCursor(A, "thread", lease=lease, budget=Budget(1000).for_stream(1), channel=channel)
    reads.apply(reads.partition.reset_to, 50)

    def wait(_: object) -> None:
        if happens == "its topic is deleted":
            reads.apply(reads.partition.delete_topic)
        else:
            reads.partition.refuse_position()
            reads.partition.relocate(10)

    commits = Commits(store, "g", lease=lease, still_ours=lambda tps: tps, on_event=lambda event: None, before=wait)
    found = commits.commit([Cursor(tp=A, done=50, committed=None)])
    assert ("was deleted" if happens == "its topic is deleted" else "was cut") in str(found[A])
    assert store.held == {}
    assert reads.committable() is None


def test_what_has_no_position_yet_is_left_out():
    world = World()
    assert world.commits.commit([world.cursor(A, None)]) == {}
    assert world.store.kept == {}


LOST = LinkLost("broker 1 is silent")


@pytest.mark.parametrize("asked", ["commit_last", "commit_asked"])
def test_a_commit_that_cannot_be_made_up_for_later_is_tried_again(asked):
    world = World()
    cursor = world.cursor(A, 50)
    world.store.refusal, world.store.works_at = LOST, 3
    world.patience = CommitRetries(count=5, backoff_s=0.001, limit_s=5.0)
    assert getattr(world.commits, asked)([cursor]) == {A: None}
    assert (world.store.commits, world.store.kept, cursor.committed) == (3, {A: 50}, 50)


@pytest.mark.parametrize(("code", "tries"), [(7, 3), (15, 3), (19, 3), (20, 3), (3, 3), (12, 1), (25, 1), (30, 1)])
def test_the_last_commit_is_tried_again_after_a_code_that_passes(code, tries):
    world = World()
    world.store.refusal, world.store.works_at = refusal(code, None, A, 50, "g"), 3
    world.patience = CommitRetries(count=5, backoff_s=0.001, limit_s=5.0)
    found = world.commits.commit_last([world.cursor(A, 50)])
    assert world.store.commits == tries
    assert (found[A] is None) == (tries == 3)


def test_it_is_tried_so_often_and_then_said():
    world = World()
    world.store.refusal = LOST
    world.patience = CommitRetries(count=2, backoff_s=0.001, limit_s=5.0)
    assert world.commits.commit_last([world.cursor(A, 50)]) == {A: LOST}
    assert world.store.commits == 3
    assert len(world.events) == 1


def test_what_another_try_would_not_help_is_tried_once():
    world = World()
    world.store.refusal = ZooKeeperAway("the session is suspended")
    world.patience = CommitRetries(count=5, backoff_s=0.001, limit_s=5.0)
    world.commits.commit_last([world.cursor(A, 50)])
    assert world.store.commits == 1


def test_partitions_that_are_let_go_wait_only_so_long_also_for_another_commit():
    world = World()
    cursor = world.cursor(A, 50)
    world.store.takes_s = 30.0
    world.patience = CommitRetries(count=5, backoff_s=0.001, limit_s=0.1)
    tasks = TaskGroup()
    tasks.spawn("timer", world.commits.commit, [world.cursor(B, 1)])
    sleep(0.01)
    began = now()
    found = world.commits.commit_last([cursor])[A]
    tasks.stop(1.0)
    assert now() - began < 5
    assert str(found) == "committing 1 offset took longer than 0.1 s; they may be written"
    assert cursor.committed is None


def test_a_commit_that_still_waits_is_over_once_its_partitions_are_given_up():
    """Of two stores the second one was written with the first one's old offset, behind the next owner's commits."""
    world = World()
    world.lease.beat_answered(clocks.moment(), 60.0)
    world.store.takes_s = 30.0
    world.patience = CommitRetries(count=5, backoff_s=0.001, limit_s=0.1)
    tasks = TaskGroup()
    tasks.spawn("timer", world.commits.commit, [world.cursor(A, 50)])
    sleep(0.01)
    [waiting] = world.store.leases
    assert waiting.holds(clocks.moment())
    world.commits.commit_last([world.cursor(A, 60)])
    tasks.stop(1.0)
    assert not waiting.holds(clocks.moment())
    assert world.lease.until_revoked().holds(clocks.moment())


def test_the_timer_is_not_waited_for_by_one_in_a_hurry():
    world = World()
    cursor = world.cursor(A, 50)
    tasks = TaskGroup()
    tasks.spawn("auto-commit", world.commits.run, 60.0, lambda: [cursor], lambda: True)
    world.commits.commit_soon()
    sleep(0.05)
    assert (world.store.kept, world.store.commits) == ({A: 50}, 1)
    tasks.stop(1.0)


def test_a_change_of_the_store_comes_between_two_commits():
    world = World()
    world.store.takes_s = 0.05
    tasks = TaskGroup()
    tasks.spawn("timer", world.commits.commit, [world.cursor(A, 50)])
    sleep(0.01)
    assert world.store.kept == {}
    with world.commits.lock:
        assert world.store.kept == {A: 50}
        world.commits.commit_locked([world.cursor(B, 60)])
    assert world.store.kept == {A: 50, B: 60}
    tasks.stop(1.0)


def ticked(world, cursors, *, interval_s=0.005, every_s=60.0):
    """The timer, until the test ends it."""
    tasks = TaskGroup()
    tasks.spawn("timer", world.commits.run, interval_s, lambda: cursors, lambda: True, every_s)
    return tasks


def until(check):
    end = now() + 10
    while not check():
        assert now() < end
        sleep(0.001)


def test_the_timer_passes_over_what_did_not_move_and_takes_again_what_failed():
    world = World()
    resting, moving = world.cursor(A, 50), world.cursor(B, 1)
    resting.committed = 50
    world.store.refusal = ZooKeeperAway("the session is suspended")
    tasks = ticked(world, [resting, moving])
    until(lambda: world.store.commits >= 1)
    assert (world.store.kept, moving.committed) == ({}, None)
    moving.done = 3
    world.store.refusal = None
    until(lambda: moving.committed == 3)
    assert world.store.kept == {A: 50, B: 3}  # after a failure all
    del world.store.kept[A]
    moving.done = 4
    until(lambda: moving.committed == 4)
    assert A not in world.store.kept
    tasks.stop(1.0)


def test_a_reset_below_what_is_committed_has_moved():
    world = World()
    cursor = world.cursor(A, 50)
    cursor.committed = 90
    tasks = ticked(world, [cursor])
    until(lambda: cursor.committed == 50)
    assert world.store.kept == {A: 50}
    tasks.stop(1.0)


def test_what_does_not_move_is_committed_again_in_its_time():
    world = World()
    cursor = world.cursor(A, 50)
    cursor.committed = 50
    tasks = ticked(world, [cursor], every_s=0.01)
    until(lambda: world.store.kept == {A: 50})
    tasks.stop(1.0)


@pytest.mark.parametrize(
    ("interval_s", "retention_s", "every_s"),
    [(10, -0.001, 20.0), (10, 86400, 20.0), (10, 25, 5.0), (10, 11, 0.0), (60, 61, 0.0)],
)
def test_offsets_that_do_not_move_are_committed_before_kafka_forgets_them(interval_s, retention_s, every_s):
    assert all_every_s(interval_s, retention_s) == every_s
