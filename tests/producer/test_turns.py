"""Turns: what is due is found without visiting what is not; against a list that is searched through."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.model import Part, TopicPartition
from producer.batches import Batches, Limits
from producer.turns import Turns
from tests.fakes.tickets import Ticket

ACTIONS = st.lists(
    st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 9)), st.integers(0, 3)), max_size=40
)


@settings(max_examples=60)
@given(ACTIONS)
def test_the_ready_ones_are_those_that_are_due_and_the_next_is_the_soonest(actions):
    turns: Turns[int] = Turns()
    slow: dict[int, float] = {}
    now = 0.0
    for key, due_at, passes in actions:
        turns.set(key, due_at)
        if due_at is None:
            slow.pop(key, None)
        else:
            slow[key] = due_at
        now += passes
        turns.pass_to(now)
        assert turns.ready.keys() == {key for key, at in slow.items() if at <= now}
        found = turns.next(lambda key: key != 0)
        others = [at for key, at in slow.items() if key != 0]
        assert (found is None) == (not others)
        if found is not None and min(others) > now:
            assert found == min(others)
        elif found is not None:
            assert found <= now


def test_ready_ones_take_turns_and_keep_them():
    turns: Turns[str] = Turns()
    for key in "abc":
        turns.set(key, 0.0)
    turns.pass_to(1.0)
    turns.set("a", None)  # served
    turns.set("b", 0.5)  # still due
    turns.set("a", 0.0)
    turns.pass_to(1.0)
    assert list(turns.ready) == ["b", "c", "a"]


class Counted:
    """A connection's `mine` that counts the partitions it is asked about."""

    def __init__(self) -> None:
        self.visits = 0

    def __call__(self, tp: TopicPartition) -> bool:
        self.visits += 1
        return True


def test_of_2000_lingering_partitions_only_the_one_that_is_due_is_visited():
    batches = Batches(Limits(linger_s=5.0, batch_count=2))
    tps = [TopicPartition("t", n) for n in range(2000)]
    for tp in tps:
        batches.add(Part(tp, b"x", 0, 0, 1), Ticket(), 0.0)
    mine = Counted()
    assert not batches.is_due(1.0, mine)
    assert batches.next_due(mine) == 5.0
    batches.add(Part(tps[7], b"y", 0, 0, 1), Ticket(), 1.0)  # full
    assert batches.is_due(1.0, mine)
    (batch,) = batches.due(1.0, mine)
    assert batch.tp == tps[7]
    assert batches.next_due(mine) == 5.0
    assert mine.visits <= 5
    batches.complete(batch)
    batches.flush(1.5)
    assert len(batches.due(1.5, mine)) == 1999


def test_other_limits_count_for_what_is_queued():
    batches = Batches(Limits(linger_s=5.0))
    batches.add(Part(TopicPartition("t", 0), b"x", 0, 0, 1), Ticket(), 0.0)
    assert not batches.is_due(1.0, lambda tp: True)
    batches.limits = Limits(linger_s=0.5)
    assert batches.is_due(1.0, lambda tp: True)
