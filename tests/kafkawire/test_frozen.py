"""A client that is stopped while it waits: a time-out counts only after another look at the socket."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from groundwork.sockets import GAP_S, LEAST_S, TimeLeft
from localkafka.certificates import Authority
from tests.children import started
from tests.fakes.broker import FakeCluster, Wait
from tests.fakes.front import Front, server_context

TIMEOUT_S = 2.0
CONNECTS = {
    "thread": "from groundwork.connecting import connect",
    "hub": "from groundwork.tasks import connect",
    "tls": """
from groundwork import tasks
from kafkawire.net.security import Security
from kafkawire.net.tls import Tls
connect = Security(protocol="SSL", tls=Tls(ca=sys.argv[3])).connect(tasks.connect)
""",
}
LINK = """
import signal, sys
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Link
from kafkawire.protocol import requests08 as requests
from tests.fakes.broker import entry
{connect}
signal.signal(signal.SIGUSR1, lambda *_: None)
port, timeout_s = int(sys.argv[1]), float(sys.argv[2])
tp = TopicPartition("t", 0)
link = Link(Broker(1, "127.0.0.1", port), "me", connect, int(timeout_s * 1000))
print(link.call(requests.produce(dialect("0.8.2"), 1, 1000, {{tp: [entry(b"v")]}}))[tp].stored)
"""
PRODUCER = """
import sys
import producer.config
from producer.config import ProducerConfig
from producer.producer import Producer
port, timeout_s = int(sys.argv[1]), float(sys.argv[2])
producer.config.RESPONSE_GRACE_MS = int(timeout_s * 1000) - 100
with Producer(ProducerConfig(brokers=(("127.0.0.1", port),), request_timeout_ms=100)) as sending:
    delivery = sending.send("t", b"v")
    delivery.result(30)
print(True)
"""


PROGRAMS = {name: LINK.format(connect=connect) for name, connect in CONNECTS.items()} | {"producer": PRODUCER}
each_program = pytest.mark.parametrize("name", PROGRAMS)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@contextmanager
def asking(
    cluster: FakeCluster, name: str, authority: Authority
) -> Iterator[tuple[subprocess.Popen[str], threading.Event]]:
    """A program whose produce request has come, and what lets the broker answer it."""
    answer = threading.Event()
    cluster.script("produce", Wait(answer))
    with ExitStack() as stack:
        port = cluster.ports[1]
        if name == "tls":
            context = server_context(authority.issue("server"))
            port = stack.enter_context(Front(port, context=context)).broker.port
        argv = [sys.executable, "-c", PROGRAMS[name], str(port), str(TIMEOUT_S), str(authority.certificate)]
        process = stack.enter_context(started(argv, stdout=subprocess.PIPE, text=True))
        try:
            cluster.wait(lambda: cluster.seen("produce"))
            yield process, answer
        finally:
            answer.set()


def stop(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGSTOP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


def go_on(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGCONT)


@pytest.mark.thorough
@each_program
def test_an_answer_that_came_in_time_counts_though_the_process_was_stopped(name: str, authority: Authority) -> None:
    with FakeCluster({"t": 1}) as cluster, asking(cluster, name, authority) as (process, answer):
        stop(process)
        if name == "thread":
            os.kill(process.pid, signal.SIGUSR1)  # interrupts the wait of a plain thread
        answer.set()
        cluster.wait(lambda: cluster.values("t", 0))
        time.sleep(TIMEOUT_S + 0.2)
        go_on(process)
        assert process.communicate(timeout=20)[0] == "True\n"
        assert len(cluster.seen("produce")) == 1


@pytest.mark.thorough
@each_program
def test_a_wait_begins_again_after_the_process_was_stopped(name: str, authority: Authority) -> None:
    with FakeCluster({"t": 1}) as cluster, asking(cluster, name, authority) as (process, answer):
        stop(process)
        time.sleep(TIMEOUT_S + GAP_S + 0.2)
        go_on(process)
        time.sleep(TIMEOUT_S / 2)
        answer.set()
        assert process.communicate(timeout=20)[0] == "True\n"
        assert len(cluster.seen("produce")) == 1


def test_time_counts_while_we_run_and_twice_the_limit_at_most() -> None:
    left = TimeLeft(2.5)
    assert left.slice_s == pytest.approx(2.5 / 3)
    for _ in range(2):
        left.waited(left.slice_s, left.slice_s)
        assert left.seconds > 0
    left.waited(left.slice_s + GAP_S - LEAST_S, left.slice_s)  # late, as on a machine that is busy
    assert left.seconds == 0

    left = TimeLeft(2.0)
    left.waited(1.0, 1.0)
    left.waited(60.0, 1.0)
    assert left.seconds == 2.0
    left.waited(1.0, 1.0)
    left.waited(60.0, 1.0)
    assert left.seconds == 0
