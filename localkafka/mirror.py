"""Mirror daemon as a child process, started with the installed command."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml
from kazoo.exceptions import NoNodeError

from kafkawire.model import TopicPartition
from kafkawire.znodes import v08 as znodes
from localkafka.child import Child
from localkafka.cluster import Cluster
from localkafka.errors import LocalKafkaError, last_lines

Positions = dict[TopicPartition, int]

COMMAND = Path(sys.executable).with_name("mirrormaker")


class MirrorProcess:
    """`mirrormaker run FILE` from one cluster to another; the file and the log are in `folder`."""

    def __init__(
        self, folder: Path, source: Cluster, target: Cluster, group: str, whitelist: str, **mirror: object
    ) -> None:
        self.file = folder / "mirror.yaml"
        self.log = folder / "mirror.log"
        self.file.write_text(
            yaml.safe_dump(settings(source, target, group=group, whitelist=whitelist, mirror=mirror), sort_keys=False)
        )
        self._child: Child | None = None

    @property
    def command(self) -> list[str]:
        return [str(COMMAND), "run", str(self.file)]

    def start(self) -> None:
        if not COMMAND.exists():
            raise LocalKafkaError(f"the command {COMMAND.name} is not installed beside {sys.executable}: run make demo")
        self._child = Child("the mirror", self.command, self.log)

    def kill(self) -> None:
        """Send SIGKILL and wait until the process has ended."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        if self._child is not None:
            self._child.send(number)

    def stop(self, timeout_s: float = 20) -> int:
        """Send SIGTERM and wait, and return its exit code."""
        if self._child is None:
            raise LocalKafkaError("the mirror was not started")
        child, self._child = self._child, None
        return child.stop(timeout_s)

    close = kill

    def log_end(self) -> str:
        """Return the last lines of its log, for an error message."""
        return f"the end of {self.log}:\n{last_lines(self.log, 12)}"


def settings(
    source: Cluster, target: Cluster, *, group: str, whitelist: str, mirror: Mapping[str, object]
) -> dict[str, object]:
    """Return the configuration file's content for these two clusters."""
    return {
        "sources": [{"name": "source", "zookeeper.connect": source.zookeeper, "group.id": group}],
        "target": {
            "metadata.broker.list": target.brokers,
            "target.zookeeper.connect": target.zookeeper,
            "target.replication.factor": 2,
        },
        "mirror": {"whitelist": whitelist, "offset.commit.interval.ms": 1000, "status.interval.ms": 2000, **mirror},
    }


def committed(cluster: Cluster, group: str, partitions: Iterable[TopicPartition]) -> Positions:
    """Return the group's committed offsets in ZooKeeper; partitions without one are left out."""
    positions = {}
    zk = cluster.registry().zk  # the same client for each call
    for tp in partitions:
        try:
            text, _stat = zk.get(znodes.offset(group, tp))
        except NoNodeError:
            continue
        positions[tp] = int(text)
    return positions
