"""Where the messages of a source partition go: one place each, the same one whatever brokers come and go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.model import BrokerPartition, PartitionId
from mirrormaker.partitioning import Numbering, by_source, numbering

pairs = st.builds(BrokerPartition, st.integers(0, 40), st.integers(0, 40))
B = BrokerPartition


def test_a_number_goes_to_its_number_as_far_as_there_are_as_many() -> None:
    assert [by_source(number, range(3)) for number in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_partitions_of_0_7_spread_over_numbers_by_a_rule_an_operator_can_work_out() -> None:
    assert by_source(B(2, 3), range(12)) == (2 + 13 * 3) % 12
    loads = [0] * 12
    for broker in range(3):
        for index in range(4):
            loads[int(str(by_source(B(broker, index), range(12))))] += 1
    assert max(loads) <= 3


@given(st.sets(pairs, min_size=2, max_size=12), pairs)
def test_a_target_broker_that_leaves_moves_only_what_went_to_it(
    there: set[BrokerPartition], source: PartitionId
) -> None:
    targets = sorted(there)
    chosen = by_source(source, targets)
    assert by_source(source, list(reversed(targets))) == chosen
    for gone in {target.broker for target in targets}:
        left = [target for target in targets if target.broker != gone]
        if left and isinstance(chosen, BrokerPartition) and chosen.broker != gone:
            assert by_source(source, left) == chosen


def test_targets_of_0_7_are_all_used() -> None:
    targets = [B(b, i) for b in range(3) for i in range(4)]
    used = {by_source(B(b, i), targets) for b in range(10) for i in range(10)}
    assert used == set(targets)


def test_numbers_run_from_broker_to_broker() -> None:
    counts = numbering("5:2, 0:3,7:1")
    every = [B(5, 0), B(5, 1), B(0, 0), B(0, 1), B(0, 2), B(7, 0)]
    assert [counts.number(partition) for partition in every] == list(range(6))
    assert (counts.total, str(counts), bool(counts), bool(Numbering())) == (6, "5:2,0:3,7:1", True, False)
    assert [counts.number(p) for p in (B(5, 2), B(1, 0))] == [None, None]
    assert Numbering().number(4) == 4
    assert numbering({5: 2, 0: 3, 7: 1}) == counts


@pytest.mark.parametrize("text", ["x", "0", "0:x", "0:0", "0:1,0:2", "-1:2", "0:1:2", "0:2,1"])
def test_a_numbering_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        numbering(text)
