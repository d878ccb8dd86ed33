"""Logging into a topic: a log line never stops the program."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from producer.config import ProducerConfig
from producer.logging import KafkaHandler
from tests.fakes.broker import Fail, FakeCluster, Wait


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """One of its own, that nobody else hears."""
    made = logging.getLogger("test-kafka-handler")
    made.propagate = False
    made.setLevel(logging.INFO)
    yield made
    for handler in list(made.handlers):
        made.removeHandler(handler)


def test_lines_arrive_formatted_with_the_logger_as_key(logger: logging.Logger):
    with FakeCluster({"logs": 3}) as cluster:
        handler = KafkaHandler({"metadata.broker.list": ",".join(f"{h}:{p}" for h, p in cluster.bootstrap)}, "logs")
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger.addHandler(handler)
        for n in range(20):
            logger.info("line %d: é", n)
        handler.close()
        stored = [message for p in range(3) for message in cluster.messages("logs", p)]
        assert [value for _, _, value in stored] == [f"INFO line {n}: é".encode() for n in range(20)]
        assert {key for _, key, _ in stored} == {b"test-kafka-handler"}


def test_a_full_queue_drops_lines_and_counts_them_and_never_waits(logger: logging.Logger, capsys):
    release = threading.Event()
    with FakeCluster({"logs": 1}) as cluster:
        cluster.script("produce", Wait(release))
        config = ProducerConfig(brokers=tuple(cluster.bootstrap), queue_messages=2, batch_messages=1)
        handler = KafkaHandler(config, "logs")
        logger.addHandler(handler)
        for n in range(5):
            logger.info("line %d", n)
        assert handler.dropped == 3
        release.set()
        handler.close()
        assert cluster.values("logs", 0) == [b"line 0", b"line 1"]
    assert "QueueFull" in capsys.readouterr().err  # logging's own way to tell


def test_what_is_not_stored_is_counted(logger: logging.Logger):
    with FakeCluster({"logs": 1}) as cluster:
        cluster.script("produce", Fail(7))
        handler = KafkaHandler(ProducerConfig(brokers=tuple(cluster.bootstrap), retries=0), "logs")
        logger.addHandler(handler)
        logger.info("lost")
        handler.flush()
        handler.close()
        assert (handler.failed, handler.dropped) == (1, 0)


def test_lines_about_the_producer_itself_do_not_go_through_it(logger: logging.Logger):
    with FakeCluster({"logs": 1}) as cluster:
        handler = KafkaHandler(ProducerConfig(brokers=tuple(cluster.bootstrap)), "logs")
        for name in ("producer.lane", "kazoo.client", "producers", "mine"):
            handler.handle(logging.LogRecord(name, logging.INFO, "f", 1, "%s", (name,), None))
        handler.close()
        assert cluster.values("logs", 0) == [b"producers", b"mine"]
