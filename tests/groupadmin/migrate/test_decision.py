"""What becomes of a partition: every action, every policy, and that nothing is guessed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupadmin.migrate.rules.groupplan import Policies, decide, left_to_write, make_plan, missing, plan_group
from groupadmin.migrate.stepwrites import copying
from groupadmin.snapshot.model import Foreign, GroupSnapshot, KafkaRow, TopicRow, ZkRow
from kafkawire.model import BrokerPartition, TopicPartition
from zkconsumer.offsets.store import NONE, Unknown

A = TopicPartition("t", 0)
REFUSE, MAX = Policies(), Policies(conflict="max")
TOPIC_BORN = 50  # as zxid and as ms


def node(position, mzxid=100, version=3) -> ZkRow:
    return ZkRow(position, version, mzxid, 60, 1000)


def group(zookeeper=None, kafka=NONE, bounds=(10, 100), committed_at_ms=None, **more) -> GroupSnapshot:
    """A group with one partition; zookeeper is a node, a number, Unknown, or None where there is none."""
    row = zookeeper if zookeeper is None or isinstance(zookeeper, ZkRow) else node(zookeeper)
    facts = {"topics": {"t": TopicRow((0,), TOPIC_BORN, TOPIC_BORN)}} | more
    return GroupSnapshot(
        "g",
        {} if row is None else {A: row},
        {A: KafkaRow(kafka, "", committed_at_ms)},
        {} if bounds is None else {A: bounds},
        **facts,
    )


def decided(snapshot, policies=REFUSE, direction="to-kafka"):
    found = decide(snapshot, A, policies, direction)
    return found.action, found.target, found.open


@pytest.mark.parametrize(
    ("zookeeper", "kafka", "direction", "expected"),
    [
        (50, NONE, "to-kafka", ("copy", 50, False)),
        (50, 50, "to-kafka", ("equal", 50, False)),
        (None, 50, "to-kafka", ("keep-kafka", 50, False)),
        (None, NONE, "to-kafka", ("skip-no-offset", None, False)),
        (50, 60, "to-kafka", ("conflict", None, True)),
        (NONE, 50, "to-zookeeper", ("copy", 50, False)),
        (50, NONE, "to-zookeeper", ("keep-zookeeper", 50, False)),
        (50, 50, "to-zookeeper", ("equal", 50, False)),
        (50, 60, "to-zookeeper", ("conflict", None, True)),
        (10, NONE, "to-kafka", ("copy", 10, False)),
        (100, NONE, "to-kafka", ("copy", 100, False)),
    ],
)
def test_plain_cases(zookeeper, kafka, direction, expected):
    assert decided(group(None if zookeeper is NONE else zookeeper, kafka), direction=direction) == expected


def test_position_0_is_copied_and_none_is_not():
    assert decided(group(0, NONE, (0, 5))) == ("copy", 0, False)
    assert decided(group(None, NONE, (0, 5))) == ("skip-no-offset", None, False)


@pytest.mark.parametrize(
    ("policy", "direction", "target"),
    [
        ("max", "to-kafka", 60),
        ("zookeeper", "to-kafka", 50),
        ("kafka", "to-kafka", 60),
        ("max", "to-zookeeper", 60),
        ("zookeeper", "to-zookeeper", 50),
        ("kafka", "to-zookeeper", 60),
    ],
)
def test_conflicts_by_policy(policy, direction, target):
    assert decided(group(50, 60), Policies(conflict=policy), direction) == ("conflict", target, False)


def test_the_larger_number_counts_only_inside_the_log():
    assert decided(group(50, 5000), MAX) == ("conflict", 50, False)
    assert decided(group(5, 50), MAX) == ("conflict", 50, False)
    assert decided(group(5, 5000), MAX) == ("out-of-range", None, True)


@pytest.mark.parametrize("position", [9, 101])
def test_outside_the_log_by_policy(position):
    nearest = 10 if position < 10 else 100
    assert decided(group(position)) == ("out-of-range", None, True)
    assert decided(group(position), Policies(out_of_range="clamp")) == ("out-of-range", nearest, False)
    assert decided(group(position), Policies(out_of_range="skip")) == ("out-of-range", None, False)


def test_a_log_whose_ends_are_not_known_is_not_copied_to():
    assert decided(group(50, bounds=None)) == ("out-of-range", None, True)
    assert decided(group(50, bounds=None), Policies(out_of_range="clamp")) == ("out-of-range", None, True)
    assert decided(group(50, bounds=None), Policies(out_of_range="skip")) == ("out-of-range", None, False)
    assert decided(group(50, 50, bounds=None)) == ("equal", 50, False)  # nothing is written, so nothing is lost


def test_an_idle_group_whose_log_was_cut_is_left_as_both_stores_have_it_unless_clamped():
    assert decided(group(5, 5)) == ("equal", 5, False)
    assert "lies outside the log" in decide(group(5, 5), A, REFUSE, "to-kafka").why
    assert decided(group(5, 5), Policies(out_of_range="clamp")) == ("out-of-range", 10, False)


@pytest.mark.parametrize("policies", [REFUSE, MAX, Policies("kafka", "clamp", "trust"), Policies("zookeeper", "skip")])
def test_what_cannot_be_read_stays_open_whatever_the_policy(policies):
    assert decided(group(Unknown("holds 'null'"), 50), policies) == ("unreadable", None, True)
    assert decided(group(50, Unknown("error 3")), policies) == ("unreadable", None, True)
    assert "error 3" in decide(group(50, Unknown("error 3")), A, policies, "to-kafka").why


def test_kafka_not_answering_is_not_kafka_having_none():
    silent = replace(group(50), kafka={})
    assert decided(silent)[0] == "unreadable"
    assert decided(replace(silent, kafka_absent=True)) == ("copy", 50, False)


def test_deleted_topics_and_partitions_are_named_and_left():
    assert decided(group(50, topics={})) == ("skip-missing-topic", None, False)
    assert decided(group(50, topics={"t": TopicRow((1, 2))})) == ("skip-missing-topic", None, False)
    unknown = group(50, bounds=None, topics={"t": TopicRow(())})  # its node makes no sense, and no broker answers
    assert decided(unknown) == ("unreadable", None, True)
    assert "t/0 does not exist" in decide(group(50, topics={"t": TopicRow((1,))}), A, REFUSE, "to-kafka").why


# re-created topics ----------------------------------------------------------------------------------------------------


def old(position) -> ZkRow:
    return node(position, mzxid=TOPIC_BORN - 1)


def test_an_offset_older_than_its_topic_belongs_to_another_log():
    assert decided(group(old(50))) == ("out-of-range", None, True)
    assert decided(group(old(50)), Policies(out_of_range="skip")) == ("out-of-range", None, False)
    # clamp takes the start, not the nearer end: the number says nothing about this log
    assert decided(group(old(5000)), Policies(out_of_range="clamp")) == ("out-of-range", 10, False)
    assert decided(group(old(50)), Policies(recreated="trust")) == ("copy", 50, False)
    assert "was created again" in decide(group(old(50)), A, REFUSE, "to-kafka").why


def test_a_stale_larger_number_does_not_win():
    assert decided(group(old(90), 20), MAX) == ("conflict", 20, False)
    assert decided(group(20, 90, committed_at_ms=TOPIC_BORN - 1), MAX) == ("conflict", 20, False)
    assert decided(group(old(90), 20), Policies(conflict="zookeeper")) == ("conflict", None, True)
    assert decided(group(old(90), 20)) == ("conflict", None, True)


def test_both_numbers_of_a_former_log_are_nobody_s():
    assert decided(group(old(90), 80, committed_at_ms=TOPIC_BORN - 1), MAX) == ("out-of-range", None, True)


def test_a_number_that_either_store_vouches_for_is_good():
    assert decided(group(50, 50, committed_at_ms=TOPIC_BORN - 1)) == ("equal", 50, False)


def test_a_topic_whose_birth_is_not_known_is_taken_as_it_is():
    assert decided(group(old(50), topics={"t": TopicRow((0,))})) == ("copy", 50, False)


# foreign forms --------------------------------------------------------------------------------------------------------

ONE_NODE = Foreign("offset", "/consumers/g/offsets/t", "0:123,1:456", "the one-node form", "t")


def test_a_foreign_form_keeps_its_topic_from_being_planned_as_if_there_were_nothing():
    for kafka in (NONE, 50):
        found = decide(group(None, kafka, foreign=(ONE_NODE,)), A, MAX, "to-kafka")
        assert (found.action, found.open) == ("unreadable", True)
        assert "'0:123,1:456'" in found.why
        assert "zkconsumer offsets set --group g t:0=POSITION" in found.why


def test_a_number_that_was_set_beside_a_foreign_form_counts():
    assert decided(group(77, foreign=(ONE_NODE,))) == ("copy", 77, False)


def test_partitions_of_a_foreign_topic_are_in_the_plan():
    snapshot = replace(group(None, foreign=(ONE_NODE,)), kafka={}, kafka_absent=True)
    assert [row.action for row in plan_group(snapshot, REFUSE).rows] == ["unreadable"]


@pytest.mark.parametrize(
    ("odd", "usual", "expected"),
    [
        (node(70, mzxid=200), node(50, mzxid=100), ("conflict", None, True)),
        (node(70, mzxid=200), None, ("conflict", None, True)),
        (node(50, mzxid=200), node(50, mzxid=100), ("copy", 50, False)),
        (node(70, mzxid=90), node(50, mzxid=100), ("copy", 50, False)),
        (node(Unknown("x"), mzxid=200), node(50, mzxid=100), ("conflict", None, True)),
    ],
)
def test_the_path_of_1_1_0_counts_where_it_is_newer_and_is_always_told(odd, usual, expected):
    snapshot = group(usual, offset_path={A: odd})
    assert decided(snapshot, MAX) == expected
    assert "/consumers/g/offset/t/0" in decide(snapshot, A, MAX, "to-kafka").why


# plans ----------------------------------------------------------------------------------------------------------------


def test_all_partitions_of_a_topic_are_planned_with_one_known():
    snapshot = group(50, topics={"t": TopicRow((0, 1)), "other": TopicRow((0,))})
    snapshot = replace(snapshot, kafka={tp: KafkaRow(NONE) for tp in (A, TopicPartition("t", 1))})
    plan = plan_group(snapshot, REFUSE)
    assert [(str(row.tp), row.action) for row in plan.rows] == [("t/0", "copy"), ("t/1", "skip-no-offset")]
    assert plan.counts == {"copy": 1, "skip-no-offset": 1}
    assert [row.target for row in plan.written] == [50]


def test_partitions_sort_as_numbers():
    tps = [TopicPartition("t", n) for n in (10, 9, 2)] + [TopicPartition("t", BrokerPartition(1, 0))]
    snapshot = replace(group(), zookeeper={tp: node(1) for tp in tps}, kafka={})
    assert [str(tp) for tp in snapshot.partitions()] == ["t/0", "t/2", "t/9", "t/10", "t/1-0"]


def test_the_same_stores_and_policies_have_the_same_id_and_others_another():
    same = [group(50), replace(group(50), read_at_ms=99), group(50, bounds=(10, 200))]
    assert len({plan_group(each, REFUSE).plan_id for each in same}) == 1
    others = [
        group(51),
        group(50, 40),
        group(node(50, version=4)),
        group(50, bounds=(60, 100)),
        group(50, foreign=(ONE_NODE,)),
    ]
    ids = {plan_group(each, REFUSE).plan_id for each in [group(50), *others]}
    ids |= {plan_group(group(50), MAX).plan_id, plan_group(group(50), REFUSE, "to-zookeeper").plan_id}
    assert len(ids) == len(others) + 3


def test_groups_are_planned_in_any_order():
    plans = [plan_group(replace(group(50), group=name), REFUSE) for name in "cab"]
    there, back = (make_plan(each, REFUSE, "to-kafka", cluster="zk:2181", at_ms=1) for each in (plans, plans[::-1]))
    assert there == back
    assert [each.group for each in there.groups] == ["a", "b", "c"]


# carrying it out ------------------------------------------------------------------------------------------------------


def test_what_is_there_already_is_done_and_not_written_again():
    plan = plan_group(group(50), REFUSE)
    left = left_to_write(plan, group(50))
    assert [(write.store, write.position) for write in left.writes] == [("kafka", 50)]
    left = left_to_write(plan, group(50, 50))
    assert (left.writes, left.done, left.stale) == ((), (A,), ())
    assert missing(plan, group(50)) == ["t/0 should hold 50: kafka holds none"]
    assert missing(plan, group(50, 50)) == []
    assert missing(plan, group(50, Unknown("error 14"))) == ["t/0 should hold 50: error 14"]


def test_what_kafka_holds_as_planned_is_committed_again_so_that_it_does_not_expire():
    for snapshot in (group(50, 50), group(None, 50)):
        left = left_to_write(plan_group(snapshot, REFUSE), snapshot)
        assert [(w.store, w.position) for w in left.touches] == [("kafka", 50)]
    assert left_to_write(plan_group(group(50), REFUSE), group(50)).touches == ()
    assert left_to_write(plan_group(group(), REFUSE), group()).touches == ()
    back = plan_group(group(50, 50), REFUSE, "to-zookeeper")
    assert left_to_write(back, group(50, 50)).touches == ()


@pytest.mark.parametrize(
    "now",
    [
        group(51),  # committed since
        group(node(50, version=4)),  # the same number, written again: somebody commits
        group(None),  # deleted
        group(50, 49),  # Kafka has got one that is not ours
        group(50, Unknown("error 14")),
    ],
)
def test_a_partition_that_moved_is_stale(now):
    left = left_to_write(plan_group(group(50), REFUSE), now)
    assert not left.writes
    assert [each.tp for each in left.stale] == [A]


def test_a_position_the_plan_does_not_know_is_stale():
    b = TopicPartition("t", 1)
    topics = {"t": TopicRow((0, 1), TOPIC_BORN, TOPIC_BORN)}
    now = replace(group(50, topics=topics), zookeeper={A: node(50), b: node(7)})
    assert [each.tp for each in left_to_write(plan_group(group(50), REFUSE), now).stale] == [b]


def test_a_plan_carried_out_long_ago_never_puts_an_older_number_over_a_newer():
    plan = plan_group(group(50), REFUSE)
    left = left_to_write(plan, group(50, 90))  # copied, cut over, and consumed since
    assert not left.writes
    assert left.stale


def test_zookeeper_is_written_by_version_or_created():
    plan = plan_group(group(50, 60), Policies("kafka"), "to-zookeeper")
    (write,) = copying(plan, left_to_write(plan, group(50, 60)))
    assert (write.store, write.position, write.node.version) == ("zookeeper", 60, 3)
    plan = plan_group(group(None, 60), REFUSE, "to-zookeeper")
    (write,) = copying(plan, left_to_write(plan, group(None, 60)))
    assert (write.store, write.position, write.node) == ("zookeeper", 60, None)


def test_our_own_write_to_zookeeper_is_not_stale():
    plan = plan_group(group(50, 60), Policies("kafka"), "to-zookeeper")
    left = left_to_write(plan, group(node(60, mzxid=300, version=4), 60))
    assert (left.writes, left.done, left.stale) == ((), (A,), ())


NUMBER = st.one_of(st.just(NONE), st.integers(0, 120), st.just(Unknown("x")))
POLICIES = st.builds(
    Policies,
    st.sampled_from(["refuse", "max", "zookeeper", "kafka"]),
    st.sampled_from(["refuse", "clamp", "skip"]),
    st.sampled_from(["refuse", "trust"]),
)


@given(NUMBER, NUMBER, POLICIES, st.sampled_from(["to-kafka", "to-zookeeper"]), st.booleans(), st.booleans())
def test_no_policy_writes_a_number_from_nowhere_or_outside_the_log(
    zookeeper, kafka, policies, direction, bounded, fresh
):
    row = None if zookeeper is NONE else node(zookeeper, mzxid=100 if fresh else TOPIC_BORN - 1)
    snapshot = group(row, kafka, (10, 100) if bounded else None)
    plan = plan_group(snapshot, policies, direction)
    (decision,) = plan.rows
    left = left_to_write(plan, snapshot)
    assert not left.stale or isinstance(zookeeper, Unknown) or isinstance(kafka, Unknown)
    for write in left.writes:
        assert write.position in (zookeeper, kafka, 10, 100)
        assert bounded
        assert 10 <= write.position <= 100
        assert write.store == plan.goal
        assert write.position != decision.held(plan.goal)
    if Unknown in (type(zookeeper), type(kafka)):
        assert decision.open
    if zookeeper is NONE and kafka is NONE:
        assert decision.action == "skip-no-offset"
