"""enable.idempotence on a real broker behind a proxy that loses its responses: what is sent again is stored once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from threading import Thread

import pytest

from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from producer import Producer
from tests.conftest import Unique
from tests.matrix.foreign import read_by_librdkafka

pytestmark = pytest.mark.real

MESSAGES, LOSSES, PARTITIONS = 12_000, 12, 4


def send_all(producer: Producer, topic: str, given: list[int]) -> None:
    """Send the messages, a few at a time, and count them in given[0]."""
    for n in range(MESSAGES):
        producer.send(topic, b"%06d" % n)
        given[0] += 1
        if n % 100 == 99:
            time.sleep(0.02)  # so that every loss meets some


def sent_through_losses(cluster: Cluster, topic: str, **options: object) -> tuple[Counter[bytes], int]:
    """Each message, with how often it is in the log; how many produce requests had no response."""
    proxy = cluster.node(0).proxy
    settings = {
        "metadata.broker.list": cluster.brokers, "kafka.version": "2.8", "message.send.max.retries": -1,
        "request.timeout.ms": 5000, "reconnect.backoff.ms": 50, "queue.buffering.max.ms": 1, "batch.num.messages": 50,
        **options,
    }  # fmt: skip
    with Producer(settings) as producer:
        producer.prepare(topic)
        given = [0]
        sending = Thread(target=send_all, args=(producer, topic, given), daemon=True)
        sending.start()  # beside the losses: while metadata is lost, too, send() waits
        for loss in range(LOSSES):
            wait_until(lambda loss=loss: given[0] >= loss * MESSAGES // LOSSES, 60, lambda: f"{given[0]} sent")
            proxy.blackhole("to_client")
            time.sleep(0.2)  # what is sent is stored meanwhile, and its response is not passed on
            proxy.reset()
            proxy.clear()
        sending.join(60)
        assert not sending.is_alive()
        producer.flush(60)
        counters = producer._snapshot().counters
        assert counters is not None
    return Counter(row[5] for row in read_by_librdkafka(cluster.brokers, [topic])), counters.unknown  # type: ignore[misc]


def test_lost_responses_cost_no_duplicates(own_cluster: Callable[..., Cluster], unique: Unique) -> None:
    cluster = own_cluster(version="2.8.2", brokers=1, proxied=True)
    numbered, plain = unique.topic("numbered"), unique.topic("plain")
    for topic in (numbered, plain):
        cluster.create_topic(topic, PARTITIONS)
    found, unknown = sent_through_losses(cluster, numbered)
    assert unknown >= LOSSES // 2
    assert (len(found), max(found.values())) == (MESSAGES, 1)
    found, unknown = sent_through_losses(cluster, plain, **{"enable.idempotence": False})
    assert unknown >= LOSSES // 2
    assert len(found) == MESSAGES
    assert max(found.values()) > 1, "the same faults, without numbers"
