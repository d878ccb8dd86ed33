"""Partitions that nobody owns: counted once that lasts, unknown where the cluster does not answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from kafkawire.model import TopicPartition
from mirrormaker.attention import attention
from mirrormaker.owners import OwnerWatch
from mirrormaker.selection import Selection
from tests.fakes.reports import report
from tests.fakes.reports import source as reported
from zkconsumer.errors import ConsumerError


@dataclass
class Source:
    """A source of topic t with three partitions, of which this member owns the first."""

    name: str = "dc1"
    joined: bool = True
    assigned: bool = True
    answers: bool = True
    theirs: set[int] = field(default_factory=lambda: {1, 2})

    def all_topics(self) -> list[str]:
        if not self.answers:
            raise ConsumerError("source dc1: no answer of its cluster within 15 s")
        return ["t", "others"]

    def partitions_of(self, topics: list[str]) -> dict[str, list[int]]:
        return {topic: [0, 1, 2] for topic in topics}

    def owners(self, topics: list[str]) -> dict[TopicPartition, str]:
        return {TopicPartition("t", number): "g_other-0" for number in self.theirs}

    def partitions(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(tp=TopicPartition("t", 0))]


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def watch(source: Source) -> OwnerWatch:
    return OwnerWatch([source], {"dc1": Selection(source="dc1", whitelist="t")})  # type: ignore[list-item]


def looked(watch: OwnerWatch, source: Source) -> int | None:
    watch.look(source)  # type: ignore[arg-type]
    return watch.count("dc1")


def test_what_has_no_owner_at_two_looks_counts_and_topics_that_are_not_mirrored_do_not(
    watch: OwnerWatch, source: Source
) -> None:
    assert looked(watch, source) == 0
    source.theirs = {1}
    assert looked(watch, source) == 0, "the group may just be moving it"
    source.theirs = set()
    assert looked(watch, source) == 1
    assert looked(watch, source) == 2
    source.theirs = {1, 2}
    assert looked(watch, source) == 0


@pytest.mark.parametrize("away", ["answers", "joined", "assigned"])
def test_what_is_not_known_is_never_zero(watch: OwnerWatch, source: Source, away: str) -> None:
    assert watch.count("dc1") is None
    assert looked(watch, source) == 0
    setattr(source, away, False)
    assert looked(watch, source) is None
    setattr(source, away, True)
    source.theirs = set()
    assert looked(watch, source) is None, "one look alone says nothing"


def test_they_are_said_at_the_top() -> None:
    [one] = attention(report(sources=(reported(unowned=3),)))
    assert (one.level, one.text.partition(": `")[0]) == ("bad", "source dc1: 3 partitions have no owner in the group")
    assert attention(report(sources=(reported(unowned=0),))) == ()
