"""s3a:// against a stand-in for S3: what a ledger relies on, and a load whose drivers are killed on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import boto3
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import yaml

from localkafka.client import ClusterClient
from tests.conftest import Unique
from tests.integration.s3promises import NOT_ON_S3
from tests.integration.s3server import S3
from tests.integration.sparkloads import Row, fill
from tests.sparkpipeline.filescontract import PROMISES

pytestmark = [pytest.mark.real, pytest.mark.spark]

LONGEST_S = float(os.environ.get("S3_LONGEST_S", "540"))
KILLS = ("load after write=kill@1", "ledger during publish=kill@2")  # before the commit, and between two renames


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with S3() as running:
        yield running


@pytest.mark.faults  # a minute and more; make faults runs it
def test_s3a_keeps_what_a_ledger_relies_on_and_a_careless_store_is_refused(s3: S3, tmp_path: Path) -> None:
    with S3("careless", ignoring=True) as careless:
        paths = [tmp_path / "kept.json", tmp_path / "careless.json"]
        for path, each in zip(paths, (s3, careless), strict=True):
            path.write_text(json.dumps(each.conf()))
        done = subprocess.run(
            [sys.executable, "-m", "tests.integration.s3promises", *map(str, paths)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    assert len(done.stdout.split()) == len(PROMISES) - len(NOT_ON_S3) + 3


@pytest.mark.parametrize("kills", [KILLS[1:], pytest.param(KILLS, marks=pytest.mark.faults)], ids=len)
def test_a_load_to_s3_whose_drivers_are_killed_is_exactly_once(
    s3: S3, source: ClusterClient, unique: Unique, tmp_path: Path, kills: tuple[str, ...]
) -> None:
    topic = unique.topic()
    source.create_topic(topic, partitions=3)
    file, base = tmp_path / "job.yaml", f"{s3.bucket}/{topic}"
    file.write_text(yaml.safe_dump({"base": base, "bootstrap.servers": source.brokers, "topics": [topic]}))
    rows = fill(source, topic, [400, 300, 200])
    for number, point in enumerate(kills):
        driver(s3, file, tmp_path / f"killed-{number}.log", point)
        rows |= fill(source, topic, [50], after=rows)
    driver(s3, file, tmp_path / "last.log")
    assert stored(s3, topic) == rows


def driver(s3: S3, file: Path, log: Path, killed_at: str = "") -> None:
    """`sparkpipeline load run`; killed_at: the fail point at which it and then its JVM get SIGKILL."""
    conf = {**s3.conf(), "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    options = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "sparkpipeline", "load", "run", str(file), "--master", "local[2]", *options],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            env={**os.environ, "GROUNDWORK_FAILPOINTS": killed_at},
        )  # fmt: skip
    try:
        code = process.wait(LONGEST_S)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # all of it has ended
    assert code == (-signal.SIGKILL if killed_at else 0), log.read_text(errors="replace")[-5000:]


def stored(s3: S3, topic: str) -> dict[Row, int]:
    """CRC-32 of each value below data/, as a client that is not Hadoop's finds it; none twice."""
    client = boto3.client(
        "s3", endpoint_url=s3.endpoint, region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any"
    )
    bucket = s3.bucket.removeprefix("s3a://")
    found: dict[Row, int] = {}
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{topic}/data/"):
        for entry in page.get("Contents", ()):
            if not entry["Key"].endswith(".parquet"):
                continue
            data = client.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
            table = parquet.ParquetFile(pa.BufferReader(data)).read(columns=["partition", "offset", "value"])
            for partition, offset, value in zip(*(table.column(n).to_pylist() for n in range(3)), strict=True):
                row = (topic, partition, offset)
                assert row not in found, f"{row} is there twice, again in {entry['Key']}"
                found[row] = zlib.crc32(value)
    return found
