"""Real ZooKeeper server, standalone or in an ensemble: 3.4.6 from the jars of Kafka 0.8.2.2, which works for all
releases."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localkafka import backend, java, ports, releases
from localkafka.proxy import Proxy
from localkafka.serverprocess import ServerProcess

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


@dataclass(frozen=True, slots=True)
class ZooKeeperAt:
    """A ZooKeeper that another process runs, or a proxy before one."""

    address: tuple[str, int]

    @property
    def connect(self) -> str:
        """Return the connect string without a chroot."""
        return "{}:{}".format(*self.address)


class ZooKeeperServer(ServerProcess):
    """A ZooKeeper in its own folder, which keeps its data through stop, kill and restart.

    tick_ms     the server's tick: session timeouts are 2 to 20 ticks (500: 1 to 10 s)
    member      (its number, settings) of a server of an ensemble; None: standalone
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
        *,
        member: tuple[int, Mapping[str, str]] | None = None,
    ) -> None:
        super().__init__(folder, port)
        self.advertise = advertise
        self.tick_ms = tick_ms
        self.flags = flags
        self.member = member

    @property
    def name(self) -> str:
        return f"ZooKeeper on {self.connect}"

    @property
    def address(self) -> tuple[str, int]:
        return (ports.HOST, self.port)

    @property
    def connect(self) -> str:
        """Return the connect string without a chroot."""
        return f"{self.advertise or ports.HOST}:{self.port}"

    def start(self, timeout_s: float = 30) -> None:
        """Start it, and wait until it serves.  Raises LocalKafkaError with the end of its log when it does not."""
        self.launch()
        self.wait_serving(timeout_s)

    def launch(self) -> None:
        """Start it without waiting; in an ensemble it serves as soon as most servers run."""
        if self.running:
            return
        if self.member is not None:
            self.data.mkdir(parents=True, exist_ok=True)
            (self.data / "myid").write_text(f"{self.member[0]}\n", encoding="ascii")
        self._launch()

    def wait_serving(self, timeout_s: float = 30) -> None:
        """Wait until it serves.  Raises LocalKafkaError with the end of its log when it does not."""
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
            **(self.member[1] if self.member is not None else {}),
        }

    def _command(self, config: Path) -> list[str]:
        return backend.command(releases.release(releases.ZOOKEEPER_FROM), MAIN, [str(config)], self.flags, level="WARN")


class ZooKeeperEnsemble:
    """Servers of one ensemble in separate folders, which serve as long as most of them run.

    servers    number of servers; .servers has them, for stop(), kill(), pause() and start()
    cuts       the first server reaches the others through proxies, which are in .links: it can be cut off from its
               leader while clients reach all of them
    """

    def __init__(
        self,
        folder: Path,
        servers: int = 3,
        tick_ms: int = 500,
        flags: Sequence[str] = java.SMALL,
        *,
        cuts: bool = False,
    ) -> None:
        self._quorum_ports = [(ports.reserve(), ports.reserve()) for _ in range(servers)]
        numbered = {n: (a.number, b.number) for n, (a, b) in enumerate(self._quorum_ports, 1)}
        self.links = [Proxy((ports.HOST, numbered[n][0])) for n in range(2, servers + 1)] if cuts else []
        limits = {"initLimit": str(30_000 // tick_ms), "syncLimit": str(10_000 // tick_ms)}
        settings = limits | {f"server.{n}": f"{ports.HOST}:{a}:{b}" for n, (a, b) in numbered.items()}
        through = {
            f"server.{n}": f"{ports.HOST}:{link.address[1]}:{numbered[n][1]}" for n, link in enumerate(self.links, 2)
        }
        self.servers = [
            ZooKeeperServer(
                folder / f"zookeeper-{n}",
                tick_ms=tick_ms,
                flags=flags,
                member=(n, settings | through if n == 1 else settings),
            )
            for n in range(1, servers + 1)
        ]

    @property
    def connect(self) -> str:
        """Return the connect string without a chroot."""
        return ",".join(server.connect for server in self.servers)

    @property
    def address(self) -> tuple[str, int]:
        """Return the address of the first server."""
        return self.servers[0].address

    def start(self, timeout_s: float = 60) -> None:
        """Start those that do not run, and wait until every one serves.  Raises LocalKafkaError if one does not."""
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait_serving(timeout_s)

    def stop(self) -> None:
        """Stop every server."""
        for server in self.servers:
            server.stop()

    def close(self) -> None:
        """End every server at once, and release the ports."""
        for server in self.servers:
            server.close()
        for link in self.links:
            link.close()
        for pair in self._quorum_ports:
            for port in pair:
                port.release()


def four_letters(address: tuple[str, int], word: str, timeout_s: float = 2) -> str:
    """Return ZooKeeper's response to a four-letter word; empty without a response."""
    try:
        with socket.create_connection(address, timeout_s) as link:
            link.sendall(word.encode())
            parts = []
            while part := link.recv(4096):
                parts.append(part)
    except OSError:
        return ""
    return b"".join(parts).decode(errors="replace")
