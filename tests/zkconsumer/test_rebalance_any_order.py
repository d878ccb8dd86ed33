"""The step machine under any order of events: a group on paper, thrown about (test_rebalance has the single steps)."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.model import TopicPartition
from tests.scenarios.rebalance.world import World
from zkconsumer.member.steps import Do

NAMES = ["a", "b", "c"]
BREAKABLE = [Do.REGISTER, Do.READ, Do.COMMIT, Do.RELEASE, Do.CLAIM, Do.LOCATE, Do.LEAVE]
happenings = st.one_of(
    st.tuples(st.just("join"), st.sampled_from(NAMES), st.integers(0, 3), st.integers(0, 2)),
    st.tuples(st.sampled_from(["kill", "lose", "close", "spoil", "take", "unregister"]), st.sampled_from(NAMES)),
    st.tuples(st.just("topic"), st.sampled_from(["t", "u"]), st.integers(0, 5)),
    st.tuples(st.just("break"), st.sampled_from(NAMES), st.sampled_from(BREAKABLE)),
    st.tuples(st.just("steps"), st.integers(1, 12)),
    st.tuples(st.sampled_from(["foreign", "free"]), st.integers(0, 4)),
    st.tuples(st.just("time")),
)


def happen(world, event, rng):
    match event:
        case ("join", name, t, u) if name not in world.members:
            world.join(name, {topic: n for topic, n in (("t", t), ("u", u)) if n})
        case (("kill" | "lose" | "close") as what, name) if name in world.members:
            getattr(world, what)(name)
        case ("spoil", name) if name in world.ids and name in world.members:
            world.spoil(name)
        case ("unregister", name) if name in world.ids and name in world.members:
            world.unregister(name)
        case ("take", name) if name in world.members:
            mine = [tp for tp, owner in world.owners.items() if owner.session == world.members[name].session]
            if mine:
                world.take(rng.choice(mine))
        case ("topic", name, count):
            world.topic(name, list(range(count)))
        case ("break", name, what):
            world.breaks[name] = what
        case ("steps", count):
            for _ in range(count):
                if world.movable():
                    world.step(rng.choice(world.movable()))
        case ("foreign", partition) if TopicPartition("t", partition) not in world.owners:
            world.foreign(TopicPartition("t", partition), "x-0")
        case ("free", partition) if TopicPartition("t", partition) in strange(world):
            world.free(TopicPartition("t", partition))
        case ("time",):
            world.pass_time()


def strange(world):
    """Partitions that nobody here owns, and somebody."""
    return [tp for tp, owner in world.owners.items() if not owner.session]


@settings(max_examples=400, deadline=None)
@given(st.lists(happenings, max_size=40), st.integers(0, 2**32))
def test_never_two_readers_and_in_the_end_every_partition_has_one(events, seed):
    rng = random.Random(seed)
    world = World()
    world.topic("t", [0, 1, 2])
    world.topic("u", [0])
    for event in events:
        happen(world, event, rng)
    world.breaks.clear()
    world.run(rng.choice)
    for tp in strange(world):
        world.free(tp)
    for name in list(world.ids):
        if name in world.members:
            world.mend(name)
    for _ in range(30):
        world.run(rng.choice)
        if not world.pass_time():
            break
    world.check_whole()


@settings(max_examples=150, deadline=None)
@given(st.lists(happenings, max_size=25), st.sets(st.integers(0, 4), min_size=1, max_size=3), st.integers(0, 2**32))
def test_a_foreign_owner_that_stays_for_ever_costs_its_partition_only(events, foreign, seed):
    rng = random.Random(seed)
    world = World()
    world.topic("t", [0, 1, 2])
    world.topic("u", [0])
    for event in events:
        if event[0] not in ("foreign", "free"):
            happen(world, event, rng)
    world.breaks.clear()
    world.run(rng.choice)
    for name in [name for name in world.ids if name in world.members]:
        world.mend(name)
    for p in foreign:
        if TopicPartition("t", p) in world.owners:
            world.take(TopicPartition("t", p))
        world.foreign(TopicPartition("t", p), "x-0")
    for _ in range(30):
        world.run(rng.choice)
        world.pass_time()
    world.run(rng.choice)
    for member in world.members.values():
        wanted = {tp for tp in member.state.wanted if tp.topic != "t" or tp.partition not in foreign}
        assert member.reading == wanted
        assert member.state.owned.keys() == wanted
