"""A partition that stands still is told once, its failed tries never, and once it flows that is told, too."""

from __future__ import annotations

from dataclasses import dataclass

from kafkawire.model import TopicPartition
from zkconsumer.engine.status import Parkings
from zkconsumer.events import ConsumerEvent


@dataclass
class Cursor:
    parked: str | None = None
    done: int | None = 7
    tp: TopicPartition = TopicPartition("t", 0)  # noqa: RUF009

    def committable(self) -> int | None:
        return self.done


def test_only_what_changes_is_told() -> None:
    said: list[ConsumerEvent] = []
    told, cursor = Parkings(said.append), Cursor()
    told.look([cursor])
    cursor.parked = "too large"
    told.look([cursor])
    told.look([cursor])
    cursor.parked = None  # tried again
    told.look([cursor])
    cursor.parked = "too large"
    told.look([cursor])
    cursor.parked = None
    told.look([cursor])
    cursor.done = 8
    told.look([cursor])
    told.look([cursor])
    assert [str(event) for event in said] == ["parked: t/0: too large", "flows: t/0 flows again; it stood still at 7"]


def test_after_it_flowed_the_same_reason_is_told_again_and_so_is_another() -> None:
    said: list[ConsumerEvent] = []
    told, cursor = Parkings(said.append), Cursor("no such partition")
    told.look([cursor])
    cursor.parked, cursor.done = None, 9
    told.look([cursor])
    cursor.parked = "no such partition"
    told.look([cursor])
    cursor.parked = "t/0 at 9: damaged"
    told.look([cursor])
    assert [event.kind for event in said] == ["parked", "flows", "parked", "parked"]
    assert said[-1].text == "t/0 at 9: damaged"


def test_one_that_is_owned_no_more_is_forgotten() -> None:
    said: list[ConsumerEvent] = []
    told, cursor = Parkings(said.append), Cursor("damaged")
    told.look([cursor])
    told.look([])
    told.look([Cursor(done=99)])
    assert len(said) == 1
