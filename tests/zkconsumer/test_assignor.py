"""Range assignment exactly as the JVM's (coordination.md 2.6; rows R1 to R14)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.model import BrokerPartition, TopicPartition
from kafkawire.v08.znodes import thread_ids
from zkconsumer.assignor import assign_range, java_order


def threads(**counts: int) -> list[str]:
    return [thread for consumer, count in counts.items() for thread in thread_ids(consumer, count)]


def assigned(partitions: list, names: list[str]) -> dict[str, list]:
    share = assign_range({"t": partitions}, {"t": names})
    return {thread: [tp.partition for tp in tps] for thread, tps in share.items()}


R5 = {"a-0": [0, 1], "a-1": [2, 3], "a-10": [4, 5]} | {f"a-{n}": [n + 4] for n in range(2, 10)}
ROWS = {
    "R1": (range(5), threads(c1=2, c2=2), {"c1-0": [0, 1], "c1-1": [2], "c2-0": [3], "c2-1": [4]}),
    "R2": (range(8), threads(a=1, b=1, c=1), {"a-0": [0, 1, 2], "b-0": [3, 4, 5], "c-0": [6, 7]}),
    "R3": (range(3), threads(a=2, b=2), {"a-0": [0], "a-1": [1], "b-0": [2], "b-1": []}),
    "R4": (range(1), threads(a=1, b=1, c=1), {"a-0": [0], "b-0": [], "c-0": []}),
    "R5": (range(14), threads(a=11), R5),
    "R6": (range(10), threads(a=1, b=3), {"a-0": [0, 1, 2], "b-0": [3, 4, 5], "b-1": [6, 7], "b-2": [8, 9]}),
    "R7": ([0, 1, 2, 5, 9], threads(a=1, b=1), {"a-0": [0, 1, 2], "b-0": [5, 9]}),
    "R10": (
        range(4),
        ["g_host-1-b-0", "g_Host-1-a-0", "g_host10-1-c-0"],
        {"g_Host-1-a-0": [0, 1], "g_host-1-b-0": [2], "g_host10-1-c-0": [3]},
    ),
    "R11": (
        range(3),
        [*thread_ids("g_x", 2), *thread_ids("g_x-1", 1)],
        {"g_x-0": [0], "g_x-1": [1], "g_x-1-0": [2]},
    ),
    "R14": ([], threads(a=1), {"a-0": []}),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_jvm_divides_like_this(row):
    partitions, names, expected = ROWS[row]
    assert assigned(list(partitions), names) == expected
    assert assigned(list(partitions), names[::-1]) == expected


def in_text_order(counts: dict[int, int]) -> list[BrokerPartition]:
    """As 0.7 sorts: the names of the znodes as text."""
    return sorted((BrokerPartition(b, i) for b, count in counts.items() for i in range(count)), key=str)


@pytest.mark.parametrize(
    ("brokers", "names", "expected"),
    [
        pytest.param(
            {0: 12, 1: 2},
            threads(a=1, b=1),
            {"a-0": "0-0 0-1 0-10 0-11 0-2 0-3 0-4", "b-0": "0-5 0-6 0-7 0-8 0-9 1-0 1-1"},
            id="R8",
        ),
        pytest.param({2: 2, 10: 2}, threads(a=1, b=1, c=1), {"a-0": "10-0 10-1", "b-0": "2-0", "c-0": "2-1"}, id="R9"),
    ],
)
def test_the_order_of_partitions_is_the_callers(brokers, names, expected):
    share = assigned(in_text_order(brokers), names)
    assert {thread: " ".join(map(str, tps)) for thread, tps in share.items()} == expected


def test_topics_are_divided_one_by_one():
    """R12: the first threads get more of every topic."""
    both = threads(a=1, b=1)
    share = assign_range({"A": [0, 1, 2], "B": [0, 1, 2]}, {"A": both, "B": both})
    assert [len(share["a-0"]), len(share["b-0"])] == [4, 2]


def test_members_may_have_different_streams_for_each_topic():
    """R13."""
    share = assign_range({"A": [0, 1, 2, 3], "B": [0, 1]}, {"A": threads(a=2, b=1), "B": threads(b=1)})
    assert share == {
        "a-0": [TopicPartition("A", 0), TopicPartition("A", 1)],
        "a-1": [TopicPartition("A", 2)],
        "b-0": [TopicPartition("A", 3), TopicPartition("B", 0), TopicPartition("B", 1)],
    }


def test_a_topic_that_is_absent_gives_nobody_anything():
    assert assign_range({}, {"t": threads(a=1)}) == {"a-0": []}


def test_java_compares_utf16_code_units():
    assert java_order(["\uff5e", "\U0001f600", "b", "B", "-"]) == ["-", "B", "b", "\U0001f600", "\uff5e"]


@given(st.sets(st.integers(0, 60)), st.lists(st.integers(1, 12), min_size=1, max_size=6))
def test_every_partition_goes_to_one_thread_and_shares_differ_by_one(partitions, streams):
    names = [thread for n, count in enumerate(streams) for thread in thread_ids(f"c{n}", count)]
    share = assigned(sorted(partitions), names)
    assert sorted(p for tps in share.values() for p in tps) == sorted(partitions)
    sizes = [len(share[thread]) for thread in java_order(names)]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1
    assert [p for thread in java_order(names) for p in share[thread]] == sorted(partitions)
