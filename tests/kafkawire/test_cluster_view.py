"""Views: leaders, what moved, merging; and addresses written down by hand."""

from __future__ import annotations

import pytest

from kafkawire.cluster.addresses import parse_address, parse_addresses, parse_brokers
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.errors import LocalError
from kafkawire.model import Broker, BrokerPartition, TopicPartition

ONE, TWO = Broker(1, "a", 9092), Broker(2, "b", 9092)
TP = TopicPartition("t", 0)


def test_a_leader_is_none_while_there_is_none_or_its_address_is_unknown():
    nobody, stranger = PartitionView(None), PartitionView(7)
    topics = {"t": {0: PartitionView(1), 1: nobody, 2: stranger}}
    cluster = ClusterView({1: ONE}, topics)
    assert [cluster.leader(TopicPartition("t", p)) for p in range(4)] == [ONE, None, None, None]
    assert cluster.leader(TopicPartition("other", 0)) is None


def test_partitions_are_in_numeric_order_and_of_an_unknown_topic_none():
    cluster = ClusterView({}, {"t": {p: PartitionView(1) for p in (10, 2, 1)}})
    assert cluster.partitions("t") == [1, 2, 10]
    assert cluster.partitions("other") == []
    old = ClusterView({}, {"t": {BrokerPartition(b, i): PartitionView(b) for b, i in ((10, 0), (2, 1), (2, 0))}})
    assert list(map(str, old.partitions("t"))) == ["2-0", "2-1", "10-0"]


def test_a_view_of_some_topics_updates_the_rest_and_takes_no_broker_away():
    before = ClusterView({1: ONE, 2: TWO}, {"t": {0: PartitionView(1)}, "u": {0: PartitionView(2)}}, {"new": 5})
    update = ClusterView({2: TWO._replace(port=1)}, {"new": {0: PartitionView(2)}}, {"u": 3})
    after = before.merged(update)
    assert after.brokers == {1: ONE, 2: TWO._replace(port=1)}
    assert (set(after.topics), dict(after.errors)) == ({"t", "new"}, {"u": 3})


def test_an_error_that_says_nothing_of_a_topic_removes_nothing_that_is_known():
    before = ClusterView({1: ONE}, {"t": {0: PartitionView(1)}, "u": {0: PartitionView(1)}})
    failed = before.merged(ClusterView({1: ONE}, {}, {"t": -1, "u": 7}))
    assert (failed.topics, dict(failed.errors)) == (before.topics, {})
    just_started = before.merged(ClusterView({}, {}, {"t": 5, "new": 3}))
    assert (just_started.topics, dict(just_started.errors)) == (before.topics, {"new": 3})
    assert set(before.merged(ClusterView({1: ONE}, {}, {"t": 29}), whole=True).topics) == set()
    assert set(before.merged(ClusterView({1: ONE}, {}, {"t": -1}), whole=True).topics) == {"t"}


def test_addresses():
    assert parse_addresses(" a:1, b.c:65535,[::1]:9092,") == [("a", 1), ("b.c", 65535), ("::1", 9092)]
    assert parse_brokers("0:a:1,12:b:2") == {0: Broker(0, "a", 1), 12: Broker(12, "b", 2)}


@pytest.mark.parametrize("text", ["", "a", ":1", "a:", "a:x", "a:0", "a:65536", "a:-1", "::1:9092", "a:²"])
def test_a_bad_address_is_named_with_where_it_stands(text: str):
    with pytest.raises(LocalError, match=r"^metadata\.broker\.list: "):
        parse_address(text, "metadata.broker.list")


@pytest.mark.parametrize("text", ["", "a:1", "x:a:1", "1:a:1,1:b:1"])
def test_a_bad_list_of_brokers_is_named(text: str):
    with pytest.raises(LocalError, match=r"^broker\.list: "):
        parse_brokers(text, "broker.list")
