"""A chain of stages without Spark: real ledgers on a disk, real plans, and files of JSON lines in place of Parquet.

    orders (load) --> lines (batch: each row once) --> counts (partition: rows an hour) --> totals (batch: sums)

Rows are [hour, number].  What stands at the end must be what the rows of the load make in one go.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparkpipeline.ledger.exactlyonce import advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.local import LocalFiles, local_path
from sparkpipeline.ledger.manifests import BatchFile, Manifest, Plan, StagedBatch
from sparkpipeline.paths import folders, generation
from sparkpipeline.stages.graph import LOAD, STAGE
from sparkpipeline.stages.inputs import StageInput
from sparkpipeline.stages.pipelinefile import BATCH, PARTITION, Stage
from sparkpipeline.stages.stageplan import Planner, StagePlan
from sparkpipeline.stages.work import StageWork

Rows = list[list[Any]]
HOURS = ("hour",)


def write_rows(rows: Rows, staging: str, batch: int, name: str, by_hour: bool = True) -> tuple[BatchFile, ...]:
    """Below staging, a file for each hour."""
    hours = sorted({row[0] for row in rows}) if by_hour else [None] if rows else []
    entries = []
    for hour in hours:
        mine = [row for row in rows if hour is None or row[0] == hour]
        path = (
            f"{name}-{len(entries)}{generation(batch)}.json"
            if hour is None
            else f"hour={hour}/{name}{generation(batch)}.json"
        )
        where = local_path(staging) / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(json.dumps(mine))
        entries.append(BatchFile(path, f"data/{path}", len(mine), where.stat().st_size))
    return tuple(entries)


def read_rows(ledger: Ledger, finals: Any) -> Rows:
    """Of published files; one that is gone raises."""
    return [row for final in finals for row in json.loads(ledger.files.read(ledger.path(final)))]


class LoadWork:
    """Loads two rows an hour; or, when told, replaces files (rewind), or merges them (compact)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kind = "load"

    def plan(self, ledger: Ledger, batch: int) -> Plan | None:
        live = ledger.live_files()
        hours = [f"{self.random.randrange(4):02}" for _ in range(self.random.randint(1, 2))]
        rows: Rows = [[hour, batch * 1000 + n] for n, hour in enumerate([*hours, *hours])]
        gone: list[str] = []
        if self.kind != "load" and live:
            gone = self.random.sample(sorted(live), min(len(live), 2))
            if self.kind == "compact":
                hour = folders(gone[0])["hour"]
                gone = [path for path in sorted(live) if folders(path)["hour"] == hour]
                rows = read_rows(ledger, gone)
            else:
                rows = [[folders(path)["hour"], batch * 1000 + n] for n, path in enumerate(gone)]
        kind = self.kind if gone else "load"
        return Plan(batch, kind, ledger.clock(), {"rows": rows}, tuple(gone))

    def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        return StagedBatch(write_rows(plan.work["rows"], staging, plan.batch, "orders"), {}, "test")

    def published(self, manifest: Manifest) -> None: ...


class ChainWork(StageWork):
    """A stage whose program is a function from rows by input to rows."""

    def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        taking = StagePlan.of(plan.work, "plan")
        rows: Rows = []
        if not taking.nothing_to_read:
            frames = {
                name: read_rows(one.ledger, taking.inputs[name].files) for name, one in self.planner.inputs.items()
            }
            rows = self.program(None, frames)
        by_hour = bool(self.stage.partition_by)
        files = write_rows(rows, staging, plan.batch, self.stage.name, by_hour)
        return StagedBatch(files, self._facts(taking, len(rows), {}), "test")


def doubled(_: Any, frames: dict[str, Rows]) -> Rows:
    return [[hour, number * 2] for rows in frames.values() for hour, number in rows]


def counted(_: Any, frames: dict[str, Rows]) -> Rows:
    return [[hour, count] for hour, count in sorted(Counter(row[0] for row in frames["lines"]).items())]


def summed(_: Any, frames: dict[str, Rows]) -> Rows:
    return [["all", sum(row[1] for row in frames["counts"])]]


class Chain:
    """The whole of it below a folder.  snapshot_every: of all ledgers; told: what an operator would read."""

    NAMES = ("lines", "counts", "totals")

    def __init__(self, folder: Path, seed: int = 0, snapshot_every: int = 5) -> None:
        self.told: list[str] = []
        self.load = LoadWork(seed)
        self.stages = {
            "lines": (Stage(name="lines", inputs=("orders",), partition_by=HOURS, mode=BATCH), doubled),
            "counts": (Stage(name="counts", inputs=("lines",), partition_by=HOURS, mode=PARTITION), counted),
            "totals": (Stage(name="totals", inputs=("counts",), mode=BATCH), summed),
        }
        self.folder = folder
        self.snapshot_every = snapshot_every

    def ledger(self, name: str) -> Ledger:
        """A new one each time, as a new process would have."""
        return Ledger(LocalFiles(), f"file://{self.folder}/{name}", snapshot_every=self.snapshot_every, trash_keep_s=0)

    def happen(self, kind: str, name: str = "orders") -> Manifest | None:
        """One batch of a load: load, rewind or compact."""
        self.load.kind = kind
        return advance(self.ledger(name), self.load, self.told.append).manifest

    def planner(self, name: str) -> Planner:
        stage, _ = self.stages[name]
        kinds = {read: STAGE if read in self.stages else LOAD for read in stage.inputs}
        return Planner(stage, {read: StageInput(read, kind, self.ledger(read)) for read, kind in kinds.items()})

    def work(self, name: str, make: Callable[..., StageWork] = ChainWork) -> StageWork:
        stage, program = self.stages[name]
        return make(
            stage=stage, planner=self.planner(name), ledger=self.ledger(name), program=program, program_hash="hash",
            spark=None, tell=self.told.append,
        )  # fmt: skip

    def live(self, name: str) -> Rows:
        """What the ledger says stands, read from the disk."""
        ledger = self.ledger(name)
        return read_rows(ledger, ledger.live_files())

    def on_disk(self, name: str) -> set[str]:
        """Final files that a reader of the folder sees."""
        base = self.folder / name
        return {str(path.relative_to(base)) for path in (base / "data").rglob("*.json")}
