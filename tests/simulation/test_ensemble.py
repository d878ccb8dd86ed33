"""Groups on a ZooKeeper ensemble in virtual time: what one server alone does not show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.mutations import ENSEMBLE_MUTATIONS, mutated
from tests.simulation.schedule import GroupEvent, Schedule, schedule
from tests.simulation.world import BEFORE_S, World, run, shortest

SCHEDULES = 30
ALONE = Schedule(1, {"t0": 4}, dict.fromkeys("abcd", (1, False)), (GroupEvent(0.0, "join", "a"),), 3, 2.0, 5)


pytestmark = pytest.mark.usefixtures("group_time")


def test_schedules_with_an_ensemble_keep_all_promises() -> None:
    for seed in range(1000, 1000 + SCHEDULES):
        if run(schedule(seed, 3)) is not None:
            pytest.fail(str(shortest(schedule(seed, 3))), pytrace=False)


@pytest.mark.parametrize("server", ["zookeeper-1", "zookeeper-2"])
def test_a_member_leaves_a_server_that_is_stopped(server: str) -> None:
    """Within two thirds of its session: it holds a lease again long before the server is continued."""
    world = World(replace(ALONE, events=(*ALONE.events, GroupEvent(5.0, "server freeze", server, 25.0))))
    leases: list[bool] = []
    world.timeline.at(BEFORE_S + 12.0, lambda: leases.append(not world.members["a"].assignment.session.fenced))
    assert world.run() is None
    assert leases == [True]


# A follower is cut off for less than its syncLimit; there is something to send when the majority has ended sessions.
CUT_OFF = (
    GroupEvent(0.85, "join", "a"),
    GroupEvent(0.85, "join", "b"),
    GroupEvent(5.95, "server cut", "zookeeper-1", 9.0),
    *(GroupEvent(9.5 + n / 8, "produce", "t0", 2) for n in range(32)),
)
# With the way of a member, too, which would go to another server otherwise; the last touch is half a tick old.
STORIES = {
    "a lease by an answered read": CUT_OFF,
    "a lease without a margin": (*CUT_OFF, GroupEvent(5.96, "cut", "a", 8.0)),
}
TRIES = 40  # seeds: whose server it is, and when ticks and touches are


@pytest.mark.parametrize("name", ENSEMBLE_MUTATIONS)
def test_a_wrong_lease_is_found_at_a_follower_that_is_cut_off(name: str) -> None:
    stories = [
        Schedule(seed, {"t0": 6}, dict.fromkeys("abcd", (1, False)), STORIES[name], 3, 2.0, 5) for seed in range(TRIES)
    ]
    with mutated(name):
        found = next((story for story in stories if run(story) is not None), None)
    assert found is not None, f"all promises are kept although there is {name}"
    assert run(found) is None, "and without it they are kept"
