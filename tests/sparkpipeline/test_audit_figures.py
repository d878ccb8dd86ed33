"""Sums over messages: the same in numpy and without it, and however a log is cut into pieces."""

from __future__ import annotations

import random
import zlib
from dataclasses import replace

import pytest

from groundwork.sentences import iso_ms
from kafkawire.fingerprints import hashed, message_hash
from kafkawire.formats.v01.write import Row
from sparkpipeline.audit.figures import Figures
from sparkpipeline.audit.windows import HOUR_MS, UNTIMED, Windows, label
from tests.sparkpipeline.audited import in_sets, sums

TEN = 490_000 * HOUR_MS


def log(count: int = 500, seed: int = 3) -> list[Row]:
    """Keys and values of all kinds, over three hours, some without a time, offsets with gaps."""
    draw = random.Random(seed)
    rows: list[Row] = []
    offset = 0
    for _ in range(count):
        offset += draw.choice([1, 1, 1, 4])
        key = draw.choice([None, b"", b"k%d" % draw.randrange(9)])
        value = draw.choice([None, b"", draw.randbytes(draw.randrange(200))])
        rows.append((offset, key, value, draw.choice([-1, TEN, TEN + 1, TEN + HOUR_MS, TEN + 2 * HOUR_MS])))
    return rows


def test_figures_are_what_a_scan_message_by_message_gives():
    rows = [row for row in log() if row[3] == -1]
    figures = sums(rows, Windows())[UNTIMED]
    assert figures.count == len(rows)
    assert figures.value_crcs == sum(zlib.crc32(value or b"") for _, _, value, _ in rows)
    assert (figures.first, figures.last) == (rows[0][0], rows[-1][0])


@pytest.mark.parametrize("windows", [Windows(), Windows(by_hour=False, block=100), Windows(block=64), Windows(False),
                                     Windows(from_ms=TEN + 1, to_ms=TEN + 2 * HOUR_MS)])  # fmt: skip
@pytest.mark.parametrize("magic", [0, 1])
def test_numpy_and_plain_python_agree_on_every_window(windows, magic):
    rows = log()
    vector = sums(rows, windows, sets=7, vector=True, magic=magic)
    assert vector == sums(rows, windows, sets=7, vector=False, magic=magic)
    assert sum(figures.count for figures in vector.values()) > (0 if windows.bounded and not magic else 100) - 1


def test_wrappers_count_like_plain_entries():
    rows = [(n, b"k", b"v%d" % n, TEN) for n in range(200)]
    plain, packed = (
        [column for one in in_sets(rows, 4, codec=codec) for columns in one.pieces()
         for column in hashed(columns, 50, 150).hashes]
        for codec in (0, 1)
    )  # fmt: skip
    assert plain == packed
    assert len(plain) == 100


@pytest.mark.parametrize("vector", [True, False])
def test_a_range_takes_only_its_own_out_of_sets_that_are_larger(vector):
    [one] = in_sets([(n, None, b"v", None) for n in range(10)])
    [columns] = one.pieces()
    assert list(hashed(columns, 3, 6, vector).offsets) == [3, 4, 5]


def test_cutting_a_log_anywhere_changes_no_figure():
    rows = log(120)
    whole = sums(rows, Windows())
    for sets in (2, 5, 120):
        assert sums(rows, Windows(), sets) == whole


def test_order_counts_only_where_it_is_known():
    a, b = [(0, None, b"a", -1), (1, None, b"b", -1)], [(0, None, b"b", -1), (1, None, b"a", -1)]
    ab, ba = sums(a, Windows())[UNTIMED], sums(b, Windows())[UNTIMED]
    assert ab.same_messages(ba)
    assert not ab.same(ba)
    assert ab.beside(Figures()).same(ba)


def test_a_key_changed_a_null_for_empty_and_a_swap_of_key_and_value_show():
    base = sums([(0, b"k", b"v", -1)], Windows())[UNTIMED]
    for key, value in ((b"x", b"v"), (b"", b"v"), (None, b"v"), (b"k", None), (b"k", b""), (b"v", b"k")):
        assert not sums([(0, key, value, -1)], Windows())[UNTIMED].same_messages(base)
    assert message_hash(0, 0, 0, -1) != message_hash(0, -1, 0, 0)


def test_nothing_before_or_behind_leaves_figures_as_they_are():
    figures = Figures(2, 5, 7, 9, 3, 4)
    assert Figures().then(figures) == figures == figures.then(Figures())
    assert replace(figures, order=None).then(figures).order is None


def test_windows_are_read_by_people():
    assert label(TEN // HOUR_MS) == "2025-11-24T16"
    assert label(UNTIMED) == "all"
    assert label(Windows(block=100).block_of(250), 100) == "200-299"
    assert label(-3, 100, of_target=True) == "target 200-299"


def test_a_time_without_a_zone_is_utc():
    assert iso_ms("2026-01-01T10:00") == iso_ms("2026-01-01T11:00+01:00") == iso_ms("2026-01-01T10:00Z")
    assert iso_ms("2026-01-01") == 1_767_225_600_000
    assert iso_ms('{"t": {"0": 5}}') is None
