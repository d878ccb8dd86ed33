"""MetadataSource on fake clusters: whom it asks, what it forgets, what it never does."""

from __future__ import annotations

import socket

import pytest

from kafkawire.cluster.metadata import MetadataSource, NothingKnown, Unreachable, read_reply
from kafkawire.dialects import dialect
from kafkawire.model import TopicPartition
from kafkawire.net.links import Links
from tests.fakes.broker import Close, FakeCluster


@pytest.fixture
def links():
    pool = Links("test", timeout_ms=5000)
    yield pool
    pool.close()


def source(cluster: FakeCluster, links: Links, **more: object) -> MetadataSource:
    return MetadataSource(cluster.bootstrap, dialect("0.8.2"), links)


def dead_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_all_topics_are_read_without_naming_one(links: Links):
    with FakeCluster({"t": 2, "u": 1}, brokers=2, auto_create=1) as cluster:
        view = source(cluster, links).read(None)
        assert {topic: view.partitions(topic) for topic in view.topics} == {"t": [0, 1], "u": [0]}
        assert view.leader(TopicPartition("t", 1)).port == cluster.ports[2]
        assert cluster.seen("metadata")[0].body["topics"] == []


def test_a_topic_by_name_that_is_missing_has_its_error(links: Links):
    with FakeCluster({"t": 1}) as cluster:
        view = source(cluster, links).read(["t", "missing"])
        assert (set(view.topics), dict(view.errors)) == ({"t"}, {"missing": 3})


def test_a_topic_that_is_being_created_has_no_partitions_yet(links: Links):
    with FakeCluster(auto_create=2) as cluster:
        metadata = source(cluster, links)
        assert dict(metadata.read(["new"]).errors) == {"new": 5}
        assert metadata.read(["new"]).partitions("new") == [0, 1]


def test_a_partition_without_a_leader_is_in_the_view(links: Links):
    with FakeCluster({"t": 2}, brokers=2) as cluster:
        cluster.stop(2)
        view = source(cluster, links).read(None)
        assert view.partitions("t") == [0, 1]
        assert view.leader(TopicPartition("t", 1)) is None


def test_an_empty_broker_list_does_not_wipe_what_is_known(links: Links):
    with FakeCluster({"t": 1}, brokers=2, lists_all_brokers=False) as cluster:
        metadata = source(cluster, links)
        assert set(metadata.read(["t"]).brokers) == {1}
        assert metadata.read(["missing"]).errors == {"missing": 3}
        assert metadata.read(["t"]).partitions("t") == [0]
        cluster.stop(1)
        assert set(metadata.read(["missing"]).errors) == {"missing"}  # the bootstrap list still has broker 2


def test_a_broker_that_has_just_started_is_passed_over_and_not_asked_first_again(links: Links):
    with FakeCluster({"t": 1}, brokers=3) as cluster:
        cluster.uninformed = {1, 2}
        metadata = source(cluster, links)
        for topics in (None, ["t"], None):
            assert metadata.read(topics).partitions("t") == [0]
        assert [seen.broker for seen in cluster.seen("metadata")] == [1, 2, 3, 3, 3]


def test_brokers_are_asked_in_turn_where_what_one_said_is_in_doubt(links: Links):
    with FakeCluster({"t": 1}, brokers=3) as cluster:
        metadata = source(cluster, links)
        metadata.turn()
        for _ in range(4):
            assert metadata.read(None).partitions("t") == [0]
            metadata.turn()
        metadata.read(None)
        metadata.read(None)
        assert [seen.broker for seen in cluster.seen("metadata")] == [1, 2, 3, 1, 2, 2]


def test_a_view_has_the_leader_epochs_that_brokers_tell() -> None:
    row = {"error": 0, "partition": 0, "leader": 1, "replicas": [1], "isr": [1]}
    for more, epoch in (({}, -1), ({"leader_epoch": 7}, 7)):
        topics = [{"error": 0, "topic": "t", "partitions": [{**row, **more}]}]
        view = read_reply({"brokers": [], "topics": topics})
        assert (view.epoch(TopicPartition("t", 0)), view.epoch(TopicPartition("u", 0))) == (epoch, -1)


def test_where_all_brokers_have_just_started_the_topics_are_not_known(links: Links):
    with FakeCluster({"t": 1}, brokers=2) as cluster:
        cluster.uninformed = {1, 2}
        metadata = source(cluster, links)
        for topics in (None, ["t"]):
            with pytest.raises(NothingKnown, match=r"no broker of the cluster has metadata: .* no topics yet; "):
                metadata.read(topics)
        cluster.uninformed = set()
        assert metadata.read(None).partitions("t") == [0]


def test_the_first_topic_of_a_cluster_that_lists_only_brokers_of_partitions_is_created(links: Links):
    class Slow(FakeCluster):
        def create(self, topic: str, partitions: int) -> None:
            """Nothing yet."""

    with Slow(brokers=2, lists_all_brokers=False, auto_create=1) as cluster:
        metadata = source(cluster, links)
        assert dict(metadata.read(["new"]).errors) == {"new": 5}
        FakeCluster.create(cluster, "new", 1)
        assert metadata.read(["new"]).partitions("new") == [0]


def test_a_topic_that_cannot_be_created_hides_no_other(links: Links):
    with FakeCluster({"t": 1}, brokers=2, auto_create=1) as cluster:
        cluster.uncreatable = {"bad", "worse"}
        view = source(cluster, links).read(["bad", "new", "t", "worse"])
        assert (view.partitions("t"), dict(view.errors)) == ([0], {"bad": -1, "worse": -1, "new": 5})
        assert set(view.brokers) == {1, 2}
        named = [tuple(seen.body["topics"]) for seen in cluster.seen("metadata")]
        assert named == [("bad", "new", "t", "worse"), (), ("bad",), ("new",), ("worse",)]


def test_topics_can_be_looked_up_by_name_and_never_be_created(links: Links):
    with FakeCluster({"t": 1, "u": 1}, auto_create=1) as cluster:
        view = source(cluster, links).read(["t", "gone"], create=False)
        assert (set(view.topics), dict(view.errors)) == ({"t"}, {"gone": 3})
        assert [seen.body["topics"] for seen in cluster.seen("metadata")] == [[]]


def test_brokers_that_fail_are_passed_over_and_the_open_link_is_kept(links: Links):
    with FakeCluster({"t": 1}, brokers=3) as cluster:
        bootstrap = [("127.0.0.1", dead_port()), *cluster.bootstrap]
        metadata = MetadataSource(bootstrap, dialect("0.8.2"), links)
        for _ in range(5):
            metadata.read(None)
        assert {seen.broker for seen in cluster.seen("metadata")} == {1}
        cluster.script("metadata", Close())
        metadata.read(None)
        assert cluster.seen("metadata")[-1].broker != 1


def test_a_cluster_that_moved_to_other_ports_is_followed_by_its_own_answers(links: Links):
    with FakeCluster({"t": 1}, brokers=2) as cluster:
        metadata = source(cluster, links)
        metadata.read(None)
        cluster.stop(2)
        cluster.start(2)
        metadata.read(None)
        cluster.stop(1)  # whose port the bootstrap list knows; broker 2's old port is dead
        assert metadata.read(None).brokers[2].port == cluster.ports[2]


def test_when_nobody_answers_each_is_named_with_its_reason(links: Links):
    ports = [dead_port(), dead_port()]
    metadata = MetadataSource([("127.0.0.1", port) for port in ports], dialect("0.8.2"), links)
    with pytest.raises(Unreachable) as raised:
        metadata.read(None)
    for port in ports:
        assert f"127.0.0.1:{port}" in str(raised.value)
    assert str(raised.value).count("refused") == 2


def test_a_connection_that_the_broker_closed_while_idle_is_no_outage(links: Links):
    with FakeCluster({"t": 1}) as cluster:
        metadata = source(cluster, links)
        metadata.read(None)
        port = cluster.ports[1]
        cluster.stop(1)
        cluster.start(1, port)  # the only broker there is
        assert metadata.read(None).partitions("t") == [0]
