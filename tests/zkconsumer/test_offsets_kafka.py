"""The Kafka store: three-valued, every partition each time, and nothing sent once the lease is over."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from groundwork import tasks
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost, LocalError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from tests.fakes.broker import Fail, FakeCluster, LeaveOut, Wait
from tests.fakes.stores import held
from zkconsumer.offsets.coordinator import Coordinator
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


def test_a_lease_that_ends_while_the_coordinator_loads_ends_the_commit(cluster: FakeCluster, links: Links):
    lease = Lease(0.0)
    lease.beat_answered(100.0, 10.0)
    at = iter([105.0, 109.9, 110.0])
    store = KafkaOffsets(coordinator(cluster, links), now=lambda: next(at))
    cluster.script("offset_commit", Fail(14), Fail(14), Fail(14))
    assert isinstance(store.commit("g", {T0: 5}, lease)[T0], LeaseOver)
    assert len(cluster.seen("offset_commit")) == 2
    assert cluster.committed == {}


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
