"""The stream reader as Spark asks it, over the fake cluster: no JVM."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from kafkawire.model import TopicPartition
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import DataLoss, OptionRefused, UnknownPartition
from sparkpipeline.source.microbatches import MicroBatches
from sparkpipeline.source.readers import (
    Kafka08StreamReader,
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from sparkpipeline.source.sourceoptions import checked_options
from tests.fakes.broker import FakeCluster, entry

SCHEMA = StructType([StructField("value", BinaryType()), StructField("offset", LongType())])
ALL = ReadAllAvailable()
EARLIEST = {"startingOffsets": "earliest"}
CARELESS = {**EARLIEST, "failOnDataLoss": "false"}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 2}, brokers=2) as fake:
        put(fake, 0, 10)
        put(fake, 1, 2)
        yield fake


def put(cluster: FakeCluster, partition: int, count: int, topic: str = "t") -> None:
    for n in range(count):
        cluster.append(topic, partition, entry(b"%04d" % n))


def drop(cluster: FakeCluster, partition: int, topic: str = "t") -> None:
    with cluster.lock:
        del cluster.logs[topic, partition]


Opened = Callable[..., Kafka08StreamReader]


@pytest.fixture
def opened(cluster: FakeCluster) -> Iterator[Opened]:
    """A reader that never waits: its clock goes on by ten seconds a look."""
    readers: list[Kafka08StreamReader] = []

    def make(**options: str) -> Kafka08StreamReader:
        given = {
            "kafka.bootstrap.servers": ",".join(f"{host}:{port}" for host, port in cluster.bootstrap),
            "subscribe": "t",
            "protocol": "0.8",
            "fetchOffset.retryIntervalMs": "1",
            **options,
        }
        given = {name: value for name, value in given.items() if value}
        reader = Kafka08StreamReader(given, SCHEMA)
        clock = iter(range(1000, 100_000_000, 10))
        access = ClusterAccess(tuple(cluster.bootstrap), retry_interval_ms=1)
        brokers = Brokers(access, sleep=lambda seconds: None)
        reader._batches = MicroBatches(
            reader.options, brokers, lambda tps: {}, now=lambda: float(next(clock)), sleep=lambda seconds: None
        )
        readers.append(reader)
        return reader

    yield make
    for reader in readers:
        reader.stop()


def ranges(reader: Kafka08StreamReader, start: Any, end: Any) -> list[tuple[str, Any, int, int]]:
    tasks = reader.partitions(start, end)
    return sorted((r.topic, r.partition, r.start, r.until) for task in tasks for r in task.ranges)


# ---- the life of a query ---------------------------------------------------------------------------------------------


def test_offsets_are_sparks_json_and_batches_go_on_where_the_last_one_ended(
    opened: Opened, cluster: FakeCluster
) -> None:
    reader = opened(**EARLIEST)
    start = reader.initialOffset()
    assert start == {"t": {"0": 0, "1": 0}}
    end = reader.latestOffset(start, ALL)
    assert end == {"t": {"0": 10, "1": 2}}
    assert ranges(reader, start, end) == [("t", 0, 0, 10), ("t", 1, 0, 2)]
    assert reader.latestOffset(end, ALL) == end
    put(cluster, 1, 3)
    after = reader.latestOffset(end, ALL)
    assert ranges(reader, end, after) == [("t", 1, 2, 5)]
    assert reader.reportLatestOffset() == after
    assert reader.commit(after) is None


def test_nothing_new_is_no_task_and_no_question(opened: Opened, cluster: FakeCluster) -> None:
    reader = opened(**EARLIEST)
    assert reader.partitions({"t": {"0": 3}}, {"t": {"0": 3}}) == []
    assert cluster.requests == []


def test_it_pickles_small_until_it_is_asked_something(cluster: FakeCluster) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", **EARLIEST}
    data = pickle.dumps(Kafka08StreamReader(given, SCHEMA))
    assert len(data) < 10_000
    assert pickle.loads(data).columns == ("value", "offset")


def test_a_moving_start_is_the_same_however_often_and_by_whom_it_is_asked(
    opened: Opened, cluster: FakeCluster, tmp_path: Path
) -> None:
    kept = {"startingOffsets": "latest", "stateDir": str(tmp_path)}
    first = opened(**kept)
    start = first.initialOffset()
    assert start == {"t": {"0": 10, "1": 2}}
    put(cluster, 0, 5)
    assert first.initialOffset() == start
    first.stop()
    put(cluster, 0, 5)
    again = opened(**kept)
    assert again.initialOffset() == start
    assert ranges(again, start, again.latestOffset(start, ALL)) == [("t", 0, 10, 20)]


def test_a_stream_begins_where_a_group_stood_and_the_group_may_go_on(cluster: FakeCluster, tmp_path: Path) -> None:
    given = {"startingOffsets": "group", "kafka.group.id": "g", "stateDir": str(tmp_path)}
    given |= {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
    options = checked_options(given, streaming=True)
    for stands in ({TopicPartition("t", 0): 4, TopicPartition("t", 1): None}, {}):
        with Brokers(ClusterAccess(tuple(cluster.bootstrap))) as brokers:
            following = MicroBatches(options, brokers, lambda tps, stands=stands: stands)
            assert following.start() == {TopicPartition("t", 0): 4, TopicPartition("t", 1): 0}


@pytest.mark.parametrize(
    "start",
    [
        {},
        {"startingOffsets": "latest"},
        {"startingTimestamp": "1700000000000"},
        {"startingOffsets": "group", "kafka.group.id": "g"},
        {"startingOffsets": '{"t":{"0":5,"1":-1}}'},
    ],
)
def test_a_moving_start_without_a_place_to_keep_it_is_refused(opened: Opened, start: dict[str, str]) -> None:
    with pytest.raises(OptionRefused, match="'stateDir' is missing: Spark asks for the first offsets of a stream"):
        opened(**start)


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_a_limit_of_offsets_gives_the_expected_batches(opened: Opened) -> None:
    reader = opened(**EARLIEST, maxOffsetsPerTrigger="6")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(6)
    at, batches = reader.initialOffset(), []
    while (after := reader.latestOffset(at, limit)) != at:
        batches.append(after["t"])
        at = after
    assert batches == [{"0": 5, "1": 1}, {"0": 10, "1": 2}]
    assert reader.latestOffset(reader.initialOffset(), ALL) == at  # Trigger.Once asks for all of it


def test_a_limit_of_bytes_goes_by_what_messages_weigh(opened: Opened) -> None:
    reader = opened(**EARLIEST, maxBytesPerTrigger="120")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxBytes(120)
    assert reader.latestOffset(reader.initialOffset(), limit) == {"t": {"0": 3, "1": 1}}  # 30 bytes each


def test_a_batch_waits_for_enough_offsets(opened: Opened, cluster: FakeCluster) -> None:
    reader = opened(**EARLIEST, minOffsetsPerTrigger="5", maxTriggerDelay="24h", maxOffsetsPerTrigger="100")
    limit = reader.getDefaultReadLimit()
    at = reader.latestOffset(reader.initialOffset(), limit)
    put(cluster, 0, 4)
    assert reader.latestOffset(at, limit) == at
    put(cluster, 1, 1)
    assert reader.latestOffset(at, limit) == {"t": {"0": 14, "1": 3}}
    assert opened(**EARLIEST, minOffsetsPerTrigger="5").getDefaultReadLimit() == ReadMinRows(5)


# ---- partitions that come and go -------------------------------------------------------------------------------------


def test_a_new_partition_and_a_new_topic_are_read_from_their_beginning(opened: Opened, cluster: FakeCluster) -> None:
    reader = opened(subscribe="", subscribePattern="t|new.*", **EARLIEST)
    at = reader.latestOffset(reader.initialOffset(), ALL)
    cluster.create("t", 3)
    put(cluster, 2, 4)
    cluster.create("new-1", 1)
    put(cluster, 0, 1, "new-1")
    after = reader.latestOffset(at, ALL)
    assert after == {"new-1": {"0": 1}, "t": {"0": 10, "1": 2, "2": 4}}
    assert ranges(reader, at, after) == [("new-1", 0, 0, 1), ("t", 2, 0, 4)]


def test_a_limit_counts_what_is_new(opened: Opened, cluster: FakeCluster) -> None:
    reader = opened(**EARLIEST, maxOffsetsPerTrigger="2")
    cluster.create("t", 3)
    put(cluster, 2, 4)
    at = {"t": {"0": 10, "1": 2}}
    assert reader.latestOffset(at, ReadMaxRows(2)) == {"t": {"0": 10, "1": 2, "2": 2}}


def test_a_new_partition_that_does_not_begin_at_0_is_data_loss(
    opened: Opened, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create("t", 3)
    put(cluster, 2, 4)
    with cluster.lock:
        del cluster.logs["t", 2].entries[:3]
    start, end = {"t": {"0": 10, "1": 2}}, {"t": {"0": 10, "1": 2, "2": 4}}
    with pytest.raises(DataLoss, match="topic=t partition=2: the new partition begins at 3 instead of 0"):
        opened(**EARLIEST).partitions(start, end)
    with caplog.at_level(logging.WARNING):
        assert ranges(opened(**CARELESS), start, end) == [("t", 2, 3, 4)]
    assert "t/2: the new partition begins at 3" in caplog.text


def test_a_partition_that_is_deleted_is_data_loss_and_keeps_its_position(
    opened: Opened, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    at = {"t": {"0": 8, "1": 2}}
    log = cluster.logs["t", 0]
    drop(cluster, 0)
    with pytest.raises(DataLoss, match=r"topic=t partition=0: t/0 was deleted: .*; failOnDataLoss=false continues"):
        opened(**EARLIEST).latestOffset(at, ALL)
    reader = opened(**CARELESS)
    put(cluster, 1, 1)
    with caplog.at_level(logging.WARNING):
        after = reader.latestOffset(at, ALL)
        assert after == {"t": {"0": 8, "1": 3}}
        assert reader.latestOffset(after, ALL) == after
    assert caplog.text.count("t/0 was deleted") == 1
    assert ranges(reader, at, after) == [("t", 1, 2, 3)]
    with cluster.lock:
        cluster.logs["t", 0] = log
    assert reader.latestOffset(after, ALL) == {"t": {"0": 10, "1": 3}}  # it comes back: nothing is read twice


def test_what_a_changed_subscription_leaves_out_is_not_called_deleted_and_not_waited_for(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    at = {"t": {"0": 8, "1": 2}}
    chosen = {"subscribe": "", "assign": '{"t":[1]}'}
    looks: list[float] = []
    strict = opened(**EARLIEST, **chosen)
    strict._batches.brokers._sleep = looks.append  # type: ignore[union-attr]
    with pytest.raises(DataLoss, match=r"partition=0: t/0 was read by this stream until now, and its subscription"):
        strict.latestOffset(at, ALL)
    assert not looks
    with caplog.at_level(logging.WARNING):
        assert opened(**CARELESS, **chosen).latestOffset(at, ALL) == at
    assert "stays unread" in caplog.text
    assert "deleted" not in caplog.text


def test_a_topic_that_is_missing_for_a_moment_is_not_deleted(opened: Opened, cluster: FakeCluster) -> None:
    reader = opened(**EARLIEST)
    at = reader.latestOffset(reader.initialOffset(), ALL)
    kept = dict(cluster.logs)
    with cluster.lock:
        cluster.logs.clear()
    looks: list[float] = []

    def restarted(seconds: float) -> None:
        looks.append(seconds)
        with cluster.lock:
            cluster.logs.update(kept)

    reader._batches.brokers._sleep = restarted  # type: ignore[union-attr]
    assert reader.latestOffset(at, ALL) == at
    assert looks


def test_a_log_that_ends_before_the_position_is_data_loss(
    opened: Opened, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    at = {"t": {"0": 50, "1": 2}}
    with pytest.raises(DataLoss, match="topic=t partition=0: the stream is at 50, and the log ends at 10"):
        opened(**EARLIEST).latestOffset(at, ALL)
    with pytest.raises(DataLoss, match="the stream is at 50, and the batch was to end at 10"):
        opened(**EARLIEST).partitions(at, {"t": {"0": 10, "1": 2}})
    reader = opened(**CARELESS)
    with caplog.at_level(logging.WARNING):
        after = reader.latestOffset(at, ALL)
    assert after == {"t": {"0": 10, "1": 2}}
    assert "created again" in caplog.text
    assert reader.partitions(at, after) == []
    put(cluster, 0, 1)
    assert ranges(reader, after, reader.latestOffset(after, ALL)) == [("t", 0, 10, 11)]


def test_what_was_never_there_is_told_at_the_start(opened: Opened) -> None:
    with pytest.raises(UnknownPartition, match="topic=t partition=7"):
        opened(subscribe="", assign='{"t":[0,7]}', **EARLIEST).initialOffset()
    with pytest.raises(UnknownPartition, match="topic=u"):
        opened(subscribe="t,u", **EARLIEST).initialOffset()


# ---- AvailableNow ----------------------------------------------------------------------------------------------------


def test_available_now_ends_where_it_began_to_look(opened: Opened, cluster: FakeCluster) -> None:
    reader = opened(**EARLIEST, maxOffsetsPerTrigger="8", minOffsetsPerTrigger="7")
    reader.prepareForTriggerAvailableNow()
    put(cluster, 0, 100)
    cluster.create("t", 3)
    put(cluster, 2, 1)
    limit = reader.getDefaultReadLimit()
    at, seen = reader.initialOffset(), []
    while (after := reader.latestOffset(at, limit)) != at:
        seen += ranges(reader, at, after)
        at = after
    assert at == {"t": {"0": 10, "1": 2, "2": 0}}  # what came later is there, and not read
    assert seen == [("t", 0, 0, 6), ("t", 1, 0, 1), ("t", 0, 6, 10), ("t", 1, 1, 2)]  # no waiting for minOffsets


def test_available_now_says_so_when_a_partition_vanishes_on_the_way(opened: Opened, cluster: FakeCluster) -> None:
    reader = opened(**CARELESS)
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    drop(cluster, 1)
    with pytest.raises(DataLoss, match="partition=1: was there when AvailableNow looked for its end, and is not"):
        reader.partitions(reader.initialOffset(), end)


def test_available_now_says_so_when_an_end_moves_back(opened: Opened, cluster: FakeCluster) -> None:
    reader = opened(**CARELESS)
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    cluster.offsets_of = lambda log, when: [0] if when == -2 else [4]  # type: ignore[method-assign]
    with pytest.raises(DataLoss, match="partition=0: AvailableNow was to read up to 10, and the log now ends at 4"):
        reader.partitions(reader.initialOffset(), end)


def test_available_now_looks_again_at_what_was_behind_when_it_looked(opened: Opened, cluster: FakeCluster) -> None:
    reader = opened(**EARLIEST)
    at = {"t": {"0": 10, "1": 2}}
    kept = cluster.logs["t", 1]
    drop(cluster, 1)
    cluster.offsets_of = lambda log, when: [0] if when == -2 else [7]  # type: ignore[method-assign]
    reader.prepareForTriggerAvailableNow()
    with cluster.lock:
        cluster.logs["t", 1] = kept
    del cluster.offsets_of
    put(cluster, 0, 5)
    assert reader.latestOffset(at, ALL) == at
    assert reader.latestOffset(at, ALL) == at


def test_available_now_of_a_stream_that_lost_something_goes_on_without_and_ends(
    opened: Opened, cluster: FakeCluster
) -> None:
    at = {"t": {"0": 50, "1": 2}}
    drop(cluster, 1)
    strict = opened(**EARLIEST)
    strict.prepareForTriggerAvailableNow()
    with pytest.raises(DataLoss, match="t/1 was deleted"):
        strict.latestOffset(at, ALL)
    reader = opened(**CARELESS)
    reader.prepareForTriggerAvailableNow()
    after = reader.latestOffset(at, ALL)
    assert after == {"t": {"0": 10, "1": 2}}
    assert reader.partitions(at, after) == []
    assert reader.latestOffset(after, ALL) == after


def test_available_now_of_a_stream_that_starts_at_a_head_that_moves_on_reads_nothing(
    opened: Opened, cluster: FakeCluster, tmp_path: Path
) -> None:
    reader = opened(stateDir=str(tmp_path))
    reader.prepareForTriggerAvailableNow()
    put(cluster, 0, 3)
    start = reader.initialOffset()
    assert start == {"t": {"0": 13, "1": 2}}
    assert reader.latestOffset(start, ALL) == start


# ---- manners ---------------------------------------------------------------------------------------------------------


def test_an_idle_stream_does_not_keep_the_brokers_busy(cluster: FakeCluster) -> None:
    now, waits = [100.0], []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", **EARLIEST}
    options = checked_options(given, streaming=True)
    with Brokers(ClusterAccess(tuple(cluster.bootstrap))) as brokers:
        following = MicroBatches(options, brokers, lambda tps: {}, now=lambda: now[0], sleep=sleep)
        at = following.ends({})
        for _ in range(60):
            assert following.ends(at) == at
        assert sum(waits) == pytest.approx(6)
    assert len(cluster.seen("metadata")) == 2
    assert len(cluster.seen("list_offsets")) == 2 * 61
