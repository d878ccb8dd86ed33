"""Format kafka08 in a Spark session over real brokers: what Spark shows of it, and how it finds its way."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from sparkpipeline.driver.groupoffsets import write_offsets
from sparkpipeline.errors import code_in, sentence_in
from sparkpipeline.ranges import OffsetRange, ranges_text
from sparkpipeline.source.querycluster import access_of
from sparkpipeline.source.sourceoptions import checked_options
from tests.integration.sparktopics import produce

pytestmark = [pytest.mark.real, pytest.mark.spark]
COUNT = 40  # messages of each partition


@pytest.fixture(scope="module")
def topic(source: ClusterClient) -> str:
    """Three partitions; the last is empty."""
    name = f"spark-{uuid.uuid4().hex[:10]}"
    source.create_topic(name, partitions=3)
    for partition in range(2):
        rows = [(b"key" if n % 2 else None, b"%d" % n if n else None) for n in range(COUNT)]
        produce(source, TopicPartition(name, partition), rows)
    return name


def loaded(spark: Any, source: ClusterClient, options: Mapping[str, object], schema: str | None = None) -> Any:
    reader = spark.read.format("kafka08").options(**{"kafka.bootstrap.servers": source.brokers, **options})
    return (reader if schema is None else reader.schema(schema)).load()


def test_the_schema_is_sparks_and_nothing_of_it_is_required(spark: Any, source: ClusterClient, topic: str) -> None:
    frame = loaded(spark, source, {"subscribe": topic, "includeHeaders": "true"})
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert all(field.nullable for field in frame.schema.fields)
    row = frame.where("partition = 1 and offset = 0").collect()[0]
    assert (row.key, row.value, row.topic, row.timestampType, row.headers) == (None, None, topic, -1, None)
    assert (
        frame.where("timestamp = timestamp_millis(-1)").count() == 2 * COUNT
    )  # as Spark's kafka shows messages without


def test_fewer_columns_are_read_in_the_order_asked_for(spark: Any, source: ClusterClient, topic: str) -> None:
    frame = loaded(spark, source, {"assign": f'{{"{topic}":[0]}}'}, "offset bigint, value binary")
    assert frame.columns == ["offset", "value"]
    assert [tuple(row) for row in frame.orderBy("offset").take(3)] == [(0, None), (1, b"1"), (2, b"2")]
    assert _refused(lambda: loaded(spark, source, {"subscribe": topic}, "value string").count()) == (
        "KAFKA08_OPTION option=schema: column 'value' is binary, not string: cast it in the query"
    )


def test_what_is_loaded_once_reads_the_same_ranges_each_time(
    spark: Any, source: ClusterClient, topic: str, unique: Any, tmp_path: Any
) -> None:
    own = unique.topic()
    source.create_topic(own)
    tp = TopicPartition(own, 0)
    produce(source, tp, [(None, b"%d" % n) for n in range(10)])
    frame = loaded(spark, source, {"subscribe": own})
    assert frame.count() == 10
    produce(source, tp, [(None, b"later")])
    frame.write.parquet(str(tmp_path / "written"))
    assert spark.read.parquet(str(tmp_path / "written")).count() == 10
    assert loaded(spark, source, {"subscribe": own}).count() == 11


def test_an_empty_plan_is_an_empty_frame(spark: Any, source: ClusterClient, topic: str) -> None:
    empty = loaded(spark, source, {"assign": f'{{"{topic}":[2]}}'})
    assert empty.count() == 0
    assert loaded(spark, source, {"offsetRanges": "[]"}).collect() == []


def test_small_partitions_share_a_task_and_an_exact_plan_does_not(
    spark: Any, source: ClusterClient, topic: str
) -> None:
    assert loaded(spark, source, {"subscribe": topic}).rdd.getNumPartitions() == 1
    ranges = ranges_text([OffsetRange(topic, 1, 5, 7), OffsetRange(topic, 0, 0, 2)])
    frame = loaded(
        spark, source, {"offsetRanges": ranges}, "partition int, rowNumber bigint, valueCrc bigint, offset bigint"
    )
    assert frame.rdd.getNumPartitions() == 2
    assert [(row.partition, row.rowNumber, row.offset) for row in frame.collect()] == [
        (1, 0, 5),
        (1, 1, 6),
        (0, 0, 0),
        (0, 1, 1),
    ]
    assert frame.where("partition = 0 and offset = 0").collect()[0].valueCrc is None


def test_code_and_coordinates_reach_the_user(spark: Any, source: ClusterClient, topic: str) -> None:
    def planned(**options: object) -> str:
        return _refused(lambda: loaded(spark, source, {"fetchOffset.retryIntervalMs": 1, **options}).count())

    assert planned(subscribe=topic, minPartition=3).endswith("is unknown; did you mean 'minPartitions'?")
    assert planned(subscribe=f"{topic}-not").startswith(f"KAFKA08_UNKNOWN_PARTITION topic={topic}-not:")
    read = planned(offsetRanges=ranges_text([OffsetRange(topic, 1, 900, 950)]))  # seen by the task only
    assert code_in(read) == "KAFKA08_OFFSET_OUT_OF_RANGE"
    for where in (f"topic={topic}", "partition=1", "requested=900", f"latest={COUNT}", "broker="):
        assert where in read


def _refused(query: Any) -> str:
    """Our line out of what Spark raises."""
    with pytest.raises(Exception) as caught:  # AnalysisException, or PythonException from a task
        query()
    assert type(caught.value).__name__ in ("AnalysisException", "PythonException")
    sentence = sentence_in(str(caught.value))
    assert sentence is not None, str(caught.value)
    return sentence


def test_a_zookeeper_is_enough_to_find_brokers_and_a_group(
    spark: Any, source: ClusterClient, topic: str, unique: Any
) -> None:
    zookeeper, group = {"zookeeper.connect": source.zookeeper}, unique.group()
    known = checked_options({**zookeeper, "subscribe": topic, "protocol": "auto"}, False)
    access = access_of(known)
    assert {f"{host}:{port}" for host, port in access.bootstrap} == set(source.brokers.split(","))
    assert access.release == "0.8.2"
    zk = source.zk()
    positions = {TopicPartition(topic, 0): 30, TopicPartition(topic, 1): 39}
    assert set(write_offsets(group, positions, "zookeeper", zk=zk).values()) == {None}
    from_group = {"subscribe": topic, "startingOffsets": "group", "kafka.group.id": group}
    frame = spark.read.format("kafka08").options(**zookeeper, **from_group).load()
    assert frame.count() == (COUNT - 30) + (COUNT - 39)
    assert set(write_offsets(group, {TopicPartition(topic, 0): 39}, "kafka", access=access).values()) == {None}
    in_kafka = loaded(spark, source, {**from_group, "subscribe": topic})
    assert in_kafka.count() == 1 + COUNT  # nothing of partition 1 is known there: it is read from its beginning


def test_a_task_that_fails_is_tried_again_and_reads_the_same(
    spark: Any, source: ClusterClient, topic: str, tmp_path: Any
) -> None:
    frame = loaded(spark, source, {"subscribe": topic}, "offset bigint, partition int")
    flag = tmp_path / "failed"

    def once(rows: Iterator[Any]) -> Iterator[Any]:
        for number, row in enumerate(rows):
            if number == COUNT and not flag.exists():
                flag.touch()
                raise RuntimeError("the first attempt dies in the middle")
            yield tuple(row)

    found = frame.rdd.mapPartitions(once).collect()
    assert sorted(found) == sorted((offset, partition) for partition in range(2) for offset in range(COUNT))
    assert flag.exists()


def test_passwords_are_masked_in_the_plan_of_a_stream(spark: Any) -> None:
    given = {
        "kafka.bootstrap.servers": "b:1",
        "subscribe": "t",
        "startingOffsets": "earliest",
        "zookeeper.connect": "zk:2181",
        "zookeeper.auth": "digest:me:hush",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.key.password": "hush",
    }
    shown = spark.readStream.format("kafka08").options(**given).load()._jdf.queryExecution().toString()
    assert "zk:2181" in shown  # options are shown there
    assert "hush" not in shown
