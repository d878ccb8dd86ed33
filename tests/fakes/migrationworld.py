"""Two stores, their groups and a journal in a real file, in which a process can be killed at any moment.

World        what survives a kill: offset nodes with versions, positions in Kafka, logs, members' modes, undo files
Process      one run of a migration over it: steps as the commands make them; each store write and each journal line is
             a moment at which the process may die, a journal line also half way
Killed       it did

Leaves out: time, sessions, errors of the stores.  What it decides with is real: states, planning, looks, gate, journal.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from groupadmin.migrate import journal as journal_file
from groupadmin.migrate.journal import Begun, Journal, JournalHeader, Reached, Wrote, open_journal
from groupadmin.migrate.rules.comparison import Gate, facts, presence_of
from groupadmin.migrate.rules.groupplan import GroupPlan, Plan, Policies, left_to_write, make_plan, plan_group
from groupadmin.migrate.rules.states import StepFacts, StepName, begin, end
from groupadmin.snapshot.model import GroupSnapshot, KafkaRow, TopicRow, ZkRow
from kafkawire.model import TopicPartition
from zkconsumer.offsets.migrationmarker import Phase
from zkconsumer.offsets.store import NONE, Committed

P, S = Phase, StepName
GROUPS = ("billing", "audit", "mail")
TPS = tuple(TopicPartition("orders", n) for n in range(5))
COPIED_BACK = Policies(conflict="kafka", out_of_range="clamp")
THERE = (S.CHECK, S.COPY, S.VERIFY, S.CUTOVER, S.FINISH)
BACK = (S.RETURN_COPY, S.RETURN_VERIFY, S.ROLL_BACK)
AFTER = {
    S.CHECK: P.CHECKED,
    S.COPY: P.COPIED,
    S.VERIFY: P.VERIFIED,
    S.CUTOVER: P.CUTOVER,
    S.FINISH: P.DONE,
    S.RETURN_COPY: P.COPIED_BACK,
    S.RETURN_VERIFY: P.VERIFIED_BACK,
    S.ROLL_BACK: P.ROLLED_BACK,
}


class Killed(BaseException):
    """kill -9."""


class World:
    """Three groups of five partitions: copied, clamped at both ends, equal, and without a position."""

    def __init__(self) -> None:
        self.nodes = {
            (group, tp): ZkRow(at, 3, 100 + n, 90 + n, 0)
            for group in GROUPS
            for n, (tp, at) in enumerate(zip(TPS[:4], (50, 5, 500, 60), strict=True))
        }
        self.kafka: dict[tuple[str, TopicPartition], int] = {(group, TPS[3]): 60 for group in GROUPS}
        self.modes: dict[str, dict[str, str]] = {group: {} for group in GROUPS}
        self.zxid = 1000
        self.writes: list[tuple[str, str, TopicPartition, int | None]] = []

    def snapshot(self, group: str) -> GroupSnapshot:
        return GroupSnapshot(
            group,
            {tp: row for (name, tp), row in self.nodes.items() if name == group},
            {tp: KafkaRow(self.kafka.get((group, tp), NONE)) for tp in TPS},
            dict.fromkeys(TPS, (10, 200)),
            {"orders": TopicRow(tuple(tp.partition for tp in TPS), 1, 1)},
            members=tuple(self.modes[group]),
            kafka_members=(),
            modes=dict(self.modes[group]),
        )

    def write(self, store: str, group: str, tp: TopicPartition, at: int | None, version: int | None = None) -> None:
        self.writes.append((store, group, tp, at))
        if store == "kafka":
            self.kafka.pop((group, tp), None)
            if at is not None:
                self.kafka[group, tp] = at
            return
        there = self.nodes.get((group, tp))
        assert (there.version if there else None) == version, f"{group} {tp}: somebody else wrote it"
        self.zxid += 1
        self.nodes[group, tp] = ZkRow(at, 0 if there is None else there.version + 1, self.zxid, self.zxid, 0)

    def members_start_on_kafka(self, group: str) -> None:
        self.modes[group] = {"m": "kafka"}

    def members_read_and_stop(self, group: str) -> None:
        """They read to 150 and are stopped; a second call changes nothing."""
        if self.modes[group]:
            for tp in TPS:
                self.kafka[group, tp] = 150
            self.modes[group] = {}

    @property
    def numbers(self) -> dict[str, dict[str, Committed]]:
        """What the stores hold, as far as it must not depend on kills."""
        return {
            "zookeeper": {f"{group} {tp}": row.position for (group, tp), row in sorted(self.nodes.items())},
            "kafka": {f"{group} {tp}": at for (group, tp), at in sorted(self.kafka.items())},
        }


def planned(world: World, names: Sequence[str] = GROUPS) -> Plan:
    policies = Policies(out_of_range="clamp")
    groups = [plan_group(world.snapshot(group), policies) for group in names]
    return make_plan(groups, policies, "to-kafka", cluster="zk:2181", at_ms=1)


class Process:
    """One process that works on a migration until it is done or dies at its moment number die_at."""

    def __init__(self, world: World, path: Path, plan: Plan, die_at: int | None = None, seed: int = 0) -> None:
        self.world, self.path, self.plan = world, path, plan
        self.moments = 0
        self._die_at = die_at
        self._random = random.Random(seed)
        self.reached: list[dict[str, Phase]] = []

    def run(self, way: Sequence[StepName] = (*THERE, *BACK)) -> None:
        with (
            self._mortal(),
            open_journal(self.path, JournalHeader(self.plan.plan_id, "zk:2181", "to-kafka", 1)) as journal,
        ):
            journal.begin([plan.group for plan in self.plan.groups], 1)
            for step in way:
                for plan in self.plan.groups:
                    if not self._behind(journal, plan.group, step, way):
                        self._step(journal, plan, step)
                        self.reached.append({name: one.phase for name, one in journal.standings.items()})

    def _behind(self, journal: Journal, group: str, step: StepName, way: Sequence[StepName]) -> bool:
        """Whether the group has come as far as this step leads, or farther."""
        phases = [P.PLANNED, *(AFTER[each] for each in way)]
        return phases.index(journal.standings[group].phase) >= phases.index(AFTER[step])

    def _step(self, journal: Journal, plan: GroupPlan, step: StepName) -> None:
        world, group = self.world, plan.group
        if step is S.FINISH:
            world.members_start_on_kafka(group)
        if step is S.RETURN_COPY:
            world.members_read_and_stop(group)
        if step in BACK:  # planned anew each time: what was copied back is equal by now
            plan = plan_group(world.snapshot(group), COPIED_BACK, "to-zookeeper")
        phase = journal.standings[group].phase
        allowed = begin(phase, step, self._facts(plan))
        journal.append([Begun(group, step)], 2)
        if {"kafka offsets", "zookeeper offsets"} & allowed.writes:
            rows = {row.tp: row for row in plan.rows}
            for write in left_to_write(plan, world.snapshot(group)).writes:
                self._moment()
                row = rows[write.tp]
                node = row.zookeeper if write.store == "zookeeper" else None
                world.write(write.store, group, write.tp, write.position, None if node is None else node.version)
                before = held if isinstance(held := row.held(write.store), int) else None
                journal.append([Wrote(group, step, write.store, write.tp, before=before, after=write.position)], 3)
        journal.append([Reached(group, step, end(phase, step, self._facts(plan)))], 4)

    def _facts(self, plan: GroupPlan) -> StepFacts:
        gate, now = Gate(2), self.world.snapshot(plan.group)
        for _ in range(2):
            gate = gate.after(presence_of(now))
        return facts(plan, now, before=now, gate=gate, failed_checks=())

    def _moment(self) -> bool:
        """One more moment; dies at its own, half the time before what is to be done."""
        self.moments += 1
        if self.moments == self._die_at:
            raise Killed
        return self.moments + 1 == self._die_at

    @contextmanager
    def _mortal(self) -> Iterator[None]:
        """Journal lines are moments too: before, after, and in the middle of a line."""
        write_all = journal_file._write_all

        def write(file: int, data: bytes) -> None:
            self._moment()
            if self._moment():
                write_all(file, data[: self._random.randrange(len(data))])
            else:
                write_all(file, data)
            self._moment()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(journal_file, "_write_all", write)
            patch.setattr(
                journal_file.os, "fsync", lambda file: None
            )  # a killed process leaves its pages to the kernel
            yield
