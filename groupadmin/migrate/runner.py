"""Runs one step of a migration, or the steps of a rollback, for many groups at once.

The order, for each batch of groups:

    snapshots       two where a step compares, several where no member may be there (Gate)
    begin           states.begin with what was seen: refused groups are journalled as such and left alone
    undo file       on the disk before the first write
    begun           journalled
    write           each order is read back (apply.writes), then journalled
    snapshot, end   states.end with what is there now, and the phase is journalled: now it holds
    marker          the node in ZooKeeper follows the journal

A process that is killed anywhere in between is simply started again: what is there already is not written twice, and a
marker behind the journal is brought up to it first.

A dry run (preview) says from one snapshot how many offsets a step would write, and what keeps it from beginning.  What
only several snapshots can tell is left to the step itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from groundwork.failpoints import failpoint
from groundwork.plural import counted
from groupadmin.apply.writes import Order
from groupadmin.migrate import stepwrites as orders
from groupadmin.migrate.journal import Begun, Declined, Event, Journal, Reached, Standing, Wrote
from groupadmin.migrate.observation import COMPARE, How, Observation, Observer, SiteLike, early
from groupadmin.migrate.rules.checks import Check, check_group, failures
from groupadmin.migrate.rules.comparison import Gate, facts, idle_behind, presence_of
from groupadmin.migrate.rules.groupplan import GroupPlan, Plan, Policies, falls_behind, left_to_write, plan_group
from groupadmin.migrate.rules.states import (
    CHECKS_PASS,
    COPIED,
    Asked,
    Facts,
    MigrationRefused,
    Step,
    StepName,
    begin,
    end,
    step_asked,
    step_from,
    unmet,
)
from groupadmin.migrate.site import Marked, other_plan
from groupadmin.migrate.undofolder import UndoFolder
from groupadmin.snapshot.model import GroupSnapshot
from zkconsumer.offsets.migrationmarker import Marker, Phase

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


P, S = Phase, StepName
NOT_WRITTEN = "not written"


@dataclass(slots=True)
class _Group:
    """A group on its way through a step."""

    plan: GroupPlan
    step: StepName
    sight: Observation
    marked: Marked
    orders: list[Order] = field(default_factory=list)
    written: int = 0
    notes: list[str] = field(default_factory=list)
    refusal: MigrationRefused | None = None


class StepRunner:
    """Carries out what is asked of groups of one plan; journal: open, and begun for these groups.

    checks: rows that concern all groups (checks.check_cluster), for the step check.  back: policies of the way back.
    """

    def __init__(
        self,
        site: SiteLike,
        plan: Plan,
        journal: Journal,
        undo: UndoFolder,
        how: How,
        checks: Sequence[Check] = (),
        progress: Callable[[int], object] = lambda done: None,
        tell: Callable[[str], object] = lambda text: None,
    ) -> None:
        self._cluster_checks = list(checks)
        self._group_checks: dict[str, list[Check]] = {}
        self._site = site
        self._plan = plan
        self._plans = {each.group: each for each in plan.groups}
        self._journal = journal
        self._undo = undo
        self._how = how
        self._looker = Observer(site, how, tell)
        self._progress = progress
        self._back = back_policies(plan.policies, how)

    @property
    def checks(self) -> list[Check]:
        """Those of the cluster, and of the groups that were checked."""
        return [*self._cluster_checks, *(row for rows in self._group_checks.values() for row in rows)]

    def carry(self, asked: Asked, groups: Sequence[str]) -> list[Outcome]:
        """Do it for these groups, some at once.  Raises ZooKeeperAway, JournalFailed: then start again."""
        self._journal.begin(groups, self._site.now_ms())
        found = []
        for first in range(0, len(groups), self._how.at_once):
            found += self._some(asked, groups[first : first + self._how.at_once])
            self._progress(len(found))
        return found

    def _some(self, asked: Asked, groups: Sequence[str]) -> list[Outcome]:
        self._catch_up(groups)
        found: dict[str, Outcome] = {}
        left = list(groups)
        while left:
            there = [group for group in left if self._phase(group) in AFTER[asked]]
            for group in there:
                found.setdefault(group, Outcome(group, None, self._phase(group)))
            left = [group for group in left if group not in there]
            made = self._asked(asked, left) if left else {}
            for group, outcome in made.items():
                found[group] = together(found.get(group), outcome)
            if asked != "rollback":
                break
            left = [group for group, outcome in made.items() if outcome.refusal is None]
        return [found[group] for group in groups]

    def _asked(self, asked: Asked, groups: Sequence[str]) -> dict[str, Outcome]:
        """One step of each group, groups of the same step together."""
        first = self._looker.once([self._plans[group] for group in groups])
        steps: dict[StepName, list[str]] = {}
        found: dict[str, Outcome] = {}
        for group in groups:
            try:
                seen = facts(self._plans[group], first[group], answers=self._how.answers)
                steps.setdefault(self._step_of(asked, first[group], seen), []).append(group)
            except MigrationRefused as why:
                found[group] = Outcome(group, None, self._phase(group), refusal=why)
        for step, some in steps.items():
            found |= self._step(step, some, {group: first[group] for group in some})
        return found

    def _step_of(self, asked: Asked, first: GroupSnapshot, seen: Facts) -> StepName:
        phase = self._phase(first.group)
        if asked == "verify" and phase is P.CHECKED and not (seen.modes or seen.modes_unknown or seen.kafka_members):
            raise MigrationRefused(
                "nothing to verify",
                f"verify of a group that is {phase}, with no member there",
                "copy it (`zkconsumer migrate copy`), or start its members in dual",
            )
        return next_step(asked, self._journal.standings[first.group], first, seen, self._back)

    def _phase(self, group: str) -> Phase:
        return self._journal.standings[group].phase

    # one step -----------------------------------------------------------------------------------------------------

    def _step(self, name: StepName, groups: Sequence[str], first: Mapping[str, GroupSnapshot]) -> dict[str, Outcome]:
        hopeless = self._hopeless(name, groups, first)
        steps = {group: step_from(self._phase(group), name) for group in groups if group not in hopeless}
        sights = self._looker.for_steps(self._plans, steps, first)
        marked = self._site.markers(steps)
        some = [_Group(self._planned(name, g, sights[g].now), name, sights[g], marked[g]) for g in steps]
        going = self._begin(name, some)
        if any({"kafka offsets", "zookeeper offsets"} & steps[each.plan.group].writes for each in going):
            for each in going:
                self._write(each)
            self._look_again(going)
        self._end(name, [each for each in going if each.refusal is None])
        return hopeless | {each.plan.group: self._outcome(each) for each in some}

    def _hopeless(
        self, name: StepName, groups: Sequence[str], first: Mapping[str, GroupSnapshot]
    ) -> dict[str, Outcome]:
        """Groups that the first look refuses already, of steps that would wait for a second one: a commit interval is
        long, and members do not change their mode in it.
        """
        found: dict[str, Outcome] = {}
        events: list[Event] = []
        for group in groups:
            phase, plan = self._phase(group), self._plans[group]
            names = early(step_from(phase, name), first[group])
            seen = facts(plan, first[group], answers=self._how.answers)
            refusal = next((each for each in unmet(phase, name, seen) if each.name in names), None)
            if refusal is not None:
                each = _Group(plan, name, Observation(first[group], first[group]), Marked())
                self._refuse(each, refusal, events)
                found[group] = self._outcome(each)
        self._journal.append(events, self._site.now_ms())
        return found

    def _planned(self, name: StepName, group: str, now: GroupSnapshot) -> GroupPlan:
        plan = self._plans[group]
        return plan_group(now, self._back, "to-zookeeper") if name in BACK else plan

    def _begin(self, name: StepName, some: Sequence[_Group]) -> list[_Group]:
        """Those that may begin, journalled; what they are to write is in .orders."""
        events: list[Event] = []
        for each in some:
            group = each.plan.group
            try:
                refusal = other_plan(each.marked, self._plan.plan_id, self._journal.standings[group])
                if refusal is not None:
                    raise refusal
                step = begin(self._phase(group), name, self._facts(each))
            except MigrationRefused as why:
                self._refuse(each, why, events)
                continue
            if {"kafka offsets", "zookeeper offsets"} & step.writes:
                self._order(each)
            events.append(Begun(group, name))
        self._journal.append(events, self._site.now_ms())
        return [each for each in some if each.refusal is None]

    def _order(self, each: _Group) -> None:
        """Fill in what it is to write, and keep the file that undoes it."""
        plan, now, cluster = each.plan, each.sight.now, self._plan.cluster
        if each.step is S.ROLL_BACK:
            each.orders, left = orders.taking_back(plan, now)
            each.notes += left
            return  # the file of the copy says what was before
        if each.step is S.RETURN_DUAL:
            writes = idle_behind(each.sight.first, now, "zookeeper")
            each.orders = orders.idle(plan, writes, now)
            file = orders.idle_before(plan, each.orders, cluster, now.read_at_ms)
        else:
            each.orders = orders.copying(plan, left_to_write(plan, now))
            file = orders.before(plan, cluster, plan.read_at_ms)
        kept = self._undo.keep(plan.group, S.COPY if each.step is S.CUTOVER else each.step, file)
        if kept is not None:
            each.notes.append(f"what was there before is in {kept}")

    def _write(self, each: _Group) -> None:
        if not each.orders:
            return
        failpoint("migrate before write")
        written = self._site.write(each.orders, self._how.retention_ms)
        failpoint("migrate after write")
        done = [row for row in written if row.state in ("written", "expiring")]
        each.written = len(done)
        each.notes += dict.fromkeys(row.why for row in done if row.why)
        events: list[Event] = [
            Wrote(each.plan.group, each.step, row.order.store, row.order.tp, _before(row.order), row.order.position)
            for row in done
        ]
        wrong = [row for row in written if row.state not in ("written", "expiring")]
        if wrong:
            text = f"{len(wrong)} of {counted(len(written), 'position')}, the first {wrong[0].order.tp}: {wrong[0].why}"
            self._refuse(each, MigrationRefused(NOT_WRITTEN, text, "see why, then run the same command again"), events)
        self._journal.append(events, self._site.now_ms())
        failpoint("migrate after journal")

    def _look_again(self, some: Sequence[_Group]) -> None:
        now = self._looker.once([self._plans[each.plan.group] for each in some])
        for each in some:
            each.sight = each.sight.after(now[each.plan.group])

    def _end(self, name: StepName, some: Sequence[_Group]) -> None:
        events: list[Event] = []
        reached: dict[str, tuple[Marker, Marked]] = {}
        at_ms = self._site.now_ms()
        for each in some:
            group = each.plan.group
            try:
                phase = end(self._phase(group), name, self._facts(each))
            except MigrationRefused as why:
                self._refuse(each, why, events)
                continue
            events.append(Reached(group, name, phase))
            if name is not S.CHECK:  # looking leaves no trace in ZooKeeper
                reached[group] = (Marker(self._plan.plan_id, phase, at_ms), each.marked)
        self._journal.append(events, at_ms)
        failpoint("migrate before marker")
        problems = self._site.mark(reached)
        for each in some:
            each.notes += [problems[each.plan.group]] if each.plan.group in problems else []

    def _facts(self, each: _Group) -> Facts:
        sight = each.sight
        failing = self._failing(each) if each.step is S.CHECK else None
        return facts(each.plan, sight.now, sight.first if sight.twice else None, sight.gate, failing, self._how.answers)

    def _failing(self, each: _Group) -> tuple[str, ...]:
        rows = check_group(each.sight.now, each.plan, each.marked.marker)
        self._group_checks[each.plan.group] = rows
        return failures([*self._cluster_checks, *rows], each.plan.group)

    def _refuse(self, each: _Group, why: MigrationRefused, events: list[Event]) -> None:
        each.refusal = why
        events.append(Declined(each.plan.group, each.step, why.name, f"{why.text}; {why.remedy}"))

    def _outcome(self, each: _Group) -> Outcome:
        group = each.plan.group
        return Outcome(group, each.step, self._phase(group), each.written, each.refusal, tuple(each.notes))

    # markers ------------------------------------------------------------------------------------------------------

    def _catch_up(self, groups: Sequence[str]) -> None:
        """Bring nodes up to the journal, where a process was killed between the two."""
        behind: dict[str, tuple[Marker, Marked]] = {}
        for group, marked in self._site.markers(groups).items():
            standing = self._journal.standings[group]
            wanted = Marker(self._plan.plan_id, standing.phase, standing.past[-1][1])
            if standing.phase in (P.PLANNED, P.CHECKED) or marked.marker == wanted or marked.unclear:
                continue
            if other_plan(marked, self._plan.plan_id, standing) is None:
                behind[group] = (wanted, marked)
        self._site.mark(behind)


def _before(order: Order) -> int | None:
    held = order.node.position if order.node is not None else order.held.position if order.held is not None else None
    return held if isinstance(held, int) else None


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
        seen, marked = site.snapshots([plans[group] for group in some]), site.markers(some)
        for group in some:
            standing = standings.get(group) or Standing(Phase.PLANNED, 0, past=((Phase.PLANNED, site.now_ms()),))
            refusal = other_plan(marked[group], plan.plan_id, standing)
            if refusal is not None:
                found.append(Preview(group, standing.phase, None, refusals=(refusal,)))
            else:
                found.append(_group(plans[group], plan, standing, how, asked, seen[group]))
    return found


def _group(one: GroupPlan, plan: Plan, standing: Standing, how: How, asked: Asked, now: GroupSnapshot) -> Preview:
    phase = standing.phase
    if phase in AFTER[asked]:
        return Preview(one.group, phase, None)
    gate = Gate(1).after(presence_of(now))
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
