"""Offset ranges and the codes of errors, which travel as text."""

import pytest

from kafkawire.model import BrokerPartition
from sparkpipeline.errors import OffsetOutOfRange, OptionRefused, code_in, sentence_in
from sparkpipeline.ranges import OffsetRange, parse_ranges, ranges_text


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
        ("{", "is no JSON"),
        ("{}", "is no JSON list"),
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
