"""What an operator types: each form is read one way, and what is none of them is refused with what would be."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwork.sentences import iso
from kafkawire.model import BrokerPartition, TopicPartition
from zkconsumer.options.arguments import (
    Chosen,
    WrongUsage,
    existing,
    parse_assignments,
    parse_duration,
    parse_partitions,
    parse_position,
    parse_shift,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "topic", "partitions"),
    [
        ("orders", "orders", None),
        ("orders:0", "orders", (0,)),
        ("orders:3,0,3", "orders", (3, 0)),
        (" orders:0, 1 ", "orders", (0, 1)),
        ("a.b_c-d:12", "a.b_c-d", (12,)),
        ("orders:1-0,2-3", "orders", (BrokerPartition(1, 0), BrokerPartition(2, 3))),
    ],
)
def test_topics_and_their_partitions(text, topic, partitions):
    assert parse_partitions(text) == Chosen(topic, partitions)


@pytest.mark.parametrize(
    "text", ["", ":", ":0", "orders:", "orders:x", "orders:-1", "orders:1.5", "or ders", "o:0,,1", "o:²"]
)
def test_what_names_no_partition_is_refused(text):
    with pytest.raises(WrongUsage, match="names no"):
        parse_partitions(text)


def test_assignments_name_their_partitions():
    assert parse_assignments(["t:0=123", "t:1,2=0"]) == {
        TopicPartition("t", 0): 123,
        TopicPartition("t", 1): 0,
        TopicPartition("t", 2): 0,
    }


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["t=5"], "does not say which partitions of t: write t:0=5"),
        (["t:0=-5"], "-5 is negative"),
        (["t:0"], "sets nothing"),
        (["t:0="], "is not a position"),
        (["t:0=1e3"], "is not a position"),
        (["t:0=99999999999999999999"], "is not a position"),
        (["t:0=5", "t:0=6"], "t/0 is given two positions, 5 and 6"),
    ],
)
def test_an_assignment_that_leaves_something_open_is_refused(texts, says):
    with pytest.raises(WrongUsage, match=says):
        parse_assignments(texts)


def test_the_same_assignment_twice_is_one():
    assert parse_assignments(["t:0=5", "t:0=5"]) == {TopicPartition("t", 0): 5}


def test_partitions_the_cluster_lacks_are_all_named():
    with pytest.raises(WrongUsage) as refused:
        existing([Chosen("t", (0, 7)), Chosen("gone", None)], {"t": [0, 1]})
    assert str(refused.value) == "t/7 does not exist (2 partitions); topic gone does not exist"


def test_a_topic_alone_is_all_of_its_partitions_once():
    assert existing([Chosen("t", (1,)), Chosen("t", None)], {"t": [0, 1]}) == [
        TopicPartition("t", 1),
        TopicPartition("t", 0),
    ]


@pytest.mark.parametrize(("text", "by"), [("100", 100), ("-100", -100), ("+7", 7), ("0", 0)])
def test_shifts(text, by):
    assert parse_shift(text) == by


@pytest.mark.parametrize("text", ["", "--1", "1.5", "a", "- 1"])
def test_no_shift(text):
    with pytest.raises(WrongUsage):
        parse_shift(text)


@pytest.mark.parametrize("text", ["", "1_000", "٣", "0x10", "1 0"])
def test_only_plain_digits_are_a_position(text):
    with pytest.raises(WrongUsage):
        parse_position(text)


# times ----------------------------------------------------------------------------------------------------------------

MOMENT = int(datetime(2026, 11, 21, 15, 4, 5, tzinfo=UTC).timestamp()) * 1000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-21T15:04:05Z", MOMENT),
        ("2026-11-21T15:04:05.250Z", MOMENT + 250),
        ("2026-11-21T16:04:05+01:00", MOMENT),
        ("2026-11-21T16:04:05.25+0100", MOMENT + 250),
        ("2026-11-21t14:04:05-01", MOMENT),
        ("2026-11-21 15:04 Z", MOMENT - 5000),
        ("2026-11-21T15:04:05.123456789Z", MOMENT + 123),
    ],
)
def test_a_time_with_a_zone_needs_no_note(text, ms):
    assert (parse_time(text).ms, parse_time(text).note) == (ms, "")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-21T15:04:05", MOMENT),
        ("2026-11-21 15:04:05.5", MOMENT + 500),
        ("2026-11-21", MOMENT - (15 * 3600 + 4 * 60 + 5) * 1000),
    ],
)
def test_a_time_without_a_zone_is_utc_and_that_is_said(text, ms):
    moment = parse_time(text)
    assert moment.ms == ms
    assert moment.note == f"'{text}' names no zone and is taken as UTC"


@pytest.mark.parametrize(
    ("text", "ms", "unit"),
    [
        ("1700000000", 1_700_000_000_000, "seconds"),
        ("170000000", 170_000_000_000, "seconds"),
        ("1700000000250", 1_700_000_000_250, "milliseconds"),
        ("1700000000250000000", 1_700_000_000_250, "nanoseconds"),
    ],
)
def test_digits_tell_the_unit_of_a_number_and_that_is_said(text, ms, unit):
    moment = parse_time(text)
    assert moment.ms == ms
    assert f"taken as {unit} since 1970, {iso(ms)}" in moment.note


@pytest.mark.parametrize(
    "text",
    [
        "20261121",  # a day, or seconds of 1970: nobody knows
        "1700000000250000",  # microseconds: no tool means them
        "0",
        "000001700000000",
        "",
        "now",
        "2026-13-01",
        "2026-11-21T25:00",
        "2026-11-21T10",
        "2026-W47-6",
        "1969-12-31",
        "2026-11-21T15:04:05+99:00",
        "2026-11-21T15:04:05[Europe/Berlin]",
    ],
)
def test_what_may_mean_two_times_is_none(text):
    with pytest.raises(WrongUsage):
        parse_time(text)


@given(st.integers(min_value=0, max_value=253_402_300_799_999))
def test_a_moment_that_is_shown_is_read_back(ms):
    assert parse_time(iso(ms)).ms == ms


def test_a_number_beyond_every_calendar_is_still_shown():
    assert iso(2**62) == f"{2**62} ms since 1970"


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H30M", 5_400_000),
        ("P1D", 86_400_000),
        ("P2DT3H4M5.5S", 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000 + 5500),
        ("pt15s", 15_000),
        ("90m", 5_400_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("500ms", 500),
        ("1.5h", 5_400_000),
        ("1m500ms", 60_500),
    ],
)
def test_durations(text, ms):
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "PT0S", "0s", "-90m", "90", "1.5", "1w", "P1Y", "90 m", "m", "PT1H30"]
)
def test_no_durations(text):
    with pytest.raises(WrongUsage):
        parse_duration(text)
