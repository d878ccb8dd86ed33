"""`python -m localkafka`: what it refuses, and how."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from localkafka.__main__ import main
from localkafka.demo import main as demo
from localkafka.tools import main as run_class


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--version", "0.7.3"], "versions of 0.7: 0.7.0, 0.7.1, 0.7.2"),
        (["--original"], "is for 0.7 only"),
        (["--version", "4.3.1"], "Kafka 4.3.1 has no ZooKeeper mode"),
        (["--brokers", "0"], "0 is not in the range"),
        (["--brokers", "two"], "'two' is not a valid integer"),
        (["--setting", "x"], "'x' is not KEY=VALUE"),
        (["--ports", "1"], "No such option"),
        (["--port", "99999"], "99999 is not in the range"),
        (["--version", "0.7.2", "--zookeeper-port", "2181"], "--zookeeper-port: is not for brokers of 0.7"),
        (["--version", "0.7.2", "--advertise", "source"], "--advertise: is not for brokers of 0.7"),
    ],
)
def test_wrong_arguments_exit_2_with_a_sentence(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert sentence in result.output


@pytest.mark.parametrize("name", ["../east", ".east", "two words"])
def test_a_name_in_the_background_is_one_of_a_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALKAFKA_CACHE", str(tmp_path))
    result = CliRunner().invoke(main, ["--detach", name])
    assert result.exit_code == 1
    assert "is not a valid cluster name" in result.output


def background(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "localkafka", *arguments],
        env={**os.environ, "LOCALKAFKA_CACHE": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.thorough
def test_a_start_in_the_background_that_fails_says_why_and_leaves_its_name_free(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for _ in range(2):
            done = background(tmp_path, "--detach", "east", "--port", str(taken.getsockname()[1]))
            assert done.returncode == 1
            assert "cluster east could not be started" in done.stderr
            assert "is taken by another process" in done.stderr
    done = background(tmp_path, "--stop", "east")
    assert (done.returncode, "no cluster east runs in the background; running: none" in done.stderr) == (1, True)


def test_a_cluster_in_the_background_keeps_nothing_open_that_its_caller_opened(tmp_path: Path) -> None:
    """A pipe that a script reads to its end was open as long as the cluster ran."""
    reads, writes = os.pipe()
    program = (
        "import os, sys, time\n"
        "from localkafka import detached\n"
        "detached.detach('east')\n"
        "print('up', flush=True)\n"
        "detached.attached()\n"
        "sys.stdin.read()\n"
        "time.sleep(60)\n"
    )
    environment = {**os.environ, "LOCALKAFKA_CACHE": str(tmp_path)}
    words = [sys.executable, "-c", program]
    done = subprocess.run(
        words, env=environment, pass_fds=[writes], capture_output=True, text=True, timeout=60, check=False
    )
    try:
        assert done.returncode == 0, done.stderr
        os.close(writes)
        ready, _, _ = select.select([reads], [], [], 10)
        assert ready, "the other end is still open"
        assert os.read(reads, 1) == b""
    finally:
        os.close(reads)
        os.kill(int((tmp_path / "detached" / "east.lock").read_text()), signal.SIGKILL)


def test_a_name_that_is_locked_runs_already(tmp_path: Path) -> None:
    (tmp_path / "detached").mkdir()
    with (tmp_path / "detached" / "east.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = background(tmp_path, "--detach", "east")
        assert (done.returncode, "cluster east runs already" in done.stderr) == (1, True)
        done = background(tmp_path, "--stop", "west")
        assert (done.returncode, "no cluster west runs in the background; running: east" in done.stderr) == (1, True)


def test_a_class_of_no_release_is_refused() -> None:
    result = CliRunner().invoke(run_class, ["--version", "0.8.3", "kafka.tools.ConsoleConsumer", "--topic", "t"])
    assert result.exit_code == 1
    assert "unknown Kafka version '0.8.3'" in result.output


@pytest.mark.parametrize("command", [main, demo], ids=["localkafka", "demo"])
def test_dash_h_is_help(command: click.Command) -> None:
    result = CliRunner().invoke(command, ["-h"])
    assert result.exit_code == 0
    assert result.output.startswith("Usage:")
