"""Real ZooKeeper server: 3.4.6 from the jars of Kafka 0.8.2.2, which works with every version that needs one."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localkafka import backend, java, ports, releases
from localkafka.serverprocess import ServerProcess

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


@dataclass(frozen=True, slots=True)
class ZooKeeperAt:
    """A ZooKeeper that another process runs, or a proxy before one."""

    address: tuple[str, int]

    @property
    def connect(self) -> str:
        """The connect string without a chroot."""
        return "{}:{}".format(*self.address)


class ZooKeeperServer(ServerProcess):
    """A ZooKeeper in its own folder, which keeps its data through stop, kill and restart.

    tick_ms     the server's tick: session timeouts are 2 to 20 ticks (500: 1 to 10 s)
    advertise   host name for clients on other hosts: it then listens on every address
    """

    in_containers = True

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        tick_ms: int = 500,
        flags: Sequence[str] = java.SMALL,
        advertise: str | None = None,
    ) -> None:
        super().__init__(folder, port)
        self.advertise = advertise
        self.tick_ms = tick_ms
        self.flags = flags

    @property
    def name(self) -> str:
        return f"ZooKeeper on {self.connect}"

    @property
    def address(self) -> tuple[str, int]:
        return (ports.HOST, self.port)

    @property
    def connect(self) -> str:
        """The connect string without a chroot."""
        return f"{self.advertise or ports.HOST}:{self.port}"

    def start(self, timeout_s: float = 30) -> None:
        """Start it, and wait until it serves.  Raises LocalKafkaError with the end of its log when it does not."""
        if self.running:
            return
        self._launch()
        self._wait_ready(lambda: "Mode:" in four_letters(self.address, "srvr"), timeout_s, "serve")

    def restart(self, timeout_s: float = 30) -> None:
        """Start it on the same port and data, after a stop if it runs."""
        self.stop()
        self.start(timeout_s)

    def _properties(self) -> dict[str, str]:
        return {
            "dataDir": str(self.data),
            "clientPort": str(self.port),
            "clientPortAddress": ports.ANY if self.advertise else ports.HOST,
            "maxClientCnxns": "0",
            "tickTime": str(self.tick_ms),
        }

    def _command(self, config: Path) -> list[str]:
        return backend.command(releases.release(releases.ZOOKEEPER_FROM), MAIN, [str(config)], self.flags, level="WARN")


def four_letters(address: tuple[str, int], word: str, timeout_s: float = 2) -> str:
    """ZooKeeper's response to a four-letter word; empty without a response."""
    try:
        with socket.create_connection(address, timeout_s) as link:
            link.sendall(word.encode())
            parts = []
            while part := link.recv(4096):
                parts.append(part)
    except OSError:
        return ""
    return b"".join(parts).decode(errors="replace")
