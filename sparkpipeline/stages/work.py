"""A stage as the Work of its ledger: plans what waits, runs the program over it, stages and counts what comes of it.

Parquet is exactly once: what a crash leaves in staging is never published.  A topic is at least once: rows that were
sent before a crash are sent again with their batch, and those of a batch that a rewind spoils are not taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from groundwork.plural import counted
from sparkpipeline.errors import PipelineError, StageFailed, code_in
from sparkpipeline.ledger.base import needs_spark
from sparkpipeline.ledger.footers import row_counts
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.model import Manifest, Plan, StagedBatch
from sparkpipeline.load.job import SETTINGS, Watch, unwatched
from sparkpipeline.session import session_beside
from sparkpipeline.stages.config import PARTITION, TOPIC, Stage
from sparkpipeline.stages.inputs import NotYet
from sparkpipeline.stages.partitions import partition_of, shown
from sparkpipeline.stages.planning import Planner
from sparkpipeline.stages.programs import Program, first_line
from sparkpipeline.stages.taking import Taking
from sparkpipeline.stages.views import Views
from sparkpipeline.stages.writing import Written, write_parquet, write_topic

Tell = Callable[[str], None]


@dataclass(slots=True)
class StageWork:
    """ledger: the stage's own.  program_hash: for the manifests.  watch: shows jobs while they run.  again: plans take
    everything anew."""

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
            self.tell(_described(Taking.of(plan.work, f"plan {batch}"), plan))
        return plan

    def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        taking = Taking.of(plan.work, f"plan {plan.batch}")
        if taking.nothing_to_read:
            application = self.spark.sparkContext.applicationId
            return StagedBatch((), self._facts(taking, 0, self._known_schema()), application)
        try:
            with self.watch(f"{self.stage.name}, batch {plan.batch}", 0, 0, 0):
                return self._executed(taking, plan.batch, staging)
        except Exception as exc:
            if isinstance(exc, (NotYet, PipelineError)) or code_in(str(exc)):
                raise
            raise StageFailed(first_line(exc), stage=self.stage.name, batch=plan.batch) from exc

    def published(self, manifest: Manifest) -> None:
        """Nothing is copied outward: who reads a stage reads its ledger."""

    def _executed(self, taking: Taking, batch: int, staging: str) -> StagedBatch:
        session = session_beside(self.spark)
        for key, value in SETTINGS.items():
            session.conf.set(key, value)
        made = self.program(session, self._frames(session, taking))
        application = self.spark.sparkContext.applicationId
        if self.stage.output == TOPIC:
            return StagedBatch((), self._facts(taking, write_topic(made, self.stage), None), application)
        local = not needs_spark(self.ledger.base)
        written = write_parquet(
            made, self.stage, batch, staging, self.ledger.files, lambda paths: row_counts(paths, self.spark, local)
        )
        self._check_partitions(taking, written)
        return StagedBatch(written.files, self._facts(taking, written.rows, written.schema), application)

    def _frames(self, session: Any, taking: Taking) -> dict[str, Any]:
        views = Views(session, self.stage.batch_column)
        frames = {
            name: views.frame(one, one.standing(), taking.inputs[name].files)
            for name, one in self.planner.inputs.items()
        }
        for name, one in self.planner.lookups.items():
            frames[name] = views.frame(one, one.standing(), sorted(one.live(taking.lookups[name].through)))
        return frames

    def _check_partitions(self, taking: Taking, written: Written) -> None:
        """A row in a partition that was not computed would stand beside what is there already."""
        if self.stage.mode != PARTITION:
            return
        columns = self.stage.partition_by
        for file in written.files:
            found = partition_of(file.final, columns)
            if found not in taking.partitions:
                where = file.final if found is None else shown(found, columns)
                raise StageFailed(
                    f"wrote rows to {where}, which is none of the partitions that it was given: in mode partition"
                    f" the columns {', '.join(columns)} go from the inputs to the output as they are",
                    stage=self.stage.name,
                )

    def _facts(self, taking: Taking, rows: int, schema: dict[str, Any] | None) -> dict[str, Any]:
        kept = taking.without_files() if self.stage.mode == PARTITION else taking
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


def _described(taking: Taking, plan: Plan) -> str:
    files = ", ".join(f"{counted(len(taken.files), 'file')} of {name}" for name, taken in taking.inputs.items())
    does = [f"batch {plan.batch}: takes {files}"]
    if taking.partitions and taking.partition_by:
        does.append(f"computes {len(taking.partitions)} partitions")
    if taking.replaces:
        does.append(f"in place of batches {', '.join(map(str, taking.replaces))}")
    if plan.supersedes:
        does.append(f"supersedes {counted(len(plan.supersedes), 'file')}")
    return ", ".join(does)
