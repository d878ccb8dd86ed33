"""What a 0.7 broker keeps, shows and forgets: segments, flushes, retention, recovery, on both kinds of broker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from localkafka.errors import LocalKafkaError
from localkafka.seven import entries
from localkafka.seven.client import Closed, Fetched, Seven
from localkafka.seven.log import EARLIEST, LATEST
from localkafka.seven.node import Node07
from localkafka.waiting import wait_until

Starter = Callable[..., Node07]

pytestmark = pytest.mark.thorough  # a broker for each

ENTRY = entries.message(b"x" * 90)  # 100 bytes
OUT_OF_RANGE = 1


def fill(broker: Node07, topic: str, count: int) -> None:
    """Produce so many entries, one a request."""
    with broker.client() as link:
        for _ in range(count):
            link.produce(topic, 0, ENTRY)
        link.multifetch([])  # all are handled


def starts(broker: Node07, topic: str) -> list[int]:
    return [int(path.stem) for path in broker.segments(topic, 0)]


def test_a_segment_is_rolled_before_an_append_once_it_is_over_its_size(own_broker07: Starter) -> None:
    broker = own_broker07({"log.file.size": 250, "topic.log.file.size": "small:99"})
    fill(broker, "t", 8)
    fill(broker, "small", 3)
    assert [path.name for path in broker.segments("t", 0)] == [f"{n:020d}.kafka" for n in (0, 300, 600)]
    assert [path.stat().st_size for path in broker.segments("t", 0)] == [300, 300, 200]
    assert starts(broker, "small") == [0, 100, 200]
    with broker.client() as link:
        assert link.fetch("t", 0, 0, 1000) == Fetched(0, ENTRY * 3)  # never across a segment
        assert link.fetch("t", 0, 100, 1000) == Fetched(0, ENTRY * 2)
        assert link.fetch("t", 0, 300, 1000) == Fetched(0, ENTRY * 3)
        assert link.offsets("t", 0, LATEST, 10) == [800, 600, 300, 0]
        assert link.offsets("t", 0, LATEST, 2) == [800, 600]
        assert link.offsets("t", 0, EARLIEST, 10) == [0]
        assert [row.position for row in link.rows("t", 0)] == list(range(0, 800, 100))


def test_offsets_before_a_time_go_by_the_files_times(own_broker07: Starter) -> None:
    broker = own_broker07({"log.file.size": 250})
    fill(broker, "t", 8)
    now = time.time()
    for path, age_s in zip(broker.segments("t", 0), (300, 200, 100), strict=True):
        os.utime(path, (now - age_s, now - age_s))

    def before(age_s: float) -> list[int]:
        with broker.client() as link:
            return link.offsets("t", 0, int((now - age_s) * 1000), 10)

    assert before(301) == []
    assert before(299) == [0]
    assert before(199) == [300, 0]
    assert before(99) == [600, 300, 0]
    assert before(-60) == [800, 600, 300, 0]


def test_what_is_not_flushed_is_not_there_for_readers(own_broker07: Starter) -> None:
    broker = own_broker07({"log.flush.interval": 5, "log.default.flush.scheduler.interval.ms": 60000})
    fill(broker, "t", 4)
    with broker.client() as link:
        assert broker.segments("t", 0)[0].stat().st_size == 400
        assert link.offsets("t", 0, LATEST, 5) == [0]
        assert link.fetch("t", 0, 0) == Fetched(0, b"")
        assert link.fetch("t", 0, 100) == Fetched(OUT_OF_RANGE, b"")
        link.produce("t", 0, entries.wrapper([b"a", b"b"], 1))  # six messages now
        assert link.offsets("t", 0) == [broker.segments("t", 0)[0].stat().st_size]


def test_time_flushes_too(own_broker07: Starter) -> None:
    flusher = {"log.default.flush.scheduler.interval.ms": 100, "log.default.flush.interval.ms": 300}
    broker = own_broker07({"log.flush.interval": 500, **flusher, "topic.flush.intervals.ms": "slow:60000"})
    fill(broker, "t", 1)
    fill(broker, "slow", 1)
    with broker.client() as link:
        wait_until(lambda: link.offsets("t", 0) == [100], 30, "the flusher")
        assert link.offsets("slow", 0) == [0]


def test_a_kill_loses_nothing_that_was_appended_and_shows_what_was_not_flushed(own_broker07: Starter) -> None:
    broker = own_broker07({"log.flush.interval": 500, "log.default.flush.scheduler.interval.ms": 60000})
    fill(broker, "t", 3)
    broker.kill()
    broker.restart()
    with broker.client() as link:
        assert link.fetch("t", 0, 0) == Fetched(0, ENTRY * 3)


TAILS = {
    "cut": ENTRY[:-1],
    "cut-size": ENTRY[:3],
    "bad-crc": ENTRY[:-1] + b"y",
    "zeros": b"\0" * 50,
    "ones": b"\xff" * 50,
    "good-behind-bad": ENTRY[:-1] + b"y" + ENTRY,
    "nothing": b"",
}


def test_after_a_kill_a_log_ends_before_its_first_bad_entry(own_broker07: Starter) -> None:
    broker = own_broker07({"log.file.size": 250})
    for topic in TAILS:
        fill(broker, topic, 5)
    broker.kill()
    for topic, tail in TAILS.items():
        with broker.segments(topic, 0)[-1].open("ab") as file:
            file.write(tail)
    broker.restart()
    with broker.client() as link:
        for topic in TAILS:
            assert link.offsets(topic, 0, LATEST, 5) == [500, 300, 0], topic
            link.produce(topic, 0, ENTRY)
            assert link.fetch(topic, 0, 300) == Fetched(0, ENTRY * 3), topic


def test_a_clean_stop_is_believed_and_nothing_is_looked_at(own_broker07: Starter) -> None:
    broker = own_broker07()
    fill(broker, "t", 2)
    broker.stop()
    with broker.segments("t", 0)[-1].open("ab") as file:
        file.write(ENTRY[:-1])
    broker.restart()
    with broker.client() as link:
        assert link.offsets("t", 0) == [299]


def test_an_unknown_magic_at_the_end_keeps_a_killed_broker_from_starting(own_broker07: Starter) -> None:
    broker = own_broker07()
    fill(broker, "t", 2)
    broker.kill()
    with broker.segments("t", 0)[-1].open("ab") as file:
        file.write(entries.message(b"later", magic=7))
    with pytest.raises(LocalKafkaError, match="ended at start"):
        broker.restart()


def test_a_missing_segment_keeps_a_broker_from_starting(own_broker07: Starter) -> None:
    broker = own_broker07({"log.file.size": 150})
    fill(broker, "t", 6)
    broker.stop()
    broker.segments("t", 0)[1].unlink()
    with pytest.raises(LocalKafkaError, match="ended at start"):
        broker.restart()
    assert "segments don't validate" in broker.log.read_text()


def test_fewer_partitions_after_a_restart_hide_what_is_on_disk_and_more_show_it_again(own_broker07: Starter) -> None:
    broker = own_broker07({"num.partitions": 1, "topic.partition.count.map": "wide:3"})
    with broker.client() as link:
        link.produce("wide", 2, ENTRY)
        assert link.fetch("wide", 2, 0) == Fetched(0, ENTRY)
        assert link.fetch("narrow", 1, 0) == Fetched(3, b"")
    broker.restart(settings={"topic.partition.count.map": "wide:2"})
    with broker.client() as link:
        assert link.fetch("wide", 2, 0) == Fetched(3, b"")
    broker.restart(settings={"topic.partition.count.map": "wide:4"})
    with broker.client() as link:
        assert link.fetch("wide", 2, 0) == Fetched(0, ENTRY)
        assert link.fetch("wide", 3, 0) == Fetched(0, b"")


def shrunk(broker: Node07, topic: str, first: int, timeout_s: float) -> None:
    with broker.client() as link:
        wait_until(
            lambda: link.offsets(topic, 0, EARLIEST) == [first],
            timeout_s,
            lambda: f"{topic} to begin at {first}, not {link.offsets(topic, 0, EARLIEST)}",
        )


def retention(broker: Node07, timeout_s: float, cleaning: dict[str, int]) -> None:
    """Three topics of segments 0, 300, 600 with 800 bytes; one is old in part, one wholly, one is over its size."""
    for topic in ("old", "gone", "large"):
        fill(broker, topic, 8)
    week = 7 * 24 * 3600
    for topic, aged in (("old", 2), ("gone", 3)):
        for path in broker.segments(topic, 0)[:aged]:
            os.utime(path, (time.time() - 2 * week, time.time() - 2 * week))
    broker.restart(settings={"log.retention.size": 500, **cleaning})
    shrunk(broker, "old", 600, timeout_s)
    shrunk(broker, "gone", 800, timeout_s)
    shrunk(broker, "large", 300, timeout_s)
    assert starts(broker, "gone") == [800]
    with broker.client() as link:
        assert link.fetch("old", 0, 300) == Fetched(OUT_OF_RANGE, b"")
        assert link.fetch("old", 0, 600) == Fetched(0, ENTRY * 2)
        assert link.fetch("gone", 0, 0) == Fetched(OUT_OF_RANGE, b"")
        assert link.fetch("gone", 0, 800) == Fetched(0, b"")
        assert link.offsets("gone", 0, LATEST, 9) == [800]
        link.produce("gone", 0, ENTRY)
        assert link.fetch("gone", 0, 800) == Fetched(0, ENTRY)


@pytest.mark.parametrize("kind07", ["python"], indirect=True)
def test_segments_that_are_too_old_or_too_many_go(own_broker07: Starter) -> None:
    retention(own_broker07({"log.file.size": 250}), 10, {"test.cleanup.ms": 200})


@pytest.mark.faults
@pytest.mark.parametrize("kind07", ["original"], indirect=True)
def test_segments_go_at_the_originals_own_pace(own_broker07: Starter) -> None:
    retention(own_broker07({"log.file.size": 250}), 130, {"log.cleanup.interval.mins": 1})


@pytest.mark.parametrize("kind07", ["python"], indirect=True)
def test_a_segment_is_rolled_when_its_first_entry_is_old(own_broker07: Starter) -> None:
    broker = own_broker07({"test.roll.ms": 200})
    fill(broker, "t", 2)
    deadline = time.monotonic() + 10
    while starts(broker, "t") == [0] and time.monotonic() < deadline:
        fill(broker, "t", 1)
    assert len(starts(broker, "t")) == 2


@pytest.mark.parametrize("kind07", ["python"], indirect=True)
def test_releases_differ_as_the_originals_did(own_broker07: Starter) -> None:
    huge, snappy = entries.message(b"x" * 1_000_001), entries.wrapper([b"a"], 2)
    told: dict[str, Any] = {}
    for release in ("0.7.0", "0.7.1", "0.7.2"):
        broker = own_broker07({"test.release": release})
        with broker.client() as link:
            link.fetch("asked", 0, 0)
            link.produce("huge", 0, huge)
            end = link.offsets("huge", 0)
            link.produce("snappy", 0, snappy)
            told[release] = (broker.data / "asked-0").is_dir(), end == [len(huge)], serves(link)
        broker.close()
    assert told == {"0.7.0": (True, True, False), "0.7.1": (False, True, True), "0.7.2": (False, False, True)}


def serves(link: Seven) -> bool:
    try:
        return link.multifetch([]) == []
    except Closed:
        return False
