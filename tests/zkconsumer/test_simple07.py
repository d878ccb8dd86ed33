"""SimpleConsumer on a broker of 0.7."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkawire.errors import LinkLost, LocalError
from kafkawire.model import BrokerPartition, MessageSet, TopicPartition
from localkafka.seven import entries
from localkafka.seven.node import Node07
from localkafka.waiting import wait_until
from zkconsumer.refusals import Damaged, MessageTooLarge, OffsetOutOfRange, UnknownPartition
from zkconsumer.simple import SimpleConsumer

VALUES = [b"one", b"two", b"three"]
PLAIN, WRAPPED = entries.plain(VALUES), entries.wrapper(VALUES, 1)


@pytest.fixture
def topic(broker07: Node07, unique) -> str:
    """Three plain messages, then a wrapper of three, in partition 0; three in partition 1."""
    name: str = unique.topic()
    with broker07.client() as link:
        link.produce(name, 0, PLAIN)
        link.produce(name, 0, WRAPPED)
        link.produce(name, 1, PLAIN)
        wait_until(lambda: link.offsets(name, 0)[0] == len(PLAIN) + len(WRAPPED), 10, "partition 0")
        wait_until(lambda: link.offsets(name, 1)[0] == len(PLAIN), 10, "partition 1")
    return name


@pytest.fixture
def consumer(broker07: Node07) -> Iterator[SimpleConsumer]:
    with SimpleConsumer("127.0.0.1", broker07.port, "0.7.2") as consumer:
        yield consumer


def test_messages_with_their_positions(consumer: SimpleConsumer, topic: str) -> None:
    fetched = consumer.fetch(topic, 0, 0)
    found = [(m.partition, m.offset, m.resume_at, m.key, m.value) for m in fetched.messages()]
    first, end = len(PLAIN), len(PLAIN) + len(WRAPPED)
    assert found[:3] == [(0, 0, 13, None, b"one"), (0, 13, 26, None, b"two"), (0, 26, first, None, b"three")]
    assert found[3:] == [(0, first, at, None, v) for v, at in zip(VALUES, (first, first, end), strict=True)]
    assert (fetched.resume_at, fetched.high_watermark) == (end, None)
    assert list(consumer.fetch(topic, 0, end).messages()) == []  # at once: it never waits


def test_a_partition_may_be_named_as_zookeeper_does(broker07: Node07, topic: str) -> None:
    with SimpleConsumer("127.0.0.1", broker07.port, "0.7", broker_id=3) as consumer:
        fetched = consumer.fetch(topic, BrokerPartition(3, 1), 0)
        assert [str(m.partition) for m in fetched.messages()] == ["3-1"] * 3
        assert consumer.latest(TopicPartition(topic, BrokerPartition(3, 1))) == len(PLAIN)


def test_multifetch_answers_each_partition_for_itself(consumer: SimpleConsumer, topic: str) -> None:
    wanted = [TopicPartition(topic, n) for n in (0, 1, 7)]
    found = consumer.multifetch({wanted[0]: 0, wanted[1]: 1 << 40, wanted[2]: 0})
    assert isinstance(found[wanted[0]], MessageSet)
    assert isinstance(found[wanted[1]], OffsetOutOfRange)
    assert isinstance(found[wanted[2]], UnknownPartition)


def test_offsets_before(consumer: SimpleConsumer, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    end = len(PLAIN) + len(WRAPPED)
    assert (consumer.earliest(tp), consumer.latest(tp)) == (0, end)
    assert consumer.get_offsets_before(topic, 0, -1, 10) == [end, 0]
    assert consumer.get_offsets_before(topic, 0, -2) == [0]
    assert consumer.get_offsets_before(topic, 0, 1_000_000) == []
    assert consumer.latest(TopicPartition(topic + "-unknown", 0)) == 0


def test_a_partition_that_is_not_there_says_why_the_connection_went(consumer: SimpleConsumer, topic: str) -> None:
    with pytest.raises(LinkLost, match="closes the connection when it has no such partition"):
        consumer.latest(TopicPartition(topic, 7))
    assert consumer.latest(TopicPartition(topic, 1)) == len(PLAIN)  # connects anew


@pytest.mark.parametrize("size", [-1, 0, 3])
def test_a_fetch_below_four_bytes_is_refused(consumer: SimpleConsumer, topic: str, size: int) -> None:
    with pytest.raises(LocalError, match=f"max_bytes {size}: not even the size of a message"):
        consumer.fetch(topic, 0, 0, size)


def test_a_fetch_that_holds_no_message_says_what_it_needs(consumer: SimpleConsumer, topic: str) -> None:
    for size in (4, 9, 12):
        with pytest.raises(MessageTooLarge, match="raise it") as raised:
            consumer.fetch(topic, 0, 0, size)
        assert raised.value.needed == 13
    assert [m.value for m in consumer.fetch(topic, 0, 0, 13).messages()] == [b"one"]


def test_a_position_inside_a_message_is_named_damage(consumer: SimpleConsumer, topic: str) -> None:
    with pytest.raises(Damaged, match="a position inside a message looks like this too"):
        consumer.fetch(topic, 0, 2)


def test_what_0_7_does_not_know_is_said(consumer: SimpleConsumer) -> None:
    with pytest.raises(LocalError, match=r"Kafka 0\.7\.2 has no Metadata"):
        consumer.topic_metadata(None)
    with pytest.raises(LocalError, match=r"Kafka 0\.7\.2 has no OffsetCommit"):
        consumer.commit_offsets("g", {TopicPartition("t", 0): 1}, "zookeeper")
