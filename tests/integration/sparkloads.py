"""What the tests of the load job share: a job on a real cluster, and what readers of its folders see."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.verifying import verify
from sparkpipeline.load.config import config_of
from sparkpipeline.load.job import LoadOutcome, open_ledger, run_load
from sparkpipeline.load.options import LoadConfig
from tests.integration.sparktopics import produce

Row = tuple[str, int, int]  # topic, partition, offset


@dataclass
class Job:
    """A load job below a folder; told has what it said to the operator."""

    config: LoadConfig
    spark: Any
    told: list[str] = field(default_factory=list)

    def run(self) -> LoadOutcome:
        return run_load(self.config, self.spark, self.told.append)

    @property
    def ledger(self) -> Ledger:
        return open_ledger(self.config, self.spark)

    @property
    def data(self) -> Path:
        return Path(self.config.base) / "data"

    def rows(self) -> dict[Row, int]:
        """CRC-32 of each value by topic, partition and offset, as any reader of the folder finds them; none twice."""
        found: dict[Row, int] = {}
        for path in sorted(self.data.rglob("*.parquet")):
            topic = next(part for part in path.parts if part.startswith("topic=")).removeprefix("topic=")
            table = parquet.ParquetFile(path).read(columns=["partition", "offset", "value"])
            columns = (table.column(n).to_pylist() for n in range(3))
            for partition, offset, value in zip(*columns, strict=True):
                row = (topic, partition, offset)
                assert row not in found, f"{row} is there twice, again in {path.name}"
                found[row] = zlib.crc32(value or b"")
        return found

    def check(self) -> None:
        """What is on the disk is what the manifests say."""
        verdict = verify(self.ledger)
        assert verdict.good, verdict.findings


def job(cluster: ClusterClient, base: Path, spark: Any, **options: object) -> Job:
    """options: of LoadConfig, with underscores for dots; topics among them."""
    values = {name.replace("_", "."): value for name, value in options.items()}
    return Job(config_of({"base": str(base), "bootstrap.servers": cluster.brokers, **values}, "test"), spark)


def fill(cluster: ClusterClient, topic: str, counts: Iterable[int], begin: int = 0, codec: int = 0) -> dict[Row, int]:
    """Messages numbered from `begin` in partitions 0, 1 ..; what rows() has of them."""
    found: dict[Row, int] = {}
    for partition, count in enumerate(counts):
        values = [b"%s-%d-%d" % (topic.encode(), partition, n) for n in range(begin, begin + count)]
        produce(cluster, TopicPartition(topic, partition), [(b"k", value) for value in values], codec)
        found |= {(topic, partition, begin + n): zlib.crc32(value) for n, value in enumerate(values)}
    return found
