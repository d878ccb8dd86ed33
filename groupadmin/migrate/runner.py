"""Runner of the steps of a migration, for many groups at once.

Order of events for each batch of groups:

    snapshots       two for a step that compares, several for one that allows no member (Gate)
    begin           states.begin with the facts: refused groups are journalled as such and left alone
    undo file       on the disk before the first write
    begun           journalled
    write           each write is read back (apply.writes), then journalled
    snapshot, end   states.end with the facts after the writes, and the phase is journalled: from now on it holds
    marker          the node in ZooKeeper is set to the journal's phase

A process that is killed at any point is simply started again: offsets that are there already are not written twice, and
a marker behind the journal is set first.

A dry run (preview) shows from one snapshot how many offsets a step would write, and which requirements are unmet.
Requirements that take several snapshots are left to the step itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from groundwork.failpoints import failpoint
from groundwork.sentences import counted
from groupadmin.apply.writes import StoreWrite
from groupadmin.migrate import stepwrites
from groupadmin.migrate.journal import Begun, Declined, Event, Journal, Reached, Standing, Wrote
from groupadmin.migrate.observation import COMPARE, Observation, Observer, SiteLike, StepOptions, early
from groupadmin.migrate.rules.checks import Check, check_group, failures
from groupadmin.migrate.rules.comparison import Gate, facts, idle_behind, presence_of
from groupadmin.migrate.rules.groupplan import GroupPlan, Plan, Policies, falls_behind, left_to_write, plan_group
from groupadmin.migrate.rules.states import (
    CHECKS_PASS,
    COPIED,
    Asked,
    MigrationRefused,
    Step,
    StepFacts,
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
AFTER: Mapping[Asked, frozenset[Phase]] = {  # phases in which the command has nothing left to do
    "check": frozenset(set(Phase) - {P.PLANNED, P.CHECKED}),
    "copy": frozenset({P.VERIFIED}),
    "verify": frozenset(),
    "cutover": frozenset({P.CUTOVER, P.DONE, P.HANDOVER, P.COORDINATED}),
    "handover": frozenset({P.HANDOVER, P.COORDINATED}),
    "takeback": frozenset({P.CUTOVER, P.DONE}),
    "rollback": frozenset({P.ROLLED_BACK}),
}
NOT_WRITTEN = "not written"
BACK = (S.RETURN_COPY, S.RETURN_VERIFY)  # planned again each time: offsets that were copied back are then equal


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result for a group.

    step      the last step that was executed or refused; None: there was nothing to do
    phase     the phase now
    written   number of offsets written
    refusal   why the step was refused; None: it was not
    notes     sentences for the operator
    """

    group: str
    step: StepName | None
    phase: Phase
    _: KW_ONLY
    written: int = 0
    refusal: MigrationRefused | None = None
    notes: tuple[str, ...] = ()


def back_policies(policies: Policies, options: StepOptions) -> Policies:
    """Return the policies for a rollback: since the cutover Kafka's offsets count."""
    return replace(policies, conflict="kafka", out_of_range=options.back_out_of_range or policies.out_of_range)


def next_step(asked: Asked, standing: Standing, now: GroupSnapshot, *, seen: StepFacts, back: Policies) -> StepName:
    """Return the step for a command, by a snapshot of the group.  Raises MigrationRefused when there is none."""
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
    """Return the refusal of a command for a group whose check failed."""
    remedy = CHECKS_PASS.remedy
    seen = declined.text.removeprefix(f"{S.CHECK} of a group that is {P.PLANNED}: ").removesuffix(f"; {remedy}")
    return MigrationRefused(declined.name, f"{asked} after a check that failed; {seen}", remedy)


def together(before: Outcome | None, now: Outcome) -> Outcome:
    """Return the result of consecutive steps as one."""
    if before is None:
        return now
    return replace(now, written=before.written + now.written, notes=(*before.notes, *now.notes))


@dataclass(slots=True)
class _Group:
    """State of a group during a step."""

    plan: GroupPlan
    step: StepName
    observation: Observation
    marked: Marked
    _: KW_ONLY
    writes: list[StoreWrite] = field(default_factory=list)
    written: int = 0
    notes: list[str] = field(default_factory=list)
    refusal: MigrationRefused | None = None


class StepRunner:
    """Runs commands for groups of one plan with an open journal.

    checks: the checks of the cluster (checks.check_cluster), for the step check.
    """

    def __init__(
        self,
        site: SiteLike,
        plan: Plan,
        journal: Journal,
        *,
        undo: UndoFolder,
        options: StepOptions,
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
        self._options = options
        self._observer = Observer(site, options, tell)
        self._progress = progress
        self._back = back_policies(plan.policies, options)

    @property
    def checks(self) -> list[Check]:
        """Return the checks of the cluster, and of the groups that were checked."""
        return [*self._cluster_checks, *(row for rows in self._group_checks.values() for row in rows)]

    def run(self, asked: Asked, groups: Sequence[str]) -> list[Outcome]:
        """Run a command for these groups, in batches.  Raises ZooKeeperAway, JournalFailed: then it can be repeated."""
        self._journal.begin(groups, self._site.now_ms())
        found = []
        for first in range(0, len(groups), self._options.at_once):
            found += self._some(asked, groups[first : first + self._options.at_once])
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
        """Run one step of each group, groups with the same step together."""
        first = self._site.snapshots([self._plans[group] for group in groups])
        steps: dict[StepName, list[str]] = {}
        found: dict[str, Outcome] = {}
        for group in groups:
            try:
                seen = facts(self._plans[group], first[group], answers=self._options.answers)
                steps.setdefault(self._step_of(asked, first[group], seen), []).append(group)
            except MigrationRefused as why:
                found[group] = Outcome(group, None, self._phase(group), refusal=why)
        for step, some in steps.items():
            found |= self._step(step, some, {group: first[group] for group in some})
        return found

    def _step_of(self, asked: Asked, first: GroupSnapshot, seen: StepFacts) -> StepName:
        phase = self._phase(first.group)
        if asked == "verify" and phase is P.CHECKED and not (seen.modes or seen.modes_unknown or seen.kafka_members):
            raise MigrationRefused(
                "nothing to verify",
                f"verify of a group that is {phase}, with no member there",
                "copy it (`zkconsumer migrate copy`), or start its members in dual",
            )
        return next_step(asked, self._journal.standings[first.group], first, seen=seen, back=self._back)

    def _phase(self, group: str) -> Phase:
        return self._journal.standings[group].phase

    # one step -----------------------------------------------------------------------------------------------------

    def _step(self, name: StepName, groups: Sequence[str], first: Mapping[str, GroupSnapshot]) -> dict[str, Outcome]:
        refused = self._refused_early(name, groups, first)
        steps = {group: step_from(self._phase(group), name) for group in groups if group not in refused}
        observations = self._observer.for_steps(self._plans, steps, first)
        marked = self._site.markers(steps)
        some = [_Group(self._planned(name, g, observations[g].now), name, observations[g], marked[g]) for g in steps]
        going = self._begin(name, some)
        if any({"kafka offsets", "zookeeper offsets"} & steps[each.plan.group].writes for each in going):
            for each in going:
                self._write(each)
            self._observe_again(going)
        self._end(name, [each for each in going if each.refusal is None])
        return refused | {each.plan.group: self._outcome(each) for each in some}

    def _refused_early(
        self, name: StepName, groups: Sequence[str], first: Mapping[str, GroupSnapshot]
    ) -> dict[str, Outcome]:
        """Return the groups that are refused after the first snapshot, for steps that would wait for a second one: a
        commit interval is long, and members do not change their mode in it.
        """
        found: dict[str, Outcome] = {}
        events: list[Event] = []
        for group in groups:
            phase, plan = self._phase(group), self._plans[group]
            names = early(step_from(phase, name), first[group])
            seen = facts(plan, first[group], answers=self._options.answers)
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
        """Journal the begin of a step; return the groups that may begin, with their .writes."""
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
        """Fill in the writes of a group, and keep the undo file."""
        plan, now, cluster = each.plan, each.observation.now, self._plan.cluster
        if each.step is S.ROLL_BACK:
            each.writes, left = stepwrites.taking_back(plan, now)
            each.notes += left
            return  # the undo file of the copy has the state before
        if each.step is S.RETURN_DUAL:
            writes = idle_behind(each.observation.first, now, "zookeeper")
            each.writes = stepwrites.idle(plan, writes, now)
            file = stepwrites.idle_before(plan, each.writes, cluster, now.read_at_ms)
        else:
            each.writes = stepwrites.copying(plan, left_to_write(plan, now))
            file = stepwrites.before(plan, cluster, plan.read_at_ms)
        step = S.COPY if each.step is S.CUTOVER else each.step  # the cutover commits the same offsets again
        there = self._undo.file(plan.group, step)
        named = each.step is S.CUTOVER and there.exists()  # by the copy
        kept = self._undo.keep(plan.group, step, file)
        if kept is not None and not (named and kept == there):
            what = "copy" if step is S.COPY else "rollback"
            each.notes.append(f"the state before the {what} is in {kept}")

    def _write(self, each: _Group) -> None:
        if not each.writes:
            return
        failpoint("migrate before write")
        written = self._site.write(each.writes, self._options.retention_ms)
        failpoint("migrate after write")
        done = [row for row in written if row.state in ("written", "expiring")]
        each.written = len(done)
        each.notes += dict.fromkeys(row.why for row in done if row.why)
        events: list[Event] = [
            Wrote(
                each.plan.group,
                each.step,
                row.write.store,
                row.write.tp,
                before=_before(row.write),
                after=row.write.position if isinstance(row.write.position, int) else None,
            )
            for row in done
        ]
        wrong = [row for row in written if row.state not in ("written", "expiring")]
        if wrong:
            text = f"{len(wrong)} of {counted(len(written), 'position')}, the first {wrong[0].write.tp}: {wrong[0].why}"
            self._refuse(each, MigrationRefused(NOT_WRITTEN, text, "see why, then run the same command again"), events)
        self._journal.append(events, self._site.now_ms())
        failpoint("migrate after journal")

    def _observe_again(self, some: Sequence[_Group]) -> None:
        now = self._site.snapshots([self._plans[each.plan.group] for each in some])
        for each in some:
            each.observation = each.observation.after(now[each.plan.group])

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

    def _facts(self, each: _Group) -> StepFacts:
        observation = each.observation
        failing = self._failing(each) if each.step is S.CHECK else None
        return facts(
            each.plan,
            observation.now,
            before=observation.first if observation.twice else None,
            gate=observation.gate,
            failed_checks=failing,
            answers=self._options.answers,
        )

    def _failing(self, each: _Group) -> tuple[str, ...]:
        rows = check_group(each.observation.now, each.plan, each.marked.marker)
        self._group_checks[each.plan.group] = rows
        return failures([*self._cluster_checks, *rows], each.plan.group)

    def _refuse(self, each: _Group, why: MigrationRefused, events: list[Event]) -> None:
        each.refusal = why
        events.append(Declined(each.plan.group, each.step, why.name, f"{why.text}; {why.remedy}"))

    def _outcome(self, each: _Group) -> Outcome:
        group = each.plan.group
        return Outcome(
            group, each.step, self._phase(group), written=each.written, refusal=each.refusal, notes=tuple(each.notes)
        )

    # markers ------------------------------------------------------------------------------------------------------

    def _catch_up(self, groups: Sequence[str]) -> None:
        """Set markers that are behind the journal, after a process was killed between the two writes."""
        behind: dict[str, tuple[Marker, Marked]] = {}
        for group, marked in self._site.markers(groups).items():
            standing = self._journal.standings[group]
            wanted = Marker(self._plan.plan_id, standing.phase, standing.past[-1][1])
            if standing.phase in (P.PLANNED, P.CHECKED) or marked.marker == wanted or marked.unclear:
                continue
            if other_plan(marked, self._plan.plan_id, standing) is None:
                behind[group] = (wanted, marked)
        self._site.mark(behind)


def _before(write: StoreWrite) -> int | None:
    held = write.node.position if write.node is not None else write.held.position if write.held is not None else None
    return held if isinstance(held, int) else None


@dataclass(frozen=True, slots=True)
class Preview:
    """Dry run of a command for a group.  step: None when there is nothing to do, or when .refusals say why it is not
    possible.  writes: offsets that would be written."""

    group: str
    phase: Phase
    step: StepName | None
    _: KW_ONLY
    writes: tuple[StoreWrite, ...] = ()
    refusals: tuple[MigrationRefused, ...] = ()


def preview(
    site: SiteLike,
    plan: Plan,
    standings: Mapping[str, Standing],
    *,
    options: StepOptions,
    asked: Asked,
    groups: Sequence[str],
) -> list[Preview]:
    """Return the preview of each group, in order."""
    plans = {each.group: each for each in plan.groups}
    found = []
    for first in range(0, len(groups), options.at_once):
        some = groups[first : first + options.at_once]
        seen, marked = site.snapshots([plans[group] for group in some]), site.markers(some)
        for group in some:
            standing = standings.get(group) or Standing(Phase.PLANNED, 0, past=((Phase.PLANNED, site.now_ms()),))
            refusal = other_plan(marked[group], plan.plan_id, standing)
            if refusal is not None:
                found.append(Preview(group, standing.phase, None, refusals=(refusal,)))
            else:
                found.append(_group(plans[group], plan, standing, options=options, asked=asked, now=seen[group]))
    return found


def _group(
    one: GroupPlan, plan: Plan, standing: Standing, *, options: StepOptions, asked: Asked, now: GroupSnapshot
) -> Preview:
    phase = standing.phase
    if phase in AFTER[asked]:
        return Preview(one.group, phase, None)
    gate = Gate(1).after(presence_of(now))
    back = back_policies(plan.policies, options)
    try:
        name = next_step(asked, standing, now, seen=facts(one, now, gate=gate, answers=options.answers), back=back)
    except MigrationRefused as why:
        return Preview(one.group, phase, None, refusals=(why,))
    step = step_from(phase, name)
    if name in BACK:
        one = plan_group(now, back, "to-zookeeper")
    seen = facts(one, now, gate=gate, answers=options.answers)
    wanted = {need.name for need in step.needs} - COMPARE
    refusals = tuple(each for each in unmet(phase, name, seen) if each.name in wanted)
    return Preview(one.group, phase, name, writes=tuple(_orders(one, step, now)), refusals=refusals)


def _orders(one: GroupPlan, step: Step, now: GroupSnapshot) -> list[StoreWrite]:
    if step.name is StepName.ROLL_BACK:
        return stepwrites.taking_back(one, now)[0] if "kafka offsets" in step.writes else []
    if step.name is StepName.RETURN_DUAL or not {"kafka offsets", "zookeeper offsets"} & step.writes:
        return []  # finding idle partitions takes two snapshots
    return stepwrites.copying(one, left_to_write(one, now))
