"""From id nodes and topics to threads and shares."""

from __future__ import annotations

import json
import logging
import time
import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from kafkawire.znodes.v08 import BLACK_LIST, STATIC, WHITE_LIST, Registration, registration, registration_text
from zkconsumer.filters import LeftOut
from zkconsumer.group import membership
from zkconsumer.group.assignor import assign
from zkconsumer.group.membership import (
    Group,
    StrategyNotAllowed,
    Surplus,
    Unreadable,
    Unregistered,
    Untranslatable,
    assignment_of,
    surplus,
    threads_of,
)
from zkconsumer.group.verify import GroupFacts, verify

read_group = partial(membership.read_group, parse=registration)


def node(pattern, **subscription):
    return registration_text(Registration(pattern, subscription), 1394154511599)


def filter_node(pattern, regex, streams=1):
    return registration_text(Registration(pattern, {regex: streams}), 1394154511599)


def listed(group):
    return {topic: tuple(names) for topic, names in group.threads.items()}


def test_threads_of_all_members_are_sorted_as_java_sorts_them():
    group = read_group("g_a", {"g_b": node(STATIC, t=1), "g_a": node(STATIC, t=11), "g_A": node(STATIC, t=1)}, ["t"])
    assert isinstance(group, Group)
    a = ["g_a-0", "g_a-1", "g_a-10", *(f"g_a-{n}" for n in range(2, 10))]
    assert listed(group) == {"t": ("g_A-0", *a, "g_b-0")}
    assert group.members == ("g_A", "g_a", "g_b")


def test_members_are_counted_only_for_the_topics_they_read():
    nodes = {
        "a": node(STATIC, t=1, u=1),
        "b": filter_node(WHITE_LIST, "u|v", 2),
        "c": filter_node(BLACK_LIST, "t"),
        "d": node(STATIC),
    }
    group = read_group("a", nodes, ["t", "u", "v", "__consumer_offsets"])
    assert listed(group) == {"t": ("a-0",), "u": ("a-0", "b-0", "b-1", "c-0"), "v": ("b-0", "b-1", "c-0")}
    assert group.topics_of("b") == ["u", "v"]
    assert group.topics_of("d") == []


def test_internal_topics_follow_the_readers_own_setting():
    nodes = {"a": filter_node(WHITE_LIST, ".*")}
    assert read_group("a", nodes, ["__consumer_offsets"]).threads == {}
    group = read_group("a", nodes, ["__consumer_offsets"], exclude_internal=False)
    assert listed(group) == {"__consumer_offsets": ("a-0",)}


@pytest.mark.parametrize("text", ["", '{"version":1}', "bare-topic", b"\xff"])
def test_a_member_that_cannot_be_read_is_named(text):
    found = read_group("a", {"a": node(STATIC, t=1), "b": text}, ["t"])
    assert isinstance(found, Unreadable)
    assert found.member == "b"
    assert str(found).startswith("member b: registration: ")


def test_a_members_expression_that_we_cannot_evaluate_is_named():
    found = read_group("a", {"a": node(STATIC, t=1), "b": filter_node(WHITE_LIST, "(?x)a b")}, ["t"])
    assert isinstance(found, Untranslatable)
    assert (found.member, found.pattern) == ("b", "(?x)a b")
    assert "x" in found.why


def test_a_members_expression_without_end_costs_its_member_and_not_the_loop():
    topics = ["a" * length for length in range(1, 250)]
    group = read_group("a", {"a": node(STATIC, t=1), "b": filter_node(WHITE_LIST, "(.|.)*!")}, topics)
    assert group.topics == ["t"]
    found = read_group("a", {"a": node(STATIC, t=1), "b": filter_node(WHITE_LIST, "(.|.)*+!")}, topics)
    assert isinstance(found, Untranslatable)
    assert found.member == "b"


def test_a_topic_that_our_own_filter_cannot_tell_about_is_left_out_of_it_and_nobody_leaves(caplog):
    slow, topics = "(?:(?:(?:a|.)*b|.)*c|.)*d|t", ["t", "a" * 255]
    members, own = {"a": filter_node(WHITE_LIST, slow), "b": filter_node(WHITE_LIST, slow)}, LeftOut(logging.warning)
    own.own = slow
    assert read_group("a", members, topics, leave_topic=own).topics == ["t"]
    assert "a topic is left out, also partitions of it that other members count as this member's: topic filter" in (
        caplog.text
    )
    own.own = "another"
    assert isinstance(read_group("a", members, topics, leave_topic=own), Untranslatable)


def test_a_topic_that_only_other_members_can_tell_is_read_by_them_alone_and_what_they_give_us_is_reported():
    """A JVM member reads the long name by a filter of its own and counts us as a reader, as Java matches our filter."""
    slow, long = "(?:(?:(?:a|.)*b|.)*c|.)*d|t", "a" * 254 + "d"
    nodes, own = {"a": filter_node(WHITE_LIST, slow), "jvm": filter_node(WHITE_LIST, "t|a+d")}, LeftOut(logging.debug)
    own.own = slow
    group = read_group("a", nodes, ["t", long], leave_topic=own)
    partitions = {"t": [0, 1], long: [0, 1]}
    ours = assignment_of("a", group, partitions)
    by_java = assign("range", partitions, {topic: ["a-0", "jvm-0"] for topic in partitions})
    theirs = dict.fromkeys(by_java["jvm-0"], "jvm-0")
    assert not ours.keys() & theirs.keys()
    assert by_java["a-0"] == [TopicPartition("t", 0), TopicPartition(long, 0)]
    assert ours == {TopicPartition("t", 0): "a-0"}
    facts = GroupFacts(group.streams, {**ours, **theirs}, partitions)
    [found] = [finding for finding in verify(facts, "range") if finding.fault]
    assert str(found) == f"no owner: {long}/0 has no owner, so it is not read; it is jvm-0's"


def test_expressions_of_all_members_are_evaluated_step_by_step_until_the_time_is_over():
    topics = [f"topic{n}" for n in range(50)]
    members = {f"s{n:02d}": filter_node(WHITE_LIST, f"topic.*{n % 2}") for n in range(40)}
    steps = iter([True] * 102 + [False])  # each of two expressions, and all topics by each: however many have it
    assert read_group("s00", members, topics, more_time=lambda: next(steps)).topics
    steps = iter([True] * 101 + [False])
    found = read_group("s00", members, topics, more_time=lambda: next(steps))
    assert isinstance(found, Untranslatable)
    assert (found.member, found.pattern) == ("s01", "topic.*1")
    assert "too long to evaluate" in found.why


def test_a_filter_nobody_can_translate_counts_more_than_a_node_that_may_still_be_filled():
    nodes = {"a": node(STATIC, t=1), "b": "", "c": filter_node(BLACK_LIST, "[a&&b]")}
    found = read_group("a", nodes, ["t"], leave_out=True)
    assert isinstance(found, Untranslatable)
    assert found.member == "c"


def test_members_that_stay_unreadable_can_be_left_out_and_are_named():
    nodes = {"a": node(STATIC, t=1), "b": "", "c": "bare-topic"}
    group = read_group("a", nodes, ["t"], leave_out=True)
    assert listed(group) == {"t": ("a-0",)}
    assert [one.member for one in group.left_out] == ["b", "c"]


def test_we_ourselves_are_never_left_out():
    found = read_group("a", {"a": ""}, ["t"], leave_out=True)
    assert isinstance(found, Unreadable)
    assert found.member == "a"


FOREIGN = {
    "no prefix of the group": {"host-1-77": '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'},
    "blanks": {"x": '{ "version" : 1, "subscription" : { "t" : 1 }, "pattern" : "static", "timestamp" : "1" }'},
    "timestamp as a number": {"x": '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":1394154511599}'},
    "plain topics in a white list": {"x": '{"version":1,"subscription":{"t":1,"u":1},"pattern":"white_list"}'},
    "no timestamp, other order": {"x": '{"pattern":"static","subscription":{"t":1}}'},
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_other_clients_write_is_read(case):
    ((member, text),) = FOREIGN[case].items()
    group = read_group("a", {"a": node(STATIC, t=1), member: text}, ["t", "u"])
    assert listed(group)["t"] == ("a-0", f"{member}-0")


def test_roundrobin_refuses_a_group_that_reads_different_topics():
    group = read_group("a", {"a": node(STATIC, t=1), "b": node(STATIC, u=1)}, ["t", "u"])
    found = assignment_of("a", group, {"t": [0], "u": [0]}, "roundrobin")
    assert isinstance(found, StrategyNotAllowed)
    assert "same number of streams per topic" in str(found)
    assert assignment_of("a", group, {"t": [0], "u": [0]}, "roundrobin", relaxed=True) == {
        TopicPartition("t", 0): "a-0"
    }


def test_more_threads_than_partitions_are_counted_with_what_would_serve():
    group = read_group("a", {"a": node(STATIC, t=4, u=2), "b": node(STATIC, t=2)}, ["t", "u"])
    found = surplus(group.threads, {"t": [0, 1, 2, 3], "u": [0, 1]})
    assert found == [Surplus("t", 6, 4)]
    assert found[0].idle == ("b-0", "b-1")
    assert str(found[0]) == (
        "topic t has 4 partitions for 6 threads of this group: 2 threads read nothing of it; "
        "6 partitions, or a multiple of 6, would serve all alike, and 4 threads are enough"
    )
    assert surplus(group.threads, {"t": []}) == []


def test_a_member_that_went_while_we_read_is_gone():
    group = read_group("a", {"a": node(STATIC, t=1), "b": None}, ["t"])
    assert listed(group) == {"t": ("a-0",)}


@pytest.mark.parametrize("nodes", [{}, {"a": None}, {"b": node(STATIC, t=1)}])
def test_without_our_own_node_we_are_not_registered(nodes):
    assert read_group("a", nodes, ["t"]) == Unregistered()


def test_our_share_is_what_our_threads_get():
    nodes = {"a": node(STATIC, t=2), "b": node(STATIC, t=1, u=1)}
    partitions = {"t": [0, 1, 2, 3], "u": [0]}
    group = read_group("b", nodes, ["t", "u"])
    assert assignment_of("b", group, partitions) == {TopicPartition("t", 3): "b-0", TopicPartition("u", 0): "b-0"}
    assert assignment_of("a", group, partitions) == {
        TopicPartition("t", 0): "a-0",
        TopicPartition("t", 1): "a-0",
        TopicPartition("t", 2): "a-1",
    }


def test_a_thread_of_another_member_whose_id_begins_like_ours_is_not_ours():
    """R11: g_x has a thread g_x-1, and another member is called g_x-1."""
    nodes = {"g_x": node(STATIC, t=1), "g_x-1": node(STATIC, t=1)}
    group = read_group("g_x", nodes, ["t"])
    assert assignment_of("g_x", group, {"t": [0, 1]}) == {TopicPartition("t", 0): "g_x-0"}


def test_a_topic_that_is_not_there_yet_gives_nothing():
    group = read_group("a", {"a": node(STATIC, nosuch=1)}, [])
    assert assignment_of("a", group, {}) == {}


# Groups drawn at random, and what kafka.consumer.RangeAssignor of the 0.8.2.2 jar gave each of their members: its
# AssignmentContext was filled by hand, the threads sorted by ConsumerThreadId.compare.
JVM_GROUPS = Path(__file__).with_name("range_assignor_0.8.2.2.jsonl").read_text().splitlines()


@pytest.mark.parametrize("line", JVM_GROUPS, ids=[f"group{n}" for n in range(len(JVM_GROUPS))])
def test_every_members_share_is_what_the_jvm_gives_it(line):
    case = json.loads(line)
    nodes = {member: node(STATIC, **streams) for member, streams in case["members"].items()}
    found: dict[str, list[str]] = {}
    for member in nodes:
        group = read_group(member, nodes, list(case["partitions"]))
        for tp, thread in assignment_of(member, group, case["partitions"]).items():
            found.setdefault(thread, []).append(str(tp))
    assert {thread: sorted(tps) for thread, tps in found.items()} == case["share"]


def test_any_number_of_streams_of_another_member_costs_no_memory():
    """Each of 2,000 topics has 10,000 threads of a stranger: 20 million names, if they were made."""
    topics = [f"t{n}" for n in range(2000)]
    nodes = {"a": filter_node(WHITE_LIST, ".*"), "b": filter_node(WHITE_LIST, ".*", 10_000)}
    began = time.process_time()
    group = read_group("a", nodes, topics)
    partitions = {topic: [0, 1, 2] for topic in topics}
    given = assignment_of("a", group, partitions)
    assert len(surplus(group.threads, partitions)) == 2000
    assert time.process_time() - began < 2
    assert given == {TopicPartition(topic, 0): "a-0" for topic in topics}
    assert len(assignment_of("a", group, partitions, "roundrobin")) in (0, 1)


def test_a_thousand_members_that_read_the_same_cost_what_one_costs():
    """500 topics and 1,000 members with a filter for all: 36 MB, and 2 s of the loop for assignment and surplus."""
    topics = [f"t{n}" for n in range(500)]
    nodes = {f"m{n}": filter_node(WHITE_LIST, f".*|x{n % 3}") for n in range(1000)}
    partitions = {topic: list(range(8)) for topic in topics}
    read_group("m0", nodes, topics)
    tracemalloc.start()
    try:
        group = read_group("m0", nodes, topics)
        given = assignment_of("m0", group, partitions)
        idle = surplus(group.threads, partitions)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3 << 20
    assert given == {TopicPartition(topic, 0): "m0-0" for topic in topics}
    assert len({id(one.idle) for one in idle}) == 1
    assert (len(idle), idle[0].threads, len(idle[0].idle)) == (500, 1000, 992)


def test_others_run_while_the_assignment_of_a_large_group_is_computed(monkeypatch):
    topics = [f"t{n}" for n in range(300)]
    nodes = {f"m{n}": node(STATIC, **{topic: 1 + (n + len(topic)) % 3 for topic in topics}) for n in range(300)}
    nodes["other"] = node(STATIC, **{topic: n + 1 for n, topic in enumerate(topics)})
    pauses = []
    monkeypatch.setattr("groundwork.pauses._pause", lambda: pauses.append(1))
    group = read_group("m0", nodes, topics)
    partitions = {topic: list(range(8)) for topic in topics}
    for work in (
        lambda: threads_of(group.streams),
        lambda: assignment_of("m0", group, partitions),
        lambda: assignment_of("m0", group, partitions, "roundrobin", relaxed=True),
        lambda: surplus(group.threads, partitions),
    ):
        pauses.clear()
        work()
        assert pauses


def test_round_robin_is_not_computed_for_any_number_of_threads():
    nodes = {"a": node(STATIC, t=1), **{f"m{n}": node(STATIC, u=10_000) for n in range(11)}}
    group = read_group("a", nodes, ["t", "u"])
    found = assignment_of("a", group, {"t": [0], "u": [0]}, "roundrobin", relaxed=True)
    assert str(found).startswith("the members register 110,001 threads, more than the 100,000")
