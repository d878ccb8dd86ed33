"""Snapshots that a step needs: one, two with a commit interval in between, or several until no member is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from groundwork.sentences import counted
from groupadmin.apply.writes import StoreWrite, WriteResult
from groupadmin.migrate.rules import states
from groupadmin.migrate.rules.comparison import GATE_EVERY_MS, GATE_SNAPSHOTS, Gate, presence_of
from groupadmin.migrate.rules.groupplan import GroupPlan
from groupadmin.migrate.rules.states import Step
from groupadmin.migrate.site import Marked
from groupadmin.snapshot.model import GroupSnapshot
from zkconsumer.offsets.migrationmarker import Marker
from zkconsumer.offsets.modes import Mode

STOPPED = {states.QUIET.name}
STOPPED_OR = {states.DUAL_OR_STOPPED.name, states.NONE_READS_KAFKA.name, states.NONE_ON_KAFKA_ALONE.name}
COMPARE = {states.STORES_AGREE.name, states.BOTH_MOVE.name, states.ZOOKEEPER_RESTS.name}
BY_MODE = {
    states.NOT_MIXED.name,
    states.ONE_COORDINATOR.name,
    states.ALL_DUAL.name,
    states.ALL_KAFKA.name,
    states.ALL_COORDINATED.name,
}
TOLD_FROM_S = 3
LATE = 1.1  # the interval, and some time for the commit itself


class SiteLike(Protocol):
    """The interface of a Site for the steps."""

    def snapshots(self, plans: Sequence[GroupPlan], only_presence: bool = False) -> dict[str, GroupSnapshot]: ...
    def write(self, writes: Sequence[StoreWrite], retention_ms: int | None) -> list[WriteResult]: ...
    def markers(self, groups: Iterable[str]) -> dict[str, Marked]: ...
    def mark(self, wanted: Mapping[str, tuple[Marker, Marked]]) -> dict[str, str]: ...
    def sleep(self, seconds: float) -> None: ...
    def now(self) -> float: ...
    def now_ms(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """Options of the steps, as the commands give them.

    at_once             number of groups read together
    gate_snapshots, gate_every_ms    of the gate: consecutive snapshots without a member, and the time between them
    wait_ms             how long the gate waits for members that are leaving
    commit_interval_ms  the longest auto.commit.interval.ms of the members
    retention_ms        offset retention in Kafka for the copies; None: the broker's
    answers             modes given by the operator, by member; "*" is for all members that publish none
    back_out_of_range   out-of-range policy of the copy back to ZooKeeper; None: the plan's
    """

    at_once: int = 200
    gate_snapshots: int = GATE_SNAPSHOTS
    gate_every_ms: int = GATE_EVERY_MS
    wait_ms: int = 10_000
    commit_interval_ms: int = 60_000
    retention_ms: int | None = None
    answers: Mapping[str, Mode] = field(default_factory=dict)
    back_out_of_range: Literal["refuse", "clamp", "skip"] | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """Snapshots of a group: the first and the last, whether a commit interval lies between them, and the gate, if the
    step has one.
    """

    first: GroupSnapshot
    now: GroupSnapshot
    twice: bool = False
    gate: Gate | None = None

    def after(self, now: GroupSnapshot) -> Observation:
        """Return the observation with one more snapshot; a member in it closes the gate."""
        return replace(self, now=now, gate=self.gate.after(presence_of(now)) if self.gate is not None else None)


class Observer:
    """Takes snapshots of groups, many at once."""

    def __init__(self, site: SiteLike, options: StepOptions, tell: Callable[[str], object] = lambda text: None) -> None:
        self._site = site
        self._options = options
        self._tell = tell

    def for_steps(
        self, plans: Mapping[str, GroupPlan], steps: Mapping[str, Step], first: Mapping[str, GroupSnapshot]
    ) -> dict[str, Observation]:
        """Return the observations that each group's step needs, after the first snapshots, which were just taken."""
        began = self._site.now()
        gates = {
            group: Gate(self._options.gate_snapshots) for group, step in steps.items() if _gated(step, first[group])
        }
        gates = self._gates({group: gate.after(presence_of(first[group])) for group, gate in gates.items()}, plans)
        twice = {group for group, step in steps.items() if _names(step) & COMPARE}
        if twice:
            apart = self._options.commit_interval_ms / 1000 * LATE - (self._site.now() - began)
            if apart > TOLD_FROM_S:
                self._tell(
                    f"{counted(len(twice), 'group is', 'groups are')} read again "
                    f"in {apart:.0f} s, after a commit interval"
                )
            self._site.sleep(max(0.0, apart))
        again = [plans[group] for group in steps if group in gates or group in twice]
        found = self._site.snapshots(again)
        observations = {}
        for group in steps:
            observation = Observation(first[group], first[group], group in twice, gates.get(group))
            observations[group] = observation.after(found[group]) if group in found else observation
        return observations

    def _gates(self, gates: dict[str, Gate], plans: Mapping[str, GroupPlan]) -> dict[str, Gate]:
        """Take snapshots until each gate is open, or until wait_ms is over for groups that still have members."""
        if not gates:
            return gates
        until = self._site.now() + self._options.wait_ms / 1000
        every_s = self._options.gate_every_ms / 1000
        if (takes_s := every_s * (self._options.gate_snapshots - 1)) > TOLD_FROM_S:
            self._tell(
                f"checking {self._options.gate_snapshots} times, {every_s:g} s apart, that "
                f"{counted(len(gates), 'group has', 'groups have')} no active member: {takes_s:g} s"
            )
        while True:
            over = self._site.now() >= until
            left = [group for group, gate in gates.items() if not gate.open and not (over and gate.quiet == 0)]
            if not left:
                return gates
            self._site.sleep(every_s)
            now = self._site.snapshots([plans[group] for group in left], only_presence=True)
            gates = gates | {group: gates[group].after(presence_of(now[group])) for group in left}


def _gated(step: Step, first: GroupSnapshot) -> bool:
    """True if the step needs a gate: it allows no members, or it also allows a stopped group and this one has none."""
    return bool(_names(step) & STOPPED) or (bool(_names(step) & STOPPED_OR) and presence_of(first).absent)


def early(step: Step, first: GroupSnapshot) -> set[str]:
    """Return the needs for which a step that compares two snapshots can be refused after the first; none for other
    steps."""
    if not _names(step) & COMPARE:
        return set()
    return BY_MODE if _gated(step, first) else BY_MODE | STOPPED_OR


def _names(step: Step) -> set[str]:
    return {need.name for need in (*step.needs, *step.proves)}
