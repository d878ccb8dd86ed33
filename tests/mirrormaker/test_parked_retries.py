"""When a parked partition is tried again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kafkawire.model import TopicPartition
from mirrormaker.flow import ParkedRetries
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
class Flow:
    """A flow, and its source."""

    rows: list[PartitionStatus]
    ready: bool = True
    tried: list[TopicPartition] = field(default_factory=list)

    @property
    def source(self) -> Flow:
        return self

    def parked_partitions(self) -> list[PartitionStatus]:
        return [row for row in self.rows if row.parked is not None]

    def retry(self, row: PartitionStatus) -> bool:
        self.tried.append(row.tp)
        return self.ready


def tried_at(flow: Flow, *times: float) -> list[float]:
    """At which of these times it was tried."""
    retries, tried = ParkedRetries(flow, 60.0), []  # type: ignore[arg-type]
    for at in times:
        before = len(flow.tried)
        retries.retry_due(at)
        tried += [at] * (len(flow.tried) - before)
    return tried


def test_a_parked_partition_is_tried_once_a_minute_and_not_at_once() -> None:
    assert tried_at(Flow([ROW]), 0.0, 59.9, 60.0, 60.5, 119.9, 120.0) == [60.0, 120.0]


def test_one_whose_earlier_messages_are_in_flight_is_tried_again_soon() -> None:
    assert tried_at(Flow([ROW], ready=False), 0.0, 60.0, 60.5) == [60.0, 60.5]


def test_one_that_flows_is_left_alone_and_waits_its_time_when_it_is_parked_again() -> None:
    flow = Flow([replace(ROW, parked=None)])
    retries = ParkedRetries(flow, 60.0)  # type: ignore[arg-type]
    retries.retry_due(0.0)
    retries.retry_due(100.0)
    flow.rows = [ROW]
    retries.retry_due(100.5)
    retries.retry_due(160.0)
    assert flow.tried == []
    retries.retry_due(160.5)
    assert flow.tried == [TopicPartition("t", 0)]
