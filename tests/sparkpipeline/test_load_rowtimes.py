"""Rows that do not get an hour of their own: what is told, what is refused, and how many hours a batch makes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkpipeline.errors import Refused
from sparkpipeline.ledger.footers import Footer
from sparkpipeline.load.counts import CountedFile, RangeCount, ReadBack
from sparkpipeline.load.hourrules import HourRule
from sparkpipeline.load.rowtimes import check_times, gathered, gathered_sentences, sentences, topic_times
from sparkpipeline.paths import HOUR_MS, StagedName, hour_at
from sparkpipeline.ranges import OffsetRange

TEN = 1767261600000  # 2026-01-01T10:00Z
PLAN_MS = TEN + 5 * HOUR_MS
FIELD = HourRule("json", "$.creatd", "ms")


def file(topic: str, ms: int | None, rows: int = 10, timed: int = 10, piece: str = ".c000") -> CountedFile:
    """A staged file of one hour; ms None: its rows have no time of their own."""
    timed = 0 if ms is None else timed
    back = ReadBack(rows=rows, first=0, last=rows - 1, bytes=rows, timed=timed, min_ms=ms, max_ms=ms, crcs=0)
    hour = hour_at(topic, PLAN_MS if ms is None else ms)
    name = StagedName(hour=hour, partition=0, task=0, piece=piece, suffix=".snappy.parquet")
    return CountedFile(path="", name=name, size=1, footer=Footer(rows, 0, rows - 1), back=back)


def of(topic: str, *files: CountedFile) -> RangeCount:
    return RangeCount(OffsetRange(topic, 0, 0, sum(file.back.rows for file in files)), files)


def test_rows_without_a_usable_time_are_counted_and_told_by_topic() -> None:
    counts = [of("a", file("a", TEN), file("a", None, 3)), of("b", file("b", None)), of("c", file("c", TEN // 1000)),
              of("d", file("d", TEN)), of("e")]  # fmt: skip
    assert [count.no_time for count in counts] == [3, 10, 0, 0, 0]
    assert sentences(topic_times(counts), FIELD) == [
        "3 of 13 rows of a do not have a time in $.creatd (time.unit ms): they are in the hour of the plan",
        "none of 10 rows of b has a time in $.creatd (time.unit ms): all are in the hour of the plan",
        "all times of 10 rows of c lie in January 1970, the latest at 1970-01-21T10:54:21.600Z: does it hold seconds?"
        " time.unit says ms",
    ]
    assert sentences(topic_times(counts), HourRule("plan")) == []
    assert sentences(topic_times([of(name, file(name, None)) for name in "abcde"]), HourRule())[2:] == [
        "none of 10 rows of c has a timestamp: all are in the hour of the plan", "the same of 2 more topics"
    ]  # fmt: skip


def test_a_first_batch_without_any_usable_time_is_refused() -> None:
    unusable = topic_times([of("a", file("a", None)), of("b", file("b", TEN // 1000))])
    with pytest.raises(Refused, match=r"KAFKA08_REFUSED batch=7: no row has a usable time: none of 10 rows of a .*"
                       r"b lie in January 1970.* say time.from: plan .*load abandon JOB 7"):  # fmt: skip
        check_times(unusable, FIELD, [], 7)
    check_times(unusable, FIELD, ["b"], 7)  # loaded before: the options were right once
    check_times(unusable, HourRule(), [], 7)  # no option of the job is wrong where messages have no timestamp
    check_times([], FIELD, [], 7)
    check_times(topic_times([of("a", file("a", None)), of("b", file("b", TEN))]), FIELD, [], 7)


def test_hours_of_a_topic_beyond_the_bound_are_gathered_in_the_hour_of_the_plan() -> None:
    many = of("a", *(file("a", TEN + n * HOUR_MS, rows=5 + n % 2, timed=5 + n % 2) for n in range(100, 140)),
              file("a", None, 2), file("a", TEN, 90, 90))  # fmt: skip
    other = of("b", file("b", TEN), file("b", TEN + HOUR_MS))
    found, same = gathered([many, other], 3, PLAN_MS)
    assert same == other
    assert found.rows == many.rows
    assert {file.name.hour for file in found.files} == {
        hour_at("a", ms) for ms in (PLAN_MS, TEN, TEN + 139 * HOUR_MS, TEN + 137 * HOUR_MS)
    }
    assert found.no_time == found.rows - 90 - 12
    finals = {file.name.final(0, found.range.until, 1) for file in found.files}
    assert len(finals) == len(found.files)
    (said,) = gathered_sentences([found, same], 3)
    assert said.startswith("a has rows of more than 3 hours: 208 rows of those with the fewest rows are in the hour")
    assert gathered([many, replace(other)], 100, PLAN_MS) == [many, other]
