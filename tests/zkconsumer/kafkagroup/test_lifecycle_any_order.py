"""Members of a coordinated group in any order of events: one reader a partition at every moment, and all are read."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scenarios.coordinated.story import EFFECTS
from tests.scenarios.coordinated.world import World
from tests.scenarios.stories import happen
from zkconsumer.kafkagroup.lifecycle import JoiningMember
from zkconsumer.member.machine import begin, step
from zkconsumer.member.steps import Claim, Do, Failed, Fenced, Finished, Joined, Phase, Synced

NAMES = "abc"
HAPPENINGS = [
    *(f"{what} {name}" for name in NAMES for what in ("freeze", "thaw", "expire", "cut", "mend", "lease", "close")),
    *(f'break {name} at "{do.value}"' for name in NAMES for do in (Do.JOIN, Do.SYNC, Do.LOCATE, Do.COMMIT)),
    *(f"join {name} {topics}" for name in NAMES for topics in ("t", "t u")),
    "timeouts 60 20",
    "topic t 3",
    "topic u 2",
    "move",
    "forget",
    "time",
    "time",
]


def possible(world: World, line: str) -> bool:
    words = line.split()
    member = world.members.get(words[1]) if len(words) > 1 else None
    if words[0] == "join":
        return member is None
    if words[0] == "thaw":
        return member is not None and member.frozen
    if words[0] in ("freeze", "lease", "cut", "mend", "close", "break"):
        return member is not None and not member.frozen
    return True


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(HAPPENINGS), st.integers(0, 6)), max_size=25), st.integers())
def test_each_partition_has_one_reader_at_every_moment_and_one_in_the_end(
    lines: list[tuple[str, int]], seed: int
) -> None:
    chance = random.Random(seed)
    world = World()
    happen(EFFECTS, world, "topic t 2")
    happen(EFFECTS, world, "join a")
    for line, steps in lines:
        if possible(world, line):
            happen(EFFECTS, world, line)
        for _ in range(steps):
            names = world.movable()
            if names:
                world.step(chance.choice(names))
    world.breaks.clear()
    for name, member in list(world.members.items()):
        if member.frozen:
            world.thaw(name)
        world.mend(name)
    dead = {member.name for member in world.known.values()} - world.members.keys()
    for name in dead:
        world.expire(name)
    for _ in range(20):
        world.run(lambda names: chance.choice(names))
        world.pass_time()
    world.run()
    world.check_whole()


def settled() -> JoiningMember:
    state, _ = begin(JoiningMember(4, 500))
    state, _ = step(state, Joined(state.turn, Claim(3, "m")))
    state, _ = step(state, Synced(state.turn, {}))
    assert state.settled
    return state


def test_a_fence_of_an_earlier_claim_changes_nothing() -> None:
    state = settled()
    assert step(state, Fenced(Claim(2, "m"))) == (state, [])


def test_a_late_report_changes_nothing_and_a_wrong_one_is_a_bug() -> None:
    state = settled()
    assert step(state, Finished(state.turn - 1)) == (state, [])
    with pytest.raises(ValueError, match="Finished is not a report for a member that is settled"):
        step(state, Finished(state.turn))


def test_the_backoff_grows_to_eight_times_and_alarms_are_rare() -> None:
    state, actions = begin(JoiningMember(2, 100))
    waits, alarms = [], 0
    for _ in range(8):
        state, actions = step(state, Failed(state.turn, "no broker"))
        assert state.phase is Phase.WAITING
        alarms += sum(action.do is Do.ALARM for action in actions)
        waits += [action.wait_ms for action in actions if action.do is Do.WAIT]
        state, actions = step(state, Finished(state.turn))
    assert waits == [100, 100, 200, 400, 800, 800, 800, 800]
    assert alarms == 4
