"""Topics of Kafka 0.7 for the tests of Spark: filled with every codec, and what their segment files hold."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from kafkawire.model import BrokerPartition
from localkafka.seven import entries
from localkafka.seven.cluster import Cluster07
from sparkpipeline.load.config import config_of
from tests.integration.sparkloads import Job

Row = tuple[int, int, int, int, bytes]  # broker, index, offset, number within the entry, value
MANNERS = (("none", 0), ("none", 1), ("gzip", 1), ("snappy", 1))


def fill(cluster: Cluster07, topic: str, partition: BrokerPartition, values: Sequence[bytes], batch: int = 7) -> None:
    """The values in lots, each in another codec or magic than the one before."""
    for (codec, magic), lot in zip(itertools.cycle(MANNERS), entries.batches(values, batch), strict=False):
        cluster.produce(topic, partition.broker, partition.index, lot, codec, magic, batch=batch)


def values(name: str, count: int, size: int = 30) -> list[bytes]:
    draw = random.Random(name)
    return [b"%s-%d " % (name.encode(), n) + draw.randbytes(size) for n in range(count)]


def held(cluster: Cluster07, topic: str) -> list[Row]:
    """What the segment files of all brokers hold, by localkafka's own decoder, in order."""
    found: list[Row] = []
    for node in cluster.nodes:
        for folder in sorted(node.data.glob(f"{topic}-*")):
            index = int(folder.name.rpartition("-")[2])
            rows: list[entries.Row] = []
            for segment in sorted(folder.glob("*.kafka")):
                rows += entries.rows(memoryview(segment.read_bytes()), int(segment.stem))
            found += numbered(node.id, index, rows)
    return sorted(found)


def numbered(broker: int, index: int, rows: Sequence[entries.Row]) -> list[Row]:
    return [
        (broker, index, position, n, row.value)
        for position, group in itertools.groupby(rows, key=lambda row: row.position)
        for n, row in enumerate(group)
    ]


def rows_of(frame: Any) -> list[Row]:
    found = frame.select("broker", "partition", "offset", "innerIndex", "value").collect()
    return sorted((*row[:4], bytes(row[4])) for row in found)


class SevenJob(Job):
    """A load job over a 0.7 cluster."""

    def found(self) -> list[Row]:
        """Every row of every file, as any reader of the folder finds them; in order, so that one twice is seen."""
        found: list[Row] = []
        for path in self.data.rglob("*.parquet"):
            table = parquet.ParquetFile(path).read(columns=["broker", "partition", "offset", "innerIndex", "value"])
            mine = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
            assert mine == sorted(mine, key=lambda row: row[2:4]), f"{path.name} is not in the order of the log"
            partition = path.name.split("+")[1]
            assert {f"{row[0]}-{row[1]}" for row in mine} == {partition}
            found += mine
        return sorted(found)


def seven_job(cluster: Cluster07, base: Path, spark: Any, **options: object) -> SevenJob:
    """options: of LoadConfig, with underscores for dots; topics among them."""
    given = {name.replace("_", "."): value for name, value in options.items()}
    values = {"base": str(base), "zookeeper.connect": cluster.zookeeper, "protocol": "0.7", **given}
    return SevenJob(config_of(values, "test"), spark)


def crcs(rows: Sequence[Row]) -> int:
    return sum(zlib.crc32(row[4]) for row in rows)
