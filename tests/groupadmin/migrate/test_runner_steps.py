"""What steps refuse, and what they leave alone: the real runner over two stores in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from groupadmin.apply.writes import StoreWrite, WriteResult
from groupadmin.migrate.journal import Journal, JournalHeader, Standing, open_journal
from groupadmin.migrate.keepalive import keep_alive
from groupadmin.migrate.rules.checks import Check
from groupadmin.migrate.rules.groupplan import Plan, Policies, make_plan, plan_group
from groupadmin.migrate.rules.states import StepName
from groupadmin.migrate.runner import StepRunner, preview
from groupadmin.migrate.site import Marked, other_plan
from groupadmin.migrate.undofolder import UndoFolder
from groupadmin.snapshot.model import GroupSnapshot, KafkaRow, ZkRow
from kafkawire.model import TopicPartition
from tests.fakes.migrationsite import GROUPS, HOW, FakeSite, LastingWorld, Mortal
from tests.fakes.migrationworld import TPS
from zkconsumer.offsets.migrationmarker import Marker, Phase
from zkconsumer.offsets.store import Unknown

GROUP = "billing"
DELETED = TopicPartition("deleted", 0)


class Site(FakeSite):
    """With a deleted topic; refuse: positions that Kafka does not take; comes: members who come at that look."""

    def __init__(self, world: LastingWorld) -> None:
        super().__init__(world, Mortal())
        self.refuse: set[TopicPartition] = set()
        self.looks = 0
        self.comes: dict[int, dict[str, str]] = {}
        self.slept_s = 0.0

    def snapshots(self, plans, only_presence: bool = False) -> dict[str, GroupSnapshot]:
        self.looks += 1
        for at, modes in self.comes.items():
            if self.looks >= at:
                self.world.modes[GROUP] = modes
        return {group: with_deleted(seen) for group, seen in super().snapshots(plans).items()}

    def write(self, writes: list[StoreWrite], retention_ms: int | None) -> list[WriteResult]:
        good = [write for write in writes if write.tp not in self.refuse]
        done = {row.write.tp: row for row in super().write(good, retention_ms)}
        return [done.get(write.tp) or WriteResult(write, "failed", "no coordinator") for write in writes]

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        super().sleep(seconds)


def with_deleted(seen: GroupSnapshot) -> GroupSnapshot:
    node, unknown = ZkRow(5, 0, 1, 1, 0), KafkaRow(Unknown("no such partition"))
    return replace(seen, zookeeper={**seen.zookeeper, DELETED: node}, kafka={**seen.kafka, DELETED: unknown})


@pytest.fixture
def site() -> Site:
    return Site(LastingWorld())


@pytest.fixture
def plan(site: Site) -> Plan:
    policies = Policies(out_of_range="clamp")
    plans = [plan_group(with_deleted(site.world.snapshot(group)), policies) for group in GROUPS]
    return make_plan(plans, policies, "to-kafka", cluster="zk:2181", at_ms=1)


@pytest.fixture
def journal(plan: Plan, tmp_path: Path) -> Iterator[Journal]:
    with open_journal(
        tmp_path / "journal.jsonl", JournalHeader(plan.plan_id, plan.cluster, plan.direction, 1)
    ) as journal:
        yield journal


def runner(site: Site, plan: Plan, journal: Journal, **told: object) -> StepRunner:
    return StepRunner(site, plan, journal, undo=UndoFolder(journal.path.parent / "undo"), options=replace(HOW, **told))


def refusals(outcomes) -> list[str | None]:
    return [each.refusal.name if each.refusal else None for each in outcomes]


def test_a_deleted_topic_does_not_keep_its_group_from_being_copied(site, plan, journal):
    for asked in ("check", "copy", "verify", "cutover"):
        assert refusals(runner(site, plan, journal).run(asked, GROUPS)) == [None] * 3
    assert not [write for write in site.world.writes if write[2] == DELETED]


def test_a_failing_check_of_the_cluster_keeps_every_group_where_it_is(site, plan, journal):
    bad = Check("brokers", "fail", "too old")
    outcomes = StepRunner(
        site, plan, journal, undo=UndoFolder(journal.path.parent / "undo"), options=HOW, checks=[bad]
    ).run("check", GROUPS)
    assert refusals(outcomes) == ["failing checks"] * 3
    assert site.world.markers == {}  # looking leaves nothing in ZooKeeper


@pytest.mark.parametrize("asked", ["copy", "verify", "cutover"])
def test_after_a_failed_check_steps_name_it_and_what_helps(site, plan, journal, asked):
    bad = [Check("brokers", "fail", "one is 0.8.1", "upgrade it"), Check("clock", "fail", "an hour ahead", "use NTP")]
    StepRunner(site, plan, journal, undo=UndoFolder(journal.path.parent / "undo"), options=HOW, checks=bad).run(
        "check", [GROUP]
    )
    [outcome] = runner(site, plan, journal).run(asked, [GROUP])
    assert str(outcome.refusal) == (
        f"failing checks: {asked} after a check that failed; failing: brokers: one is 0.8.1; upgrade it and clock: "
        "an hour ahead; use NTP; correct that and run `zkconsumer migrate check` again"
    )
    [row] = preview(site, plan, journal.standings, options=HOW, asked=asked, groups=[GROUP])
    assert [str(each) for each in row.refusals] == [str(outcome.refusal)]
    assert site.world.writes == []
    runner(site, plan, journal).run("check", [GROUP])
    assert journal.standings[GROUP].phase is Phase.CHECKED


def test_a_member_that_comes_between_two_looks_closes_the_gate_and_the_other_groups_go_on(site, plan, journal):
    runner(site, plan, journal).run("check", GROUPS)
    site.comes = {site.looks + 2: {"m": "zookeeper"}}
    outcomes = runner(site, plan, journal, at_once=3).run("copy", GROUPS)
    assert refusals(outcomes) == ["active group", None, None]
    assert GROUP not in {group for _, group, _, _ in site.world.writes}
    assert journal.standings[GROUP].declined is not None


def test_a_position_that_is_not_taken_leaves_the_group_where_it_was_and_the_next_try_writes_it(site, plan, journal):
    runner(site, plan, journal).run("check", GROUPS)
    site.refuse = {TPS[1]}
    outcomes = runner(site, plan, journal).run("copy", GROUPS)
    assert refusals(outcomes) == ["not written"] * 3
    assert {each.phase for each in outcomes} == {Phase.CHECKED}
    site.refuse = set()
    assert refusals(runner(site, plan, journal).run("copy", GROUPS)) == [None] * 3
    assert site.world.kafka[GROUP, TPS[1]] == 10


def test_members_of_the_wrong_mode_are_told_of_without_waiting_a_commit_interval(site, plan, journal):
    runner(site, plan, journal).run("check", GROUPS)
    site.world.modes[GROUP] = {"m": "zookeeper"}
    assert refusals(runner(site, plan, journal).run("verify", [GROUP])) == ["members not in dual"]
    assert site.slept_s == 0


def test_groups_without_members_have_nothing_to_verify_before_they_are_copied(site, plan, journal):
    runner(site, plan, journal).run("check", GROUPS)
    assert refusals(runner(site, plan, journal).run("verify", GROUPS)) == ["nothing to verify"] * 3


def test_steps_are_refused_by_name_before_anything_is_written(site, plan, journal):
    assert refusals(runner(site, plan, journal).run("copy", [GROUP])) == ["unchecked plan"]
    assert refusals(runner(site, plan, journal).run("cutover", [GROUP])) == ["zookeeper to kafka in one bounce"]
    assert site.world.writes == []


def test_what_was_done_before_is_not_done_again(site, plan, journal):
    for asked in ("check", "copy", "verify", "cutover"):
        runner(site, plan, journal).run(asked, GROUPS)
    writes = len(site.world.writes)
    outcomes = runner(site, plan, journal).run("cutover", GROUPS)
    assert [(each.step, each.phase) for each in outcomes] == [(None, Phase.CUTOVER)] * 3
    assert len(site.world.writes) == writes


def test_a_preview_says_what_would_be_written_and_what_stands_in_the_way(site, plan, journal):
    runner(site, plan, journal).run("check", GROUPS)
    site.world.modes["audit"] = {"m": "zookeeper"}
    seen = {row.group: row for row in preview(site, plan, journal.standings, options=HOW, asked="copy", groups=GROUPS)}
    assert [(write.tp, write.position) for write in seen[GROUP].writes][:3] == [
        (TPS[0], 50),
        (TPS[1], 10),
        (TPS[2], 200),
    ]
    assert [each.name for each in seen["audit"].refusals] == ["active group"]
    assert site.world.writes == []


def test_copies_are_committed_again_until_somebody_is_there(site, plan, journal):
    for asked in ("check", "copy"):
        runner(site, plan, journal).run(asked, GROUPS)
    site.world.writes.clear()
    told: list[str] = []
    site.comes = {site.looks + 5: {"m": "kafka"}}
    for group in GROUPS[1:]:
        site.world.kafka[group, TPS[0]] = 51  # somebody committed to Kafka, and went
    keep_alive(site, plan.groups, every_s=10.0, retention_ms=None, tell=told.append)
    assert {group for _, group, _, _ in site.world.writes} == {GROUP}
    assert len(site.world.writes) % 4 == 0  # four partitions have a position
    assert site.world.kafka["audit", TPS[0]] == 51
    assert sorted(each.split(" ")[0] for each in told) == sorted(GROUPS)


# whose group it is ----------------------------------------------------------------------------------------------------


def standing(phase: Phase, at_ms: int) -> Standing:
    return Standing(phase, at_ms, past=((phase, at_ms),))


@pytest.mark.parametrize(
    ("marker", "ours", "refused"),
    [
        (None, standing(Phase.CHECKED, 10), False),
        (Marker("ours", Phase.COPIED, 5), standing(Phase.VERIFIED, 10), False),  # behind by a step: we were killed
        (Marker("ours", Phase.VERIFIED, 10), standing(Phase.VERIFIED, 10), False),
        (Marker("ours", Phase.CUTOVER, 20), standing(Phase.VERIFIED, 10), True),  # by another copy of the journal
        (Marker("theirs", Phase.COPIED, 5), standing(Phase.CHECKED, 10), False),  # given up: planned again
        (Marker("theirs", Phase.CUTOVER, 5), standing(Phase.CHECKED, 10), True),
        (Marker("theirs", Phase.COPIED, 20), standing(Phase.COPIED, 10), True),
        (Marker("theirs", Phase.ROLLED_BACK, 20), standing(Phase.COPIED, 10), False),
    ],
)
def test_a_group_is_left_alone_when_its_node_is_later_than_our_journal(marker, ours, refused):
    assert (other_plan(Marked(marker, 1), "ours", ours) is not None) is refused


def test_a_node_that_makes_no_sense_stops_its_group_alone(site, plan, journal):
    runner(site, plan, journal).run("check", GROUPS)
    site.world.markers[GROUP] = Marked(None, 3, "it holds b'x'")
    outcomes = runner(site, plan, journal).run("copy", GROUPS)
    assert refusals(outcomes) == ["marker unclear", None, None]


def test_undo_files_say_what_was_before_the_first_try(tmp_path, site, plan):
    from groupadmin.migrate import stepwrites

    folder, before = UndoFolder(tmp_path / "undo"), stepwrites.before(plan.groups[0], "zk", 1)
    first = folder.keep("a/b", StepName.COPY, before)
    assert first is not None
    assert first == folder.keep("a/b", StepName.COPY, before)
    other = folder.keep("a/b", StepName.COPY, stepwrites.before(plan.groups[0], "zk", 2))
    assert other is not None
    assert other.name == "a%2Fb.copy.2.json"
    assert folder.files(["a/b", "c"], StepName.COPY) == {"a/b": str(first)}


def test_the_state_before_is_named_by_the_copy_and_not_again_by_the_cutover(site, plan, journal):
    notes = {
        asked: [note for each in runner(site, plan, journal).run(asked, [GROUP]) for note in each.notes]
        for asked in ("check", "copy", "verify", "cutover")
    }
    (note,) = notes["copy"]
    assert note.startswith("the state before the copy is in ")
    assert note.endswith("billing.copy.json")
    assert notes["cutover"] == []


def test_a_step_that_takes_seconds_first_says_what_it_checks(site, plan, journal):
    told: list[str] = []

    def run(asked, **options):
        told.clear()
        how = replace(HOW, at_once=3, **options)
        undo = UndoFolder(journal.path.parent / "undo")
        return StepRunner(site, plan, journal, undo=undo, options=how, tell=told.append).run(asked, GROUPS)

    run("check", gate_snapshots=4, gate_every_ms=1500)
    assert told == []
    run("copy", gate_snapshots=4, gate_every_ms=1500)
    assert told == ["checking 4 times, 1.5 s apart, that 3 groups have no active member: 4.5 s"]
    run("verify")
    run("cutover", gate_snapshots=4, gate_every_ms=100)
    assert told == []
