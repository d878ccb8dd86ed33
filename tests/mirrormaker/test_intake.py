"""What came in, and what of it is acknowledged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafkawire.model import BrokerPartition, PartitionId, TopicPartition
from mirrormaker.intake import Intake

TP = TopicPartition("t", 0)


def fetched(start: int, resume_at: int, nbytes: int = 1000, partition: PartitionId = 0) -> Any:
    tp = TopicPartition("t", partition)
    return SimpleNamespace(
        tp=tp,
        partition=partition,
        start=start,
        resume_at=resume_at,
        runs=[SimpleNamespace(begin=0, end=nbytes)],
        entries=3,
    )


def test_a_set_counts_once_all_of_it_is_done() -> None:
    intake = Intake()
    intake.count(fetched(10, 20))
    intake.count(fetched(20, 25, 500))
    assert intake.acknowledged(TP, None) == (0, 0)
    assert intake.acknowledged(TP, 19) == (0, 0)
    assert intake.acknowledged(TP, 22) == (10, 1000)
    assert intake.acknowledged(TP, 25) == (15, 1500)
    assert intake.acknowledged(TP, 25) == (15, 1500)


def test_what_is_fetched_again_is_acknowledged_once() -> None:
    intake = Intake()
    for start in (0, 10, 20):
        intake.count(fetched(start, start + 10))
    intake.count(fetched(10, 20))
    assert intake.acknowledged(TP, 30) == (20, 2000)


def test_of_offsets_in_bytes_entries_are_counted() -> None:
    intake = Intake()
    intake.count(fetched(0, 4000, partition=BrokerPartition(1, 0)))
    assert intake.acknowledged(TopicPartition("t", BrokerPartition(1, 0)), 4000) == (3, 1000)


def test_partitions_that_others_own_are_forgotten() -> None:
    intake = Intake()
    intake.count(fetched(0, 10))
    intake.keep([])
    assert intake.acknowledged(TP, 10) == (0, 0)
