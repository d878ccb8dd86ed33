"""What is written and what is not: by store, by policy, and never what could not be brought back."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupadmin.files.model import KafkaState, SavedRow, ZnodeState
from groupadmin.files.read import read_offsets
from groupadmin.files.write import write_offsets
from groupadmin.plan.changes import Change, plan_changes, refused
from groupadmin.plan.resets import Problem, TargetOffset
from groupadmin.plan.undo import by_store, same, texts, undo_file
from kafkawire.model import TopicPartition
from zkconsumer.offsets.store import NONE, Unknown, UnreadableNode
from zkconsumer.options.arguments import WrongUsage

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
BOTH = ("zookeeper", "kafka")
GARBAGE = UnreadableNode("node holds 'null'", b"null")
UNKNOWN = Unknown("no coordinator answered")


def one(position, before, stores=("zookeeper",), bounds=(10, 100), policy="refuse", **more) -> Change:
    wanted = {A: position if isinstance(position, Problem) else TargetOffset(position)}
    log = {} if bounds is None else {A: bounds}
    held = {A: dict(zip(stores, before, strict=True))}
    (change,) = plan_changes("g", wanted, held, bounds=log, existing=[A], stores=stores, out_of_range=policy, **more)
    return change


def test_what_is_there_already_is_named_and_not_written():
    change = one(50, [50])
    assert (change.action, change.stores, change.after) == ("unchanged", (), 50)


def test_both_stores_of_a_dual_group_are_written_kafka_first():
    assert one(20, [50, 60], BOTH).stores == ("kafka", "zookeeper")


def test_a_store_that_has_it_already_is_left_alone():
    assert one(50, [50, 60], BOTH).stores == ("kafka",)


def test_deleting_is_writing_none_and_of_nothing_is_unchanged():
    change = one(None, [50, NONE], BOTH)
    assert (change.action, change.after, change.stores) == ("write", None, ("zookeeper",))
    assert one(None, [NONE, NONE], BOTH).action == "unchanged"


def test_position_0_is_not_none():
    assert one(0, [NONE], bounds=(0, 5)).action == "write"
    assert one(None, [0]).action == "write"


@pytest.mark.parametrize(
    ("position", "policy", "action", "after"),
    [
        (10, "refuse", "write", 10),
        (100, "refuse", "write", 100),  # the end: everything is read
        (9, "refuse", "refused", 9),
        (101, "refuse", "refused", 101),
        (9, "clamp", "write", 10),
        (101, "clamp", "write", 100),
        (9, "skip", "skipped", 9),
        (101, "keep", "write", 101),
    ],
)
def test_the_policy_decides_what_lies_outside_the_log(position, policy, action, after):
    change = one(position, [50], policy=policy)
    assert (change.action, change.after) == (action, after)
    assert bool(change.why) == (not 10 <= position <= 100)
    assert bool(change.stores) == (action == "write")


@pytest.mark.parametrize(
    ("policy", "action"), [("refuse", "refused"), ("clamp", "refused"), ("skip", "skipped"), ("keep", "write")]
)
def test_a_log_whose_ends_are_not_known_is_not_guessed(policy, action):
    assert one(50, [40], bounds=None, policy=policy).action == action


def test_a_problem_is_a_refusal_with_its_sentence():
    change = one(Problem("t/0: no leader"), [50])
    assert (change.action, change.why, change.after) == ("refused", "t/0: no leader", None)
    assert refused([change]) == [change]


def test_data_that_is_no_offset_is_overwritten_and_a_store_that_did_not_answer_is_not():
    change = one(50, [UNKNOWN])
    assert change.action == "refused"
    assert "no coordinator answered" in change.why
    change = one(50, [GARBAGE])
    assert (change.action, change.stores) == ("write", ("zookeeper",))
    assert "the undo file keeps it" in change.why


def test_a_store_that_nobody_read_is_refused_like_one_that_cannot_be_read():
    (change,) = plan_changes("g", {A: TargetOffset(50)}, {}, bounds={A: (0, 100)}, existing=[A], stores=BOTH)
    assert change.action == "refused"
    assert "kafka was not read" in change.why


def test_negative_and_unknown_partitions_are_wrong_before_anything_is_planned_and_all_named():
    with pytest.raises(WrongUsage) as wrong:
        plan_changes("g", {A: TargetOffset(-1), B: TargetOffset(5)}, {}, bounds={}, existing=[A], stores=BOTH)
    assert str(wrong.value) == "group g: t/0: position -1 is negative; t/1 does not exist"


def test_a_position_of_a_deleted_topic_can_be_deleted():
    (change,) = plan_changes(
        "g", {B: TargetOffset(None)}, {B: {"zookeeper": 5}}, bounds={}, existing=[], stores=["zookeeper"]
    )
    assert (change.action, change.after) == ("write", None)


def writes(changes):
    """What each store is given; None: delete."""
    found = {}
    for change in changes:
        for store in change.stores:
            found.setdefault(store, {})[change.tp] = change.after
    return found


def test_writes_by_store():
    wanted = {A: TargetOffset(20), B: TargetOffset(None)}
    before = {A: {"kafka": 20, "zookeeper": 5}, B: {"kafka": 7, "zookeeper": 8}}
    changes = plan_changes("g", wanted, before, bounds={A: (0, 50)}, existing=[A, B], stores=BOTH)
    assert writes(changes) == {"zookeeper": {A: 20, B: None}, "kafka": {B: None}}


# the way back ---------------------------------------------------------------------------------------------------------


def apply(state, changes):
    for store, rows in writes(changes).items():
        for tp, after in rows.items():
            state[store, tp] = NONE if after is None else after


def look(state):
    return {tp: {store: state[store, tp] for store in BOTH} for tp in (A, B)}


HELD = st.one_of(st.just(NONE), st.integers(0, 200))
IN_ZOOKEEPER = st.one_of(HELD, st.binary(max_size=3).map(lambda data: UnreadableNode("", data)))


@given(
    st.tuples(HELD, HELD, IN_ZOOKEEPER, IN_ZOOKEEPER),
    st.lists(st.one_of(st.none(), st.integers(0, 200)), min_size=2, max_size=2),
)
def test_undo_brings_back_exactly_what_was_there(before, after):
    """Also what lay outside the log, what the stores did not agree about, and that there was nothing."""
    state = dict(zip(itertools.product(("kafka", "zookeeper"), (A, B)), before, strict=True))
    former, log = dict(state), {A: (10, 100), B: (0, 150)}
    wanted = dict(zip((A, B), map(TargetOffset, after), strict=True))
    changes = plan_changes("g", wanted, look(state), bounds=log, existing=[A, B], stores=BOTH, out_of_range="clamp")
    undo = read_offsets(write_offsets(undo_file(changes, "zk:2181", 1), "json"))
    apply(state, changes)
    for store, rows in by_store(undo.rows, "g", BOTH).items():
        back = plan_changes("g", rows, look(state), bounds=log, existing=[A, B], stores=[store], out_of_range="keep")
        assert not refused(back)
        apply(state, back)
    assert state == former


def test_an_undo_row_says_what_each_store_held():
    before = {A: {"kafka": NONE, "zookeeper": 7}, B: {"kafka": 8, "zookeeper": NONE}}
    changes = plan_changes(
        "g", {A: TargetOffset(20), B: TargetOffset(None)}, before, bounds={A: (0, 50)}, existing=[A, B], stores=BOTH
    )
    undo = undo_file(
        changes, "zk:2181/kafka", 99, znodes={("g", A): ZnodeState(7, 100, 3, 5)}, metadata={("g", B): "by hand"}
    )
    assert undo.rows == (
        SavedRow(
            "g",
            "t",
            0,
            7,
            metadata=None,
            zookeeper=ZnodeState(7, 100, 3, 5),
            kafka=KafkaState(None),
            log_start=0,
            log_end=50,
        ),
        SavedRow("g", "t", 1, 8, metadata="by hand", zookeeper=ZnodeState(None), kafka=KafkaState(8, "by hand")),
    )
    assert texts(undo.rows, "g") == {B: "by hand"}
    assert (undo.kind, undo.source, undo.cluster, undo.exported_at_ms) == ("json", "dual", "zk:2181/kafka", 99)


def test_an_undo_file_says_the_same_once_it_was_a_file():
    before = {A: {"kafka": NONE, "zookeeper": 7}, B: {"kafka": 8, "zookeeper": NONE}}
    changes = plan_changes(
        "g", {A: TargetOffset(20), B: TargetOffset(None)}, before, bounds={A: (0, 50)}, existing=[A, B], stores=BOTH
    )
    undo = undo_file(
        changes, "zk:2181/kafka", 99, znodes={("g", A): ZnodeState(7, 100, 3, 5)}, metadata={("g", B): "by hand"}
    )
    read = read_offsets(write_offsets(undo, "json"))
    assert (read.rows, read.source, read.exported_at_ms) == (undo.rows, undo.source, undo.exported_at_ms)
    assert by_store(read.rows, "g", BOTH) == by_store(undo.rows, "g", BOTH)


def test_what_is_not_written_is_not_in_the_undo_file():
    wanted, before, log = (
        {A: TargetOffset(7), B: TargetOffset(99)},
        {tp: {"zookeeper": 7} for tp in (A, B)},
        {A: (0, 9), B: (0, 9)},
    )
    changes = plan_changes("g", wanted, before, bounds=log, existing=[A, B], stores=["zookeeper"], out_of_range="skip")
    assert not undo_file(changes, None, 0).rows


def test_what_cannot_be_brought_back_is_said():
    change = Change("g", A, {"zookeeper": 4, "kafka": UNKNOWN}, None, bounds=None, action="write", stores=BOTH)
    undo = undo_file([change], None, 0)
    assert undo.rows[0].kafka is None
    assert undo.warnings == ("group g, t/0: kafka cannot be brought back: no coordinator answered",)
    assert by_store(undo.rows, "g", BOTH) == {"zookeeper": {A: TargetOffset(4)}, "kafka": {}}


def test_a_file_of_mere_positions_goes_to_every_store():
    assert by_store([SavedRow(None, "t", 0, 5)], "g", BOTH) == {
        "zookeeper": {A: TargetOffset(5)},
        "kafka": {A: TargetOffset(5)},
    }


def test_a_file_of_another_store_is_not_put_where_it_does_not_belong():
    row = SavedRow("g", "t", 0, 5, zookeeper=ZnodeState(5))
    with pytest.raises(WrongUsage, match="t/0 of group g from zookeeper"):
        by_store([row], "g", ["kafka"])


def test_two_rows_of_one_partition_are_refused():
    with pytest.raises(WrongUsage, match="two rows for t/0"):
        by_store([SavedRow("g", "t", 0, 5), SavedRow(None, "t", 0, 5)], "g", BOTH)


@pytest.mark.parametrize(
    ("there", "wanted", "equal"), [(5, 5, True), (NONE, None, True), (0, None, False), (GARBAGE, 5, False)]
)
def test_reading_back(there, wanted, equal):
    assert same(there, wanted) is equal
