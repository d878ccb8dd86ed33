"""Asking for offsets in Kafka: any broker will do, waiting has an end that says why, and what is kept how long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from groundwork import tasks
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost, LocalError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from tests.fakes.broker import Close, Fail, FakeCluster, LeaveOut, Wait
from zkconsumer.offsets.coordinator import CommittedRow, Coordinator
from zkconsumer.offsets.store import NONE, Unknown
from zkconsumer.refusals import (
    CommitTooLarge,
    CoordinatorAway,
    GroupActive,
    MetadataTooLong,
    NotAllowed,
    may_be_written,
    refusal,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
NOW_MS = 1_700_000_000_000


@dataclass
class Clock:
    """Time passes only while somebody sleeps."""

    seconds: float = 0.0
    naps: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.seconds += seconds


Make = Callable[..., Coordinator]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 2}, brokers=3) as running:
        yield running


@pytest.fixture
def make(cluster: FakeCluster, clock: Clock) -> Iterator[Make]:
    """A coordinator of the cluster's brokers, by their addresses alone, on that clock."""
    pools: list[Links] = []

    def coordinator(release: str = "0.8.2", **options: Any) -> Coordinator:
        links = Links("test", timeout_ms=5000)
        pools.append(links)
        addresses = [Broker(-1, host, port) for host, port in cluster.bootstrap]
        defaults = {
            "retries": 3,
            "backoff_ms": 1000,
            "sleep": clock.sleep,
            "now": clock.now,
            "clock_ms": lambda: NOW_MS,
        }
        return Coordinator(lambda: addresses, links, dialect(release), **{**defaults, **options})

    yield coordinator
    for links in pools:
        links.close()


def test_any_broker_that_answers_knows_the_coordinator(cluster: FakeCluster, make: Make):
    cluster.coordinator = 3
    cluster.stop(1)
    coordinator = make()
    assert coordinator.commit("g", {T0: (5, "a"), T1: (6, "")}, "kafka") == {T0: None, T1: None}
    assert coordinator.fetch_rows("g", [T0, T1], "kafka") == {T0: CommittedRow(5, "a"), T1: CommittedRow(6)}
    assert [seen.broker for seen in cluster.seen("group_coordinator")] == [2]
    assert coordinator.commit("g", {T0: (7, "")}, "zookeeper") == {T0: None}  # any broker writes the node


def test_a_broker_that_does_not_know_is_not_the_last_word(cluster: FakeCluster, make: Make, clock: Clock):
    cluster.script("group_coordinator", Fail(15))
    assert make().find("g").id == 1
    assert [seen.broker for seen in cluster.seen("group_coordinator")] == [1, 2]
    assert clock.naps == []


def test_no_broker_at_all_is_told_at_once_with_each_one_s_reason(cluster: FakeCluster, make: Make, clock: Clock):
    for broker in (1, 2, 3):
        cluster.stop(broker)
    coordinator = make()
    with pytest.raises(LinkLost, match=r"group g: none of 3 brokers answers: 127\.0\.0\.1:\d+: .*; 127\.0\.0\.1"):
        coordinator.fetch("g", [T0], "kafka")
    assert "none of 3 brokers" in str(coordinator.commit("g", {T0: (5, "")}, "zookeeper")[T0])
    assert clock.naps == []


def test_an_empty_list_of_brokers_says_so():
    coordinator = Coordinator(list, Links("test"), dialect("0.8.2"), sleep=Clock().sleep)
    with pytest.raises(LinkLost, match="group g: no broker is known"):
        coordinator.find("g")


def test_a_coordinator_that_died_is_looked_up_again_after_the_back_off(cluster: FakeCluster, make: Make, clock: Clock):
    moves = iter([None, None, 3])  # the others go on naming it for a while, as they do until its session is over

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        cluster.coordinator = next(moves) or 2

    cluster.coordinator = 2
    coordinator = make(sleep=sleep)
    assert coordinator.commit("g", {T0: (5, "")}, "kafka") == {T0: None}
    cluster.stop(2)
    assert coordinator.commit("g", {T0: (6, "")}, "kafka") == {T0: None}
    assert clock.naps == [1.0, 1.0, 1.0]
    assert cluster.committed[1, "g", "t", 0] == (6, "")
    assert cluster.seen("offset_commit")[-1].broker == 3


def test_waiting_ends_by_the_number_of_tries_and_says_why(cluster: FakeCluster, make: Make, clock: Clock):
    cluster.script("group_coordinator", *[Fail(15)] * 24)
    coordinator = make()
    with pytest.raises(CoordinatorAway) as told:
        coordinator.find("g")
    assert "group g on" in str(told.value)
    assert "(15) (asked 4 times in 3.0 s)" in str(told.value)
    assert "offsets.topic.replication.factor" in str(told.value)
    assert clock.naps == [1.0, 1.0, 1.0]
    failed = coordinator.commit("g", {T0: (5, "")}, "kafka")[T0]
    assert "(asked 4 times in 3.0 s)" in str(failed)


def test_what_is_waited_for_is_told_once_when_the_waiting_begins(cluster: FakeCluster, make: Make):
    told: list[str] = []
    cluster.script("group_coordinator", *[Fail(15)] * 9)
    coordinator = make(tell=told.append)
    assert coordinator.find("g").id == 1
    cluster.script("offset_commit", Fail(14, ("t", 1)), Fail(14, ("t", 1)))
    assert coordinator.commit("g", {T0: (5, ""), T1: (6, "")}, "kafka") == {T0: None, T1: None}
    first, second = told
    assert first.startswith("waiting for a coordinator: group g on ")
    assert second.startswith("asking again for 1 of 2 partitions: group g, t/1 on broker 1")
    assert "still reading __consumer_offsets" in second


def test_a_link_that_the_broker_closed_at_rest_costs_no_try(cluster: FakeCluster, make: Make, clock: Clock):
    coordinator = make()
    assert coordinator.commit("g", {T0: (5, "")}, "kafka") == {T0: None}
    cluster.stop(1)
    cluster.start(1, cluster.ports[1])
    assert coordinator.commit("g", {T0: (6, "")}, "kafka") == {T0: None}
    assert clock.naps == []
    assert len(cluster.seen("group_coordinator")) == 1


def test_who_is_ended_while_waiting_leaves_no_answer_to_the_next(cluster: FakeCluster, make: Make):
    held_back = threading.Event()
    cluster.script("offset_fetch", Wait(held_back))
    greenlets = tasks.TaskGroup()
    pool = Links("test", tasks.connect, timeout_ms=5000)
    (address, *_) = cluster.bootstrap
    coordinator = Coordinator(Broker(-1, *address), pool, dialect("0.8.2"), retries=0, sleep=tasks.sleep, now=tasks.now)
    asked = greenlets.spawn("reader", coordinator.fetch, "g", [T0], "kafka")
    with tasks.deadline(5.0):
        while not cluster.seen("offset_fetch"):
            tasks.sleep(0.005)
    assert asked.end(5.0)
    held_back.set()
    assert coordinator.commit("g", {T0: (5, "")}, "kafka") == {T0: None}
    assert coordinator.fetch("g", [T0], "kafka") == {T0: 5}
    pool.close()
    greenlets.stop(1.0)


def test_waiting_ends_by_the_clock(cluster: FakeCluster, make: Make, clock: Clock):
    cluster.script("offset_fetch", *[Fail(14)] * 50)
    found = make(retries=1000, backoff_ms=1000, timeout_ms=5000).fetch("g", [T0], "kafka")[T0]
    assert isinstance(found, Unknown)
    assert "(asked 5 times in 4.0 s): the coordinator is still reading __consumer_offsets" in found.reason
    assert sum(clock.naps) < 5.0


def test_a_coordinator_whose_link_breaks_each_time_is_given_up_with_the_reason(cluster: FakeCluster, make: Make):
    cluster.script("offset_commit", *[Close()] * 4)
    failed = make().commit("g", {T0: (5, "")}, "kafka")[T0]
    assert isinstance(failed, LinkLost)
    assert str(failed).endswith("(asked 4 times in 3.0 s); it may be written: commit it once more")


def test_a_silent_broker_is_asked_last_the_next_time(cluster: FakeCluster, make: Make):
    coordinator = make()
    cluster.stop(1)
    cluster.coordinator = 2
    coordinator.find("g")
    cluster.start(1, cluster.ports[1])
    coordinator.find("g")
    assert [seen.broker for seen in cluster.seen("group_coordinator")] == [2, 2]


def test_a_commit_whose_replicas_did_not_confirm_it_is_made_again_at_a_coordinator_looked_up_anew(
    cluster: FakeCluster, make: Make
):
    cluster.script("offset_commit", Fail(7))
    assert make().commit("g", {T0: (5, "")}, "kafka") == {T0: None}
    assert [seen.broker for seen in cluster.seen("group_coordinator")] == [1, 2]
    assert len(cluster.seen("offset_commit")) == 2


@pytest.mark.parametrize("then", [Fail(7), Fail(25), Close()])
def test_a_commit_that_may_be_written_says_so_whatever_is_answered_last(cluster: FakeCluster, make: Make, then: object):
    cluster.script("offset_commit", Fail(7), *[then] * 8)
    failed = make().commit("g", {T0: (5, "")}, "kafka")[T0]
    assert failed is not None
    assert may_be_written(failed)
    assert "it may be written: commit it once more" in str(failed)
    cluster.scripts.clear()
    cluster.script("offset_commit", Fail(25))
    refused = make().commit("g", {T0: (5, "")}, "kafka")[T0]
    assert refused is not None
    assert not may_be_written(refused)


# ---- how long it is kept


def test_by_default_the_broker_decides_how_long(cluster: FakeCluster, make: Make):
    make().commit("g", {T0: (5, "")}, "kafka")
    make("0.9").commit("g", {T0: (5, "")}, "kafka")
    first, second = (seen.body for seen in cluster.seen("offset_commit"))
    assert (first["version"], first["timestamps"]) == (1, [-1])
    assert (second["version"], second["retention_ms"]) == (2, -1)


def test_a_longer_retention_moves_the_time_of_the_commit_on_0_8_2(cluster: FakeCluster, make: Make):
    make().commit("g", {T0: (5, "")}, "kafka", retention_ms=30 * DAY_MS)
    make(broker_retention_ms=7 * DAY_MS).commit("g", {T0: (5, "")}, "kafka", retention_ms=30 * DAY_MS)
    stamps = [seen.body["timestamps"] for seen in cluster.seen("offset_commit")]
    assert stamps == [[NOW_MS + 29 * DAY_MS], [NOW_MS + 23 * DAY_MS]]


@pytest.mark.parametrize(
    ("clock_ms", "wanted_ms"),
    [(NOW_MS, DAY_MS // 24), (NOW_MS - 2 * HOUR_MS, HOUR_MS), (NOW_MS, DAY_MS), (86_400_000, 30 * DAY_MS)],
    ids=["shorter", "a clock that is behind", "as the brokers'", "a clock that begins at 1970"],
)
def test_no_commit_of_0_8_2_expires_at_once_by_our_clock(
    cluster: FakeCluster, make: Make, clock_ms: int, wanted_ms: int
):
    make(clock_ms=lambda: clock_ms).commit("g", {T0: (5, "")}, "kafka", retention_ms=wanted_ms)
    assert cluster.seen("offset_commit")[0].body["timestamps"] == [-1]


def test_a_longer_retention_has_its_own_field_from_0_9_on(cluster: FakeCluster, make: Make):
    make("0.10.2").commit("g", {T0: (5, "")}, "kafka", retention_ms=30 * DAY_MS)
    assert cluster.seen("offset_commit")[0].body["retention_ms"] == 30 * DAY_MS


@pytest.mark.parametrize(("release", "told"), [("0.8.2", {"timestamps": [1]}), ("0.9", {"retention_ms": 1})])
def test_what_is_to_be_forgotten_is_committed_again_as_old_as_can_be(
    cluster: FakeCluster, make: Make, release: str, told: dict[str, object]
):
    make().commit("g", {T0: (5, "note")}, "kafka")
    assert make(release).forget("g", [T0, T1]) == {T0: None, T1: None}
    body = cluster.seen("offset_commit")[-1].body
    assert body["offsets"] == {("t", 0): (5, "note")}
    assert {name: body[name] for name in told} == told
    cluster.script("offset_fetch", Fail(3, ("t", 0)))
    failed = make().forget("g", [T0, T1])
    assert "(3)" in str(failed[T0])
    assert failed[T1] is None


@pytest.mark.parametrize(("store", "retention_ms"), [("zookeeper", DAY_MS), ("kafka", 0), ("kafka", -1)])
def test_a_retention_without_sense_is_not_sent(cluster: FakeCluster, make: Make, store: Any, retention_ms: int):
    with pytest.raises(LocalError, match="a retention of"):
        make().commit("g", {T0: (5, "")}, store, retention_ms=retention_ms)
    assert cluster.seen("offset_commit") == []


# ---- what each partition is told


def test_metadata_that_is_too_long_stays_here_and_the_others_go(cluster: FakeCluster, make: Make):
    found = make().commit("g", {T0: (5, "\N{GRINNING FACE}" * 2048), T1: (6, "\N{GRINNING FACE}" * 2049)}, "kafka")
    assert found[T0] is None  # 4096 characters as Java counts them
    assert isinstance(found[T1], MetadataTooLong)
    assert "t/1 at 6: the metadata text has 4098 characters" in str(found[T1])
    assert (1, "g", "t", 1) not in cluster.committed
    assert make(metadata_limit=5000).commit("g", {T1: (6, "x" * 4097)}, "kafka") == {T1: None}


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (3, None, "the coordinator does not know the partition"),
        (12, None, "offset.metadata.max.bytes"),
        (22, GroupActive, "the group is active"),
        (25, GroupActive, "the new consumer"),
        (27, GroupActive, "stop them before committing from outside"),
        (28, CommitTooLarge, "does not fit into a message"),
        (29, NotAllowed, "access control lists forbid it"),
        (30, NotAllowed, "Read on the group and on the topic"),
        (24, None, "does not accept the group name"),
    ],
)
def test_each_code_is_a_sentence_with_what_helps(cluster: FakeCluster, make: Make, code: int, kind: Any, says: str):
    cluster.script("offset_commit", Fail(code, ("t", 1)))
    found = make().commit("g", {T1: (6, ""), T0: (5, "")} if code != 28 else {T1: (6, "")}, "kafka")
    assert found.get(T0) is None
    failed = found[T1]
    assert failed is not None
    assert "group g, t/1 at 6 on broker 1" in str(failed)
    assert f"({code})" in str(failed)
    assert says in str(failed)
    assert isinstance(failed, kind or type(refusal(code, None)))


def test_a_commit_that_is_too_large_goes_in_halves(cluster: FakeCluster, make: Make):
    positions = {TopicPartition("t", n): (n, "") for n in range(4)}
    cluster.script("offset_commit", Fail(28), None, Fail(28))
    assert make().commit("g", positions, "kafka") == dict.fromkeys(positions)
    sizes = [len(seen.body["offsets"]) for seen in cluster.seen("offset_commit")]
    assert sizes == [4, 2, 2, 1, 1]
    assert {tp[1]: at for (_, _, *tp), (at, _) in cluster.committed.items()} == {0: 0, 1: 1, 2: 2, 3: 3}


def test_an_unknown_partition_is_never_taken_for_one_without_an_offset(cluster: FakeCluster, make: Make):
    cluster.script("offset_fetch", Fail(3, ("t", 0)))
    found = make().fetch("g", [T0, T1], "kafka")
    assert isinstance(found[T0], Unknown)
    assert found[T1] is NONE


def test_a_partition_without_an_answer_is_a_failure(cluster: FakeCluster, make: Make):
    cluster.script("offset_commit", LeaveOut(("t", 1)))
    found = make().commit("g", {T0: (5, ""), T1: (6, "")}, "kafka")
    assert found[T0] is None
    assert "the answer leaves this partition out" in str(found[T1])


# ---- before a request goes out


def test_who_commits_is_asked_before_each_request(cluster: FakeCluster, make: Make):
    asked: list[int] = []

    def allowed() -> None:
        asked.append(len(cluster.seen("offset_commit")))
        if len(asked) == 6:
            raise PermissionError("no more")

    cluster.script("offset_commit", Fail(14), Fail(14), Fail(14))
    with pytest.raises(PermissionError):
        make().commit("g", {T0: (5, "")}, "kafka", before_send=allowed)
    assert asked == [0, 0, 1, 1, 2, 2]  # before the coordinator is looked up, and right before the bytes go
    assert cluster.committed == {}


def test_a_release_without_offsets_in_kafka_says_so(make: Make):
    with pytest.raises(LocalError, match=r"Kafka 0\.8\.1 has no OffsetCommit for offsets in kafka"):
        make("0.8.1").commit("g", {T0: (5, "")}, "kafka")
    with pytest.raises(LocalError, match=r"Kafka 0\.8\.2 has no DescribeGroups"):
        make("0.8.2").describe("g")
