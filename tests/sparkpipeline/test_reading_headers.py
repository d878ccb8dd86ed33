"""The column headers, and what transactions keep back of a range, out of fetched record batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkawire.dialects import dialect
from kafkawire.formats.mixed import message_set
from kafkawire.model import Broker
from kafkawire.protocol.request import FetchedPartition
from sparkpipeline.errors import CorruptData
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.arrow import TYPES, headers_of
from sparkpipeline.reading.pieces import Piece, accounting
from sparkpipeline.reading.rangecursor import RangeCursor, Sizes
from sparkpipeline.reading.readoptions import ReadOptions
from tests.kafkawire.recordbatches import ABORT, COMMIT, TRANSACTIONAL, Record, batch, marker, rows_of

BROKER = Broker(1, "b", 9092)


def piece(data: bytes, since: int = 0, until: int | None = None) -> Piece:
    columns = message_set("t", 0, 0, memoryview(data), 99)[0].index()
    return Piece(OffsetRange("t", 0, 0, 9), columns, since, len(columns) if until is None else until, 0)


def shown(of: Piece) -> list[Any]:
    rows = headers_of(of, TYPES["headers"]).to_pylist()
    return [None if row is None else [(each["key"], each["value"]) for each in row] for row in rows]


def with_headers(*headers: tuple[tuple[str, bytes | None], ...]) -> bytes:
    return batch([Record(n, 1000, b"k", b"v", these) for n, these in enumerate(headers)])


def test_headers_are_in_their_order_twice_where_they_are_and_null_where_there_are_none() -> None:
    twice = (("a", b"1"), ("a", None), ("ü", b""))
    data = with_headers((), twice, (("b", b"\xff"),), twice, ())
    assert shown(piece(data)) == [None, list(twice), [("b", b"\xff")], list(twice), None]
    assert shown(piece(data, 1, 3)) == [list(twice), [("b", b"\xff")]]
    assert headers_of(piece(data), TYPES["headers"]).type == TYPES["headers"]
    assert shown(piece(batch(rows_of(0, 3)))) == [None] * 3


def test_a_name_that_is_no_text_is_shown_as_java_shows_it_and_damage_has_its_offset() -> None:
    data = with_headers((), (("name", b"1"),)).replace(b"name", b"n\xffme")
    columns = message_set("t", 0, 0, memoryview(data), 99)[0].index(False)
    whole = Piece(OffsetRange("t", 0, 0, 9), columns, 0, 2, 0)
    assert shown(whole) == [None, [("n\ufffdme", b"1")]]
    assert columns.header_size is not None
    cut = replace(columns, header_size=[size - 1 if size else 0 for size in columns.header_size])
    with pytest.raises(CorruptData, match="topic=t partition=0 offset=1: damaged headers"):
        headers_of(replace(whole, columns=cut), TYPES["headers"])


# ---- what transactions keep back -------------------------------------------------------------------------------------


def kept_back(data: bytes, start: int, until: int, aborted: tuple[tuple[int, int], ...] = ()) -> tuple[int, int]:
    """What a range's cursor counts, and where it stands then."""
    rng = OffsetRange("t", 0, start, until)
    cursor = RangeCursor(rng, ReadOptions(), spoken=dialect("3.9"), sizes=Sizes(), now=0.0)
    cursor.take(FetchedPartition(rng.tp, 0, 99, memoryview(data), 99, 0, aborted), 1 << 20, BROKER, 0.0)
    return cursor.kept_back, cursor.position


def test_markers_and_aborted_messages_are_counted_within_the_range_and_holes_are_not() -> None:
    committed = batch(rows_of(0, 3), TRANSACTIONAL, producer=7) + marker(3, 7, COMMIT)
    aborted = batch(rows_of(4, 4), TRANSACTIONAL, producer=8) + marker(8, 8, ABORT)
    data = committed + aborted + batch(rows_of(12, 1))  # 9 to 11: a cleaner was there
    assert kept_back(data, 0, 13, ((8, 4),)) == (1 + 4 + 1, 13)
    assert kept_back(data, 5, 13, ((8, 4),)) == (3 + 1, 13)
    assert kept_back(data, 0, 6, ((8, 4),)) == (1 + 2, 13)  # it ends inside of the aborted batch
    assert kept_back(data, 0, 13) == (2, 13)  # read_uncommitted: the markers alone
    assert kept_back(aborted, 4, 9, ((8, 4),)) == (5, 9)


def test_the_last_rows_of_a_range_say_what_is_kept_back_of_it() -> None:
    one, two = OffsetRange("t", 0, 0, 9), OffsetRange("t", 1, 0, 9)
    columns = piece(batch(rows_of(0, 3))).columns

    def of(rng: OffsetRange, since: int, until: int) -> Piece:
        return Piece(rng, columns, since, until, 0)

    found = list(accounting(iter([of(one, 0, 2), of(one, 2, 3), of(one, 3, 3), of(two, 0, 1)]), {one: 5, two: 0}, {}))
    assert [(each.range, len(each), each.kept_back) for each in found] == [(one, 2, 0), (one, 1, 5), (two, 1, 0)]
    assert [each.kept_back for each in found[1].cut(1, 1)] == [5]
