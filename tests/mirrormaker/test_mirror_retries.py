"""When a parked partition is tried again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kafkawire.model import TopicPartition
from mirrormaker.retries import Retries
from zkconsumer.engine.status import PartitionStatus

ROW = PartitionStatus(
    topic="t",
    partition=0,
    owner="g_c-0",
    state="parked",
    position=100,
    done=50,
    committed=50,
    high_watermark=200,
    lag=150,
    buffered_bytes=0,
    parked="damaged",
)


@dataclass
class Origin:
    rows: list[PartitionStatus]
    ready: bool = True
    name: str = "dc1"
    tried: list[TopicPartition] = field(default_factory=list)

    def partitions(self) -> list[PartitionStatus]:
        return self.rows

    def retry(self, row: PartitionStatus) -> bool:
        self.tried.append(row.tp)
        return self.ready


def looked(origin: Origin, *times: float) -> list[float]:
    """At which of these times it was tried."""
    retries, tried = Retries([origin], 60.0), []
    for at in times:
        before = len(origin.tried)
        retries.look(at)
        tried += [at] * (len(origin.tried) - before)
    return tried


def test_a_parked_partition_is_tried_once_a_minute_and_not_at_once() -> None:
    assert looked(Origin([ROW]), 0.0, 59.9, 60.0, 60.5, 119.9, 120.0) == [60.0, 120.0]


def test_one_whose_earlier_messages_are_under_way_is_looked_at_again_soon() -> None:
    assert looked(Origin([ROW], ready=False), 0.0, 60.0, 60.5) == [60.0, 60.5]


def test_one_that_flows_is_left_alone_and_waits_its_time_when_it_parks_anew() -> None:
    origin = Origin([replace(ROW, parked=None)])
    retries = Retries([origin], 60.0)
    retries.look(0.0)
    retries.look(100.0)
    origin.rows = [ROW]
    retries.look(100.5)
    retries.look(160.0)
    assert origin.tried == []
    retries.look(160.5)
    assert origin.tried == [TopicPartition("t", 0)]
