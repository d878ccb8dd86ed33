"""The target of several sources: a sender each, so that a fence cuts only its source; troubles are reported once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from groundwork.tasks import TaskGroup, sleep
from kafkawire.model import TopicPartition
from mirrormaker.options import TargetOptions
from mirrormaker.target import Target
from tests.fakes.broker import Fail, FakeCluster, Wait
from tests.fakes.tickets import Ticket
from tests.producer.running import part, until

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 2}) as cluster:
        yield cluster


@pytest.fixture
def target(cluster: FakeCluster) -> Iterator[Target]:
    tasks = TaskGroup()
    options = TargetOptions(
        brokers=tuple(cluster.bootstrap), retries=-1, linger_ms=0, retry_backoff_ms=5, reconnect_ms=20
    )
    made = Target(options, tasks, lambda topic: False)
    yield made
    made.close_senders()
    made.close()
    assert tasks.stop(2) == []
    assert tasks.death is None


def submit(target: Target, source: str, value: bytes, tp: TopicPartition = ONE) -> Ticket:
    ticket = Ticket()
    target.sender_of(source).submit(part(value, tp=tp), ticket)
    return ticket


def stored(target: Target, source: str, value: bytes) -> None:
    ticket = submit(target, source, value)
    until(lambda: ticket.told)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_fence_cuts_what_is_in_flight_for_its_source_alone(cluster: FakeCluster, target: Target) -> None:
    for name in ("near", "far"):
        stored(target, name, b"before")
    release = threading.Event()
    cluster.script("produce", Wait(release), Wait(release))
    far, near = submit(target, "far", b"far"), submit(target, "near", b"near", OTHER)
    until(lambda: all(target.sender_of(name).bytes_in_flight for name in ("near", "far")))
    far.willing = False
    target.fence("far")
    assert target.sender_of("near").bytes_in_flight
    release.set()
    until(lambda: near.told)
    assert cluster.values("t", 1) == [b"near"]  # once: its request was not cut
    assert target.sender_of("near").counters.unknown == 0
    assert far.told == []


def test_what_the_target_acknowledged_and_has_not_is_counted_over_all_sources(
    cluster: FakeCluster, target: Target
) -> None:
    for name in ("near", "far"):
        stored(target, name, b"value")
    assert target.messages == 2
    assert target.bytes > 0
    release = threading.Event()
    cluster.script("produce", Wait(release), Wait(release))
    for name in ("near", "far"):
        submit(target, name, b"value")
    assert target.bytes_pending == sum(target.sender_of(name).bytes_pending for name in ("near", "far")) > 0
    assert target.close_senders() == 2
    release.set()


def test_a_broker_that_is_gone_is_reported_once_and_until_no_source_misses_it(
    cluster: FakeCluster, target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for name in ("near", "far"):
        stored(target, name, b"before")
    cluster.leave_leaders(1)
    cluster.stop(1)
    tickets = [submit(target, name, b"later") for name in ("near", "far")]
    until(lambda: all(target.sender_of(name).outage for name in ("near", "far")))
    sleep(0.2)  # each tries many times
    assert target.outage.count("127.0.0.1") == len(target.sender_of("near").outage.split("; "))
    assert len(warnings(caplog)) == 1, warnings(caplog)
    cluster.start(1, port=cluster.ports[1])
    until(lambda: all(ticket.told for ticket in tickets))
    until(lambda: not target.outage)
    over = [record.getMessage() for record in caplog.records if "answers again after" in record.getMessage()]
    assert len(over) == len({said.split(" answers")[0] for said in over}) > 0


def test_a_refusal_of_one_partition_is_reported_once_for_all_sources(
    cluster: FakeCluster, target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster.script("produce", *[Fail(19)] * 12)
    tickets = [submit(target, name, b"value") for name in ("near", "far")]
    until(lambda: all(ticket.told for ticket in tickets))
    assert len(warnings(caplog)) == 1, warnings(caplog)
    assert sum("flows again" in record.getMessage() for record in caplog.records) == 1
