"""What the log shows of a connector's events when there are many."""

from __future__ import annotations

import io

import pytest

from groundwork.logs import set_up_logging
from kafkawire.model import TopicPartition
from zkconsumer.events import ConsumerEvent, log_event


@pytest.fixture
def out() -> io.StringIO:
    stream = io.StringIO()
    set_up_logging(stream=stream)
    return stream


def test_events_of_many_partitions_and_kinds_are_all_shown(out: io.StringIO) -> None:
    for n in range(30):
        tp = TopicPartition("orders", n)
        log_event(ConsumerEvent("start", f"{tp}: no committed offset", tp))
        log_event(ConsumerEvent("leader", f"{tp}: no leader", tp))
    log_event(ConsumerEvent("session", "the session is suspended"))
    log_event(ConsumerEvent("rebalance", "3 members, 30 partitions"))
    assert len(out.getvalue().splitlines()) == 62


def test_one_partition_that_repeats_itself_is_counted(out: io.StringIO) -> None:
    tp = TopicPartition("orders", 3)
    for n in range(20):
        log_event(ConsumerEvent("leader", f"{tp}: no answer, try {n}", tp))
    assert len(out.getvalue().splitlines()) == 5


def test_parked_and_fenced_are_never_held_back(out: io.StringIO) -> None:
    tp = TopicPartition("orders", 3)
    for _ in range(7):
        log_event(ConsumerEvent("parked", f"{tp} at 7: crc mismatch", tp))
        log_event(ConsumerEvent("fence", "the lease is over"))
    assert len(out.getvalue().splitlines()) == 14
