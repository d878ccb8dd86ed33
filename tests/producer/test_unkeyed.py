"""Where messages without a key go."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

from producer.partitioners import UnkeyedPartitioner

LED = [0, 1, 2, 3]


def test_random_and_batch_use_all_partitions_evenly():
    for way in ("random", "batch"):
        chooser = UnkeyedPartitioner(way, 600, random.Random(1))
        found = Counter(chooser.choose("t", LED) for _ in range(4000))
        assert set(found) == set(LED)
        assert min(found.values()) > 800


def test_batch_never_takes_the_last_one_again_where_there_is_another():
    chooser = UnkeyedPartitioner("batch", 600, random.Random(1))
    assert all(before != after for before, after in pairwise(chooser.choose("t", LED) for _ in range(500)))
    assert {chooser.choose("t", LED[:2]) for _ in range(50)} == {0, 1}  # two have lost their leaders
    assert {chooser.choose("t", [3]) for _ in range(5)} == {3}


def test_round_robin_takes_the_next_one_topic_by_topic():
    chooser = UnkeyedPartitioner("round-robin", 600, random.Random(1))
    first = [chooser.choose("t", LED) for _ in range(8)]
    assert [(after - before) % 4 for before, after in pairwise(first)] == [1] * 7
    chooser.choose("u", LED)
    assert chooser.choose("t", LED) == (first[-1] + 1) % 4


def test_sticky_stays_for_its_time_or_until_the_leader_is_gone():
    clock = [0.0]
    chooser = UnkeyedPartitioner("sticky", 600, random.Random(1), lambda: clock[0])
    chosen = chooser.choose("t", LED)
    clock[0] = 599.0
    assert {chooser.choose("t", LED) for _ in range(100)} == {chosen}
    others = [p for p in LED if p != chosen]
    assert chooser.choose("t", others) in others
    seen = set()
    for _ in range(100):
        clock[0] += 601
        seen.add(chooser.choose("t", LED))
    assert seen == set(LED)


def test_a_negative_refresh_time_changes_nothing_but_for_a_lost_leader():
    clock = [0.0]
    chooser = UnkeyedPartitioner("sticky", -1, random.Random(2), lambda: clock[0])
    chosen = chooser.choose("t", LED)
    clock[0] = 1e9
    assert {chooser.choose("t", LED) for _ in range(50)} == {chosen}
