"""Offset ranges and the codes of errors, which travel as text."""

import pytest

from kafkawire.model import BrokerPartition
from sparkpipeline.errors import OffsetOutOfRange, OptionRefused, code_in, sentence_in
from sparkpipeline.ranges import OffsetRange, in_parts, in_steps, packed, parse_ranges, ranges_text


def test_ranges_come_back_from_their_text_in_order():
    ranges = [OffsetRange("b", 1, 5, 9), OffsetRange("a", 0, 0, 0)]
    assert parse_ranges(ranges_text(ranges)) == ranges


def test_ranges_of_0_7_name_broker_and_index():
    ranges = [OffsetRange("a", BrokerPartition(1, 0), 0, 75), OffsetRange("a", BrokerPartition(0, 2), 5, 9)]
    assert '"partition": "1-0"' in ranges_text(ranges)
    assert parse_ranges(ranges_text(ranges)) == ranges


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("{}", "is not a JSON list"),
        ('[{"topic": "t"}]', "entry 0 is not an object"),
        ('[{"topic": "t", "partition": 0, "start": -1, "until": 4}]', "numbers from 0 on"),
        ('[{"topic": "t", "partition": 0, "start": true, "until": 4}]', "numbers from 0 on"),
        ('[{"topic": "t", "partition": "1", "start": 0, "until": 4}]', "numbers from 0 on"),
        ('[{"topic": "t", "partition": "1-x", "start": 0, "until": 4}]', "numbers from 0 on"),
        ('[{"topic": "t", "partition": 0, "start": 5, "until": 4}]', "behind its end 4"),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused_by_entry(text, says):
    with pytest.raises(OptionRefused, match=says):
        parse_ranges(text)


def test_code_and_coordinates_are_found_in_a_foreign_traceback():
    error = OffsetOutOfRange("the log begins later", topic="t", partition=3, requested=1, broker=None)
    text = f"Traceback:\n  File x\nsparkpipeline.errors.OffsetOutOfRange: {error}\n\n\tat org.apache.spark"
    assert str(error) == "KAFKA08_OFFSET_OUT_OF_RANGE topic=t partition=3 requested=1: the log begins later"
    assert code_in(text) == "KAFKA08_OFFSET_OUT_OF_RANGE"
    assert sentence_in(text) == str(error)
    assert code_in("KAFKA08_ELSE") is None


def bounds(ranges):
    return [(rng.start, rng.until) for rng in ranges]


def test_a_range_in_parts_and_in_steps():
    ten = OffsetRange("t", 0, 5, 15)
    assert bounds(in_parts(ten, 3)) == [(5, 8), (8, 11), (11, 15)]
    assert bounds(in_parts(ten, 1)) == [(5, 15)]
    assert bounds(in_parts(ten, 1_000_000_000)) == [(n, n + 1) for n in range(5, 15)]
    assert bounds(in_parts(OffsetRange("t", 0, 5, 5), 3)) == []
    assert bounds(in_steps(ten, 4)) == [(5, 9), (9, 13), (13, 15)]
    assert bounds(in_steps(OffsetRange("t", 0, 5, 5), 4)) == []


def test_the_largest_piece_goes_to_the_task_that_has_least():
    pieces = [OffsetRange("t", n, 0, count) for n, count in enumerate((3, 9, 4, 5))]
    found = packed(pieces, 2, size=lambda piece: piece.count)
    assert [[piece.count for piece in task] for task in found] == [[9, 3], [5, 4]]
    assert packed([], 2, size=lambda piece: piece.count) == [[], []]


def test_a_bound_begins_a_new_task_and_what_is_apart_shares_none():
    pieces = [OffsetRange("t", n, 0, 4) for n in range(5)]
    by_size = packed(pieces, 1, size=lambda piece: 10.0, max_size=25)
    assert [len(task) for task in by_size] == [2, 2, 1]
    by_count = packed(pieces, 1, size=lambda piece: 1.0, max_count=8)
    assert [len(task) for task in by_count] == [2, 2, 1]
    assert [len(task) for task in packed(pieces, 1, size=lambda piece: 10.0, max_size=5)] == [1] * 5  # larger than any
    of_one = packed([*pieces, *pieces], 2, size=lambda piece: piece.count, apart=lambda piece: piece.tp)
    assert [sorted(piece.partition for piece in task) for task in of_one] == [[0, 1, 2, 3, 4]] * 2
