"""The sender of a task on the fake cluster: delivered, in order, whatever the brokers answer; or why not, by row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from kafkawire.model import Part, TopicPartition
from producer.config import ProducerConfig
from producer.rows import Row
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import NotDelivered, OptionRefused, UnknownPartition, Unreachable
from sparkpipeline.sink import tasksender as module
from sparkpipeline.sink.tasksender import TaskSender
from tests.fakes.broker import Close, Fail, FakeCluster, entry

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
QUICK = ProducerConfig(
    brokers=(), acks=1, request_timeout_ms=2000, retries=-1, retry_backoff_ms=10, delivery_timeout_ms=5000,
    topic_wait_ms=200, reconnect_ms=10,
)  # fmt: skip


@contextmanager
def sending(cluster: FakeCluster, release: str = "0.8.2", **changed: Any) -> Iterator[TaskSender]:
    access = ClusterAccess(tuple(cluster.bootstrap), release, socket_timeout_ms=2000, retries=0, retry_interval_ms=10)
    sender = TaskSender(access, replace(QUICK, **changed), tell=lambda sentence: None)
    try:
        yield sender
    finally:
        sender.close()


def rows(*values: bytes) -> list[Row]:
    return [Row(None, value, None) for value in values]


def numbered(count: int, size: int = 10) -> list[bytes]:
    return [(b"%d " % n).ljust(size, b"x") for n in range(count)]


def test_rows_are_stored_in_order_and_counted():
    values = numbered(1000)
    with FakeCluster({"t": 2}, brokers=2) as cluster, sending(cluster) as sender:
        sender.send(TP, rows(*values[:500]), range(500))
        sender.send(OTHER, rows(*values[500:]), range(500, 1000))
        sender.flush()
        assert cluster.values("t", 0) == values[:500]
        assert cluster.values("t", 1) == values[500:]
        assert sender.stored == {TP: 500, OTHER: 500}
        assert sender.bytes_pending == 0


def test_requests_to_several_brokers_wait_for_their_answers_together_and_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "ROUND_BYTES", 4096)
    values = numbered(400, size=500)
    with FakeCluster({"t": 2}, brokers=2) as cluster, sending(cluster, queue_bytes=16384, batch_bytes=2048) as sender:
        most = 0
        for n, value in enumerate(values):
            sender.send(TopicPartition("t", n % 2), rows(value), [n])
            most = max(most, sender.bytes_pending)
        sender.flush()
        assert most <= 16384 + 600
        assert cluster.values("t", 0) == values[::2]
        assert cluster.values("t", 1) == values[1::2]
        assert len(cluster.seen("metadata")) == 1


@pytest.mark.parametrize("trouble", [Fail(6), Fail(5), Fail(7), Fail(3), Fail(19), Close()])
def test_what_may_pass_is_sent_again_in_order(trouble):
    values = numbered(30)
    with FakeCluster({"t": 1}) as cluster, sending(cluster) as sender:
        cluster.script("produce", trouble, trouble)
        sender.send(TP, rows(*values[:10]), range(10))
        sender.send(TP, rows(*values[10:]), range(10, 30))
        sender.flush()
        assert cluster.values("t", 0) == values


def test_a_partition_that_moves_is_followed():
    values = numbered(20)
    with FakeCluster({"t": 2}, brokers=2) as cluster, sending(cluster) as sender:
        sender.send(TP, rows(*values[:10]), range(10))
        sender.flush()
        cluster.move("t", 0, 2)
        sender.send(TP, rows(*values[10:]), range(10, 20))
        sender.flush()
        assert cluster.values("t", 0) == values


def test_a_broker_that_dies_is_waited_for_until_others_lead():
    with FakeCluster({"t": 2}, brokers=2) as cluster, sending(cluster) as sender:
        sender.send(TP, rows(b"before"), [0])
        sender.flush()
        cluster.stop(1)
        cluster.move("t", 0, 2)
        sender.send(TP, rows(b"after"), [1])
        sender.flush()
        assert cluster.values("t", 0) == [b"before", b"after"]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_one_message_that_is_too_large_is_named_by_its_row(codec):
    values = numbered(20)
    values[13] = random.Random(1).randbytes(1200)
    with FakeCluster({"t": 2}, message_max_bytes=900) as cluster, sending(cluster, codec=codec) as sender:
        sender.send(TP, rows(*values), range(100, 120))
        with pytest.raises(NotDelivered) as failed:
            sender.flush()
        assert failed.value.coordinates == {"topic": "t", "partition": 0, "row": 113}
        assert "message.max.bytes" in failed.value.sentence
        assert "source offset" not in str(failed.value)
        assert cluster.values("t", 0) == values[:13]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_one_message_that_a_topic_refuses_is_named_by_its_row(codec):
    values = numbered(20)
    with FakeCluster({"t": 1}) as cluster, sending(cluster, codec=codec) as sender:
        cluster.compacted.add("t")
        sender.send(
            TP, [Row(None if n == 13 else b"k", value, None) for n, value in enumerate(values)], range(100, 120)
        )
        with pytest.raises(NotDelivered) as failed:
            sender.flush()
        assert failed.value.coordinates == {"topic": "t", "partition": 0, "row": 113}
        assert "has no key, which a compacted topic (cleanup.policy) requires" in failed.value.sentence
        assert "source offset" not in str(failed.value)
        assert cluster.values("t", 0) == values[:13]


def test_after_a_failure_nothing_is_sent_any_more():
    with FakeCluster({"t": 2}, message_max_bytes=900) as cluster, sending(cluster) as sender:
        sender.send(TP, rows(b"x" * 1000), [0])
        with pytest.raises(NotDelivered):
            sender.flush()
        with pytest.raises(NotDelivered):
            sender.send(OTHER, rows(b"y"), [1])
        assert cluster.values("t", 1) == []


def test_what_the_broker_goes_on_refusing_names_the_rows_it_was_about():
    with FakeCluster({"t": 1}) as cluster, sending(cluster) as sender:
        cluster.script("produce", *[Fail(29)] * 50)
        sender.send(TP, rows(b"a", b"b", b"c"), [5, 7, 9])
        with pytest.raises(
            NotDelivered, match=r"^KAFKA08_NOT_DELIVERED topic=t partition=0 row=5 last_row=9: .*\(29\)"
        ):
            sender.flush()


def test_a_leader_that_stays_away_fails_with_the_last_that_was_heard():
    with FakeCluster({"t": 1}) as cluster, sending(cluster, delivery_timeout_ms=1500) as sender:
        cluster.script("produce", *[Fail(6)] * 5000)
        sender.send(TP, rows(b"a"), [3])
        with pytest.raises(NotDelivered) as failed:
            sender.flush()
        assert failed.value.coordinates["row"] == 3
        assert "delivery.timeout.ms" in str(failed.value)
        assert "NotLeaderForPartition" in str(failed.value)


def test_a_slow_caller_is_no_late_delivery():
    now = [0.0]
    with FakeCluster({"t": 1}) as cluster:
        access = ClusterAccess(tuple(cluster.bootstrap), socket_timeout_ms=2000)
        sender = TaskSender(access, QUICK, now=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
        sender.send(TP, rows(b"early"), [0])
        now[0] = 3600.0
        sender.send(TP, rows(b"late"), [1])
        sender.flush()
        sender.close()
        assert cluster.values("t", 0) == [b"early", b"late"]


def test_a_cluster_that_goes_away_is_named():
    with FakeCluster({"t": 1}) as cluster, sending(cluster, delivery_timeout_ms=300) as sender:
        sender.send(TP, rows(b"a"), [0])
        sender.flush()
        cluster.stop(1)
        sender.send(TP, rows(b"b"), [1])
        with pytest.raises(NotDelivered, match=r"127\.0\.0\.1"):
            sender.flush()


def test_a_missing_topic_is_named_and_never_created():
    with FakeCluster({"t": 1}, auto_create=1) as cluster, sending(cluster) as sender:
        with pytest.raises(UnknownPartition, match=r"topic=absent: .*creates"):
            sender.partitions("absent")
        assert all(not seen.body["topics"] for seen in cluster.seen("metadata"))
        assert {topic for topic, _ in cluster.logs} == {"t"}


def test_a_topic_that_comes_up_is_waited_for():
    with FakeCluster({"t": 1}) as cluster, sending(cluster, topic_wait_ms=5000) as sender:
        assert sender.partitions("t") == [0]
        cluster.create("late", 3)
        assert sender.partitions("late") == [0, 1, 2]


def test_a_partition_that_does_not_come_fails_its_rows():
    with FakeCluster({"t": 1}) as cluster, sending(cluster) as sender:
        sender.send(TopicPartition("t", 4), rows(b"a"), [0])
        with pytest.raises(NotDelivered, match=r"topic=t partition=4 row=0: .*has 1 partitions"):
            sender.flush()


def test_nobody_there_at_all_is_told_as_such():
    with FakeCluster({"t": 1}) as cluster:
        cluster.stop(1)
        with sending(cluster) as sender, pytest.raises(Unreachable):
            sender.partitions("t")


def test_entries_travel_as_they_are_and_failures_have_source_offsets():
    data = entry(b"a", offset=70) + entry(b"y" * 1000, offset=71) + entry(b"c", offset=72)
    with FakeCluster({"t": 1}, message_max_bytes=900) as cluster, sending(cluster) as sender:
        sender.send_part(Part(TP, data, 0, 0, 3, 73))
        with pytest.raises(NotDelivered) as failed:
            sender.flush()
        assert failed.value.coordinates == {"topic": "t", "partition": 0, "source_offset": 71}
        assert cluster.values("t", 0) == [b"a"]


def test_no_answer_asked_for_is_refused():
    with pytest.raises(OptionRefused, match="at least once"):
        TaskSender(ClusterAccess((("127.0.0.1", 1),)), replace(QUICK, acks=0))
