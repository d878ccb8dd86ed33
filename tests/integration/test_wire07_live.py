"""Links, requests and the cluster's view on a live 0.7 cluster: brokers in Python and originals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafkawire.cluster.zookeeper import read_leaders, read_topics, read_view
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from kafkawire.net.link import Link
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until

pytestmark = pytest.mark.real
D = dialect("0.7")
Starter = Callable[..., Cluster07]


@contextmanager
def linked(broker: Broker | None) -> Iterator[Link]:
    assert broker is not None
    link = Link(broker, "me", timeout_ms=10000)
    try:
        yield link
    finally:
        link.close()


def test_a_cluster_is_seen_through_zookeeper_and_spoken_to(cluster07: Starter, unique: Any) -> None:
    cluster, topic = cluster07(partitions={0: 2, 3: 1}), unique.topic()
    zk = cluster.zk()
    rows = [(n, None, b"value %d" % n, None) for n in range(40)]
    at = {broker: TopicPartition(topic, BrokerPartition(broker, 0)) for broker in (0, 3)}
    second = TopicPartition(topic, BrokerPartition(0, 1))
    brokers = read_view(zk, D.znodes, []).brokers
    assert {broker.port for broker in brokers.values()} == {node.port for node in cluster.nodes}
    with linked(brokers[0]) as first, linked(brokers[3]) as other:
        gzip = bytes(D.messages.encode(rows, codec=1, magic=D.magic))
        plain = bytes(D.messages.encode(rows, codec=0, magic=D.magic))
        assert first.call(D.requests.produce(D, 1, 1000, {at[0]: [gzip], second: [plain]})) is None
        assert other.call(D.requests.produce(D, 1, 1000, {at[3]: [plain, gzip]})) is None
        ends = {at[0]: len(gzip), second: len(plain), at[3]: len(plain) + len(gzip)}

        def flushed(link: Link, *tps: TopicPartition) -> bool:
            reply = link.call(D.requests.list_offsets(D, dict.fromkeys(tps, -1)))
            found = [row for asked in reply["topics"] for row in asked["partitions"]]
            return {row["partition"]: row["offsets"] for row in found} == {tp.partition: [ends[tp]] for tp in tps}

        wait_until(lambda: flushed(first, at[0], second) and flushed(other, at[3]), 15, "what was produced, flushed")

        def seen() -> list[str]:
            return list(map(str, read_view(zk, D.znodes, read_topics(zk, D.znodes)).partitions(topic)))

        wait_until(lambda: seen() == ["0-0", "0-1", "3-0"], 15, lambda: f"three partitions in ZooKeeper, not {seen()}")
        fetched = first.call(D.requests.fetch(D, 0, 0, [(second, 0, 1 << 20), (at[0], 0, 1 << 20), (second, 99999, 9)]))
        assert [(row.tp, row.error, bytes(row.buffer)) for row in fetched] == [
            (second, 0, plain), (at[0], 0, gzip), (second, 1, b""),
        ]  # fmt: skip
        (alone,) = other.call(D.requests.fetch(D, 0, 0, [(at[3], len(plain), 1 << 20)]))
        message_set, _ = D.messages.message_set(topic, at[3].partition, len(plain), alone.buffer, alone.high_watermark)
        messages = list(message_set.messages())
        assert [m.value for m in messages] == [value for _, _, value, _ in rows]
        assert {m.offset for m in messages} == {len(plain)}
        assert [m.resume_at for m in messages] == [len(plain)] * 39 + [ends[at[3]]]
        (stranger,) = first.call(D.requests.fetch(D, 0, 0, [(TopicPartition(topic, BrokerPartition(0, 9)), 0, 99)]))
        assert stranger.error == 3
        assert not first.closed_by_peer()


def test_a_produce_that_is_refused_closes_the_link_and_no_more_is_said(cluster07: Starter, unique: Any) -> None:
    cluster, topic = cluster07(), unique.topic()
    tp = TopicPartition(topic, BrokerPartition(0, 0))
    broker = read_view(cluster.zk(), D.znodes, []).brokers[0]
    damaged = bytearray(D.messages.encode([(0, None, b"value", None)], codec=0, magic=D.magic))
    damaged[-1] ^= 1
    with linked(broker) as link:
        link.send(D.requests.produce(D, 1, 1000, {tp: [bytes(damaged)]}))
        wait_until(link.closed_by_peer, 30, "the broker to close the link")
    with linked(broker) as link:
        link.send(D.requests.produce(D, 1, 1000, {tp: [bytes(damaged)]}))
        with pytest.raises(LinkLost, match="without an answer: 1 Offsets"):
            link.call(D.requests.list_offsets(D, {tp: -1}))
    with linked(broker) as link, pytest.raises(LinkLost):
        link.call(D.requests.list_offsets(D, {TopicPartition(topic, BrokerPartition(0, 7)): -1}))


def test_a_broker_that_stops_takes_its_partitions_out_of_the_view(cluster07: Starter, unique: Any) -> None:
    cluster, topic = cluster07(brokers=2), unique.topic()
    zk = cluster.zk()
    cluster.create_topic(topic)
    assert list(map(str, read_view(zk, D.znodes, [topic]).partitions(topic))) == ["0-0", "1-0"]
    cluster.node(1).stop()
    view = read_view(zk, D.znodes, [topic])
    assert list(map(str, view.partitions(topic))) == ["0-0"]
    gone = TopicPartition(topic, BrokerPartition(1, 0))
    assert view.leader(gone) is None
    assert read_leaders(zk, D.znodes, [gone]) == {gone: None}
