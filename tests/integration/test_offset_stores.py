"""Offset stores on real brokers and a real ZooKeeper, and what the brokers' log and tools say of the same offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from groundwork import clocks, failpoints, tasks
from groundwork.failpoints import FailpointReached
from kafkawire.cluster.addresses import parse_addresses
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Connect
from kafkawire.net.links import Links
from kafkawire.protocol.apis import JOIN_GROUP, SYNC_GROUP, Api
from kafkawire.protocol.requests08 import Request
from localkafka import ports, tools
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from tests.fakes.stores import held
from zkconsumer.offsetlog import read_offset_log
from zkconsumer.offsets.coordinator import CommittedRow, Coordinator
from zkconsumer.offsets.dual import BETWEEN, DualOffsets
from zkconsumer.offsets.kafka import KafkaOffsets
from zkconsumer.offsets.store import NONE, Unknown
from zkconsumer.offsets.zookeeper import ZookeeperOffsets
from zkconsumer.refusals import GroupActive, UnknownPartition
from zkconsumer.session.lease import Lease, LeaseOver
from zkconsumer.session.zksession import ZkSession

pytestmark = pytest.mark.real
DAY_MS = 24 * 3600 * 1000
MINUTE_MS = 60_000


@contextmanager
def asking(
    brokers: str, release: str, *before: tuple[str, int], connect: Connect = tasks.connect
) -> Iterator[tuple[Coordinator, Links]]:
    """A coordinator by addresses, `before` first, as the hub has it."""
    links = Links("test-stores", connect, timeout_ms=10_000)
    addresses = [Broker(-1, host, port) for host, port in [*before, *parse_addresses(brokers)]]
    try:
        yield (
            Coordinator(
                lambda: addresses,
                links,
                dialect(release),
                retries=60,
                backoff_ms=250,
                timeout_ms=30_000,
                sleep=tasks.sleep,
                now=tasks.now,
            ),
            links,
        )
    finally:
        links.close()


@contextmanager
def session_of(zookeeper: str) -> Iterator[ZkSession]:
    greenlets = tasks.TaskGroup()
    session = ZkSession(zookeeper, session_timeout_ms=6000, connection_timeout_ms=6000, tasks=greenlets, lease=Lease())
    session.start()
    try:
        yield session
    finally:
        greenlets.stop(1.0)
        session.close()


def made(cluster: ClusterClient, topic: str, partitions: int = 2) -> list[TopicPartition]:
    cluster.create_topic(topic, partitions=partitions, replication=1)
    for partition in range(partitions):
        cluster.wait_leader(topic, partition)
    return [TopicPartition(topic, partition) for partition in range(partitions)]


def now_ms() -> int:
    return int(time.time() * 1000)


def test_both_stores_of_0_8_2_and_what_a_crash_between_them_leaves(source: ClusterClient, unique):
    group = unique.group()
    t0, t1 = made(source, unique.topic())
    silent = ports.reserve()  # nobody listens there
    with (
        asking(source.brokers, "0.8.2", ("127.0.0.1", silent.number)) as (coordinator, _),
        session_of(source.zookeeper) as session,
    ):
        kafka = KafkaOffsets(coordinator)
        zookeeper = ZookeeperOffsets(session, dialect("0.8.2").znodes)
        both = DualOffsets(kafka, zookeeper)
        assert both.read(group, [t0, t1]) == {t0: NONE, t1: NONE}
        assert both.commit(group, {t0: 5, t1: 0}, held()) == {t0: None, t1: None}
        assert kafka.read(group, [t0, t1]) == zookeeper.read(group, [t0, t1]) == {t0: 5, t1: 0}
        failpoints.arm(f"{BETWEEN}=raise")
        try:
            with pytest.raises(FailpointReached):
                both.commit(group, {t0: 9, t1: 0}, held())
        finally:
            failpoints.arm("")
        assert (kafka.read(group, [t0]), zookeeper.read(group, [t0])) == ({t0: 9}, {t0: 5})
        assert both.read(group, [t0]) == {t0: 9}
        assert both.write_both(group, {t0: 3}, held()) == {t0: None}
        assert both.read(group, [t0]) == {t0: 3}
        missing = TopicPartition(f"{t0.topic}-missing", 0)
        zookeeper.commit(group, {missing: 7}, held())
        assert isinstance(both.read(group, [missing])[missing], Unknown)  # error 3: the JVM takes 7, or resets
    silent.release()
    rows = tools.consumer_offset_checker(source, group, t0.topic)
    assert [(row.partition, row.offset) for row in rows] == [(0, 3), (1, 0)]


def test_groups_of_0_8_2_are_found_in_the_log_and_a_longer_retention_is_a_later_commit(source: ClusterClient, unique):
    group, kept = unique.group(), unique.group("kept")
    t0, t1 = made(source, unique.topic())
    began = now_ms()
    with asking(source.brokers, "0.8.2") as (coordinator, _):
        assert coordinator.commit(group, {t0: (5, ""), t1: (6, "note")}, "kafka") == {t0: None, t1: None}
        assert coordinator.commit(group, {t0: (8, "")}, "kafka") == {t0: None}
        assert coordinator.commit(kept, {t0: (1, "")}, "kafka", retention_ms=30 * DAY_MS) == {t0: None}
        assert coordinator.fetch_rows(group, [t1], "kafka") == {t1: CommittedRow(6, "note")}
    log = read_offset_log(parse_addresses(source.brokers))
    assert log.missing == []
    assert {group, kept} <= set(log.groups())
    assert {tp: (row.offset, row.metadata) for tp, row in log.offsets[group].items()} == {t0: (8, ""), t1: (6, "note")}
    assert all(abs(row.commit_ms - began) < MINUTE_MS for row in log.offsets[group].values())
    assert abs(log.offsets[kept][t0].commit_ms - began - 29 * DAY_MS) < MINUTE_MS
    alone = read_offset_log(parse_addresses(source.brokers), group=group)
    assert (alone.groups(), alone.offsets[group]) == ([group], log.offsets[group])
    with asking(source.brokers, "0.8.2") as (coordinator, _):
        assert coordinator.forget(kept, [t0, t1]) == {t0: None, t1: None}
    # 0.8.2 looks for expired ones each ten minutes, whatever offsets.retention.check.interval.ms says: not waited for
    (old,) = read_offset_log(parse_addresses(source.brokers), group=kept).offsets[kept].values()
    assert (old.offset, old.commit_ms) == (1, 1)


def test_a_commit_whose_connection_outlasts_the_lease_leaves_the_new_owners_offset(
    own_cluster: Callable[..., Cluster], unique
):
    cluster = own_cluster(version="2.8.2", brokers=1)
    (tp,) = made(cluster, unique.topic(), 1)
    lease, connections = Lease(0.0), 0

    def connect(address: tuple[str, int], timeout: float) -> Any:
        nonlocal connections
        connections += 1
        while connections == 2 and lease.holds(clocks.moment()):  # the one behind that of the look-up
            tasks.sleep(0.1)
        return tasks.connect(address, timeout)

    with asking(cluster.brokers, "2.8", connect=connect) as (late, _), asking(cluster.brokers, "2.8") as (owner, _):
        assert KafkaOffsets(owner).commit("g", {tp: 9}, held()) == {tp: None}
        lease.beat_answered(clocks.moment(), 2.0)
        assert isinstance(KafkaOffsets(late).commit("g", {tp: 5}, lease)[tp], LeaseOver)
        assert KafkaOffsets(owner).read("g", [tp]) == {tp: 9}
        lease.beat_answered(clocks.moment(), 60.0)
        assert KafkaOffsets(late).commit("g", {tp: 11}, lease) == {tp: None}


def test_from_0_9_on_retention_has_a_field_and_an_active_group_refuses(own_cluster: Callable[..., Cluster], unique):
    """0.9: test_cluster_roll.py commits with a retention to each release."""
    release = "0.10.2"
    cluster = own_cluster(version="0.10.2.2", brokers=1, settings={"offsets.retention.check.interval.ms": "500"})
    t0, t1 = made(cluster, unique.topic())
    with asking(cluster.brokers, release) as (coordinator, links):
        store = KafkaOffsets(coordinator, retention_ms=30 * DAY_MS)
        assert store.commit("g", {t0: 5, t1: 6}, held()) == {t0: None, t1: None}
        assert store.read("g", [t0, t1]) == {t0: 5, t1: 6}
        unknown = TopicPartition(f"{t0.topic}-missing", 0)
        found = store.commit("g", {unknown: 1, t0: 7}, held())
        assert isinstance(found[unknown], UnknownPartition)
        assert found[t0] is None
        assert coordinator.describe("never-heard-of").members == ()
        assert coordinator.forget("g", [t1]) == {t1: None}
        _joined(coordinator, links, release, "active")
        failed = coordinator.commit("active", {t0: (1, "")}, "kafka")[t0]
        assert isinstance(failed, GroupActive), failed
        assert [client for _, client, _ in coordinator.describe("active").members] == ["test-stores"]
        with tasks.deadline(20.0, "the broker's check for expired offsets"):
            while store.read("g", [t0, t1]) != {t0: 7, t1: NONE}:
                tasks.sleep(0.1)
    log = read_offset_log(parse_addresses(cluster.brokers), release)
    assert (log.missing, log.unknown) == ([], 0)
    row = log.offsets["g"][t0]
    assert (row.offset, t1 in log.offsets["g"]) == (7, False)  # the tombstone is in the log
    assert row.expire_ms == row.commit_ms + 30 * DAY_MS
    assert "active" not in log.offsets


def _joined(coordinator: Coordinator, links: Links, release: str, group: str) -> None:
    """A member of the new consumer protocol, on its way into the group."""
    link = links.link(coordinator.find(group), "member")

    def call(api: Api, **fields: Any) -> Any:
        version = dialect(release).speaks(api.key)
        more = {"rebalance_timeout": 30_000} if api is JOIN_GROUP and version else {}
        return link.call(Request(api, version, [api.encode_request(version, fields | more)]))

    protocols = [{"name": "range", "metadata": b""}]
    joined = call(
        JOIN_GROUP, group=group, session_timeout=30_000, member_id="", protocol_type="consumer", protocols=protocols
    )
    assert joined["error"] == 0
    member = {"generation": joined["generation"], "member_id": joined["member_id"]}
    assert call(SYNC_GROUP, group=group, assignments=[], **member)["error"] == 0
