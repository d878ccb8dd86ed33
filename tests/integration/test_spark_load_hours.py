"""The hour of a row, by Spark's own expressions: strange values never end a load.  And the order of rows in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from sparkpipeline.ledger.local import LocalFiles
from sparkpipeline.load.config import config_of
from sparkpipeline.load.hourrules import HourRule
from sparkpipeline.load.hours import hour_columns
from sparkpipeline.load.staging import write
from sparkpipeline.paths import StagedName

pytestmark = [pytest.mark.real, pytest.mark.spark]

TEN = 1767261600000  # 2026-01-01T10:00Z
PLAN = TEN + 5 * 3600_000


VALUES = {
    "ms": [
        (b"1767261600000", "10"), (b'"1767261600000"', "10"), (b"1767261600000.75", "10"), (b"1e300", "15"),
        (b'"soon"', "15"), (b"-1", "15"), (b"null", "15"), (b"{", "15"),
    ],
    "s": [(b"1767261600.999", "10"), (b"1e300", "15"), (b'"NaN"', "15")],
    "us": [(b"1767261600000000", "10"), (b"99999999999999999999", "15")],
    "iso": [
        (b'"2026-01-01T10:59:59.9Z"', "10"), (b'"2026-01-01T11:30:00+01:00"', "10"), (b'"2026-01-01 10:00"', "10"),
        (b'"tomorrow"', "15"), (b'"9999999-01-01"', "15"),
        (b'"2026-01-01T10:59:59,9Z"', "10"), (b'"2026-01-01T10:59Z"', "10"), (b'"2026-01-01T11:59+01:00"', "10"),
        (b'"2026-01-01t10:59:59z"', "10"), (b'"20260101T105959Z"', "10"), (b'"2026-01-01T10Z"', "10"),
        (b'"2026-01-01 11:59:59,5 Europe/Berlin"', "10"), (b'"10:59"', "15"), (b'"T10:59:59Z"', "15"),
        (b'"10:59:59"', "15"), (b'"2026"', "15"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("unit", VALUES)
def test_a_json_field_says_the_hour_or_the_plan_does(spark: Any, unit: str) -> None:
    wanted = [(b'{"at":' + value + b"}", hour) for value, hour in VALUES[unit]] + [(None, "15"), (b"\xff", "15")]
    rows = spark.createDataFrame([(value,) for value, _ in wanted], "value binary")
    found = rows.withColumns(hour_columns(HourRule("json", "$.at", unit), PLAN)).collect()
    assert [(row["value"], row["date"], row["hour"]) for row in found] == [
        (value, "2026-01-01", hour) for value, hour in wanted
    ]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/Los_Angeles"])
def test_hours_are_utc_in_every_zone(spark: Any, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = spark.sql(f"select timestamp_millis({TEN}L) timestamp, n timestampType from values (0), (-1) t(n)")
        found = rows.withColumns(hour_columns(HourRule("message"), PLAN)).collect()
        assert [(row["date"], row["hour"]) for row in found] == [("2026-01-01", "10"), ("2026-01-01", "15")]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_rows_of_a_file_are_in_the_order_of_their_offsets(spark: Any, tmp_path: Path) -> None:
    rows = spark.range(0, 4000, numPartitions=1).selectExpr(
        "cast(null as binary) key", "cast(cast(id as string) as binary) value", "concat('t', id % 2) topic",
        "cast(id % 3 as int) partition",
        "5000 - id offset", f"timestamp_millis({TEN} + id * 3600) timestamp", "0 timestampType",
    )  # fmt: skip
    config = config_of({"base": str(tmp_path), "bootstrap.servers": "b:1", "topics": ["t0", "t1"]}, "test")
    write(rows.withColumns(hour_columns(HourRule("message"), PLAN)), config, f"file://{tmp_path}/staging", LocalFiles())
    files = list((tmp_path / "staging").rglob("*.parquet"))
    assert len(files) == 2 * 3 * 4
    for file in files:
        offsets = parquet.ParquetFile(file).read(columns=["offset"]).column(0).to_pylist()
        assert offsets == sorted(offsets)
        name = StagedName.of(str(file.relative_to(tmp_path / "staging")))
        assert name is not None
        assert name.task == 0
