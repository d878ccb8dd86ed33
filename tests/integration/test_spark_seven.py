"""Topics of Kafka 0.7 in Spark: rows, ranges, streams.  On brokers in Python, and on originals where there are some."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.model import BrokerPartition
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from sparkpipeline.errors import code_in
from tests.conftest import Unique
from tests.integration.sparkseven import Row, fill, held, rows_of, values
from tests.integration.test_spark_streaming import AVAILABLE_NOW, ends, run, started

pytestmark = [pytest.mark.real, pytest.mark.spark]

Start = Callable[..., Cluster07]
B00, B01, B10 = BrokerPartition(0, 0), BrokerPartition(0, 1), BrokerPartition(1, 0)


def filled(cluster: Cluster07, topic: str, counts: dict[BrokerPartition, int], name: str = "a") -> None:
    for partition, count in counts.items():
        fill(cluster, topic, partition, values(f"{name}{partition}", count))


def read(spark: Any, cluster: Cluster07, **options: object) -> Any:
    given = {"zookeeper.connect": cluster.zookeeper, "protocol": "0.7", **options}
    return spark.read.format("kafka08").options(**given).load()


def test_a_batch_holds_what_the_segment_files_hold(spark: Any, cluster07: Start, unique: Unique) -> None:
    topic, group = unique.topic(), unique.group()
    with_segments = {"log.file.size": 4000}
    cluster = cluster07(partitions={0: 2, 1: 1}, settings=with_segments)
    filled(cluster, topic, {B00: 300, B01: 120, B10: 200})
    rows = held(cluster, topic)
    assert len(rows) == 620
    assert len(list(cluster.node(0).data.glob(f"{topic}-0/*.kafka"))) > 2
    frame = read(spark, cluster, subscribe=topic)
    assert frame.schema.simpleString().endswith("timestampType:int,broker:int,innerIndex:int>")
    assert rows_of(frame) == rows
    assert rows_of(frame.where("broker = 1")) == [row for row in rows if row[0] == 1]
    cut = read(spark, cluster, subscribePattern=f"^{topic}$", minPartitions=9, packBytes=0)
    assert cut.rdd.getNumPartitions() > 3
    assert rows_of(cut) == rows
    starts = sorted({row[2] for row in rows if row[:2] == (0, 0)})
    begin, end = starts[len(starts) // 3], starts[2 * len(starts) // 3]
    some = read(
        spark, cluster, assign=json.dumps({topic: ["0-0", "1-0"]}),
        startingOffsets=json.dumps({topic: {"0-0": begin, "1-0": -2}}),
        endingOffsets=json.dumps({topic: {"0-0": end, "1-0": -1}}),
    )  # fmt: skip
    assert rows_of(some) == [row for row in rows if row[0] == 1 or (row[1] == 0 and begin <= row[2] < end)]
    zk = cluster.zk()
    zk.create(f"/consumers/{group}/offsets/{topic}/0-0", b"%d" % begin, makepath=True)
    behind = read(spark, cluster, subscribe=topic, startingOffsets="group", **{"kafka.group.id": group})
    assert rows_of(behind) == [row for row in rows if row[:2] != (0, 0) or row[2] >= begin]
    assert rows_of(read(spark, cluster, subscribe=topic, startingTimestamp=0)) == rows
    later = read(
        spark, cluster, subscribe=topic, startingTimestamp=1 << 50, startingOffsetsByTimestampStrategy="latest"
    )
    assert rows_of(later) == []


def test_without_zookeeper_brokers_and_partitions_are_named(spark: Any, cluster07: Start, unique: Unique) -> None:
    topic = unique.topic()
    cluster = cluster07(brokers=2)
    filled(cluster, topic, {B00: 30, B10: 20})
    named = {"protocol": "0.7", "kafka.broker.list": cluster.broker_list, "assign": json.dumps({topic: ["0-0", "1-0"]})}
    assert rows_of(spark.read.format("kafka08").options(**named).load()) == held(cluster, topic)


def test_a_position_inside_an_entry_is_named(spark: Any, cluster07: Start, unique: Unique) -> None:
    topic = unique.topic()
    cluster = cluster07()
    filled(cluster, topic, {B00: 30})
    frame = read(spark, cluster, subscribe=topic, startingOffsets=json.dumps({topic: {"0-0": 3}}))
    with pytest.raises(Exception, match=r"KAFKA08_CORRUPT topic=\S+ partition=0-0 .*begins: is 3 one\?"):
        frame.collect()


class Seen:
    """What foreachBatch got, by batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Row]] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        self.batches[batch] = rows_of(frame)

    @property
    def rows(self) -> list[Row]:
        return sorted(itertools.chain.from_iterable(self.batches.values()))


def stream(spark: Any, cluster: Cluster07, **options: object) -> Any:
    given = {"zookeeper.connect": cluster.zookeeper, "protocol": "0.7", **options}
    return spark.readStream.format("kafka08").options(**given).load()


def test_a_stream_is_limited_by_bytes_and_follows_brokers_that_join(
    spark: Any, cluster07: Start, unique: Unique, tmp_path: Path
) -> None:
    topic, seen, checkpoint = unique.topic(), Seen(), tmp_path / "checkpoint"
    cluster = cluster07(partitions={0: 2, 1: 1})
    filled(cluster, topic, {B00: 300, B01: 20})  # broker 1 has not heard of the topic
    frame = stream(spark, cluster, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger=4000)
    run(frame, seen, checkpoint, **AVAILABLE_NOW)
    assert seen.rows == held(cluster, topic)
    assert len(seen.batches) > 2
    assert all({*end[topic]} == {"0-0", "0-1"} for end in ends(checkpoint))
    filled(cluster, topic, {B10: 50, B01: 10}, "b")
    run(frame, seen, checkpoint, **AVAILABLE_NOW)
    assert seen.rows == held(cluster, topic)
    assert {*ends(checkpoint)[-1][topic]} == {"0-0", "0-1", "1-0"}


@pytest.mark.faults
def test_a_broker_that_goes_is_data_loss_and_comes_back(
    spark: Any, cluster07: Start, unique: Unique, tmp_path: Path
) -> None:
    topic, seen, checkpoint = unique.topic(), Seen(), tmp_path / "checkpoint"
    cluster = cluster07(brokers=2)
    filled(cluster, topic, {B00: 20, B10: 20})
    given = {"subscribe": topic, "startingOffsets": "earliest", "fetchOffset.numRetries": "0"}
    strict = stream(spark, cluster, **given)
    run(strict, seen, checkpoint, **AVAILABLE_NOW)
    cluster.node(1).stop()
    filled(cluster, topic, {B00: 5}, "b")
    with pytest.raises(Exception, match="1-0 was there, and went with the broker") as lost:
        run(strict, seen, checkpoint, **AVAILABLE_NOW)
    assert code_in(str(lost.value)) == "KAFKA08_DATA_LOSS"
    lenient = stream(spark, cluster, failOnDataLoss="false", **given)
    with started(lenient, seen, checkpoint):
        wait_until(lambda: len(seen.rows) == 45, 90, "what the other broker has")
    cluster.node(1).start()
    cluster.node(1).wait_registered()
    filled(cluster, topic, {B10: 7}, "c")
    run(strict, seen, checkpoint, **AVAILABLE_NOW)
    assert seen.rows == held(cluster, topic)
