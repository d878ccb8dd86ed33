"""The load job on real brokers, with Spark, to a local folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster as LocalCluster
from localkafka.waiting import wait_until
from sparkpipeline.errors import OffsetOutOfRange, OptionRefused, Refused
from sparkpipeline.ledger.manifests import Plan
from sparkpipeline.ledger.reports import files_of
from sparkpipeline.load import job as jobs
from sparkpipeline.load.facts import JobState
from sparkpipeline.load.operations import (
    CompactWanted,
    InitWanted,
    RewindWanted,
    preview_rewind,
    run_operation,
    verify,
)
from tests.conftest import Unique
from tests.integration.sparkloads import events, fill, job
from tests.integration.sparktopics import produce

pytestmark = [pytest.mark.real, pytest.mark.spark]

SNAPPY = 2
TEN = 1767261600000  # 2026-01-01T10:00Z
MINUTE = 60_000
HOUR = 60 * MINUTE


def test_each_run_loads_what_is_new_and_nothing_twice(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    source.create_topic(topic, partitions=3)
    rows = fill(source, topic, [2000, 500, 0], codec=SNAPPY)
    load = job(source, tmp_path, spark, topics=[topic])
    assert [m.rows for m in load.run().manifests] == [2500]
    assert load.rows() == rows
    assert load.run().manifests == ()
    rows |= fill(source, topic, [100, 0, 300], after=rows)
    assert [m.rows for m in load.run().manifests] == [400]
    assert load.rows() == rows
    facts = load.ledger.manifest(2).facts
    assert facts["positions"] == {topic: {"0": 2100, "1": 500, "2": 300}}
    assert facts["counts"]["footers"]["rows"] == facts["counts"]["spark"]["rows"] == 400
    load.check()


def test_large_ranges_are_split_small_ones_share_tasks_and_runs_and_batches_have_limits(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    large, small = unique.topic("large"), unique.topic("small")
    source.create_topic(large)
    source.create_topic(small, partitions=12)
    rows = fill(source, large, [3000]) | fill(source, small, [20] * 12)
    load = job(
        source, tmp_path, spark, topics_pattern=f"(large|small)-{unique.tag}", split_bytes=11_000, limit_rows=1640,
        batch_rows=900,
    )  # fmt: skip
    runs = []
    while manifests := load.run().manifests:
        runs.append([manifest.batch for manifest in manifests])
        assert all(manifest.rows <= 900 + 13 for manifest in manifests)
        assert sum(manifest.rows for manifest in manifests) <= 1640 + 13
        assert len(runs) < 5
    assert load.rows() == rows
    assert runs == [[1, 2], [3, 4]]
    plan = load.ledger.plan(1).work
    pieces = [row for row in plan["ranges"] if row["topic"] == large]
    assert len(pieces) == 2  # 834 messages of some 20 bytes, as the first ones are
    assert len(plan["ranges"]) == 14
    assert len(plan["tasks"]) == 2
    names = sorted(path.name for path in load.data.rglob(f"{large}+*"))
    assert names[0].startswith(f"{large}+0+{0:020}+{417:020}.g1.c000")
    load.check()


def test_rows_lie_in_the_hour_of_their_json_field_and_complete_hours_are_closed(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    tp = TopicPartition(topic, 0)
    source.create_topic(topic)
    load = job(source, tmp_path, spark, topics=[topic], time_from="json", time_field="$.meta.at")
    events(source, tp, [TEN - 1, TEN, TEN + 59 * MINUTE, TEN + HOUR, None, 2**62, 1e300, TEN + 0.5, -1])
    assert load.run().closed != ()
    hours = load.hours()
    assert {hour: rows for hour, rows in hours.items() if hour.startswith("2026-01-01")} == {
        "2026-01-01T09": 1, "2026-01-01T10": 3, "2026-01-01T11": 1
    }  # fmt: skip
    now = "T".join(load.ledger.manifest(1).facts["hours"][-1][name] for name in ("date", "hour"))
    assert hours[now] == 4  # what has no time of its own has the plan's
    assert load.closed() == ["2026-01-01T09", "2026-01-01T10", "2026-01-01T11"]
    assert json.loads(next(load.data.rglob("hour=10/_CLOSED")).read_text())["rows"] == 3
    events(source, tp, [TEN + 1, TEN + 2])
    assert load.run().manifests[0].facts["late"] == 2
    assert any("2 rows belong to hours that were closed already" in said for said in load.told)
    load.check()


def test_a_field_that_no_row_has_is_refused_and_a_clock_that_jumps_makes_few_folders(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    source.create_topic(topic)
    events(source, TopicPartition(topic, 0), [TEN] * 3 + [TEN + n * 24 * HOUR for n in range(1, 41)] + [None])
    typo = job(source, tmp_path, spark, topics=[topic], time_from="json", time_field="$.meta.att", batch_hours=2)
    for _ in range(2):
        with pytest.raises(Refused, match=f"none of 44 rows of {topic} has a time in .*load abandon JOB 1"):
            typo.run()
    assert not typo.data.exists()
    typo.ledger.abandon(1, "a typo")
    load = job(source, tmp_path, spark, topics=[topic], time_from="json", time_field="$.meta.at", batch_hours=2)
    (manifest,) = load.run().manifests
    assert len(load.rows()) == 44
    hours = load.hours()
    assert len(hours) == 3
    assert (hours["2026-01-01T10"], max(hours.values())) == (3, 40)
    assert [row["no_time"] for row in manifest.facts["ranges"]] == [40]
    assert any("1 of 44 rows" in said for said in load.told)
    assert any("more than 2 hours: 39 rows" in said for said in load.told)
    load.check()


@pytest.mark.parametrize("output", ["parquet", "json"])
def test_sessions_whose_timestamps_have_no_zone_read_and_load_the_same(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path, output: str
) -> None:
    topic = unique.topic()
    source.create_topic(topic)
    produce(source, TopicPartition(topic, 0), [(None, b'{"at": "2026-01-01 10:00:00"}')] * 3)
    load = job(source, tmp_path, spark, topics=[topic], time_from="json", time_field="$.at", time_unit="iso",
               output_format=output)  # fmt: skip
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        query = spark.read.format("kafka08").option("kafka.bootstrap.servers", source.brokers)
        query = query.option("subscribe", topic).load()
        assert dict(query.dtypes)["timestamp"] == "timestamp"
        assert query.count() == 3
        (manifest,) = load.run().manifests
    finally:
        spark.conf.unset("spark.sql.timestampType")
    assert [(row["date"], row["hour"], row["rows"]) for row in manifest.facts["hours"]] == [("2026-01-01", "10", 3)]


def noon(key: bytes | None, value: bytes | None, timestamp_ms: int | None) -> int | None:
    """A time.callable: noon of a day that the value names; 0.8 has no timestamps."""
    assert key is None
    assert timestamp_ms is None
    assert isinstance(value, bytes)
    return TEN + 2 * HOUR if b"5" in value else None


def test_a_callable_finds_the_hour(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique.topic()
    source.create_topic(topic)
    produce(source, TopicPartition(topic, 0), [(None, b"%d" % n) for n in range(10)])
    load = job(source, tmp_path, spark, topics=[topic], time_from="callable", time_callable=f"{__name__}:noon")
    load.run()
    assert load.hours()["2026-01-01T12"] == 1
    assert sum(load.hours().values()) == 10
    produce(source, TopicPartition(topic, 0), [(None, b"11")])
    wrong = job(source, tmp_path, spark, topics=[topic], time_from="callable", time_callable=f"{__name__}:nothing")
    with pytest.raises(OptionRefused, match="has no nothing"):
        wrong.run()
    assert load.ledger.state().open_plan is None


def test_a_rewind_replaces_files_from_a_time_on_and_positions_stay(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    source.create_topic(topic, partitions=2)
    plain = job(source, tmp_path, spark, topics=[topic], time_from="json", time_field="$.meta.at")
    for n in range(3):
        for partition in (0, 1):
            events(source, TopicPartition(topic, partition), [TEN + n * HOUR + i for i in range(50)])
        plain.run()
    rows, before = plain.rows(), {row.path for row in files_of(plain.ledger)}
    wanted = RewindWanted(topic, TEN + HOUR + 10)
    preview = preview_rewind(plain.config, spark, plain.told.append, wanted)
    assert [(r.partition, r.start, r.until) for r in preview.ranges] == [(0, 50, 150), (1, 50, 150)]
    assert (len(preview.supersedes), preview.rows) == (4, 200)
    # This time the rows lie in the hour of the plan.
    again = job(source, tmp_path, spark, topics=[topic], time_from="plan")
    outcome = run_operation(again.config, spark, again.told.append, wanted)
    assert [(m.kind, m.rows) for m in outcome.manifests] == [("rewind", 200)]
    assert again.rows() == rows
    assert again.hours()["2026-01-01T10"] == 100
    assert "2026-01-01T11" not in again.hours()
    assert {row.path for row in files_of(again.ledger, as_of=3) if row.where == "data"} < before
    assert again.run().manifests == ()
    again.check()
    with pytest.raises(Refused, match="has loaded no topic"):
        preview_rewind(again.config, spark, again.told.append, RewindWanted(f"{topic}-x", TEN))


def test_compacting_makes_one_file_of_many_and_changes_no_row(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    source.create_topic(topic, partitions=2)
    load = job(source, tmp_path, spark, topics=[topic], time_from="json", time_field="$.meta.at")
    for n in range(3):
        for partition in (0, 1):
            events(source, TopicPartition(topic, partition), [TEN + n, TEN + HOUR + n])
        load.run()
    rows = load.rows()
    assert len(list(load.data.rglob("*.parquet"))) == 12
    outcome = run_operation(load.config, spark, load.told.append, CompactWanted("2026-01-01", hour="10"))
    assert [(m.kind, m.rows, len(m.files)) for m in outcome.manifests] == [("compact", 6, 2)]
    assert load.rows() == rows
    assert len(list(load.data.rglob("hour=10/*.parquet"))) == 2
    events(source, TopicPartition(topic, 0), [TEN])
    assert [m.rows for m in load.run().manifests] == [1]
    # Files of 11 o'clock end where one of 10 o'clock goes on: a rewind begins before all of them.
    preview = preview_rewind(load.config, spark, load.told.append, RewindWanted(topic, TEN + HOUR + 1, "1"))
    assert [(r.start, r.until) for r in preview.ranges] == [(0, 6)]
    load.check()
    assert verify(load.ledger, None).good


def test_it_begins_where_an_older_loader_stands_and_copies_positions_outward(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, old, new = unique.topic(), unique.group("camus"), unique.group("loader")
    source.create_topic(topic, partitions=2)
    rows = fill(source, topic, [100, 100])
    zk = source.registry().zk
    for partition, at in (("0", b"40"), ("1", b"100")):
        zk.create(f"/consumers/{old}/offsets/{topic}/{partition}", at, makepath=True)
    load = job(source, tmp_path, spark, topics=[topic], zookeeper_connect=source.zookeeper, group_id=new,
               offsets_storage="dual")  # fmt: skip
    run_operation(load.config, spark, load.told.append, InitWanted(group=old))
    assert load.run().manifests[0].rows == 60
    assert load.rows() == {row: crc for row, crc in rows.items() if row[1] == 0 and row[2] >= 40}
    with pytest.raises(Refused, match=r"stands at 100 already; --replace"):
        run_operation(load.config, spark, load.told.append, InitWanted(positions={TopicPartition(topic, 0): 7}))
    with pytest.raises(OffsetOutOfRange):
        run_operation(load.config, spark, load.told.append, InitWanted(positions={TopicPartition(topic, 0): 101}))
    run_operation(
        load.config, spark, load.told.append, InitWanted(positions={TopicPartition(topic, 1): 90}, replace=True)
    )
    assert load.run().manifests[0].rows == 10
    described = subprocess.run(
        [sys.executable, "-m", "zkconsumer.commands.main", "groups", "describe", "-z", source.zookeeper, "--group", new,
         "-o", "json"], capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    shown = json.loads(described.stdout)
    assert {(row["partition"], row["committed"], row["lag"]) for row in shown} == {(0, 100, 0), (1, 100, 0)}
    assert {row["store"] for row in shown} == {"kafka", "zookeeper"}


def test_the_lock_in_zookeeper_lets_one_driver_in(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    source.create_topic(topic)
    load = job(source, tmp_path, spark, topics=[topic], zookeeper_connect=source.zookeeper,
               zookeeper_session_timeout_ms=1000)  # fmt: skip
    with jobs.at_work(load.config, spark, load.told.append) as (_, alone):
        assert alone
        with pytest.raises(Refused, match="another driver is at this job"):
            load.run()
    assert load.run().manifests == ()


def test_what_the_broker_deleted_is_refused_or_counted_as_a_gap(
    spark: Any, own_cluster: Callable[..., LocalCluster], unique: Unique, tmp_path: Path
) -> None:
    cluster = own_cluster(settings={"log.retention.check.interval.ms": "300", "log.roll.hours": "1"})
    topic, tp = unique.topic(), TopicPartition(unique.topic(), 0)
    cluster.create_topic(topic, config={"segment.bytes": 2000, "retention.bytes": 4000, "file.delete.delay.ms": 100})
    strict = job(cluster, tmp_path, spark, topics=[topic])
    run_operation(strict.config, spark, strict.told.append, InitWanted(positions={tp: 0}))
    rows = {}
    for _ in range(20):
        rows |= fill(cluster, topic, [20], after=rows)
    with jobs.connected(strict.config) as it:
        wait_until(lambda: it.brokers.earliest([tp])[tp] > 0, 30, lambda: "the broker to delete segments")
    with pytest.raises(OffsetOutOfRange, match="were deleted before they were loaded"):
        strict.run()
    lenient = job(cluster, tmp_path, spark, topics=[topic], out_of_range="earliest")
    manifest = lenient.run().manifests[0]
    (gap,) = manifest.facts["gaps"]
    assert gap["start"] == 0
    lost = gap["until"] + sum(row["lost"] for row in manifest.facts["ranges"])
    assert manifest.rows == 400 - lost
    assert lenient.rows() == {row: crc for row, crc in rows.items() if row[2] >= lost}
    assert any("messages were deleted before they were loaded" in said for said in lenient.told)
    assert JobState.of(manifest).positions == {tp: 400}


def test_a_log_that_ends_before_the_position_is_refused_under_every_policy(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    source.create_topic(topic)
    load = job(source, tmp_path, spark, topics=[topic], out_of_range="earliest")
    facts = JobState(positions={TopicPartition(topic, 0): 7}).facts()
    assert load.ledger.put_plan(Plan(1, "init", TEN, {"facts": facts}))
    with pytest.raises(OffsetOutOfRange, match="ends before the job's position"):
        load.run()
    assert load.ledger.state().next_batch == 2
    assert load.ledger.state().open_plan is None
