"""A flow whose source partitions are copied in transactions: its offset map, and changes of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundwork.tasks import TaskGroup
from groupadmin.translation import Facts, Safe, translated
from kafkawire.model import TopicPartition
from kafkawire.protocol.stableoffsets import StableOffset
from mirrormaker.exactlyonce.position import name_of
from mirrormaker.offsetmap.file import FileStorage
from mirrormaker.offsetmap.recorder import MapRecorder
from mirrormaker.offsetmap.tickets import MapTickets
from mirrormaker.routes import SourceTopic
from mirrormaker.selection import Selection
from tests.mirrormaker.test_flow import Share, Targets, fetched, until
from tests.mirrormaker.transactionfakes import Cluster, Stored, flow_into
from zkconsumer.offsetmap.file import read_map
from zkconsumer.offsetmap.text import Header

T, U, ALL = TopicPartition("t", 0), TopicPartition("u", 0), TopicPartition("all", 0)
T_NAME = name_of("mirror", "dc1", T)


def selecting(**rename: str) -> Selection:
    return Selection(source="dc1", whitelist="t|u", exclude_internal=False, rename=rename)


def one_partition(topic: str) -> SourceTopic:
    return SourceTopic(1, 1)


@pytest.fixture
def recorder(tmp_path: Path) -> MapRecorder:
    storage = FileStorage(tmp_path / "map", Header("dc1", "mirror"), 1 << 20)
    return MapRecorder(storage, 5, lambda topic: "all", shared_sender=False)


def begin_of(tmp_path: Path, cluster: Cluster, read: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> int:
    """Where a group that has read so far begins in the target topic."""
    facts = Facts({ALL: (0, len(cluster.logs[ALL]))}, {tp: (0, end) for tp, end in ends.items()}, read)
    row = translated(read_map(tmp_path / "map").map, facts, {"all": [ALL]})[ALL]
    assert isinstance(row, Safe), row
    return row.position


def test_a_group_that_is_translated_while_a_transaction_is_open_reads_what_is_in_it(
    tasks: TaskGroup, recorder: MapRecorder, tmp_path: Path
) -> None:
    """Topics t and u are merged.  Offsets 6 to 10 of the target are t's; u's transaction behind them ends first."""
    cluster = Cluster()
    flow, _ = flow_into(
        cluster, tasks, Targets(all=1), inner=MapTickets(recorder), selection=selecting(t="all", u="all"),
        source_topic=one_partition,
    )  # fmt: skip
    mine, other = Share(), Share()
    flow.take(fetched("t", 0, 0, 5), mine)
    until(lambda: mine.told)
    cluster.held = {T_NAME}
    flow.take(fetched("t", 0, 5, 5), mine)
    until(lambda: len(cluster.logs[ALL]) == 11)
    flow.take(fetched("u", 0, 0, 5), other)
    until(lambda: other.told)
    recorder.before_commit({T: 5, U: 5})
    cluster.finish(T_NAME, True)  # and the mirror is killed: its tickets never hear of it
    assert len(mine.told) == 1
    begin = begin_of(tmp_path, cluster, {T: 5, U: 5}, {T: 10, U: 5})
    assert len(cluster.visible(ALL, begin)) == 10, f"the group begins at {begin}"


def test_a_period_begins_in_the_map_where_the_target_goes_on_and_not_where_its_first_set_begins(
    tasks: TaskGroup, recorder: MapRecorder, tmp_path: Path
) -> None:
    """The target has five messages of a transaction of whose end the killed mirror had not heard."""
    cluster = Cluster()
    cluster.logs[ALL] = [Stored(T_NAME, n, "committed") for n in range(5)]
    cluster.finish(T_NAME, False)
    cluster.group(T_NAME).committed = {ALL: StableOffset(5, "", 0)}
    recorder.period(fetched("t", 0, 0), Share(), False, [ALL]).lies_behind(ALL, 0)  # as the killed one had it
    sought: list[tuple[TopicPartition, int]] = []
    flow, _ = flow_into(
        cluster, tasks, Targets(all=1), inner=MapTickets(recorder), selection=selecting(t="all"),
        source_topic=one_partition, seek=lambda tp, offset: sought.append((tp, offset)),
    )  # fmt: skip
    share, there = Share(), Share()
    share.period, there.period = "two", "three"
    flow.take(fetched("t", 0, 0, 10), share)
    until(lambda: sought == [(T, 5)])
    flow.take(fetched("t", 0, 5, 5), there)  # as the source does
    until(lambda: there.told)
    recorder.before_commit({T: 10})
    assert [begin_of(tmp_path, cluster, {T: at}, {T: 12}) for at in (0, 4, 5)] == [0, 0, 5]


def test_a_topic_that_is_renamed_goes_to_its_new_name_and_its_position_with_it(tasks: TaskGroup) -> None:
    """The partition keeps its owner.  Whoever deletes the former topic deletes the positions that are kept there."""
    cluster, share, moved = Cluster(), Share(), TopicPartition("moved", 0)
    flow, _ = flow_into(
        cluster, tasks, Targets(t=1, moved=1), selection=selecting(), source_topic=one_partition,
    )  # fmt: skip
    flow.sender.pending = lambda topic: False  # type: ignore[method-assign, assignment]
    flow.take(fetched("t", 0, 0, 5), share)
    until(lambda: share.told)
    flow.change(flow._rules, selecting(t="moved"), None)
    flow.take(fetched("t", 0, 5, 5), share)
    until(lambda: len(share.told) == 2)
    assert {tp: len(cluster.visible(tp)) for tp in cluster.logs} == {T: 5, moved: 5}
    assert {tp: row.offset for tp, row in cluster.committed(T_NAME).items()} == {T: 5, moved: 10}
