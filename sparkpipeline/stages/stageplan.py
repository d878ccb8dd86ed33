"""Planner of the next batch of a stage, with a check whether an open plan can still be executed.  Reads ledgers; no
Spark.

A StagePlan is `work` of the ledger's plan, and part of the manifest's facts:

    {"stage": "lines", "mode": "batch", "partition.by": ["date", "hour"], "topics": [],
     "inputs": {"orders": {"through": 17, "manifest": "ab12..", "fresh": [16, 17], "files": ["data/.."]}},
     "lookups": {"customers": {"through": 3, "manifest": "cd34.."}},
     "replaces": [], "partitions": [["2026-01-31", "08"]]}

through     everything of the input up to this batch is taken (of a lookup: it was read as of this batch)
manifest    which ledger that was: identity of that batch's manifest
fresh       batches of the input that were never taken before
files       those that are read; in mode partition the plan has them and the manifest does not
replaces    own batches in whose place this one comes (mode batch)
partitions  those that are computed again (mode partition)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sparkpipeline.errors import LedgerDamaged, Refused
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import Manifest, Plan
from sparkpipeline.stages.batchmode import Batch, Past, Step, next_step, quick_step
from sparkpipeline.stages.inputs import InputHead, PipelineLedgers, StageInput, identity
from sparkpipeline.stages.partitionmode import Partition, next_recompute, stranger
from sparkpipeline.stages.pipelinefile import BATCH, Stage

KIND, RERUN = "stage", "rerun"  # kinds of a stage's plans; rerun: because of a rewind above it, or by command
REWINDS = ("rewind", RERUN)
Moves = Mapping[str, Sequence[Batch]]


# ---- the plan of a batch ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TakenInput:
    """Processed state of one input."""

    through: int
    manifest: str
    fresh: tuple[int, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """Plan of one batch of a stage."""

    stage: str
    mode: str
    partition_by: tuple[str, ...]
    topics: tuple[str, ...]
    inputs: Mapping[str, TakenInput]
    lookups: Mapping[str, TakenInput]
    replaces: tuple[int, ...] = ()
    partitions: tuple[Partition, ...] = ()

    @property
    def manner(self) -> str:
        """Return the settings that may not change from batch to batch, unless everything is written again."""
        topics = f", topics {', '.join(self.topics)}" if self.topics else ""
        return f"in mode {self.mode} by {', '.join(self.partition_by) or 'no columns'}{topics}"

    @property
    def nothing_to_read(self) -> bool:
        return not any(taken.files for taken in self.inputs.values())

    def work(self) -> dict[str, Any]:
        """Return it for Plan.work and Manifest.facts."""
        return {
            "stage": self.stage,
            "mode": self.mode,
            "partition.by": list(self.partition_by),
            "topics": list(self.topics),
            "inputs": {name: _row(taken) for name, taken in self.inputs.items()},
            "lookups": {name: _row(taken) for name, taken in self.lookups.items()},
            "replaces": list(self.replaces),
            "partitions": [list(partition) for partition in self.partitions],
        }

    @classmethod
    def of(cls, work: Mapping[str, Any], where: str) -> StagePlan:
        """Parse it.  Raises LedgerDamaged."""
        try:
            return cls(
                stage=str(work["stage"]),
                mode=str(work["mode"]),
                partition_by=tuple(map(str, work["partition.by"])),
                topics=tuple(map(str, work["topics"])),
                inputs={name: _read_row(row) for name, row in work["inputs"].items()},
                lookups={name: _read_row(row) for name, row in work["lookups"].items()},
                replaces=tuple(map(int, work["replaces"])),
                partitions=tuple(tuple(map(str, partition)) for partition in work["partitions"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as exc:
            raise LedgerDamaged(f"is not of a stage: {exc!r}", plan=where) from None

    def without_files(self) -> StagePlan:
        return replace(self, inputs={name: replace(taken, files=()) for name, taken in self.inputs.items()})


def _row(taken: TakenInput) -> dict[str, Any]:
    return {
        "through": taken.through,
        "manifest": taken.manifest,
        "fresh": list(taken.fresh),
        "files": list(taken.files),
    }


def _read_row(row: Mapping[str, Any]) -> TakenInput:
    fresh, files = tuple(map(int, row["fresh"])), tuple(map(str, row["files"]))
    return TakenInput(int(row["through"]), str(row["manifest"]), fresh, files)


def past_of(manifest: Manifest) -> Past:
    """Return the input of a committed batch of a stage."""
    stage_plan = StagePlan.of(manifest.facts, f"batch {manifest.batch}")
    took = {name: frozenset(taken.files) for name, taken in stage_plan.inputs.items()}
    return Past(manifest.batch, took, stage_plan.replaces)


# ---- the next one ----------------------------------------------------------------------------------------------------


Found = tuple[StagePlan, tuple[str, ...]]  # and the own files that it supersedes


@dataclass(frozen=True, slots=True)
class Planner:
    """Planner of one stage.  inputs and lookups: by name, all of the stage's."""

    stage: Stage
    inputs: Mapping[str, StageInput]
    lookups: Mapping[str, StageInput] = field(default_factory=dict)

    @classmethod
    def of(cls, ledgers: PipelineLedgers, name: str) -> Planner:
        """Return the planner of a stage of these ledgers' pipeline."""
        stage = ledgers.pipeline.stage(name)
        return cls(
            stage,
            {read: ledgers.upstream(read, stage) for read in stage.inputs},
            {read: ledgers.upstream(read, stage) for read in stage.lookups},
        )

    def plan(self, ledger: Ledger, batch: int, again: bool = False) -> Plan | None:
        """Return the next plan, or None if all input is processed.

        again: over everything, in place of all that the stage has written.  Raises NotYet, and Refused if the stage or
        an input has changed since the stage last ran."""
        heads = {name: one.head() for name, one in self._reads().items()}
        last = {} if again else self._last(ledger)
        moves = {
            name: one.batches(last[name].through if name in last else 0, heads[name].newest)
            for name, one in self.inputs.items()
        }
        make = self._by_batch if self.stage.mode == BATCH else self._by_partition
        found = make(ledger, heads, moves, again)
        if found is None:
            return None
        stage_plan, supersedes = found
        rewound = again or any(move.kind in REWINDS and move.supersedes for made in moves.values() for move in made)
        kind = RERUN if rewound and (supersedes or stage_plan.replaces) else KIND
        return Plan(batch, kind, ledger.clock(), stage_plan.work(), supersedes)

    def stale(self, plan: Plan) -> str | None:
        """Return why an open plan cannot be executed any more; None: it can.  Raises NotYet."""
        stage_plan = StagePlan.of(plan.work, f"plan {plan.batch}")
        if stage_plan.manner != self._manner():
            return f"it was made to run {stage_plan.manner}, and now the stage runs {self._manner()}"
        if set(stage_plan.inputs) != set(self.inputs) or set(stage_plan.lookups) != set(self.lookups):
            return "it was made for other inputs than the stage has now"
        for name, taken in [*stage_plan.inputs.items(), *stage_plan.lookups.items()]:
            if why := _gone(self._reads()[name], taken, whole=name in stage_plan.lookups):
                return why
        return None

    def _reads(self) -> dict[str, StageInput]:
        return {**self.inputs, **self.lookups}

    def _last(self, ledger: Ledger) -> Mapping[str, TakenInput]:
        """Return the inputs in the newest batch of the stage.  Raises Refused."""
        newest = ledger.state().newest
        if newest is None:
            return {}
        stage_plan = StagePlan.of(newest.facts, f"batch {newest.batch}")
        name = self.stage.name
        if stage_plan.manner != self._manner():
            raise Refused(
                f"it ran {stage_plan.manner} until now, and its file says {self._manner()}; run --again {name} rewrites"
                " all of it",
                stage=name,
            )
        for read, taken in stage_plan.inputs.items():
            if read in self.inputs and not self.inputs[read].is_still(taken.through, taken.manifest):
                raise Refused(
                    f"'{read}' does not have the batch {taken.through} that this stage took: its ledger was deleted and"
                    f" begun again; run --again {name} rewrites all of the stage",
                    stage=name,
                )
        self._check_replaced(stage_plan)
        return stage_plan.inputs

    def _check_replaced(self, stage_plan: StagePlan) -> None:
        """Raise Refused for an input in place of another, which may be renamed and have the same rows: mode batch would
        add them a second time."""
        gone, new = sorted(set(stage_plan.inputs) - set(self.inputs)), sorted(set(self.inputs) - set(stage_plan.inputs))
        if self.stage.mode == BATCH and gone and new:
            name = self.stage.name
            raise Refused(
                f"it took '{gone[0]}' until now, and '{new[0]}' is in its place: if that is the same under another"
                f" name, its rows would be taken twice; run --again {name} rewrites all of it",
                stage=name,
            )

    def _by_batch(self, ledger: Ledger, heads: Mapping[str, InputHead], moves: Moves, again: bool) -> Found | None:
        newest = ledger.state().newest
        # An input that the newest batch did not have may have been one before: what was taken of it then is not new.
        known = newest is None or set(self.inputs) <= set(StagePlan.of(newest.facts, f"batch {newest.batch}").inputs)
        known, step = quick_step(moves, self.stage.batches_per_run) if known and not again else (False, None)
        if not known:
            every = {name: one.batches(0, heads[name].newest) for name, one in self.inputs.items()}
            pasts = [past_of(manifest) for manifest in ledger.manifests()]
            step = next_step(every, pasts, again, self.stage.batches_per_run)
        if step is None:
            return None
        inputs = {name: _taken(one, step, heads[name]) for name, one in self.inputs.items()}
        own = ledger.live_files().values() if again or step.replaces else ()
        replaced = sorted(live.final for live in own if again or live.batch in step.replaces)
        return self._stage_plan(inputs, heads, replaces=step.replaces), tuple(replaced)

    def _by_partition(self, ledger: Ledger, heads: Mapping[str, InputHead], moves: Moves, again: bool) -> Found | None:
        if not again and not any(moves.values()):
            return None
        columns = self.stage.partition_by
        live = {name: tuple(one.live(heads[name].newest)) for name, one in self.inputs.items()}
        for name, paths in live.items():
            if (odd := stranger(paths, columns)) is not None:
                raise Refused(
                    f"in mode partition every input has the folders {_columns(columns)}, and {odd} of '{name}' has not",
                    stage=self.stage.name,
                )
        found = next_recompute(moves, live, columns, own=ledger.live_files(), again=again)
        if found is None:
            return None
        inputs = {
            name: TakenInput(heads[name].newest, heads[name].identity, found.fresh[name], found.files[name])
            for name in self.inputs
        }
        return self._stage_plan(inputs, heads, partitions=found.partitions), found.supersedes

    def _stage_plan(
        self,
        inputs: Mapping[str, TakenInput],
        heads: Mapping[str, InputHead],
        replaces: tuple[int, ...] = (),
        partitions: tuple[tuple[str, ...], ...] = (),
    ) -> StagePlan:
        lookups = {name: TakenInput(one.newest, one.identity) for name, one in heads.items() if name in self.lookups}
        stage = self.stage
        return StagePlan(
            stage=stage.name,
            mode=stage.mode,
            partition_by=stage.partition_by,
            topics=stage.topics,
            inputs=inputs,
            lookups=lookups,
            replaces=replaces,
            partitions=partitions,
        )

    def _manner(self) -> str:
        return self._stage_plan({}, {}).manner


def _taken(stage_input: StageInput, step: Step, head: InputHead) -> TakenInput:
    name = stage_input.name
    fresh, files = step.fresh[name], step.files[name]
    if name not in step.more:
        return TakenInput(head.newest, head.identity, fresh, files)
    # Batches behind the last one taken still wait: what they bring or supersede is looked at the next time.
    return TakenInput(fresh[-1], identity(stage_input.ledger.manifest(fresh[-1])), fresh, files)


def _gone(stage_input: StageInput, taken: TakenInput, whole: bool) -> str | None:
    """Return why the planned input cannot be read any more. whole: all files that were live as of taken.through."""
    if not stage_input.is_still(taken.through, taken.manifest):
        return f"the ledger of {stage_input.name} was deleted and begun again"
    live = stage_input.live(stage_input.head().newest)
    wanted = stage_input.live(taken.through) if whole else taken.files
    lost = next((path for path in wanted if path not in live), None)
    return None if lost is None else f"{stage_input.name} has superseded {lost} meanwhile"


def _columns(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "no columns"
