"""Resting partitions: nothing is done for those that have nothing new, and nothing is missed of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groundwork.tasks import now, sleep
from kafkawire.model import TopicPartition
from kafkawire.protocol import fetchrows
from tests.fakes.broker import FakeCluster, Throttle, entry
from tests.zkconsumer.test_fetcher import Fetching
from zkconsumer.engine.status import END_OLD_S, StatusRows, status_of
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.fetching.resting import Group, Resting

TOPICS, EACH = 30, 10
ALL = [TopicPartition(f"t{n}", p) for n in range(TOPICS) for p in range(EACH)]


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(dict.fromkeys((f"t{n}" for n in range(TOPICS)), EACH)) as cluster:
        yield cluster


@pytest.fixture
def fetching(cluster: FakeCluster) -> Iterator[Fetching]:
    fetching = Fetching(cluster, budget_bytes=64 << 20)
    yield fetching
    fetching.close()


@pytest.fixture
def cursors(cluster: FakeCluster, fetching: Fetching, monkeypatch: pytest.MonkeyPatch) -> list[Cursor]:
    """All at rest, and asked for once as they stand."""
    monkeypatch.setattr("zkconsumer.fetching.resting.REST_AFTER_S", 0.05)
    cursors = [fetching.add(tp, 0) for tp in ALL]
    fetching.until(lambda: all(cursor.rest is not None for cursor in cursors), 20)
    before = fetches(cluster)
    fetching.until(lambda: fetches(cluster) >= before + 2)  # the second one began after all were at rest
    return cursors


class Work:
    """Counts the rows that are encoded and the partitions that are looked at in replies."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.encoded = self.looked_at = 0
        encode, learn = fetchrows._rows, fetchrows.QuietRows.learn

        def counted(version: int, count: int, flat: list[int]) -> bytes:
            self.encoded += count
            return encode(version, count, flat)

        def learned(
            quiet: fetchrows.QuietRows, topic: str, pieces: list[bytes], partitions: list[int], is_quiet: bool
        ) -> None:
            self.looked_at += len(pieces) - 1
            learn(quiet, topic, pieces, partitions, is_quiet)

        monkeypatch.setattr(fetchrows, "_rows", counted)
        monkeypatch.setattr(fetchrows.QuietRows, "learn", learned)


def fetches(cluster: FakeCluster) -> int:
    with cluster.lock:
        return sum(seen.api == "fetch" for seen in cluster.requests)


def test_idle_partitions_are_neither_encoded_nor_read_nor_visited(cluster, fetching, cursors, monkeypatch):
    work, before = Work(monkeypatch), fetches(cluster)
    fetching.until(lambda: fetches(cluster) >= before + 5)
    assert (work.encoded, work.looked_at) == (0, 0)
    assert all(cursor.rest is not None for cursor in cursors)
    known = cursors[0].end_known_at
    fetching.until(lambda: cursors[0].end_known_at > known)  # they count as asked


def test_a_message_of_one_wakes_that_one_and_its_topic_is_looked_at(cluster, fetching, cursors, monkeypatch):
    work = Work(monkeypatch)
    cluster.append("t7", 3, entry(b"news"))
    assert fetching.read(1) == [b"news"]
    woken = [cursor.tp for cursor in cursors if cursor.rest is None]
    assert woken == [TopicPartition("t7", 3)]
    assert EACH <= work.looked_at <= 10 * EACH  # of 300
    cluster.append("t7", 3, entry(b"more"))
    assert fetching.read(1) == [b"more"]


def test_the_status_of_one_that_rests_is_made_again_only_when_something_changed(cluster, fetching, cursors):
    rows = StatusRows()
    before = {row.tp: row for row in rows.of(cursors, now())}
    assert all(row is before[row.tp] for row in rows.of(cursors, now()))
    changed, loud = cursors[42], cursors[77]
    changed.committed = 0
    cluster.append(loud.tp.topic, loud.tp.partition, entry(b"news"))
    assert fetching.read(1) == [b"news"]
    after = {row.tp: row for row in rows.of(cursors, now())}
    assert {tp for tp, row in after.items() if row is not before[tp]} == {changed.tp, loud.tp}
    assert (before[changed.tp].committed, after[changed.tp].committed) == (None, 0)
    assert (before[loud.tp].position, after[loud.tp].position) == (0, 1)
    long_after = rows.of(cursors, now() + END_OLD_S + 5)
    assert {row.high_watermark for row in long_after} == {None}


def test_only_the_rows_of_topics_where_one_came_or_went_are_encoded_again(cluster, fetching, cursors, monkeypatch):
    work, before = Work(monkeypatch), fetches(cluster)
    cursors[42].apply(cursors[42].partition.pause)
    cursors[77].apply(cursors[77].partition.pause)
    fetching.until(lambda: fetches(cluster) >= before + 5)
    assert work.encoded == 2 * (EACH - 1)


def test_an_entry_larger_than_what_is_asked_of_one_that_rests_comes_through(cluster, fetching, cursors):
    large = b"x" * 7000
    cluster.append("t1", 1, entry(large))
    assert fetching.read(1) == [large]


@pytest.mark.parametrize("change", ["pause", "park", "reset", "throttle", "revoke"])
def test_what_changes_a_cursor_ends_its_rest(cluster, fetching, cursors, change):
    cursor = cursors[42]
    match change:
        case "pause":
            cursor.apply(cursor.partition.pause)
        case "park":
            cursor.apply(cursor.partition.park, "by hand")
        case "reset":
            cursor.apply(cursor.partition.reset_to, 0)
        case "throttle":
            cursor.apply(cursor.partition.throttle, 0)
        case "revoke":
            cursor.apply(cursor.partition.revoke)
            fetching.fetcher.remove(cursor.tp)
    assert cursor.rest is None
    cluster.append(cursor.tp.topic, cursor.tp.partition, entry(b"late"))
    cluster.append("t0", 0, entry(b"other"))
    expected = [b"late", b"other"] if change == "reset" else [b"other"]
    assert sorted(fetching.read(len(expected))) == expected
    sleep(0.05)
    assert fetching.values() == []
    assert all(c.rest is not None for c in cursors if c.tp not in (cursor.tp, TopicPartition("t0", 0)))


def test_busy_partitions_do_not_keep_news_of_resting_ones_away(cluster, fetching, cursors):
    for n in range(20):
        cluster.append("t0", 0, entry(b"busy"))
        if n == 10:
            cluster.append("t9", 9, entry(b"rested"))
        sleep(0.01)
    assert b"rested" in fetching.read(21)


def test_after_a_lost_link_everything_goes_back_to_the_leader_finder(cluster, fetching, cursors):
    cluster.stop(1)
    fetching.until(lambda: len(fetching.sent_home) == len(ALL))
    assert {tp for tp, _ in fetching.sent_home} == set(ALL)
    assert all(cursor.rest is None for cursor in cursors)


def test_a_group_that_finds_no_room_for_long_comes_before_all_others(fetching):
    stirred: list[Cursor] = []
    resting = Resting(4096, stirred.append)
    cursor = fetching.make(TopicPartition("t0", 0), 0)
    cursor.set_log_end(0, 1.0)
    resting.brought_nothing(cursor, 1.0)
    assert cursor.rest is None
    resting.brought_nothing(cursor, 1.6)
    (group,) = resting.groups.values()
    assert cursor.rest is group
    assert resting.due(2.0, False, 1 << 20) == ([group], False)
    assert resting.due(2.0, False, 1 << 20) == ([], False)  # just asked
    assert resting.due(2.5, False, 0) == ([], False)
    assert resting.due(3.5, False, 0) == ([], True)
    assert resting.due(3.5, False, 1 << 20) == ([group], False)
    assert resting.due(4.7, False, 0) == ([], True)
    assert resting.due(5.4, False, 0) == ([], True)
    assert resting.due(5.6, False, 0) == ([], False)  # in vain: the others go on meanwhile
    cursor.apply(cursor.partition.pause)
    assert (len(resting), stirred) == (0, [cursor])


def test_more_than_half_of_the_budget_never_rests(fetching):
    budget = fetching.budget.for_stream(1)
    group = Group(budget, 65536, lambda cursor: None)
    room = fetching.budget.limit // 2 // 4096
    made = [fetching.make(TopicPartition("t", n), 0, budget) for n in range(room + 1)]
    assert [group.add(cursor) for cursor in made] == [True] * room + [False]
    assert group.fits(fetching.budget.limit // 2)
    assert group.bytes == room * 4096


def test_where_there_is_little_room_those_that_rest_are_asked_for_their_slots_and_no_less(fetching):
    budget = fetching.budget.for_stream(1)
    group = Group(budget, 65536, lambda cursor: None)
    for n in range(2000):
        assert group.add(fetching.make(TopicPartition("t", n), 0, budget))
    holding = budget.open()
    budget.take(holding, fetching.budget.limit * 3 // 4)
    assert group.fits(fetching.budget.free)
    assert group.asked_bytes == budget.slot == 8192
    assert group.fits(2000 * 4096)
    assert not group.fits(2000 * 4096 - 1)


def test_partitions_at_rest_that_a_broker_does_not_answer_for_show_no_lag_of_before(
    cluster, fetching, cursors, monkeypatch
):
    """A broker of 2.0 or later answers a client that is over its quota without any topic, again and again."""
    monkeypatch.setattr("zkconsumer.fetching.brokerfetcher.ENDS_CHECK_S", 0.02)
    monkeypatch.setattr("zkconsumer.fetching.logbounds.ENDS_S", 0.1)
    cluster.script("fetch", *[Throttle()] * 10_000)
    group = cursors[0].rest
    assert group is not None
    before = fetches(cluster)
    fetching.until(lambda: fetches(cluster) >= before + 4)
    answered_at = group.answered_at
    cluster.append("t0", 0, entry(b"a") + entry(b"b"))
    fetching.tasks.spawn("ends", fetching.fetcher.run_ends)
    fetching.until(lambda: status_of(cursors[0], now()).lag == 2)
    assert (group.answered_at, fetching.sent_home) == (answered_at, [])
    with cluster.lock:
        cluster.scripts["fetch"].clear()
    assert fetching.read(2) == [b"a", b"b"]
    fetching.until(lambda: group.answered_at > answered_at)
