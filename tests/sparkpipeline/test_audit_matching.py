"""Messages of two logs matched one by one: what is lost, what came twice, and what nobody sent."""

from __future__ import annotations

import pytest

from kafkawire.unmatched import SOURCE, TARGET
from sparkpipeline.audit.differences import Scope, by_scope, from_groups, unequal
from sparkpipeline.audit.figures import Figures
from sparkpipeline.audit.messagematching import MatchedEnds, MessageGroup, Pack, grouped, match
from sparkpipeline.audit.windows import HOUR_MS, UNTIMED, Windows
from sparkpipeline.errors import CorruptData, NoTimestamp
from tests.sparkpipeline.audited import Log, pieces, reader, sides, sums

T = "t"
UNCUT: frozenset[str] = frozenset()
HOURS = Windows()


def audited(
    source: Log | dict[int, Log],
    target: Log | dict[int, Log],
    windows: Windows = HOURS,
    keyed: bool = False,
    cut: frozenset[str] = UNCUT,
    shares: int = 3,
    block: int = 10,
) -> list[tuple[object, ...]]:
    """What the whole way through tasks gives, without Spark: (partition, window, difference, messages, first, last)."""
    logs = {
        side: {(T, p): log for p, log in (given.items() if isinstance(given, dict) else [(0, given)])}
        for side, given in ((SOURCE, source), (TARGET, target))
    }
    read, reading = reader(logs), sides()
    found_sums = {}
    for side in (SOURCE, TARGET):
        parts: dict[tuple[str, int], dict[int, Figures]] = {of: {} for of in logs[side]}
        for piece, found in reading.count(pieces(side, logs[side], windows, cut=7), read):
            into = parts[T, piece.range.partition]
            for window, figures in found.items():
                into[window] = into.get(window, Figures()).then(figures)
        found_sums[side] = by_scope(parts, {T} if keyed else set())
    differing = unequal(found_sums[SOURCE], found_sums[TARGET])
    rows = []
    for scope, in_windows in differing.items():
        blocks = Windows(windows.by_hour, block, windows.from_ms, windows.to_ms)
        every = [p for side in (SOURCE, TARGET) for p in pieces(side, logs[side], blocks, cut=7)
                 if scope.partition in (None, p.range.partition)]  # fmt: skip
        dealt: dict[object, list[Pack]] = {}
        how = {(T, p.range.partition): (0, shares) for p in every}
        for key, pack in reading.hashes(every, how, read):
            dealt.setdefault(key, []).append(pack)
        matched = [match(packs) for packs in dealt.values()]
        ends: dict[tuple[str, int], tuple[int, int]] = {}
        for one in matched:
            for key, (first, last) in one.ends.items():
                at = ends.get(key, (first, last))
                ends[key] = min(at[0], first), max(at[1], last)
        groups: dict[tuple[str, str, int, int], MessageGroup] = {}
        for one in matched:
            for key, group in grouped(one, MatchedEnds(ends, cut)).items():
                groups[key] = groups[key].beside(group) if key in groups else group
        rows += from_groups(
            scope,
            in_windows,
            *(found_sums[side].get(scope, {}) for side in (SOURCE, TARGET)),
            groups=groups,
            block=block,
        )
    return [(r.partition, r.window, r.difference, r.messages, r.first_offset, r.last_offset) for r in rows]


def values(start: int, end: int) -> list[str]:
    return [f"m{n}" for n in range(start, end)]


def test_a_mirror_with_other_offsets_is_equal():
    target = Log([(999, None, b"m0", None)]).append(*values(1, 50))
    one, other = (sums(log.rows, Windows())[UNTIMED] for log in (Log().append(*values(0, 50)), target))
    assert one.same(other)
    assert (one.first, other.first) == (0, 999)


def test_a_loss_is_named_by_its_offsets_in_the_source():
    source, target = Log().append(*values(0, 50)), Log().append(*values(0, 20), *values(23, 50))
    assert audited(source, target) == [(0, "20-29", "missing", 3, 20, 22)]


def test_what_was_sent_again_is_a_duplicate_and_no_loss_and_stands_where_its_twin_is():
    source, target = Log().append(*values(0, 50)), Log().append(*values(0, 30), *values(24, 50))
    assert audited(source, target) == [(0, "20-29", "duplicated", 6, 30, 35)]


def test_a_duplicate_and_a_loss_do_not_make_up_for_each_other():
    source, target = Log().append(*values(0, 50)), Log().append(*values(0, 20), "m3", *values(21, 50))
    assert audited(source, target) == [(0, "0-9", "duplicated", 1, 20, 20), (0, "20-29", "missing", 1, 20, 20)]


def test_equal_messages_are_counted_and_not_looked_up():
    source, target = Log().append("a", "same", "same", "same", "z"), Log().append("a", "same", "same", "z")
    assert audited(source, target) == [(0, "0-9", "missing", 1, 3, 3)]


def test_a_message_that_nobody_sent_is_foreign():
    source, target = Log().append(*values(0, 9)), Log().append(*values(0, 5), "intruder", *values(5, 9))
    assert audited(source, target) == [(0, "target 0-9", "foreign", 1, 5, 5)]


def test_a_mirror_that_has_not_come_so_far_is_behind():
    source, target = Log().append(*values(0, 50)), Log().append(*values(0, 41))
    assert audited(source, target) == [(0, "40-49", "behind", 9, 41, 49)]


def test_a_target_that_has_nothing_lost_it():
    assert audited(Log().append("a", "b"), Log()) == [(0, "0-9", "missing", 2, 0, 1)]


def test_what_retention_took_from_one_log_is_no_loss():
    whole, rest = Log().append(*values(0, 30)), Log().append(*values(12, 30))
    assert audited(whole, rest) == [(0, "0-9", "missing", 10, 0, 9), (0, "10-19", "missing", 2, 10, 11)]
    assert audited(whole, rest, cut=frozenset({TARGET})) == [
        (0, "0-9", "cut", 10, 0, 9),
        (0, "10-19", "cut", 2, 10, 11),
    ]
    assert audited(rest, whole, cut=frozenset({SOURCE}))[0] == (0, "target 0-9", "cut", 10, 0, 9)


def test_another_order_is_told_as_such():
    source, target = Log().append("a", "b", "c"), Log().append("b", "a", "c")
    assert audited(source, target) == [(0, "all", "reordered", 3, 0, 2)]


def test_a_topic_partitioned_anew_is_equal_as_a_whole_and_names_the_partition_of_a_loss():
    source = {0: Log().append(*values(0, 20)), 1: Log().append(*values(20, 40))}
    target = {0: Log().append(*values(0, 40)[::2]), 1: Log(), 2: Log().append(*values(0, 40)[1::2])}
    assert audited(source, target, keyed=True) == []
    assert len(audited(source, target)) > 3  # partition by partition they have little in common
    target[2].rows = [row for row in target[2].rows if row[2] != b"m25"]
    assert audited(source, target, keyed=True) == [(1, "0-9", "missing", 1, 5, 5)]


def test_hours_are_compared_by_themselves():
    ten = 490_000 * HOUR_MS
    source = Log().append(*values(0, 9), at_ms=ten).append(*values(9, 20), at_ms=ten + HOUR_MS)
    target = Log().append(*values(0, 9), at_ms=ten).append(*values(9, 15), *values(16, 20), at_ms=ten + HOUR_MS)
    assert audited(source, target) == [(0, "2025-11-24T17", "missing", 1, 15, 15)]


def test_a_target_that_stamps_anew_has_moved_messages_and_lost_none():
    ten = 490_000 * HOUR_MS
    source, target = Log().append(*values(0, 9), at_ms=ten), Log().append(*values(0, 9), at_ms=ten + 5 * HOUR_MS)
    rows = audited(source, target)
    assert [(window, kind) for _, window, kind, *_ in rows] == [("2025-11-24T16", "moved"), ("2025-11-24T21", "moved")]
    assert audited(source, target, Windows(by_hour=False)) == []


def test_a_bound_by_time_refuses_messages_that_have_none():
    with pytest.raises(NoTimestamp, match=r"topic=t partition=0 offset=0.*give --from and --to as offsets"):
        audited(Log().append("a"), Log(), Windows(from_ms=0))


def test_a_bound_by_time_cuts_inside_an_hour():
    source = Log().append("early", at_ms=1000).append("late", at_ms=5000)
    assert audited(source, Log().append("late", at_ms=5000), Windows(from_ms=2000)) == []


def test_damage_in_a_log_is_told_with_its_place():
    log = Log().append("a", "b")
    read = reader({SOURCE: {(T, 0): log}})

    def broken(*args: object) -> object:
        for one in read(*args):  # type: ignore[arg-type]
            entries = bytearray(one.buffer)
            entries[-1] ^= 1
            yield type(one)(one.topic, 0, one.start, one.resume_at, memoryview(bytes(entries)), 9, one.runs, one.reader)

    with pytest.raises(CorruptData, match="topic=t partition=0 offset=0: crc mismatch"):
        list(sides().count(pieces(SOURCE, {(T, 0): log}, Windows()), broken))  # type: ignore[arg-type]


def test_scopes_of_topics_that_keep_their_partitions_stay_apart():
    parts = {("a", 0): {5: Figures(1, 1, 1, 1, 0, 0)}, ("a", 1): {5: Figures(1, 1, 2, 2, 0, 0)}}
    assert set(by_scope(parts, set())) == {Scope("a", 0), Scope("a", 1)}
    assert by_scope(parts, {"a"})[Scope("a", None)][5] == Figures(2, 2, 3, None, None, None)
