"""Real broker without ZooKeeper (KRaft, 3.9 and 4.x): broker and controller in one process on 127.0.0.1."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kafkawire.cluster.client import KafkaClient
from kafkawire.dialects import dialect
from kafkawire.errors import WireError
from kafkawire.net.links import Links
from localkafka import java, ports, releases
from localkafka.errors import LocalKafkaError
from localkafka.listeners import SecureListeners
from localkafka.serverprocess import ServerProcess

MAIN = "kafka.Kafka"
STORAGE = "kafka.tools.StorageTool"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


class KraftBroker(ServerProcess):
    """Broker 0 of a one-broker cluster, started by `with` or start().

    version    3.9.1 or later          settings   additional broker settings
    secure     listeners with TLS and SASL beside the plain one
    listener   security protocol: PLAINTEXT, SSL or SASL_PLAINTEXT; `settings` has what the protocol needs
    """

    def __init__(
        self,
        folder: Path,
        version: str = "3.9.1",
        *,
        settings: Mapping[str, str] | None = None,
        listener: str = "PLAINTEXT",
        flags: Sequence[str] = java.SMALL,
        secure: SecureListeners | None = None,
    ) -> None:
        super().__init__(folder)
        self.release = releases.release(version)
        self.settings = dict(settings or {})
        self.listener = listener
        self.flags = flags
        self.secure = secure
        self._controller = ports.reserve()

    @property
    def name(self) -> str:
        return f"broker 0 of Kafka {self.release.version} ({self.brokers})"

    @property
    def brokers(self) -> str:
        """Return the bootstrap list."""
        return f"{ports.HOST}:{self.port}"

    def start(self, timeout_s: float = 60) -> Self:
        """Start it, and wait until it serves.  Raises LocalKafkaError with the end of its log when it does not."""
        if self.running:
            return self
        self._format()
        self._launch()
        self._wait_ready(self._answers, timeout_s, "answer")
        return self

    def topics(self, *arguments: str) -> str:
        """Run TopicCommand with these arguments, and return its output.  Raises LocalKafkaError."""
        return self._run(TOPICS, "--bootstrap-server", self.brokers, *arguments)

    def close(self) -> None:
        super().close()
        self._controller.release()
        if self.secure is not None:
            self.secure.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _answers(self) -> bool:
        """True if it serves: by a plain request, or by its log if the listener is not plain."""
        if self.listener != "PLAINTEXT":
            return "Kafka Server started" in self.log.read_text(errors="replace")
        links = Links("localkafka", timeout_ms=2000)
        try:
            client = KafkaClient.of_brokers([(ports.HOST, self.port)], links, dialect("0.10.0"))
            return bool(client.view().brokers)
        except WireError:
            return False
        finally:
            links.close()

    def _format(self) -> None:
        if (self.data / "meta.properties").exists():
            return
        self.data.mkdir(parents=True, exist_ok=True)
        config = self.folder / "server.properties"
        config.write_text(releases.properties(self._properties()), encoding="utf-8")
        self._run(STORAGE, "format", "-t", CLUSTER_ID, "-c", str(config))

    def _run(self, main: str, *arguments: str) -> str:
        argv = java.command(self.release, main, arguments, flags=self.flags, level="ERROR")
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=120)
        if done.returncode:
            raise LocalKafkaError(f"{main} {' '.join(arguments)} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    def _properties(self) -> dict[str, str]:
        controller = f"{ports.HOST}:{self._controller.number}"
        found = {
            "process.roles": "broker,controller",
            "node.id": "0",
            "controller.quorum.voters": f"0@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{self.listener}://{self.brokers},CONTROLLER://{controller}",
            "advertised.listeners": f"{self.listener}://{self.brokers}",
            "listener.security.protocol.map": f"{self.listener}:{self.listener},CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": self.listener,
            "log.dirs": str(self.data),
            **releases.applying(releases.SETTINGS, self.release),
            **self.settings,
        }
        return found if self.secure is None else self.secure.extended(found, self.release)

    def _command(self, config: Path) -> list[str]:
        return java.command(self.release, MAIN, [str(config)], flags=self.flags, level="INFO")
