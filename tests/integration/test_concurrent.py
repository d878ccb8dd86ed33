"""process(): a handler called by many workers, on a real broker (zkconsumer.concurrent.handlers)."""

from __future__ import annotations

import threading
import time
from collections import Counter

import gevent
import pytest

from groundwork.tasks import sleep
from kafkawire.model import TopicPartition
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until
from tests.integration.readers import committed, config
from zkconsumer.concurrent.handlers import Outcome, Retry, process
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerError

COUNT = 400


def fill(cluster, topic, partitions, codecs=(0, 1, 2)):
    cluster.create_topic(topic, partitions)
    load = Load(cluster.brokers, cluster.version)
    load.produce(topic, partitions, COUNT, Mixture(0.5, codecs), batch=20)
    load.close()


MIXTURES = [("own", "threads"), ("own", "greenlets"), ("caller", "greenlets"), ("caller", "threads")]
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
def test_one_message_that_is_stuck_holds_its_partition_and_no_other_and_is_not_committed(source, unique):
    topic, group = unique.topic(), unique.group()
    fill(source, topic, 2)
    seen, release = Counter(), threading.Event()

    def handle(message):
        if (message.partition, message.offset) == (0, 7):
            release.wait(30)
        seen[message.partition, message.offset] += 1

    half = COUNT // 2
    with Running(connector(source, group, auto_commit_interval_ms=100), handle, topic, max_unfinished=10) as run:
        wait_until(lambda: sum(p == 1 for p, _ in list(seen)) == half, 30, lambda: f"all of partition 1: {len(seen)}")
        wait_until(lambda: committed(source, group, topic) == {0: 7, 1: half}, 10, lambda: "what is before it")
        assert max(offset for p, offset in seen if p == 0) <= 7 + 10
        release.set()
        wait_until(lambda: len(seen) == COUNT, 30, lambda: f"all of it: {len(seen)}")
        run.stop()
    assert set(seen.values()) == {1}
    assert committed(source, group, topic) == {0: half, 1: half}


@pytest.mark.real
def test_what_a_handler_answers_is_done(source, unique):
    """A failure and a Retry come again, PARK holds the partition there, STOP ends all without counting its message."""
    topic, group = unique.topic(), unique.group()
    fill(source, topic, 3, (0,))
    tries, parked, stop = Counter(), threading.Event(), threading.Event()

    def handle(message):
        at = (message.partition, message.offset)
        tries[at] += 1
        if at == (0, 3) and tries[at] < 3:
            raise OSError("the other side is down")
        if at == (0, 4) and tries[at] < 2:
            return Retry(after_ms=50)
        if at == (1, 5):
            parked.set()
            return Outcome.PARK
        if at == (2, 100) and stop.wait(30):
            return Outcome.STOP
        return Outcome.DONE

    with Running(connector(source, group), handle, topic) as run:
        wait_until(parked.is_set, 30, lambda: "parked")
        wait_until(lambda: run.connector.status(), 10, lambda: "rows")
        wait_until(lambda: _parked(run.connector, topic) is not None, 10, lambda: "the reason in the status")
        assert _parked(run.connector, topic) == f"{topic}/1 at 5: parked by its handler"
        wait_until(lambda: tries[0, 3] == 3, 30, lambda: "tried until it succeeds")
        stop.set()
        wait_until(lambda: not run.running, 20, lambda: "stopped by the handler")
        assert run.error is None
    assert (tries[0, 3], tries[0, 4]) == (3, 2)
    at = committed(source, group, topic)
    assert (at[1], at[2]) == (5, 100)


def _parked(connector, topic):
    return {row.tp: row.parked for row in connector.status()}.get(TopicPartition(topic, 1))


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


@pytest.mark.real
def test_a_handler_that_never_works_is_a_few_lines_of_the_log_and_nothing_is_committed(source, unique, caplog):
    topic, group = unique.topic(), unique.group()
    fill(source, topic, 2)
    tries = Counter()

    def fails(message):
        tries[message.partition] += 1
        return message.nothing_of_that_name

    with Running(connector(source, group), fails, topic, workers=4) as running:
        wait_until(lambda: sum(tries.values()) > 2 * COUNT, 30, lambda: f"every message tried twice: {tries}")
        running.stop()
    ours = [record for record in caplog.records if record.name == "zkconsumer.concurrent.handlers"]
    assert caplog.text.count("Traceback") == 1
    assert len(ours) < 10, [record.getMessage() for record in ours]
    assert "the handler raised AttributeError" in ours[-1].getMessage()
    assert " times more, at last " in ours[-1].getMessage()
    assert committed(source, group, topic) in ({}, {0: 0, 1: 0})
