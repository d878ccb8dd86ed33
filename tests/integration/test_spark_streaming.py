"""Streams over a real 0.8.2.2 cluster with a real Spark: restarts, limits, AvailableNow, what appears on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkawire.model import TopicPartition
from localkafka import tools
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.spark]
MIXTURE = Mixture(keyed=0.5, codecs=(0, 1, 2), value_bytes=40)
AVAILABLE_NOW = {"availableNow": True}
TIMEOUT_S = 90


@pytest.fixture
def load(source: ClusterClient) -> Iterator[Load]:
    found = Load(source.brokers, source.version)
    yield found
    found.close()


def stream(spark: Any, source: ClusterClient, **options: str) -> Any:
    return spark.readStream.format("kafka08").options(**{"kafka.bootstrap.servers": source.brokers, **options}).load()


class Seen:
    """What foreachBatch got, by batch: a later try of a batch counts instead of an earlier one."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[str, int, int]]] = {}

    def __call__(self, rows: Any, batch: int) -> None:
        found = rows.selectExpr("topic", "partition", "offset", "cast(value as string) value").collect()
        assert all(row.value.startswith(f"{row.topic}/{row.partition} #{row.offset} ") for row in found)
        self.batches[batch] = [(row.topic, row.partition, row.offset) for row in found]

    @property
    def rows(self) -> list[tuple[str, int, int]]:
        return sorted(row for rows in self.batches.values() for row in rows)


def run(frame: Any, each: Callable[[Any, int], None], checkpoint: Path, **trigger: Any) -> None:
    """A query to its end.  Raises what it ended with."""
    with started(frame, each, checkpoint, **trigger) as query:
        assert query.awaitTermination(TIMEOUT_S), "the query did not end"


@contextmanager
def started(frame: Any, each: Callable[[Any, int], None], checkpoint: Path, **trigger: Any) -> Iterator[Any]:
    query = (
        frame.writeStream.foreachBatch(each)
        .option("checkpointLocation", str(checkpoint))
        .trigger(**(trigger or {"processingTime": "100 milliseconds"}))
        .start()
    )
    try:
        yield query
    finally:
        query.stop()


def ends(checkpoint: Path) -> list[dict[str, dict[str, int]]]:
    """The end of each batch, as the checkpoint says it: the last line of each file."""
    files = sorted(
        (file for file in (checkpoint / "offsets").iterdir() if file.name.isdigit()), key=lambda f: int(f.name)
    )
    return [json.loads(file.read_text().splitlines()[-1]) for file in files]


def rows(topic: str, partition: int, start: int, until: int) -> list[tuple[str, int, int]]:
    return [(topic, partition, offset) for offset in range(start, until)]


def test_a_restart_after_a_failed_first_batch_skips_nothing(
    spark: Any, source: ClusterClient, load: Load, unique: Any, tmp_path: Path
) -> None:
    topic, state, checkpoint = unique.topic(), tmp_path / "state", tmp_path / "checkpoint"
    source.create_topic(topic, partitions=2)
    load.produce(topic, 2, 200, MIXTURE, batch=50)  # before the stream: not its own
    frame = stream(spark, source, subscribe=topic, stateDir=str(state))

    def poisoned(rows: Any, batch: int) -> None:
        raise RuntimeError("poisoned")

    with started(frame, poisoned, checkpoint) as query:
        wait_until(lambda: (state / "start.json").exists(), TIMEOUT_S, "the stream to begin")
        load.produce(topic, 2, 20, MIXTURE, batch=10)
        wait_until(lambda: not query.isActive, TIMEOUT_S, "the first batch to fail")
        assert "poisoned" in str(query.exception())
    load.produce(topic, 2, 20, MIXTURE, batch=10)  # the head moves on
    seen = Seen()
    run(stream(spark, source, subscribe=topic, stateDir=str(state)), seen, checkpoint, **AVAILABLE_NOW)
    assert seen.rows == rows(topic, 0, 100, 120) + rows(topic, 1, 100, 120)
    assert len(seen.batches) == 2  # the batch that failed, with the end it had, and the rest
    assert ends(checkpoint)[-1] == {topic: {"0": 120, "1": 120}}


def test_available_now_with_a_limit_gives_the_expected_batches_and_a_second_run_none(
    spark: Any, source: ClusterClient, load: Load, unique: Any, tmp_path: Path
) -> None:
    topic, checkpoint = unique.topic(), tmp_path / "checkpoint"
    source.create_topic(topic, partitions=2)
    load.send(TopicPartition(topic, 0), 900, MIXTURE)
    load.send(TopicPartition(topic, 1), 100, MIXTURE)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "400"}
    seen = Seen()
    run(stream(spark, source, **options), seen, checkpoint, **AVAILABLE_NOW)
    assert seen.rows == rows(topic, 0, 0, 900) + rows(topic, 1, 0, 100)
    assert ends(checkpoint) == [
        {topic: {"0": 360, "1": 40}},
        {topic: {"0": 720, "1": 80}},
        {topic: {"0": 900, "1": 100}},
    ]
    again = Seen()
    run(stream(spark, source, **options), again, checkpoint, **AVAILABLE_NOW)
    assert again.batches == {}
    assert len(ends(checkpoint)) == 3


@pytest.mark.parametrize(
    ("limit", "batches"), [({"maxBytesPerTrigger": "8000"}, 3), ({"minOffsetsPerTrigger": "9999"}, 1)]
)
def test_limits_that_only_the_source_knows_reach_it(
    spark: Any, source: ClusterClient, load: Load, unique: Any, tmp_path: Path, limit: dict[str, str], batches: int
) -> None:
    topic = unique.topic()
    source.create_topic(topic, partitions=1)
    load.send(TopicPartition(topic, 0), 300, Mixture(keyed=0, codecs=(0,), value_bytes=50))  # 76 bytes each
    seen = Seen()
    frame = stream(spark, source, subscribe=topic, startingOffsets="earliest", **limit)
    run(frame, seen, tmp_path / "checkpoint", **AVAILABLE_NOW)
    assert seen.rows == rows(topic, 0, 0, 300)
    assert len(seen.batches) == batches


def test_a_partition_added_and_a_leader_killed_under_a_running_query_cost_no_row(
    spark: Any, own_cluster: Callable[..., Cluster], unique: Any, tmp_path: Path
) -> None:
    cluster, topic = own_cluster(brokers=2), unique.topic()
    cluster.create_topic(topic, partitions=1, replication=2)
    load = Load(cluster.brokers, cluster.version)
    try:
        load.send(TopicPartition(topic, 0), 40, MIXTURE)
        frame, seen = stream(spark, cluster, subscribe=topic, startingOffsets="earliest"), Seen()
        with started(frame, seen, tmp_path / "checkpoint") as query:
            wait_until(lambda: len(seen.rows) == 40, TIMEOUT_S, lambda: f"the first rows; {query.exception()}")
            tools.topic_command(cluster, "--alter", "--topic", topic, "--partitions", "2")
            cluster.wait_leader(topic, 1)
            cluster.wait_in_sync(topic)
            load.send(TopicPartition(topic, 1), 30, MIXTURE)
            wait_until(lambda: len(seen.rows) == 70, TIMEOUT_S, lambda: f"the new partition; {query.exception()}")
            leader = cluster.wait_leader(topic, 0)
            cluster.node(leader).kill()
            cluster.wait_leader(topic, 0, other_than=leader)
            cluster.wait_leader(topic, 1)
            load.send(TopicPartition(topic, 0), 25, MIXTURE)
            wait_until(lambda: len(seen.rows) >= 95, TIMEOUT_S, lambda: f"the rest; {query.exception()}")
            assert query.isActive
    finally:
        load.close()
    assert seen.rows == rows(topic, 0, 0, 65) + rows(topic, 1, 0, 30)


def test_a_moving_start_without_stateDir_is_refused_with_what_helps(
    spark: Any, source: ClusterClient, unique: Any, tmp_path: Path
) -> None:
    frame = stream(spark, source, subscribe=unique.topic())
    with pytest.raises(Exception, match=r"KAFKA08_OPTION: .*'stateDir' is missing: .* name a folder here"):
        run(frame, Seen(), tmp_path / "checkpoint", **AVAILABLE_NOW)
