"""Assignors: as the Java consumer's, by what its own classes say (AssignorOracle.java); sticky by its promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.model import TopicPartition
from zkconsumer.kafkagroup.assignors import (
    ASSIGNORS,
    STICKY,
    GroupMember,
    assign_range,
    assign_sticky,
    read_sticky_user_data,
    spread,
    sticky_user_data,
)

VECTORS = [json.loads(line) for line in Path(__file__).with_name("java_assignors.jsonl").read_text().splitlines()]


def member(name: str, *topics: str, had: str = "", had_in: int = -1) -> GroupMember:
    return GroupMember(name, frozenset(topics), had=tuple(map(tp, had.split())), had_in=had_in)


def tp(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("/")
    return TopicPartition(topic, int(partition))


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_each_group_is_divided_as_javas_own_classes_do(strategy: str) -> None:
    assert len(VECTORS) == 120
    for vector in VECTORS:
        instances = vector["instances"]
        members = [GroupMember(name, frozenset(t), instances.get(name)) for name, t in vector["members"].items()]
        assigned = ASSIGNORS[strategy](vector["partitions"], members)
        found = {name: sorted(map(str, tps)) for name, tps in assigned.items()}
        assert found == {name: sorted(tps) for name, tps in vector[strategy].items()}, vector


def test_a_topic_that_does_not_exist_gives_nobody_anything() -> None:
    assert assign_range({}, [member("a", "t"), member("b", "t")]) == {"a": [], "b": []}


def test_sticky_moves_no_more_than_a_new_member_needs() -> None:
    before = [member("a", "t", had="t/0 t/1 t/2", had_in=4), member("b", "t", had="t/3 t/4 t/5", had_in=4)]
    assigned = assign_sticky({"t": 6}, [*before, member("c", "t")])
    assert {name: len(tps) for name, tps in assigned.items()} == {"a": 2, "b": 2, "c": 2}
    assert set(assigned["a"]) < {tp("t/0"), tp("t/1"), tp("t/2")}
    assert set(assigned["b"]) < {tp("t/3"), tp("t/4"), tp("t/5")}


def test_of_two_that_had_a_partition_the_later_generation_keeps_it() -> None:
    members = [member("a", "t", had="t/0 t/1", had_in=3), member("b", "t", had="t/0 t/1", had_in=4)]
    assert set(assign_sticky({"t": 4}, members)["b"]) == {tp("t/0"), tp("t/1")}


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, int], list[GroupMember]]:
    counts = draw(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 6)))
    everything = [TopicPartition(topic, p) for topic, n in counts.items() for p in range(n)]
    names = draw(st.sets(st.sampled_from(["m1", "m10", "m2", "M", "é"]), min_size=1))
    return counts, [
        GroupMember(
            name,
            draw(st.frozensets(st.sampled_from("abcd"), min_size=1)),
            had=tuple(draw(st.sets(st.sampled_from(everything)))) if everything else (),
            had_in=draw(st.integers(-1, 3)),
        )
        for name in sorted(names)
    ]


@given(groups(), st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_that_anybody_wants_has_one_owner_who_wants_it(
    group: tuple[dict[str, int], list[GroupMember]], strategy: str
) -> None:
    counts, members = group
    assigned = ASSIGNORS[strategy](counts, members)
    given_out = [tp for tps in assigned.values() for tp in tps]
    wanted = {topic for m in members for topic in m.topics}
    assert sorted(given_out) == sorted(TopicPartition(t, p) for t, n in counts.items() if t in wanted for p in range(n))
    topics = {m.member_id: m.topics for m in members}
    assert all(tp.topic in topics[name] for name, tps in assigned.items() for tp in tps)
    if strategy == STICKY:
        for giver, tps in assigned.items():
            for taker, fewer in assigned.items():
                assert len(tps) - len(fewer) < 2 or not any(tp.topic in topics[taker] for tp in tps), giver


def test_what_a_sticky_member_had_is_read_in_both_forms_and_rubbish_is_nothing() -> None:
    had = (tp("t/0"), tp("t/2"), tp("u/1"))
    data = sticky_user_data(had, 7)
    assert read_sticky_user_data(data) == (had, 7)
    assert read_sticky_user_data(data[:-4]) == (had, -1)  # before 2.3
    assert read_sticky_user_data(None) == ((), -1)
    assert read_sticky_user_data(b"\x00\x01") == ((), -1)


def test_the_streams_of_a_member_share_what_is_assigned_to_it() -> None:
    tps = [tp(f"{topic}/{p}") for topic in ("t", "u") for p in range(3)]
    found = spread(tps, {None: ["c-0", "c-1"]})
    assert sorted(found.values()) == ["c-0"] * 3 + ["c-1"] * 3
    assert spread(tps, {"t": ["c-0"]}) == {tp(f"t/{p}"): "c-0" for p in range(3)}  # no stream reads u
