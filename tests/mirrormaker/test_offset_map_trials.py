"""Thousands of short lives of a mirror: whatever it recorded, a group that is translated loses nothing and repeats no
more than was promised."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial

import pytest

from groupadmin.translation import Facts, Safe, translated
from kafkawire.model import TopicPartition
from tests.mirrormaker.mapsimulation import EVERY, MapSimulation


def lived(rng: random.Random, simulation: MapSimulation, kills: bool, late: bool, fair: bool = False) -> None:
    """A random history; what it ends in may be anything."""
    acts = [simulation.read] * 6 + [simulation.send] * 6 + [partial(simulation.answer, fair)] * 6
    acts += [simulation.grow, simulation.commit, simulation.tick]
    for _ in range(rng.randint(30, 250)):
        rng.choice(acts)()
        if kills and rng.random() < 0.02:
            simulation.kill(late)


@pytest.mark.thorough
def test_the_bound_is_one_interval_and_one_request() -> None:
    """Where each target partition is fed by one source partition, and nothing was sent twice."""
    count = 0
    for seed in range(40):
        rng = random.Random(seed)
        simulation = MapSimulation(rng, 2, 0, counted=True)
        for _ in range(20):
            simulation.grow()
            lived(rng, simulation, kills=False, late=False, fair=True)
        simulation.drain()
        simulation.commit()
        read = {s.tp: rng.choice(s.borders) for s in simulation.sources}
        logs = {tp: (0, len(log)) for tp, log in simulation.logs.items()}
        found = translated(
            simulation.map, Facts(logs, {s.tp: (0, s.end) for s in simulation.sources}, read), {"t": simulation.targets}
        )
        for source in simulation.sources:
            row = found[source.tp]
            assert isinstance(row, Safe)
            assert row.repeats <= EVERY + simulation.largest
            count += bool(row.repeats)
    assert count > 20


def translations(seed: int, kills: bool = True, late: bool = False) -> Counter[str]:
    rng = random.Random(seed)
    simulation = MapSimulation(rng, rng.randint(1, 3), rng.choice((0, 0, 2, 4)), rng.random() < 0.7)
    simulation.grow()
    lived(rng, simulation, kills, late)
    if rng.random() < 0.5:
        simulation.drain()
        simulation.commit()
    began = simulation.began  # a mirror that was just started may send again what was read, and nothing tells of it yet
    read = {s.tp: rng.choice([b for b in s.borders if rng.random() < 0.3] or [s.end]) for s in simulation.sources}
    facts = Facts(
        {tp: (0, len(log)) for tp, log in simulation.logs.items()}, {s.tp: (0, s.end) for s in simulation.sources}, read
    )
    found = translated(simulation.map, facts, {"t": simulation.targets})
    for _ in range(rng.randrange(3)):
        simulation.grow()  # what comes after the translation is not read either
    simulation.drain()
    said: Counter[str] = Counter()
    for target, row in found.items():
        said[type(row).__name__] += 1
        if isinstance(row, Safe):
            check(simulation, read, target, row, seed, bounded=began and not late)
    return said


def check(
    simulation: MapSimulation,
    read: dict[TopicPartition, int],
    target: TopicPartition,
    row: Safe,
    seed: int,
    bounded: bool,
) -> None:
    log = simulation.logs[target]
    there = set(log[row.position :])
    repeats = 0
    for source in simulation.sources:
        unread = set(source.unread(read[source.tp]))
        wanted = {(source.tp, n) for n in unread if source.targets[n] == target}
        assert wanted <= there, f"seed {seed}: {target} from {row.position} lacks {sorted(wanted - there)[:3]}"
        repeats += sum(1 for tp, n in log[row.position :] if tp == source.tp and n not in unread)
    if bounded:
        assert repeats <= row.repeats, f"seed {seed}: {target} from {row.position}: {repeats} twice, not {row.repeats}"


@pytest.mark.thorough
@pytest.mark.parametrize("kills", [False, True])
def test_nothing_is_lost_and_no_more_is_repeated_than_promised(kills: bool) -> None:
    said: Counter[str] = Counter()
    for seed in range(700):
        said += translations(seed, kills)
    assert said["Safe"] > 500


def test_nothing_is_lost_when_requests_of_the_dead_are_stored_late() -> None:
    for seed in range(600):
        translations(seed, late=True)
