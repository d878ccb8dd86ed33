"""A partition that stands still is told once, its failed tries never, and once it flows that is told, too."""

from __future__ import annotations

from dataclasses import dataclass

from kafkawire.model import TopicPartition
from zkconsumer.engine.status import ParkedReports
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.committable import Parked


@dataclass
class Cursor:
    parked: str | None = None
    done: int | None = 7
    tp: TopicPartition = TopicPartition("t", 0)  # noqa: RUF009
    place: int | None = None

    @property
    def partition(self) -> Cursor:
        return self

    @property
    def parked_at(self) -> Parked | None:
        return None if self.place is None else Parked(ValueError(self.parked), self.place)

    def committable(self) -> int | None:
        return self.done


def test_only_what_changes_is_told() -> None:
    said: list[ConsumerEvent] = []
    told, cursor = ParkedReports(said.append), Cursor()
    told.update([cursor])
    cursor.parked = "too large"
    told.update([cursor])
    told.update([cursor])
    cursor.parked = None  # tried again
    told.update([cursor])
    cursor.parked = "too large"
    told.update([cursor])
    cursor.parked = None
    told.update([cursor])
    cursor.done = 8
    told.update([cursor])
    told.update([cursor])
    assert [str(event) for event in said] == ["parked: t/0: too large", "flows: t/0 flows again; it was parked at 7"]


def test_after_it_flowed_the_same_reason_is_told_again_and_so_is_another() -> None:
    said: list[ConsumerEvent] = []
    told, cursor = ParkedReports(said.append), Cursor("no such partition")
    told.update([cursor])
    cursor.parked, cursor.done = None, 9
    told.update([cursor])
    cursor.parked = "no such partition"
    told.update([cursor])
    cursor.parked = "t/0 at 9: damaged"
    told.update([cursor])
    assert [event.kind for event in said] == ["parked", "flows", "parked", "parked"]
    assert said[-1].text == "t/0 at 9: damaged"


def test_what_was_on_its_way_before_the_place_is_no_flowing() -> None:
    said: list[ConsumerEvent] = []
    told, cursor = ParkedReports(said.append), Cursor("damaged", done=0, place=20)
    told.update([cursor])
    for cursor.parked, cursor.done in ((None, 20), ("damaged", 20), (None, 20), (None, 21)):
        told.update([cursor])
    assert [str(event) for event in said] == ["parked: t/0: damaged", "flows: t/0 flows again; it was parked at 20"]


def test_the_offset_is_where_it_is_parked_and_a_better_one_is_told_once() -> None:
    said: list[ConsumerEvent] = []
    told, cursor = ParkedReports(said.append), Cursor("refused", done=3, place=10)
    told.update([cursor])
    cursor.done = 10  # what was in flight before it
    told.update([cursor])
    for cursor.parked, cursor.done, cursor.place in ((None, 10, None), ("refused", 12, 12), ("refused", 12, 12)):
        told.update([cursor])
    assert [(event.kind, event.offset) for event in said] == [("parked", 10), ("parked", 12)]


def test_one_that_is_owned_no_more_is_forgotten() -> None:
    said: list[ConsumerEvent] = []
    told, cursor = ParkedReports(said.append), Cursor("damaged")
    told.update([cursor])
    told.update([])
    told.update([Cursor(done=99)])
    assert len(said) == 1
