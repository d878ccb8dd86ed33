"""What a stage writes: Parquet below a staging folder, counted twice, or rows to a topic.

Spark counts the rows as it writes them; the footers of the files say how many there are.  They are the same, or the
batch is a Mismatch and is not committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from groundwork.failpoints import failpoint
from sparkpipeline.errors import Mismatch, OptionRefused
from sparkpipeline.ledger.files import Files, walk
from sparkpipeline.ledger.model import BatchFile
from sparkpipeline.paths import stage_final
from sparkpipeline.stages.config import Stage

Footers = Callable[[Sequence[str]], dict[str, int]]


@dataclass(frozen=True, slots=True)
class Written:
    """files: with rows, in order of their paths; rows: of all of them; schema: of the rows, as Spark's JSON."""

    files: tuple[BatchFile, ...]
    rows: int
    schema: dict[str, Any]


def write_parquet(frame: Any, stage: Stage, batch: int, staging: str, files: Files, footers: Footers) -> Written:
    """Write a stage's rows below `staging`, which must not exist.

    Raises OptionRefused for a column that is not there, Mismatch, and what Spark raises."""
    missing = [column for column in stage.partition_by if column.lower() not in map(str.lower, frame.columns)]
    if missing:
        raise OptionRefused(
            f"partition.by names '{missing[0]}', and its rows have {', '.join(frame.columns)}", stage=stage.name
        )
    rows, counted = _observed(frame.hint("rebalance", *stage.partition_by) if stage.rebalance else frame)
    rows.write.mode("error").options(**stage.options).partitionBy(*stage.partition_by).parquet(staging)
    failpoint("stage after write")
    if not files.exists(f"{staging}/_SUCCESS"):
        raise Mismatch("Spark wrote no _SUCCESS: nothing tells that all tasks wrote all they had", staging=staging)
    entries = staged_entries(stage.name, batch, staging, files, footers)
    stored, seen = sum(entry.rows for entry in entries), counted()
    if stored != seen:
        raise Mismatch(f"Spark wrote {seen} rows, and the files hold {stored}", stage=stage.name, staging=staging)
    return Written(tuple(entry for entry in entries if entry.rows), stored, frame.schema.jsonValue())


def write_topic(frame: Any, stage: Stage) -> int:
    """Send a stage's rows, at least once; how many.  Raises what Spark and the sink raise."""
    rows, counted = _observed(frame)
    rows.write.format(stage.output).mode("append").options(**stage.options).save()
    failpoint("stage after send")
    return counted()


def staged_entries(stage: str, batch: int, staging: str, files: Files, footers: Footers) -> list[BatchFile]:
    """The data files below staging, those without rows too, under their final names.  Raises Mismatch."""
    listed = [entry for entry in walk(files, staging) if not entry.name.startswith(("_", "."))]
    rows = footers([entry.path for entry in listed])
    found = []
    for entry in listed:
        staged = entry.path.removeprefix(f"{staging}/")
        found.append(BatchFile(staged, stage_final(stage, batch, staged), rows[entry.path], entry.size))
    return found


def _observed(frame: Any) -> tuple[Any, Callable[[], int]]:
    """The frame, and what counts its rows as they are written."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    observation = Observation()
    observed = frame.observe(observation, F.count(F.lit(1)).alias("rows"))
    return observed, lambda: int(observation.get.get("rows") or 0)
