"""The pipeline's blocking client and its ZooKeeper, against real ones: leaders, offsets by time, groups, the lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from groundwork.options import Secret
from groundwork.zksecurity import ZkSecurity
from kafkawire.dialects import dialect
from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.load import Load, Mixture
from localkafka.proxy import Proxy
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt
from sparkpipeline.cluster.access import ClusterAccess, resolved
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.driver.groupoffsets import group_owners, read_offsets, write_offsets
from sparkpipeline.driver.zkclient import bootstrap_of, lock, zookeeper
from sparkpipeline.errors import OptionRefused, Refused, UnknownPartition, Unreachable
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.rangefetcher import first_since
from tests.integration.sparktopics import produce
from zkconsumer.offsets.store import NONE

pytestmark = pytest.mark.real
MIXTURE = Mixture(keyed=0.5, codecs=(0, 1), value_bytes=40)


def access_of(cluster: ClusterClient, **wanted: Any) -> ClusterAccess:
    bootstrap = tuple((host, int(port)) for host, port in (at.split(":") for at in cluster.brokers.split(",")))
    return resolved("auto", ClusterAccess(bootstrap, **wanted))


def test_ends_of_logs_are_told_and_nothing_is_created(source: ClusterClient, unique: Any) -> None:
    topic = unique.topic()
    source.create_topic(topic, partitions=3)
    load = Load(source.brokers, source.version)
    load.produce(topic, 3, 50, MIXTURE, batch=10)
    load.close()
    tps = [TopicPartition(topic, n) for n in range(3)]
    with Brokers(access_of(source, retries=1, retry_interval_ms=10)) as brokers:
        assert brokers.dialect.release == "0.8.2"
        assert brokers.earliest(tps) == dict.fromkeys(tps, 0)
        assert brokers.latest(tps) == {tps[0]: 20, tps[1]: 20, tps[2]: 10}
        with pytest.raises(UnknownPartition, match=f"topic={topic}-not partition=0: the cluster has no such topic"):
            brokers.latest([TopicPartition(f"{topic}-not", 0)])
        assert f"{topic}-not" not in brokers.view(refresh=True).topics


@pytest.mark.parametrize(("version", "spoken"), [("0.9.0.1", "0.9"), ("0.10.2.2", "0.10.2")])
def test_a_release_is_found_out_and_times_are_as_exact_as_it_can_tell(
    own_cluster: Callable[..., Cluster], unique: Any, version: str, spoken: str
) -> None:
    cluster, topic = own_cluster(version=version), unique.topic()
    tp = TopicPartition(topic, 0)
    cluster.create_topic(topic, partitions=1)
    now_ms = time.time_ns() // 1_000_000
    times = [now_ms - 600_000 + n for n in range(0, 40_000, 1000)]
    for at_ms in times:
        produce(cluster, tp, [(None, b"v")], at_ms=at_ms)
    later_ms = now_ms + 3_600_000
    access = access_of(cluster)
    assert access.release == spoken
    for release in [spoken, *(["0.10.0"] if dialect(version).magic else [])]:  # it has times and does not look them up
        by_message = release == "0.10.2"
        with Brokers(replace(access, release=release, versions=())) as brokers:
            at = brokers.at_time({tp: times[17]})[tp]
            assert at == (17 if by_message else 0)
            carries = brokers.dialect.magic >= 1
            assert first_since(brokers, OffsetRange(topic, 0, at, 40), times[17] - 500) == (17 if carries else 0)
            assert first_since(brokers, OffsetRange(topic, 0, 3, 40), later_ms) == (40 if carries else 3)
            assert brokers.at_time({tp: later_ms}) == {tp: None}
            assert brokers.latest([tp]) == {tp: 40}
    if spoken == "0.10.2":
        _old_format(cluster, unique.topic("old"), now_ms)


def _old_format(cluster: Cluster, topic: str, now_ms: int) -> None:
    """A log without timestamps on brokers that look them up: its files are asked for."""
    old = TopicPartition(topic, 0)
    cluster.create_topic(topic, config={"message.format.version": "0.9.0"})
    produce(cluster, old, [(None, b"v")] * 10, a_set=1, at_ms=now_ms)
    with Brokers(access_of(cluster)) as brokers:
        assert brokers.at_time({old: now_ms - 1000}) == {old: 0}
        assert brokers.at_time({old: now_ms + 3_600_000}) == {old: None}


# ---- ZooKeeper -------------------------------------------------------------------------------------------------------


def test_brokers_are_found_and_a_path_that_is_not_there_is_told(source: ClusterClient) -> None:
    with zookeeper(source.zookeeper) as zk:
        found = {f"{host}:{port}" for host, port in bootstrap_of(zk)}
    assert found == set(source.brokers.split(","))
    with (
        pytest.raises(OptionRefused, match=r"has no /not/there: is the path"),
        zookeeper(f"{source.zookeeper.partition('/')[0]}/not/there"),
    ):
        pytest.fail("there is no such path")


@pytest.mark.parametrize("storage", ["zookeeper", "kafka", "dual"])
def test_positions_are_written_to_the_store_named_and_read_back(
    source: ClusterClient, unique: Any, storage: str
) -> None:
    topic, group, access = unique.topic(), unique.group(), access_of(source)
    source.create_topic(topic, partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with zookeeper(source.zookeeper) as zk:
        assert read_offsets(group, [first], storage, access=access, zk=zk) == {first: NONE}
        assert write_offsets(group, {first: 42}, storage, access=access, zk=zk) == {first: None}
        assert read_offsets(group, [first, second], storage, access=access, zk=zk) == {first: 42, second: NONE}
        assert read_offsets(group, [first], "zookeeper", access=access, zk=zk) == {
            first: NONE if storage == "kafka" else 42
        }
        assert read_offsets(group, [first], "kafka", access=access, zk=zk) == {
            first: NONE if storage == "zookeeper" else 42
        }
        assert write_offsets(group, {first: 7}, storage, access=access, zk=zk) == {first: None}  # also back
        assert read_offsets(group, [first], storage, access=access, zk=zk) == {first: 7}
        zk.create(f"/consumers/{group}/owners/{topic}/0", b"me-0", ephemeral=True, makepath=True)
        assert group_owners(zk, group) == {first: "me-0"}


def test_one_at_a_time_has_the_lock_and_a_killed_one_gives_it_back(zk_server: ZooKeeperAt, unique: Any) -> None:
    path = f"{unique.chroot}/lock"
    with zookeeper(zk_server.connect) as mine, zookeeper(zk_server.connect, timeout_s=2) as theirs:
        with lock(theirs, path, "loader on b") as held:
            assert held
            with lock(mine, path, "loader on a") as second:
                assert not second
                assert second.by == "loader on b"
        with lock(mine, path, "loader on a") as held:
            assert held
        released = threading.Timer(0.3, lambda: theirs.delete(path))
        theirs.create(path, b"loader on c", ephemeral=True)
        released.start()
        with lock(mine, path, "loader on a", wait_s=10) as held:
            assert held
        released.join()


def test_a_node_of_somebody_else_is_refused(zk_server: ZooKeeperAt, unique: Any) -> None:
    group, tp = unique.group(), TopicPartition("t", 0)
    with zookeeper(zk_server.connect) as zk:
        zk.create(unique.chroot)
    inside = zk_server.connect + unique.chroot
    with zookeeper(inside, ZkSecurity(Secret("digest:loader:secret"), set_acl=True)) as ours:
        assert write_offsets(group, {tp: 5}, "zookeeper", zk=ours) == {tp: None}
        assert ours.get_acls("/consumers")[0][0].id.scheme == "world"
    with zookeeper(inside, ZkSecurity(Secret("digest:another:secret"))) as other:
        (why,) = write_offsets(group, {tp: 6}, "zookeeper", zk=other).values()
        assert why is not None
        assert "another identity created it" in why
    with pytest.raises(Refused, match=r"does not allow that: give zookeeper\.auth"), zookeeper(inside) as anybody:
        anybody.set(f"/consumers/{group}/offsets/t/0", b"9")


def test_a_zookeeper_that_goes_away_ends_what_waits_for_it(zk_server: ZooKeeperAt) -> None:
    with Proxy(zk_server.address) as proxy:
        connect = "{}:{}".format(*proxy.address)

        def asked_when_it_is_away() -> None:
            with zookeeper(connect, timeout_s=1) as zk:
                proxy.refuse()
                proxy.reset()
                wait_until(lambda: not zk.connected, 30, "the session to be suspended")
                zk.get("/")

        began = time.monotonic()
        with pytest.raises(Unreachable, match=f"ZooKeeper at {connect} does not answer any more"):
            asked_when_it_is_away()
        assert time.monotonic() - began < 15
