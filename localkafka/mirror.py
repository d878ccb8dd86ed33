"""The mirror daemon as a child process, started by the installed command as an operator would start it."""

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
    """`mirrormaker run FILE` from one cluster to another; the file and the log lie in `folder`."""

    def __init__(
        self, folder: Path, source: Cluster, target: Cluster, group: str, whitelist: str, **mirror: object
    ) -> None:
        self.file = folder / "mirror.yaml"
        self.log = folder / "mirror.log"
        self.file.write_text(yaml.safe_dump(settings(source, target, group, whitelist, mirror), sort_keys=False))
        self._child: Child | None = None

    @property
    def command(self) -> list[str]:
        return [str(COMMAND), "run", str(self.file)]

    def start(self) -> None:
        if not COMMAND.exists():
            raise LocalKafkaError(f"the command {COMMAND.name} is not installed beside {sys.executable}: run make demo")
        self._child = Child("the mirror", self.command, self.log)

    def kill(self) -> None:
        """kill -9, and wait until the process is gone."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def send(self, number: signal.Signals) -> None:
        """Give it a signal."""
        if self._child is not None:
            self._child.send(number)

    def stop(self, timeout_s: float = 20) -> int:
        """SIGTERM; its exit code."""
        if self._child is None:
            raise LocalKafkaError("the mirror was not started")
        child, self._child = self._child, None
        return child.stop(timeout_s)

    close = kill

    def last_words(self) -> str:
        """The end of its log, for an error message."""
        return f"the end of {self.log}:\n{last_lines(self.log, 12)}"


def settings(
    source: Cluster, target: Cluster, group: str, whitelist: str, mirror: Mapping[str, object]
) -> dict[str, object]:
    """A whole configuration file for these two clusters."""
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
    """What the group has committed in ZooKeeper; a partition without a position is left out."""
    positions = {}
    zk = cluster.registry().zk  # one client, however often this is asked
    for tp in partitions:
        try:
            text, _stat = zk.get(znodes.offset(group, tp))
        except NoNodeError:
            continue
        positions[tp] = int(text)
    return positions
