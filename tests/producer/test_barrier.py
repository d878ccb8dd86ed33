"""A lane whose broker never answers a produce request: what it knows of one link says nothing of the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost
from kafkawire.model import ANY, Broker, BrokerPartition, TopicPartition
from kafkawire.net.link import Link
from producer.barrier import Silent
from producer.config import ProducerConfig
from producer.flights import Flight, Shared

BROKER = Broker(3, "127.0.0.1", 9092)
TP = TopicPartition("t", BrokerPartition(3, ANY))


@dataclass
class Outcomes:
    lost: list[int] = field(default_factory=list)

    def maybe_lost(self, count: int, reason: LinkLost) -> None:
        self.lost.append(count)

    def stored(self, batch: object, now: float) -> None: ...


@dataclass
class Batch:
    count: int
    tp: TopicPartition = TP


def link() -> Link:
    return Link(BROKER, "", cast(Any, None), 1000)


def silent() -> tuple[Silent, Outcomes]:
    outcomes, none = Outcomes(), cast(Any, None)
    return Silent(Shared(dialect("0.7"), ProducerConfig(), none, cast(Any, outcomes), none, none, none, none)), outcomes


def test_another_link_is_asked_for_its_own_first_sign_and_blamed_for_nothing_before_it():
    told, outcomes = silent()
    first, second = link(), link()
    sign = told.first_sign(first, TP)
    assert sign is not None
    told.settle(sign, None)
    assert told.first_sign(first, TP) is None
    assert told.first_sign(second, TP) is not None  # the first one was dropped with nothing on its way
    assert not told.lost(LinkLost("closed"))
    assert outcomes.lost == []


def test_a_link_that_has_shown_itself_is_closed_for_what_it_was_sent():
    told, _ = silent()
    sign = told.first_sign(link(), TP)
    assert sign is not None
    told.settle(sign, None)
    assert told.lost(LinkLost("closed"))


def test_what_one_link_has_not_proved_no_other_one_proves():
    told, outcomes = silent()
    first, second = link(), link()
    sign = told.first_sign(first, TP)
    assert sign is not None
    told.settle(sign, None)
    told.written(Flight(first, None, cast(Any, [Batch(7)])))
    assert told.sign_wanted
    assert told.next_sign(second) is None
    assert (told.unproved, outcomes.lost) == (0, [7])
