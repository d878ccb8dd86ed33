"""Handlers that compute for long, in pure Python: neither the session nor the other streams of a connector suffer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt
from tests.integration.laps import beside_a_busy_handler, fill
from tests.integration.readers import Reader

pytestmark = pytest.mark.real

SESSION_MS = 6000
PARTITIONS = 1000


def test_a_handler_that_computes_for_ten_seconds_costs_no_session_and_starves_no_other_stream(source, unique):
    topic = unique.topic()
    end = fill(source, topic)
    told = beside_a_busy_handler(source, unique.group(), topic, end, SESSION_MS, "computes", "messages", 10)
    print(f"other stream: {told['quiet']:,.0f} messages/s, beside the busy handler {told['beside']:,.0f}")
    assert told["states"] == ["connected"], told
    assert not [text for text in told["told"] if "could not run for" in text or "others may own" in text], told
    assert told["offsets"] == [0, 1]
    assert told["beside"] >= told["quiet"] / 10, told  # half, on a machine that does nothing else: tests/faults


@pytest.fixture
def planted(zk_server: ZooKeeperAt, unique) -> Iterator[str]:
    """A ZooKeeper below a chroot, with a topic of 1,000 partitions and no broker."""
    with_root = KazooClient(hosts=zk_server.connect, timeout=10)
    with_root.start(timeout=10)
    node = {"version": 1, "partitions": {str(p): [0] for p in range(PARTITIONS)}}
    with_root.create(f"{unique.chroot}/brokers/topics/t", json.dumps(node).encode(), makepath=True)
    with_root.ensure_path(f"{unique.chroot}/brokers/ids")
    yield zk_server.connect + unique.chroot
    with_root.delete(unique.chroot, recursive=True)
    with_root.stop()
    with_root.close()


@pytest.mark.faults  # a time, of a machine that does nothing else: make faults runs one test at a time
def test_a_thousand_partitions_are_claimed_and_started_within_five_seconds_beside_one_that_computes(planted, unique):
    enough = threading.Event()
    options = {  # without a broker all leaders are looked for again and again: not what is measured here
        "zookeeper_session_timeout_ms": SESSION_MS,
        "refresh_leader_backoff_ms": 5000,
    }

    def compute() -> None:
        n = 0
        while not enough.is_set():
            n += 1

    handler = threading.Thread(target=compute, name="busy handler", daemon=True)
    handler.start()
    try:
        began = time.monotonic()
        with Reader(planted, unique.group(), {"t": 1}, **options) as reader:
            wait_until(lambda: reader.connector.settled, 20, lambda: f"all of them: {reader.events}", every_s=0.1)
            took_s = time.monotonic() - began
            enough.set()
            assert len(reader.owns()) == PARTITIONS
            began = time.monotonic()
            reader.stop()
            left_s = time.monotonic() - began
            assert not reader.fenced_at
    finally:
        enough.set()
        handler.join(5)
    print(f"{PARTITIONS} partitions claimed beside a busy handler in {took_s:.2f} s, left in {left_s:.2f} s")
    assert took_s <= 5
    assert left_s <= 5
