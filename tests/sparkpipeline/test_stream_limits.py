"""How far a micro-batch goes: figures as Spark's own rateLimit and delayBatch give them."""

from __future__ import annotations

import pytest

from kafkawire.model import TopicPartition
from sparkpipeline.source.microbatches import MinOffsets, limited_ends

A, B, C = (TopicPartition("t", n) for n in range(3))


@pytest.mark.parametrize(
    ("begin", "end", "most", "goes_to"),
    [
        ({A: 0, B: 0}, {A: 100, B: 100}, 10, {A: 5, B: 5}),
        ({A: 0, B: 0}, {A: 300, B: 100}, 10, {A: 7, B: 2}),  # 7.5 and 2.5: rounded down
        ({A: 0, B: 0}, {A: 1000, B: 1}, 10, {A: 9, B: 1}),  # 0.0099: but at least one
        ({A: 5, B: 7}, {A: 6, B: 7}, 10, {A: 6, B: 7}),  # all of it fits
        ({A: 0, B: 0, C: 0}, {A: 9, B: 9, C: 9}, 2, {A: 1, B: 1, C: 1}),  # more partitions than the limit
        ({A: 10, B: 0}, {A: 4, B: 100}, 10, {A: 4, B: 10}),  # a log that ends before the position has no lag
        ({A: 0}, {A: 2**63 - 1}, 5, {A: 5}),
        ({}, {}, 5, {}),
    ],
)
def test_a_limit_is_shared_out_by_lag(begin, end, most, goes_to):
    assert limited_ends(begin, end, most) == goes_to


def test_small_partitions_are_done_before_large_ones_are_starved():
    at, batches = {A: 0, B: 0}, 0
    end = {A: 1000, B: 3}
    while at != end:
        after = limited_ends(at, end, 100)
        assert sum(after.values()) - sum(at.values()) <= 101
        at, batches = after, batches + 1
    assert batches == 11


def test_bytes_are_shared_out_by_what_messages_weigh():
    begin, end = {A: 0, B: 0}, {A: 1000, B: 1000}
    assert limited_ends(begin, end, 100_000, {A: 100.0, B: 900.0}) == {A: 100, B: 100}
    assert limited_ends(begin, end, 10**9, {A: 100.0, B: 900.0}) == end
    assert limited_ends(begin, end, 1, {A: 100.0, B: 900.0}) == {A: 1, B: 1}


def test_a_batch_waits_for_enough_but_not_for_ever():
    patience = MinOffsets(100, delay_s=60)
    assert not patience.waits({A: 0}, {A: 1}, now_s=1000)  # the first of a run
    assert patience.waits({A: 1}, {A: 100}, now_s=1059)
    assert not patience.waits({A: 1}, {A: 101}, now_s=1059.5)
    assert patience.waits({A: 101}, {A: 102}, now_s=1119)
    assert not patience.waits({A: 101}, {A: 102}, now_s=1119.5)
    assert not MinOffsets(None, 60).waits({A: 0}, {A: 0}, now_s=0)
