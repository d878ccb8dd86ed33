"""A pipeline in a folder: a load's ledger that a test writes without a broker, its YAML, and what stands at its end."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from sparkpipeline.ledger.exactlyonce import advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.local import LocalFiles, local_path
from sparkpipeline.ledger.manifests import BatchFile, Manifest, Plan, StagedBatch
from sparkpipeline.paths import folders, generation
from sparkpipeline.stages.inputs import PipelineLedgers
from sparkpipeline.stages.pipelinefile import Pipeline, read_pipeline
from sparkpipeline.stages.pipelinerun import NodeReport, PipelineRun

DATE = "2026-01-31"
Rows = list[tuple[str, int]]  # hour, offset; the value is JSON {"n": offset}
CHAIN = """
name: test
base: {base}
loads:
  - name: orders
    base: {base}/orders
stages:
  - name: lines
    inputs: [orders]
    partition.by: [date, hour]
    sql: |
      select topic, partition, offset, cast(get_json_object(cast(value as string), '$.n') as bigint) as n, date, hour
      from orders
  - name: counts
    inputs: [lines]
    mode: partition
    partition.by: [date, hour]
    sql: select date, hour, count(*) as lines, sum(n) as total from lines group by date, hour
  - name: days
    inputs: [counts]
    sql: select date, sum(lines) as lines from counts group by date
"""


class _Written:
    """The Work of a load: what a test wants of it."""

    def __init__(self, kind: str, rows: Rows, supersedes: tuple[str, ...]) -> None:
        self.kind, self.rows, self.supersedes = kind, rows, supersedes

    def plan(self, ledger: Ledger, batch: int) -> Plan:
        return Plan(batch, self.kind, ledger.clock(), {}, self.supersedes)

    def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        files = []
        for hour in sorted({hour for hour, _ in self.rows}):
            offsets = [offset for of, offset in self.rows if of == hour]
            name = f"2015+0+{min(offsets):020}+{max(offsets) + 1:020}{generation(plan.batch)}.c000.parquet"
            path = f"topic=2015/date={DATE}/hour={hour}/{name}"
            where = local_path(staging) / path
            where.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(_table(offsets), where)
            files.append(BatchFile(path, f"data/{path}", len(offsets), where.stat().st_size))
        return StagedBatch(tuple(files), {}, "test")

    def published(self, manifest: Manifest) -> None: ...


def _table(offsets: list[int]) -> pyarrow.Table:
    return pyarrow.table(
        {
            "key": pyarrow.array([None] * len(offsets), pyarrow.binary()),
            "value": pyarrow.array([json.dumps({"n": offset}).encode() for offset in offsets], pyarrow.binary()),
            "partition": pyarrow.array([0] * len(offsets), pyarrow.int32()),
            "offset": pyarrow.array(offsets, pyarrow.int64()),
            "timestamp": pyarrow.array([0] * len(offsets), pyarrow.timestamp("us", "UTC")),
            "timestampType": pyarrow.array([0] * len(offsets), pyarrow.int32()),
        }
    )


class Orders:
    """The ledger of a load that runs elsewhere."""

    def __init__(self, base: Path) -> None:
        self.ledger = Ledger(LocalFiles(), f"file://{base}/orders")

    def load(self, rows: Rows) -> None:
        self._advance("load", rows, ())

    def rewind(self, hour: str, rows: Rows) -> None:
        """All files of an hour, replaced."""
        self._advance("rewind", rows, self._of(hour))

    def compact(self, hour: str) -> None:
        rows = [(hour, n) for n in sorted(self.offsets(hour))]
        self._advance("compact", rows, self._of(hour))

    def offsets(self, hour: str | None = None) -> Counter[int]:
        """That stand, of an hour or all."""
        found: Counter[int] = Counter()
        for path in self.ledger.live_files():
            if hour in (None, folders(path)["hour"]):
                found.update(
                    parquet.ParquetFile(local_path(self.ledger.path(path)))
                    .read(columns=["offset"])["offset"]
                    .to_pylist()
                )
        return found

    def by_hour(self) -> dict[str, Counter[int]]:
        return {hour: self.offsets(hour) for hour in {folders(path)["hour"] for path in self.ledger.live_files()}}

    def _of(self, hour: str) -> tuple[str, ...]:
        return tuple(path for path in sorted(self.ledger.live_files()) if folders(path)["hour"] == hour)

    def _advance(self, kind: str, rows: Rows, supersedes: tuple[str, ...]) -> None:
        assert advance(self.ledger, _Written(kind, rows, supersedes), print).manifest is not None


class Place:
    """A pipeline below a folder.  told: what its runs said to the operator."""

    def __init__(self, folder: Path, spark: Any, yaml: str = CHAIN) -> None:
        self.folder, self.spark = folder, spark
        self.orders = Orders(folder)
        self.told: list[str] = []
        self.write(yaml)

    def write(self, yaml: str) -> None:
        (self.folder / "pipeline.yaml").write_text(yaml.format(base=self.folder))

    @property
    def pipeline(self) -> Pipeline:
        return read_pipeline(str(self.folder / "pipeline.yaml"))

    def run(self, only: tuple[str, ...] = (), again: tuple[str, ...] = ()) -> dict[str, NodeReport]:
        reports = PipelineRun(
            pipeline=self.pipeline, spark=self.spark, tell=self.told.append, only=only, again=again
        ).run()
        return {report.name: report for report in reports}

    def ledger(self, name: str) -> Ledger:
        return PipelineLedgers(self.pipeline, self.spark).ledger(name)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Of a stage, as any reader of its folder finds them, folders' columns as texts."""
        data = local_path(self.ledger(name).base) / "data"
        found = []
        for path in sorted(data.rglob("*.parquet")):
            said = folders(str(path.relative_to(data)))
            found += [{**row, **said} for row in parquet.ParquetFile(path).read().to_pylist()]
        return found

    def assert_true(self) -> None:
        """The chain's stages hold what the load's rows make in one go, and their folders what their ledgers say."""
        hours = self.orders.by_hour()
        assert Counter((row["hour"], row["n"]) for row in self.rows("lines")) == Counter(
            (hour, n) for hour, offsets in hours.items() for n in offsets.elements()
        )
        assert {(row["hour"], row["lines"], row["total"]) for row in self.rows("counts")} == {
            (hour, offsets.total(), sum(offsets.elements())) for hour, offsets in hours.items()
        }
        assert sum(row["lines"] for row in self.rows("days")) == sum(offsets.total() for offsets in hours.values())
        for name in ("lines", "counts", "days"):
            ledger = self.ledger(name)
            base = local_path(ledger.base)
            assert {str(path.relative_to(base)) for path in base.glob("data/**/*.parquet")} == set(ledger.live_files())
