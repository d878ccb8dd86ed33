"""Whatever happens while a group moves from ZooKeeper to Kafka or back, nothing is skipped, and nothing that was
committed is read again; and the steps that are refused are refused for a reason."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from tests.fakes.modeworld import PARTITIONS, Step, World
from zkconsumer.offsets.modes import MODES, Mode

who = st.integers(0, 2)
modes = st.sampled_from(MODES)
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("read"), who, st.integers(1, 9)),
    st.tuples(st.just("commit"), who),
    st.tuples(st.just("bounce"), who, modes),
    st.tuples(st.just("switch"), who, modes),
    st.tuples(st.just("crash"), who),
    st.tuples(st.just("crash_between"), who),
    st.tuples(
        st.just("glitch"), st.sampled_from(["kafka", "zookeeper"]), st.integers(0, len(PARTITIONS) - 1), st.booleans()
    ),
)
HISTORIES = st.lists(STEPS, max_size=40)
SEARCH = settings(
    max_examples=5_000,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # any counterexample will do, not the shortest
    suppress_health_check=list(HealthCheck),
)


@settings(max_examples=400, deadline=None)
@given(modes, HISTORIES)
def test_nothing_is_skipped_and_what_was_committed_is_not_read_again(mode: Mode, steps: list[Step]):
    assert World(mode).play(steps) == []


def test_the_whole_way_there_and_back_is_open():
    """One member after the other, zookeeper -> dual -> kafka and back: no rule stands in the way."""
    world = World("zookeeper")
    for mode in ("dual", "kafka", "dual", "zookeeper"):
        for n in range(3):
            world.play([("read", n, 4), ("bounce", n, mode)])
        world.play([("read", n, 2) for n in range(3)] + [("commit", n) for n in range(3)])
    assert (world.refused, world.wrong) == (0, [])
    assert [member.mode for member in world.members] == ["zookeeper"] * 3
    assert all(world.read_so_far[tp] == world.committed[tp] > 20 for tp in PARTITIONS)


@pytest.mark.parametrize("step", [("zookeeper", "kafka"), ("kafka", "zookeeper")])
def test_a_step_that_is_refused_would_skip_or_repeat(step: tuple[Mode, Mode]):
    story = find(
        HISTORIES, lambda steps: bool(World(step[0], permitted=frozenset({step})).play(steps)), settings=SEARCH
    )
    assert any(action == "bounce" or action == "switch" for action, *_ in story)
    assert World(step[0]).play(story) == []


def test_members_of_one_store_each_beside_each_other_would_skip_or_repeat():
    rules = frozenset({"step", "behind"})
    story = find(HISTORIES, lambda steps: bool(World("dual", rules=rules).play(steps)), settings=SEARCH)
    assert World("dual").play(story) == []


@pytest.mark.parametrize("mode", ["zookeeper", "kafka"])
def test_leaving_dual_before_the_other_store_has_everything_would_skip_or_repeat(mode: Mode):
    rules = frozenset({"step", "beside"})
    story = find(HISTORIES, lambda steps: bool(World(mode, rules=rules).play(steps)), settings=SEARCH)
    assert World(mode).play(story) == []


def test_a_crash_between_the_two_costs_one_commit_at_most():
    world = World("dual")
    world.play([("read", 0, 7), ("crash_between", 0)])
    assert world.wrong == []
    tp = PARTITIONS[0]
    owner = next(member for member in world.members if tp in member.at)
    assert owner.at[tp] == 17  # the larger: Kafka has it
    assert world.zookeeper.held["g", tp] == 10
    world.play([("bounce", 1, "zookeeper")])
    assert world.refused == 0  # it committed to both on its way down
