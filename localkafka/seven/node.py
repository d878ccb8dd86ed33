"""One 0.7 broker as a child process: the one in Python or the original, with the same reins.

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
from localkafka.waiting import wait_until

USUAL = {
    "log.flush.interval": "1",  # what is produced can be read at once
    "num.threads": "2",
    "zk.sessiontimeout.ms": "3000",  # a killed broker is noticed in 3 s; less is lost on a busy machine
    "zk.connectiontimeout.ms": "15000",
}


class Node07(ServerProcess):
    """Broker `id` in a folder of its own; its data stays there through stop, kill and restart.

    zookeeper   connect string with chroot (which must be there), or None: it registers nowhere
    settings    of its server.properties, on top of USUAL: the original's names

    .port   where it listens     .broker   id, host and port as clients name them     .data   the folder of its logs
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
        """ "127.0.0.1:9092"."""
        return f"{ports.HOST}:{self.port}"

    def client(self, timeout_s: float = 20) -> Seven:
        """A new connection to it."""
        return Seven((ports.HOST, self.port), timeout_s)

    @abstractmethod
    def check(self) -> None:
        """Raises LocalKafkaError when what it runs on is missing; nothing is started."""

    def start(self, timeout_s: float = 30) -> None:
        """Start it without waiting for it; see wait_registered.  Where its last life was killed, or died, this waits
        until the nodes it left are gone, since it would not start before.  Raises LocalKafkaError when they stay."""
        if self.running:
            return
        if self._child is not None and self.zookeeper is not None:
            wait_until(
                lambda: self._registered() is None, timeout_s, lambda: f"{self.name}, which ended, to leave ZooKeeper"
            )
        self.start_at_once()

    def start_at_once(self) -> None:
        """Start it whatever stands in ZooKeeper: one that was just killed finds itself registered and ends."""
        self._launch()

    def wait_registered(self, timeout_s: float = 60) -> None:
        """Wait until it answers and, with ZooKeeper, its id node is there.  Raises LocalKafkaError with the end of its
        log when it ends meanwhile, or time is over."""

        def registered() -> bool:
            return (self.zookeeper is None or self._registered() == self.port) and self._answers()

        self._wait_ready(registered, timeout_s, "register")

    def wait_ended(self, timeout_s: float = 30) -> int:
        """Its exit code, once it has ended by itself.  Raises LocalKafkaError when it does not."""
        code = self._started().wait(timeout_s)
        if code is None:
            raise LocalKafkaError(f"{self.name} runs on; {self._started().log_end()}")
        return code

    def restart(
        self, port: int | None = None, timeout_s: float = 60, settings: Mapping[str, object] | None = None
    ) -> None:
        """Start it again on its data, stopping it first when it runs, and wait until it is registered.

        port: None keeps the old one, 0 takes any free one, another number that one.  settings: changed from now on.
        """
        self.stop()
        self.settings.update({key: text_of(value) for key, value in (settings or {}).items()})
        self._take_port(port)
        self.start(timeout_s)
        self.wait_registered(timeout_s)

    def segments(self, topic: str, partition: int) -> list[Path]:
        """The files of a partition on its disk, oldest first; the last one is being written."""
        return sorted((self.data / f"{topic}-{partition}").glob("*.kafka"))

    def close(self) -> None:
        """End it at once and give its port back; it cannot be started again."""
        super().close()
        if self._zk is not None:
            self._zk.stop()
            self._zk.close()
            self._zk = None

    def _registered(self) -> int | None:
        """The port that its id node tells; None without a node."""
        assert self.zookeeper is not None
        if self._zk is None:
            self._zk = started_client(self.zookeeper)
        try:
            return int(self._zk.get(f"/brokers/ids/{self.id}")[0].rpartition(b":")[2])
        except NoNodeError:
            return None

    def _answers(self) -> bool:
        """It answers a multi-fetch of nothing: a listening socket alone does not serve yet."""
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
    """The broker in Python; see localkafka.seven.__main__ for what it leaves out."""

    kind = "python"

    def check(self) -> None:
        """It runs wherever we do."""

    def _command(self, config: Path) -> list[str]:
        return [sys.executable, "-m", "localkafka.seven", str(config)]


class OriginalBroker07(Node07):
    """The original from KAFKA_07_HOME."""

    kind = "original"

    def check(self) -> None:
        java.executable()
        original.class_path()

    def _command(self, config: Path) -> list[str]:
        return original.command("kafka.Kafka", [str(config)], self.folder)


KINDS: dict[str, type[Node07]] = {"python": Broker07, "original": OriginalBroker07}


def node_of(kind: str) -> type[Node07]:
    """The class of a kind.  Raises LocalKafkaError for others."""
    if kind not in KINDS:
        raise LocalKafkaError(f"a 0.7 broker is of the kind {' or '.join(KINDS)}, not {kind!r}")
    return KINDS[kind]
