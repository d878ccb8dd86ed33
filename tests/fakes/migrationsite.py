"""The real StepRunner, journal and undo files over the two stores of migrationworld, killed at any of its moments.

FakeSite     the world as a Site: each position that is written is a moment, and so is each marker; time passes at once
Mortal       counts the moments, and dies at its own: before a write, after it, or in the middle of a journal line
drive        one process: all commands of the way, from wherever the journal says the groups are

Leaves out: sessions, errors of the stores, the commands' options.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from groupadmin.apply.writes import StoreWrite, WriteResult
from groupadmin.migrate import journal as journal_file
from groupadmin.migrate.journal import JournalHeader, open_journal
from groupadmin.migrate.observation import StepOptions
from groupadmin.migrate.rules.groupplan import GroupPlan, Plan
from groupadmin.migrate.rules.states import Asked
from groupadmin.migrate.runner import Outcome, StepRunner
from groupadmin.migrate.site import Marked
from groupadmin.migrate.undofolder import UndoFolder
from groupadmin.snapshot.model import GroupSnapshot
from tests.fakes.migrationworld import GROUPS, Killed, World, planned
from zkconsumer.offsets.migrationmarker import Marker, Phase

HOW = StepOptions(at_once=2, gate_snapshots=2, back_out_of_range="clamp")
THERE: tuple[Asked, ...] = ("check", "copy", "verify", "cutover", "verify")
ORDER = list(Phase)


class Mortal:
    """Dies (Killed) at moment number die_at; None: never."""

    def __init__(self, die_at: int | None = None, seed: float = 0) -> None:
        self.moments = 0
        self._die_at = die_at
        self._random = random.Random(seed)

    def moment(self) -> bool:
        """One more; dies at its own.  Whether the next one is it."""
        self.moments += 1
        if self.moments == self._die_at:
            raise Killed
        return self.moments + 1 == self._die_at

    @contextmanager
    def journal(self) -> Iterator[None]:
        """Journal lines are moments: before, after, and in the middle."""
        write_all = journal_file._write_all

        def write(file: int, data: bytes) -> None:
            self.moment()
            write_all(file, data[: self._random.randrange(len(data))] if self.moment() else data)
            self.moment()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(journal_file, "_write_all", write)
            patch.setattr(
                journal_file.os, "fsync", lambda file: None
            )  # a killed process leaves its pages to the kernel
            yield


class FakeSite:
    """See the module.  markers outlive the process in world.markers."""

    def __init__(self, world: World, mortal: Mortal) -> None:
        self.world = world
        self._mortal = mortal
        self._now_s = 0.0

    def snapshots(self, plans: Sequence[GroupPlan], only_presence: bool = False) -> dict[str, GroupSnapshot]:
        return {plan.group: self.world.snapshot(plan.group) for plan in plans}

    def write(self, writes: Sequence[StoreWrite], retention_ms: int | None) -> list[WriteResult]:
        done = []
        for write in writes:
            self._mortal.moment()
            version = write.node.version if write.node is not None else None
            self.world.write(write.store, write.group, write.tp, write.position, version)
            done.append(WriteResult(write, "written"))
        self._mortal.moment()
        return done

    def markers(self, groups: Iterable[str]) -> dict[str, Marked]:
        return {group: self.world.markers.get(group, Marked()) for group in groups}

    def mark(self, wanted: Mapping[str, tuple[Marker, Marked]]) -> dict[str, str]:
        for group, (marker, there) in wanted.items():
            self._mortal.moment()
            assert self.world.markers.get(group, Marked()) == there
            self.world.markers[group] = Marked(marker, (there.version or 0) + 1)
        return {}

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds

    def now(self) -> float:
        return self._now_s

    def now_ms(self) -> int:
        self.world.clock_ms += 1
        return self.world.clock_ms


class LastingWorld(World):
    """With the nodes that migrations leave, and a clock that no process sets back."""

    def __init__(self) -> None:
        super().__init__()
        self.markers: dict[str, Marked] = {}
        self.clock_ms = 1_000_000


def drive(
    world: LastingWorld, path: Path, plan: Plan, mortal: Mortal, way: Sequence[Asked] = (*THERE, "rollback")
) -> list[Outcome]:
    """One process that is started again from the beginning: what was done is told by the journal."""
    found: list[Outcome] = []
    site = FakeSite(world, mortal)
    header = JournalHeader(plan.plan_id, plan.cluster, plan.direction, 1)
    with mortal.journal(), open_journal(path, header) as journal:
        runner = StepRunner(site, plan, journal, undo=UndoFolder(path.parent / "undo"), options=HOW)
        journal.begin(GROUPS, site.now_ms())
        for number, asked in enumerate(way):
            last = number == len(way) - 1  # the command that was killed is run again, for all its groups
            groups = [g for g in GROUPS if last or not _past(journal.standings[g].phase, number, asked)]
            for group in groups:
                _members(world, group, journal.standings[group].phase, asked)
            found += runner.run(asked, groups)
    return found


def _past(phase: Phase, number: int, asked: Asked) -> bool:
    """Whether a command of the way has nothing more to do for a group in this phase."""
    reached = {"check": Phase.CHECKED, "copy": Phase.COPIED, "cutover": Phase.CUTOVER, "rollback": Phase.ROLLED_BACK}
    verified = Phase.VERIFIED if number < THERE.index("cutover") else Phase.DONE
    return ORDER.index(phase) >= ORDER.index(reached.get(asked, verified))


def _members(world: LastingWorld, group: str, phase: Phase, asked: Asked) -> None:
    """After the cutover they start on Kafka; before the way back they have read on and are stopped."""
    if asked == "verify" and phase is Phase.CUTOVER:
        world.members_start_on_kafka(group)
    if asked == "rollback":
        world.members_read_and_stop(group)


__all__ = ["GROUPS", "HOW", "FakeSite", "Killed", "LastingWorld", "Mortal", "drive", "planned"]
