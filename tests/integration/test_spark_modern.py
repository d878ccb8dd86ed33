"""Spark on brokers without ZooKeeper: headers, transactions and zstd; read, written, loaded, copied, audited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from groundwork.output import EXIT
from sparkpipeline.commands.cli import outcome
from sparkpipeline.load.config import read_config
from tests.conftest import Unique
from tests.integration.kraftcluster import KraftCluster, kraft_cluster
from tests.integration.modern import named
from tests.integration.sparkloads import Job, job
from zkconsumer.commands.cli import outcome as zkconsumer

pytestmark = [pytest.mark.real, pytest.mark.spark]
TWO = [("h0", b"\x01"), ("h1", b"\x01")]
AT_MS = 1_700_000_000_000


@pytest.fixture(scope="module", params=["3.9.1"])
def kraft(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftCluster]:
    with kraft_cluster(tmp_path_factory.mktemp("kraft"), request.param) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftCluster]:
    with kraft_cluster(tmp_path_factory.mktemp("four"), "4.3.1") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topic(kraft: KraftCluster) -> str:
    """Partition 0: 10 plain messages with headers and times, 20 with zstd; then transactions of both partitions: 5
    committed, 7 aborted, 5 committed.  Partition 1 ends with 9 that are aborted."""
    name = kraft.create("spark-modern", 2)
    send = kraft.producer
    send.send(name, 0, 0, 10, time_ms=AT_MS, headers=2)
    send.send(name, 0, 10, 20, codec="zstd")
    send.transaction(name, {0: (30, 5), 1: (0, 5)})
    send.transaction(name, {0: (900, 7), 1: (900, 7)}, commit=False)
    send.transaction(name, {0: (35, 5), 1: (5, 5)}, codec="zstd")
    send.transaction(name, {1: (910, 9)}, commit=False)
    return name


WANTED = {0: 40, 1: 10}  # messages of the partitions


def values(topic: str) -> dict[int, list[str]]:
    return {partition: named(topic, partition, 0, count) for partition, count in WANTED.items()}


def frame(spark: Any, kraft: KraftCluster, **options: str) -> Any:
    return spark.read.format("kafka08").options(**{"kafka.bootstrap.servers": kraft.brokers, **options}).load()


def by_partition(rows: list[Any]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for row in sorted(rows, key=lambda row: (row.partition, row.offset)):
        found.setdefault(row.partition, []).append(row.value.decode())
    return found


def test_a_batch_reads_headers_times_and_committed_messages(spark: Any, kraft: KraftCluster, topic: str) -> None:
    rows = frame(spark, kraft, subscribe=topic, includeHeaders="true").collect()
    assert by_partition(rows) == values(topic)
    first = [row for row in rows if row.partition == 0 and row.offset < 30]
    assert [[tuple(header) for header in row.headers or ()] for row in first] == [TWO] * 10 + [[]] * 20
    assert [row.headers for row in first[10:]] == [None] * 20
    assert [int(row.timestamp.timestamp() * 1000) for row in first[:10]] == [AT_MS + n for n in range(10)]
    assert {row.timestampType for row in rows} == {0}
    everything = frame(spark, kraft, subscribe=topic, **{"kafka.isolation.level": "read_uncommitted"})
    assert everything.count() == 50 + 2 * 7 + 9
    cut = frame(spark, kraft, subscribe=topic, maxRecordsPerPartition="3")  # ranges begin and end inside of batches
    assert by_partition(cut.collect()) == values(topic)


def test_a_stream_reads_each_committed_message_once(
    spark: Any, kraft: KraftCluster, topic: str, tmp_path: Path
) -> None:
    query = (
        spark.readStream.format("kafka08").option("kafka.bootstrap.servers", kraft.brokers)
        .option("subscribe", topic).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "17").load()
        .selectExpr("partition", "offset", "value").writeStream.format("parquet")
        .option("path", str(tmp_path / "out")).option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(90)
    assert by_partition(spark.read.parquet(str(tmp_path / "out")).collect()) == values(topic)


def loaded(of: Job) -> dict[int, list[str]]:
    found: dict[int, list[tuple[int, str]]] = {}
    for path in of.data.rglob("*.parquet"):
        table = parquet.ParquetFile(path).read(columns=["partition", "offset", "value"])
        columns = [table.column(n).to_pylist() for n in range(3)]
        for partition, offset, value in zip(*columns, strict=True):
            found.setdefault(partition, []).append((offset, value.decode()))
    return {partition: [value for _, value in sorted(rows)] for partition, rows in found.items()}


def test_a_load_counts_what_transactions_keep_back(spark: Any, kraft: KraftCluster, topic: str, tmp_path: Path) -> None:
    of = job(kraft, tmp_path, spark, topics=[topic], limit_rows=40, include_headers=True)  # type: ignore[arg-type]
    while (ran := of.run()).manifests:
        counts = [manifest.facts["counts"] for manifest in ran.manifests]
        assert all("kept_back" in each["reader"] for each in counts)
    assert loaded(of) == values(topic)
    of.check()
    state = of.ledger.state()
    assert state.newest is not None
    assert state.newest.facts["positions"] == {topic: {"0": 50, "1": 30}}
    kraft.producer.transaction(topic, {0: (920, 4)}, commit=False)  # a range of which no row comes
    done = of.run()
    assert [manifest.facts["ranges"][0]["rows"] for manifest in done.manifests] == [0]
    assert not of.run().manifests
    assert loaded(of) == values(topic)
    files = [parquet.ParquetFile(path) for path in of.data.rglob("*.parquet")]
    headers = [row for each in files for row in each.read(columns=["headers"]).column(0).to_pylist() if row]
    assert [[(header["key"], header["value"]) for header in row] for row in headers] == [TWO] * 10


def test_a_load_begins_at_a_time(spark: Any, kraft: KraftCluster, unique: Unique, tmp_path: Path) -> None:
    """At the first message of that time or later; a partition that has none begins at its end."""
    topic, group = kraft.create(unique.topic(), 2), f"load-{unique.tag}"
    for partition, first, at_ms in ((0, 0, AT_MS), (1, 0, AT_MS), (0, 10, AT_MS + 60_000)):
        kraft.producer.send(topic, partition, first, 10, time_ms=at_ms)
    config = tmp_path / "recent.yaml"
    config.write_text(f"{{base: {tmp_path}/recent, bootstrap.servers: '{kraft.brokers}', topics: [{topic}]}}")
    when = ["--to-datetime", str(AT_MS + 60_000), "--undo-dir", str(tmp_path)]
    reset = ["offsets", "reset", "-b", kraft.brokers, "--group", group, "--topic", topic, *when, "--execute"]
    assert zkconsumer(reset) == EXIT["done"]
    begun = ["load", "init", str(config), "--from-group", group, "--storage", "kafka", "--execute"]
    assert outcome(begun) == EXIT["done"]
    of = Job(read_config(config), spark)
    of.run()
    assert loaded(of) == {0: named(topic, 0, 10, 10)}
    kraft.producer.send(topic, 1, 10, 5)
    of.run()
    assert loaded(of) == {0: named(topic, 0, 10, 10), 1: named(topic, 1, 10, 5)}


def test_rows_are_written_with_their_headers_to_4_and_read_back(
    spark: Any, kraft: KraftCluster, four: KraftCluster, topic: str, unique: Unique
) -> None:
    for target in (kraft, four):
        copied(spark, kraft, topic, target, target.create(unique.topic(), 2))


def copied(spark: Any, kraft: KraftCluster, topic: str, target: KraftCluster, copy: str) -> None:
    source = frame(spark, kraft, subscribe=topic, includeHeaders="true")
    rows = source.select("key", "value", "partition", "headers", "timestamp")
    options = {"kafka.bootstrap.servers": target.brokers, "topic": copy, "kafka.compression.codec": "zstd"}
    rows.write.format("kafka08").mode("append").options(**options, includeTimestamps="true").save()
    back = frame(spark, target, subscribe=copy, includeHeaders="true").collect()
    expected = sorted((r.partition, r.offset, r.key, r.value, r.headers, r.timestamp) for r in source.collect())
    found = sorted((r.partition, r.offset, r.key, r.value, r.headers, r.timestamp) for r in back)
    assert [row[0:1] + row[2:] for row in found] == [row[0:1] + row[2:] for row in expected]


def contents(spark: Any, cluster: KraftCluster, topic: str) -> list[tuple[Any, ...]]:
    """Everything of the messages but their offsets, in order."""
    rows = frame(spark, cluster, subscribe=topic, includeHeaders="true").collect()
    rows.sort(key=lambda row: (row.partition, row.offset))
    return [(row.partition, row.key, row.value, row.headers, row.timestamp, row.timestampType) for row in rows]


def test_a_backfill_into_4_and_back_copies_what_is_committed_and_an_audit_finds_it_equal(
    spark: Any, kraft: KraftCluster, four: KraftCluster, topic: str, tmp_path: Path, capsys: Any
) -> None:
    four.create(topic, 2)
    reach = ["--source-brokers", kraft.brokers, "--target-brokers", four.brokers, "--topics", topic]
    assert outcome(["backfill", str(tmp_path / "there"), *reach, "--chunk", "11", "--execute"]) == EXIT["done"]
    assert contents(spark, four, topic) == contents(spark, kraft, topic)
    assert outcome(["audit", *reach]) == EXIT["done"]
    four.producer.send(topic, 1, 5000, 3)
    capsys.readouterr()
    assert outcome(["audit", *reach, "--window", "blocks", "-o", "csv"]) == EXIT["partly"]
    [_, found] = capsys.readouterr().out.splitlines()
    assert found.startswith(f"{topic},1,") and ",foreign,3,10,13," in found  # noqa: PT018
    again = kraft.create(f"{topic}-back", 2)
    four.create(again, 2)
    four.producer.send(again, 0, 0, 500, codec="zstd", headers=2, time_ms=AT_MS)
    back = ["--source-brokers", four.brokers, "--target-brokers", kraft.brokers, "--topics", again]
    assert outcome(["backfill", str(tmp_path / "back"), *back, "--execute"]) == EXIT["done"]
    assert contents(spark, kraft, again) == contents(spark, four, again)
    assert outcome(["audit", *back]) == EXIT["done"]
