"""What an audit reads: limits as typed, ends of logs, pieces for tasks, and what files say by their names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from kafkawire.unmatched import SOURCE, TARGET
from sparkpipeline.audit.auditbounds import Limit, check_limits, parse_limit, ranges_of, windows_of
from sparkpipeline.audit.audittasks import LEAST, MOST, dealt, pieces, size_for
from sparkpipeline.audit.differences import AuditResult, Difference, Scope, document, from_sums, in_order
from sparkpipeline.audit.figures import Figures
from sparkpipeline.audit.fileaudit import loaded_by
from sparkpipeline.audit.windows import UNTIMED, Windows
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import OffsetOutOfRange, OptionRefused
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.local import LocalFiles
from tests.fakes.broker import FakeCluster, entry

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    """t/0 holds 0..4, t/1 nothing."""
    with FakeCluster({"t": 2}) as fake:
        for n in range(5):
            fake.append("t", 0, entry(b"v%d" % n))
        with Brokers(ClusterAccess(tuple(fake.bootstrap), retries=0)) as opened:
            yield opened


def test_a_limit_is_a_time_or_offsets() -> None:
    assert parse_limit(None, "--from") == Limit()
    assert parse_limit("2026-01-01T00:00Z", "--from") == Limit(time_ms=1_767_225_600_000)
    assert parse_limit('{"t": {"0": 4, "1": 0}}', "--from") == Limit(offsets={T0: 4, T1: 0})


@pytest.mark.parametrize("text", ["yesterday", "{}", "[1]", '{"t": 5}', '{"t": {"0": -2}}', '{"t": {"0": true}}', "17"])
def test_a_limit_that_is_neither_is_refused(text: str) -> None:
    with pytest.raises(OptionRefused, match=r"option=--to.*neither a time .* nor offsets"):
        parse_limit(text, "--to")


def test_offsets_of_one_cluster_need_those_of_the_other() -> None:
    some, none = Limit(offsets={T0: 1}), Limit()
    check_limits(some, none, some, none)
    check_limits(Limit(time_ms=5), none, none, none)
    with pytest.raises(OptionRefused, match="--from names offsets of one cluster: --target-from has to name"):
        check_limits(some, none, none, none)
    with pytest.raises(OptionRefused, match="--target-to names offsets of one cluster: --to has to name"):
        check_limits(none, none, none, some)
    with pytest.raises(OptionRefused, match="--to takes the time"):
        check_limits(none, none, none, Limit(time_ms=5))


def test_times_bound_messages_and_need_them_to_count() -> None:
    assert windows_of("auto", Limit(time_ms=5), Limit()) == Windows(True, 0, 5, None)
    assert windows_of("blocks", Limit(), Limit()) == Windows(False)
    with pytest.raises(OptionRefused, match="option=window"):
        windows_of("blocks", Limit(), Limit(time_ms=5))


def test_the_whole_log_is_read_unless_something_else_is_said(brokers: Brokers) -> None:
    found = ranges_of(brokers, [T0, T1], Limit(), Limit(), side=SOURCE)
    assert found.bounds == {T0: (0, 5), T1: (0, 0)}
    assert found.cut == frozenset()
    some = ranges_of(brokers, [T0, T1], Limit(offsets={T0: 1, T1: 0}), Limit(offsets={T0: 3, T1: 0}), side=SOURCE)
    assert some.bounds == {T0: (1, 3), T1: (0, 0)}
    assert ranges_of(brokers, [], Limit(), Limit(), side=TARGET).bounds == {}


def test_offsets_that_the_log_does_not_hold_or_nobody_named_are_refused(brokers: Brokers) -> None:
    with pytest.raises(OffsetOutOfRange, match=r"partition=0 start=6 until=5 earliest=0 latest=5: .*the source"):
        ranges_of(brokers, [T0], Limit(offsets={T0: 6}), Limit(), side=SOURCE)
    with pytest.raises(OptionRefused, match="says no offset of t/1 of the target"):
        ranges_of(brokers, [T0, T1], Limit(offsets={T0: 0}), Limit(), side=TARGET)


def test_pieces_cover_each_range_once_and_tasks_get_like_shares() -> None:
    every = pieces(SOURCE, {T0: (10, 95), T1: (3, 3)}, Windows(), 40)
    assert [(p.range.start, p.range.until) for p in every] == [(10, 50), (50, 90), (90, 95)]
    tasks = dealt(every, cores=1)
    assert sorted(sum(p.range.count for p in task) for task in tasks) == [5, 40, 40]
    assert dealt([], cores=4) == [[]]
    assert (size_for(10, 4), size_for(10**12, 4)) == (LEAST, MOST)
    assert size_for(1_200_000, 4) == 100_000


def test_a_base_where_nothing_was_loaded_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionRefused, match="nothing was loaded below"):
        loaded_by(Ledger(LocalFiles(), f"file://{tmp_path}"), [])


def test_the_report_is_json_and_tells_what_is_allowed() -> None:
    scope, figures = Scope("t", 0), Figures(3, 9, 255, 16, 0, 2)
    row = Difference(
        topic="t",
        partition=0,
        window="all",
        difference="duplicated",
        messages=1,
        source=3,
        target=4,
        first_offset=3,
        last_offset=3,
    )
    found = AuditResult((row,), {SOURCE: {scope: {UNTIMED: figures}}, TARGET: {scope: {}}})
    said = json.loads(json.dumps(document(found, {}, allowed=["duplicated"], seconds=1.5)))
    assert (said["equal"], said["passed"]) == (False, True)
    assert said["messages"] == {"source": 3, "target": 0}
    assert said["differences"][0]["difference"] == "duplicated"
    [window] = said["scopes"][0]["source"]["windows"]
    assert (window["window"], window["content"], window["last_offset"]) == ("all", "00000000000000ff", 2)
    assert document(found, {}, allowed=[], seconds=1.5)["passed"] is False


def test_without_matching_only_another_order_is_known_for_what_it_is() -> None:
    ours = {5: Figures(2, 9, 7, 1, 0, 1), 6: Figures(2, 9, 7, 1, 2, 3)}
    theirs = {5: Figures(2, 9, 7, 2, 0, 1), 6: Figures(1, 4, 3, 1, 2, 2)}
    rows = from_sums(Scope("t", 0), [5, 6], ours, theirs)
    assert [(row.difference, row.source, row.target) for row in rows] == [("reordered", 2, 2), ("unequal", 2, 1)]


def test_scopes_are_listed_by_number() -> None:
    assert [s.partition for s in in_order([Scope("t", 10), Scope("t", 9), Scope("t", None)])] == [None, 9, 10]
    assert [s.partition for s in in_order([Scope("t", "10-0"), Scope("t", "9-2")])] == ["9-2", "10-0"]


def test_a_time_begins_where_the_broker_says_and_at_the_beginning_where_it_knows_nothing(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def at_time(times: object) -> dict[TopicPartition, int | None]:
        asked.append(times)
        return {T0: 3, T1: None}

    monkeypatch.setattr(brokers, "at_time", at_time)
    found = ranges_of(brokers, [T0, T1], Limit(time_ms=1000), Limit(time_ms=2000), side=SOURCE)
    assert found.bounds == {T0: (3, 5), T1: (0, 0)}  # the end is the log's: messages are cut by their own times
    assert asked == [{T0: 1000, T1: 1000}]


def test_a_log_is_cut_where_it_is_read_from_a_beginning_behind_offset_0(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "earliest", lambda tps: {T0: 2})
    assert ranges_of(brokers, [T0], Limit(), Limit(), side=SOURCE).cut == {T0}
    assert ranges_of(brokers, [T0], Limit(offsets={T0: 2}), Limit(), side=SOURCE).cut == frozenset()
