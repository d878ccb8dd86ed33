"""What Spark and its Python workers write beside a command's own lines, and commands where Spark is not installed."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from sparkpipeline.sparksession import shortened

HUNG_UP = b"""Traceback (most recent call last):
  File "/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager
  File "/lib/pyspark.zip/pyspark/daemon.py", line 95, in worker
BrokenPipeError: [Errno 32] Broken pipe
"""
OTHERS = [
    HUNG_UP.replace(b"BrokenPipeError: [Errno 32] Broken pipe", b"OSError: [Errno 28] No space left on device"),
    HUNG_UP.replace(b'pyspark/daemon.py", line 95', b'own/code.py", line 95'),
    b"Traceback (most recent call last):\nBrokenPipeError: [Errno 32] Broken pipe\n",
    b"26/01/01 10:00:00 ERROR Executor: Exception in task 0.0\n",
]


@pytest.mark.parametrize("other", OTHERS)
def test_only_the_traceback_of_a_worker_whose_jvm_left_is_dropped(other: bytes) -> None:
    text = b"before\n" + HUNG_UP + other + HUNG_UP + HUNG_UP + b"after\n"
    assert b"".join(shortened(text.splitlines(keepends=True))) == b"before\n" + other + b"after\n"


def test_a_traceback_that_is_cut_off_is_passed_on() -> None:
    cut = HUNG_UP.splitlines(keepends=True)[:2]
    assert list(shortened(cut)) == cut


def test_an_error_of_ours_is_a_line_and_any_other_traceback_comes_once() -> None:
    def told(last: str, tried: int) -> bytes:
        return (
            (
                f"26/01/01 10:00:0{tried} ERROR Executor: Exception in task 0.{tried}\n"
                "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
                '  File "/own/code.py", line 1, in f\n    g()\n'
                f"{last}\n\n\tat org.apache.spark.A.f(A.scala:1)\n\t... 12 more\n"
            )
            .replace("PythonException: Trace", "PythonException: An exception:\nTrace")
            .encode()
        )

    ours = "sparkpipeline.errors.CorruptData: KAFKA08_CORRUPT topic=t partition=0 offset=7: crc mismatch"
    text = b"".join(told(last, tried) for tried in (1, 2) for last in (ours, "ValueError: 7"))
    said = b"".join(shortened(text.splitlines(keepends=True))).decode()
    assert said.count(ours) == said.count("ValueError: 7") == 1
    assert said.count("/own/code.py") == 1  # of the ValueError
    assert said.count("ERROR Executor") == 4
    assert "\tat" not in said
    assert "more" not in said


@pytest.mark.parametrize(("module", "tells"), [("pyspark.daemon", True), ("sparkpipeline.workerdaemon", False)])
def test_a_worker_whose_jvm_hangs_up_ends_without_a_traceback(module: str, tells: bool, tmp_path: Path) -> None:
    """The daemon as Spark starts it; PySpark's own shows what is wrong with it, on the same conversation."""
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **os.environ, "PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": folder,
            "SPARK_REUSE_WORKER": "1", "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
        }  # fmt: skip
        command = [sys.executable, "-m", module, "pyspark.worker"]
        with subprocess.Popen(
            command, env=env, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as daemon:
            assert daemon.stdin is not None
            assert daemon.stdout is not None
            assert daemon.stderr is not None
            (size,) = struct.unpack(">i", daemon.stdout.read(4))
            with socket.socket(socket.AF_UNIX) as jvm:
                jvm.connect(daemon.stdout.read(size).decode())
                (pid,) = struct.unpack(">i", jvm.recv(4, socket.MSG_WAITALL))
            until = time.monotonic() + 60
            while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
                time.sleep(0.02)
            daemon.stdin.close()  # so Spark ends it
            told = daemon.stderr.read().decode()
    assert ("BrokenPipeError" in told) is tells, told


WITHOUT_SPARK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j", "pyarrow", "numba", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from sparkpipeline.commands.cli import outcome
for words in WORDS:
    print(words, outcome(words), flush=True)
"""
HELP = [
    [*words, "--help"]
    for words in (
        [], ["load"], *(["load", name] for name in ("run", "plan", "status", "files", "verify", "init", "rewind",
        "compact", "abandon")), ["run"], ["plan"], ["stages"], ["stages", "list"], ["stages", "abandon"], ["backfill"],
        ["audit"], ["pyfiles"],
    )
]  # fmt: skip


def without_spark(words: list[list[str]], folder: Path) -> subprocess.CompletedProcess[str]:
    program = f"WORDS = {words!r}\n{WITHOUT_SPARK}"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=folder, check=False
    )


def test_help_needs_no_spark(tmp_path: Path) -> None:
    done = without_spark([*HELP, ["--version"]], tmp_path)
    assert done.stderr == ""
    for words in (*HELP, ["--version"]):
        assert f"\n{words} 0\n" in f"\n{done.stdout}", done.stdout


def test_a_command_without_spark_is_one_sentence_with_the_command_that_installs_it(tmp_path: Path) -> None:
    words = ["load", "compact", str(tmp_path / "job.yaml"), "--date", "2026-01-01"]
    (tmp_path / "job.yaml").write_text(f"base: {tmp_path}/base\nbootstrap.servers: 127.0.0.1:9\ntopics: [t]\n")
    done = without_spark([words], tmp_path)
    assert done.stdout == f"{words} 1\n"
    assert done.stderr == (
        "error: pyspark is not installed, and this needs it: pip install 'kafka-legacy-mirror[spark]'\n"
    )


def test_the_plan_of_a_load_says_what_of_its_configuration_tells_the_password_to_strangers(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    login = "security.protocol: SASL_PLAINTEXT\nsasl.mechanism: PLAIN\nsasl.username: u\nsasl.password: secret\n"
    job.write_text(f"base: {tmp_path}/base\nbootstrap.servers: 127.0.0.1:9\ntopics: [t]\n{login}")
    job.chmod(0o600)
    done = subprocess.run(
        [sys.executable, "-m", "sparkpipeline", "load", "plan", str(job)], capture_output=True, text=True, timeout=60,
        cwd=tmp_path, check=False,
    )  # fmt: skip
    said = done.stderr.splitlines()
    assert said[0].startswith("warning: job.yaml: sasl.mechanism=PLAIN over SASL_PLAINTEXT: the network and anyone")
    assert said[1].startswith("error: KAFKA08_UNREACHABLE")


@pytest.mark.thorough
def test_a_broker_that_is_dead_is_one_sentence_before_spark_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{taken.getsockname()[1]}"  # nobody listens, and nobody else can
        job, report = tmp_path / "job.yaml", tmp_path / "report.json"
        job.write_text(f"base: {tmp_path}/base\nbootstrap.servers: {dead}\ntopics: [t]\n")
        env = {**os.environ, "JAVA_HOME": str(tmp_path / "no-java"), "PATH": "/nowhere"}  # Spark would fail at once
        sides = ["--source-brokers", dead, "--target-brokers", dead, "--topics", "t"]
        for words in (
            ["load", "run", str(job), "--report", str(report)],
            ["load", "plan", str(job)],
            ["load", "rewind", str(job), "--topic", "t", "--to", "2026-01-01T10:00Z"],
            ["audit", *sides],
            ["audit", "--source-brokers", dead, "--files", str(tmp_path / "base")],
        ):
            done = subprocess.run(
                [sys.executable, "-m", "sparkpipeline", *words], capture_output=True, text=True, timeout=60, env=env,
                cwd=tmp_path, check=False,
            )  # fmt: skip
            assert (done.returncode, done.stdout) == (1, ""), words
            [line] = done.stderr.splitlines()
            assert line.startswith("error: KAFKA08_UNREACHABLE: no broker of the cluster answers: 127.0.0.1:"), line
        assert "KAFKA08_UNREACHABLE" in report.read_text()
