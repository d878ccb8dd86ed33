"""zkproducer as a child process on the fake cluster: what it sends, what it says, how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.fakes.broker import FakeCluster

MAIN = "from producer.console import main; main()"
COMMAND = [sys.executable, "-c", MAIN]
# A shell lets what it starts in the background, these tests perhaps, ignore ctrl-C.
HEARS_CTRL_C = [
    sys.executable,
    "-c",
    f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {MAIN}",
]


def zkproducer(cluster: FakeCluster, *arguments: str, lines: bytes) -> subprocess.CompletedProcess[bytes]:
    brokers = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)
    command = [*COMMAND, "--broker-list", brokers, *arguments]
    return subprocess.run(command, input=lines, capture_output=True, timeout=30)


def test_each_line_is_a_message_of_bytes():
    lines = [b"one", b"", b"\xff\xfe not text", b"last without an end"]
    with FakeCluster({"t": 1}) as cluster:
        done = zkproducer(cluster, "--topic", "t", lines=b"one\r\n\n\xff\xfe not text\nlast without an end")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert cluster.messages("t", 0) == [(n, None, line) for n, line in enumerate(lines)]


def test_key_separator_and_codec():
    with FakeCluster({"t": 1}) as cluster:
        arguments = ("--topic", "t", "--key-separator", "::", "--compression-codec", "gzip")
        done = zkproducer(cluster, *arguments, lines=b"k1::v1\nnothing\nk2::v::2\n")
        assert done.returncode == 1
        assert done.stderr == b"zkproducer: line 2 has no key separator '::'; not sent\n"
        assert cluster.messages("t", 0) == [(0, b"k1", b"v1"), (1, b"k2", b"v::2")]
        assert all(data[17] == 1 for seen in cluster.seen("produce") for data in seen.body["sets"].values())


def test_a_line_that_is_too_large_is_named_and_the_others_are_sent():
    with FakeCluster({"t": 1}) as cluster:
        lines = b"a\n" + b"x" * 5000 + b"\nb\n"
        done = zkproducer(cluster, "--topic", "t", "--message-max-bytes", "2000", lines=lines)
        assert done.returncode == 1
        assert b"line 2: t: a message of 5026 bytes is larger than message.max.bytes (2000); not sent" in done.stderr
        assert cluster.values("t", 0) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--topic", "nowhere"], 5, "topic nowhere: UnknownTopicOrPartition (3)"),
        (["--topic", "t", "--compression-codec", "zip"], 2, "none, gzip, snappy, lz4"),
        (["--topic", "t", "--key-separator", ""], 2, "--key-separator is empty"),
        (["--topic", "t", "--request-required-acks", "2"], 2, "request.required.acks"),
        ([], 2, "--topic"),
    ],
)
def test_a_wrong_call_ends_with_its_exit_code_and_a_sentence(arguments: list[str], code: int, said: str):
    with FakeCluster({"t": 1}) as cluster:
        done = zkproducer(cluster, *arguments, lines=b"v\n")
        assert (done.returncode, said in done.stderr.decode()) == (code, True), done.stderr
        assert b"Traceback" not in done.stderr


def test_no_broker_is_exit_1_with_a_sentence():
    with FakeCluster({"t": 1}) as cluster:
        cluster.stop(1)
        done = zkproducer(cluster, "--topic", "t", lines=b"v\n")
        assert done.returncode == 1
        address = ":".join(map(str, cluster.bootstrap[0]))
        assert f"no broker of the cluster answers: {address}: " in done.stderr.decode()
        assert b"Traceback" not in done.stderr


def test_ctrl_c_sends_what_was_read():
    with FakeCluster({"t": 1}) as cluster:
        address = ":".join(map(str, cluster.bootstrap[0]))
        options: dict[str, Any] = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
        child = subprocess.Popen([*HEARS_CTRL_C, "--broker-list", address, "--topic", "t"], **options)
        too_long = threading.Timer(30, child.kill)
        too_long.start()
        os.write(child.stdin.fileno(), b"one\ntwo\n")
        cluster.wait(lambda: cluster.seen("produce"))
        child.send_signal(signal.SIGINT)
        said = child.stderr.readline()
        _, more = child.communicate(timeout=30)
        too_long.cancel()
        assert (child.returncode, said + more) == (0, b"interrupted: sending what was read\n")
        assert cluster.values("t", 0) == [b"one", b"two"]
