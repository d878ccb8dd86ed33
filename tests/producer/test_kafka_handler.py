"""Logging into a topic: a log line never stops the program."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import pytest

from groundwork.options import OptionError
from kafkawire.errors import LocalError
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
    assert handler.failed == 0
    assert "QueueFull" in capsys.readouterr().err  # logging's own way to tell


def program(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", textwrap.dedent(text), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


def test_the_root_logger_is_held_up_by_no_broker_that_is_away():
    """The hub has much to log meanwhile, and comes by this handler, too."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    text = """
        import logging, sys, time
        from producer.logging import KafkaHandler
        logging.basicConfig(level=logging.INFO)
        handler = KafkaHandler({"metadata.broker.list": sys.argv[1], "retry.backoff.ms": 5}, "logs")
        logging.getLogger().addHandler(handler)
        longest = 0.0
        for n in range(100):
            began = time.monotonic()
            logging.getLogger("mine").info("line %d", n)
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.005)
        logging.getLogger("producer.mine").info("and this is ours")
        import producer.logging
        producer.logging.CLOSE_S = 0.5
        handler.close()
        print(longest < 1, handler.failed, handler.dropped)
    """
    done = program(text, address)
    assert (done.returncode, done.stdout) == (0, "True 100 0\n"), done.stderr
    assert "producer.dispatcher:no broker of the cluster answers" in done.stderr


def test_lines_are_stored_though_nobody_closes_the_handler():
    with FakeCluster({"logs": 1}) as cluster:
        text = """
            import logging, sys
            from producer.logging import KafkaHandler
            logging.basicConfig(level=logging.INFO)
            logging.getLogger().addHandler(KafkaHandler({"metadata.broker.list": sys.argv[1]}, "logs"))
            for n in range(100):
                logging.info("line %d", n)
        """
        done = program(text, ":".join(map(str, cluster.bootstrap[0])))
        assert done.returncode == 0
        assert "lost" not in done.stderr
        assert cluster.values("logs", 0) == [b"line %d" % n for n in range(100)]


def test_what_it_cannot_be_made_of_is_one_sentence_and_leaves_nothing_behind():
    with pytest.raises(LocalError, match=r"producer\.type must be async"):
        KafkaHandler({"metadata.broker.list": "b:9092", "producer.type": "sync"}, "logs")
    with pytest.raises(OptionError, match=r"metadata\.broker\.lst"):
        KafkaHandler({"metadata.broker.lst": "b:9092"}, "logs")
    logging.shutdown()  # knows of none that was half made


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
        for name in ("producer.connection", "kazoo.client", "producers", "mine"):
            handler.handle(logging.LogRecord(name, logging.INFO, "f", 1, "%s", (name,), None))
        handler.close()
        assert cluster.values("logs", 0) == [b"producers", b"mine"]
