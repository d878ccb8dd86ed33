"""The ledger on a real HDFS, through the Hadoop client of a Spark session."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localkafka.hdfs import Hdfs
from sparkpipeline.errors import LedgerDamaged, OptionRefused, StorageFailed
from sparkpipeline.ledger.base import open_files
from sparkpipeline.ledger.exactlyonce import Outcome, advance
from sparkpipeline.ledger.files import walk
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import BatchFile, Plan, StagedBatch
from sparkpipeline.ledger.verification import verify
from sparkpipeline.paths import generation
from tests import children
from tests.integration.ledgerrounds import (
    HEADS,
    every_error_on_the_way_is_made_good,
    of_two_drivers_at_once_one_wins_each_batch,
    run,
)
from tests.sparkpipeline.filescontract import Promise, every_promise
from tests.sparkpipeline.ledgerworld import CopyWork, judge

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


@pytest.mark.faults  # as on memory files, which make test has
def test_every_error_on_the_way_is_made_good(spark: Any, hdfs: Hdfs) -> None:
    every_error_on_the_way_is_made_good(spark, f"{hdfs.uri}/errors/a b+c=d", not_passed=4)


@pytest.mark.faults  # as on memory files, which make test has
def test_two_drivers_at_once_one_wins_each_batch(spark: Any, hdfs: Hdfs) -> None:
    of_two_drivers_at_once_one_wins_each_batch(spark, f"{hdfs.uri}/race")


@pytest.mark.faults  # as on memory files, which make test has
def test_a_zombie_that_wakes_after_the_next_batch_loses(spark: Any, hdfs: Hdfs) -> None:
    base = f"{hdfs.uri}/zombie"
    run(spark, base)
    files = open_files(base, spark)
    asleep, wake = threading.Event(), threading.Event()

    class Slow(CopyWork):
        def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
            staged = super().execute(plan, staging, attempt)
            asleep.set()
            assert wake.wait(60)
            return staged

    ends: list[Any] = []
    said: list[str] = []
    zombie = threading.Thread(
        target=lambda: ends.append(advance(Ledger(files, base), Slow(files, HEADS), said.append)), daemon=True
    )
    zombie.start()
    assert asleep.wait(60)
    assert run(spark, base) is Outcome.DONE
    assert run(spark, base, rewind=(0, 0)) is Outcome.DONE
    wake.set()
    zombie.join(60)
    assert [end.outcome for end in ends] == [Outcome.LOST]
    assert said == ["batch 2: another driver committed it (attempt 2); files of attempt 1 are deleted"]
    while run(spark, base) is not Outcome.IDLE:
        pass
    judge(files, base, HEADS)
    assert [entry.path for entry in walk(files, f"{base}/_load/staging")] == []


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


@pytest.mark.parametrize("where", ["disk", "hdfs"])
def test_spark_writes_where_it_is_told_and_reads_what_is_published(
    where: str, spark: Any, hdfs: Hdfs, tmp_path: Path
) -> None:
    base = f"{hdfs.uri}/spark/a b" if where == "hdfs" else f"{tmp_path}/a b/"
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
