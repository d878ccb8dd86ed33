"""Assignment exactly as the JVM's (coordination.md 2.6 and 2.11; rows R1 to R14, RR1 to RR7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwork.java import string_hash
from kafkawire.model import BrokerPartition, TopicPartition
from kafkawire.znodes.v08 import thread_ids
from zkconsumer.group.assignor import StrategyRefused, Threads, assign, assign_range, assign_roundrobin, java_order


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


# Round robin ---------------------------------------------------------------------------------------------------------

TWO = threads(a=1, b=1)
DEALT = {
    "RR1": (
        {"t0": range(3), "t1": range(3)},
        TWO,
        {"a-0": "t0/0 t0/2 t1/1", "b-0": "t0/1 t1/0 t1/2"},
    ),
    "RR2": (
        {"t": range(12)},
        threads(a=2, b=1),
        {"a-0": "t/10 t/1 t/4 t/7", "a-1": "t/11 t/2 t/5 t/8", "b-0": "t/0 t/3 t/6 t/9"},
    ),
    "RR3": (
        {"orders": range(2), "payments": range(2), "clicks": range(1)},
        threads(a=2, b=2),
        {"a-0": "orders/0 clicks/0", "a-1": "orders/1", "b-0": "payments/0", "b-1": "payments/1"},
    ),
    "RR4": (
        {name: range(1) for name in ("alpha", "beta", "gamma", "delta")},
        TWO,
        {"a-0": "beta/0 alpha/0", "b-0": "delta/0 gamma/0"},
    ),
    "RR7": ({"t": range(1)}, TWO, {"a-0": "t/0", "b-0": ""}),
}


@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize("row", DEALT)
def test_the_jvm_deals_like_this(row, relaxed):
    partitions, names, expected = DEALT[row]
    for order in (names, names[::-1]):
        share = assign_roundrobin(partitions, dict.fromkeys(partitions, order), relaxed)
        assert {thread: " ".join(map(str, tps)) for thread, tps in share.items()} == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[t,0]", 87540032),
        ("[t0,0]", -1581112286),
        ("[t1,0]", -1581082495),
        ("[t,10]", -1581226645),
        ("[t,11]", -1581226614),
        ("[orders,0]", -1093576615),
        ("[payments,0]", 1617066449),
        ("[clicks,0]", 1627908499),
        ("[beta,0]", -535395666),
        ("[gamma,0]", 1263925165),
        ("[x,0]", 87659196),
    ],
)
def test_the_hash_of_a_partition_is_javas(text, expected):
    assert string_hash(text) == expected


def test_roundrobin_refuses_other_stream_counts_for_one_topic_with_the_jvms_reason():
    """RR5."""
    with pytest.raises(StrategyRefused, match=r"same number of streams per topic: topic A has the threads a-0, a-1, b"):
        assign_roundrobin({"A": [0], "B": [0]}, {"A": threads(a=2, b=1), "B": threads(a=1, b=1)})


def test_roundrobin_refuses_members_with_other_topics_until_0_10_2():
    """RR6."""
    partitions, names = {"x": [0, 1], "y": [0, 1]}, {"x": threads(a=1, b=1), "y": threads(b=1)}
    with pytest.raises(StrategyRefused, match="subscribe to the same topics"):
        assign("roundrobin", partitions, names)
    share = assign("roundrobin", partitions, names, relaxed=True)
    assert {thread: " ".join(map(str, tps)) for thread, tps in share.items()} == {"a-0": "x/0", "b-0": "x/1 y/0 y/1"}


def test_a_topic_that_is_not_there_counts_in_the_precondition_and_has_nothing_to_deal():
    assert assign_roundrobin({"t": [0]}, {"t": TWO, "nosuch": TWO}) == {
        "a-0": [TopicPartition("t", 0)],
        "b-0": [],
    }
    with pytest.raises(StrategyRefused):
        assign_roundrobin({"t": [0]}, {"t": TWO, "nosuch": threads(a=1)})


def test_nobody_reads_anything_and_nothing_is_dealt():
    """KAFKA-1648: 0.8.2 failed here."""
    assert assign_roundrobin({}, {}) == {}


@given(
    st.dictionaries(st.sampled_from(["t", "u", "Aa", "BB", "orders"]), st.integers(0, 9), max_size=5),
    st.lists(st.tuples(st.integers(1, 3), st.sets(st.sampled_from(["t", "u", "Aa", "BB"]))), min_size=1, max_size=4),
)
def test_every_partition_that_somebody_reads_is_dealt_once_to_one_that_reads_it(counts, members):
    names: dict[str, list[str]] = {}
    for n, (streams, topics) in enumerate(members):
        for topic in topics:
            names.setdefault(topic, []).extend(thread_ids(f"c{n}", streams))
    partitions = {topic: list(range(count)) for topic, count in counts.items()}
    share = assign_roundrobin(partitions, names, relaxed=True)
    dealt = [tp for tps in share.values() for tp in tps]
    assert sorted(dealt) == sorted(TopicPartition(t, p) for t in names for p in partitions.get(t, ()))
    assert all(thread in names[tp.topic] for thread, tps in share.items() for tp in tps)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 30))
def test_shares_that_are_dealt_to_all_alike_differ_by_one(streams, count):
    names = [thread for n, each in enumerate(streams) for thread in thread_ids(f"c{n}", each)]
    strict = assign_roundrobin({"t": range(count)}, {"t": names})
    sizes = [len(strict[thread]) for thread in java_order(names)]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1
    assert strict == assign_roundrobin({"t": range(count)}, {"t": names}, relaxed=True)


MEMBERS = st.dictionaries(st.sampled_from(["c", "c-1", "C", "c-1-0", "d\U0001f600", "d\ufffd"]), st.integers(1, 130))


@given(MEMBERS, st.integers(0, 300))
def test_threads_are_those_of_their_members_in_javas_order(streams, most):
    names = java_order([thread for member, count in streams.items() for thread in thread_ids(member, count)])
    lazy = Threads(streams)
    assert (list(lazy), len(lazy), lazy.first(most), lazy[3:most]) == (names, len(names), names[:most], names[3:most])
    assert all(name in lazy for name in names)
    assert not any(f"{member}-{number}" in lazy for member, n in streams.items() for number in (n, "²", "", "01x"))


TOPICS = st.dictionaries(st.sampled_from(["t", "u", "v"]), MEMBERS, min_size=1)


@given(
    TOPICS,
    st.dictionaries(st.sampled_from(["t", "u", "v"]), st.integers(0, 40)),
    st.sampled_from(["range", "roundrobin"]),
)
def test_an_assignment_by_numbers_is_that_by_names(streams, counts, strategy):
    partitions = {topic: list(range(count)) for topic, count in counts.items()}
    lazy = {topic: Threads(of) for topic, of in streams.items()}
    found = assign(strategy, partitions, lazy, relaxed=True)
    by_names = assign(strategy, partitions, {topic: list(names) for topic, names in lazy.items()}, relaxed=True)
    assert {thread: tps for thread, tps in found.items() if tps} == {
        thread: tps for thread, tps in by_names.items() if tps
    }
