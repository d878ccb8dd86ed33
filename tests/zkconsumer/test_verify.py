"""What is wrong with a group, from planted faults."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.model import TopicPartition
from kafkawire.znodes.v08 import thread_ids
from zkconsumer.group.assignor import assign
from zkconsumer.group.verify import Finding, GroupFacts, verify

T = [TopicPartition("t", p) for p in range(4)]
HEALTHY = GroupFacts(
    streams={"a": {"t": 1}, "b": {"t": 1}},
    owners={T[0]: "a-0", T[1]: "a-0", T[2]: "b-0", T[3]: "b-0"},
    partitions={"t": [0, 1, 2, 3]},
)


def owned(**changes):
    owners = dict(HEALTHY.owners)
    for name, owner in changes.items():
        tp = T[int(name[1:])]
        owners.pop(tp)
        if owner is not None:
            owners[tp] = owner
    return replace(HEALTHY, owners=owners)


def kinds(facts, strategy="range"):
    return [(finding.kind, finding.tp or finding.member) for finding in verify(facts, strategy) if finding.fault]


def test_nothing_is_said_of_a_healthy_group():
    assert verify(HEALTHY, "range") == []
    assert verify(GroupFacts({}, {}, {}), "range") == []


def test_a_partition_that_nobody_owns_is_found_and_whose_it_is():
    (found,) = verify(owned(t1=None), "range")
    assert found == Finding("no owner", "t/1 has no owner, so it is not read; it is a-0's", T[1])


def test_an_owner_that_is_not_registered_is_found():
    assert kinds(owned(t0="gone-0")) == [("not registered", T[0])]
    assert kinds(owned(t0="a-1")) == [("not registered", T[0])]  # a has one stream
    for number in ("x", "²", "9" * 4301, ""):
        assert kinds(owned(t0=f"a-{number}")) == [("not registered", T[0])]


def test_nodes_that_no_session_holds_are_found_with_what_deletes_them():
    """The advice was to stop a process that does not exist."""
    facts = replace(owned(t0="gone-0", t2=None, t3=None), sessionless_owners={T[0]}, sessionless_members={"b"})
    assert kinds(facts) == [("no session", "b"), ("no owner", T[2]), ("no owner", T[3]), ("no session", T[0])]
    assert all("`zkconsumer groups unblock`" in one.text for one in verify(facts, "range") if one.kind == "no session")


def test_an_owner_that_is_registered_and_not_the_assigned_thread_is_found():
    (found,) = verify(owned(t1="b-0"), "range")
    assert (found.kind, found.text, found.member) == ("not assigned", "t/1 is owned by b-0, and should be by a-0", "b")


def test_a_member_that_is_registered_and_owns_nothing_is_found():
    assert kinds(owned(t2=None, t3=None)) == [("no owner", T[2]), ("no owner", T[3]), ("reads nothing", "b")]


def test_a_client_that_leaves_the_thread_number_out_is_healthy():
    assert verify(owned(t2="b", t3="b"), "range") == []
    assert kinds(owned(t1="b")) == [("not assigned", T[1])]


def test_a_member_whose_id_looks_like_a_thread_of_another_is_told_from_it():
    facts = GroupFacts({"g": {"t": 1}, "g-1": {"t": 1}}, {T[0]: "g-0", T[1]: "g-1-0"}, {"t": [0, 1]})
    assert verify(facts, "range") == []


def test_a_member_that_nobody_can_read_is_a_fault_and_its_nodes_are_not_taken_for_orphans():
    facts = replace(owned(t3="x-0"), streams={"a": {"t": 1}}, unreadable={"b": "its node is empty", "x": "no JSON"})
    assert ("unreadable", "b") in kinds(facts)
    assert ("not registered", T[2]) not in kinds(facts)


def test_idle_threads_are_told_and_are_no_fault():
    facts = replace(HEALTHY, streams={"a": {"t": 4}, "b": {"t": 1}}, owners={T[n]: f"a-{n}" for n in range(4)})
    (found,) = verify(facts, "range")
    assert (found.kind, found.fault) == ("idle", False)
    assert "5 partitions, or a multiple of 5, would serve all" in found.text


def test_roundrobin_that_the_group_does_not_allow_is_a_fault():
    facts = GroupFacts({"a": {"t": 1}, "b": {"u": 1}}, {}, {"t": [0], "u": [0]})
    assert [finding.kind for finding in verify(facts, "roundrobin")] == ["refused", "no owner", "no owner"]


def test_an_owned_partition_that_nobody_reads_any_more_is_no_fault_while_its_owner_lives():
    facts = replace(HEALTHY, owners={**HEALTHY.owners, TopicPartition("old", 0): "a-0"})
    assert verify(facts, "range") == []


counts = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 3), min_size=1)


@given(counts, st.integers(0, 9), st.sampled_from(["range", "roundrobin"]), st.data())
def test_each_planted_fault_is_found_and_nothing_else(members, partitions, strategy, data):
    ids = {"t": list(range(partitions)), "u": [0]}
    streams = {member: {"t": n, "u": n} for member, n in members.items()}
    threads = {topic: [t for m, n in members.items() for t in thread_ids(m, n)] for topic in ids}
    owners = {tp: thread for thread, tps in assign(strategy, ids, threads).items() for tp in tps}
    facts = GroupFacts(streams, owners, ids)
    assert not [finding for finding in verify(facts) if finding.fault]
    tp = data.draw(st.sampled_from(sorted(owners)))
    without = replace(facts, owners={other: owner for other, owner in owners.items() if other != tp})
    found = Counter((f.kind, f.tp) for f in verify(without, strategy) if f.kind != "idle")
    assert found.pop(("no owner", tp)) == 1
    assert set(found) <= {("reads nothing", None)}
    foreign = replace(facts, owners={**owners, tp: "stranger-0"})
    assert ("not registered", tp) in [(f.kind, f.tp) for f in verify(foreign, strategy)]


def test_what_strategy_a_group_has_is_seen_by_its_owners():
    ids = {"t": [0, 1, 2], "u": [0, 1, 2]}
    threads = {topic: ["a-0", "b-0"] for topic in ids}
    for strategy in ("range", "roundrobin"):
        owners = {tp: thread for thread, tps in assign(strategy, ids, threads).items() for tp in tps}
        facts = GroupFacts({"a": {"t": 1, "u": 1}, "b": {"t": 1, "u": 1}}, owners, ids)
        assert verify(facts) == []
    with pytest.raises(ValueError, match="topic"):
        assign("roundrobin", ids, {"t": ["a-0"], "u": ["b-0"]})
