"""Groups that have offsets in Kafka, found in __consumer_offsets: the last record of each key counts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from kafkawire.errors import LinkLost
from kafkawire.model import TopicPartition
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC, StoredGroup, StoredOffset, group_partition
from tests.fakes.broker import Fail, FakeCluster, LeaveOut, Throttle, entry, gzipped
from tests.fakes.offsetrecords import group_key, group_value, offset_key, offset_value
from zkconsumer import offsetlog
from zkconsumer.offsetlog import last_commits, read_offset_log

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PARTITIONS = 4


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({OFFSETS_TOPIC: PARTITIONS, "t": 2}, brokers=2) as running:
        yield running


def offset(group: str, tp: TopicPartition, at: int | None, commit_ms: int = 1_500_000_000_000) -> bytes:
    value = None if at is None else offset_value(StoredOffset(at, "", commit_ms), 0)
    return entry(value, offset_key(group, tp.topic, int(tp.partition), 0))  # type: ignore[arg-type]


def keep(cluster: FakeCluster, group: str, *entries: bytes) -> None:
    cluster.append(OFFSETS_TOPIC, group_partition(group, PARTITIONS), b"".join(entries))


def test_the_last_record_counts_and_a_tombstone_takes_it_away(cluster: FakeCluster):
    keep(cluster, "a", offset("a", T0, 5), offset("a", T1, 7), offset("a", T0, 6, 1_500_000_000_001))
    keep(cluster, "b", offset("b", T0, 1), offset("b", T0, None))
    keep(cluster, "c", offset("c", T0, None), offset("c", T0, 0))
    log = read_offset_log(cluster.bootstrap)
    assert log.groups() == ["a", "c"]
    assert log.offsets["a"] == {
        T0: StoredOffset(6, "", 1_500_000_000_001),
        T1: StoredOffset(7, "", 1_500_000_000_000),
    }
    assert log.offsets["c"][T0].offset == 0
    assert (log.records, log.unknown, log.missing) == (7, 0, [])


def test_records_in_wrappers_and_far_more_than_one_fetch(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(offsetlog, "FETCH_BYTES", 300)
    for at in range(40):
        keep(cluster, "a", offset("a", T0, at), gzipped(offset("a", T1, at), offset("a", T1, at + 1)))
    log = read_offset_log(cluster.bootstrap)
    assert {tp: held.offset for tp, held in log.offsets["a"].items()} == {T0: 39, T1: 40}
    assert len(cluster.seen("fetch")) > 10


def test_one_group_is_read_from_its_own_partition_alone(cluster: FakeCluster):
    names = [f"group-{n}" for n in range(12)]
    for name in names:
        keep(cluster, name, offset(name, T0, 5))
    log = read_offset_log(cluster.bootstrap, group="group-7")
    assert log.groups() == ["group-7"]
    asked = {tp for seen in cluster.seen("fetch") for tp in seen.body["wanted"]}
    assert asked == {(OFFSETS_TOPIC, group_partition("group-7", PARTITIONS))}
    assert read_offset_log(cluster.bootstrap).groups() == sorted(names)


def test_groups_of_the_new_consumer_are_told_apart_and_what_nobody_can_read_is_counted(cluster: FakeCluster):
    stored = StoredGroup("consumer", 3, "range", "m1", (("m1", "client", "/10.0.0.1"),))
    keep(cluster, "new", entry(group_value(stored, 0), group_key("new")), offset("new", T0, 5))
    keep(cluster, "over", entry(group_value(stored, 1), group_key("over")), entry(None, group_key("over")))
    keep(cluster, "new", entry(b"\0\x09later", group_key("new")), entry(b"", b"\0\x63"), entry(b"x"))
    log = read_offset_log(cluster.bootstrap)
    assert log.coordinated == {"new": stored}
    assert log.groups() == ["new"]
    assert (log.records, log.unknown) == (7, 2)
    assert "version 9: known are 0 to 4" in log.first_unknown


def test_looking_creates_nothing_and_asks_no_coordinator():
    with FakeCluster({"t": 1}, auto_create=4) as cluster:
        log = read_offset_log(cluster.bootstrap)
        assert (log.offsets, log.missing) == ({}, [])
        assert {seen.api for seen in cluster.requests} == {"metadata"}
        assert all(seen.body["topics"] == [] for seen in cluster.seen("metadata"))


def test_a_partition_that_cannot_be_read_is_missing_and_the_others_are_there(cluster: FakeCluster):
    keep(cluster, "a", offset("a", T0, 5))
    keep(cluster, "b", offset("b", T0, 5))
    mine, other = (group_partition(name, PARTITIONS) for name in "ab")
    assert mine != other
    cluster.script("fetch", *[Fail(29, (OFFSETS_TOPIC, mine))] * 10)
    log = read_offset_log(cluster.bootstrap)
    assert log.groups() == ["b"]
    (missing,) = log.missing
    assert f"{OFFSETS_TOPIC}/{mine} from 0 on" in missing


def test_a_partition_whose_leader_moves_is_read_on_at_the_next_one(cluster: FakeCluster):
    tp = OFFSETS_TOPIC, group_partition("a", PARTITIONS)
    keep(cluster, "a", offset("a", T0, 5), offset("a", T1, 7))
    other = 3 - cluster.logs[tp].leader
    cluster.script("list_offsets", Fail(6, tp))
    cluster.script("fetch", Fail(-1, tp), Fail(6, tp))
    moves: list[float] = []

    def sleep(seconds: float) -> None:
        moves.append(seconds)
        cluster.move(*tp, other)

    log = read_offset_log(cluster.bootstrap, sleep=sleep)
    assert {held.offset for held in log.offsets["a"].values()} == {5, 7}
    assert log.missing == []
    assert moves


def test_a_broker_that_is_away_leaves_its_partitions_missing(cluster: FakeCluster):
    for n in range(8):
        keep(cluster, f"g{n}", offset(f"g{n}", T0, 5))
    led = {n: cluster.logs[OFFSETS_TOPIC, n].leader for n in range(PARTITIONS)}
    cluster.stop(2)
    log = read_offset_log(cluster.bootstrap)
    assert log.groups() == [f"g{n}" for n in range(8) if led[group_partition(f"g{n}", PARTITIONS)] == 1]
    assert sorted(log.missing) == [f"{OFFSETS_TOPIC}/{n}: it has no leader" for n in led if led[n] == 2]
    cluster.stop(1)
    with pytest.raises(LinkLost):
        read_offset_log(cluster.bootstrap)


def test_no_time_left_is_said_for_each_partition(cluster: FakeCluster):
    keep(cluster, "a", offset("a", T0, 5))
    log = read_offset_log(cluster.bootstrap, timeout_s=0.0)
    assert log.offsets == {}
    assert log.missing == [f"{OFFSETS_TOPIC}/{group_partition('a', PARTITIONS)} from 0 on: there was no time left"]


def test_progress_is_told(cluster: FakeCluster):
    keep(cluster, "a", offset("a", T0, 5), offset("a", T0, 6))
    told: list[int] = []
    read_offset_log(cluster.bootstrap, progress=told.append)
    assert told[-1] == 2


def test_partitions_that_a_broker_does_not_answer_for_are_asked_for_again(cluster: FakeCluster):
    keep(cluster, "one", offset("one", T0, 5))
    number = group_partition("one", PARTITIONS)
    cluster.script("list_offsets", LeaveOut((OFFSETS_TOPIC, number)))
    cluster.script("fetch", Throttle(), Throttle())
    log = read_offset_log(cluster.bootstrap, "0.8.2", group="one")
    assert (log.missing, log.offsets["one"][T0].offset) == ([], 5)


def test_newest_commits_are_known_once_the_broker_answers_for_the_partition(cluster: FakeCluster):
    keep(cluster, "a", offset("a", T0, 5), offset("a", T0, 6))
    cluster.script("fetch", Throttle(), Throttle())
    found = last_commits(cluster.bootstrap, "0.8.2", "a", {T0})
    assert found == {T0: StoredOffset(6, "", 1_500_000_000_000)}


def test_a_damaged_record_costs_what_it_holds_and_is_told(cluster: FakeCluster):
    keep(cluster, "a", offset("a", T0, 5))
    keep(cluster, "a", offset("a", T0, 6), offset("a", T1, 7))
    number = group_partition("a", PARTITIONS)
    log = cluster.logs[OFFSETS_TOPIC, number].entries
    log[1] = 1, log[1][1][:8] + b"\xff" * 4 + log[1][1][12:]
    found = read_offset_log(cluster.bootstrap)
    assert {tp: held.offset for tp, held in found.offsets["a"].items()} == {T0: 5, T1: 7}
    (missing,) = found.missing
    assert missing.startswith(f"{OFFSETS_TOPIC}/{number} from 1 to 1: ")


def test_the_newest_commits_are_found_from_the_end_and_a_tombstone_is_one(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(offsetlog, "TAIL_RECORDS", 2)
    t2 = TopicPartition("t", 2)
    keep(cluster, "a", offset("a", T0, 5), offset("a", T1, 7), offset("a", T0, None), offset("b", T1, 9))
    found = last_commits(cluster.bootstrap, "0.8.2", "a", {T0, T1, t2})
    assert found == {T0: None, T1: StoredOffset(7, "", 1_500_000_000_000), t2: None}
    late = count(0.0, 10.0).__next__  # the time is over at the second look
    assert last_commits(cluster.bootstrap, "0.8.2", "a", {T0, T1}, now=late) == {}
