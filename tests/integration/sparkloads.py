"""What the tests of the load job share: a job on a real cluster, and what readers of its folders see."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.verification import verify
from sparkpipeline.load.config import LoadConfig, config_of
from sparkpipeline.load.job import LoadOutcome, open_ledger, run_load
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

    def hours(self) -> dict[str, int]:
        """Rows by date and hour."""
        found: dict[str, int] = {}
        for path in self.data.rglob("*.parquet"):
            hour = "T".join(part.partition("=")[2] for part in path.parts[-3:-1])
            found[hour] = found.get(hour, 0) + parquet.read_metadata(path).num_rows
        return found

    def closed(self) -> list[str]:
        """Hours with a marker."""
        return sorted("T".join(part.partition("=")[2] for part in p.parts[-3:-1]) for p in self.data.rglob("_CLOSED"))

    def check(self) -> None:
        """What is on the disk is what the manifests say."""
        verdict = verify(self.ledger)
        assert verdict.good, verdict.findings


def job(cluster: ClusterClient, base: Path, spark: Any, **options: object) -> Job:
    """options: of LoadConfig, with underscores for dots; topics among them."""
    values = {name.replace("_", "."): value for name, value in options.items()}
    return Job(config_of({"base": str(base), "bootstrap.servers": cluster.brokers, **values}, "test"), spark)


def fill(
    cluster: ClusterClient, topic: str, counts: Iterable[int], after: Iterable[Row] = (), codec: int = 0
) -> dict[Row, int]:
    """Messages in partitions 0, 1 .., behind those of `after`; what rows() has of them."""
    found: dict[Row, int] = {}
    known = list(after)
    for partition, count in enumerate(counts):
        begin = sum(1 for row in known if row[:2] == (topic, partition))
        values = [b"%s-%d-%d" % (topic.encode(), partition, n) for n in range(begin, begin + count)]
        produce(cluster, TopicPartition(topic, partition), [(b"k", value) for value in values], codec)
        found |= {(topic, partition, begin + n): zlib.crc32(value) for n, value in enumerate(values)}
    return found


def events(cluster: ClusterClient, tp: TopicPartition, times_ms: Sequence[float | None]) -> None:
    """JSON messages with a field `at`; None: a message that is no JSON."""
    values = [b"no json" if ms is None else json.dumps({"meta": {"at": ms}}).encode() for ms in times_ms]
    produce(cluster, tp, [(None, value) for value in values])
