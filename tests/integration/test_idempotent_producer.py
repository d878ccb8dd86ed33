"""enable.idempotence on brokers that are deposed, or whose responses are lost: what is sent again is stored once."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from threading import Semaphore, Thread

import pytest

from kafkawire.batchseal import sealed
from kafkawire.cluster import topics
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Link
from kafkawire.net.links import Links
from kafkawire.protocol.request import ProducedPartition, Request
from kafkawire.protocol.transactionrequests import Initialized, init_producer_id
from localkafka import ports
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from producer import Producer
from producer.verdicts import unknown_outcome
from tests.conftest import Unique
from tests.matrix.foreign import read_by_librdkafka

pytestmark = pytest.mark.real

MESSAGES, PARTS, PARTITIONS = 12_000, 12, 4
LOSSES = PARTS - 1  # the first part makes the connection


def send_all(producer: Producer, topic: str, losses: Semaphore, given: list[int]) -> None:
    """Send the messages, a few at a time, the next part once there is a loss for it; count them in given[0]."""
    for n in range(MESSAGES):
        if n % (MESSAGES // PARTS) == 0:
            losses.acquire()
        producer.send(topic, b"%06d" % n)
        given[0] += 1
        if n % 100 == 99:
            time.sleep(0.02)  # so that every loss meets some


def stored_bytes(cluster: Cluster, topic: str) -> int:
    files = (file for partition in range(PARTITIONS) for file in cluster.node(0).segments(topic, partition))
    return sum(file.stat().st_size for file in files)


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
        losses, given = Semaphore(1), [0]
        sending = Thread(target=send_all, args=(producer, topic, losses, given), daemon=True)
        sending.start()  # beside the losses: while metadata is lost, too, send() waits
        for part in range(1, PARTS):
            wait_until(lambda part=part: given[0] == part * (MESSAGES // PARTS), 60, lambda: f"{given[0]} sent")
            producer.flush(60)  # all before is answered, and the connection is there
            proxy.blackhole("to_client")
            before = stored_bytes(cluster, topic)
            losses.release()
            # What is stored from now on has no response.
            wait_until(lambda before=before: stored_bytes(cluster, topic) > before, 60, "a batch to be stored")
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
    assert unknown >= LOSSES
    assert (len(found), max(found.values())) == (MESSAGES, 1)
    found, unknown = sent_through_losses(cluster, plain, **{"enable.idempotence": False})
    assert unknown >= LOSSES
    assert len(found) == MESSAGES
    assert max(found.values()) > 1, "the same faults, without numbers"


ASKED_S = 20  # of the produce request; the leader answers long before


@pytest.mark.faults  # what Kafka does; tests/producer/test_sequences.py has what follows from it
def test_a_leader_that_is_deposed_while_it_waits_for_replicas_names_the_offset_of_what_it_appended(
    own_cluster: Callable[..., Cluster], unique: Unique
) -> None:
    """Its 6 beside an offset: the next leader has the batch, acknowledges a copy, and takes another batch with the same
    numbers for one."""
    settings = {"replica.lag.time.max.ms": 60_000, "auto.leader.rebalance.enable": "false"}  # the ISR stays as it is
    cluster = own_cluster(version="2.8.2", brokers=3, settings=settings)
    topic, speaks, zk = unique.topic(), dialect("2.8"), cluster.registry().zk
    tp = TopicPartition(topic, 0)
    controller = cluster.registry().controller()
    stopped, following, leading = sorted(range(3), key=lambda broker: broker == controller)  # never stop the controller
    topics.create(zk, topic, {0: [leading, following, stopped]}, {})
    cluster.wait_in_sync(topic)
    preferring = [{"topic": topic, "partition": 0, "replicas": [following, leading, stopped]}]
    zk.create("/admin/reassign_partitions", json.dumps({"version": 1, "partitions": preferring}).encode())
    wait_until(lambda: not zk.exists("/admin/reassign_partitions"), 30, "the order of the replicas")
    cluster.wait_in_sync(topic)
    assert cluster.wait_leader(topic, 0) == leading

    brokers = {node.id: Broker(node.id, ports.HOST, node.port) for node in cluster.nodes}
    links = Links("deposed", timeout_ms=2 * ASKED_S * 1000)
    first = links.link(brokers[leading], "produce")
    initialized: Initialized = first.call(init_producer_id(speaks, None, 60_000))
    assert not initialized.error

    def numbered(value: bytes, sequence: int) -> Request[dict[TopicPartition, ProducedPartition]]:
        entries = speaks.messages.encode([(0, None, value, None)], 0, 2)
        buffers, _ = sealed(entries, initialized.producer, sequence)
        return speaks.requests.produce(speaks, -1, ASKED_S * 1000, {tp: buffers}, 2)

    def size_on(broker: int) -> int:
        return sum(file.stat().st_size for file in cluster.node(broker).segments(topic, 0))

    def answer_of(link: Link, request: Request[dict[TopicPartition, ProducedPartition]]) -> tuple[int, int]:
        answer = link.call(request)[tp]
        return answer.error, answer.base_offset

    try:
        assert answer_of(first, numbered(b"before", 0)) == (0, 0)
        before = size_on(following)
        cluster.node(stopped).pause()
        first.send(numbered(b"deposed", 1))
        wait_until(lambda: size_on(following) > before, 10, "the following broker to have a copy")
        sent_at = time.monotonic()
        elected = {"version": 1, "partitions": [{"topic": topic, "partition": 0}]}
        zk.create("/admin/preferred_replica_election", json.dumps(elected).encode())
        answer = first.receive().body[tp]
        assert time.monotonic() - sent_at < ASKED_S / 2
        assert (answer.error, answer.base_offset) == (6, 1)
        assert unknown_outcome(answer)
        assert answer_of(first, numbered(b"deposed", 1)) == (6, -1), "it appends nothing now"

        cluster.node(stopped).resume()
        second = links.link(brokers[following], "produce")
        assert answer_of(second, numbered(b"deposed", 1)) == (0, 1), "the next leader had it"
        assert answer_of(second, numbered(b"another", 1)) == (0, 1), "taken for a copy"
    finally:
        links.close()
    assert [row[5] for row in read_by_librdkafka(cluster.brokers, [topic])] == [b"before", b"deposed"]
