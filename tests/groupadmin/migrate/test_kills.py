"""Killed at any moment and started again, a migration ends like one that nobody disturbed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from groupadmin.migrate.journal import read_journal
from groupadmin.migrate.rules.states import MigrationRefused
from tests.fakes.migrationworld import BACK, GROUPS, THERE, TPS, Killed, Process, World, planned
from zkconsumer.offsets.migrationmarker import Phase


def undisturbed(path: Path, way=(*THERE, *BACK)) -> tuple[World, int]:
    world = World()
    process = Process(world, path / "undisturbed.jsonl", planned(world))
    process.run(way)
    return world, process.moments


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, int, dict[str, Phase]]:
    """There and back without a kill: the world, how many moments it took, and where the groups are."""
    path = tmp_path_factory.mktemp("calm")
    return *undisturbed(path), phases(path / "undisturbed.jsonl")


def phases(path: Path) -> dict[str, Phase]:
    return {group: standing.phase for group, standing in read_journal(path).standings.items()}


def test_an_undisturbed_run_there(tmp_path: Path):
    world, _ = undisturbed(tmp_path, THERE)
    assert phases(tmp_path / "undisturbed.jsonl") == dict.fromkeys(GROUPS, Phase.DONE)
    billing = [world.kafka.get(("billing", tp)) for tp in TPS]
    assert billing == [50, 10, 200, 60, None]  # copied, clamped, clamped, equal, never had one
    assert [world.nodes["billing", tp].position for tp in TPS[:4]] == [50, 5, 500, 60]  # ZooKeeper stays as it was


def test_an_undisturbed_run_there_and_back(tmp_path: Path):
    world, _ = undisturbed(tmp_path)
    assert phases(tmp_path / "undisturbed.jsonl") == dict.fromkeys(GROUPS, Phase.ROLLED_BACK)
    assert {row.position for row in world.nodes.values()} == {150}  # what the members read on Kafka is not read again


@pytest.mark.parametrize("seed", range(60))
def test_killed_at_random_moments_it_ends_like_one_that_nobody_disturbed(calm, tmp_path: Path, seed: int):
    expected, moments, ended = calm
    rnd = random.Random(seed)
    world, path, kills, reached = World(), tmp_path / "journal.jsonl", 0, []
    plan = planned(world)
    while True:
        process = Process(world, path, plan, rnd.randrange(1, moments // 2) if kills < 6 else None, rnd.random())
        try:
            process.run()
            break
        except Killed:
            kills += 1
            found = phases(
                path
            )  # what the next process believes: all that was journalled, and at most the line under way
            for group, phase in (process.reached or reached or [{}])[-1].items():
                assert list(Phase).index(found[group]) >= list(Phase).index(phase)
            reached += process.reached
    assert kills
    assert phases(path) == ended
    assert world.numbers == expected.numbers


def test_killed_at_every_moment_once(tmp_path: Path):
    """Each write is made at most once more: a kill between a store and the journal is told by the store itself."""
    expected, moments = undisturbed(tmp_path, THERE)
    for die_at in range(1, moments + 1):
        world, path = World(), tmp_path / f"{die_at}.jsonl"
        plan = planned(world)
        with pytest.raises(Killed):
            Process(world, path, plan, die_at, die_at).run(THERE)
        Process(world, path, plan).run(THERE)
        assert world.numbers == expected.numbers
        assert phases(path) == dict.fromkeys(GROUPS, Phase.DONE)
        assert world.writes == expected.writes  # none twice, none in another order


def test_somebody_who_commits_between_two_runs_stops_the_copy_and_nothing_of_his_is_overwritten(tmp_path: Path):
    world, path = World(), tmp_path / "journal.jsonl"
    plan = planned(world)
    copy_begins = next(n for n in range(1, 500) if len(_killed_at(n, tmp_path / f"probe{n}.jsonl").writes) == 1)
    with pytest.raises(Killed):
        Process(world, path, plan, copy_begins, 0).run(THERE)
    world.write("zookeeper", "audit", TPS[0], 77, world.nodes["audit", TPS[0]].version)
    before = world.numbers
    with pytest.raises(MigrationRefused, match="stale plan"):
        Process(world, path, plan).run(THERE)
    assert world.numbers["kafka"] == before["kafka"]
    assert world.nodes["audit", TPS[0]].position == 77


def _killed_at(moment: int, path: Path) -> World:
    world = World()
    with pytest.raises(Killed):
        Process(world, path, planned(world), moment, 0).run(THERE)
    return world
