"""What is asked of groups and what became of them: where a command has nothing more to do, how steps add up.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from groupadmin.migrate.decision import Policies
from groupadmin.migrate.events import Declined, Standing
from groupadmin.migrate.groupplan import falls_behind, plan_group
from groupadmin.migrate.needs import CHECKS_PASS, Facts
from groupadmin.migrate.nextstep import COPIED, Asked, step_asked
from groupadmin.migrate.observation import How
from groupadmin.migrate.states import MigrationRefused, StepName
from groupadmin.snapshot.model import GroupSnapshot
from zkconsumer.offsets.marker import Phase

P, S = Phase, StepName
AFTER: Mapping[Asked, frozenset[Phase]] = {  # where what is asked for was done before
    "check": frozenset(set(Phase) - {P.PLANNED, P.CHECKED}),
    "copy": frozenset({P.VERIFIED}),
    "verify": frozenset(),
    "cutover": frozenset({P.CUTOVER, P.DONE}),
    "rollback": frozenset({P.ROLLED_BACK}),
}
BACK = (S.RETURN_COPY, S.RETURN_VERIFY)  # planned anew each time: what was copied back is equal by then


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a group.

    step      the last one that was made, or tried; None: nothing was to be done
    phase     where the group is now
    written   positions in the stores
    refusal   why it went no farther; None: it did
    notes     sentences for the operator
    """

    group: str
    step: StepName | None
    phase: Phase
    written: int = 0
    refusal: MigrationRefused | None = None
    notes: tuple[str, ...] = ()


def back_policies(policies: Policies, how: How) -> Policies:
    """How the way back is decided: Kafka is what counts since the cutover."""
    return replace(policies, conflict="kafka", out_of_range=how.back_out_of_range or policies.out_of_range)


def next_step(asked: Asked, standing: Standing, now: GroupSnapshot, seen: Facts, back: Policies) -> StepName:
    """The step that is meant, by a look at the group.  Raises MigrationRefused where none of this kind leads on."""
    returned = asked == "rollback" and standing.phase in COPIED
    behind = returned and falls_behind(plan_group(now, back, "to-zookeeper"))
    try:
        return step_asked(asked, standing.phase, seen, behind)
    except MigrationRefused:
        declined = standing.declined
        if standing.phase is P.PLANNED and declined is not None and declined.step is S.CHECK:
            raise _unchecked(asked, declined) from None
        raise


def _unchecked(asked: Asked, declined: Declined) -> MigrationRefused:
    """It was checked, and the check refused it: what it found stands in the way."""
    remedy = CHECKS_PASS.remedy
    seen = declined.text.removeprefix(f"{S.CHECK} of a group that is {P.PLANNED}: ").removesuffix(f"; {remedy}")
    return MigrationRefused(declined.name, f"{asked} after a check that failed; {seen}", remedy)


def together(before: Outcome | None, now: Outcome) -> Outcome:
    """Steps that were made one after the other, as one."""
    if before is None:
        return now
    return replace(now, written=before.written + now.written, notes=(*before.notes, *now.notes))
