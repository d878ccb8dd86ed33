"""Steps as the commands make them, killed at any write, journal line or node, and started again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from groupadmin.files.read import read_offsets
from groupadmin.migrate.journal import read_journal
from tests.fakes.migrationsite import GROUPS, THERE, Killed, LastingWorld, Mortal, drive, planned
from tests.fakes.migrationworld import TPS
from zkconsumer.offsets.migrationmarker import Phase


def phases(path: Path) -> dict[str, Phase]:
    return {group: standing.phase for group, standing in read_journal(path).standings.items()}


def left(world: LastingWorld, path: Path) -> object:
    """All that must not depend on kills: positions, phases, the nodes' phases, and what the undo files say."""
    nodes = {group: marked.marker.phase for group, marked in world.markers.items() if marked.marker}
    undo = {p.name: read_offsets(p.read_text()).rows for p in (path.parent / "undo").glob("*.copy.json")}
    return world.numbers, phases(path), nodes, undo


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, int]:
    path = tmp_path_factory.mktemp("calm") / "journal.jsonl"
    world, mortal = LastingWorld(), Mortal()
    outcomes = drive(world, path, planned(world), mortal)
    assert [each.refusal for each in outcomes] == [None] * len(outcomes)
    return left(world, path), mortal.moments


def test_there_and_back_nobody_disturbs(tmp_path: Path):
    world, path = LastingWorld(), tmp_path / "journal.jsonl"
    drive(world, path, planned(world), Mortal(), THERE)
    assert phases(path) == dict.fromkeys(GROUPS, Phase.DONE)
    assert [world.kafka.get(("billing", tp)) for tp in TPS] == [50, 10, 200, 60, None]
    assert [world.nodes["billing", tp].position for tp in TPS[:4]] == [50, 5, 500, 60]
    drive(world, path, planned(LastingWorld()), Mortal())
    assert phases(path) == dict.fromkeys(GROUPS, Phase.ROLLED_BACK)
    assert {row.position for row in world.nodes.values()} == {150}
    assert {marked.marker.phase for marked in world.markers.values() if marked.marker} == {Phase.ROLLED_BACK}


@pytest.mark.parametrize("seed", range(50))
def test_killed_at_random_points_it_ends_like_a_run_that_nobody_disturbed(calm, tmp_path: Path, seed: int):
    expected, moments = calm
    rnd = random.Random(seed)
    world, path, kills = LastingWorld(), tmp_path / "journal.jsonl", 0
    plan = planned(world)
    while True:
        mortal = Mortal(rnd.randrange(1, moments // 2) if kills < 6 else None, rnd.random())
        try:
            drive(world, path, plan, mortal)
            break
        except Killed:
            kills += 1
    assert kills
    assert left(world, path) == expected


@pytest.mark.thorough
def test_killed_at_every_other_point_no_position_is_written_twice_but_those_kept_fresh(calm, tmp_path: Path):
    expected, moments = calm
    for die_at in range(1, moments + 1, 2):
        world, path = LastingWorld(), tmp_path / str(die_at) / "journal.jsonl"
        path.parent.mkdir()
        plan = planned(world)
        with pytest.raises(Killed):
            drive(world, path, plan, Mortal(die_at, die_at))
        drive(world, path, plan, Mortal())
        assert left(world, path) == expected
        zookeeper = [(group, tp) for store, group, tp, _ in world.writes if store == "zookeeper"]
        assert len(zookeeper) == len(set(zookeeper))  # Kafka's are committed again on purpose


def test_a_copy_that_is_taken_back_leaves_kafka_as_it_was_wherever_it_is_killed(tmp_path: Path):
    fresh = LastingWorld()
    plan, before = planned(fresh), fresh.numbers
    way = ("check", "copy", "rollback")
    probe = Mortal()
    (tmp_path / "probe").mkdir()
    drive(fresh, tmp_path / "probe" / "journal.jsonl", plan, probe, way)
    assert fresh.numbers == before
    for die_at in range(1, probe.moments + 1, 4):
        world, path = LastingWorld(), tmp_path / str(die_at) / "journal.jsonl"
        path.parent.mkdir()
        with pytest.raises(Killed):
            drive(world, path, plan, Mortal(die_at, die_at), way)
        drive(world, path, plan, Mortal(), way)
        assert world.numbers == before
        assert phases(path) == dict.fromkeys(GROUPS, Phase.ROLLED_BACK)


def test_what_members_read_on_in_kafka_after_it_was_copied_back_is_copied_back_too(tmp_path: Path):
    seen = set()
    for die_at in range(1, 60, 3):
        world, path = LastingWorld(), tmp_path / str(die_at) / "journal.jsonl"
        path.parent.mkdir()
        plan = planned(world)
        drive(world, path, plan, Mortal(), THERE)
        try:
            drive(world, path, plan, Mortal(die_at, die_at), ("rollback",))
            break
        except Killed:
            then = phases(path)
        seen |= set(then.values())
        moved = [group for group in GROUPS if then[group] is not Phase.ROLLED_BACK]
        world.kafka |= {(group, tp): 170 for group in moved for tp in TPS}
        outcomes = drive(world, path, plan, Mortal(), ("rollback",))
        assert [each.refusal for each in outcomes] == [None] * len(outcomes)
        assert phases(path) == dict.fromkeys(GROUPS, Phase.ROLLED_BACK)
        assert {world.nodes[group, tp].position for group in moved for tp in TPS} <= {170}
    assert {Phase.COPIED_BACK, Phase.VERIFIED_BACK} <= seen


def test_somebody_who_commits_between_two_runs_stops_the_copy_and_is_not_overwritten(tmp_path: Path):
    for die_at in range(1, 500):
        world, path = LastingWorld(), tmp_path / str(die_at) / "journal.jsonl"
        path.parent.mkdir()
        plan = planned(world)
        with pytest.raises(Killed):
            drive(world, path, plan, Mortal(die_at, die_at), ("check", "copy"))
        if world.writes:  # the copy has begun
            break
    world.write("zookeeper", "audit", TPS[0], 77, world.nodes["audit", TPS[0]].version)
    outcomes = drive(world, path, plan, Mortal(), ("check", "copy"))
    (refused,) = [each for each in outcomes if each.refusal is not None]
    assert refused.group == "audit"
    assert "stale plan" in str(refused.refusal)
    assert world.nodes["audit", TPS[0]].position == 77
    assert ("audit", TPS[0]) not in world.kafka
