"""The offset map of a mirror whose names and routes in the target change while it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from groundwork.tasks import TaskGroup
from groupadmin.translation import Facts, Problem, Safe, translated
from kafkawire.model import TopicPartition
from mirrormaker.flow import Delivery, Flow
from mirrormaker.offsetmap.file import FileStorage
from mirrormaker.offsetmap.recorder import MapRecorder
from mirrormaker.offsetmap.tickets import MapTickets
from mirrormaker.selection import Selection
from tests.mirrormaker.test_flow import Share, Targets, fetched, flow_of, until
from tests.mirrormaker.test_flow_changes import Pending
from zkconsumer.offsetmap.file import read_map
from zkconsumer.offsetmap.records import OffsetMap
from zkconsumer.offsetmap.text import Header

S = TopicPartition("t", 0)


def selecting(**rename: str) -> Selection:
    return Selection(source="dc1", whitelist="t|u", exclude_internal=False, rename=rename)


class Mirror:
    """A flow with an offset map, whose parts are acknowledged when the test says so."""

    def __init__(self, folder: Path, tasks: TaskGroup, **rules: Any) -> None:
        self.path = folder / "map"
        self.recorder = MapRecorder(FileStorage(self.path, Header("dc1", "mirror"), 1 << 20), 1)
        self.sends = Pending()
        delivery = Delivery(
            tickets=MapTickets(self.recorder), before_commit=self.recorder.before_commit, renamed=self.recorder.rename
        )
        self.flow: Flow = flow_of(
            tasks, Targets(t=2, moved=2), self.sends, delivery=delivery, selection=selecting(), **rules
        )
        self.ends: dict[TopicPartition, int] = {}

    def copy(self, start: int, count: int = 2) -> None:
        """A set is sent and acknowledged, and the source commits behind it."""
        before = len(self.sends.parts)
        self.flow.take(fetched("t", 0, start, count), Share())
        until(lambda: len(self.sends.parts) > before)
        for part, ticket in zip(self.sends.parts[before:], self.sends.tickets[before:], strict=True):
            end = self.ends.get(part.tp, 100)
            ticket.placed(part.count, end, True)
            self.ends[part.tp] = end + part.count
            ticket.done()
        self.recorder.before_commit({S: start + count})

    @property
    def map(self) -> OffsetMap:
        return read_map(self.path).map

    def translated(self, at: int, end: int) -> dict[TopicPartition, Safe | Problem]:
        logs = {tp: (0, self.ends.get(tp, 100)) for topic in ("t", "moved") for tp in partitions(topic)}
        topics = {topic: partitions(topic) for topic in ("t", "moved")}
        return translated(self.map, Facts(logs, {S: (0, end)}, {S: at}), topics)


def partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, n) for n in range(2)]


def begins(found: dict[TopicPartition, Safe | Problem], topic: str) -> list[int | str]:
    return [row.position if isinstance(row, Safe) else str(row) for tp, row in found.items() if tp.topic == topic]


@pytest.fixture
def mirror(tmp_path: Path, tasks: TaskGroup) -> Mirror:
    return Mirror(tmp_path, tasks)


def test_a_topic_that_is_renamed_while_the_mirror_runs_has_its_new_name_in_the_map_at_once(mirror: Mirror) -> None:
    """Nothing was sent since: a group that is translated now needs offsets of the new topic, too."""
    mirror.copy(0)
    mirror.flow.change(mirror.flow._rules, selecting(t="moved"), None)
    assert mirror.map.names("t") == {"t", "moved"}
    assert begins(mirror.translated(2, 2), "moved") == [100, 0]  # of t/0, and of none


def test_a_partition_of_which_nothing_was_fetched_is_known_by_its_new_name(mirror: Mirror) -> None:
    mirror.recorder.before_commit({S: 0})
    mirror.flow.change(mirror.flow._rules, selecting(t="moved"), None)
    mirror.recorder.before_commit({S: 0})
    assert mirror.map.names("t") == {"moved"}


def test_a_group_that_was_before_the_new_name_reads_both_topics(mirror: Mirror) -> None:
    mirror.copy(0)
    mirror.copy(2)
    mirror.flow.change(mirror.flow._rules, selecting(t="moved"), None)
    mirror.copy(4)
    found = mirror.translated(2, 8)
    assert (begins(found, "t")[0], begins(found, "moved")[0]) == (102, 100)


def test_where_keys_decide_from_now_on_every_partition_may_be_fed(mirror: Mirror) -> None:
    """A partition that was sent nothing yet may be sent what the group has not read."""
    mirror.copy(0)
    mirror.flow.change(replace(mirror.flow._rules, partitioning="key"), selecting(), None)
    mirror.flow.take(fetched("t", 0, 2), Share())
    until(lambda: len(mirror.sends.parts) > 1)  # and they are not acknowledged
    mirror.recorder.before_commit({S: 2})
    assert mirror.map.periods[S][-1].begun.keeps is False
    assert begins(mirror.translated(2, 4), "t")[0] == 102
    assert "not written down yet" in str(begins(mirror.translated(2, 4), "t")[1])


def test_a_source_that_is_joined_after_a_reload_has_the_names_of_today(mirror: Mirror) -> None:
    """It was out of reach when the topic was renamed; its map was opened with the configuration of the start."""
    mirror.flow.selection = selecting(t="moved")
    mirror.flow.source.join = lambda *options: []  # type: ignore[method-assign]
    mirror.flow.start(SimpleNamespace(topics=None, num_streams=1))  # type: ignore[arg-type]
    mirror.recorder.before_commit({S: 0})
    assert mirror.map.names("t") == {"moved"}
