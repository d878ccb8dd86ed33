"""`zkconsumer` run for tests of migrations: in this process, or in one that a fail point kills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

from click.testing import CliRunner, Result
from kazoo.client import KazooClient

from groundwork.failpoints import VARIABLE
from localkafka.client import ClusterClient
from localkafka.load import Load, Mixture
from zkconsumer.commands.cli import cli

QUICK = ("--looks", "2", "--look-every", "100ms", "--wait", "500ms")


def zkconsumer(*args: str, code: int = 0) -> Result:
    """A command line in this process; .stdout and .stderr."""
    done = CliRunner().invoke(cli, args)
    assert done.exit_code == code, (args, done.exit_code, done.stdout, done.stderr, done.exception)
    return done


def migrate(*args: str, code: int = 0) -> Result:
    return zkconsumer("migrate", *args, code=code)


def killed(point: str, *args: str) -> None:
    """The same in a process that is killed at a fail point: NAME@PASS."""
    name, _, count = point.partition("@")
    argv = [sys.executable, "-m", "zkconsumer.commands.main", "migrate", *args]
    env = {**os.environ, VARIABLE: f"{name}=kill@{count}"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == -9, (done.returncode, done.stdout, done.stderr)


def rows(done: Result) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def load(cluster: ClusterClient, topic: str, partitions: int, count: int) -> None:
    producer = Load(cluster.brokers, cluster.version)
    producer.produce(topic, partitions, count, Mixture(0, (0,)), batch=5)
    producer.close()


def put(zk: KazooClient, group: str, topic: str, numbers: Mapping[int, int]) -> None:
    """Offset nodes as a group that is stopped leaves them."""
    for partition, number in numbers.items():
        zk.create(f"/consumers/{group}/offsets/{topic}/{partition}", b"%d" % number, makepath=True)
