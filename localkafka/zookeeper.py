"""A real ZooKeeper server: 3.4.6 from the jars of Kafka 0.8.2.2, which serves every version that needs one."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localkafka import java, ports, releases
from localkafka.child import Child
from localkafka.errors import LocalKafkaError
from localkafka.waiting import wait_until

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


@dataclass(frozen=True, slots=True)
class ZooKeeperAt:
    """A ZooKeeper that another process runs (or a proxy before one)."""

    address: tuple[str, int]

    @property
    def connect(self) -> str:
        """The connect string without a chroot."""
        return "{}:{}".format(*self.address)


class ZooKeeperServer:
    """One ZooKeeper in a folder of its own; its data stays there through stop, kill and restart.

    tick_ms   the server's tick: sessions are granted 2 to 20 of them (500: 1 to 10 s)
    """

    def __init__(self, folder: Path, port: int = 0, tick_ms: int = 500, flags: Sequence[str] = java.SMALL) -> None:
        self.folder = folder
        self.tick_ms = tick_ms
        self.flags = flags
        self._port = ports.reserve(port)
        self._child: Child | None = None

    def __repr__(self) -> str:
        return f"<ZooKeeperServer {self.connect}, {self._child or 'not started'}>"

    @property
    def address(self) -> tuple[str, int]:
        return (ports.HOST, self._port.number)

    @property
    def connect(self) -> str:
        """The connect string without a chroot."""
        return f"{ports.HOST}:{self._port.number}"

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    @property
    def pid(self) -> int:
        return self._started().pid

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self, timeout_s: float = 30) -> None:
        """Start it, and wait until it serves.  Raises LocalKafkaError with the end of its log when it does not."""
        if self.running:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        release = releases.release(releases.ZOOKEEPER_FROM)
        config = self.folder / "zk.properties"
        config.write_text(releases.properties(self._settings()), encoding="utf-8")
        argv = java.command(release, MAIN, [str(config)], self.flags)
        child = self._child = Child(f"ZooKeeper on {self.connect}", argv, self.log)

        def serving() -> bool:
            if not child.running:
                raise LocalKafkaError(f"{child.name} ended at start with {child.exit_code}; {child.log_end()}")
            return "Mode:" in four_letters(self.address, "srvr")

        wait_until(serving, timeout_s, lambda: f"{child.name} to serve; {child.log_end()}")

    def stop(self, timeout_s: float = 15) -> None:
        if self._child is not None:
            self._child.stop(timeout_s)

    def kill(self) -> None:
        self._started().kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay, nothing is answered."""
        self._started().pause()

    def resume(self) -> None:
        self._started().resume()

    def restart(self, timeout_s: float = 30) -> None:
        """Stop it when it runs, and start it on the same port and data."""
        self.stop()
        self.start(timeout_s)

    def close(self) -> None:
        """Stop it and give the port back; it cannot be started again."""
        if self.running:
            self._started().kill()  # nothing of it is used again
        self._port.release()

    def _started(self) -> Child:
        if self._child is None:
            raise LocalKafkaError(f"ZooKeeper on {self.connect} was not started")
        return self._child

    def _settings(self) -> dict[str, str]:
        return {
            "dataDir": str(self.folder / "data"),
            "clientPort": str(self._port.number),
            "clientPortAddress": ports.HOST,
            "maxClientCnxns": "0",
            "tickTime": str(self.tick_ms),
        }


def four_letters(address: tuple[str, int], word: str, timeout_s: float = 2) -> str:
    """ZooKeeper's answer to one of its four-letter words; empty when it gives none."""
    try:
        with socket.create_connection(address, timeout_s) as link:
            link.sendall(word.encode())
            parts = []
            while part := link.recv(4096):
                parts.append(part)
    except OSError:
        return ""
    return b"".join(parts).decode(errors="replace")
