"""Topics of a target of 0.7: made by an empty set to each broker, and never guessed."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Sequence

import pytest

from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.dialects import dialect
from kafkawire.model import Broker, BrokerPartition, PartitionId
from kafkawire.net.links import Links
from mirrormaker.topiclimits import TopicLimits
from mirrormaker.topics import BrokerTopics, SourceTopic, TopicMissing
from producer.zookeeper import ZookeeperAway

SOURCE = SourceTopic(4, 0)


class Answering:
    """A broker of 0.7 that registers a topic when something is produced to it, and answers the question behind it."""

    def __init__(self, number: int, partitions: int, deaf: bool = False) -> None:
        self.number, self.partitions, self.deaf = number, partitions, deaf
        self.made: list[str] = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.broker = Broker(number, "127.0.0.1", self.server.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self.server.accept()
            except OSError:
                return
            with link:
                if self.deaf:
                    continue
                for _ in range(2):
                    frame = self._exactly(link, struct.unpack(">i", self._exactly(link, 4))[0])
                    (kind, size) = struct.unpack_from(">hh", frame)
                    if kind == 0:
                        assert frame[-4:] == b"\0\0\0\0"  # an empty set
                        self.made.append(frame[4 : 4 + size].decode())
                    else:
                        link.sendall(struct.pack(">ihiq", 14, 0, 1, 0))

    def _exactly(self, link: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += link.recv(size - len(data))
        return data


class Zookeeper:
    """What producer.zookeeper tells: partition 0 of live brokers for a topic that is asked for and unknown."""

    dialect = dialect("0.7")

    def __init__(self, *brokers: Answering) -> None:
        self.nodes = brokers
        self.away = False

    def read(self, topics: Sequence[str] | None) -> ClusterView:
        if self.away:
            raise ZookeeperAway("ZooKeeper at zk: gone")
        brokers = {node.number: node.broker for node in self.nodes}
        names = {name for node in self.nodes for name in node.made} | set(topics or ())
        found: dict[str, dict[PartitionId, PartitionView]] = {}
        for name in names:
            counts = {node.number: node.partitions for node in self.nodes if name in node.made}
            if not counts and topics:
                counts = dict.fromkeys(brokers, 1)
            found[name] = {BrokerPartition(b, i): PartitionView(b) for b, n in counts.items() for i in range(n)}
        return ClusterView(brokers, found)


@pytest.fixture
def brokers() -> Iterator[list[Answering]]:
    made = [Answering(0, 2), Answering(3, 1)]
    yield made
    for broker in made:
        broker.server.close()


def topics(zookeeper: Zookeeper) -> BrokerTopics:
    return BrokerTopics(zookeeper, Links("test", socket.create_connection, 2000))


def names(found: Sequence[PartitionId]) -> list[str]:
    return list(map(str, found))


def test_a_topic_that_nobody_has_is_made_on_every_broker_once(brokers: list[Answering]) -> None:
    prepared = topics(Zookeeper(*brokers))
    assert names(prepared.prepare("orders", SOURCE)) == ["0-0", "0-1", "3-0"]
    assert names(prepared.prepare("orders", SOURCE)) == ["0-0", "0-1", "3-0"]
    assert [broker.made for broker in brokers] == [["orders"], ["orders"]]


def test_a_topic_that_some_broker_has_is_left_as_it_is(brokers: list[Answering]) -> None:
    brokers[0].made.append("orders")
    assert names(topics(Zookeeper(*brokers)).prepare("orders", SOURCE)) == ["0-0", "0-1"]
    assert brokers[1].made == []


def test_a_broker_that_does_not_answer_holds_nobody_up(
    brokers: list[Answering], caplog: pytest.LogCaptureFixture
) -> None:
    deaf = Answering(7, 1, deaf=True)
    try:
        found = topics(Zookeeper(*brokers, deaf)).prepare("orders", SOURCE)
    finally:
        deaf.server.close()
    assert names(found) == ["0-0", "0-1", "3-0"]
    assert "target topic orders cannot be made on broker 7" in caplog.text


def test_what_is_never_registered_goes_to_partition_0_of_the_brokers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mirrormaker.topics.LEADERS_S", 0.1)
    only = Answering(0, 2)
    zookeeper = Zookeeper(only)
    monkeypatch.setattr(zookeeper, "nodes", (only,))
    only.made = Forgetful()
    try:
        assert names(topics(zookeeper).prepare("orders", SOURCE)) == ["0-0"]
    finally:
        only.server.close()
    assert "target topic orders: not registered by all brokers within 0.1 s" in caplog.text


class Forgetful(list[str]):
    def append(self, _: str) -> None:
        return


def test_brokers_of_0_7_get_no_topic_beyond_the_limits(brokers: list[Answering]) -> None:
    links = Links("test", socket.create_connection, 2000)
    prepared = BrokerTopics(Zookeeper(*brokers), links, TopicLimits(in_all=6))
    prepared.prepare("orders", SOURCE)
    prepared.prepare("orders", SOURCE)
    prepared.prepare("news", SOURCE)  # at least one partition a broker was asked for, and they made three
    with pytest.raises(TopicMissing, match="target topic clicks does not exist and is not created: the target would"):
        prepared.prepare("clicks", SOURCE)
    assert [broker.made for broker in brokers] == [["orders", "news"]] * 2


def test_zookeeper_away_is_a_target_out_of_reach(brokers: list[Answering]) -> None:
    zookeeper = Zookeeper(*brokers)
    zookeeper.away = True
    with pytest.raises(Unreachable, match="ZooKeeper at zk: gone"):
        topics(zookeeper).view()
    with pytest.raises(ZookeeperAway):
        topics(zookeeper).prepare("orders", SOURCE)


def test_a_topic_whose_brokers_are_all_away_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper = Zookeeper()
    with pytest.raises(TopicMissing, match="target topic orders: no broker that has it is alive"):
        topics(zookeeper).prepare("orders", SOURCE)
