"""Offsets, times and partitions as JSON, which must be Spark's own."""

import pytest

from kafkawire.model import BrokerPartition, TopicPartition
from sparkpipeline.errors import OptionRefused
from sparkpipeline.source.offsetbounds import (
    Fixed,
    Offsets,
    Time,
    Times,
    bound_of,
    offsets_text,
    parse_offsets,
    parse_partitions,
    parse_times,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_the_text_is_sparks_and_sorted_by_number():
    offsets = {TopicPartition("a", 10): 3, B0: -2, TopicPartition("a", 9): 23}
    assert offsets_text(offsets) == '{"a":{"9":23,"10":3},"b":{"0":-2}}'
    assert parse_offsets(offsets_text(offsets), "x") == offsets
    assert offsets_text({}) == "{}"


def test_partitions_of_07_have_their_broker_in_front():
    offsets = {TopicPartition("a", BrokerPartition(1, 0)): 81920}
    assert offsets_text(offsets) == '{"a":{"1-0":81920}}'
    assert parse_offsets('{"a":{"1-0":81920}}', "x") == offsets


@pytest.mark.parametrize(
    "text",
    ["", "latest", "[]", '{"a":5}', '{"a":[0]}', '{"a":{"x":1}}', '{"a":{"0":"1"}}', '{"a":{"0":1.5}}',
     '{"a":{"0":true}}', '{"a":{"-1":1}}', '{"":{"0":1}}', '{"a":{"0":9223372036854775808}}', '{"a":{"0":null}}'],
)  # fmt: skip
def test_what_is_no_offsets_is_refused_with_an_example(text):
    with pytest.raises(OptionRefused, match=r'option=startingOffsets: expected something like \{"topicA"'):
        parse_offsets(text, "startingOffsets")


def test_numbers_that_are_no_offsets_and_names_given_twice_are_refused():
    with pytest.raises(OptionRefused, match="-3 is not an offset of a/0"):
        parse_offsets('{"a":{"0":-3}}', "startingOffsets")
    with pytest.raises(OptionRefused, match="names '0' twice"):
        parse_offsets('{"a":{"0":1,"0":2}}', "startingOffsets")
    with pytest.raises(OptionRefused, match="-2 is not a time for a/0"):
        parse_times('{"a":{"0":-2}}', "startingOffsetsByTimestamp")


def test_partitions_are_listed_by_topic():
    assert parse_partitions('{"b":[0],"a":[1,0,1]}') == [A0, A1, B0]
    for wrong in ('{"a":0}', '{"a":["x"]}', '{"a":[-1]}', '{"a":[true]}', "a"):
        with pytest.raises(OptionRefused, match="option=assign"):
            parse_partitions(wrong)


def test_a_time_goes_before_times_and_times_before_offsets():
    times, offsets = '{"a":{"0":17}}', '{"a":{"0":5}}'
    assert bound_of("starting", "1000", times, offsets) == Time(1000)
    assert bound_of("starting", None, times, offsets) == Times({A0: 17})
    assert bound_of("starting", None, None, offsets) == Offsets({A0: 5})
    assert bound_of("starting", None, None, " Latest ") is Fixed.LATEST
    assert bound_of("starting", None, None, "GROUP") is Fixed.GROUP
    assert bound_of("starting", None, None, None) is None


def test_what_is_behind_is_not_looked_at_as_in_spark():
    assert bound_of("ending", "1000", "no JSON", "nor this") == Time(1000)
    with pytest.raises(OptionRefused, match="option=endingTimestamp: expected a whole number of ms"):
        bound_of("ending", "yesterday", None, None)
    with pytest.raises(OptionRefused, match="option=endingOffsetsByTimestamp"):
        bound_of("ending", None, "no JSON", None)


def test_a_partition_that_is_named_in_two_ways_is_refused():
    with pytest.raises(OptionRefused, match="option=startingOffsets: names t/0 twice"):
        parse_offsets('{"t":{"0":5,"00":9}}', "startingOffsets")
