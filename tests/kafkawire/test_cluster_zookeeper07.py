"""A 0.7 cluster as ZooKeeper counts it, through the reads that serve every generation."""

from __future__ import annotations

import re

import pytest

from kafkawire.cluster.view import ClusterView
from kafkawire.cluster.zookeeper import (
    partitions_by_broker,
    read_brokers,
    read_leaders,
    read_partitions,
    read_topics,
    read_view,
    refuse_other_generation,
)
from kafkawire.dialects import dialect
from kafkawire.errors import NodeError, OtherGeneration
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from tests.fakes.znodes import FakeZookeeper

D = dialect("0.7")
TREE = {
    "/brokers/ids/0": b"h0-1:h0:9092",
    "/brokers/ids/2": b"h2-1:h2:9092",
    "/brokers/ids/10": b"h10-1:h10:9092",
    "/brokers/topics/orders/0": b"3",
    "/brokers/topics/orders/2": b"1",
    "/brokers/topics/orders/10": b"2",
    "/brokers/topics/logs/2": b"2",
    "/brokers/topics/left": b"",
}


def tp(topic: str, broker: int, index: int) -> TopicPartition:
    return TopicPartition(topic, BrokerPartition(broker, index))


def names(view: ClusterView, topic: str) -> list[str]:
    return [str(p) for p in view.partitions(topic)]


def test_a_topics_partitions_are_those_its_brokers_count() -> None:
    zk = FakeZookeeper(TREE)
    assert read_topics(zk, D.znodes) == ["left", "logs", "orders"]
    view = read_view(zk, D.znodes, ["orders", "logs", "left", "unknown"])
    assert names(view, "orders") == ["0-0", "0-1", "0-2", "2-0", "10-0", "10-1"]
    assert names(view, "logs") == ["2-0", "2-1"]  # known to one broker only
    assert names(view, "left") == []
    assert "unknown" not in view.topics
    assert view.leader(tp("orders", 10, 1)) == Broker(10, "h10", 9092)
    one = view.topics["orders"][BrokerPartition(2, 0)]
    assert (one.leader, one.replicas, one.isr, one.error) == (2, (2,), (2,), 0)


def test_a_broker_that_leaves_takes_its_partitions_and_brings_them_back() -> None:
    zk = FakeZookeeper(TREE)
    for path in ("/brokers/ids/2", "/brokers/topics/orders/2", "/brokers/topics/logs/2"):
        zk.delete(path)
    without = read_view(zk, D.znodes, ["orders", "logs"])
    assert (names(without, "orders"), names(without, "logs")) == (["0-0", "0-1", "0-2", "10-0", "10-1"], [])
    assert without.leader(tp("orders", 2, 0)) is None
    zk.set("/brokers/ids/2", b"h2-9:elsewhere:9092")
    zk.set("/brokers/topics/orders/2", b"2")
    again = read_view(zk, D.znodes, ["orders", "logs"])
    assert names(again, "orders") == ["0-0", "0-1", "0-2", "2-0", "2-1", "10-0", "10-1"]
    assert again.leader(tp("orders", 2, 0)) == Broker(2, "elsewhere", 9092)


def test_partitions_of_a_broker_that_is_not_registered_are_in_no_view_yet_are_assigned() -> None:
    """The original assigns by the counts alone, and all members of a group must assign alike."""
    zk = FakeZookeeper(TREE)
    zk.delete("/brokers/ids/2")
    assert names(read_view(zk, D.znodes, ["logs"]), "logs") == []
    assert read_partitions(zk, D.znodes, ["logs"]) == {"logs": {BrokerPartition(2, 0): [2], BrokerPartition(2, 1): [2]}}
    wanted = [tp("logs", 2, 0), tp("orders", 0, 0)]
    assert read_leaders(zk, D.znodes, wanted) == {wanted[0]: None, wanted[1]: 0}


def test_read_leaders_of_nothing_asks_nothing() -> None:
    zk = FakeZookeeper(TREE)
    assert read_leaders(zk, D.znodes, []) == {}
    assert zk.calls == []


@pytest.mark.parametrize("rubbish", [b"", b"two", b"-1", b'{"version":1}', "²".encode(), b"9" * 4301, b"999999999"])
def test_a_count_that_is_rubbish_costs_its_broker_and_is_named(
    rubbish: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    zk = FakeZookeeper({**TREE, "/brokers/topics/orders/2": rubbish})
    assert names(read_view(zk, D.znodes, ["orders"]), "orders") == ["0-0", "0-1", "0-2", "10-0", "10-1"]
    assert re.search(r"topic orders on broker 2: .* in its node", caplog.text)
    assert read_leaders(zk, D.znodes, [tp("orders", 2, 0)]) == {tp("orders", 2, 0): None}


def test_a_cluster_of_another_generation_is_recognised_both_ways() -> None:
    newer = {
        "/brokers/topics/t": b'{"version":1,"partitions":{"0":[1]}}',
        "/brokers/topics/t/partitions/0/state": b"{}",
    }
    with pytest.raises(NodeError, match="is this a cluster of"):
        read_view(FakeZookeeper(newer), D.znodes, ["t"])
    with pytest.raises(NodeError, match="topic logs: its node is empty"):
        read_view(FakeZookeeper(TREE), dialect("0.8.2").znodes, ["logs"])


def test_a_topic_whose_node_holds_null_is_empty_to_the_other_generation() -> None:
    zk = FakeZookeeper(TREE)
    assert zk.nodes["/brokers/topics/orders"].data is None  # as the original leaves it
    assert names(read_view(zk, D.znodes, ["orders"]), "orders")[0] == "0-0"
    for read in (read_view, read_partitions):
        with pytest.raises(OtherGeneration, match=r"topic orders: its node is empty: is this a cluster of 0\.7"):
            read(zk, dialect("0.8.2").znodes, ["orders"])


def test_brokers_that_are_registered_by_the_other_generation_are_told_from_none() -> None:
    newer = FakeZookeeper({"/brokers/ids/3": b'{"host":"h","port":9092}'})
    older = FakeZookeeper(TREE)
    with pytest.raises(OtherGeneration, match=r"broker 3: its node holds .* of 0.8 or later"):
        refuse_other_generation(newer, D.znodes)
    with pytest.raises(OtherGeneration, match=r"its node holds creatorId:host:port: is this a cluster of 0.7"):
        refuse_other_generation(older, dialect("0.8.2").znodes)
    for zk, znodes in ((newer, dialect("0.8.2").znodes), (older, D.znodes), (FakeZookeeper({}), D.znodes)):
        refuse_other_generation(zk, znodes)


def test_a_broker_whose_address_makes_no_sense_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    zk = FakeZookeeper({**TREE, "/brokers/ids/2": b"c:::1:9092"})
    assert sorted(read_brokers(zk, D.znodes)) == [0, 10]
    assert "broker 2: 'c:::1:9092' in its node is not creatorId:host:port" in caplog.text
    assert names(read_view(zk, D.znodes, ["logs"]), "logs") == []


SEVEN = b"10.0.0.5-1315436360737:10.0.0.5:9092"
EIGHT = b'{"jmx_port":-1,"timestamp":"1386000000000","host":"h","version":1,"port":9092}'
OLD_EIGHT = b'{ "host":"h", "jmx_port":-1, "port":9092, "version":1 }'


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([SEVEN, SEVEN], True),
        ([EIGHT, OLD_EIGHT], False),
        ([], None),
        ([b"", b"nonsense"], None),
        ([SEVEN, EIGHT], None),
        ([b"", SEVEN], True),
    ],
)
def test_brokers_show_their_generation(nodes: list[bytes], found: bool | None) -> None:
    assert partitions_by_broker(nodes) is found
