"""Which committed offsets are of an earlier topic of the same name, and what follows from it in each store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from groupadmin.plan.changes import plan_changes
from groupadmin.plan.resets import TargetOffset
from groupadmin.snapshot.model import GroupSnapshot, KafkaRow, TopicRow, ZkRow
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from tests.fakes.broker import FakeCluster
from tests.fakes.stores import MemoryOffsets, held
from tests.fakes.znodes import FakeZookeeper
from zkconsumer.errors import TopicGone
from zkconsumer.group.topicnodes import read_creations
from zkconsumer.offsets.coordinator import Coordinator
from zkconsumer.offsets.dual import DualOffsets
from zkconsumer.offsets.former import TopicCreation, committed_before, metadata_of, topic_in, written_before
from zkconsumer.offsets.group import GroupOffsets
from zkconsumer.offsets.kafka import KafkaOffsets
from zkconsumer.offsets.modes import Mode, behind
from zkconsumer.offsets.store import NONE, Committed, FormerOffset, Unknown
from zkconsumer.offsets.zookeeper import ZookeeperOffsets

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
SPEAKS = dialect("0.8.2")
OLD, NEW = TopicCreation(5, 1000), TopicCreation(9, 2000)
FORMER = FormerOffset(20, "of another log")


@pytest.mark.parametrize(("mzxid", "czxid", "former"), [(8, 9, True), (10, 9, False), (8, None, False)])
def test_zookeeper_goes_by_the_order_of_writes(mzxid: int, czxid: int | None, former: bool) -> None:
    assert written_before(mzxid, czxid) is former


@pytest.mark.parametrize(
    ("commit", "ctime", "former"), [(8, 9, True), (9, 9, False), (None, 9, False), (8, None, False)]
)
def test_kafka_goes_by_the_clocks_where_a_commit_names_no_topic(
    commit: int | None, ctime: int | None, former: bool
) -> None:
    assert committed_before(commit, ctime) is former


def test_metadata_names_the_topic_that_was_read() -> None:
    assert topic_in(metadata_of(OLD)) == OLD
    assert metadata_of(None) == ""
    for text in ("", "by hand", "topic-czxid=x topic-ctime-ms=1", "topic-czxid=1 topic-ctime-ms=1 and more"):
        assert topic_in(text) is None


# ZooKeeper ------------------------------------------------------------------------------------------------------------


class Nodes:
    """A group's offsets in ZooKeeper, of a topic that can be created again."""

    def __init__(self) -> None:
        self.zk = FakeZookeeper({"/brokers/topics/orders": b'{"version":1,"partitions":{"0":[1],"1":[1]}}'})
        self.read_from: dict[TopicPartition, TopicCreation] = {}
        self.changed = False
        self.store = ZookeeperOffsets(
            self.zk.session(),
            SPEAKS.znodes,
            creations=self.creations,
            read_from=self.read_from.get,
            may_be_recreated=lambda topic: self.changed,
        )

    def creations(self, topics: Collection[str]) -> Mapping[str, TopicCreation]:
        return read_creations(self.zk.session(), SPEAKS, topics)

    def recreate(self) -> None:
        self.zk.now_ms += 60_000
        self.zk.delete("/brokers/topics/orders")
        self.zk.set("/brokers/topics/orders", b'{"version":1,"partitions":{"0":[1],"1":[1]}}')

    def commit(self, **at: int) -> Any:
        return self.store.commit("g", {TopicPartition("orders", int(name[1:])): n for name, n in at.items()}, held())

    def read(self, tp: TopicPartition = A) -> Committed:
        return self.store.read("g", [tp])[tp]


def test_a_node_older_than_its_topic_is_no_position() -> None:
    nodes = Nodes()
    assert nodes.commit(p0=20) == {A: None}
    assert nodes.read() == 20
    nodes.recreate()
    found = nodes.read()
    assert isinstance(found, FormerOffset)
    assert found.position == 20
    assert found.reason == (
        "committed to ZooKeeper at 1970-01-01T00:16:40.000Z, and topic orders was created again at "
        "1970-01-01T00:17:40.000Z: it is invalid in the new log"
    )
    assert nodes.read(B) is NONE


def test_added_partitions_and_a_reassignment_are_no_new_topic() -> None:
    nodes = Nodes()
    nodes.commit(p0=20)
    nodes.zk.set("/brokers/topics/orders", b'{"version":1,"partitions":{"0":[2],"1":[1],"2":[1]}}')
    nodes.zk.set("/brokers/topics/orders/partitions/0/state", b"{}")
    assert nodes.read() == 20


def test_the_same_number_is_written_again_where_it_was_a_former_one() -> None:
    nodes = Nodes()
    nodes.commit(p0=20)
    nodes.recreate()
    assert isinstance(nodes.read(), FormerOffset)
    assert nodes.commit(p0=20) == {A: None}
    assert nodes.read() == 20
    version = nodes.zk.nodes["/consumers/g/offsets/orders/0"].version
    assert nodes.commit(p0=20) == {A: None}  # and then not each time
    assert nodes.zk.nodes["/consumers/g/offsets/orders/0"].version == version


def test_a_tool_that_writes_an_offset_makes_it_count() -> None:
    nodes = Nodes()
    nodes.commit(p0=20)
    nodes.recreate()
    nodes.zk.set("/consumers/g/offsets/orders/0", b"20")
    assert nodes.read() == 20


def test_a_position_of_a_log_that_is_gone_is_not_written_over_the_time_of_the_new_one() -> None:
    nodes = Nodes()
    nodes.read_from[A] = nodes.creations(["orders"])["orders"]
    nodes.commit(p0=20)
    nodes.recreate()
    nodes.changed = True
    results = nodes.commit(p0=25, p1=3)
    assert isinstance(results[A], TopicGone)
    assert results[B] is None  # where it was read from is not known
    assert nodes.zk.nodes["/consumers/g/offsets/orders/0"].data == b"20"
    assert isinstance(nodes.read(), FormerOffset)


# Kafka ----------------------------------------------------------------------------------------------------------------


class Records:
    """A group's offsets in Kafka, on a fake broker that keeps metadata as the real one does."""

    def __init__(self, cluster: FakeCluster, links: Links) -> None:
        self.today: dict[str, TopicCreation] = {"orders": OLD}
        self.times: dict[TopicPartition, int] = {}
        self.asked: list[TopicPartition] = []
        addresses = [Broker(-1, host, port) for host, port in cluster.bootstrap]
        coordinator = Coordinator(lambda: addresses, links, SPEAKS, 3, 1, 5000)
        self.store = KafkaOffsets(
            coordinator,
            creations=lambda topics: {topic: self.today[topic] for topic in topics if topic in self.today},
            read_from=lambda tp: self.today.get(tp.topic),
            commit_times=self._times,
        )
        self.plain = KafkaOffsets(coordinator)  # a commit of a JVM member names no topic

    def _times(self, group: str, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.asked += tps
        return {tp: self.times[tp] for tp in tps if tp in self.times}


@pytest.fixture
def records() -> Any:
    links = Links("former")
    with FakeCluster({"orders": 2}) as cluster:
        yield Records(cluster, links)
    links.close()


def test_a_commit_that_names_another_topic_is_a_former_one(records: Records) -> None:
    assert records.store.commit("g", {A: 20}, held()) == {A: None}
    assert records.store.read("g", [A]) == {A: 20}
    records.today["orders"] = NEW
    found = records.store.read("g", [A])[A]
    assert isinstance(found, FormerOffset)
    assert found.position == 20
    assert "of the topic that was created at 1970-01-01T00:00:01.000Z" in found.reason
    assert "was created again at 1970-01-01T00:00:02.000Z" in found.reason
    assert records.asked == []


def test_a_commit_that_names_none_goes_by_its_time(records: Records) -> None:
    records.plain.commit("g", {A: 20, B: 30}, held())
    records.today["orders"] = NEW
    records.times = {A: 1999, B: 2000}
    found = records.store.read("g", [A, B])
    assert isinstance(found[A], FormerOffset)
    assert "committed to Kafka at 1970-01-01T00:00:01.999Z" in found[A].reason
    assert found[B] == 30


def test_what_nobody_can_tell_is_taken_as_it_is(records: Records) -> None:
    records.plain.commit("g", {A: 20}, held())
    records.today["orders"] = NEW
    assert records.store.read("g", [A]) == {A: 20}
    records.today.clear()  # the topic's node cannot be found: nothing is asked either
    records.asked.clear()
    assert records.store.read("g", [A]) == {A: 20}
    assert records.asked == []


# both -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kafka", "zookeeper", "begins"),
    [
        (FORMER, 5, 5),
        (5, FORMER, 5),
        (FORMER, NONE, FORMER),
        (NONE, FORMER, FORMER),
        (FORMER, FormerOffset(7, "too"), FormerOffset(7, "too")),
        (FORMER, Unknown("torn"), Unknown("torn")),
    ],
)
def test_a_former_number_is_never_the_larger(kafka: Committed, zookeeper: Committed, begins: Committed) -> None:
    stores = [MemoryOffsets(), MemoryOffsets()]
    for store, at in zip(stores, (kafka, zookeeper), strict=True):
        store.held["g", A] = at
    assert DualOffsets(*stores).read("g", [A]) == {A: begins}


@pytest.mark.parametrize("mode", ["zookeeper", "kafka"])
def test_a_former_number_is_nothing_that_a_change_of_the_store_could_lose(mode: Mode) -> None:
    other, alone = (FORMER, NONE), (NONE, FORMER)
    assert behind(mode, *(other if mode == "zookeeper" else alone)) is None
    lacks = behind(mode, *((5, FORMER) if mode == "zookeeper" else (FORMER, 5)))
    assert lacks is not None
    assert "nothing" in lacks


def test_a_former_number_in_zookeeper_is_not_one_that_was_not_migrated() -> None:
    zookeeper, kafka = MemoryOffsets(), MemoryOffsets()
    zookeeper.held["g", A] = FORMER
    assert GroupOffsets("kafka", zookeeper, kafka).read("g", [A]) == {A: FORMER}


# tools ----------------------------------------------------------------------------------------------------------------


def snapshot(**kafka: Any) -> GroupSnapshot:
    return GroupSnapshot(
        "g",
        {A: ZkRow(20, 1, 4, 3, 900)},
        {A: KafkaRow(**kafka)},
        {A: (0, 50)},
        {"orders": TopicRow((0, 1), NEW.czxid, NEW.ctime_ms)},
    )


@pytest.mark.parametrize(
    ("row", "former"),
    [
        ({"position": 20, "metadata": metadata_of(OLD)}, True),
        ({"position": 20, "metadata": metadata_of(NEW), "committed_at_ms": 1}, False),  # exact before clocks
        ({"position": 20, "committed_at_ms": 1999}, True),
        ({"position": 20, "committed_at_ms": 2000}, False),
        ({"position": 20}, False),
        ({"position": NONE}, False),
    ],
)
def test_tools_go_by_the_same_rule(row: dict[str, Any], former: bool) -> None:
    assert ("kafka" in snapshot(**row).former_stores(A)) is former
    assert "zookeeper" in snapshot(**row).former_stores(A)


def test_a_former_number_is_written_though_it_be_the_wanted_one() -> None:
    found = snapshot(position=20, metadata=metadata_of(NEW))
    before: Any = {A: {"kafka": 20, "zookeeper": 20}}
    [change] = plan_changes(
        "g",
        {A: TargetOffset(20)},
        before,
        bounds=found.bounds,
        existing=[A],
        stores=("kafka", "zookeeper"),
        former=found.former_stores,
    )
    assert (change.action, change.stores) == ("write", ("zookeeper",))
