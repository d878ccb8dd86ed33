"""What anybody may write to ZooKeeper costs its own broker, topic or member, and nothing else."""

from __future__ import annotations

import json
import time

import pytest

from kafkawire.cluster.topics import grow
from kafkawire.cluster.zookeeper import read_brokers, read_leaders, read_partitions, read_view
from kafkawire.dialects import dialect
from kafkawire.errors import LocalError, NodeError, OtherGeneration, RegistrationError
from kafkawire.model import Broker, BrokerPartition, TopicPartition, broker_named, partition_named
from kafkawire.znodes import v07, v08
from kafkawire.znodes.group import STATIC, Registration
from tests.fakes.znodes import FakeZookeeper
from zkconsumer.engine.zookeeperassignment import must_be_of_this_generation
from zkconsumer.group.groupreader import GroupReader
from zkconsumer.group.topicnodes import read_topic_nodes
from zkconsumer.options.config import ConsumerConfig

EIGHT, SEVEN = dialect("0.8.2"), dialect("0.7")
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
TREE = {
    "/brokers/ids/1": b'{"version":1,"host":"h","port":9092}',
    "/brokers/topics/orders": b'{"version":1,"partitions":{"0":[1]}}',
    "/brokers/topics/orders/partitions/0/state": STATE,
}
TREE_07 = {"/brokers/ids/1": b"h-1:h:9092", "/brokers/topics/orders/1": b"1"}
NAMES = ["²", "٣", "9" * 4301, "01", "-1", "x", str(2**31)]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_no_broker_id_costs_its_node(name: str, caplog: pytest.LogCaptureFixture) -> None:
    for d, tree in ((EIGHT, TREE), (SEVEN, TREE_07)):
        zk = FakeZookeeper({**tree, f"/brokers/ids/{name}": tree["/brokers/ids/1"]})
        assert read_brokers(zk, d.znodes) == {1: Broker(1, "h", 9092)}
        config = ConsumerConfig(zookeeper_connect="zk:2181", group_id="g", auto_offset_reset="error")
        must_be_of_this_generation(zk.session(), d, config)
    assert "its name is not a broker id" in caplog.text
    assert broker_named(name) is None
    assert partition_named(name) is None or name == "01"


@pytest.mark.parametrize(
    "data",
    [
        b"junk",
        b"",
        b'{"version":1}',
        b"\xff",
        b"[]",
        b'{"partitions":{"\xc2\xb2":[1]}}',
        b'{"partitions":{"0":[99999999999]}}',
    ],
)
def test_a_topic_that_makes_no_sense_costs_itself_at_a_start_and_in_a_running_member(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    zk = FakeZookeeper({**TREE, "/brokers/topics/aaa": data})
    both = ["aaa", "orders"]
    assert read_partitions(zk, EIGHT.znodes, both) == {"orders": {0: [1]}}
    assert read_partitions(zk, EIGHT.znodes, ["aaa"]) == {}  # alone, too: brokers of this generation live
    assert list(read_view(zk, EIGHT.znodes, both).topics) == ["orders"]
    assert read_topic_nodes(zk.session(), EIGHT, both) == {"orders": [0]}
    assert "topic aaa: " in caplog.text
    assert "0.7" not in caplog.text  # its brokers are of ours


def test_a_topic_whose_node_makes_no_sense_for_a_while_was_not_deleted() -> None:
    """Commits of a deleted topic are dropped, and its positions do not count."""
    registration = Registration(STATIC, {"orders": 1})
    zk = FakeZookeeper({**TREE, "/consumers/g/ids/g_m": EIGHT.znodes.registration_text(registration, 1).encode()})
    zk.nodes["/consumers/g/ids/g_m"].ephemeralOwner = 1  # our session's
    reader = GroupReader(
        session=zk.session(), dialect=EIGHT, group="g", consumer_id="g_m", registration=registration,
        exclude_internal=True, changed=lambda what: None,
    )  # fmt: skip
    assert reader.read() == {TopicPartition("orders", 0): "g_m-0"}
    before = reader.creations
    zk.set("/brokers/topics/orders", b"junk")
    assert reader.read() == {}
    assert (reader.creations, reader.absent) == (before, [])
    assert before.keys() == {"orders"}


def test_a_name_below_a_topic_of_0_7_costs_itself(caplog: pytest.LogCaptureFixture) -> None:
    for name in NAMES:
        zk = FakeZookeeper({**TREE_07, f"/brokers/topics/orders/{name}": b"3"})
        assert read_partitions(zk, SEVEN.znodes, ["orders"]) == {"orders": {BrokerPartition(1, 0): [1]}}
        assert read_topic_nodes(zk.session(), SEVEN, ["orders"]) == {"orders": [BrokerPartition(1, 0)]}
    assert "is not a broker id" in caplog.text


def test_a_leader_that_makes_no_sense_costs_its_partition() -> None:
    for data in (b"junk", b'{"leader":"1"}', b'{"leader":99999999999}'):
        zk = FakeZookeeper({**TREE, "/brokers/topics/orders/partitions/0/state": data})
        assert read_leaders(zk, EIGHT.znodes, [TopicPartition("orders", 0)]) == {TopicPartition("orders", 0): None}


def test_a_cluster_of_the_other_generation_is_still_told() -> None:
    with pytest.raises(OtherGeneration):
        read_partitions(FakeZookeeper(TREE), SEVEN.znodes, ["orders"])
    with pytest.raises(OtherGeneration):
        read_partitions(FakeZookeeper(TREE_07), EIGHT.znodes, ["orders"])


def test_a_warning_about_a_strangers_node_is_given_once_and_not_without_end(caplog: pytest.LogCaptureFixture) -> None:
    zk = FakeZookeeper({**TREE, **{f"/brokers/topics/t{n}": b"junk" for n in range(1200)}})
    for _ in range(2):
        read_partitions(zk, EIGHT.znodes, [f"t{n}" for n in range(1200)])
    assert len(caplog.messages) == 1000
    assert max(map(len, caplog.messages)) < 200


def test_a_topic_that_makes_no_sense_does_not_grow() -> None:
    for data in (b"junk", b'{"version":1,"partitions":{"1":[1]}}', b'{"version":1,"partitions":{"\xc2\xb2":[1]}}'):
        zk = FakeZookeeper({**TREE, "/brokers/topics/orders": data})
        zk.get = lambda path, zk=zk: zk.get_async(path).get()  # type: ignore[attr-defined]
        zk.exists = lambda path, zk=zk: zk.nodes.get(path)  # type: ignore[attr-defined]
        with pytest.raises(LocalError, match="topic orders: "):
            grow(zk, "orders", 3, [1])


@pytest.mark.parametrize(
    "text",
    ["a://:" + "/:" * 24_000, "a" * 48_000, "[" * 48_000, "X://" + "h" * 300 + ":1", "X://h:²", "X://h:00000001"],
)
def test_an_endpoint_of_any_length_takes_no_time(text: str) -> None:
    node = json.dumps({"version": 4, "host": None, "port": -1, "endpoints": [text]})
    began = time.process_time()
    with pytest.raises(NodeError) as refused:
        v08.broker(1, node, "X")
    assert time.process_time() - began < 0.05
    assert len(str(refused.value)) < 1500


def test_a_brokers_node_has_a_bound() -> None:
    for znodes in (v07, v08):
        with pytest.raises(NodeError, match="more than 65536"):
            znodes.broker(1, b" " * 65537)


def test_streams_have_a_bound() -> None:
    for registration, text in (
        (v08.registration, '{"version":1,"subscription":{"orders":%d},"pattern":"static"}'),
        (v07.registration, '{ "orders": %d }'),
        (v07.registration, "*%d*orders"),
    ):
        assert registration(text % 10_000).subscription == {"orders": 10_000}
        with pytest.raises(RegistrationError, match="10001 streams for 'orders', more than the limit of 10000"):
            registration(text % 10_001)


@pytest.mark.parametrize(
    ("release", "nodes"),
    [
        (
            "0.8.2",
            {"/brokers/topics/orders": b'{"partitions":{%s}}' % b",".join(b'"%d":[1]' % n for n in range(20000))},
        ),
        ("0.7", {f"/brokers/topics/{topic}/1": b"9999" for topic in ("orders", "clicks")}),
    ],
)
def test_others_run_while_very_many_partitions_are_read(
    release: str, nodes: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    d = dialect(release)
    broker = b'{"version":1,"host":"h","port":9092}' if release == "0.8.2" else b"h-1:h:9092"
    zk = FakeZookeeper({"/brokers/ids/1": broker, **nodes})
    pauses: list[int] = []
    monkeypatch.setattr("groundwork.pauses._pause", lambda: pauses.append(1))
    assert len(read_view(zk, d.znodes, ["orders", "clicks"]).partitions("orders")) in (9999, 20000)
    assert len(pauses) > 9
    pauses.clear()
    read_topic_nodes(zk.session(), d, ["orders", "clicks"])
    assert pauses
