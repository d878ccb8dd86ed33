"""zkproducer as a child process on the fake cluster: what it sends, what it says, how it ends."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

import pytest
from click.testing import CliRunner

from producer.config import ProducerConfig
from producer.console import _send, main, run
from producer.producer import Producer
from tests import children
from tests.fakes.broker import Fail, FakeCluster, Wait
from tests.terminals import leave, terminal

pytestmark = pytest.mark.thorough  # a process for each

MAIN = "from producer.console import main; main()"
COMMAND = [sys.executable, "-c", MAIN]


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


def test_a_topic_that_is_nowhere_ends_with_its_exit_code_and_a_sentence():
    with FakeCluster({"t": 1}) as cluster:
        done = zkproducer(cluster, "--topic", "nowhere", lines=b"v\n")
        assert (done.returncode, b"topic nowhere: UnknownTopicOrPartition (3)" in done.stderr) == (5, True), done.stderr
        assert b"Traceback" not in done.stderr


def wrong_call(*arguments: str) -> str:
    """What is said of a command line that is refused before anything is connected to; so in this process."""
    done = CliRunner().invoke(main, arguments, input=b"v\n")
    assert (done.exit_code, type(done.exception)) == (2, SystemExit), done.output
    assert "\nTry 'zkproducer --help' for help.\n\nError: " in done.output
    return done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topic", "t", "--compression-codec", "zip"], "none, gzip, snappy, lz4"),
        (["--topic", "t", "--key-separator", ""], "--key-separator is empty"),
        (["--topic", "t", "--request-required-acks", "two"], "request.required.acks"),
        ([], "--topic"),
        (["--topic", "a/b"], "topic 'a/b': a name has letters"),
        (
            ["--topic", "t", "--zookeeper", "z:2181"],
            "--broker-list and --zookeeper are two ways to find the brokers",
        ),
        (["--topic", "t", "--property", "zookeeper.connect=z:2181"], "two ways to find the brokers"),
        (["--topic", "t", "--property", "linger.ms=5"], "here: queue.buffering.max.ms"),
        (["--topic", "t", "--property", "queue.time"], "--property takes NAME=VALUE, not 'queue.time'"),
        (["--topic", "t", "--sync", "--property", "producer.type=async"], "producer.type is given twice: by --sync"),
        (["--topic", "t", "--property", "a=1", "--property", "a=2"], "--property a is given twice"),
        (
            ["--topic", "t", "--partitioner", "nowhere:at_all"],
            "partitioner.class 'nowhere:at_all': importing nowhere",
        ),
        (["--topic", "t", "--key-separator", ":", "--property", "parse.key=true"], "give either --key-separator or"),
        (["--topic", "t", "--property", "parse.key=yes"], "parse.key is 'yes', expected true or false"),
    ],
)
def test_a_wrong_call_ends_with_its_exit_code_and_a_sentence(arguments: list[str], said: str):
    assert said in wrong_call("--broker-list", "broker-of-nobody:9092", *arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topic", "t"], "give --broker-list (or its other name --bootstrap-server), or --zookeeper"),
        (["--topic", "t", "--broker-list", "h1"], "'h1' is not host:port"),
        (["--topic", "t", "--broker-list", "h1:x"], "port 'x'"),
        (["--topic", "t", "--bootstrap-server", "h1:x"], "port 'x'"),
        (["--topic", "t", "--broker-lis", "h1:1"], "Did you mean '--broker-list'?"),
        (["--topic", "t", "--broker-list", "h1:1", "--reader-property", "parse.key=x"], "parse.key is 'x'"),
    ],
)
def test_without_a_way_to_the_brokers_it_is_a_wrong_call(arguments: list[str], said: str):
    assert said in wrong_call(*arguments)


def test_options_of_the_producer_and_of_the_jvms_line_reader_are_properties():
    with FakeCluster({"t": 1}) as cluster:
        properties = ["compression.codec=gzip", "client.id=me", "parse.key=true", "key.separator=="]
        arguments = [word for entry in properties for word in ("--property", entry)]
        arguments += ["--producer-property", "request.required.acks=1"]
        done = zkproducer(cluster, "--topic", "t", *arguments, lines=b"k=v\n")
        assert (done.returncode, done.stderr) == (0, b"")
        assert cluster.messages("t", 0) == [(0, b"k", b"v")]
        (seen,) = cluster.seen("produce")
        assert seen.body["acks"] == 1
        assert all(data[17] == 1 for data in seen.body["sets"].values())


PLUGINS = """
def by_number(key, partitions):
    return int(key)

def in_capitals(value):
    return value.upper() if value != b"k" else 1 / 0
"""


def test_a_partitioner_and_an_encoder_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "my_plugins.py").write_text(PLUGINS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with FakeCluster({"t": 3}) as cluster:
        arguments = ["--topic", "t", "--partitioner", "my_plugins:by_number", "--key-separator", ":"]
        arguments += ["--property", "serializer.class=my_plugins:in_capitals"]
        done = zkproducer(cluster, *arguments, lines=b"2:a\n7:b\nx:c\n0:k\n1:d\n")
        assert done.returncode == 1
        assert done.stderr.decode().splitlines() == [
            "zkproducer: line 2: topic t: partitioner.class returned 7 for 3 partitions; valid are 0 to 2; not sent",
            "zkproducer: line 3: topic t: partitioner.class raised ValueError: invalid literal for int() with base 10: "
            "b'x', for a key of type bytes; not sent",
            "zkproducer: line 4: topic t: serializer.class raised ZeroDivisionError: division by zero, for a value of "
            "type bytes; not sent",
        ]
        assert [cluster.values("t", p) for p in range(3)] == [[], [b"D"], [b"A"]]


def test_sync_waits_for_each_line_and_stops_at_the_one_that_is_not_stored():
    with FakeCluster({"t": 1}) as cluster:
        cluster.script("produce", Wait(seconds=0.0), Fail(7))
        retries = ["--property", "message.send.max.retries=0"]
        done = zkproducer(cluster, "--topic", "t", "--sync", *retries, lines=b"a\nb\nc\n")
        assert done.returncode == 1
        (sentence,) = done.stderr.decode().splitlines()
        assert sentence.startswith("zkproducer: stopped at line 2: t/0 on broker 1")
        assert "RequestTimedOut (7)" in sentence
        assert [len(seen.body["sets"]) for seen in cluster.seen("produce")] == [1, 1]
        assert cluster.values("t", 0) == [b"a"]


def test_a_full_queue_is_told_with_the_line():
    release = threading.Event()
    with FakeCluster({"t": 1}) as cluster:
        cluster.script("produce", Wait(release))
        bounds = ["queue.buffering.max.messages=1", "batch.num.messages=1", "queue.enqueue.timeout.ms=0"]
        arguments = [word for entry in bounds for word in ("--property", entry)]
        brokers = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)
        command = [*COMMAND, "--broker-list", brokers, "--topic", "t", *arguments]
        with children.started(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            too_long = threading.Timer(30, child.kill)
            too_long.start()
            assert child.stdin is not None
            assert child.stderr is not None
            child.stdin.write(b"a\nb\n")
            child.stdin.close()
            said = child.stderr.readline()
            release.set()
            child.wait()
            too_long.cancel()
        assert child.returncode == 1
        assert b"line 2: t: 1 messages (27 bytes) wait to be stored" in said
        assert cluster.values("t", 0) == [b"a"]


def test_progress_is_shown_where_a_file_is_piped_in_on_a_terminal(tmp_path: Path):
    lines = [b"%d" % n for n in range(1000)]
    (tmp_path / "lines").write_bytes(b"\n".join(lines))
    terminal, screen = pty.openpty()
    with FakeCluster({"t": 1}) as cluster, (tmp_path / "lines").open("rb") as file:
        address = ":".join(map(str, cluster.bootstrap[0]))
        command = [*COMMAND, "--broker-list", address, "--topic", "t"]
        done = subprocess.run(command, stdin=file, stdout=subprocess.PIPE, stderr=screen, timeout=30)
        os.close(screen)
        drawn = os.read(terminal, 1 << 16)
        os.close(terminal)
        assert (done.returncode, done.stdout) == (0, b"")
        assert re.search(rb"lines sent: 64, [\d,]+/s  \d+ not stored yet", drawn), drawn
        assert drawn.endswith(b"\r\x1b[K1,000 lines stored\r\n"), drawn
        assert cluster.values("t", 0) == lines


def test_a_terminal_that_goes_away_costs_no_line() -> None:
    with FakeCluster({"t": 1}) as cluster, terminal() as (stream, window):
        address = ":".join(map(str, cluster.bootstrap[0]))
        command = [*COMMAND, "--broker-list", address, "--topic", "t", "--key-separator", ":"]
        with children.started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream) as child:
            assert child.stdin is not None
            child.stdin.write(b"first without\n")
            child.stdin.flush()
            assert b"line 1 has no key separator" in os.read(window, 1 << 16)
            leave(window)
            child.communicate(b"k:one\nnothing\nk:two\n", timeout=30)
        assert child.returncode == 1
        assert cluster.messages("t", 0) == [(0, b"k", b"one"), (1, b"k", b"two")]


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
        child = subprocess.Popen([*COMMAND, "--broker-list", address, "--topic", "t"], **options)
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


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_signal_that_sends_what_was_read_never_ends_it_by_itself_however_often_it_comes(end: signal.Signals):
    with FakeCluster({"t": 1}) as cluster:
        address = ":".join(map(str, cluster.bootstrap[0]))
        argv = [*COMMAND, "--broker-list", address, "--topic", "t"]
        with children.started(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdin is not None
            assert child.stderr is not None
            os.write(child.stdin.fileno(), b"one\ntwo\n")
            cluster.wait(lambda: cluster.seen("produce"))
            while child.poll() is None:
                child.send_signal(end)
                time.sleep(0.001)
            assert child.returncode in (0, 1)
            assert b"Traceback" not in child.stderr.read()


def test_closed_ends_are_no_accident():
    with FakeCluster({"t": 1}) as cluster:
        host, port = cluster.bootstrap[0]
        command = [*COMMAND, "--broker-list", f"{host}:{port}", "--topic", "t"]
        closed = {"stdin": 0, "stderr": 2}
        done = {
            name: subprocess.run(["sh", "-c", f'exec "$@" {number}>&-', "sh", *command], **piped, timeout=30)  # type: ignore[call-overload]
            for (name, number), piped in zip(
                closed.items(), ({"capture_output": True}, {"input": b"v\n", "stdout": subprocess.PIPE}), strict=True
            )
        }
        assert (done["stdin"].returncode, done["stderr"].returncode) == (2, 0)
        assert done["stdin"].stderr == b"zkproducer: standard input is closed; the lines are read from it\n"
        assert cluster.values("t", 0) == [b"v"]


def test_lines_that_cannot_be_read_end_it_after_what_was_read():
    class Broken:
        def __iter__(self) -> Iterator[bytes]:
            yield b"v\n"
            raise OSError(5, "Input/output error")

        def isatty(self) -> bool:
            return False

    with FakeCluster({"t": 1}) as cluster:
        producer = Producer(ProducerConfig(brokers=tuple(cluster.bootstrap)))
        assert run(producer, "t", cast(BinaryIO, Broken()), separator=None) == 1
        assert cluster.values("t", 0) == [b"v"]


def test_sigterm_sends_what_was_read():
    release = threading.Event()
    with FakeCluster({"t": 1}) as cluster:
        cluster.script("produce", Wait(release))
        host, port = cluster.bootstrap[0]
        command = [*COMMAND, "--broker-list", f"{host}:{port}", "--topic", "t"]
        with children.started(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdin is not None
            child.stdin.write(b"one\n")
            child.stdin.flush()
            cluster.wait(lambda: cluster.seen("produce"))
            child.terminate()
            release.set()
            assert child.wait(20) == 0
            assert child.stderr is not None
            assert child.stderr.read() == b"interrupted: sending what was read\n"
        assert cluster.values("t", 0) == [b"one"]


def test_a_zookeeper_that_cannot_be_meant_is_a_wrong_command_line():
    done = subprocess.run([*COMMAND, "--zookeeper", ":::", "--topic", "t"], input=b"v", capture_output=True, timeout=30)
    assert done.returncode == 2
    said = done.stderr.partition(b"\nError: ")[2]
    assert b"option 'zookeeper.connect' is ':::', expected host:port,host:port/chroot" in said


@pytest.fixture
def full_pipe() -> Iterator[int]:
    """The writing end of a pipe that takes no more, and whose reader does not read."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while os.write(writing, b"x" * 4096):
            pass
    os.set_blocking(writing, True)
    yield writing
    os.close(writing)
    os.close(reading)


def test_a_pipe_of_standard_error_that_nobody_reads_does_not_stop_the_producer(full_pipe: int) -> None:
    lines = b"x" * 5000 + b"\nlast\n"
    with FakeCluster({"t": 1}) as cluster:
        brokers = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)
        command = [*COMMAND, "--broker-list", brokers, "--topic", "t", "--message-max-bytes", "2000"]
        done = subprocess.run(command, input=lines, stdout=subprocess.PIPE, stderr=full_pipe, timeout=30, check=False)
        assert (done.returncode, done.stdout) == (1, b"")
        assert cluster.messages("t", 0) == [(0, None, b"last")]


def test_a_pipe_of_standard_error_that_nobody_reads_does_not_keep_the_consumer(full_pipe: int) -> None:
    with FakeCluster({"t": 1}) as cluster:
        brokers = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)
        program = "from zkconsumer.commands.main import main; main()"
        command = [sys.executable, "-c", program, "consume", "-b", brokers, "--topic", "t", "--partition", "7"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full_pipe, timeout=30, check=False)
        assert (done.returncode, done.stdout) == (5, b"")


def test_headers_of_lines_are_sent_and_a_line_without_them_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    sent: list[tuple[object, ...]] = []
    producer = SimpleNamespace(send=lambda topic, value, key, headers: sent.append((value, key, headers)))
    lines = [b"trace:7f1c,at:1:2\tk;v\r\n", b"NO_HEADERS\tk;\tv\n", b"\tk;w\n", b"k;no tab\n", b"trace\tk;no colon\n"]
    code = _send(producer, "t", enumerate(lines, 1), b";", True)  # type: ignore[arg-type]
    assert sent == [
        (b"v", b"k", [("trace", b"7f1c"), ("at", b"1:2")]),
        (b"\tv", b"k", []),
        (b"w", b"k", []),
    ]
    assert code == 1
    assert capsys.readouterr().err.splitlines() == [
        "zkproducer: line 4: there is no tab after its headers; not sent",
        "zkproducer: line 5: headers are NAME:VALUE,NAME:VALUE, or NO_HEADERS; not sent",
    ]
