"""Server as a child process with its own folder and port: start, stop, kill, pause."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from localkafka import backend, ports, releases
from localkafka.child import Child
from localkafka.containers import Container
from localkafka.errors import LocalKafkaError
from localkafka.waiting import wait_until

T = TypeVar("T")


class ServerProcess(ABC):
    """A server in its own folder, which keeps its data through stop, kill and restart.

    port   port to listen on, 0 for any free one; reserved until it is closed
    """

    in_containers = False  # whether LOCALKAFKA_BACKEND applies to it; its command is then one of backend.command

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.folder = folder
        self.wanted = False  # started, and neither stopped nor killed
        self._port = ports.reserve(port)
        self._child: Child | Container | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}, {self._child or 'not started'}>"

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in errors."""

    @property
    def port(self) -> int:
        """Return the port of the server itself."""
        return self._port.number

    @property
    def running(self) -> bool:
        """True if its process lives, paused or not."""
        return self._child is not None and self._child.running

    @property
    def active(self) -> bool:
        """True if it runs and is not paused."""
        return self.running and not self._started().paused

    @property
    def pid(self) -> int:
        return self._started().pid

    @property
    def log(self) -> Path:
        """Return the server's log file (not its data)."""
        return self.folder / "log"

    @property
    def data(self) -> Path:
        """Return the folder of its data."""
        return self.folder / "data"

    def stop(self, timeout_s: float = 20) -> None:
        """Send SIGTERM, and SIGKILL when it has not ended after timeout_s."""
        self.wanted = False
        if self._child is not None:
            self._child.stop(timeout_s)

    def kill(self) -> None:
        """Send SIGKILL; a broker's nodes stay until its session expires."""
        self.wanted = False
        self._started().kill()

    def pause(self) -> None:
        """Send SIGSTOP: its connections stay open without responses, and a broker's ZooKeeper session expires."""
        self._started().pause()

    def resume(self) -> None:
        self._started().resume()

    def close(self) -> None:
        """End it at once and release its port; it cannot be started again."""
        if self.running:
            self._started().kill()  # no clean stop needed, since none of its data is used again
        self._port.release()

    def _launch(self) -> None:
        """Write server.properties and start the process."""
        self.data.mkdir(parents=True, exist_ok=True)
        config = self.folder / "server.properties"
        config.write_text(releases.properties(self._properties()), encoding="utf-8")
        start = backend.started if self.in_containers else Child
        self._child = start(self.name, self._command(config), self.log)
        self.wanted = True

    def _wait_ready(self, ready: Callable[[], T | None], timeout_s: float, what: str) -> T:
        """Wait until ready() is true, and return its value.  Raises LocalKafkaError with the end of the log when the
        process ends first, or after timeout_s ("waited in vain for it to WHAT")."""
        child = self._started()

        def answer() -> T | None:
            if not child.running:
                raise LocalKafkaError(f"{self.name} ended at start with {child.exit_code}; {child.log_end()}")
            return ready()

        return wait_until(answer, timeout_s, lambda: f"{self.name} to {what}; {child.log_end()}")

    def _take_port(self, port: int | None) -> None:
        """Reserve the port for the next start: None keeps the port, 0 takes any free one, another number that one.
        Raises LocalKafkaError when it is taken."""
        if port is not None and port != self.port:
            new = ports.reserve(port)
            self._port.release()
            self._port = new

    def _started(self) -> Child | Container:
        if self._child is None:
            raise LocalKafkaError(f"{self.name} was not started")
        return self._child

    @abstractmethod
    def _properties(self) -> dict[str, str]:
        """Return the settings in its server.properties."""

    @abstractmethod
    def _command(self, config: Path) -> list[str]:
        """Return the command line that starts it with this server.properties."""
