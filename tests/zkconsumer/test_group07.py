"""A group of 0.7 as its nodes tell it: partitions that brokers count, registrations as text, shares in text order."""

from __future__ import annotations

from functools import partial

import pytest

from kafkawire.dialects import dialect
from kafkawire.model import BrokerPartition
from kafkawire.znodes.group import BLACK_LIST, STATIC, WHITE_LIST, Registration
from mirrormaker.options import SourceOptions
from tests.fakes.znodes import FakeZookeeper
from zkconsumer.engine.zookeeperassignment import must_be_of_this_generation
from zkconsumer.errors import ConsumerError
from zkconsumer.group import membership
from zkconsumer.group.membership import Group, Unreadable, assignment_of
from zkconsumer.group.topicnodes import read_topic_nodes
from zkconsumer.options.config import ConsumerConfig, load_consumer

SEVEN = dialect("0.7.2")
read_group = partial(membership.read_group, parse=SEVEN.znodes.registration)


def counts(topics: dict[str, dict[int, int]]) -> FakeZookeeper:
    nodes = {f"/brokers/topics/{t}/{b}": b"%d" % n for t, brokers in topics.items() for b, n in brokers.items()}
    return FakeZookeeper({"/brokers/topics": b"", **{f"/brokers/topics/{t}": b"" for t in topics}, **nodes})


def partitions(topics: dict[str, dict[int, int]]) -> dict[str, list[str]]:
    found = read_topic_nodes(counts(topics).session(), SEVEN, [*topics, "absent"])
    return {topic: [str(p) for p in ids] for topic, ids in found.items()}


def test_partitions_are_what_the_brokers_count_in_text_order() -> None:
    found = partitions({"t": {0: 12, 1: 2}, "u": {2: 1, 10: 2}, "nobody": {}, "empty": {3: 0}})
    assert " ".join(found["t"]) == "0-0 0-1 0-10 0-11 0-2 0-3 0-4 0-5 0-6 0-7 0-8 0-9 1-0 1-1"
    assert found["u"] == ["10-0", "10-1", "2-0"]
    assert found["nobody"] == found["empty"] == []
    assert "absent" not in found


@pytest.mark.parametrize(("node", "said"), [("0", b"two"), ("0", b""), ("partitions", b"")])
def test_what_is_no_count_costs_its_broker_and_says_so(
    node: str, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    zk = FakeZookeeper({"/brokers/topics/t": b"", "/brokers/topics/t/1": b"1", f"/brokers/topics/t/{node}": said})
    assert read_topic_nodes(zk.session(), SEVEN, ["t"]) == {"t": [BrokerPartition(1, 0)]}
    assert "topic t" in caplog.text


@pytest.mark.parametrize(
    ("brokers", "members", "expected"),
    [
        pytest.param(
            {0: 12, 1: 2},
            {"a": 1, "b": 1},
            {"a": "0-0 0-1 0-10 0-11 0-2 0-3 0-4", "b": "0-5 0-6 0-7 0-8 0-9 1-0 1-1"},
            id="R8",
        ),
        pytest.param({2: 2, 10: 2}, {"a": 1, "b": 1, "c": 1}, {"a": "10-0 10-1", "b": "2-0", "c": "2-1"}, id="R9"),
        pytest.param({0: 3}, {"a": 2, "b": 2}, {"a": "0-0 0-1", "b": "0-2"}, id="R3 on one broker"),
        pytest.param({}, {"a": 1}, {"a": ""}, id="R14"),
    ],
)
def test_shares_are_those_of_the_original(brokers, members, expected) -> None:
    texts = {m: SEVEN.znodes.registration_text(Registration(STATIC, {"t": n})) for m, n in members.items()}
    there = read_topic_nodes(counts({"t": brokers}).session(), SEVEN, ["t"])
    for member, names in expected.items():
        group = read_group(member, texts, ["t"])
        assert isinstance(group, Group)
        share = assignment_of(member, group, there)
        assert " ".join(SEVEN.znode(tp.partition) for tp in share) == names


def test_members_subscribe_in_three_forms() -> None:
    nodes = {
        "a": SEVEN.znodes.registration_text(Registration(STATIC, {"orders": 2, "clicks": 1})),
        "b": SEVEN.znodes.registration_text(Registration(WHITE_LIST, {"or.*": 4})),
        "c": SEVEN.znodes.registration_text(Registration(BLACK_LIST, {"or.*": 1})),
    }
    assert nodes == {"a": '{ "orders": 2,"clicks": 1 }', "b": "*4*or.*", "c": "!1!or.*"}
    group = read_group("a", nodes, ["clicks", "orders"])
    assert isinstance(group, Group)
    assert group.streams == {"a": {"orders": 2, "clicks": 1}, "b": {"orders": 4}, "c": {"clicks": 1}}


@pytest.mark.parametrize("text", [b"", b"*x*t", b"*2!t", b'{ "t": 0 }', b'{"version":1,"subscription":{"t":1}}'])
def test_a_member_that_the_original_cannot_read_is_unreadable(text: bytes) -> None:
    found = read_group("a", {"a": '{ "t": 1 }', "b": text}, ["t"])
    assert isinstance(found, Unreadable)
    assert found.member == "b"
    left_out = read_group("a", {"a": '{ "t": 1 }', "b": text}, ["t"], leave_out=True)
    assert isinstance(left_out, Group)
    assert left_out.members == ("a",)


def test_a_partition_is_named_by_broker_and_index() -> None:
    assert SEVEN.partition("10-2") == BrokerPartition(10, 2)


@pytest.mark.parametrize(("cls", "option"), [(ConsumerConfig, "kafka.version"), (SourceOptions, "version")])
@pytest.mark.parametrize(
    ("node", "there", "release"),
    [(b"host-1:host:9092", "0.7", "0.8.2"), (b'{"host": "h", "port": 9092}', "0.8 or later", "0.7.2")],
)
def test_who_names_another_generation_is_told_by_the_option_that_did(
    cls: type[ConsumerConfig], option: str, node: bytes, there: str, release: str
) -> None:
    values = {"group.id": "g", "zookeeper.connect": "zk:2181", "auto.offset.reset": "smallest", option: release}
    config = load_consumer(cls, values, "f")
    session = FakeZookeeper({"/brokers/ids": b"", "/brokers/ids/0": node}).session()
    with pytest.raises(
        ConsumerError, match=rf"at zk:2181 are of Kafka {there}, and {option} is {release}: set it right"
    ):
        must_be_of_this_generation(session, dialect(release), config)
    empty = FakeZookeeper({"/brokers/ids": b""}).session()
    must_be_of_this_generation(empty, dialect(release), config)
