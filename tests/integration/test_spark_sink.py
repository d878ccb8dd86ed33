"""df.write and writeStream into real 0.8.2.2 brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localkafka.client import ClusterClient
from producer.partitioners import default_partitioner
from tests.conftest import Unique
from tests.integration.sparktopics import everything

pytestmark = [pytest.mark.real, pytest.mark.spark]


def written(frame: Any, cluster: ClusterClient, **options: str) -> None:
    frame.write.format("kafka08").mode("append").options(
        **{"kafka.bootstrap.servers": cluster.brokers, **options}
    ).save()


def test_rows_go_where_their_key_or_partition_says_in_order(spark: Any, target: ClusterClient, unique: Unique) -> None:
    topic = unique.topic()
    target.create_topic(topic, partitions=3)
    frame = spark.range(0, 20000, numPartitions=2).selectExpr(
        "cast(concat('k', id % 50) as binary) key", "concat('v', lpad(id, 8, '0')) value",
        "case when id % 50 = 7 then 2 end partition", f"'{topic}' topic", "id ignored",
    )  # fmt: skip
    written(frame, target, **{"kafka.compression.codec": "snappy"})
    found = everything(target, topic)
    where = {n: default_partitioner(b"k%d" % (n % 50), 3) if n % 50 != 7 else 2 for n in range(20000)}
    for partition, rows in found.items():
        assert sorted((key, value) for _, key, value in rows) == sorted(
            (b"k%d" % (n % 50), b"v%08d" % n) for n, at in where.items() if at == partition
        )
        for half in (range(10000), range(10000, 20000)):  # one task each: its rows keep their order
            values = [value for _, _, value in rows if value is not None and int(value[1:]) in half]
            assert values == sorted(values)


def test_what_cannot_be_written_is_told_before_or_by_its_row(spark: Any, target: ClusterClient, unique: Unique) -> None:
    topic = unique.topic()
    target.create_topic(topic, partitions=2)
    frame = spark.range(0, 10, numPartitions=1).selectExpr(
        "case when id = 6 then repeat('x', 1100000) else 'small' end value", "1 partition"
    )
    with pytest.raises(Exception, match=r"KAFKA08_NOT_DELIVERED topic=\S+ partition=1 row=6 task=0: .*raise"):
        written(frame, target, topic=topic)
    with pytest.raises(Exception, match=r"KAFKA08_NOT_DELIVERED topic=\S+ partition=1 row=6 task=0: .*127\.0\.0\.1"):
        written(frame, target, topic=topic, **{"kafka.message.max.bytes": "2000000"})
    with pytest.raises(Exception, match="KAFKA08_UNKNOWN_PARTITION topic=no-such"):
        written(frame, target, topic="no-such")
    with pytest.raises(Exception, match=r"KAFKA08_OPTION column=value: the DataFrame has no column value"):
        written(frame.selectExpr("1 n"), target, topic=topic)
    with pytest.raises(Exception, match="KAFKA08_OPTION mode=overwrite: a topic is only ever appended to"):
        frame.write.format("kafka08").mode("overwrite").options(
            **{"kafka.bootstrap.servers": target.brokers, "topic": topic}
        ).save()
    assert not target.registry().view("no-such").partitions("no-such")


def test_a_stream_writes_each_batch_and_goes_on_after_a_restart(
    spark: Any, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    target.create_topic(topic, partitions=1)
    lines = tmp_path / "in"
    lines.mkdir()
    for run, numbers in enumerate((range(500), range(500, 700))):
        (lines / f"{run}.txt").write_text("".join(f"{n}\n" for n in numbers))
        query = (
            spark.readStream.text(str(lines)).writeStream.format("kafka08")
            .option("zookeeper.connect", target.zookeeper).option("topic", topic)
            .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(60)
    assert sorted(int(value or b"") for _, _, value in everything(target, topic)[0]) == list(range(700))
