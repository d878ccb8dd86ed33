"""What a step would do, from one look: how many positions it would write, and what stands in its way.  Writes nothing.

What only several looks can tell (that nobody is there for a while, that both stores follow) is left to the step itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groupadmin.apply.writes import Order
from groupadmin.migrate import orders
from groupadmin.migrate.comparison import facts
from groupadmin.migrate.events import Standing
from groupadmin.migrate.gate import Gate, look_at
from groupadmin.migrate.groupplan import GroupPlan, Plan, left_to_write, plan_group
from groupadmin.migrate.markers import somebody_else
from groupadmin.migrate.nextstep import Asked
from groupadmin.migrate.observation import COMPARE, How, SiteLike
from groupadmin.migrate.outcomes import AFTER, BACK, back_policies, next_step
from groupadmin.migrate.states import MigrationRefused, Step, StepName, step_from, unmet
from groupadmin.snapshot.model import GroupSnapshot
from zkconsumer.offsets.marker import Phase


@dataclass(frozen=True, slots=True)
class Preview:
    """step None: nothing is to be done, or .refusals say why it cannot be.  orders: positions that would be written."""

    group: str
    phase: Phase
    step: StepName | None
    orders: tuple[Order, ...] = ()
    refusals: tuple[MigrationRefused, ...] = ()


def preview(
    site: SiteLike, plan: Plan, standings: Mapping[str, Standing], how: How, asked: Asked, groups: Sequence[str]
) -> list[Preview]:
    """A row for each group, in order."""
    plans = {each.group: each for each in plan.groups}
    found = []
    for first in range(0, len(groups), how.at_once):
        some = groups[first : first + how.at_once]
        seen, marked = site.look([plans[group] for group in some]), site.markers(some)
        for group in some:
            standing = standings.get(group) or Standing(Phase.PLANNED, 0, past=((Phase.PLANNED, site.now_ms()),))
            refusal = somebody_else(marked[group], plan.plan_id, standing)
            if refusal is not None:
                found.append(Preview(group, standing.phase, None, refusals=(refusal,)))
            else:
                found.append(_group(plans[group], plan, standing, how, asked, seen[group]))
    return found


def _group(one: GroupPlan, plan: Plan, standing: Standing, how: How, asked: Asked, now: GroupSnapshot) -> Preview:
    phase = standing.phase
    if phase in AFTER[asked]:
        return Preview(one.group, phase, None)
    gate = Gate(1).after(look_at(now))
    back = back_policies(plan.policies, how)
    try:
        name = next_step(asked, standing, now, facts(one, now, gate=gate, answers=how.answers), back)
    except MigrationRefused as why:
        return Preview(one.group, phase, None, refusals=(why,))
    step = step_from(phase, name)
    if name in BACK:
        one = plan_group(now, back, "to-zookeeper")
    seen = facts(one, now, gate=gate, answers=how.answers)
    wanted = {need.name for need in step.needs} - COMPARE
    refusals = tuple(each for each in unmet(phase, name, seen) if each.name in wanted)
    return Preview(one.group, phase, name, tuple(_orders(one, step, now)), refusals)


def _orders(one: GroupPlan, step: Step, now: GroupSnapshot) -> list[Order]:
    if step.name is StepName.ROLL_BACK:
        return orders.taking_back(one, now)[0] if "kafka offsets" in step.writes else []
    if step.name is StepName.RETURN_DUAL or not {"kafka offsets", "zookeeper offsets"} & step.writes:
        return []  # which partitions are idle takes two looks
    return orders.copying(one, left_to_write(one, now))
