"""Commits without ZooKeeper: which position is written, and who hears of one that was not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from kafkawire.model import TopicPartition
from zkconsumer.commits import Commits
from zkconsumer.errors import ZooKeeperAway
from zkconsumer.events import ConsumerEvent
from zkconsumer.lease import Lease
from zkconsumer.offsets.store import NONE, Committed

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Store:
    """Keeps positions, or refuses all of them with an error."""

    def __init__(self) -> None:
        self.kept: dict[TopicPartition, int] = {}
        self.refusal: Exception | None = None

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        return {tp: self.kept.get(tp, NONE) for tp in tps}

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        if self.refusal is None:
            self.kept |= positions
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
        self.commits = Commits(
            self.store,
            "g",
            Lease(),
            lambda tps: [tp for tp in tps if tp in self.ours],
            self.events.append,
            self.failed.append,
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


def test_what_has_no_position_yet_is_left_out():
    world = World()
    assert world.commits.commit([world.cursor(A, None)]) == {}
    assert world.store.kept == {}
