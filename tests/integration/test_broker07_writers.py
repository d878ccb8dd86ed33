"""Our producer on 0.7 brokers of both kinds that are killed under it: what it counts is what became of its messages."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from producer.errors import SendFailed
from producer.producer import Producer

pytestmark = [pytest.mark.real, pytest.mark.faults]


@contextmanager
def sending(producer: Producer, topic: str) -> Iterator[list[int]]:
    """A thread that sends numbers, some ten thousand a second; how many so far."""
    stop, sent = threading.Event(), [0]

    def run() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            producer.send(topic, b"%08d" % number)
            sent[0] = number + 1
            if number % 200 == 199:
                time.sleep(0.01)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(("confirm", "codec"), [("offsets", "gzip"), ("none", "none")])
def test_kills_lose_nothing_that_is_confirmed_and_no_more_than_is_counted(
    cluster07: Callable[..., Cluster07], unique: Any, confirm: str, codec: str
) -> None:
    cluster, topic = cluster07(partitions={0: 2, 1: 3}), unique.topic()
    cluster.create_topic(topic)
    options = {
        "zookeeper.connect": cluster.zookeeper,
        "kafka.version": "0.7.2",
        "confirm": confirm,
        "compression.codec": codec,
        "message.send.max.retries": -1,
        "reconnect.backoff.ms": 50,
        "retry.backoff.ms": 20,
    }
    with Producer(options, hub="own") as producer:
        with sending(producer, topic) as sent:
            for broker in (0, 1, 0, 1):
                before = sent[0]
                wait_until(lambda: sent[0] > before + 3000, 30, lambda: f"3000 more, {producer.counts}")  # noqa: B023
                cluster.node(broker).kill()
                cluster.node(broker).restart()
        with suppress(SendFailed):  # it tells what may be lost; the counts say more
            producer.flush(30)
        counts = producer.counts
    stored = Counter(value for values in cluster.values(topic).values() for value in values)
    lost = {b"%08d" % number for number in range(sent[0])} - stored.keys()
    assert (counts.sent, counts.failed, counts.pending) == (sent[0], 0, 0)
    assert len(lost) <= counts.maybe_lost, counts
    if confirm == "offsets":
        assert counts.maybe_lost == 0
        assert counts.unacknowledged == 0
