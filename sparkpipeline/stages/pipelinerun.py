"""Run of a pipeline: its nodes one after the other, each until it has nothing left to do.

A node that fails stops only those that read it: they wait, and the run is partly done.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sparkpipeline.errors import OptionRefused, PipelineError, Refused, sentence_in
from sparkpipeline.ledger.exactlyonce import Outcome, Tell, advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import Manifest
from sparkpipeline.load.job import Watch, run_load, unwatched
from sparkpipeline.stages.graph import LOAD, Graph, Node, nearest
from sparkpipeline.stages.inputs import NotYet, PipelineLedgers
from sparkpipeline.stages.pipelinefile import Pipeline
from sparkpipeline.stages.preview import NodePreview
from sparkpipeline.stages.stageplan import Planner
from sparkpipeline.stages.stageprograms import Program, first_line, program_hash, program_of
from sparkpipeline.stages.work import StageWork

DONE, IDLE, WAITS, FAILED, LOST, ELSEWHERE = "done", "nothing to do", "waits", "failed", "lost", "runs elsewhere"
MOST_LOST = 3  # another driver is at this stage, and quicker


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """Outcome of a node.  batches: its own, committed by this run; replaced: earlier ones in whose place they came;
    reason: why it failed or waits."""

    name: str
    kind: str
    result: str
    batches: tuple[int, ...] = ()
    replaced: int = 0
    files: int = 0
    rows: int = 0
    seconds: float = 0.0
    reason: str | None = None

    def row(self) -> dict[str, Any]:
        """Return a row for the table and the JSON report."""
        batches = ", ".join(map(str, self.batches)) or None
        return {**asdict(self), "batches": batches, "seconds": round(self.seconds, 1)}


NODE_COLUMNS = ("name", "kind", "result", "batches", "replaced", "files", "rows", "seconds", "reason")


def exit_of(reports: Iterable[NodeReport]) -> str:
    """Return the name of the exit status: done; runtime when nodes failed and nothing went well, else partly.

    A node that was lost to another driver is not done here, and the result of that driver is unknown."""
    results = {report.result for report in reports}
    if not results & {FAILED, LOST}:
        return "done"
    return "partly" if results & {DONE, IDLE, LOST} else "runtime"


def idle_reports(nodes: Sequence[NodePreview]) -> list[NodeReport] | None:
    """Return the reports of a run that would change nothing, or None where some node has something to do."""
    if not all(one.idle for one in nodes):
        return None
    return [
        NodeReport(
            name=one.node.name,
            kind=one.node.kind,
            result=WAITS if one.waits else ELSEWHERE if one.node.kind == LOAD else IDLE,
            reason=one.waits,
        )
        for one in nodes
    ]


def check_names(graph: Graph, names: Iterable[str], option: str, stages_only: bool = False) -> None:
    """Raise OptionRefused for a name that is not in the graph."""
    known = [node.name for node in graph if not stages_only or node.kind != LOAD]
    for name in names:
        if name not in known:
            what = "stage" if stages_only else "load or stage"
            raise OptionRefused(f"'{name}' is not a {what} of the pipeline{nearest(name, known)}", option=option)


@dataclass(slots=True, kw_only=True)
class PipelineRun:
    """One run.

    only   nodes that run, as their inputs stand; all when empty
    again  stages that rewrite all they have
    watch  shows Spark's jobs while they run
    """

    pipeline: Pipeline
    spark: Any
    tell: Tell
    only: Sequence[str] = ()
    again: Sequence[str] = ()
    watch: Watch = unwatched
    reports: list[NodeReport] = field(default_factory=list)

    def run(self) -> list[NodeReport]:
        """Run all nodes in order.  Raises OptionRefused before anything ran; what fails later is in the reports."""
        graph = self.pipeline.graph
        check_names(graph, self.only, "--only")
        check_names(graph, self.again, "--again", stages_only=True)
        import_from_folder(self.pipeline, self.spark)
        wanted = [node for node in graph if not self.only or node.name in self.only]
        programs = {
            node.name: program_of(self.pipeline, self.pipeline.stage(node.name), self.spark)
            for node in wanted
            if node.kind != LOAD
        }
        for node in wanted:
            self.reports.append(self._node(node, programs.get(node.name)))
        return self.reports

    def _node(self, node: Node, program: Program | None) -> NodeReport:
        above = self.pipeline.graph.above(node.name)
        failed = [report.name for report in self.reports if report.result == FAILED and report.name in above]
        if failed:
            return NodeReport(name=node.name, kind=node.kind, result=WAITS, reason=f"{', '.join(failed)} failed")
        began = time.monotonic()
        done: list[Manifest] = []
        try:
            result, reason = self._stage(node, program, done) if program is not None else self._load(node, done)
        except NotYet as exc:
            result, reason = WAITS, str(exc)
        except Exception as exc:  # whatever Spark, a user's function or a file system raises: siblings go on
            result, reason = FAILED, _sentence(exc)
            self.tell(f"{node.name}: {reason}")
        return NodeReport(
            name=node.name,
            kind=node.kind,
            result=result,
            batches=tuple(manifest.batch for manifest in done),
            replaced=sum(len(manifest.facts.get("replaces", ())) for manifest in done),
            files=sum(len(manifest.files) for manifest in done),
            rows=sum(int(manifest.facts.get("rows", manifest.rows)) for manifest in done),
            seconds=time.monotonic() - began,
            reason=reason,
        )

    def _load(self, node: Node, done: list[Manifest]) -> tuple[str, str | None]:
        config = self.pipeline.configs.get(node.name)
        if config is None:
            return ELSEWHERE, None
        outcome = run_load(config, self.spark, lambda said: self.tell(f"{node.name}: {said}"), self.watch)
        done += outcome.manifests
        if outcome.lost:
            return LOST, "another driver loads"
        return (DONE, None) if done else (IDLE, None)

    def _stage(self, node: Node, program: Program, done: list[Manifest]) -> tuple[str, str | None]:
        opened = PipelineLedgers(self.pipeline, self.spark)
        stage = self.pipeline.stage(node.name)

        def tell(said: str) -> None:
            self.tell(f"{node.name}: {said}")

        work = StageWork(
            stage=stage,
            planner=Planner.of(opened, node.name),
            ledger=opened.ledger(node.name),
            program=program,
            program_hash=program_hash(self.pipeline, stage),
            spark=self.spark,
            tell=tell,
            watch=self.watch,
            again=node.name in self.again,
        )
        for manifest in advance_stage(work, tell):
            done.append(manifest)
        return (DONE, None) if done else (IDLE, None)


def import_from_folder(pipeline: Pipeline, spark: Any) -> None:
    """Import Python stages from the pipeline's folder; tasks get the files in python.files."""
    if str(pipeline.folder) not in sys.path:
        sys.path.append(str(pipeline.folder))
    for path in pipeline.file.python_files:
        spark.sparkContext.addPyFile(pipeline.path(path))


def advance_stage(work: StageWork, tell: Tell) -> Iterable[Manifest]:
    """Run batches of a stage, one after the other, until nothing waits, and yield them.  Raises NotYet, Refused when
    another driver is quicker each time, and what the work raises."""
    lost = 0
    while True:
        abandon_stale(work.ledger, work.planner, tell)
        step = advance(work.ledger, work, tell)
        if step.outcome == Outcome.IDLE:
            return
        if step.outcome == Outcome.LOST:
            lost += 1
            if lost == MOST_LOST:
                raise Refused("another driver runs this stage, and was quicker each time", stage=work.stage.name)
            continue
        if not step.again:
            work.again = False  # once: what was planned then has taken everything
        if step.manifest is not None:
            yield step.manifest


def abandon_stale(ledger: Ledger, planner: Planner, tell: Tell) -> None:
    """End an open plan whose inputs are not there any more: it could never be carried out as it is.

    Nothing of it was committed, so nothing is lost; a driver that is still at it finds its batch decided."""
    plan = ledger.state().open_plan
    if plan is None:
        return
    why = planner.stale(plan)
    if why is None:
        tell(f"batch {plan.batch} was planned by an earlier run, and is carried out as it was planned")
        return
    try:
        ledger.abandon(plan.batch, why)
    except Refused:
        return  # decided by another driver in this moment
    tell(f"batch {plan.batch} was planned and not committed, and is abandoned: {why}")


def _sentence(exc: Exception) -> str:
    if isinstance(exc, PipelineError):
        return str(exc)
    return sentence_in(str(exc)) or f"{type(exc).__name__}: {first_line(exc)}"
