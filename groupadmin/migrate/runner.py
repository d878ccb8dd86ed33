"""One step of a migration, or the steps of the way back, for many groups at once: looks, writes, journal, marker.

The order, for each batch of groups:

    look          twice where a step compares, several times where nobody may be there (gate)
    begin         states.begin with what was seen: refused groups are journalled as such and left alone
    undo file     on the disk before the first write
    begun         journalled
    write         each order is read back (groupworld.write), then journalled
    look, end     states.end with what is there now, and the phase is journalled: now it holds
    marker        the node in ZooKeeper follows the journal

A process that is killed anywhere in between is simply started again: what is there already is not written twice, and a
node that lags behind the journal is brought up to it first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from groundwork.failpoints import failpoint
from groundwork.plural import counted
from groupadmin.apply.writes import Order
from groupadmin.migrate import orders
from groupadmin.migrate.checks import Check, failures
from groupadmin.migrate.comparison import facts, idle_behind
from groupadmin.migrate.events import Begun, Declined, Event, Reached, Wrote
from groupadmin.migrate.groupchecks import check_group
from groupadmin.migrate.groupplan import GroupPlan, Plan, left_to_write, plan_group
from groupadmin.migrate.journal import Journal
from groupadmin.migrate.markers import Marked, somebody_else
from groupadmin.migrate.needs import Facts
from groupadmin.migrate.nextstep import Asked
from groupadmin.migrate.observation import How, Looker, Sight, SiteLike, early
from groupadmin.migrate.outcomes import AFTER, BACK, Outcome, back_policies, next_step, together
from groupadmin.migrate.states import MigrationRefused, StepName, begin, end, step_from, unmet
from groupadmin.migrate.undofolder import UndoFolder
from groupadmin.snapshot.model import GroupSnapshot
from zkconsumer.offsets.marker import Marker, Phase

P, S = Phase, StepName
NOT_WRITTEN = "not written"


@dataclass(slots=True)
class _Group:
    """A group on its way through a step."""

    plan: GroupPlan
    step: StepName
    sight: Sight
    marked: Marked
    orders: list[Order] = field(default_factory=list)
    written: int = 0
    notes: list[str] = field(default_factory=list)
    refusal: MigrationRefused | None = None


class Doer:
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
        self._looker = Looker(site, how, tell)
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
                each = _Group(plan, name, Sight(first[group], first[group]), Marked())
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
                refusal = somebody_else(each.marked, self._plan.plan_id, self._journal.standings[group])
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
            if somebody_else(marked, self._plan.plan_id, standing) is None:
                behind[group] = (wanted, marked)
        self._site.mark(behind)


def _before(order: Order) -> int | None:
    held = order.node.position if order.node is not None else order.held.position if order.held is not None else None
    return held if isinstance(held, int) else None
