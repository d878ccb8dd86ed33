"""process(): a handler called by many workers, on a real broker (zkconsumer.concurrent.handlers)."""

from __future__ import annotations

import threading
import time
from collections import Counter

import gevent
import pytest

from groundwork.tasks import sleep
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until
from tests.integration.readers import committed, config
from zkconsumer.concurrent.handlers import process
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerError

COUNT = 400


def fill(cluster, topic, partitions, codecs=(0, 1, 2)):
    cluster.create_topic(topic, partitions)
    load = Load(cluster.brokers, cluster.version)
    load.produce(topic, partitions, COUNT, Mixture(0.5, codecs), batch=20)
    load.close()


# The other two mixtures run without a broker in tests/zkconsumer/test_concurrent.py.
MIXTURES = [("own", "threads"), ("caller", "greenlets")]
everywhere = pytest.mark.parametrize(("hub", "kind"), MIXTURES, ids=lambda one: one)


def connector(source, group, hub="own", **options):
    return ConsumerConnector(config(source.zookeeper, group, delivery="on-ack", **options), hub)


class Running:
    """process in a thread of its own, whose hub is the caller's hub."""

    def __init__(self, made, handler, topic, **options):
        self.connector = made
        self.error = None
        self._thread = threading.Thread(target=self._run, args=(handler, topic, options), daemon=True)
        self._thread.start()

    def _run(self, handler, topic, options):
        try:
            process(self.connector, handler, {topic: 1}, **options)
        except BaseException as e:
            self.error = e
        gevent.get_hub().destroy(destroy_loop=True)

    @property
    def running(self):
        return self._thread.is_alive()

    def stop(self):
        self.connector.shutdown()
        self._thread.join(15)
        assert not self.running
        assert self.error is None, self.error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connector.shutdown()


def test_a_connector_that_counts_messages_as_done_by_itself_is_refused():
    plain = ConsumerConnector(config("127.0.0.1:1", "g"), "own")
    with pytest.raises(ConsumerError, match=r"option 'delivery' is 'at-least-once': .* need 'on-ack'"):
        process(plain, lambda message: None, {"t": 1})


@pytest.mark.real
@everywhere
def test_workers_share_the_messages_and_all_is_committed_at_the_end(source, unique, hub, kind):
    topic, group = unique.topic(), unique.group()
    fill(source, topic, 4)
    seen, workers, wait = Counter(), set(), sleep if kind == "greenlets" else time.sleep

    def handle(message):
        wait(0.002)  # a handler that waits for something
        seen[message.partition, message.offset] += 1
        workers.add(gevent.getcurrent())

    with Running(connector(source, group, hub), handle, topic, workers=8, worker_kind=kind) as run:
        wait_until(lambda: len(seen) == COUNT, 30, lambda: f"{COUNT} messages, have {len(seen)}")
        run.stop()
    assert set(seen.values()) == {1}
    assert len(workers) == 8
    ends = Counter(partition for partition, _ in seen)
    assert committed(source, group, topic) == dict(ends)


@pytest.mark.real
@pytest.mark.parametrize(("hub", "kind"), [("own", "threads"), ("caller", "greenlets")])
def test_partitions_that_move_between_two_processes_lose_nothing_and_repeat_nothing_after_a_clean_move(
    source, unique, hub, kind
):
    topic, group = unique.topic(), unique.group()
    fill(source, topic, 4)
    seen, lock, wait = Counter(), threading.Lock(), sleep if kind == "greenlets" else time.sleep

    def handle(message):
        wait(0.01)
        with lock:
            seen[message.partition, message.offset] += 1

    quick = {"rebalance_backoff_ms": 3000}
    with (
        Running(connector(source, group, hub, **quick), handle, topic, workers=2, worker_kind=kind) as first,
        Running(connector(source, group, hub, **quick), handle, topic, workers=2, worker_kind=kind) as second,
    ):
        wait_until(lambda: len(seen) > COUNT // 4, 30, lambda: f"under way: {len(seen)}")
        first.stop()
        wait_until(lambda: len(seen) == COUNT, 30, lambda: f"all of it: {len(seen)}")
        second.stop()
    assert set(seen.values()) == {1}
