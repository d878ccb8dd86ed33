"""The ledger and loads on a real HDFS, through the Hadoop client of a Spark session."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localkafka.client import ClusterClient
from localkafka.hdfs import Hdfs
from sparkpipeline.errors import LedgerDamaged, OptionRefused, StorageFailed
from sparkpipeline.ledger.base import open_files
from sparkpipeline.ledger.exactlyonce import Outcome, advance
from sparkpipeline.ledger.files import walk
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import BatchFile, Plan, StagedBatch
from sparkpipeline.ledger.reports import files_of
from sparkpipeline.ledger.verification import verify
from sparkpipeline.load import operations
from sparkpipeline.paths import generation
from tests import children
from tests.conftest import Unique
from tests.integration.ledgerrounds import run
from tests.integration.sparkloads import Job, fill, job
from tests.sparkpipeline.filescontract import Promise, every_promise
from tests.sparkpipeline.ledgerworld import CopyWork

pytestmark = [pytest.mark.real, pytest.mark.spark]


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    with Hdfs() as running:
        yield running


@every_promise
def test_hdfs_keeps(promise: Promise, spark: Any, hdfs: Hdfs) -> None:
    base = f"{hdfs.uri}/contract/{promise.__name__}"
    promise(open_files(base, spark), base)


def test_a_scheme_of_which_nobody_knows_is_refused(spark: Any) -> None:
    with pytest.raises(OptionRefused, match="gs: is not one of hdfs, s3a, swebhdfs, viewfs, webhdfs"):
        open_files("gs://bucket/orders", spark)


def test_an_s3_client_that_is_not_there_is_one_sentence(spark: Any) -> None:
    with pytest.raises(StorageFailed, match=r"file=s3a://bucket/x: cannot open it: .*S3AFileSystem not found"):
        open_files("s3a://bucket/x", spark)


def test_a_name_node_that_is_away_is_one_sentence(spark: Any) -> None:
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("ipc.client.connect.max.retries", "0")
    try:
        gone = open_files("hdfs://127.0.0.1:1/x", spark)
    finally:
        conf.unset("ipc.client.connect.max.retries")
    with pytest.raises(StorageFailed, match=r"file=hdfs://127.0.0.1:1/x: cannot look for it: ConnectException"):
        gone.exists("hdfs://127.0.0.1:1/x")


class Parquet(CopyWork):
    """Work that Spark does: staging is where it writes to."""

    def __init__(self, files: Any, spark: Any) -> None:
        super().__init__(files, (1, 1))
        self.spark = spark

    def plan(self, ledger: Ledger, batch: int) -> Plan | None:
        return Plan(batch, "parquet", 1, {"rows": 1_000 * batch}) if batch <= 2 else None

    def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        rows = self.spark.range(plan.work["rows"]).selectExpr("id", "'a+b' as topic", "id % 2 as hour")
        rows.repartition(1).write.partitionBy("topic", "hour").parquet(staging)
        parts = [entry for entry in walk(self.files, staging) if entry.name.endswith(".parquet")]
        return StagedBatch(tuple(self._entry(plan, staging, part) for part in parts), {}, "app")

    def _entry(self, plan: Plan, staging: str, part: Any) -> BatchFile:
        staged = part.path.removeprefix(f"{staging}/")
        final = f"data/{staged.rpartition('/')[0]}/x+0+{plan.batch}{generation(plan.batch)}.c000.snappy.parquet"
        return BatchFile(staged, final, self.spark.read.parquet(part.path).count(), part.size)


def test_spark_writes_where_it_is_told_and_reads_what_is_published(spark: Any, hdfs: Hdfs) -> None:
    base = f"{hdfs.uri}/spark/a b"
    files = open_files(base, spark)
    ledger = Ledger(files, base)
    while advance(ledger, Parquet(files, spark), lambda _: None).outcome is Outcome.DONE:
        pass
    read = spark.read.parquet(ledger.path("data"))
    assert sorted(tuple(row) for row in read.groupBy("topic", "hour").count().collect()) == [
        ("a+b", 0, 1_500),
        ("a+b", 1, 1_500),
    ]
    assert sum(file.rows for file in ledger.live_files().values()) == 3_000
    assert verify(ledger).findings == ()


def test_a_manifest_that_hdfs_tore_is_said_so(spark: Any, hdfs: Hdfs) -> None:
    base = f"{hdfs.uri}/torn"
    run(spark, base)
    files = open_files(base, spark)
    path = f"{base}/_load/commits/00000001.json"
    whole = files.read(path)
    files.delete(path)
    assert files.create(path, whole[:100])
    with pytest.raises(LedgerDamaged, match=rf"file={path}: is not JSON .*: torn, or not written by a ledger"):
        run(spark, base)


def test_a_load_and_a_compaction_run_on_hdfs(
    spark: Any, hdfs: Hdfs, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    source.create_topic(topic, partitions=2)
    rows = fill(source, topic, [300, 200])
    load = job(source, tmp_path, spark, topics=[topic])
    there = Job(job(source, tmp_path, spark, topics=[topic]).config, spark)
    config = type(load.config)(base=f"{hdfs.uri}/warehouse", bootstrap=load.config.bootstrap, topics=(topic,))
    there.config = config
    assert there.run().manifests[0].rows == 500
    rows |= fill(source, topic, [10, 0], after=rows)
    assert there.run().manifests[0].rows == 10
    wanted = operations.CompactWanted(there.ledger.manifest(1).facts["hours"][0]["date"])
    operations.run_operation(config, spark, there.told.append, wanted)
    ledger = there.ledger
    read = spark.read.parquet(*[row.path for row in files_of(ledger)])
    found = {(topic, row["partition"], row["offset"]): row["crc"]
             for row in read.selectExpr("partition", "offset", "crc32(value) crc").collect()}  # fmt: skip
    assert found == rows
    assert spark.read.parquet(f"{config.base}/data").count() == 510
    assert operations.verify(ledger, spark).good


@pytest.mark.faults
def test_hdfs_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = "from localkafka.hdfs import Hdfs; h = Hdfs().start(); print(h.pid, flush=True); input()"
    with children.started([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.kill()
    deadline = time.monotonic() + 15
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
