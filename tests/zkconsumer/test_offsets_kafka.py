"""The Kafka store: three-valued, every partition each time, and nothing sent once the lease is over."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator

import pytest

from groundwork import clocks, tasks
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost, LocalError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Login
from kafkawire.net.links import Links
from tests.fakes.broker import Fail, FakeCluster, LeaveOut, Nothing, Wait
from tests.fakes.clocks import FakeClocks
from tests.fakes.stores import held
from zkconsumer.offsets.coordinator import CommittedRow, Coordinator
from zkconsumer.offsets.kafka import KafkaOffsets, OffsetsAway
from zkconsumer.offsets.store import NONE, Unknown
from zkconsumer.session.lease import Lease, LeaseOver

T0, T1, T9 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 9)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 2}, brokers=2) as running:
        yield running


@pytest.fixture
def links() -> Iterator[Links]:
    pool = Links("test", timeout_ms=5000)
    yield pool
    pool.close()


def coordinator(cluster: FakeCluster, links: Links, **options: object) -> Coordinator:
    addresses = [Broker(-1, host, port) for host, port in cluster.bootstrap]
    return Coordinator(lambda: addresses, links, dialect("0.8.2"), 3, 1, 5000, **options)  # type: ignore[arg-type]


@pytest.fixture
def store(cluster: FakeCluster, links: Links) -> KafkaOffsets:
    return KafkaOffsets(coordinator(cluster, links))


def test_what_was_committed_is_read_and_nothing_is_none(store: KafkaOffsets):
    assert store.read("g", [T0, T1]) == {T0: NONE, T1: NONE}
    assert store.commit("g", {T0: 0}, held()) == {T0: None}
    assert store.read("g", [T0, T1]) == {T0: 0, T1: NONE}
    assert store.read("other", [T0]) == {T0: NONE}
    assert store.read("g", []) == {}


def test_an_error_of_one_partition_is_unknown_and_the_others_are_read(cluster: FakeCluster, store: KafkaOffsets):
    store.commit("g", {T0: 5}, held())
    found = store.read("g", [T0, T9])
    assert found[T0] == 5
    assert isinstance(found[T9], Unknown)  # error 3: the JVM resets here
    cluster.script("offset_fetch", LeaveOut(("t", 1)))
    assert isinstance(store.read("g", [T0, T1])[T1], Unknown)


def test_every_partition_is_committed_each_time_moved_or_not(cluster: FakeCluster, store: KafkaOffsets):
    for _ in range(2):
        assert store.commit("g", {T0: 5, T1: 6}, held()) == {T0: None, T1: None}
    assert [len(seen.body["offsets"]) for seen in cluster.seen("offset_commit")] == [2, 2]


def test_nothing_is_sent_once_the_lease_is_over(cluster: FakeCluster, store: KafkaOffsets):
    failed = store.commit("g", {T0: 5, T1: 6}, Lease())
    assert isinstance(failed[T0], LeaseOver)
    assert isinstance(failed[T1], LeaseOver)
    assert cluster.seen("offset_commit") == []


class Slow:
    """A connect, with a login, that takes as long as a test says: each in turn, the last number for all that follow."""

    def __init__(self, passing: FakeClocks, takes_s: dict[str, list[float]]) -> None:
        self._clocks = passing
        self._takes_s = takes_s

    def __call__(self, address: tuple[str, int], timeout: float) -> socket.socket:
        self._pass("connect")
        return socket.create_connection(address, timeout)

    def greeting(self, login: Login) -> float | None:
        self._pass("login")
        return self._next("lasts") or None

    def _pass(self, what: str) -> None:
        self._clocks.pass_s(self._next(what))

    def _next(self, what: str) -> float:
        left = self._takes_s.get(what, [0.0])
        return left.pop(0) if len(left) > 1 else left[0]


def ten_seconds() -> Lease:
    lease = Lease(0.0)
    lease.beat_answered(clocks.moment(), 10.0)
    return lease


def test_a_lease_that_ends_while_the_coordinator_loads_ends_the_commit(
    cluster: FakeCluster, links: Links, monkeypatch: pytest.MonkeyPatch
):
    passing, naps = FakeClocks(monkeypatch, 100.0), iter([5.0, 4.9, 0.2])
    store = KafkaOffsets(coordinator(cluster, links, sleep=lambda seconds: passing.pass_s(next(naps))))
    cluster.script("offset_commit", Fail(14), Fail(14), Fail(14), Fail(14))
    assert isinstance(store.commit("g", {T0: 5}, ten_seconds())[T0], LeaseOver)
    assert len(cluster.seen("offset_commit")) == 3
    assert cluster.committed == {}


@pytest.mark.parametrize(
    "takes_s",
    [
        {"connect": [0.0, 20.0]},  # the look-up has a connection of its own
        {"login": [0.0, 20.0]},
        {"lasts": [0.0, 1e-9], "login": [0.0, 0.0, 20.0]},
    ],
    ids=["connecting", "logging in", "logging in again"],
)
def test_nothing_is_stored_where_the_lease_ended_while_its_connection_was_made(
    cluster: FakeCluster, takes_s: dict[str, list[float]], monkeypatch: pytest.MonkeyPatch
):
    passing = FakeClocks(monkeypatch, 100.0)
    links = Links("test", Slow(passing, takes_s), timeout_ms=5000)
    results = KafkaOffsets(coordinator(cluster, links)).commit("g", {T0: 5}, ten_seconds())
    links.close()
    assert passing.now == 120.0
    assert isinstance(results[T0], LeaseOver)
    assert cluster.seen("offset_commit") == []


def test_a_retention_goes_with_each_commit(cluster: FakeCluster, links: Links):
    store = KafkaOffsets(coordinator(cluster, links, clock_ms=lambda: 1_700_000_000_000), retention_ms=90_000_000)
    store.commit("g", {T0: 5}, held())
    assert cluster.seen("offset_commit")[0].body["timestamps"] == [1_700_000_000_000 + 90_000_000 - 86_400_000]


def test_a_cluster_that_is_away_is_told_and_never_none(cluster: FakeCluster, store: KafkaOffsets):
    cluster.stop(1)
    cluster.stop(2)
    with pytest.raises(OffsetsAway, match=r"the offsets of group g cannot be read from Kafka: .*none of 2 brokers"):
        store.read("g", [T0])
    assert isinstance(store.commit("g", {T0: 5}, held())[T0], LinkLost)


def test_a_position_below_0_is_a_failure(store: KafkaOffsets):
    assert isinstance(store.commit("g", {T0: -1}, held())[T0], LocalError)


def test_in_a_hub_two_greenlets_ask_at_once_and_others_run_meanwhile(cluster: FakeCluster):
    """Each on a connection of its own; a coordinator that is silent does not stop the hub."""
    go_on = threading.Event()
    cluster.script("offset_commit", Wait(go_on))
    links = Links("test", tasks.connect, timeout_ms=5000)
    store = KafkaOffsets(coordinator(cluster, links, sleep=tasks.sleep, now=tasks.now))
    greenlets = tasks.TaskGroup()
    results: dict[str, object] = {}
    beats: list[int] = []

    def commit(name: str, tp: TopicPartition) -> None:
        results[name] = store.commit("g", {tp: 5}, held())

    def beat() -> None:
        for n in range(20):
            beats.append(n)
            tasks.sleep(0.001)
        go_on.set()

    workers = [greenlets.spawn(name, commit, name, tp) for name, tp in (("a", T0), ("b", T1))]
    greenlets.spawn("beat", beat)
    assert all(worker.join(5.0) for worker in workers)
    greenlets.stop(1.0)
    links.close()
    assert results == {"a": {T0: None}, "b": {T1: None}}
    assert len(beats) == 20
    assert sorted(partition for _, _, _, partition in cluster.committed) == [0, 1]


def test_neither_gevent_nor_kazoo_is_ever_imported():
    names = (
        "kafka, zkconsumer.offsets."
        + ", zkconsumer.offsets.".join(["dual", "database", "modes"])
        + ", zkconsumer.offsetlog"
    )
    check = f"import sys, zkconsumer.offsets.{names}; sys.exit(bool({{'gevent', 'kazoo'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], check=False, timeout=60).returncode == 0


# ---- "nothing is committed", beside evidence


class AsOf011:
    """A coordinator that reads its log to the end when it takes over."""

    may_miss_commits = False

    def __init__(self, asked: Coordinator) -> None:
        self.fetch_rows, self.commit = asked.fetch_rows, asked.commit


class Reported:
    """A store with the log of commits, the bounds of t (0 to 60) and what it reports."""

    def __init__(self, cluster: FakeCluster, links: Links, missing: bool = True) -> None:
        asked = coordinator(cluster, links)
        if not missing:  # the fake speaks 0.8.2 alone
            asked = AsOf011(asked)  # type: ignore[assignment]
        self.sentences: dict[TopicPartition, str] = {}
        self.in_log: dict[TopicPartition, CommittedRow] | None = {}  # None: it cannot be read
        self.asked: list[set[TopicPartition]] = []
        self.store = KafkaOffsets(
            asked,
            in_log=self._in_log,
            bounds=lambda tps: dict.fromkeys(tps, (0, 60)),
            report=self.sentences.__setitem__,
        )

    def _in_log(self, group: str, tps: Collection[TopicPartition]) -> dict[TopicPartition, CommittedRow]:
        self.asked.append(set(tps))
        return {} if self.in_log is None else {tp: self.in_log.get(tp, CommittedRow(NONE)) for tp in tps}


def test_nothing_beside_other_offsets_of_the_group_is_asked_again_of_a_coordinator_looked_up_anew(
    cluster: FakeCluster, links: Links
):
    reported = Reported(cluster, links)
    reported.store.commit("g", {T0: 5, T1: 6}, held())
    del cluster.committed[1, "g", "t", 0]
    known = KafkaOffsets(coordinator(cluster, links))
    cluster.requests.clear()
    assert known.read("g", [T0, T1]) == {T0: NONE, T1: 6}
    apis = [(seen.broker, seen.api) for seen in cluster.requests]
    assert apis == [(1, "group_coordinator"), (1, "offset_fetch"), (2, "group_coordinator"), (1, "offset_fetch")]
    cluster.committed[1, "g", "t", 0] = (5, "")
    cluster.script("offset_fetch", Nothing())
    assert reported.store.read("g", [T0, T1]) == {T0: 5, T1: 6}  # this member committed it
    assert reported.sentences == {}


def test_an_offset_that_a_coordinator_before_0_11_missed_is_found_in_the_log(cluster: FakeCluster, links: Links):
    reported = Reported(cluster, links)
    reported.in_log = {T0: CommittedRow(10)}
    assert reported.store.read("g", [T0, T1]) == {T0: 10, T1: NONE}
    assert "the coordinator says that nothing is committed, __consumer_offsets holds 10" in reported.sentences[T0]
    assert T1 not in reported.sentences


def test_nothing_of_a_new_group_is_taken_at_once_from_0_11_on(cluster: FakeCluster, links: Links):
    reported = Reported(cluster, links, missing=False)
    assert reported.store.read("g", [T0, T1]) == {T0: NONE, T1: NONE}
    assert reported.asked == []
    assert len(cluster.seen("offset_fetch")) == 1
    reported.store.commit("g", {T0: 5}, held())
    reported.in_log = {T1: CommittedRow(7)}
    assert reported.store.read("g", [T0, T1]) == {T0: 5, T1: 7}  # the group has another offset


def test_an_offset_that_this_member_committed_and_that_is_gone_is_an_event_with_the_count_of_what_is_passed(
    cluster: FakeCluster, links: Links
):
    reported = Reported(cluster, links)
    reported.in_log = None
    reported.store.commit("g", {T0: 10}, held())
    cluster.committed.clear()
    assert reported.store.read("g", [T0, T1]) == {T0: NONE, T1: NONE}
    assert "this member committed 10" in reported.sentences[T0]
    assert "largest passes 50 messages" in reported.sentences[T0]
    assert T1 not in reported.sentences


def test_an_offset_that_another_store_has_is_looked_for_before_it_is_taken_over(cluster: FakeCluster, links: Links):
    reported = Reported(cluster, links)
    assert reported.store.read_beside("g", {T0: 5}, others=True) == {T0: NONE}  # all records were read: it is so
    reported.in_log = None
    assert reported.store.read_beside("g", {T0: 5}, others=False) == {T0: NONE}
    refused = reported.store.read_beside("g", {T0: 5}, others=True)[T0]
    assert isinstance(refused, Unknown)
    assert "ZooKeeper has 5" in refused.reason
    reported.in_log = {T0: CommittedRow(60)}
    assert reported.store.read_beside("g", {T0: 5}, others=True) == {T0: 60}
