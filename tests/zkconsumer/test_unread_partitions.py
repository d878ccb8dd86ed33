"""Owned partitions whose committed offset cannot be read: what a program chooses meanwhile counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from kafkawire.model import TopicPartition
from zkconsumer.events import ConsumerEvent
from zkconsumer.group.executor import RebalanceExecutor, _Place
from zkconsumer.group.ownership import OwnedPartitions
from zkconsumer.group.steps import Action, Do
from zkconsumer.offsets.store import Committed, Unknown

NOBODY: Any = None
TP = TopicPartition("t", 0)
TORN = Unknown("holds 'x'")


class Parked:
    """A cursor without a fetcher."""

    def __init__(self, tp: TopicPartition) -> None:
        self.tp, self.closing = tp, False
        self.position: int | None = None

    def park(self, reason: str) -> None:
        pass

    def reset_to(self, position: int) -> None:
        self.position = position


class Offsets:
    """A store; before(): called in each read, as what happens while it is waited for."""

    def __init__(self, held: Committed) -> None:
        self.held = held
        self.before: Callable[[], object] = lambda: None

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        found = dict.fromkeys(tps, self.held)
        self.before()
        return found


def parts(store: Offsets, on_event: Callable[[ConsumerEvent], object]) -> dict[str, Any]:
    return {
        "cursors": {},
        "fetchers": NOBODY,
        "commits": NOBODY,
        "store": store,
        "make_cursor": lambda tp, thread, reset: Parked(tp),
        "config": SimpleNamespace(group_id="g", auto_offset_reset="largest"),
        "listener": NOBODY,
        "on_event": on_event,
    }


def test_a_seek_while_an_unpark_reads_the_offset_again_is_not_overwritten() -> None:
    """The program's seek was lost: reading went on at the committed offset."""
    store = Offsets(TORN)
    owned = OwnedPartitions(**parts(store, lambda event: None))
    assert owned.offsets({TP: "g-0"}) == {}
    cursor = owned.cursors[TP]
    assert not owned.readable(cursor)
    store.held, store.before = 12, lambda: cursor.reset_to(500)
    assert owned.readable(cursor)
    assert cursor.position == 500


def test_where_a_partition_was_taken_is_not_where_it_goes_on_after_a_seek() -> None:
    """An event said that it goes on where it was taken from this member, and it went on where the program sought."""
    told: list[ConsumerEvent] = []
    store = Offsets(TORN)
    group: Any = SimpleNamespace(creations={})
    executor = RebalanceExecutor(
        session=NOBODY, group=group, claims=NOBODY, closing=lambda: False, **parts(store, told.append)
    )
    executor._taken[TP] = _Place(7, None)
    executor.do(Action(Do.LOCATE, 1, {TP: "g-0"}))
    executor.cursors[TP].reset_to(500)
    executor.do(Action(Do.LOCATE, 2, {TP: "g-0"}))
    assert [event.kind for event in told] == ["unread"]
