"""Two logs matched by fingerprints: by rows and by buckets, with numpy and without, and against a plain count."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kafkawire.fingerprints import MASK
from kafkawire.unmatched import SOURCE, TARGET
from mirrormaker.verify.matching import PASSES, Cut, Matched, Place, Rows, Shares, Tally, match

both_forms = pytest.mark.parametrize("vector", [True, False], ids=["numpy", "python"])
Log = list[int]


def spread(number: int) -> int:
    """A fingerprint of its own for each number, as they are spread over all 64 bits."""
    x = (number + 1) * 0x9E3779B97F4A7C15 & MASK
    return (x ^ x >> 29) * 0xBF58476D1CE4E5B9 & MASK


def rows(log: Log, vector: bool, first: int = 0, part: int = 0) -> Rows:
    found = Rows(vector)
    found.add(part, [spread(n) for n in log], list(range(first, first + len(log))))
    return found


def offsets(places: list[Place]) -> list[int]:
    return [place.offset for place in places]


def compared(source: Log, target: Log, vector: bool, optional: Log | None = None, cut: Cut | None = None) -> Matched:
    maybe = [spread(n) for n in optional or []]
    return match(rows(source, vector, 100), maybe, rows(target, vector, 500), cut or Cut(), vector)


@both_forms
def test_equal_logs_have_no_odd_message_in_whatever_order(vector: bool) -> None:
    log = list(range(1000))
    assert compared(log, random.Random(1).sample(log, 1000), vector) == Matched()
    assert compared([], [], vector) == Matched()


@both_forms
def test_what_is_missing_duplicated_and_foreign_is_named_by_the_offset_in_its_own_log(vector: bool) -> None:
    found = compared([1, 2, 3, 4], [1, 3, 3, 9, 4], vector)
    assert (offsets(found.missing.first), offsets(found.duplicated.first)) == ([101], [502])
    assert offsets(found.foreign.first) == [503]
    assert (found.missing.count, found.duplicated.count, found.foreign.count, found.cut, found.older) == (1, 1, 1, 0, 0)


@both_forms
def test_of_equal_messages_the_last_ones_have_no_partner(vector: bool) -> None:
    found = compared([7, 7, 7, 8], [7, 8], vector)
    assert offsets(found.missing.first) == [101, 102]


@both_forms
def test_an_optional_message_may_be_there_or_not(vector: bool) -> None:
    assert compared([1], [1, 5], vector, optional=[5, 6]) == Matched()
    # The same content was due before: the one that is there does for it, and the optional one is not.
    assert compared([1, 5], [1, 5], vector, optional=[5]) == Matched()
    assert compared([1, 5], [1, 5, 5], vector, optional=[5]) == Matched()
    assert compared([1, 5], [1, 5, 5, 5], vector, optional=[5]).duplicated.count == 1
    assert compared([1, 5], [1], vector, optional=[6]).missing.count == 1


@both_forms
def test_what_a_cut_log_lost_is_not_missing(vector: bool) -> None:
    log = list(range(20))
    found = compared(log, log[5:], vector, cut=Cut(target=frozenset({0})))
    assert (found.missing.count, found.cut) == (0, 5)
    found = compared(log, [*log[5:9], *log[10:]], vector, cut=Cut(target=frozenset({0})))
    assert (offsets(found.missing.first), found.cut) == ([109], 5)
    found = compared(log[5:], log, vector, cut=Cut(source=frozenset({0})))
    assert (found.foreign.count, found.older) == (0, 5)
    found = compared(log[5:], [*log, 77], vector, cut=Cut(source=frozenset({0})))
    assert (offsets(found.foreign.first), found.older) == ([520], 5)


@both_forms
def test_messages_that_repeat_themselves_are_taken_for_lost_by_retention_where_the_log_was_cut(vector: bool) -> None:
    found = compared([3] * 50, [3] * 30, vector, cut=Cut(target=frozenset({0})))
    assert (found.missing.count, found.cut) == (0, 20)
    assert compared([3] * 50, [3] * 30, vector).missing.count == 20


def test_both_forms_find_the_same_in_logs_of_several_partitions() -> None:
    dice = random.Random(7)
    for _ in range(300):
        kinds = dice.choice([3, 10, 1000])
        logs = {side: [[dice.randrange(kinds) for _ in range(dice.randrange(12))] for _ in range(2)] for side in "st"}
        optional = [spread(dice.randrange(kinds)) for _ in range(dice.randrange(4))]
        cut = Cut(*(frozenset(dice.sample([0, 1], dice.randrange(3))) for _ in range(2)))
        found = []
        for vector in (True, False):
            sides = [Rows(vector), Rows(vector)]
            for side, name in zip(sides, "st", strict=True):
                for part, log in enumerate(logs[name]):
                    side.add(part, [spread(n) for n in log], list(range(100, 100 + len(log))))
            found.append(match(sides[0], optional, sides[1], cut, vector))
        assert found[0] == found[1], (logs, optional, cut)
        if not (cut.source or cut.target):
            s, t = (Counter(spread(n) for log in logs[name] for n in log) for name in "st")
            o = Counter(optional)
            assert found[0].missing.count == (s - t).total()
            assert found[0].duplicated.count + found[0].foreign.count == (t - s - o).total()


# ---- more than fits --------------------------------------------------------------------------------------------------


def by_shares(
    source: Log, target: Log, vector: bool, limit: int, optional: Log | None = None
) -> tuple[Matched, Shares]:
    """As the verifier does it: sums first, then what differs is read again."""
    maybe = [spread(n) for n in optional or []]

    def read(tally: Tally) -> None:
        for side, log, first in ((TARGET, target, 500), (SOURCE, source, 100)):
            for begin in range(0, len(log), 100):
                some = [spread(n) for n in log[begin : begin + 100]]
                tally.add(side, 0, some, list(range(first + begin, first + begin + len(some))))
        tally.add_optional(maybe)

    tally = Tally(limit, vector)
    read(tally)
    assert tally.matched(Cut()) is None
    assert (tally.count(SOURCE), tally.count(TARGET)) == (len(source), len(target))
    shares, found = tally.shares(), Matched()
    for number in range(shares.count):
        sides = {SOURCE: Rows(vector), TARGET: Rows(vector)}
        for side, log, first in ((SOURCE, source, 100), (TARGET, target, 500)):
            hashes = [spread(n) for n in log]
            sides[side].add(0, *shares.chosen(number, hashes, list(range(first, first + len(log)))))
        some, _ = shares.chosen(number, maybe, maybe)
        found.add(match(sides[SOURCE], some, sides[TARGET], Cut(), vector))
    return found, shares


@both_forms
def test_one_that_is_missing_of_many_is_found_by_sums(vector: bool) -> None:
    log = list(range(5000))
    found, shares = by_shares(log, [n for n in log if n != 1234], vector, 500)
    assert (offsets(found.missing.first), found.missing.count) == ([1334], 1)
    assert (found.duplicated.count, found.foreign.count, shares.unread, shares.count) == (0, 0, 0, 1)
    found, shares = by_shares(log, list(reversed(log)), vector, 500)
    assert (found, shares.count) == (Matched(), 0)


@both_forms
def test_sums_and_rows_find_the_same(vector: bool) -> None:
    dice = random.Random(11)
    log = [dice.randrange(3000) for _ in range(4000)]
    target = [n for n in log if dice.random() > 0.01] + [dice.randrange(6000) for _ in range(30)]
    optional = [dice.randrange(3000) for _ in range(40)]
    at_once = match(rows(log, vector, 100), [spread(n) for n in optional], rows(target, vector, 500), Cut(), vector)
    found, shares = by_shares(log, target, vector, 1000, optional)
    assert found == at_once
    assert shares.unread == 0


@both_forms
def test_where_too_many_differ_the_rest_is_counted(vector: bool) -> None:
    log = list(range(4000))
    found, shares = by_shares(log, [], vector, 50)
    assert shares.count == PASSES
    assert found.missing.count + shares.least == 4000
    assert shares.unread == shares.least > 0
    assert len(found.missing.first) == min(1000, found.missing.count)
