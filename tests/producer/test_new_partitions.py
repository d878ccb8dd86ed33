"""A partition that appears before its leader is chosen is looked for again, by itself; not for ever."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.dialects import Dialect, dialect
from producer.outages import Outages
from producer.targetleaders import Leaders


def view(**leaders: list[int | None]) -> ClusterView:
    return ClusterView(topics={t: {p: PartitionView(led) for p, led in enumerate(of)} for t, of in leaders.items()})


class Seen:
    """What each look finds, one after the other."""

    def __init__(self, *views: ClusterView) -> None:
        self.views = list(views)

    @property
    def dialect(self) -> Dialect:
        return dialect("0.8.2")

    def read(self, topics: Sequence[str] | None, create: bool = True) -> ClusterView:
        return self.views.pop(0)


def looks_asked(monkeypatch: pytest.MonkeyPatch, step_s: float, *views: ClusterView) -> list[bool]:
    """Whether each look asked for another one; step_s pass between them."""
    clock = [0.0]
    monkeypatch.setattr("producer.targetleaders.now", lambda: clock[0])
    leaders = Leaders(
        Seen(*views),
        by_name=True,
        refresh_ms=600_000,
        backoff_ms=20,
        after_refresh=lambda old: None,
        outages=Outages(lambda level, event: None),
    )
    asked = []
    for _ in views:
        leaders.need("t")
        leaders._requested = False
        leaders._read_waiting()
        asked.append(leaders._requested)
        clock[0] += step_s
    return asked


def test_a_partition_that_appears_without_a_leader_is_looked_for_until_it_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    views = view(t=[1]), view(t=[1, None]), view(t=[1, None]), view(t=[1, 0]), view(t=[1, 0])
    assert looks_asked(monkeypatch, 1.0, *views) == [False, True, True, False, False]


def test_one_that_loses_its_leader_is_asked_for_by_what_is_sent_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks_asked(monkeypatch, 1.0, view(t=[1, 0]), view(t=[1, None])) == [False, False]


def test_one_that_never_gets_a_leader_is_given_up_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks_asked(monkeypatch, 12.0, *[view(t=[1, None])] * 5) == [True, True, True, False, False]


def test_one_that_vanishes_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks_asked(monkeypatch, 1.0, view(t=[1, None]), view(t=[1])) == [True, False]
