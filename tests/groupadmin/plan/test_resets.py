"""The reset kinds: which position each partition is to get, or why none can be told."""

from __future__ import annotations

import pytest

from groupadmin.files.model import SavedRow
from groupadmin.plan.resets import (
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ByDuration,
    Current,
    Earliest,
    FromRows,
    Latest,
    Problem,
    ShiftBy,
    TargetOffset,
    TimeAnswer,
    ToDatetime,
    ToOffset,
    asked_time,
    from_rows,
    target_offsets,
)
from kafkawire.model import TopicPartition
from zkconsumer.offsets.store import NONE, Unknown
from zkconsumer.options.arguments import WrongUsage

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
LOG = {A: (10, 100)}
WHEN = 1_700_000_000_000


def one(kind, committed=50, bounds=LOG, answer=None):
    found = target_offsets(
        kind, [A], {A: committed}, bounds=bounds, by_time=None if answer is None else {A: answer}, time_ms=WHEN
    )
    assert list(found) == [A]
    return found[A]


@pytest.mark.parametrize(
    ("kind", "committed", "position"),
    [
        (Earliest(), 50, 10),
        (Earliest(), NONE, 10),
        (Latest(), 50, 100),
        (Latest(), Unknown("garbage"), 100),
        (Current(), 50, 50),
        (Current(), 5, 5),  # outside the log: `changes` decides, not we
        (ToOffset(7), 50, 7),
        (ToOffset(0), NONE, 0),
        (ShiftBy(-20), 50, 30),
        (ShiftBy(1000), 50, 1050),
        (ShiftBy(0), 50, 50),
        (FromRows({A: 42}), 50, 42),
        (FromRows({A: None}), 50, None),
    ],
)
def test_positions(kind, committed, position):
    assert one(kind, committed) == TargetOffset(position)


def test_current_without_a_position_is_the_end_and_that_is_said():
    assert one(Current(), NONE) == TargetOffset(100, "t/0 has no committed position: the end of the log, 100, is taken")


def test_a_shift_below_zero_is_zero_and_that_is_said():
    assert one(ShiftBy(-51)) == TargetOffset(0, "t/0: 50 moved by -51 is below 0: 0 is taken")


@pytest.mark.parametrize("kind", [ShiftBy(1), ShiftBy(-1)])
def test_nothing_is_shifted_from_no_position(kind):
    assert isinstance(one(kind, NONE), Problem)


@pytest.mark.parametrize("kind", [Current(), ShiftBy(1)])
def test_what_cannot_be_read_is_a_problem_with_its_reason_and_never_zero(kind):
    problem = one(kind, Unknown("node /x holds 'null'"))
    assert isinstance(problem, Problem)
    assert "node /x holds 'null'" in problem.text


@pytest.mark.parametrize("kind", [Current(), ShiftBy(1)])
def test_a_position_nobody_read_is_not_taken_for_none(kind):
    assert isinstance(target_offsets(kind, [A], {}, bounds=LOG)[A], Problem)


@pytest.mark.parametrize("kind", [Earliest(), Latest()])
def test_a_log_without_a_leader_is_a_problem_of_its_partition_only(kind):
    found = target_offsets(kind, [A, B], {A: 1, B: 1}, bounds=LOG)
    assert isinstance(found[A], TargetOffset)
    assert isinstance(found[B], Problem)
    assert "t/1" in found[B].text


def test_a_position_below_zero_is_wrong_whoever_asks():
    with pytest.raises(WrongUsage, match="-1 is negative"):
        one(ToOffset(-1))
    with pytest.raises(WrongUsage, match="-1 is negative"):
        one(FromRows({A: -1}))


def test_a_file_speaks_of_the_partitions_it_names_only():
    assert target_offsets(FromRows({A: 5}), [A, B], {}, bounds=LOG) == {A: TargetOffset(5)}


def test_rows_of_other_groups_are_left_out_and_rows_without_one_are_ours():
    rows = [SavedRow("g", "t", 0, 5), SavedRow("other", "t", 0, 9), SavedRow(None, "t", 1, None)]
    assert from_rows(rows, "g") == FromRows({A: 5, B: None})


def test_two_positions_for_one_partition_are_refused():
    with pytest.raises(WrongUsage, match="two positions for t/0"):
        from_rows([SavedRow(None, "t", 0, 5), SavedRow("g", "t", 0, None)], "g")


# by time --------------------------------------------------------------------------------------------------------------


def test_which_time_the_leaders_are_asked_for():
    assert asked_time(ToDatetime(WHEN), now_ms=WHEN + 5) == WHEN
    assert asked_time(ByDuration(1000), now_ms=WHEN) == WHEN - 1000
    assert asked_time(ByDuration(1000), now_ms=10) == 0
    assert asked_time(Earliest(), now_ms=WHEN) is None


def test_a_message_at_the_time_needs_no_note():
    assert one(ToDatetime(WHEN), answer=TimeAnswer(33, "message")) == TargetOffset(33)


def test_no_message_that_young_is_the_end_and_that_is_said():
    found = one(ByDuration(5), answer=TimeAnswer(None, "message"))
    assert found == TargetOffset(
        100, "t/0: no message at 2023-11-14T22:13:20.000Z or later: the end of the log, 100, is taken"
    )


def test_the_wire_s_minus_one_never_travels():
    assert one(ToDatetime(WHEN), answer=TimeAnswer(-1, "message")).position == 100


def test_old_brokers_know_segments_only_and_that_is_said():
    found = one(ToDatetime(WHEN), answer=TimeAnswer(20, "segment"))
    assert found.position == 20
    assert "brokers before 0.10.1" in found.note
    assert "up to one segment is read again" in found.note


def test_no_segment_that_old_is_the_start_because_the_end_would_skip_all_of_it():
    found = one(ToDatetime(WHEN), answer=TimeAnswer(None, "segment"))
    assert found.position == 10
    assert "every segment was written after" in found.note


def test_a_log_without_timestamps_is_named_with_what_helps():
    problem = one(ToDatetime(WHEN), answer=TimeAnswer(None, "message", UNSUPPORTED_FOR_MESSAGE_FORMAT))
    assert isinstance(problem, Problem)
    assert "UNSUPPORTED_FOR_MESSAGE_FORMAT" in problem.text
    assert "--shift-by" in problem.text


@pytest.mark.parametrize("answer", [None, TimeAnswer(None, "message", 6)])
def test_no_answer_is_not_no_message(answer):
    assert isinstance(one(ToDatetime(WHEN), answer=answer), Problem)


def test_without_bounds_no_end_is_invented():
    assert isinstance(one(ToDatetime(WHEN), bounds={}, answer=TimeAnswer(None, "message")), Problem)
