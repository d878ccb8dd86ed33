"""The driver's ZooKeeper client where there is no ZooKeeper, or a wrong one; group nodes against one in memory."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError, SessionExpiredError

from groundwork.zksecurity import Tls, ZkSecurity
from kafkawire.model import BrokerPartition, TopicPartition
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.driver.groupoffsets import (
    group_owners,
    left_zookeeper,
    read_offset_nodes,
    read_offsets,
    write_offset_nodes,
    write_offsets,
)
from sparkpipeline.driver.zkclient import zookeeper
from sparkpipeline.errors import OptionRefused, Unreachable
from tests.fakes.broker import Fail, FakeCluster
from tests.fakes.znodes import Answer, FakeZookeeper
from zkconsumer.offsets.store import NONE, FormerOffset, Unknown

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_zookeeper_that_says_nothing_is_given_up_in_time(silent: str) -> None:
    began = time.monotonic()
    with (
        pytest.raises(Unreachable, match=rf"zookeeper={silent}.* does not answer within 0.3 s"),
        zookeeper(silent, timeout_s=0.3),
    ):
        pytest.fail("there is nobody to start with")
    assert time.monotonic() - began < 5


def test_why_nobody_could_be_connected_to_is_told() -> None:
    with (
        pytest.raises(Unreachable, match=r"does not answer within 0.3 s.* The last try: .*refused"),
        zookeeper("127.0.0.1:1", timeout_s=0.3),
    ):
        pytest.fail("there is nobody")


def test_an_address_that_is_none_is_refused() -> None:
    with (
        pytest.raises(OptionRefused, match=r"option=zookeeper.connect: 'zk:port' is not host:port"),
        zookeeper("zk:port"),
    ):
        pytest.fail("that is no address")


def test_a_file_of_tls_that_is_not_there_is_named(silent: str) -> None:
    with (
        pytest.raises(OptionRefused, match=r"/nowhere/ca\.pem cannot be used"),
        zookeeper(silent, ZkSecurity(tls=Tls(ca="/nowhere/ca.pem"))),
    ):
        pytest.fail("there is no such file")


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 3}) as fake:
        yield fake


def access_of(cluster: FakeCluster) -> ClusterAccess:
    return ClusterAccess(tuple(cluster.bootstrap), retry_interval_ms=10, retries=1, socket_timeout_ms=3000)


class Nodes(FakeZookeeper):
    """As much of a kazoo client as group nodes need; unwritable: nodes of another identity."""

    unwritable: frozenset[str] = frozenset()

    def exists(self, path: str) -> Any:
        return self.nodes.get(path)

    def create(self, path: str, data: bytes, acl: Any = None, makepath: bool = False) -> None:
        assert makepath
        self.set(path, data)

    def set_async(self, path: str, data: bytes, version: int = -1) -> Answer:
        return Answer(error=NoAuthError()) if path in self.unwritable else super().set_async(path, data, version)


def group(**nodes: str) -> Nodes:
    return Nodes({f"/consumers/g/{path}": text.encode() for path, text in nodes.items()})


def test_positions_are_three_valued() -> None:
    zk = group(**{"offsets/t/0": "17", "offsets/t/1": "x"})
    found = read_offset_nodes(zk, "g", [T0, T1, T2])
    assert (found[T0], found[T2]) == (17, NONE)
    assert isinstance(found[T1], Unknown)
    assert "/consumers/g/offsets/t/1" in found[T1].reason


def test_only_what_differs_is_written_and_all_of_it_is_read_back() -> None:
    zk = group(**{"offsets/t/0": "17", "offsets/t/1": "5"})
    before = zk.nodes["/consumers/g/offsets/t/0"].version
    assert write_offset_nodes(zk, "g", {T0: 17, T1: 3, T2: 9}) == {T0: None, T1: None, T2: None}
    assert read_offset_nodes(zk, "g", [T0, T1, T2]) == {T0: 17, T1: 3, T2: 9}
    assert zk.nodes["/consumers/g/offsets/t/0"].version == before


def test_a_node_that_is_closed_to_us_is_told_and_the_others_are_written() -> None:
    zk = group(**{"offsets/t/0": "17", "offsets/t/1": "5"})
    zk.unwritable = frozenset({"/consumers/g/offsets/t/0"})
    found = write_offset_nodes(zk, "g", {T0: 18, T1: 6})
    assert found == {
        T0: "group g, t/0: tried to write 18, and 17 is stored: its node may not be written: another identity "
        "created it",
        T1: None,
    }


def test_a_node_that_we_may_not_read_costs_itself() -> None:
    """One of them ended the run: no offset of any partition was read or written."""
    owner, offset, topic = "/consumers/g/owners/t/1", "/consumers/g/offsets/t/1", "/brokers/topics/u"
    zk = group(**{"owners/t/0": "me", "owners/t/1": "?", "offsets/t/0": "17", "offsets/t/1": "5", "offsets/u/0": "3"})
    zk.set(topic, b"{}")
    zk.closed |= {owner, offset, topic}
    assert group_owners(zk, "g") == {T0: "me", T1: "a member whose node is closed to us"}
    found = read_offset_nodes(zk, "g", [T0, T1, TopicPartition("u", 0)])
    assert (found[T0], found[T1]) == (17, Unknown(f"{offset} cannot be read because of its ACL; see zookeeper.auth"))
    assert isinstance(found[TopicPartition("u", 0)], FormerOffset)  # its topic was made after it
    assert write_offset_nodes(zk, "g", {T0: 18, T1: 6}) == {
        T0: None,
        T1: f"group g, t/1: tried to write 6, and the stored offset is not known: {offset} cannot be read because of "
        "its ACL; see zookeeper.auth",
    }


def test_a_session_that_ends_between_the_two_stores_is_told_with_what_is_written(cluster: FakeCluster) -> None:
    zk = group(**{"offsets/t/0": "20"})
    zk.get_async = lambda path: Answer(error=SessionExpiredError())  # type: ignore[method-assign]
    (why,) = write_offsets("g", {T0: 30}, "dual", access=access_of(cluster), zk=zk).values()
    assert why is not None
    assert "30 was written to Kafka and not to ZooKeeper" in why
    assert read_offsets("g", [T0], "kafka", access=access_of(cluster)) == {T0: 30}


def test_who_owns_what_is_told() -> None:
    zk = group(**{"owners/t/0": "g_host-1-0", "owners/t/x": "?", "offsets/t/0": "1", "owners/t/2-1": "g_b-0"})
    assert group_owners(zk, "g") == {T0: "g_host-1-0", TopicPartition("t", BrokerPartition(2, 1)): "g_b-0"}
    assert group_owners(zk, "nobody") == {}


@pytest.mark.parametrize(
    ("mark", "left"),
    [
        ('{"version":"1","plan":"p","phase":"cutover","at_ms":"1"}', True),
        ('{"version":"1","plan":"p","phase":"dual","at_ms":"1"}', False),
        ("scribble", False),
    ],
)
def test_a_group_that_was_migrated_has_left_zookeeper(mark: str, left: bool) -> None:
    assert left_zookeeper(group(migration=mark), "g") is left
    assert not left_zookeeper(group(), "g")


# ---- either storage --------------------------------------------------------------------------------------------------


def test_dual_reads_the_larger_and_writes_both_kafka_first(cluster: FakeCluster) -> None:
    access, zk = access_of(cluster), group(**{"offsets/t/0": "20", "offsets/t/1": "5"})
    assert write_offsets("g", {T0: 10, T1: 30}, "kafka", access=access) == {T0: None, T1: None}
    assert read_offsets("g", [T0, T1, T2], "dual", access=access, zk=zk) == {T0: 20, T1: 30, T2: NONE}
    assert write_offsets("g", {T0: 4, T2: 1}, "dual", access=access, zk=zk) == {T0: None, T2: None}
    assert read_offsets("g", [T0, T2], "kafka", access=access) == {T0: 4, T2: 1}
    assert read_offsets("g", [T0, T2], "zookeeper", access=None, zk=zk) == {T0: 4, T2: 1}


def test_dual_believes_kafka_once_the_group_was_migrated(cluster: FakeCluster) -> None:
    access = access_of(cluster)
    write_offsets("g", {T0: 10}, "kafka", access=access)
    zk = group(**{"offsets/t/0": "20", "migration": '{"version":"1","plan":"p","phase":"done","at_ms":"1"}'})
    assert read_offsets("g", [T0], "dual", access=access, zk=zk) == {T0: 10}


def test_what_kafka_did_not_take_is_not_written_to_zookeeper(cluster: FakeCluster) -> None:
    access, zk = access_of(cluster), group(**{"offsets/t/0": "20"})
    cluster.script("offset_commit", Fail(22))
    (why,) = write_offsets("g", {T0: 30}, "dual", access=access, zk=zk).values()
    assert why is not None
    assert "the group is active" in why
    assert read_offset_nodes(zk, "g", [T0]) == {T0: 20}


def test_a_store_that_nobody_named_is_asked_for() -> None:
    with pytest.raises(OptionRefused, match=r"zookeeper needs zookeeper.connect"):
        read_offsets("g", [T0], "zookeeper")
    with pytest.raises(OptionRefused, match=r"kafka needs brokers"):
        read_offsets("g", [T0], "kafka")
    with pytest.raises(OptionRefused, match=r"'redis' is not one of zookeeper, kafka, dual"):
        read_offsets("g", [T0], "redis")


def test_a_cluster_that_is_away_is_an_error_of_ours(cluster: FakeCluster) -> None:
    access = access_of(cluster)
    cluster.stop(1)
    with pytest.raises(Unreachable, match="no broker of the cluster answers"):
        read_offsets("g", [T0], "kafka", access=access)
