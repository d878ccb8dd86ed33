"""All messages of a key reach one stream of a consumer, in the order they were sent, also behind a mirror."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from localkafka.client import ClusterClient
from producer.producer import Producer
from tests.integration.mirroring import Mirror
from zkconsumer.connector import ConsumerConnector
from zkconsumer.streams.stream import Stream

pytestmark = pytest.mark.real
KEYS = [b"customer %d" % n for n in range(30)] + ["Zo\u00eb \U0001f600".encode(), b""]
EACH = 60
WAIT_S = 40.0


def send(cluster: ClusterClient, topic: str) -> None:
    options = {"metadata.broker.list": cluster.brokers, "compression.codec": "gzip", "queue.buffering.max.ms": 1}
    with Producer(options, hub="own") as producer:
        for n in range(EACH):
            for key in KEYS:
                producer.send(topic, b"%d" % n, key)


def read(cluster: ClusterClient, topic: str, group: str) -> list[dict[bytes | None, list[int]]]:
    """What each of three streams of one consumer got, by key."""
    options = {
        "zookeeper.connect": cluster.zookeeper,
        "group.id": group,
        "auto.offset.reset": "smallest",
        "consumer.timeout.ms": int(WAIT_S * 1000),
    }
    got: list[dict[bytes | None, list[int]]] = [{} for _ in range(3)]
    left, every = [len(KEYS) * EACH], threading.Event()

    def run(stream: Stream, mine: dict[bytes | None, list[int]]) -> None:
        for message in stream:
            mine.setdefault(message.key, []).append(int(message.value))
            left[0] -= 1
            if not left[0]:
                every.set()

    with ConsumerConnector(options, hub="own") as connector:
        streams = connector.create_message_streams({topic: 3})[topic]
        threads = [threading.Thread(target=run, args=pair) for pair in zip(streams, got, strict=True)]
        for thread in threads:
            thread.start()
        assert every.wait(WAIT_S), f"{left[0]} messages have not come"
    for thread in threads:
        thread.join(WAIT_S)
    return got


def check(got: list[dict[bytes | None, list[int]]]) -> None:
    assert sum(len(mine) for mine in got) == len(KEYS)  # no key in two streams
    assert {key: numbers for mine in got for key, numbers in mine.items()} == {key: list(range(EACH)) for key in KEYS}
    assert sum(bool(mine) for mine in got) > 1


def test_all_messages_of_a_key_reach_one_stream_in_order(source: ClusterClient, unique: Any):
    topic = unique.topic("keys")
    source.create_topic(topic, partitions=4)
    send(source, topic)
    check(read(source, topic, unique.group()))


@pytest.mark.parametrize("partitioning", ["identity", "key"])
def test_so_they_do_behind_a_mirror(
    source: ClusterClient, target: ClusterClient, unique: Any, tmp_path: Path, partitioning: str
):
    topic = unique.topic(partitioning)
    source.create_topic(topic, partitions=4)
    target.create_topic(topic, partitions=4 if partitioning == "identity" else 3)
    with Mirror(tmp_path, source, target, unique.group("mirror"), topic, {"partitioning": partitioning}) as mirror:
        send(source, topic)
        mirror.wait_arrived(topic, len(KEYS) * EACH, WAIT_S)
        check(read(target, topic, unique.group()))
        assert mirror.stop()[0] == 0
