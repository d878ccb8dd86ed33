"""Too few file descriptors, on real clusters: the sentence says so, with the limit and what helps."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.load import Load
from localkafka.mirror import COMMAND
from tests.conftest import Unique
from tests.integration.mirroring import PLAIN_ONLY, Mirror, filled

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
SAYS = "too many open files: this process may open "
HELPS = "; raise it with ulimit -n, or LimitNOFILE= in its unit"
MOST = 12  # more than that one session and two brokers never need


def until_it_works(run: Callable[[int], tuple[int, str]]) -> int:
    """Give it one file more each time; how often it was too few.  Each of these has to say so."""
    for files in range(MOST):
        code, said = run(files)
        if code == 0:
            return files
        assert SAYS in said, (files, said)
        assert HELPS in said
        assert "has no attribute" not in said
        assert "is ZooKeeper running" not in said
        assert "is it running" not in said
    raise AssertionError(f"{MOST} files more were not enough: {said}")


def program(*arguments: str) -> Callable[[int], tuple[int, str]]:
    def run(files: int) -> tuple[int, str]:
        argv = [sys.executable, str(ROOT / "tests/integration/fewfiles.py"), *arguments, str(files)]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, timeout=60)
        return done.returncode, done.stdout

    return run


def test_a_consumer_says_that_too_many_files_are_open(source: ClusterClient, unique: Unique) -> None:
    topic = unique.topic()
    filled(source, {topic: 1}, 10, PLAIN_ONLY)
    assert until_it_works(program("consume", source.zookeeper, unique.group(), topic, "10")) >= 5


@pytest.mark.parametrize("by_zookeeper", [False, True])
def test_a_producer_says_that_too_many_files_are_open(
    source: ClusterClient, unique: Unique, by_zookeeper: bool
) -> None:
    topic = unique.topic()
    source.create_topic(topic, 1)
    brokers = "-" if by_zookeeper else source.brokers
    assert until_it_works(program("produce", brokers, source.zookeeper, topic)) >= 4


@pytest.mark.parametrize(
    "command", [["topics"], ["consume", "--topic", "{}", "--from-beginning", "--max-messages", "1"]]
)
def test_commands_say_that_too_many_files_are_open(
    source: ClusterClient, unique: Unique, command: Sequence[str]
) -> None:
    topic = unique.topic()
    filled(source, {topic: 1}, 10, PLAIN_ONLY)
    argv = [str(COMMAND.with_name("zkconsumer")), *(word.format(topic) for word in command), "-z", source.zookeeper]

    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 6; exec "$@"', "sh", *argv], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ZooKeeper at ")
    assert done.stderr.endswith(f" is not reached: {SAYS}6{HELPS}\n")


def test_a_mirror_that_cannot_start_for_lack_of_descriptors_says_so(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    mirror = Mirror(tmp_path, source, target, unique.group(), unique.topic(), {"start.timeout.ms": 500})
    argv = ["sh", "-c", 'ulimit -n 10; exec "$@"', "sh", str(COMMAND), "run", str(mirror.file)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 69, done.stderr
    assert f"{SAYS}10{HELPS}" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_mirror_that_runs_out_of_descriptors_says_so_and_goes_on_when_there_are_more(
    source: ClusterClient, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    target = own_cluster(brokers=1)
    target.create_topic(topic, 1)
    load: Load = filled(source, {topic: 1}, 100, PLAIN_ONLY)
    with Mirror(tmp_path, source, target, unique.group(), topic) as mirror:
        mirror.wait_all_committed([topic])
        pid = mirror.pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))  # what is open stays open
        target.node(0).restart()
        load.produce(topic, 1, 100, PLAIN_ONLY)
        mirror.wait_said(f"connecting: {SAYS}3{HELPS}")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
        mirror.wait_all_committed([topic])
        assert mirror.arrived(topic) == 200
        assert mirror.stop()[0] == 0
