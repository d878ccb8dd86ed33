"""The looks that a step asks for: one, two with a commit interval between them, or several until nobody is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from groundwork.plural import counted
from groupadmin.apply.writes import Order, Written
from groupadmin.migrate.rules import states
from groupadmin.migrate.rules.comparison import LOOK_EVERY_MS, LOOKS, Gate, presence_of
from groupadmin.migrate.rules.groupplan import GroupPlan
from groupadmin.migrate.rules.states import Step
from groupadmin.migrate.site import Marked
from groupadmin.snapshot.model import GroupSnapshot
from zkconsumer.offsets.migrationmarker import Marker
from zkconsumer.offsets.modes import Mode

STOPPED = {states.QUIET.name}
STOPPED_OR = {states.DUAL_OR_STOPPED.name, states.NOBODY_READS_KAFKA.name, states.NOBODY_ONLY_ON_KAFKA.name}
COMPARE = {states.STORES_AGREE.name, states.BOTH_MOVE.name, states.ZOOKEEPER_RESTS.name}
BY_MODE = {states.NOT_MIXED.name, states.ALL_DUAL.name, states.ALL_KAFKA.name}
TOLD_FROM_S = 3
LATE = 1.1  # an interval takes as long as its commit does beside its own time


class SiteLike(Protocol):
    """What the steps use of a Site."""

    def snapshots(self, plans: Sequence[GroupPlan], only_presence: bool = False) -> dict[str, GroupSnapshot]: ...
    def write(self, orders: Sequence[Order], retention_ms: int | None) -> list[Written]: ...
    def markers(self, groups: Iterable[str]) -> dict[str, Marked]: ...
    def mark(self, wanted: Mapping[str, tuple[Marker, Marked]]) -> dict[str, str]: ...
    def sleep(self, seconds: float) -> None: ...
    def now(self) -> float: ...
    def now_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class How:
    """How steps are made; what the commands' options say.

    at_once             groups that are looked at together
    looks, look_every_ms, wait_ms    of the gate: quiet looks in a row, the time between them, and how long members
                        that are on their way out are waited for
    commit_interval_ms  the longest of the members' auto.commit.interval.ms
    retention_ms        how long Kafka is to keep what is copied; None: as it does
    answers             modes the operator vouches for, by member; "*" for all that tell none
    back_out_of_range   of the copy back to ZooKeeper; None: as the plan says
    """

    at_once: int = 200
    looks: int = LOOKS
    look_every_ms: int = LOOK_EVERY_MS
    wait_ms: int = 10_000
    commit_interval_ms: int = 60_000
    retention_ms: int | None = None
    answers: Mapping[str, Mode] = field(default_factory=dict)
    back_out_of_range: Literal["refuse", "clamp", "skip"] | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen of a group: the first look and the last, whether a commit interval lies between them, and the
    gate, where a step has one.
    """

    first: GroupSnapshot
    now: GroupSnapshot
    twice: bool = False
    gate: Gate | None = None

    def after(self, now: GroupSnapshot) -> Observation:
        """After one more look; somebody who came meanwhile closes the gate."""
        return replace(self, now=now, gate=self.gate.after(presence_of(now)) if self.gate is not None else None)


class Observer:
    """Looks at groups, many at once."""

    def __init__(self, site: SiteLike, how: How, tell: Callable[[str], object] = lambda text: None) -> None:
        self._site = site
        self._how = how
        self._tell = tell

    def once(self, plans: Sequence[GroupPlan]) -> dict[str, GroupSnapshot]:
        """A look at each."""
        return self._site.snapshots(plans)

    def for_steps(
        self, plans: Mapping[str, GroupPlan], steps: Mapping[str, Step], first: Mapping[str, GroupSnapshot]
    ) -> dict[str, Observation]:
        """What each group's step asks for, beginning with a first look that was just made."""
        began = self._site.now()
        gates = {group: Gate(self._how.looks) for group, step in steps.items() if _gated(step, first[group])}
        gates = self._gates({group: gate.after(presence_of(first[group])) for group, gate in gates.items()}, plans)
        twice = {group for group, step in steps.items() if _names(step) & COMPARE}
        if twice:
            apart = self._how.commit_interval_ms / 1000 * LATE - (self._site.now() - began)
            if apart > TOLD_FROM_S:
                self._tell(
                    f"{counted(len(twice), 'group is', 'groups are')} looked at again "
                    f"in {apart:.0f} s, after a commit interval"
                )
            self._site.sleep(max(0.0, apart))
        again = [plans[group] for group in steps if group in gates or group in twice]
        found = self._site.snapshots(again)
        sights = {}
        for group in steps:
            sight = Observation(first[group], first[group], group in twice, gates.get(group))
            sights[group] = sight.after(found[group]) if group in found else sight
        return sights

    def _gates(self, gates: dict[str, Gate], plans: Mapping[str, GroupPlan]) -> dict[str, Gate]:
        """Presence until each is open, or time is over for those where somebody still is."""
        until = self._site.now() + self._how.wait_ms / 1000
        while True:
            over = self._site.now() >= until
            left = [group for group, gate in gates.items() if not gate.open and not (over and gate.quiet == 0)]
            if not left:
                return gates
            self._site.sleep(self._how.look_every_ms / 1000)
            now = self._site.snapshots([plans[group] for group in left], only_presence=True)
            gates = gates | {group: gates[group].after(presence_of(now[group])) for group in left}


def _gated(step: Step, first: GroupSnapshot) -> bool:
    """Whether nobody may be there; where members of one kind may be, a gate is for groups that seem to be stopped."""
    return bool(_names(step) & STOPPED) or (bool(_names(step) & STOPPED_OR) and presence_of(first).nobody)


def early(step: Step, first: GroupSnapshot) -> set[str]:
    """Needs that a step which compares two looks can be refused for after the first; none for other steps."""
    if not _names(step) & COMPARE:
        return set()
    return BY_MODE if _gated(step, first) else BY_MODE | STOPPED_OR


def _names(step: Step) -> set[str]:
    return {need.name for need in (*step.needs, *step.proves)}
