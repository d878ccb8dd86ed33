"""Sets and messages against a broker that takes little: message.max.bytes is 20,000 there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.tools import console_consumer
from producer.delivery import Deliveries, Delivery
from producer.errors import SendFailed, TooLarge
from producer.producer import Producer
from tests.conftest import Unique
from tests.integration.sparktopics import simple

pytestmark = pytest.mark.real
MOST = 20_000
WAIT_S = 60


@pytest.fixture(scope="module")
def small(zk_server) -> Iterator[Cluster]:
    settings = {"message.max.bytes": MOST, "replica.fetch.max.bytes": 2 * MOST}
    with Cluster(brokers=1, zookeeper=zk_server, settings=settings) as started:
        yield started


def values(rng: random.Random, kind: str) -> list[bytes]:
    """Some that do not compress at all, some that compress well, and both in turns."""
    random_ones = [rng.randbytes(rng.choice((10, 100, 1000, 5000))) for _ in range(600)]
    plain_ones = [b"%d " % n + b"a" * rng.choice((10, 100, 1000, 40_000)) for n in range(600)]
    return {"incompressible": random_ones, "compressible": plain_ones}.get(
        kind, [v for pair in zip(random_ones, plain_ones, strict=True) for v in pair]
    )


def stored_values(cluster: ClusterClient, topic: str) -> list[bytes | None]:
    tp = TopicPartition(topic, 0)
    with simple(cluster, tp) as consumer:
        at, end = 0, consumer.latest(tp)
        found: list[bytes | None] = []
        while at < end:
            fetched = consumer.fetch(topic, 0, at, 4 << 20)
            found += [message.value for message in fetched.messages()]
            at = fetched.resume_at
        return found


def agree(deliveries: Deliveries | list[Delivery], sent: list[bytes], there: list[bytes | None]) -> None:
    """Each delivery that is not an error says where its message is, and the log has nothing else."""
    good = [(d.result(WAIT_S).offset, value) for d, value in zip(deliveries, sent, strict=True) if d.error is None]
    assert [there[offset] for offset, _ in good if offset is not None] == [value for _, value in good]
    assert len(there) == len(good)


def test_a_number_of_replicas_is_what_brokers_of_0_8_wait_for(target: ClusterClient, unique: Unique) -> None:
    """Two of two answer; three of two never do: the broker says so (7) when request.timeout.ms is over."""
    topic = unique.topic()
    target.create_topic(topic, 1, replication=2)
    options: dict[str, Any] = {"metadata.broker.list": target.brokers, "request.timeout.ms": 1500}
    with Producer({**options, "request.required.acks": 2}) as producer:
        assert producer.send(topic, b"two").result(WAIT_S).offset == 0
    options |= {"request.required.acks": 3, "message.send.max.retries": 0, "delivery.timeout.ms": 20000}
    with pytest.raises(SendFailed, match=r"RequestTimedOut \(7\)"), Producer(options) as producer:
        producer.send(topic, b"three")


@pytest.mark.parametrize("kind", ["incompressible", "compressible", "mixed"])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_what_the_broker_makes_of_a_compressed_set_stays_below_its_limit(small, unique: Any, codec: str, kind: str):
    topic = unique.topic(f"{codec}-{kind}")
    small.create_topic(topic, partitions=1, replication=1)
    sent = values(random.Random(7), kind)
    options = {"metadata.broker.list": small.brokers, "compression.codec": codec, "message.max.bytes": MOST}
    with Producer(options, hub="own") as producer:
        deliveries = producer.send_many(topic, sent)
        producer.flush(WAIT_S)
        counters = producer._dispatcher.counters
        assert (counters.errors, counters.retries) == ({}, 0)  # no set was refused and split
    there = stored_values(small, topic)
    assert there == sent
    agree(deliveries, sent, there)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_only_the_messages_too_large_by_themselves_fail(small, unique: Any, codec: str):
    topic = unique.topic(f"split-{codec}")
    small.create_topic(topic, partitions=1, replication=1)
    rng = random.Random(8)
    sent = [rng.randbytes(1000) for _ in range(300)]
    for at in (0, 100, 101, 299):
        sent[at] = rng.randbytes(MOST + 10_000)
    options = {"metadata.broker.list": small.brokers, "compression.codec": codec}  # and it thinks that a MB may go
    producer = Producer(options, hub="own")
    deliveries = producer.send_many(topic, sent)
    with pytest.raises(Exception, match=r"^4 messages were not stored; the first reason: .*MessageTooLarge"):
        producer.close(WAIT_S)
    failed = [n for n, delivery in enumerate(deliveries) if delivery.error is not None]
    assert failed == [0, 100, 101, 299]
    assert all(isinstance(deliveries[n].error, TooLarge) for n in failed)
    assert (producer.counts.acked, producer.counts.failed) == (296, 4)
    there = stored_values(small, topic)
    assert there == [value for n, value in enumerate(sent) if n not in failed]
    agree(deliveries, sent, there)


def test_the_jvm_reads_what_went_in_small_sets(small, unique: Any):
    topic = unique.topic("jvm")
    small.create_topic(topic, partitions=1, replication=1)
    rng = random.Random(9)
    sent = [b"%04d " % n + rng.randbytes(700).hex().encode() for n in range(300)]
    options = {"metadata.broker.list": small.brokers, "message.max.bytes": MOST}
    for codec in ("gzip", "snappy", "lz4"):
        with Producer({**options, "compression.codec": codec}, hub="own") as producer:
            producer.send_many(topic, sent).result(WAIT_S)
    with console_consumer(small, topic) as consumer:
        assert consumer.wait_for(900) == sent * 3
