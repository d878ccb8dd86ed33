"""Owned partitions whose committed offset cannot be read, or is gone: where they are read from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from kafkawire.model import TopicPartition
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.budget import Budget
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.group.claimactions import ClaimActions, _Place
from zkconsumer.member.executor import Executor
from zkconsumer.member.ownership import OwnedPartitions
from zkconsumer.member.steps import Action, Do
from zkconsumer.offsets.store import NONE, Committed, Unknown
from zkconsumer.session.lease import Lease

NOBODY: Any = None
TP = TopicPartition("t", 0)
TORN = Unknown("holds 'x'")


class Offsets:
    """A store; before(): called in each read, as what happens while it is waited for."""

    out_of_sync = frozenset[TopicPartition]()

    def __init__(self, held: Committed) -> None:
        self.held = held
        self.before: Callable[[], object] = lambda: None

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        found = dict.fromkeys(tps, self.held)
        self.before()
        return found


def parts(store: Offsets, on_event: Callable[[ConsumerEvent], object]) -> dict[str, Any]:
    budget = Budget(1 << 20).for_stream(1)
    return {
        "cursors": {},
        "fetchers": SimpleNamespace(add=list, remove=list),
        "commits": SimpleNamespace(commit_soon=lambda: None),
        "store": store,
        "make_cursor": lambda tp, thread, reset: Cursor(tp, thread, lease=Lease(), budget=budget, channel=NOBODY),
        "config": SimpleNamespace(group_id="g", auto_offset_reset="largest"),
        "listener": SimpleNamespace(before_start=lambda tps: {}),
        "on_event": on_event,
    }


def member_of(
    store: Offsets, claims: Any, on_event: Callable[[ConsumerEvent], object]
) -> tuple[Executor, ClaimActions]:
    """The executor of a member in ZooKeeper, and its actions."""
    some = parts(store, on_event)
    owned = OwnedPartitions(**some)
    actions = ClaimActions(
        session=NOBODY,
        group=SimpleNamespace(creations={}),  # type: ignore[arg-type]
        claims=claims,
        commits=some["commits"],
        store=store,  # type: ignore[arg-type]
        owned=owned,
        config=some["config"],
        on_event=on_event,
        closing=lambda: False,
    )
    return Executor(actions, owned, some["config"], lambda: False), actions


def test_a_seek_while_an_unpark_reads_the_offset_again_is_not_overwritten() -> None:
    """The program's seek was lost: reading went on at the committed offset."""
    store = Offsets(TORN)
    owned = OwnedPartitions(**parts(store, lambda event: None))
    assert owned.offsets({TP: "g-0"}) == {}
    cursor = owned.cursors[TP]
    assert not owned.readable(cursor)
    store.held, store.before = 12, lambda: cursor.apply(cursor.partition.reset_to, 500)
    assert owned.readable(cursor)
    assert cursor.partition.position.offset == 500


def test_where_a_partition_was_taken_is_not_where_it_goes_on_after_a_seek() -> None:
    """An event said that it goes on where it was taken from this member, and it went on where the program sought."""
    told: list[ConsumerEvent] = []
    store = Offsets(TORN)
    executor, actions = member_of(store, NOBODY, told.append)
    actions._taken[TP] = _Place(7, None)
    executor.do(Action(Do.LOCATE, 1, {TP: "g-0"}))
    cursor = executor.owned.cursors[TP]
    cursor.apply(cursor.partition.reset_to, 500)
    executor.do(Action(Do.LOCATE, 2, {TP: "g-0"}))
    assert [event.kind for event in told] == ["unread"]


def test_a_partition_that_is_taken_twice_goes_on_where_it_was_committed_last() -> None:
    """Taken again before the first commit after its offset was deleted, it began by auto.offset.reset: with largest all
    that had not been read was passed over."""
    store = Offsets(12)
    executor, _ = member_of(store, SimpleNamespace(held={TP}, forget=list), lambda event: None)
    begun = []
    for held in (12, NONE, NONE):
        store.held = held
        for turn, do in enumerate((Do.LOCATE, Do.START)):
            executor.do(Action(do, turn, {TP: "g-0"}))
        begun.append(executor.owned.cursors[TP].partition.position.offset)
        executor.drop({TP: "g-0"})
    assert begun == [12, 12, 12]
