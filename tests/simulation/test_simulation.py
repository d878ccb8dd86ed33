"""Schedules of a group, and the proof that the simulation finds what is wrong: `make simulate` goes on."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import pytest

from tests.simulation.mutations import MUTATIONS, mutated
from tests.simulation.schedule import GroupEvent, Schedule, schedule, shrink
from tests.simulation.world import run, shortest, told
from tests.simulation.zookeeper import client

SCHEDULES, CPU_S = 300, 2.5  # whichever comes first
SEEDS = 250  # a mutation is found within so many
JOINED = (GroupEvent(0.0, "join", "a"), GroupEvent(0.5, "join", "b"))
PRODUCED = tuple(GroupEvent(3.0 + n, "produce", "t0", 40) for n in range(6))


pytestmark = pytest.mark.usefixtures("group_time")


def test_schedules_keep_all_promises() -> None:
    until, seen, done = time.process_time() + CPU_S, Counter[str](), 0
    for seed in range(1000, 1000 + SCHEDULES):
        if done >= 20 and time.process_time() > until:
            break
        if run(schedule(seed), seen) is not None:
            pytest.fail(str(shortest(schedule(seed))), pytrace=False)
        done += 1
    assert seen["messages sent"] > 10 * done
    assert seen["released"] > 0
    assert seen["fence"] > 0, "nothing happened that could go wrong"


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_decision_is_found(name: str) -> None:
    with mutated(name):
        found = next((seed for seed in range(SEEDS) if run(schedule(seed)) is not None), None)
    assert found is not None, f"{SEEDS} schedules keep all promises although there is {name}"
    assert run(schedule(found)) is None, "and without it they are kept"


def test_a_failing_schedule_is_shrunk_to_a_story() -> None:
    with mutated("no fence"):
        seed = next(seed for seed in range(SEEDS) if run(schedule(seed)) is not None)
        story = shortest(schedule(seed))
    assert len(story.schedule.events) < len(schedule(seed).events)
    assert "may send of it, too" in str(story)
    assert " joins" in str(story)


def test_a_schedule_is_the_same_again() -> None:
    def once() -> tuple[Counter[str], object]:
        seen = Counter[str]()
        return seen, run(schedule(7), seen)

    assert once() == once()


def test_shrinking_keeps_what_is_needed() -> None:
    events = tuple(GroupEvent(float(n), "join", "a", n) for n in range(20))
    given = Schedule(1, {}, {}, events)
    kept = shrink(given, lambda tried: {events[3], events[17]} <= set(tried.events))
    assert kept == replace(given, events=(events[3], events[17]))


@pytest.mark.parametrize("freeze", ["freeze", "freeze, sockets first"])
def test_a_frozen_member_is_fenced_and_another_takes_over(freeze: str) -> None:
    """Frozen for longer than its session while it has messages to send: told by hand, to see that what is simulated is
    what is meant."""
    events = (
        GroupEvent(0.0, "join", "a"),
        GroupEvent(0.5, "join", "b"),
        GroupEvent(3.0, "produce", "t0", 40),
        GroupEvent(3.1, freeze, "a", 10.0),
        GroupEvent(14.0, "produce", "t0", 5),
    )
    given = Schedule(1, {"t0": 4}, dict.fromkeys("abcd", (1, False)), events)
    seen = Counter[str]()
    assert run(given, seen) is None
    assert seen["fence"] == 1
    with mutated("no fence"):
        found = told(given)
    assert found is not None
    assert "may send of it, too" in found.why
    assert any("is frozen for 10.00 s" in line for line in found.told)


def test_a_suspended_member_sends_nothing_when_it_wakes_up() -> None:
    """Its timers stood still, so its fence is not due for seconds, and what arrived meanwhile comes first."""
    events = (
        GroupEvent(0.0, "join", "a"),
        GroupEvent(0.5, "join", "b"),
        GroupEvent(3.0, "produce", "t0", 40),
        GroupEvent(3.1, "suspend", "a", 12.0),
        GroupEvent(14.0, "produce", "t0", 5),
    )
    given = Schedule(1, {"t0": 4}, dict.fromkeys("abcd", (1, False)), events)
    seen = Counter[str]()
    assert run(given, seen) is None
    assert seen["fence"] == 1
    with mutated("a lease by a clock that stands still in a suspend"):
        found = told(given)
    assert found is not None
    assert "may send of it, too" in found.why


def test_a_clock_that_is_set_ahead_fences_nobody() -> None:
    """It may have been a pause, so the lease lapses; ZooKeeper answers the next heartbeat, and everything goes on."""
    set_ahead = tuple(GroupEvent(3.1 + n, "clock", "a", 3600.0) for n in range(6))
    given = Schedule(1, {"t0": 4}, dict.fromkeys("abcd", (1, False)), JOINED + PRODUCED + set_ahead)
    quiet, seen = Counter[str](), Counter[str]()
    assert run(replace(given, events=JOINED + PRODUCED), quiet) is None
    assert run(given, seen) is None
    assert seen["fence"] == 0
    assert seen["rebalance"] == quiet["rebalance"]
    assert seen["messages sent"] > quiet["messages sent"]  # what was in flight at a lapse may be sent again


def _costs_nothing(*events: GroupEvent) -> bool:
    """Whether nobody is fenced and no partition moves by that, beside two members that have messages to send."""
    given = Schedule(1, {"t0": 4}, dict.fromkeys("abcd", (1, False)), JOINED + PRODUCED)
    quiet, seen = Counter[str](), Counter[str]()
    assert run(given, quiet) is None
    assert run(replace(given, events=given.events + events), seen) is None
    return seen["fence"] == 0 and all(seen[kind] == quiet[kind] for kind in ("owned", "released"))


def test_silent_name_servers_cost_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost connection comes back by the last addresses, which are used soon enough for that."""
    events = GroupEvent(3.0, "names", "a", 12.0), GroupEvent(3.1, "reset", "a"), GroupEvent(9.0, "reset", "a", 2)
    assert _costs_nothing(*events)
    monkeypatch.setattr(client, "SOON_S", 7.0)
    assert not _costs_nothing(*events)


def test_a_disk_that_waits_costs_no_session() -> None:
    """Commits wait for it; heartbeats and messages do not."""
    assert _costs_nothing(GroupEvent(3.0, "disk", "a", 12.0, 8.0))
