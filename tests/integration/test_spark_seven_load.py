"""The load job over Kafka 0.7: each message once, files named by broker and index; crashes, rewinds, brokers gone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafkawire.model import BrokerPartition, TopicPartition
from localkafka.seven.cluster import Cluster07
from sparkpipeline.errors import OffsetOutOfRange, Refused, UnknownPartition
from sparkpipeline.ledger.reports import files_of
from sparkpipeline.load.operations import (
    CompactWanted,
    InitWanted,
    RewindWanted,
    run_operation,
)
from sparkpipeline.stages.pipelinefile import read_pipeline
from sparkpipeline.stages.pipelinerun import DONE, PipelineRun
from tests.conftest import Unique
from tests.integration.sparkseven import SevenJob, crcs, fill, held, seven_job, values

pytestmark = [pytest.mark.real, pytest.mark.spark]

Start = Callable[..., Cluster07]
B00, B01, B10 = BrokerPartition(0, 0), BrokerPartition(0, 1), BrokerPartition(1, 0)
TEN = 1767261600000  # 2026-01-01T10:00Z
HOUR = 3600_000
FLOW = """
base: {folder}/flow
loads: [{{name: kafka, base: {folder}/load}}]
stages:
  - {{name: counts, inputs: [kafka], mode: partition, partition.by: [topic],
      sql: "select topic, broker, partition, count(*) n, sum(innerIndex) inner from kafka group by all"}}
"""


def events(name: str, times_ms: list[int]) -> list[bytes]:
    return [json.dumps({"at": ms, "n": f"{name}-{n}"}).encode() for n, ms in enumerate(times_ms)]


def test_each_run_loads_what_is_new_within_its_limits(
    spark: Any, cluster07: Start, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique.topic(), unique.group()
    cluster = cluster07(partitions={0: 2, 1: 1}, settings={"log.file.size": 6000})
    for partition, count in ((B00, 400), (B01, 5), (B10, 150)):
        fill(cluster, topic, partition, values(f"a{partition}", count))
    total = sum(cluster.ends(topic).values())
    load = seven_job(
        cluster, tmp_path / "load", spark, topics=[topic], limit_bytes=total * 2 // 3, split_bytes=9000, group_id=group
    )
    assert load.run().manifests[0].rows < 555
    first = load.ledger.plan(1).work
    assert len(first["ranges"]) > 3, "large ones are cut"
    assert {*first["positions"][topic]} == {"0-0", "0-1", "1-0"}
    load.run()
    assert load.run().manifests == ()
    assert load.found() == held(cluster, topic)
    load.check()
    facts = load.ledger.manifest(1).facts
    covered = sum(row["until"] - row["start"] for row in facts["ranges"])
    assert facts["counts"]["reader"]["covered"] == covered < total
    assert facts["counts"]["footers"]["rows"] == facts["counts"]["spark"]["rows"]
    loaded = sum(row["crc"] for batch in (1, 2) for row in load.ledger.manifest(batch).facts["ranges"])
    assert loaded == crcs(held(cluster, topic))
    names = [path.name for path in load.data.rglob("*.parquet")]
    assert any(name.startswith(f"{topic}+1-0+{0:020}+") for name in names)
    offsets = {p: int(cluster.zk().get(f"/consumers/{group}/offsets/{topic}/{p}")[0]) for p in (B00, B01, B10)}
    assert offsets == cluster.ends(topic)
    fill(cluster, topic, B10, values("b", 10))
    assert [manifest.rows for manifest in load.run().manifests] == [10]
    rows = held(cluster, topic)
    assert load.found() == rows
    today = datetime.now(UTC).date().isoformat()
    hours = len({path.parent for path in load.data.rglob("*.parquet")})
    run_operation(load.config, spark, load.told.append, CompactWanted(today))
    assert load.found() == rows
    assert hours > 1 or len(list(load.data.rglob("*.parquet"))) == 3, "one file a partition"
    load.check()
    (tmp_path / "flow.yaml").write_text(FLOW.format(folder=tmp_path))
    reports = PipelineRun(pipeline=read_pipeline(str(tmp_path / "flow.yaml")), spark=spark, tell=load.told.append).run()
    assert [report.result for report in reports][-1] == DONE, load.told
    found = spark.read.parquet(f"{tmp_path}/flow/stages/counts/data").collect()
    assert {(row.broker, row.partition): (row.n, row.inner) for row in found} == {
        place: (len(mine), sum(row[3] for row in mine))
        for place in ((0, 0), (0, 1), (1, 0))
        for mine in ([row for row in rows if row[:2] == place],)
    }


def test_a_rewind_loses_and_repeats_nothing(spark: Any, cluster07: Start, unique: Unique, tmp_path: Path) -> None:
    """The ledger does not know what offsets are; tests/sparkpipeline/test_ledger_crashes.py kills at its steps."""
    topic = unique.topic()
    cluster = cluster07(brokers=2)
    load = seven_job(cluster, tmp_path, spark, topics=[topic], time_from="json", time_field="$.at", snapshot_every=1)
    for hour in range(3):
        for partition in (B00, B10):
            fill(cluster, topic, partition, events(f"{partition}", [TEN + hour * HOUR + n for n in range(30)]))
        load.run()
        assert load.found() == held(cluster, topic)
    assert {hour[-2:] for hour in load.hours()} == {"10", "11", "12"}
    before = {path.name for path in load.data.rglob("*.parquet")}
    run_operation(load.config, spark, load.told.append, RewindWanted(topic, TEN + HOUR))
    assert sum(row.rows for row in files_of(load.ledger)) == 180
    after = {path.name for path in load.data.rglob("*.parquet")}
    assert load.found() == held(cluster, topic)
    assert len(before & after) == 2, "the first hour of both partitions stays as it was"
    assert all(".g4." in name for name in after - before)
    load.check()
    only = run_operation(load.config, spark, load.told.append, RewindWanted(topic, TEN + 2 * HOUR, "1-0"))
    assert [manifest.rows for manifest in only.manifests] == [60]
    assert load.found() == held(cluster, topic)
    with pytest.raises(Refused, match="nothing of"):
        run_operation(load.config, spark, load.told.append, RewindWanted(topic, TEN + 9 * HOUR))


def test_brokers_that_go_and_positions_that_are_none(
    spark: Any, cluster07: Start, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique.topic(), unique.group()
    cluster = cluster07(brokers=2)
    for partition in (B00, B10):
        fill(cluster, topic, partition, values(f"a{partition}", 60))
    rows = held(cluster, topic)
    load = seven_job(cluster, tmp_path / "one", spark, topics=[topic])
    inside = InitWanted(positions={TopicPartition(topic, B00): 3})
    with pytest.raises(OffsetOutOfRange, match=r"partition=0-0 requested=3: no entry begins at this byte"):
        run_operation(load.config, spark, load.told.append, inside)
    begin = sorted({row[2] for row in rows if row[0] == 0})[2]
    zk = cluster.zk()
    zk.create(f"/consumers/{group}/offsets/{topic}/0-0", b"%d" % begin, makepath=True)
    run_operation(load.config, spark, load.told.append, InitWanted(group=group))
    load.run()
    assert load.found() == [row for row in rows if row[0] == 1 or row[2] >= begin]
    cluster.node(1).stop()
    fill(cluster, topic, B00, values("b", 9))
    with pytest.raises(UnknownPartition, match=r"partition=1-0 .*its broker, 1, is not registered now"):
        load.run()
    lenient = seven_job(cluster, tmp_path / "one", spark, topics=[topic], out_of_range="earliest")
    assert [manifest.rows for manifest in lenient.run().manifests] == [9]
    cluster.node(1).start()
    cluster.node(1).wait_registered()
    fill(cluster, topic, B10, values("c", 4))
    assert [manifest.rows for manifest in load.run().manifests] == [4]
    assert load.found() == [row for row in held(cluster, topic) if row[0] == 1 or row[2] >= begin]
    load.check()


@pytest.mark.faults
def test_loads_that_are_killed_at_random_lose_and_repeat_nothing(
    spark: Any, cluster07: Start, unique: Unique, tmp_path: Path
) -> None:
    """The whole command, kill -9, some seconds after it began; new messages come in meanwhile."""
    topic = unique.topic()
    cluster = cluster07(partitions={0: 2, 1: 1})
    file = tmp_path / "job.yaml"
    file.write_text(
        f"base: {tmp_path}/load\nzookeeper.connect: {cluster.zookeeper}\nprotocol: '0.7'\ntopics: [{topic}]\n"
        "zookeeper.session.timeout.ms: 2000\nsplit.bytes: 20000\n"
    )
    command = [sys.executable, "-m", "sparkpipeline.commands.main", "load", "run", str(file), "--master", "local[2]"]
    killed = 0
    for turn in range(8):
        for partition in (B00, B01, B10):
            fill(cluster, topic, partition, values(f"{turn}{partition}", 200), batch=50)
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(4 + 1.3 * turn)
        killed += child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.wait()
    load = SevenJob(seven_job(cluster, tmp_path / "load", spark, topics=[topic]).config, spark)
    load.run()
    assert killed >= 4
    assert load.found() == held(cluster, topic)
    load.check()
