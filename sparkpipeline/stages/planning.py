"""What the next batch of a stage is, and whether an open plan can still be carried out.  Reads ledgers; no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkpipeline.errors import Refused
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.model import Plan
from sparkpipeline.stages.config import BATCH, Stage
from sparkpipeline.stages.consuming import Batch, Step, next_step, quick_step
from sparkpipeline.stages.inputs import Standing, Upstream, identity
from sparkpipeline.stages.partitions import next_recompute, stranger
from sparkpipeline.stages.taking import Taken, Taking, past_of

KIND, RERUN = "stage", "rerun"  # kinds of a stage's plans; rerun: because of a rewind above it, or by command
REWINDS = ("rewind", RERUN)
Moves = Mapping[str, Sequence[Batch]]
Found = tuple[Taking, tuple[str, ...]]  # and the own files that it supersedes


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans of one stage.  inputs and lookups: by name, all of the stage's."""

    stage: Stage
    inputs: Mapping[str, Upstream]
    lookups: Mapping[str, Upstream] = field(default_factory=dict)

    def plan(self, ledger: Ledger, batch: int, again: bool = False) -> Plan | None:
        """The next plan, or None when all is taken.

        again: over everything, in place of all that the stage has written.  Raises NotYet, and Refused when the stage
        or an input is not what it was when the stage last ran."""
        standings = {name: one.standing() for name, one in self._reads().items()}
        last = {} if again else self._last(ledger)
        moves = {
            name: one.batches(last[name].through if name in last else 0, standings[name].newest)
            for name, one in self.inputs.items()
        }
        make = self._by_batch if self.stage.mode == BATCH else self._by_partition
        found = make(ledger, standings, moves, again)
        if found is None:
            return None
        taking, supersedes = found
        rewound = again or any(move.kind in REWINDS and move.supersedes for made in moves.values() for move in made)
        kind = RERUN if rewound and (supersedes or taking.replaces) else KIND
        return Plan(batch, kind, ledger.clock(), taking.work(), supersedes)

    def stale(self, plan: Plan) -> str | None:
        """Why an open plan cannot be carried out any more; None: it can.  Raises NotYet."""
        taking = Taking.of(plan.work, f"plan {plan.batch}")
        if taking.manner != self._manner():
            return f"it was made to run {taking.manner}, and now the stage runs {self._manner()}"
        if set(taking.inputs) != set(self.inputs) or set(taking.lookups) != set(self.lookups):
            return "it was made for other inputs than the stage has now"
        for name, taken in [*taking.inputs.items(), *taking.lookups.items()]:
            if why := _gone(self._reads()[name], taken, whole=name in taking.lookups):
                return why
        return None

    def _reads(self) -> dict[str, Upstream]:
        return {**self.inputs, **self.lookups}

    def _last(self, ledger: Ledger) -> Mapping[str, Taken]:
        """What the newest batch of the stage says of its inputs.  Raises Refused."""
        newest = ledger.state().newest
        if newest is None:
            return {}
        taking = Taking.of(newest.facts, f"batch {newest.batch}")
        name = self.stage.name
        if taking.manner != self._manner():
            raise Refused(
                f"it ran {taking.manner} until now, and its file says {self._manner()}; run --again {name} writes all"
                " of it anew",
                stage=name,
            )
        for read, taken in taking.inputs.items():
            if read in self.inputs and not self.inputs[read].is_still(taken.through, taken.manifest):
                raise Refused(
                    f"'{read}' does not have the batch {taken.through} that this stage took: its ledger was begun anew;"
                    f" run --again {name} writes all of the stage anew",
                    stage=name,
                )
        self._check_replaced(taking)
        return taking.inputs

    def _check_replaced(self, taking: Taking) -> None:
        """An input in the place of another may hold the same rows: one that was renamed holds nothing else.  Mode
        batch would add them to what it wrote of the other.  Raises Refused."""
        gone, new = sorted(set(taking.inputs) - set(self.inputs)), sorted(set(self.inputs) - set(taking.inputs))
        if self.stage.mode == BATCH and gone and new:
            name = self.stage.name
            raise Refused(
                f"it took '{gone[0]}' until now, and '{new[0]}' is in its place: if that is the same under another"
                f" name, its rows would be taken twice; run --again {name} writes all of it anew",
                stage=name,
            )

    def _by_batch(self, ledger: Ledger, standings: Mapping[str, Standing], moves: Moves, again: bool) -> Found | None:
        newest = ledger.state().newest
        # An input that the newest batch did not have may have been one before: what was taken of it then is not new.
        known = newest is None or set(self.inputs) <= set(Taking.of(newest.facts, f"batch {newest.batch}").inputs)
        told, step = quick_step(moves, self.stage.batches_per_run) if known and not again else (False, None)
        if not told:
            every = {name: one.batches(0, standings[name].newest) for name, one in self.inputs.items()}
            pasts = [past_of(manifest) for manifest in ledger.manifests()]
            step = next_step(every, pasts, again, self.stage.batches_per_run)
        if step is None:
            return None
        inputs = {name: _taken(one, step, standings[name]) for name, one in self.inputs.items()}
        own = ledger.live_files().values() if again or step.replaces else ()
        replaced = sorted(live.final for live in own if again or live.batch in step.replaces)
        return self._taking(inputs, standings, replaces=step.replaces), tuple(replaced)

    def _by_partition(
        self, ledger: Ledger, standings: Mapping[str, Standing], moves: Moves, again: bool
    ) -> Found | None:
        if not again and not any(moves.values()):
            return None
        columns = self.stage.partition_by
        live = {name: tuple(one.live(standings[name].newest)) for name, one in self.inputs.items()}
        for name, paths in live.items():
            if (odd := stranger(paths, columns)) is not None:
                raise Refused(
                    f"in mode partition every input has the folders {_columns(columns)}, and {odd} of '{name}' has not",
                    stage=self.stage.name,
                )
        found = next_recompute(moves, live, columns, ledger.live_files(), again)
        if found is None:
            return None
        inputs = {
            name: Taken(standings[name].newest, standings[name].identity, found.fresh[name], found.files[name])
            for name in self.inputs
        }
        return self._taking(inputs, standings, partitions=found.partitions), found.supersedes

    def _taking(
        self,
        inputs: Mapping[str, Taken],
        standings: Mapping[str, Standing],
        replaces: tuple[int, ...] = (),
        partitions: tuple[tuple[str, ...], ...] = (),
    ) -> Taking:
        lookups = {name: Taken(one.newest, one.identity) for name, one in standings.items() if name in self.lookups}
        stage = self.stage
        return Taking(stage.name, stage.mode, stage.partition_by, stage.topics, inputs, lookups, replaces, partitions)

    def _manner(self) -> str:
        return self._taking({}, {}).manner


def _taken(upstream: Upstream, step: Step, standing: Standing) -> Taken:
    name = upstream.name
    fresh, files = step.fresh[name], step.files[name]
    if name not in step.more:
        return Taken(standing.newest, standing.identity, fresh, files)
    # Batches behind the last one taken still wait: what they bring or supersede is looked at the next time.
    return Taken(fresh[-1], identity(upstream.ledger.manifest(fresh[-1])), fresh, files)


def _gone(upstream: Upstream, taken: Taken, whole: bool) -> str | None:
    """Why what was planned cannot be read any more.  whole: all that was live as of taken.through."""
    if not upstream.is_still(taken.through, taken.manifest):
        return f"the ledger of {upstream.name} was begun anew"
    live = upstream.live(upstream.standing().newest)
    wanted = upstream.live(taken.through) if whole else taken.files
    lost = next((path for path in wanted if path not in live), None)
    return None if lost is None else f"{upstream.name} has superseded {lost} meanwhile"


def _columns(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "no columns"
