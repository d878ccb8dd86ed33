"""What one look, several looks and two looks prove about a group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupadmin.migrate.rules.comparison import Gate, Presence, compare, facts, idle_behind, not_in_kafka, presence_of
from groupadmin.migrate.rules.groupplan import Policies, plan_group
from groupadmin.snapshot.model import Foreign, GroupSnapshot, KafkaRow, TopicRow, ZkRow
from kafkawire.model import TopicPartition
from zkconsumer.offsets.store import NONE, Unknown

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
NOBODY = Presence((), 0, 0)


def group(zookeeper=(None, None), kafka=(NONE, NONE), end=100, zxid=10, **more) -> GroupSnapshot:
    """Two partitions; a number's node changes its zxid with it."""
    nodes = {
        tp: ZkRow(at, 1, zxid + (at if isinstance(at, int) else 0), 1, 0)
        for tp, at in zip((A, B), zookeeper, strict=True)
        if at is not None
    }
    rows = {tp: KafkaRow(at) for tp, at in zip((A, B), kafka, strict=True)}
    topics = {"t": TopicRow((0, 1))}
    return GroupSnapshot("g", nodes, rows, {A: (0, end), B: (0, end)}, topics, **more)


# the gate -------------------------------------------------------------------------------------------------------------


def test_the_gate_opens_after_enough_quiet_looks_in_a_row():
    gate, opened = Gate(3), []
    for look in (NOBODY, NOBODY, Presence(("a",), 0), NOBODY, NOBODY, NOBODY, NOBODY):
        gate = gate.after(look)
        opened.append(gate.open)
    assert opened == [False, False, False, False, False, True, True]
    assert (gate.quiet, gate.seen) == (4, 1)


@pytest.mark.parametrize("look", [Presence(("a",), 0), Presence((), 1), Presence((), 0, 1)])
def test_an_id_an_owner_or_a_member_in_kafka_closes_it_again(look):
    gate = Gate(1).after(NOBODY)
    assert gate.open
    assert not gate.after(look).open


def test_a_gate_that_asks_for_nothing_is_not_open():
    assert not Gate(0).open
    assert not Gate(0).after(NOBODY).open


def test_what_the_gate_saw_is_said():
    assert str(Gate(2)) == "not checked yet"
    assert str(Gate(2).after(NOBODY)) == "no member in 1 of 2 checks"
    assert (
        str(Gate(2).after(Presence(("a", "b"), 3, 1)))
        == "still there: members a, b; 3 owned partitions; 1 member in Kafka"
    )


def test_an_owner_node_of_another_client_is_somebody():
    foreign = Foreign("owner", "/consumers/g/owners/b't1'/1-0", "x", "an owner of another client", "t1")
    assert presence_of(group(foreign=(foreign,))) == Presence((), 1, None)
    assert presence_of(group(members=("m",), owners={A: "m-0"}, kafka_members=("k",))) == Presence(("m",), 1, 1)


# two looks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (((50, 50), (50, 50)), ((50, 50), (50, 50))),  # nothing moved
        (((50, 50), (60, 60)), ((60, 60), (70, 70))),  # ZooKeeper an interval behind
        (((None, 50), (NONE, 50)), ((None, 50), (NONE, 50))),  # never had any
        (((None, 50), (NONE, 50)), ((5, 50), (5, 50))),  # got one in between
    ],
)
def test_stores_that_one_interval_explains_agree(first, second):
    assert compare(group(*first), group(*second)).apart == ()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (((50, 50), (60, 50)), ((50, 50), (60, 50))),  # an idle partition that nobody writes in ZooKeeper
        (((60, 50), (50, 50)), ((60, 50), (50, 50))),
        (((50, 50), (NONE, 50)), ((50, 50), (NONE, 50))),  # Kafka has none
        (((None, 50), (50, 50)), ((None, 50), (50, 50))),  # ZooKeeper has none
        (((50, 50), (90, 50)), ((80, 50), (99, 50))),  # two intervals behind
        (((Unknown("x"), 50), (50, 50)), ((Unknown("x"), 50), (50, 50))),
        (((50, 50), (Unknown("x"), 50)), ((50, 50), (50, 50))),
    ],
)
def test_stores_that_no_interval_explains_are_apart_and_named(first, second):
    (text,) = compare(group(*first), group(*second)).apart
    assert text.startswith("t/0: ZooKeeper went from")


def test_partitions_of_deleted_topics_hold_nobody_up():
    gone = replace(group((50, 50), (60, 60)), topics={})
    assert compare(gone, gone).apart == ()


def test_a_store_that_rests_while_there_is_something_to_read_stands_still():
    first, second = group((50, 50), (50, 50)), group((50, 50), (70, 50))
    assert compare(first, second).not_moving == ("zookeeper",)
    assert compare(first, first).not_moving == ("zookeeper", "kafka")
    assert compare(first, group((60, 50), (60, 50))).not_moving == ()


def test_at_the_end_of_a_quiet_log_nothing_stands_still():
    idle = group((100, 100), (100, 100))
    assert compare(idle, idle).not_moving == ()
    assert compare(idle, replace(idle, bounds={A: (0, 120), B: (0, 100)})).not_moving == ("zookeeper", "kafka")


def test_a_write_of_the_same_number_is_a_write():
    first = group((50, 50))
    assert not compare(first, first).zookeeper_moves
    assert compare(first, group((50, 50), zxid=11)).zookeeper_moves
    assert compare(first, group((50, None))).zookeeper_moves


def test_only_idle_partitions_are_levelled_and_never_down():
    first = group((50, 50), (60, 60))
    (write,) = idle_behind(first, group((50, 50), (60, 70)), "zookeeper")
    assert (write.store, write.tp, write.position) == ("zookeeper", A, 60)
    assert idle_behind(first, first, "kafka") == ()
    assert [w.tp for w in idle_behind(group((None, 50), (60, NONE)), group((None, 50), (60, NONE)), "zookeeper")] == [A]
    ahead = group((60, 60), (50, NONE))
    assert [w.tp for w in idle_behind(ahead, ahead, "kafka")] == [A, B]


@pytest.mark.parametrize("there", [group((50, 50), (500, 500)), group((Unknown("x"), 50), (60, Unknown("x")))])
def test_what_is_outside_the_log_or_unreadable_is_not_levelled(there):
    assert idle_behind(there, there, "zookeeper") == ()


# facts ----------------------------------------------------------------------------------------------------------------


def test_facts_of_one_look():
    now = group((50, 500), (50, NONE), members=("a", "b"), modes={"a": "dual"}, kafka_members=())
    found = facts(plan_group(now, Policies()), now)
    assert (found.modes, found.modes_unknown, found.kafka_members) == ({"a": "dual"}, ("b",), 0)
    assert (found.blocked, found.stale, found.missing) == (1, 0, 0)
    assert (found.quiet, found.failed_checks, found.apart, found.not_moving, found.zookeeper_moves) == (None,) * 5


def test_the_operator_answers_for_members_that_tell_nothing_and_for_no_others():
    now = group(members=("a", "b", "c"), modes={"a": "zookeeper"})
    plan = plan_group(now, Policies())
    assert facts(plan, now, answers={"*": "dual"}).modes == {"a": "zookeeper", "b": "dual", "c": "dual"}
    found = facts(plan, now, answers={"b": "dual", "gone": "kafka", "a": "kafka"})
    assert (found.modes, found.modes_unknown) == ({"a": "zookeeper", "b": "dual"}, ("c",))


def test_a_mode_node_without_its_member_is_still_somebody():
    now = group(modes={"a": "kafka"})
    assert facts(plan_group(now, Policies()), now).modes == {"a": "kafka"}
    now = replace(now, members=("b",))
    found = facts(plan_group(now, Policies()), now)
    assert (found.modes, found.modes_unknown) == ({"a": "kafka"}, ("b",))


def test_facts_of_two_looks_a_gate_and_checks():
    now = group((50, 50), (50, 50))
    found = facts(plan_group(now, Policies()), now, before=now, gate=Gate(1).after(NOBODY), failed_checks=["brokers"])
    assert (found.apart, found.not_moving, found.zookeeper_moves) == (0, ("zookeeper", "kafka"), False)
    assert (found.quiet, found.failed_checks) == (True, ("brokers",))


def test_what_zookeeper_has_and_kafka_has_not_is_named():
    assert not_in_kafka(group((5, None), (5, NONE))) == ()
    assert not_in_kafka(group((5, 7), (5, NONE))) == ("t/1: ZooKeeper has 7, Kafka none",)
    assert not_in_kafka(group((5, None), (Unknown("silent"), 3))) == (
        "t/0: ZooKeeper has 5, Kafka what cannot be read",
    )
    assert not_in_kafka(replace(group((5, 7)), topics={})) == ()


def test_a_coordinator_that_does_not_answer_is_no_member_that_was_seen():
    now = group((5, None), (5, NONE), kafka_members=("(the members of group g are unknown: silent)",), owners={A: "m"})
    seen = facts(plan_group(now, Policies()), now)
    assert (seen.kafka_members, seen.owners, seen.not_in_kafka) == (1, 1, 0)
    assert "unknown: silent" in seen.kafka_unknown
