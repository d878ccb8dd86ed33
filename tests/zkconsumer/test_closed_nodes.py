"""A node that an ACL closes to a member costs what it stands for: its topic, broker, partition."""

from __future__ import annotations

import pytest
from kazoo.exceptions import NoAuthError

from kafkawire.cluster.zookeeper import read_brokers, read_partitions
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.znodes.group import WHITE_LIST, Registration
from tests.fakes.znodes import FakeZookeeper
from zkconsumer.errors import NodeClosed
from zkconsumer.group.claims import Claims
from zkconsumer.group.groupreader import GroupReader
from zkconsumer.offsets.store import Unknown
from zkconsumer.offsets.zookeeper import ZookeeperOffsets

D = dialect("0.8.2")
FILTER = Registration(WHITE_LIST, {".*": 1})
A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


def zookeeper() -> FakeZookeeper:
    """Topics a and b, and two members with one filter: g_m, which is ours, and g_x."""
    zk = FakeZookeeper({
        **{f"/brokers/ids/{n}": b'{"version":1,"host":"h","port":909%d}' % n for n in (1, 2)},
        **{f"/brokers/topics/{topic}": b'{"version":1,"partitions":{"0":[1]}}' for topic in "ab"},
        **{f"/consumers/g/ids/{member}": D.znodes.registration_text(FILTER, 1).encode() for member in ("g_m", "g_x")},
        **{f"/consumers/g/offsets/{topic}/0": b"7" for topic in "ab"},
    })  # fmt: skip
    for node in zk.nodes.values():
        node.ephemeralOwner = 1  # our session's
    return zk


def reader(zk: FakeZookeeper) -> GroupReader:
    return GroupReader(
        session=zk.session(), dialect=D, group="g", consumer_id="g_m", registration=FILTER,
        exclude_internal=True, changed=lambda what: None,
    )  # fmt: skip


def test_a_topic_costs_itself_and_was_not_deleted(caplog: pytest.LogCaptureFixture) -> None:
    zk = zookeeper()
    zk.closed.add("/brokers/topics/b")
    group = reader(zk)
    assert group.read() == {A0: "g_m-0"}
    assert group.creations.keys() == {"a", "b"}
    assert read_partitions(zk, D.znodes, ["a", "b"]) == {"a": {0: [1]}}
    assert (
        caplog.text.count("/brokers/topics/b cannot be read because of its ACL; see zookeeper.auth: left out") == 2
    )  # two readers
    with pytest.raises(NoAuthError):
        read_partitions(zk, D.znodes, ["b"])  # there is nothing else to give back


def test_a_broker_costs_itself() -> None:
    zk = zookeeper()
    zk.closed.add("/brokers/ids/2")
    assert read_brokers(zk, D.znodes) == {1: Broker(1, "h", 9091)}


def test_another_member_costs_the_round_and_is_named() -> None:
    """Whoever left it out would take partitions of a group that is closed to him, and could not read their offsets."""
    zk = zookeeper()
    zk.closed.add("/consumers/g/ids/g_x")
    with pytest.raises(NodeClosed, match="read /consumers/g/ids/g_x: "):
        reader(zk).read(leave_out=True)


def test_an_offset_node_costs_its_partition() -> None:
    zk = zookeeper()
    zk.closed.add("/consumers/g/offsets/b/0")
    found = ZookeeperOffsets(zk.session(), D.znodes).read("g", [A0, B0])
    assert found[A0] == 7
    assert isinstance(unknown := found[B0], Unknown)
    assert "read /consumers/g/offsets/b/0: " in unknown.reason


def test_an_owner_node_counts_as_another_members() -> None:
    zk = zookeeper()
    zk.set("/consumers/g/owners/b/0", b"g_x-0")
    zk.closed.add("/consumers/g/owners/b/0")
    claims = Claims(zk.session(), D.znodes, "g", on_lost=lambda tp: None, on_free=lambda: None)
    contested = claims.claim({B0: "g_m-0"})
    assert contested[B0].startswith("another member (read /consumers/g/owners/b/0: ")
