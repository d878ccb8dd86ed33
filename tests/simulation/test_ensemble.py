"""Groups on a ZooKeeper ensemble in virtual time: what one server alone does not show."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.simulation.schedule import Event, Schedule, schedule
from tests.simulation.world import BEFORE_S, World, run, shortest, virtual_time

SCHEDULES = 30
FOUND_WITHIN = 2000
ALONE = Schedule(1, {"t0": 4}, dict.fromkeys("abcd", (1, False)), (Event(0.0, "join", "a"),), 3, 2.0, 5)


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    with virtual_time():
        yield
    logging.disable(logging.NOTSET)


def test_schedules_with_an_ensemble_keep_all_promises() -> None:
    for seed in range(1000, 1000 + SCHEDULES):
        if run(schedule(seed, 3)) is not None:
            pytest.fail(str(shortest(schedule(seed, 3))), pytrace=False)


@pytest.mark.parametrize("server", ["zookeeper-1", "zookeeper-2"])
def test_a_member_leaves_a_server_that_is_stopped(server: str) -> None:
    """Within two thirds of its session: it holds a lease again long before the server is continued."""
    world = World(replace(ALONE, events=(*ALONE.events, Event(5.0, "server freeze", server, 25.0))))
    leases: list[bool] = []
    world.timeline.at(BEFORE_S + 12.0, lambda: leases.append(not world.members["a"].assignment.session.fenced))
    assert world.run() is None
    assert leases == [True]
