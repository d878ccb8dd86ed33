"""Which partitions are compared with which; the last message of each key; rows, runs and times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from kafkawire.dialects import dialect
from kafkawire.model import BrokerPartition, TopicPartition
from kafkawire.unmatched import SOURCE, TARGET
from mirrormaker.commands.verifyflags import moment_ms
from mirrormaker.partitioning import Numbering
from mirrormaker.routes import RouteRules
from mirrormaker.verify.alignment import aligned
from mirrormaker.verify.compacted import LastByKey
from mirrormaker.verify.matching import Place
from mirrormaker.verify.result import ScopeResult, VerifyResult, runs
from mirrormaker.verify.scopes import Scope, SourcePartition, SourceTopics, scopes

NOTHING: frozenset[str] = frozenset()


def rules(version: str = "0.8.2", **more: object) -> RouteRules:
    return RouteRules(source=dialect(version), target=dialect("0.8.2"), message_max_bytes=1000, **more)  # type: ignore[arg-type]


def source(name: str, found: RouteRules, **partitions: int) -> SourceTopics:
    return SourceTopics(name, found, {t: range(n) for t, n in partitions.items()}, lambda topic: topic)


def shown(found: list[Scope]) -> list[tuple[str, int, int]]:
    return [(str(scope), len(scope.sources), len(scope.targets)) for scope in found]


def test_partitions_that_keep_their_number_are_compared_one_by_one() -> None:
    found = scopes([source("dc1", rules(), orders=2)], {"orders": range(3)}, NOTHING)
    assert shown(found) == [("orders/0", 1, 1), ("orders/1", 1, 1)]
    assert found[1].sources == (SourcePartition("dc1", TopicPartition("orders", 1)),)


def test_a_smaller_target_is_compared_as_a_whole_and_says_why() -> None:
    [found] = scopes([source("dc1", rules(), orders=3)], {"orders": range(2)}, NOTHING)
    assert (found.partition, len(found.sources), len(found.targets)) == (None, 3, 2)
    assert found.why == (
        "its partitions are not the source's: partition chosen by key, as the target has 2 partitions, the source 3"
    )


def test_a_topic_that_two_sources_write_to_is_one_heap() -> None:
    two = [source("dc1", rules(), orders=2), source("dc2", rules(), orders=1)]
    [found] = scopes(two, {"orders": range(2)}, NOTHING)
    assert (len(found.sources), found.why) == (3, "it is fed by dc1/orders, dc2/orders")


def test_a_topic_that_the_target_lacks_has_no_targets() -> None:
    assert shown(scopes([source("dc1", rules(), orders=1)], {}, NOTHING)) == [("orders/0", 1, 0)]


def test_topics_are_looked_for_under_their_names_at_the_target() -> None:
    renamed = SourceTopics("dc1", rules(), {"orders": range(1)}, lambda topic: f"dc1.{topic}", frozenset({"orders"}))
    [found] = scopes([renamed], {"dc1.orders": range(1)}, NOTHING)
    assert (str(found), found.sources[0].tp.topic, found.compacted) == ("dc1.orders/0", "orders", True)


def test_partitions_of_brokers_are_compared_by_their_numbers_or_as_a_whole() -> None:
    every = [BrokerPartition(0, 0), BrokerPartition(0, 1), BrokerPartition(3, 0)]
    whole = SourceTopics("old", rules("0.7.2"), {"orders": every}, lambda topic: topic)
    assert shown(scopes([whole], {"orders": range(3)}, NOTHING)) == [("orders", 3, 3)]
    numbered = SourceTopics("old", rules("0.7.2", numbering=Numbering(((0, 2), (3, 1)))), whole.partitions, str)
    found = scopes([numbered], {"orders": range(3)}, NOTHING)
    assert shown(found) == [("orders/0", 1, 1), ("orders/1", 1, 1), ("orders/2", 1, 1)]
    assert found[2].sources[0].tp.partition == BrokerPartition(3, 0)


# ---- compacted -------------------------------------------------------------------------------------------------------


def test_only_the_last_message_of_a_key_is_expected() -> None:
    lasts = LastByKey()
    lasts.add(SOURCE, 0, [1, 2, 1, 3, 4], [11, 21, 12, 31, 41], [0, 1, 2, 3, 4], [False] * 4 + [True])
    lasts.add(TARGET, 0, [2, 1, 5], [22, 12, 51], [0, 1, 2], [False] * 3)
    lasts.add_newer([3])
    found = lasts.matched()
    assert found.missing.first == [Place(0, 1, 21)]  # key 2 has another value; 3 was written again; 4 is deleted
    assert found.foreign.first == [Place(0, 2, 51)]


def test_keys_that_do_not_fit_are_left_to_other_shares() -> None:
    count = 1000
    keys, hashes, offsets = list(range(count)), [n + 7 for n in range(count)], list(range(count))
    share, shares, missing = 0, 1, []
    while share < shares:
        lasts = LastByKey(share, shares, limit=100)
        lasts.add(SOURCE, 0, keys, hashes, offsets, [False] * count)
        lasts.add(TARGET, 0, keys[:500], hashes[:500], offsets[:500], [False] * 500)
        missing += lasts.matched().missing.first
        share, shares = share + 1, lasts.shares
    assert shares == 16
    assert sorted(place.offset for place in missing) == list(range(500, 1000))


# ---- what is printed -------------------------------------------------------------------------------------------------


def test_neighbouring_offsets_are_one_run() -> None:
    assert list(runs([1, 2, 3, 7, 9, 10], message_offsets=True)) == [(1, 3, 3), (7, 7, 1), (9, 10, 2)]
    assert list(runs([0, 0, 64, 128], message_offsets=False)) == [(0, 0, 2), (64, 64, 1), (128, 128, 1)]
    assert list(runs([], message_offsets=True)) == []


def test_what_is_sound() -> None:
    def result(**row: int) -> VerifyResult:
        return VerifyResult((ScopeResult(topic="t", partition="0", source=5, target=5, **row),), (), (), 10, 2.0)

    assert result().sound(duplicates=False, foreign=False)
    assert not result(missing=1).sound(duplicates=True, foreign=True)
    assert result(duplicated=1).sound(duplicates=True, foreign=False)
    assert not result(duplicated=1).sound(duplicates=False, foreign=True)
    assert not result(only_in_target=1).sound(duplicates=True, foreign=False)
    assert result(not_yet_mirrored=9, not_compared=3).sound(duplicates=False, foreign=False)
    read = "10 messages of both clusters read in 2.0 s (5/s): "
    assert result().sentence() == f"{read}nothing differs"
    assert result(missing=1).sentence() == f"{read}1 missing"
    lag = "2 not yet mirrored; what is not yet mirrored is no difference: its group has not committed it"
    assert result(missing=1, not_yet_mirrored=2).sentence() == f"{read}1 missing, {lag}"


def test_a_row_says_what_came_of_it() -> None:
    def row(**more: object) -> ScopeResult:
        return ScopeResult(**{"topic": "t", "partition": "0", "source": 5, "target": 5, **more})  # type: ignore[arg-type]

    assert row().result == "sound"
    assert row(missing=2).result == "differs"
    assert row(source=0, not_yet_mirrored=7).result == "not compared"
    assert row(missing=2, at_least=True).row()["missing"] == "≥ 2"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("90s", 1_000_000_000_000 - 90_000),
        ("24h", 1_000_000_000_000 - 86_400_000),
        ("7d", 1_000_000_000_000 - 604_800_000),
        ("2001-09-09T01:46:40", 1_000_000_000_000),
        ("2001-09-09T03:46:40+02:00", 1_000_000_000_000),
    ],
)
def test_times_and_durations(text: str, found: int) -> None:
    assert moment_ms(text, 1_000_000_000_000) == found


@pytest.mark.parametrize("text", ["", "yesterday", "24", "h", "-3h", "2026-13-01"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError):
        moment_ms(text, 0)


# ---- logs that begin at different messages ---------------------------------------------------------------------------


@dataclass
class Some:
    hashes: list[int]
    offsets: list[int]


def log(numbers: Sequence[int], first: int, lot: int = 300) -> Iterator[Some]:
    for begin in range(0, len(numbers), lot):
        some = list(numbers[begin : begin + lot])
        yield Some(some, list(range(first + begin, first + begin + len(some))))


def test_the_log_that_begins_later_is_found_in_the_other() -> None:
    every = list(range(10_000))
    assert aligned(log(every, 0), log(every[6000:], 50)) == (SOURCE, 6000)
    assert aligned(log(every[6000:], 6000), log(every, 50)) == (TARGET, 6050)
    assert aligned(log(every, 0), log(every, 50)) == (SOURCE, 0)
    assert aligned(log(every[:40], 0), log(every[30:40], 0)) == (SOURCE, 30)


def test_a_place_is_found_though_messages_are_missing_and_others_are_there_twice() -> None:
    every = list(range(10_000))
    target = [*every[5000:5010], *every[5002:5010], *every[5011:]]
    assert aligned(log(every, 0), log(target, 0)) == (SOURCE, 5000)


def test_no_place_is_made_up() -> None:
    every = list(range(10_000))
    assert aligned(log(every, 0), log(range(20_000, 30_000), 0)) is None
    assert aligned(log([1, 2] * 500, 0), log([1, 2] * 300, 0)) is None
    assert aligned(log(every, 0), log([], 0)) is None
    assert aligned(log([], 0), log([], 0)) is None
    assert aligned(log([*every[:5000], 7777], 0), log([*range(20_000, 22_000), 77], 0)) is None
