"""The ledger on a real HDFS, through the Hadoop client of a Spark session; and that client on a disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localkafka.hdfs import Hdfs
from sparkpipeline.ledger.hadoop import HadoopFiles
from sparkpipeline.ledger.opening import open_files
from tests.sparkpipeline.filescontract import Promise, every_promise

pytestmark = [pytest.mark.real, pytest.mark.spark]


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    with Hdfs() as running:
        yield running


@every_promise
def test_hdfs_keeps(promise: Promise, spark: Any, hdfs: Hdfs) -> None:
    base = f"{hdfs.uri}/contract/{promise.__name__}"
    promise(open_files(base, spark), base)


@every_promise
def test_the_hadoop_client_keeps_on_a_disk(promise: Promise, spark: Any, tmp_path: Path) -> None:
    promise(HadoopFiles(spark, f"file://{tmp_path}"), f"file://{tmp_path}/a b")
