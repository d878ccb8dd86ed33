"""Ranges read from real brokers: cut in wrappers, compacted, deleted from below, large, and with a leader that dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from kafkawire.compression import GZIP, SNAPPY
from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import MessageTooLarge, OffsetOutOfRange
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.arrow import read_ranges
from sparkpipeline.reading.readoptions import ReadOptions
from tests.conftest import Unique
from tests.integration.sparktopics import Field, produce

pytestmark = pytest.mark.real

OPTIONS = ReadOptions(fetch_bytes=64 << 10, max_wait_ms=100)
Row = tuple[int, Field, Field]
Rows = list[tuple[Field, Field]]


def access(cluster: ClusterClient) -> ClusterAccess:
    addresses = [address.split(":") for address in cluster.brokers.split(",")]
    return ClusterAccess(tuple((host, int(port)) for host, port in addresses), cluster.version, retry_interval_ms=300)


def read(cluster: ClusterClient, *ranges: OffsetRange, options: ReadOptions = OPTIONS) -> Iterator[Row]:
    for batch in read_ranges(ranges, access(cluster), options):
        for row in batch.to_pylist():
            yield row["offset"], row["key"], row["value"]


def numbered(count: int, size: int = 50) -> Rows:
    """Every third key and every fifth value is null."""
    return [
        (None if n % 3 == 0 else b"key %d" % n, None if n % 5 == 0 else b"value %d " % n + b"." * size)
        for n in range(count)
    ]


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY])
def test_ranges_that_begin_and_end_anywhere_are_the_messages_written(
    codec: int, source: ClusterClient, unique: Unique
) -> None:
    topic, written = unique.topic(), numbered(700)
    source.create_topic(topic, partitions=1)
    produce(source, TopicPartition(topic, 0), written, codec, a_set=50)
    expected = [(n, key, value) for n, (key, value) in enumerate(written)]
    for start, until in ((0, 700), (17, 633), (50, 100), (99, 101), (120, 121), (649, 651)):
        assert list(read(source, OffsetRange(topic, 0, start, until))) == expected[start:until]
    cuts = [0, 1, 49, 50, 51, 333, 500, 700]
    ranges = [OffsetRange(topic, 0, a, b) for a, b in pairwise(cuts)]
    assert list(read(source, *ranges)) == expected, "cut anywhere, nothing is lost and nothing comes twice"


def test_a_message_larger_than_the_fetch_is_read_or_named(source: ClusterClient, unique: Unique) -> None:
    topic = unique.topic()
    source.create_topic(topic, partitions=1)
    written: Rows = [(None, b"s" * 10), (None, b"l" * 700_000), (None, b"t" * 10)]
    produce(source, TopicPartition(topic, 0), written, a_set=1)
    whole = OffsetRange(topic, 0, 0, 3)
    assert [value for _, _, value in read(source, whole)] == [value for _, value in written]
    with pytest.raises(
        MessageTooLarge, match=rf"topic={topic} partition=0 offset=1 .*700026 bytes: raise fetchBytesCap"
    ):
        list(read(source, whole, options=replace(OPTIONS, fetch_bytes_cap=300_000)))


@pytest.fixture
def cluster(own_cluster: Callable[..., Cluster]) -> Cluster:
    """Two brokers that clean and delete at once."""
    settings = {
        "log.cleaner.enable": True,
        "log.cleaner.backoff.ms": 100,
        "log.cleaner.dedupe.buffer.size": 2 << 20,
        "log.retention.check.interval.ms": 200,
        "log.segment.delete.delay.ms": 100,
    }
    return own_cluster(version="0.8.2.2", brokers=2, settings=settings)


def test_what_cleaning_deletion_and_a_dead_leader_do_to_ranges(cluster: Cluster, unique: Unique) -> None:
    """One cluster for the three, as starting it takes longest."""
    gaps_of_a_compacted_log_are_passed_over(cluster, unique.topic("compacted"))
    what_retention_took_is_an_error_or_skipped(cluster, unique.topic("deleted"))
    a_leader_that_is_killed_in_the_middle_is_followed(cluster, unique.topic("led"))


def gaps_of_a_compacted_log_are_passed_over(cluster: Cluster, topic: str) -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": 20_000, "min.cleanable.dirty.ratio": 0.01}
    cluster.create_topic(topic, partitions=1, config=config)
    tp = TopicPartition(topic, 0)
    written: Rows = [(b"key %d" % (n % 7), b"value %d " % n + b"." * 90) for n in range(1000)]
    produce(cluster, tp, written, a_set=50)
    cluster.wait_cleaned(tp, at_most=7 * 200)
    kept = list(read(cluster, OffsetRange(topic, 0, 0, 1000)))
    assert len(kept) < 400
    assert all((key, value) == written[offset] for offset, key, value in kept)
    assert {key for _, key, _ in kept} == {b"key %d" % n for n in range(7)}
    cuts = [0, 100, 101, 480, 700, 1000]
    ranges = [OffsetRange(topic, 0, a, b) for a, b in pairwise(cuts)]
    assert list(read(cluster, *ranges)) == kept


def what_retention_took_is_an_error_or_skipped(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1, config={"segment.bytes": 20_000, "retention.bytes": 40_000})
    written = numbered(2000)
    produce(cluster, TopicPartition(topic, 0), written, a_set=50)
    lenient = replace(OPTIONS, fail_on_data_loss=False)
    whole = OffsetRange(topic, 0, 0, 2000)

    def shrunk() -> list[Row] | None:
        found = list(read(cluster, whole, options=lenient))
        # What begins at 0 was read while segments went: it has rows from before them, and from behind.
        return found if len(found) < 1500 and found[0][0] > 0 else None

    found = wait_until(shrunk, 30, "old segments to be deleted", every_s=1)  # a look reads all of it
    assert found == [(n, *written[n]) for n in range(2000)][-len(found) :]
    with pytest.raises(
        OffsetOutOfRange, match=rf"topic={topic} partition=0 requested=0 earliest=\d+ latest=2000 broker="
    ):
        list(read(cluster, whole))
    with pytest.raises(OffsetOutOfRange, match=r"requested=2001 earliest=\d+ latest=2000 .*ends before that"):
        list(read(cluster, OffsetRange(topic, 0, 2001, 2005)))
    assert list(read(cluster, OffsetRange(topic, 0, 2001, 2005), options=lenient)) == []


def a_leader_that_is_killed_in_the_middle_is_followed(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1, replication=2)
    written = numbered(3000, size=400)
    produce(cluster, TopicPartition(topic, 0), written, a_set=50)
    cluster.wait_in_sync(topic)
    leader = cluster.wait_leader(topic, 0)
    found: list[Row] = []
    going: Any = read(cluster, OffsetRange(topic, 0, 5, 2995), options=replace(OPTIONS, batch_rows=100))
    for row in going:
        found.append(row)
        if len(found) == 500:
            cluster.node(leader).kill()
    assert found == [(n, *written[n]) for n in range(5, 2995)]
    assert cluster.wait_leader(topic, 0, other_than=leader) != leader
