"""0.7 broker as a child process, the one in Python or the original, with the same interface.

with Broker07(folder, 0) as broker:              # without ZooKeeper
    with broker.client() as link: ...
broker = Broker07(folder, 3, zookeeper="127.0.0.1:2181/seven", settings={"num.partitions": 2}); broker.start()
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kafkawire.model import Broker
from localkafka import java, ports
from localkafka.client import started_client, text_of
from localkafka.errors import LocalKafkaError
from localkafka.serverprocess import ServerProcess
from localkafka.seven import original
from localkafka.seven.client import Closed, Seven
from localkafka.seven.settings import settings as settings_of
from localkafka.waiting import wait_until

USUAL = {
    "log.flush.interval": "1",  # produced messages can be read at once
    "num.threads": "2",
    "zk.sessiontimeout.ms": "3000",  # a killed broker is gone after 3 s; less fails on a busy machine
    "zk.connectiontimeout.ms": "15000",
}


class Node07(ServerProcess):
    """Broker `id` in its own folder, which keeps its data through stop, kill and restart.

    zookeeper   connect string with an existing chroot, or None: it does not register
    settings    settings of its server.properties in addition to USUAL, by the original's names

    .port   its port     .broker   id, host and port for clients     .data   the folder of its logs
    """

    kind: ClassVar[str]

    def __init__(
        self,
        folder: Path,
        broker_id: int = 0,
        zookeeper: str | None = None,
        settings: Mapping[str, object] | None = None,
        port: int = 0,
    ) -> None:
        super().__init__(folder, port)
        self.id = broker_id
        self.zookeeper = zookeeper
        self.settings = {key: text_of(value) for key, value in (settings or {}).items()}
        self._zk: KazooClient | None = None

    def __enter__(self) -> Node07:
        self.start()
        try:
            self.wait_registered()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        return f"0.7 broker {self.id} ({self.address})"

    @property
    def broker(self) -> Broker:
        return Broker(self.id, ports.HOST, self.port)

    @property
    def address(self) -> str:
        """Return its address as text: "127.0.0.1:9092"."""
        return f"{ports.HOST}:{self.port}"

    def client(self, timeout_s: float = 20) -> Seven:
        """Return a new connection to it."""
        return Seven((ports.HOST, self.port), timeout_s)

    @abstractmethod
    def check(self) -> None:
        """Raise LocalKafkaError when Java or the original is missing, before anything is started."""

    def start(self, timeout_s: float = 30) -> None:
        """Start it without waiting until it is ready; see wait_registered.  After a kill or crash this first waits
        until its old nodes are gone, since it would not start before.  Raises LocalKafkaError when they stay."""
        if self.running:
            return
        if self._child is not None and self.zookeeper is not None:
            wait_until(
                lambda: self._registered() is None, timeout_s, lambda: f"{self.name}, which ended, to leave ZooKeeper"
            )
        self.start_at_once()

    def start_at_once(self) -> None:
        """Start it without checking ZooKeeper: a broker that was just killed finds its old node and ends."""
        self._launch()

    def wait_registered(self, timeout_s: float = 60) -> None:
        """Wait until it serves and, with ZooKeeper, its id node exists.  Raises LocalKafkaError with the end of its log
        when it ends first, or after timeout_s."""

        def registered() -> bool:
            return (self.zookeeper is None or self._registered() == self.port) and self._answers()

        self._wait_ready(registered, timeout_s, "register")

    def wait_ended(self, timeout_s: float = 30) -> int:
        """Wait until it ends by itself, and return its exit code.  Raises LocalKafkaError when it does not end."""
        code = self._started().wait(timeout_s)
        if code is None:
            raise LocalKafkaError(f"{self.name} still runs; {self._started().log_end()}")
        return code

    def restart(
        self, port: int | None = None, timeout_s: float = 60, settings: Mapping[str, object] | None = None
    ) -> None:
        """Start it again on its data, after a stop if it runs, and wait until it is registered.

        port: None keeps the port, 0 takes any free one, another number that one.  settings: changes that stay in
        effect.
        """
        self.stop()
        self.settings.update({key: text_of(value) for key, value in (settings or {}).items()})
        self._take_port(port)
        self.start(timeout_s)
        self.wait_registered(timeout_s)

    def segments(self, topic: str, partition: int) -> list[Path]:
        """Return the files of a partition on its disk, oldest first; the last one is active."""
        return sorted((self.data / f"{topic}-{partition}").glob("*.kafka"))

    def stored_partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic on this broker, as it registers them; 0 without a log of the
        topic."""
        if all(path.name.rpartition("-")[0] != topic for path in self.data.glob("*-*")):
            return 0
        return settings_of(self._properties()).partitions.of(topic)

    def close(self) -> None:
        """End it at once and release its port; it cannot be started again."""
        super().close()
        if self._zk is not None:
            self._zk.stop()
            self._zk.close()
            self._zk = None

    def _registered(self) -> int | None:
        """Return the port in its id node; None without a node."""
        assert self.zookeeper is not None
        if self._zk is None:
            self._zk = started_client(self.zookeeper)
        try:
            return int(self._zk.get(f"/brokers/ids/{self.id}")[0].rpartition(b":")[2])
        except NoNodeError:
            return None

    def _answers(self) -> bool:
        """True if it responds to an empty multi-fetch: a broker may listen before it serves."""
        try:
            with self.client(timeout_s=5) as link:
                return link.multifetch([]) == []
        except (OSError, Closed):
            return False

    def _properties(self) -> dict[str, str]:
        there = {"zk.connect": self.zookeeper} if self.zookeeper is not None else {"enable.zookeeper": "false"}
        return {
            "brokerid": str(self.id),
            "hostname": ports.HOST,
            "port": str(self.port),
            "log.dir": str(self.data),
            **there,
            **USUAL,
            **self.settings,
        }


class Broker07(Node07):
    """The broker in Python; see localkafka.seven.__main__ for its differences from the original."""

    kind = "python"

    def check(self) -> None:
        """Do nothing: it only needs this Python."""

    def _command(self, config: Path) -> list[str]:
        return [sys.executable, "-m", "localkafka.seven", str(config)]


class OriginalBroker07(Node07):
    """The original broker from KAFKA_07_HOME."""

    kind = "original"

    def check(self) -> None:
        java.executable()
        original.class_path()

    def _command(self, config: Path) -> list[str]:
        return original.command("kafka.Kafka", [str(config)], self.folder)


KINDS: dict[str, type[Node07]] = {"python": Broker07, "original": OriginalBroker07}


def node_of(kind: str) -> type[Node07]:
    """Return the class of a kind.  Raises LocalKafkaError for an unknown one."""
    if kind not in KINDS:
        raise LocalKafkaError(f"a 0.7 broker is of the kind {' or '.join(KINDS)}, not {kind!r}")
    return KINDS[kind]
