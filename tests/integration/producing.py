"""A producer at full rate while leaders are killed, and what its log must look like afterwards."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from producer.producer import Producer
from tests.integration.sparktopics import simple

PARTITIONS = 4
RAN = 20_000  # messages acknowledged between two kills, at least
PATIENCE_S = 90.0
SAFE = {
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "log.segment.bytes": 8 << 20,  # a killed broker reads what it had not flushed before it comes back
    "log.flush.offset.checkpoint.interval.ms": 500,
}


@dataclass(slots=True)
class Rate:
    """One thread that sends numbers as fast as it can, to each partition in turn, until `enough` is set."""

    producer: Producer
    topic: str
    enough: threading.Event
    sent: int = 0

    def run(self) -> None:
        padding = b" " + b"x" * 80
        for number in itertools.count():
            if self.enough.is_set():
                return
            self.producer.send(self.topic, b"%09d" % (number // PARTITIONS) + padding, partition=number % PARTITIONS)
            self.sent = number + 1


def sent_while_leaders_die(cluster: Cluster, topic: str, kills: int) -> list[int]:
    """kill -9 who leads partition 0, so many times, under full rate; how many messages each partition was sent.

    Each time: enough is acknowledged since the last, all replicas are in sync; then the kill, acknowledgements from
    the brokers that are left, the restart.
    """
    cluster.create_topic(topic, partitions=PARTITIONS, replication=3)
    cluster.wait_in_sync(topic)
    options = {
        "metadata.broker.list": cluster.brokers,
        "request.required.acks": -1,
        "message.send.max.retries": -1,
        "request.timeout.ms": 5000,
        "reconnect.backoff.ms": 50,
        "retry.backoff.ms": 20,
    }
    with Producer(options, hub="own") as producer:
        rate = Rate(producer, topic, threading.Event())
        thread = threading.Thread(target=rate.run)
        thread.start()
        try:
            for _ in range(kills):
                more_acked(producer, RAN)
                leader = cluster.wait_leader(topic, 0)
                cluster.node(leader).kill()
                cluster.wait_leader(topic, 0, PATIENCE_S, other_than=leader)
                more_acked(producer, RAN)
                cluster.node(leader).restart(timeout_s=PATIENCE_S)
                cluster.wait_in_sync(topic, PATIENCE_S)
        finally:
            rate.enough.set()
            thread.join(PATIENCE_S)
        producer.flush(PATIENCE_S)
        counts = producer.counts
        assert (counts.sent, counts.acked, counts.failed) == (rate.sent, rate.sent, 0)
    return [len(range(partition, rate.sent, PARTITIONS)) for partition in range(PARTITIONS)]


def more_acked(producer: Producer, count: int) -> None:
    wanted = producer.counts.acked + count
    wait_until(lambda: producer.counts.acked >= wanted, PATIENCE_S, lambda: f"{wanted} acknowledged: {producer.counts}")


def numbers_in(cluster: ClusterClient, topic: str, partition: int) -> list[int]:
    """The numbers of a partition, in the order of its log."""
    tp = TopicPartition(topic, partition)
    found: list[int] = []
    with simple(cluster, tp) as consumer:
        at, end = consumer.earliest(tp), consumer.latest(tp)
        while at < end:
            fetched = consumer.fetch(topic, partition, at, 4 << 20)
            found += [int((message.value or b"")[:9]) for message in fetched.messages()]
            at = fetched.resume_at
    return found


def repeated(numbers: Sequence[int], count: int) -> int:
    """0 to count - 1, each at least once, in order; how many come again.

    What may come again is a whole request whose answer was lost: at most one is on its way to a partition, so the log
    goes back only from the newest number there is, and then on by one until it is past it.
    """
    newest = before = -1
    for number in numbers:
        assert number <= before + 1, f"{number} after {before}: something is missing between them, or out of order"
        assert number == before + 1 or before == newest, f"{number} after {before}, and {newest} was there before"
        newest, before = max(newest, number), number
    assert newest == count - 1, f"{count} were acknowledged, and the log ends with {newest}"
    assert before == newest, f"the log ends within what came again: {before}, and {newest} was there before"
    return len(numbers) - count


def check_log(cluster: ClusterClient, topic: str, counts: Sequence[int]) -> int:
    """Nothing is lost, and the order is kept; how many messages are there more than once."""
    return sum(repeated(numbers_in(cluster, topic, p), count) for p, count in enumerate(counts))
