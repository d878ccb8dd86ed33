"""The producer in a program of ordinary threads, and in a gevent program, on real brokers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from localkafka.client import ClusterClient
from tests.integration.sparktopics import everything

pytestmark = pytest.mark.real

THREADS = """
import json, sys, threading
from producer.producer import Producer

brokers, topic = sys.argv[1:]
with Producer({"metadata.broker.list": brokers, "compression.codec": "snappy"}) as producer:
    deliveries = [[] for _ in range(8)]

    def send(mine: int) -> None:
        for n in range(2500):
            deliveries[mine].append(producer.send(topic, b"%d" % n, key=b"thread %d" % mine))

    threads = [threading.Thread(target=send, args=(mine,)) for mine in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush(60)
    offsets = [[d.result(0).offset for d in each] for each in deliveries]
    counts = producer.counts
print(json.dumps({"ascending": all(o == sorted(o) for o in offsets), "acked": counts.acked, "sent": counts.sent}))
"""

LOGGING = """
import logging, sys
from producer.logging import KafkaHandler

brokers, topic = sys.argv[1:]
logging.basicConfig(level=logging.INFO)
logging.getLogger().addHandler(KafkaHandler({"metadata.broker.list": brokers}, topic))
for n in range(1000):
    logging.info("line %d", n)
"""

GEVENT = """
from gevent import monkey
monkey.patch_all()
import json, sys, threading
import gevent
from producer.producer import Producer

brokers, topic = sys.argv[1:]
ticks = 0

def tick() -> None:
    global ticks
    while True:
        gevent.sleep(0.002)
        ticks += 1

ticking = gevent.spawn(tick)
heard = []
with Producer({"metadata.broker.list": brokers}, on_delivery=lambda d: heard.append(threading.get_ident())) as producer:
    offsets = {}

    def send(mine: int) -> None:
        sent = []
        for n in range(1000):
            sent.append(producer.send(topic, b"%d" % n, key=b"thread %d" % mine))
            if n % 100 == 99:
                sent[-1].result(30)
        offsets[mine] = [d.result(30).offset for d in sent]

    for each in [gevent.spawn(send, mine) for mine in range(8)]:
        each.get(60)
    counts = producer.counts
ticking.kill()
print(json.dumps({
    "ascending": all(o == sorted(o) for o in offsets.values()), "acked": counts.acked, "sent": counts.sent,
    "heard": len(heard), "threads": len(set(heard)), "ticks": ticks,
}))
"""


def run(program: str, cluster: ClusterClient, topic: str) -> dict[str, Any]:
    command = [sys.executable, "-c", program, cluster.brokers, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def in_order(cluster: ClusterClient, topic: str, each: int) -> bool:
    """Whether the messages of each key stand in one partition, all of them, in the order they were sent."""
    by_key: dict[bytes | None, list[tuple[int, int]]] = {}
    for partition, messages in everything(cluster, topic).items():
        for _, key, value in messages:
            by_key.setdefault(key, []).append((partition, int(value or b"")))
    homes = [{partition for partition, _ in found} for found in by_key.values()]
    numbers = [[number for _, number in found] for found in by_key.values()]
    return len(by_key) == 8 and all(len(h) == 1 for h in homes) and numbers == [list(range(each))] * 8


def test_eight_ordinary_threads_send(target: ClusterClient, unique: Any):
    topic = unique.topic("threads")
    target.create_topic(topic, partitions=3)
    assert run(THREADS, target, topic) == {"ascending": True, "acked": 20_000, "sent": 20_000}
    assert in_order(target, topic, 2500)


def test_a_gevent_program_sends_and_its_other_greenlets_go_on(target: ClusterClient, unique: Any):
    topic = unique.topic("gevent")
    target.create_topic(topic, partitions=3)
    found = run(GEVENT, target, topic)
    assert found.pop("ticks") > 5
    assert found == {"ascending": True, "acked": 8000, "sent": 8000, "heard": 8000, "threads": 1}
    assert in_order(target, topic, 1000)


def test_a_program_that_logs_into_a_topic_and_ends_has_all_of_its_lines_there_in_order(
    target: ClusterClient, unique: Any
):
    topic = unique.topic("logs")
    target.create_topic(topic, partitions=3)
    command = [sys.executable, "-c", LOGGING, target.brokers, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr.count("INFO:root:line"), "lost" in done.stderr) == (0, 1000, False)
    (lines,) = (messages for messages in everything(target, topic).values() if messages)  # one logger, one key
    assert [value for _, _, value in lines] == [b"line %d" % n for n in range(1000)]
