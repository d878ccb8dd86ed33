"""Preview of a run, node by node.  Reads ledgers, without asking brokers or starting anything.

What a load will bring is unknown before it runs: a node that reads it is shown for what is there now, and as following
the load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sparkpipeline.errors import Refused
from sparkpipeline.ledger.formats import of_facts
from sparkpipeline.ledger.ledger import Ledger, LedgerState
from sparkpipeline.ledger.manifests import Plan
from sparkpipeline.stages.graph import LOAD, Node
from sparkpipeline.stages.inputs import NotYet, PipelineLedgers
from sparkpipeline.stages.pipelinefile import Pipeline
from sparkpipeline.stages.stageplan import Planner, StagePlan

PREVIEW_COLUMNS = ("name", "kind", "reads", "mode", "output", "last", "does", "batches", "files", "rows", "replaces")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePreview:
    """Node, and what a run would do with it.

    output    the format of its files, or kafka08; None: of a load that runs elsewhere and has no batch yet
    last      its newest batch
    does      in words
    moves     whether its files would change
    batches   of its inputs that it would take, and never took: "orders 16-17"
    files, rows   that it would read
    replaces  own batches (mode batch) or partitions (mode partition) in whose place the output would come
    refused   it would fail
    idle      a run would leave its ledger as it is
    waits     why it cannot run yet
    """

    node: Node
    mode: str | None
    output: str | None
    last: int | None
    does: str
    moves: bool
    batches: str | None = None
    files: int | None = None
    rows: int | None = None
    replaces: str | None = None
    refused: bool = False
    idle: bool = False
    waits: str | None = None

    def row(self) -> dict[str, Any]:
        """Return a row for the table and JSON."""
        lookups = [f"{name} (lookup)" for name in self.node.lookups]
        reads = ", ".join([*self.node.inputs, *lookups]) or None
        values = {**asdict(self), "name": self.node.name, "kind": self.node.kind, "reads": reads}
        return {column: values[column] for column in PREVIEW_COLUMNS}


@dataclass(slots=True, kw_only=True)
class Preview:
    """Preview of a pipeline. only, again: as in a run."""

    pipeline: Pipeline
    spark: Any | None
    only: Sequence[str] = ()
    again: Sequence[str] = ()
    found: list[NodePreview] = field(default_factory=list)

    def nodes(self) -> list[NodePreview]:
        """Return the nodes in the order of the run.  Raises errors of storage and damaged ledgers."""
        for node in self.pipeline.graph:
            if not self.only or node.name in self.only:
                self.found.append(self._load(node) if node.kind == LOAD else self._stage(node))
        return self.found

    def _load(self, node: Node) -> NodePreview:
        state = PipelineLedgers(self.pipeline, self.spark).ledger(node.name).state()
        newest, config = state.newest, self.pipeline.configs.get(node.name)
        last = newest.batch if newest is not None else None
        if config is None:
            output = of_facts(newest.facts).name if newest is not None else None
            return NodePreview(
                node=node, mode=None, output=output, last=last, does="runs elsewhere", moves=False, idle=True
            )
        does = ", ".join([*_recovery(state), "loads what is new"])
        return NodePreview(node=node, mode=None, output=config.format.name, last=last, does=does, moves=True)

    def _stage(self, node: Node) -> NodePreview:
        opened = PipelineLedgers(self.pipeline, self.spark)
        ledger, planner = opened.ledger(node.name), Planner.of(opened, node.name)
        stage, state = planner.stage, ledger.state()
        last = state.newest.batch if state.newest is not None else None
        refused, waits = False, None
        plan: Plan | None = None
        try:
            does, plan = self._next(ledger, planner, state)
        except NotYet as exc:
            does, waits = [f"waits: {exc}"], str(exc)
        except Refused as exc:
            does, refused = [f"refuses: {exc.sentence}"], True
        above = [f.node.name for f in self.found if f.moves and f.node.name in node.reads]
        if above and not refused:
            does.append(f"then follows {', '.join(above)}")
        moves = bool(plan is not None or above) and not refused
        shown = {} if plan is None else _amounts(planner, plan)
        return NodePreview(
            node=node,
            mode=stage.mode,
            output=stage.output,
            last=last,
            does=", ".join(does),
            moves=moves,
            refused=refused,
            idle=not (moves or refused or _recovery(state)),
            waits=waits,
            **shown,
        )

    def _next(self, ledger: Ledger, planner: Planner, state: LedgerState) -> tuple[list[str], Plan | None]:
        """Return the next step.  Raises NotYet and Refused."""
        does = _recovery(state)
        number = state.next_batch
        if state.open_plan is not None:
            why = planner.stale(state.open_plan)
            if why is None:
                return does, state.open_plan
            does = [f"abandons batch {number} ({why})"]
            number += 1
        plan = planner.plan(ledger, number, planner.stage.name in self.again)
        return ([*does, f"runs batch {number}"] if plan is not None else does or ["nothing to do"]), plan


def _recovery(state: LedgerState) -> list[str]:
    does = [f"publishes batch {manifest.batch}" for manifest in state.unpublished]
    if state.open_plan is not None:
        does.append(f"carries out batch {state.open_plan.batch} as it was planned")
    return does


def _amounts(planner: Planner, plan: Plan) -> dict[str, Any]:
    """Return the input of a plan, and what it replaces."""
    stage_plan = StagePlan.of(plan.work, f"plan {plan.batch}")
    files = rows = 0
    for name, taken in stage_plan.inputs.items():
        one = planner.inputs[name]
        live = one.live(one.head().newest)
        files += len(taken.files)
        rows += sum(live[path].rows for path in taken.files)
    fresh = [f"{name} {_numbers(taken.fresh)}" for name, taken in stage_plan.inputs.items() if taken.fresh]
    replaces = _numbers(stage_plan.replaces) or None
    if stage_plan.partition_by and stage_plan.partitions:
        replaces = f"{len(stage_plan.partitions)} partitions"
    return {"batches": ", ".join(fresh) or None, "files": files, "rows": rows, "replaces": replaces}


def _numbers(numbers: Iterable[int]) -> str:
    """Return numbers as ranges: 1-3, 7."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
