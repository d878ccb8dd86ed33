"""The demo's last act: what was mirrored is loaded into Parquet, and one SQL stage counts it by hour.

It runs the installed command `sparkpipeline run` as a data engineer would, and reads the Parquet files themselves.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from localkafka.errors import LocalKafkaError, last_lines

COMMAND = Path(sys.executable).with_name("sparkpipeline")
TIMEOUT_S = 300
STAGE = "by_hour"
COLUMNS = ("topic", "date", "hour", "messages", "keyed", "bytes")
SQL = """
select topic, date, hour, count(*) as messages, count(key) as keyed, sum(length(value)) as bytes
from mirrored group by topic, date, hour
"""


@dataclass(frozen=True, slots=True)
class Loaded:
    """hours: rows of COLUMNS, by topic and hour; files: how many Parquet files the load wrote."""

    hours: list[dict[str, Any]]
    files: int

    @property
    def messages(self) -> Counter[str]:
        """By topic."""
        found: Counter[str] = Counter()
        for row in self.hours:
            found[row["topic"]] += row["messages"]
        return found


def load_and_count(folder: Path, brokers: str, topics: Sequence[str]) -> Loaded:
    """Load the topics of a cluster into folder/warehouse and count them.  Raises LocalKafkaError when it fails."""
    if not COMMAND.exists():
        raise LocalKafkaError(f"the command {COMMAND.name} is not installed beside {sys.executable}: run make demo")
    file, log = folder / "pipeline.yaml", folder / "pipeline.log"
    file.write_text(yaml.safe_dump(pipeline(folder / "warehouse", brokers, topics), sort_keys=False))
    local = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    argv = [str(COMMAND), "run", str(file), "--master", "local[2]", *local, "--conf", "spark.ui.enabled=false"]
    with log.open("wb") as out:
        try:
            code = subprocess.run(argv, stdout=out, stderr=out, timeout=TIMEOUT_S, check=False).returncode
        except subprocess.TimeoutExpired:
            raise LocalKafkaError(f"the load does not end within {TIMEOUT_S} s; {last_lines(log)}") from None
    if code:
        raise LocalKafkaError(f"sparkpipeline run ended with exit code {code}; {last_lines(log)}")
    return Loaded(_hours(folder / "warehouse"), sum(1 for _ in (folder / "warehouse/mirrored/data").rglob("*.parquet")))


def pipeline(base: Path, brokers: str, topics: Sequence[str]) -> Mapping[str, object]:
    """What PIPELINE.yaml says: one load, and one stage behind it."""
    job = {"base": str(base / "mirrored"), "bootstrap.servers": brokers, "topics": list(topics)}
    stage = {
        "name": STAGE,
        "inputs": ["mirrored"],
        "mode": "partition",
        "partition.by": ["date", "hour"],
        "sql": SQL.strip(),
    }
    return {"name": "demo", "base": str(base), "loads": [{"name": "mirrored", "job": job}], "stages": [stage]}


def _hours(base: Path) -> list[dict[str, Any]]:
    from pyarrow import dataset, parquet  # here: the other acts of the demo need none of it

    rows: list[dict[str, Any]] = []
    files = dataset.dataset(base / "stages" / STAGE / "data", format="parquet", partitioning="hive").files
    for name in files:
        parts = dict(part.split("=", 1) for part in Path(name).parts if "=" in part)
        rows += [{**parts, **row} for row in parquet.ParquetFile(name).read().to_pylist()]
    return sorted(rows, key=lambda row: (row["topic"], row["date"], row["hour"]))
