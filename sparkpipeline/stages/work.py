"""Stage as the Work of its ledger: plans waiting input, runs the program over it, stages and counts the result.

Parquet is exactly once: what a crash leaves in staging is never published.  Spark counts the rows as it writes them;
the footers of the files say how many there are.  They are the same, or the batch is a Mismatch and is not committed.

A topic is at least once: rows that were sent before a crash are sent again with their batch, and those of a batch that
a rewind spoils are not taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from groundwork.failpoints import failpoint
from groundwork.sentences import counted
from sparkpipeline.errors import Mismatch, OptionRefused, PipelineError, StageFailed, code_in
from sparkpipeline.ledger.base import needs_spark
from sparkpipeline.ledger.exactlyonce import Tell
from sparkpipeline.ledger.files import Files, walk
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import BatchFile, Manifest, Plan, StagedBatch
from sparkpipeline.ledger.parquet import PARQUET, row_counts
from sparkpipeline.load.job import SETTINGS, Watch, unwatched
from sparkpipeline.paths import stage_final
from sparkpipeline.sparksession import session_beside
from sparkpipeline.stages.inputs import NotYet, Views
from sparkpipeline.stages.partitionmode import partition_of, shown
from sparkpipeline.stages.pipelinefile import PARTITION, TOPIC, Stage
from sparkpipeline.stages.stageplan import Planner, StagePlan
from sparkpipeline.stages.stageprograms import Program, first_line


@dataclass(slots=True, kw_only=True)
class StageWork:
    """ledger: the stage's own.  program_hash: for the manifests.  watch: shows jobs while they run.  again: plans take
    everything again."""

    stage: Stage
    planner: Planner
    ledger: Ledger
    program: Program
    program_hash: str
    spark: Any
    tell: Tell
    watch: Watch = unwatched
    again: bool = False

    def plan(self, ledger: Ledger, batch: int) -> Plan | None:
        plan = self.planner.plan(ledger, batch, self.again)
        if plan is not None:
            self.tell(_described(StagePlan.of(plan.work, f"plan {batch}"), plan))
        return plan

    def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        stage_plan = StagePlan.of(plan.work, f"plan {plan.batch}")
        if stage_plan.nothing_to_read:
            application = self.spark.sparkContext.applicationId
            return StagedBatch((), self._facts(stage_plan, 0, self._known_schema()), application)
        try:
            with self.watch(f"{self.stage.name}, batch {plan.batch}", 0, 0, 0):
                return self._executed(stage_plan, plan.batch, staging)
        except Exception as exc:
            if isinstance(exc, (NotYet, PipelineError)) or code_in(str(exc)):
                raise
            raise StageFailed(first_line(exc), stage=self.stage.name, batch=plan.batch) from exc

    def published(self, manifest: Manifest) -> None:
        """Do nothing: readers of a stage read its ledger."""

    def _executed(self, stage_plan: StagePlan, batch: int, staging: str) -> StagedBatch:
        session = session_beside(self.spark)
        for key, value in SETTINGS.items():
            session.conf.set(key, value)
        made = self.program(session, self._frames(session, stage_plan))
        application = self.spark.sparkContext.applicationId
        if self.stage.output == TOPIC:
            return StagedBatch((), self._facts(stage_plan, write_topic(made, self.stage), None), application)
        local = not needs_spark(self.ledger.base)
        written = write_parquet(
            made,
            self.stage,
            batch=batch,
            staging=staging,
            files=self.ledger.files,
            footers=lambda paths: row_counts(paths, self.spark, local),
        )
        self._check_partitions(stage_plan, written)
        return StagedBatch(written.files, self._facts(stage_plan, written.rows, written.schema), application)

    def _frames(self, session: Any, stage_plan: StagePlan) -> dict[str, Any]:
        views = Views(session, self.stage.batch_column)
        frames = {
            name: views.frame(one, one.head(), stage_plan.inputs[name].files)
            for name, one in self.planner.inputs.items()
        }
        for name, one in self.planner.lookups.items():
            frames[name] = views.frame(one, one.head(), sorted(one.live(stage_plan.lookups[name].through)))
        return frames

    def _check_partitions(self, stage_plan: StagePlan, written: StageOutput) -> None:
        """Raise Mismatch for a row in a partition that was not computed, which would be added to existing rows."""
        if self.stage.mode != PARTITION:
            return
        columns = self.stage.partition_by
        for file in written.files:
            found = partition_of(file.final, columns)
            if found not in stage_plan.partitions:
                where = file.final if found is None else shown(found, columns)
                raise StageFailed(
                    f"wrote rows to {where}, which is not one of its partitions: in mode partition"
                    f" the columns {', '.join(columns)} go from the inputs to the output as they are",
                    stage=self.stage.name,
                )

    def _facts(self, stage_plan: StagePlan, rows: int, schema: dict[str, Any] | None) -> dict[str, Any]:
        kept = stage_plan.without_files() if self.stage.mode == PARTITION else stage_plan
        return {
            **kept.work(),
            "output": self.stage.output,
            "program": self.program_hash,
            "rows": rows,
            "schema": schema,
        }

    def _known_schema(self) -> dict[str, Any] | None:
        newest = self.ledger.state().newest
        return None if newest is None else newest.facts.get("schema")


def _described(stage_plan: StagePlan, plan: Plan) -> str:
    files = ", ".join(f"{counted(len(taken.files), 'file')} of {name}" for name, taken in stage_plan.inputs.items())
    does = [f"batch {plan.batch}: takes {files}"]
    if stage_plan.partitions and stage_plan.partition_by:
        does.append(f"computes {len(stage_plan.partitions)} partitions")
    if stage_plan.replaces:
        does.append(f"in place of batches {', '.join(map(str, stage_plan.replaces))}")
    if plan.supersedes:
        does.append(f"supersedes {counted(len(plan.supersedes), 'file')}")
    return ", ".join(does)


# ---- what it writes --------------------------------------------------------------------------------------------------

Footers = Callable[[Sequence[str]], dict[str, int]]


@dataclass(frozen=True, slots=True)
class StageOutput:
    """files: with rows, in order of their paths; rows: of all of them; schema: of the rows, as Spark's JSON."""

    files: tuple[BatchFile, ...]
    rows: int
    schema: dict[str, Any]


def write_parquet(frame: Any, stage: Stage, *, batch: int, staging: str, files: Files, footers: Footers) -> StageOutput:
    """Write a stage's rows below `staging`, which must not exist.

    Raises OptionRefused for a column that is not there, Mismatch, and what Spark raises."""
    missing = [column for column in stage.partition_by if column.lower() not in map(str.lower, frame.columns)]
    if missing:
        raise OptionRefused(
            f"partition.by names '{missing[0]}', and its rows have {', '.join(frame.columns)}", stage=stage.name
        )
    rows, counted = _observed(frame.hint("rebalance", *stage.partition_by) if stage.rebalance else frame)
    PARQUET.write(rows.write.mode("error").options(**stage.options).partitionBy(*stage.partition_by), staging)
    failpoint("stage after write")
    if not files.exists(f"{staging}/_SUCCESS"):
        raise Mismatch("Spark wrote no _SUCCESS, so not all tasks may have written all their rows", staging=staging)
    entries = staged_entries(stage.name, batch, staging=staging, files=files, footers=footers)
    stored, seen = sum(entry.rows for entry in entries), counted()
    if stored != seen:
        raise Mismatch(f"Spark wrote {seen} rows, and the files hold {stored}", stage=stage.name, staging=staging)
    return StageOutput(tuple(entry for entry in entries if entry.rows), stored, frame.schema.jsonValue())


def write_topic(frame: Any, stage: Stage) -> int:
    """Send a stage's rows, at least once, and return their number.  Raises the exceptions of Spark and the sink."""
    rows, counted = _observed(frame)
    rows.write.format(stage.output).mode("append").options(**stage.options).save()
    failpoint("stage after send")
    return counted()


def staged_entries(stage: str, batch: int, *, staging: str, files: Files, footers: Footers) -> list[BatchFile]:
    """Return the data files below staging, including those without rows, under their final names.  Raises Mismatch."""
    listed = [entry for entry in walk(files, staging) if not entry.name.startswith(("_", "."))]
    rows = footers([entry.path for entry in listed])
    found = []
    for entry in listed:
        staged = entry.path.removeprefix(f"{staging}/")
        found.append(BatchFile(staged, stage_final(stage, batch, staged), rows[entry.path], entry.size))
    return found


def _observed(frame: Any) -> tuple[Any, Callable[[], int]]:
    """Return the frame, and a function that counts its rows as they are written."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    observation = Observation()
    observed = frame.observe(observation, F.count(F.lit(1)).alias("rows"))
    return observed, lambda: int(observation.get.get("rows") or 0)
