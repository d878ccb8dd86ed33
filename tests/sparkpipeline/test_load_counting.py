"""Three counts of what was staged: each difference between them is found.  No Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkawire.model import BrokerPartition
from sparkpipeline.errors import Mismatch
from sparkpipeline.ledger.files import FileInfo
from sparkpipeline.ledger.footers import Footer
from sparkpipeline.load.counts import CountedFile, RangeCount, ReadBack, counted, staged_files
from sparkpipeline.load.loadplan import LoadPlan
from sparkpipeline.load.staging import Observed, ReadAgain
from sparkpipeline.paths import StagedName
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.damagelog import DamagedEntry

RANGES = (OffsetRange("t", 0, 0, 10), OffsetRange("u", 4, 5, 7), OffsetRange("t", 0, 10, 12))
PLAN = LoadPlan(ranges=RANGES, tasks=(2, 1), positions={}, heads={})
STAGING = "file:///s"


def file(
    topic: str, partition: int | str, task: int, first: int, last: int, hour: str = "10", rows: int = -1
) -> CountedFile:
    path = f"topic={topic}/p={partition}/date=2026-01-01/hour={hour}/part-{task:05}-x.c000.snappy.parquet"
    name = StagedName.of(path)
    assert name is not None
    count = last - first + 1 if rows < 0 else rows
    return CountedFile(
        path=path,
        name=name,
        size=100,
        footer=Footer(count, first, last),
        back=ReadBack(rows=count, first=first, last=last, bytes=50, timed=0, min_ms=None, max_ms=None, crcs=7),
    )


FILES = [file("t", 0, 0, 0, 6), file("t", 0, 0, 7, 9, "11"), file("u", 4, 0, 5, 6), file("t", 0, 1, 10, 11)]
SEEN = Observed(rows=14, numbers=45 + 1 + 1, begun=3, crcs=28)


def test_each_range_gets_its_files_by_task_and_partition() -> None:
    found = counted(plan=PLAN, files=FILES, seen=SEEN)
    assert [(count.rows, count.gaps, count.first, count.last) for count in found] == [
        (10, 0, 0, 9), (2, 0, 5, 6), (2, 0, 10, 11)
    ]  # fmt: skip
    assert [len(count.files) for count in found] == [2, 1, 1]


@pytest.mark.parametrize(
    ("files", "seen", "sentence"),
    [
        (FILES[1:], SEEN, "start=0 until=10: 3 rows for 10 offsets: 7 are missing"),
        ([*FILES, file("t", 0, 0, 3, 3, "12")], SEEN, "11 rows for 10 offsets"),
        ([*FILES[:3], file("t", 0, 1, 9, 10)], SEEN, "offsets 9 to 10, outside of the range"),
        ([*FILES, file("v", 0, 0, 0, 0)], SEEN, "belongs to no range"),
        (FILES, replace(SEEN, rows=13), "rows: the reader saw 13, the staged files hold 14"),
        (FILES, replace(SEEN, numbers=46), "row numbers: the reader saw 46"),
        (FILES, replace(SEEN, begun=4), "ranges with rows: the reader saw 4"),
        (FILES, replace(SEEN, crcs=29), "checksums: the reader saw 29, the staged files hold 28"),
    ],
)
def test_a_difference_is_a_mismatch(files: list[CountedFile], seen: Observed, sentence: str) -> None:
    with pytest.raises(Mismatch) as told:
        counted(plan=PLAN, files=files, seen=seen)
    assert sentence in str(told.value)


def test_a_compacted_topic_may_lack_any_offset_and_is_counted() -> None:
    files = [*FILES[1:3], file("t", 0, 1, 10, 10)]
    seen = Observed(rows=6, numbers=3 + 1, begun=3, crcs=21)
    found = counted(plan=PLAN, files=files, seen=seen, compacted=["t"])
    assert [(count.gaps, count.lost) for count in found] == [(7, 0), (0, 0), (1, 0)]
    with pytest.raises(Mismatch, match="topic=t"):
        counted(plan=PLAN, files=files, seen=seen, compacted=["u"])


def test_only_the_beginning_of_a_range_may_be_lost_to_retention() -> None:
    files = [FILES[1], FILES[2]]
    seen = Observed(rows=5, numbers=3 + 1, begun=2, crcs=14)
    found = counted(plan=PLAN, files=files, seen=seen, may_lose=True)
    assert [(count.lost, count.gaps) for count in found] == [(7, 7), (0, 0), (2, 2)]
    with pytest.raises(Mismatch, match="8 are missing"):
        counted(plan=PLAN, files=[file("t", 0, 0, 7, 9, rows=2), FILES[2]], seen=seen, may_lose=True)


SEVEN = (OffsetRange("t", BrokerPartition(1, 0), 100, 900), OffsetRange("t", BrokerPartition(2, 0), 0, 50))
OF_BYTES = LoadPlan(ranges=SEVEN, tasks=(2,), positions={}, heads={})


def of_bytes(partition: str, first: int, last: int, rows: int) -> CountedFile:
    return replace(file("t", 0, 0, first, last, rows=rows), name=file("t", partition, 0, 0, 0).name)


def test_ranges_of_bytes_are_covered_by_their_rows() -> None:
    files = [of_bytes("1-0", 100, 700, 6), of_bytes("2-0", 0, 0, 3)]
    seen = Observed(rows=9, numbers=15 + 3, begun=2, crcs=14, covered=850)
    found = counted(plan=OF_BYTES, files=files, seen=seen)
    assert [(count.rows, count.gaps, count.lost) for count in found] == [(6, 0, 0), (3, 0, 0)]
    assert [count.facts()["partition"] for count in found] == ["1-0", "2-0"]
    for may_lose in (False, True):
        with pytest.raises(Mismatch, match="the ranges have 850 bytes, and the rows that were read cover 800 of them"):
            counted(plan=OF_BYTES, files=files, seen=replace(seen, covered=800), may_lose=may_lose)
    with pytest.raises(Mismatch, match="offsets 50 to 700, outside of the range"):
        counted(plan=OF_BYTES, files=[of_bytes("1-0", 50, 700, 6), files[1]], seen=seen)


def test_only_the_beginning_of_a_range_of_bytes_may_be_lost() -> None:
    files = [of_bytes("1-0", 300, 700, 6), of_bytes("2-0", 0, 0, 3)]
    seen = Observed(rows=9, numbers=15 + 3, begun=2, crcs=14, covered=650)
    assert [(count.lost, count.gaps) for count in counted(plan=OF_BYTES, files=files, seen=seen, may_lose=True)] == [
        (200, 200),
        (0, 0),
    ]
    with pytest.raises(Mismatch, match="cover 650 of them"):
        counted(plan=OF_BYTES, files=files, seen=seen)
    with pytest.raises(Mismatch, match="cover 640 of them"):
        counted(plan=OF_BYTES, files=files, seen=replace(seen, covered=640), may_lose=True)


def test_footers_and_what_spark_reads_must_agree() -> None:
    one = FILES[0]
    info = FileInfo(f"{STAGING}/{one.path}", "part", 100, False, 0)
    assert staged_files([info], STAGING, {one.path: one.back}, {info.path: one.footer}) == [one]
    with pytest.raises(Mismatch, match="Spark reads 7 rows at offsets 0 to 6, its footer says 8"):
        staged_files([info], STAGING, {one.path: one.back}, {info.path: Footer(8, 0, 6)})
    with pytest.raises(Mismatch, match="7 rows by its footer, and Spark reads none"):
        staged_files([info], STAGING, {}, {info.path: one.footer})
    with pytest.raises(Mismatch, match="no name of theirs"):
        staged_files([], STAGING, {one.path: one.back}, {})


def test_a_range_without_rows_has_neither_first_nor_last() -> None:
    facts = RangeCount(RANGES[0], ()).facts()
    assert (facts["rows"], facts["gaps"], facts["first"], facts["last"], facts["max_ms"]) == (0, 10, None, None, None)


def test_what_is_damaged_is_read_once_more_and_both_counts_must_agree() -> None:
    files = [file("t", 0, 0, 0, 6), file("t", 0, 0, 9, 9, "11"), FILES[2]]  # 7, 8 are damaged, and 10, 11
    seen = Observed(rows=10, numbers=28 + 1, begun=2, crcs=21, damaged=2)
    held = {RANGES[0]: [(7, 9)], RANGES[2]: [(10, 12)]}
    asked: list[OffsetRange] = []

    def again(rng: OffsetRange) -> ReadAgain:
        asked.append(rng)
        return ReadAgain(0, 0, tuple(DamagedEntry(rng, *each, "crc mismatch") for each in held[rng]))

    found = counted(plan=PLAN, files=files, seen=seen, read_again=again)
    assert asked == [RANGES[0], RANGES[2]]
    assert [(count.gaps, count.damaged, count.lost) for count in found] == [(2, 2, 0), (0, 0, 0), (2, 2, 0)]
    assert [count.facts().get("damaged") for count in found] == [2, None, 2]
    markers = counted(plan=PLAN, files=files, seen=replace(seen, kept_back=0), read_again=again)
    assert [count.damaged for count in markers] == [2, 0, 2]
    with pytest.raises(Mismatch, match="the tasks skipped 1, and read once more there are 2"):
        counted(plan=PLAN, files=files, seen=replace(seen, damaged=1), read_again=again)
    held[RANGES[0]] = [(7, 8)]
    with pytest.raises(Mismatch, match="8 rows for 10 offsets: 1 are missing"):
        counted(plan=PLAN, files=files, seen=seen, read_again=again)
    with pytest.raises(Mismatch, match="2 are missing"):
        counted(plan=PLAN, files=files, seen=replace(seen, damaged=0), read_again=again)


# ---- transactions ----------------------------------------------------------------------------------------------------

WITH_MARKERS = [file("t", 0, 0, 1, 9, rows=7), FILES[2], FILES[3]]  # range 0 lacks 3: a marker, an aborted message ..
OF_MARKERS = Observed(rows=11, numbers=21 + 1 + 1, begun=3, crcs=21, kept_back=3)


def test_offsets_that_transactions_keep_back_are_no_rows_and_nothing_else_may_be_missing() -> None:
    found = counted(plan=PLAN, files=WITH_MARKERS, seen=OF_MARKERS)
    assert [(count.rows, count.gaps, count.lost) for count in found] == [(7, 3, 0), (2, 0, 0), (2, 0, 0)]
    for kept_back in (2, 4):
        with pytest.raises(
            Mismatch, match=f"3 offsets of the ranges have no row, and transactions keep back {kept_back}"
        ):
            counted(plan=PLAN, files=WITH_MARKERS, seen=replace(OF_MARKERS, kept_back=kept_back))
    with pytest.raises(Mismatch, match="3 are missing"):
        counted(plan=PLAN, files=WITH_MARKERS, seen=replace(OF_MARKERS, kept_back=None))
    compacted = counted(plan=PLAN, files=WITH_MARKERS, seen=replace(OF_MARKERS, kept_back=0), compacted=["t"])
    assert compacted[0].gaps == 3


def test_a_range_of_which_no_row_came_is_read_once_more() -> None:
    files, seen = WITH_MARKERS[:2], replace(OF_MARKERS, rows=9, numbers=21 + 1, begun=2, crcs=14)
    asked: list[OffsetRange] = []

    def again(rng: OffsetRange) -> ReadAgain:
        asked.append(rng)
        return ReadAgain(0, 2)

    found = counted(plan=PLAN, files=files, seen=seen, read_again=again)
    assert asked == [RANGES[2]]
    assert [(count.rows, count.gaps, count.lost) for count in found] == [(7, 3, 0), (2, 0, 0), (0, 2, 0)]
    for rows, kept_back in ((1, 1), (0, 1), (2, 0)):
        with pytest.raises(Mismatch, match=f"no row for 2 offsets: read once more it has {rows} messages"):
            counted(plan=PLAN, files=files, seen=seen, read_again=lambda rng, r=rows, k=kept_back: ReadAgain(r, k))
    lost = counted(plan=PLAN, files=files, seen=seen, may_lose=True, read_again=lambda rng: ReadAgain(0, 1))
    assert lost[2].lost == 1


def test_beside_transactions_only_the_beginning_of_a_range_may_be_lost() -> None:
    seen = replace(OF_MARKERS, kept_back=2)
    assert counted(plan=PLAN, files=WITH_MARKERS, seen=seen, may_lose=True)[0].lost == 1
    with pytest.raises(Mismatch, match="keep back 1 of them"):  # 2 are missing, and only one before the first row
        counted(plan=PLAN, files=WITH_MARKERS, seen=replace(OF_MARKERS, kept_back=1), may_lose=True)
