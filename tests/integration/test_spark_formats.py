"""Files of each format: what is written comes back byte by byte, counts agree whoever makes them, folders are Hive's,
and a job keeps its format.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from sparkpipeline.audit.fileaudit import loaded_by
from sparkpipeline.errors import Mismatch, OptionRefused
from sparkpipeline.ledger.base import open_files
from sparkpipeline.ledger.formats import by_ending, footers
from sparkpipeline.ledger.local import LocalFiles
from sparkpipeline.load.config import LoadConfig, config_of
from sparkpipeline.load.counts import read_back
from sparkpipeline.load.hourrules import HourRule
from sparkpipeline.load.hours import hour_columns
from sparkpipeline.load.operations import CompactWanted, InitWanted, run_operation, verify
from sparkpipeline.load.outputformat import check_zone
from sparkpipeline.load.staging import write
from sparkpipeline.paths import ENDINGS, StagedName
from sparkpipeline.source.schema import struct_type
from sparkpipeline.stages.graph import LOAD
from sparkpipeline.stages.inputs import StageInput, Views
from tests.conftest import Unique
from tests.integration.sparkloads import Job, job
from tests.integration.sparktopics import produce

pytestmark = [pytest.mark.real, pytest.mark.spark]

TEN = 1767261600123  # 2026-01-01T10:00:00.123Z
ROWS = [  # key, value, topic, partition, offset, timestamp, timestampType
    (b"k", b'v\n\xc3\xa9\x00"\\', "t", 0, 5, TEN, 0),
    (None, b"\xff\xfe", "t", 0, 6, -1, -1),
    (b"", None, "t", 1, 9, TEN + 5 * 3600_000, 1),
    (b"\xed\xa0\x80", b"", "t", 1, 10, 253402300800000 * 2, 0),
    (b"z" * 70_000, "\N{PILE OF POO}".encode(), "t", 1, 11, TEN, 0),
]
FORMATS: dict[str, dict[str, str]] = {
    "parquet": {"output.format": "parquet"},
    "orc": {"output.format": "orc", "compression": "gzip"},
    "json": {"output.format": "json"},
    "json-text": {"output.format": "json", "json.values": "text", "compression": "none"},
}


def config(base: Path, name: str) -> LoadConfig:
    return config_of({"base": str(base), "bootstrap.servers": "b:1", "topics": ["t"], **FORMATS[name]}, "test")


def written(spark: Any, base: Path, name: str) -> list[str]:
    """The rows above below BASE/staging; the files."""
    rows = spark.createDataFrame(
        ROWS, "key binary, value binary, topic string, partition int, offset bigint, ms bigint, timestampType int"
    ).selectExpr("key", "value", "topic", "partition", "offset", "timestamp_millis(ms) timestamp", "timestampType")
    placed = rows.coalesce(1).withColumns(hour_columns(HourRule("message"), TEN))
    write(placed, config(base, name), f"file://{base}/staging", LocalFiles())
    return [f"file://{path}" for path in sorted((base / "staging").rglob("part-*"))]


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_comes_back_and_three_readers_count_the_same(spark: Any, name: str, tmp_path: Path) -> None:
    fmt, paths = config(tmp_path, name).format, written(spark, tmp_path, name)
    assert fmt.name == name
    names = [StagedName.of(path.removeprefix(f"file://{tmp_path}/staging/")) for path in paths]
    assert [(found.tp.partition, found.hour.hour) for found in names if found is not None] == [
        (0, "10"), (1, "10"), (1, "15")
    ]  # fmt: skip
    counts = [footers(fmt, paths, one, local) for one, local in ((spark, True), (None, True), (spark, False))]
    assert counts[0] == counts[1] == counts[2]
    assert [(each.rows, each.first, each.last) for each in counts[0].values()] == [(2, 5, 6), (2, 10, 11), (1, 9, 9)]
    back = read_back(spark, fmt, [f"file://{tmp_path}/staging"], HourRule("message"))
    assert sorted((one.rows, one.first, one.last, one.min_ms) for one in back.values()) == [
        (1, 9, 9, TEN + 5 * 3600_000), (2, 5, 6, TEN), (2, 10, 11, TEN)
    ]  # fmt: skip
    columns = "key binary, value binary, partition int, offset bigint, timestamp timestamp, timestampType int"
    frame = fmt.read(spark.read, [f"file://{tmp_path}/staging"], struct_type(columns))
    found = frame.selectExpr(
        "key", "value", "topic", "partition", "offset", "unix_millis(timestamp)", "timestampType"
    ).orderBy("offset").collect()  # fmt: skip
    assert [tuple(bytes(v) if isinstance(v, bytearray) else v for v in row) for row in found] == ROWS
    whole = Path(paths[0].removeprefix("file://"))
    whole.write_bytes(whole.read_bytes()[:-9])
    for one in (spark, None):
        with pytest.raises(Mismatch, match=rf"file={paths[0]}: is not a complete (Parquet|ORC|JSON lines) file: \S"):
            footers(fmt, paths, one, True)


def test_json_lines_are_what_any_reader_takes(spark: Any, tmp_path: Path) -> None:
    lines = [
        json.loads(line) for path in written(spark, tmp_path, "json-text")
        for line in Path(path.removeprefix("file://")).read_text(encoding="utf-8").splitlines()
    ]  # fmt: skip
    assert [list(line) for line in lines[:2]] == [
        ["key", "value", "partition", "offset", "timestamp", "timestampType"],
        ["partition", "offset", "timestamp", "timestampType", "valueBase64"],
    ]
    assert (lines[0]["value"], lines[1]["valueBase64"]) == ('v\né\x00"\\', "//4=")
    assert lines[0]["timestamp"] == "2026-01-01T10:00:00.123Z"


def test_orc_is_refused_in_a_zone_whose_wall_clock_it_would_keep(spark: Any, tmp_path: Path) -> None:
    zones = spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("America/Los_Angeles"))
    try:
        check_zone(config(tmp_path, "parquet"), spark)
        with pytest.raises(OptionRefused, match=r"option=output.format.*time zone, America/Los_Angeles here"):
            check_zone(config(tmp_path, "orc"), spark)
    finally:
        zones.setDefault(before)
    check_zone(config(tmp_path, "orc"), spark)


# ---- a job -----------------------------------------------------------------------------------------------------------


def messages(source: ClusterClient, tp: TopicPartition, first: int, count: int) -> dict[int, bytes]:
    """JSON values with hours 10 and 11 of 2026-01-01 behind `first`; one of them is no UTF-8."""
    found = {n: json.dumps({"at": TEN + n % 2 * 3600_000, "n": n}).encode() for n in range(first, first + count)}
    found[first + count - 1] = b"\xff%d" % first
    produce(source, tp, [(b"k", value) for value in found.values()])
    return found


@pytest.mark.parametrize("name", ["orc", "json-text"])
def test_a_job_in_another_format_is_loaded_read_and_compacted_and_keeps_it(
    name: str, spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    tp = TopicPartition(topic, 0)
    source.create_topic(topic)
    options = {key.replace(".", "_"): value for key, value in FORMATS[name].items()}
    common = {"topics": [topic], "time_from": "json", "time_field": "$.at", "hours_close": False}
    load = job(source, tmp_path, spark, **common, **options)
    run_operation(load.config, spark, load.told.append, InitWanted(positions={tp: 0}))
    rows = messages(source, tp, 0, 10)
    load.run()
    rows |= messages(source, tp, 10, 4)
    load.run()
    assert seen(spark, load, load.config.base) == seen(spark, load, f"{load.config.base}/data") == rows

    # Stages and audits read what was loaded, by the columns that the ledger remembers.
    stage_input = StageInput("orders", LOAD, load.ledger)
    head = stage_input.head()
    frame = Views(spark).frame(stage_input, head, sorted(stage_input.live(head.newest)))
    assert frame.columns == [
        "key", "value", "partition", "offset", "timestamp", "timestampType", "topic", "date", "hour"
    ]  # fmt: skip
    assert {row.offset: bytes(row.value) for row in frame.collect()} == rows
    loaded = loaded_by(load.ledger, ())
    assert (loaded.format.name, loaded.bounds) == (name, {tp: (0, len(rows))})

    before = len(load.ledger.live_files())
    run_operation(load.config, spark, load.told.append, CompactWanted("2026-01-01"))
    assert len(load.ledger.live_files()) < before
    assert seen(spark, load, load.config.base) == rows
    assert verify(load.ledger, None).good
    victim = next(path for path in load.data.rglob("*") if path.name.endswith(ENDINGS))
    victim.write_bytes(victim.read_bytes()[:-9])
    assert {finding.what for finding in verify(load.ledger, None).findings} == {"footer", "size"}

    other = job(source, tmp_path, spark, **common)
    with pytest.raises(OptionRefused, match=r"files are \S.*, and its options say parquet: a job keeps the format"):
        other.run()


def seen(spark: Any, load: Job, path: str) -> dict[int, bytes]:
    """Offset -> value, as spark.read finds them below a folder, with the columns that its folders name."""
    fmt = load.config.format
    frame = fmt.read(spark.read, [path], struct_type("value binary, offset bigint"))
    assert frame.columns == ["value", "offset", "topic", "date", "hour"]
    rows = frame.collect()
    assert {(str(row.date), row.hour) for row in rows} >= {("2026-01-01", 10), ("2026-01-01", 11)}
    assert len(rows) == len({row.offset for row in rows})
    return {row.offset: bytes(row.value) for row in rows}


def test_a_job_loaded_by_an_earlier_release_is_parquet(
    spark: Any, source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    source.create_topic(topic)
    messages(source, TopicPartition(topic, 0), 0, 4)
    load = job(source, tmp_path, spark, topics=[topic])
    load.run()
    assert load.ledger.state().newest is not None
    path = f"file://{tmp_path}/_load/commits/00000001.json"
    files = open_files(load.config.base)
    manifest = json.loads(files.read(path))
    assert manifest["facts"].pop("output")["format"] == "parquet"
    files.delete(path)
    assert files.create(path, json.dumps(manifest).encode())
    with pytest.raises(OptionRefused, match="files are parquet, and its options say json: a job keeps the format"):
        job(source, tmp_path, spark, topics=[topic], output_format="json").run()
    messages(source, TopicPartition(topic, 0), 4, 3)
    load.run()
    assert spark.read.parquet(load.config.base).count() == 7
    assert all(by_ending(path).name == "parquet" for path in load.ledger.live_files())
