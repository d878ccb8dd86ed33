"""Real broker as a child process: start, stop, kill -9, SIGSTOP, restart (also on another port), damage in its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from localkafka import backend, java, ports, releases, segments
from localkafka.errors import LocalKafkaError
from localkafka.listeners import SecureListeners
from localkafka.proxy import Proxy
from localkafka.registry import Registered, Registry
from localkafka.releases import Release
from localkafka.segments import Flipped
from localkafka.serverprocess import ServerProcess
from localkafka.waiting import wait_until

MAIN = "kafka.Kafka"
CLEAN = ".kafka_cleanshutdown"  # written by a clean stop, trusted by the next start


class Node(ServerProcess):
    """Broker `id` of a cluster in its own folder, which keeps its data through stop, kill and restart.

    zookeeper   connect string with chroot          registry   returns the reader of its znodes
    nodes       returns all brokers of the cluster, this one included
    port        port to listen on; 0: any free one
    advertise   host name for clients on other hosts: it then listens on every address
    proxied     advertise a proxy's address: clients and the other brokers (replication too) connect through .proxy,
                which keeps its address when the broker changes its port
    """

    in_containers = True

    def __init__(
        self,
        *,
        release: Release,
        broker: int,
        folder: Path,
        zookeeper: str,
        registry: Callable[[], Registry],
        nodes: Callable[[], Sequence[Node]],
        settings: Mapping[str, str],
        flags: Sequence[str] = java.SMALL,
        proxied: bool = False,
        port: int = 0,
        advertise: str | None = None,
    ) -> None:
        super().__init__(folder, port)
        self.release = release
        self.id = broker
        self.zookeeper = zookeeper
        self.settings = dict(settings)
        self.flags = flags
        self.advertise = advertise
        self.secure: SecureListeners | None = None  # listeners beside the plain one, set before the start
        self._registry = registry
        self._nodes = nodes
        self._proxy = Proxy((ports.HOST, self.port)) if proxied else None
        self._session = 0  # the ZooKeeper session of its last known registration
        self._advertised_port = 0  # at its last start

    @property
    def name(self) -> str:
        return f"broker {self.id} ({self.address})"

    @property
    def advertised(self) -> tuple[str, int]:
        """Return the advertised address."""
        return self._proxy.address if self._proxy else (self.advertise or ports.HOST, self.port)

    @property
    def proxy(self) -> Proxy:
        """Return the proxy before the broker in a proxied cluster.  Raises LocalKafkaError in others."""
        if self._proxy is None:
            raise LocalKafkaError(f"{self.name} has no proxy; start the cluster with proxied=True")
        return self._proxy

    @property
    def address(self) -> str:
        """Return the advertised address as text: "127.0.0.1:9092"."""
        return "{}:{}".format(*self.advertised)

    def start(self) -> None:
        """Start it without waiting until it is registered; wait_registered does that."""
        if self.running:
            return
        self._forget_the_dead()
        self._launch()
        self._advertised_port = self.advertised[1]

    def wait_registered(self, timeout_s: float = 60) -> None:
        """Wait until it accepts connections and its id node exists.  Raises LocalKafkaError with the end of its log
        when it ends first, or after timeout_s."""

        def registered() -> Registered | None:
            node = self._registry().broker(self.id)
            return node if node and node.port == self.advertised[1] and ports.answers(ports.HOST, self.port) else None

        self._session = self._wait_ready(registered, timeout_s, "register").session

    def restart(self, port: int | None = None, timeout_s: float = 60) -> None:
        """Start it again on its data, after a stop if it runs, and wait until it is registered.

        port: None keeps the port, 0 takes any free one, another number that one (LocalKafkaError when taken).
        """
        self.stop()
        self._take_port(port)
        if self._proxy is not None:
            self._proxy.target = (ports.HOST, self.port)
        self.start()
        self.wait_registered(timeout_s)

    def segments(self, topic: str, partition: int) -> list[Path]:
        """Return the log files of a partition on this broker's disk, oldest first; the last one is active."""
        return segments.files(self.data / f"{topic}-{partition}")

    def flip_byte(self, topic: str, partition: int, offset: int | None = None, at: int = 0) -> Flipped:
        """Flip the byte `at` of the value of the message with this offset (None: the oldest message), in a closed
        segment, while the broker is down.  For a compressed entry that holds the offset, the value is its compressed
        bytes. A running broker is stopped cleanly and started again, so that it has nothing to recover and does not
        notice the damage; a stopped one stays stopped, and must have been stopped cleanly.

        Other replicas keep the original bytes: use a topic with one replica, or one that this broker leads afterwards.
        Raises LocalKafkaError when no closed segment holds the message (see the setting log.segment.bytes)."""
        was_running = self.running
        self.stop()
        try:
            if not (self.data / CLEAN).exists():
                raise LocalKafkaError(
                    f"{self.name} was not stopped cleanly: at its next start it would check its newest segments and "
                    "truncate damaged ones; start it, stop() it, then flip"
                )
            return segments.flip_byte(self.segments(topic, partition)[:-1], f"{topic}/{partition}", offset, at)
        finally:
            if was_running:
                self.restart()

    def close(self) -> None:
        """End it at once and release its port; it cannot be started again."""
        super().close()
        if self._proxy is not None:
            self._proxy.close()
        if self.secure is not None:
            self.secure.close()

    def _forget_the_dead(self) -> None:
        """After kill -9: delete the znodes of every broker of this cluster that has ended, and wait until the living
        ones have taken over.  A controller that starts while such nodes exist would make dead brokers leaders; a
        controller that misses the restart never sends the new process the partitions that it leads."""
        if self._child is None:
            return
        registry = self._registry()
        for node in self._nodes():
            if node._child is not None and not node.running:
                registry.forget_dead(node.id, node._session, node._advertised_port)
        others = [node.id for node in self._nodes() if node.id != self.id and node.active]
        if others:
            wait_until(
                lambda: registry.controller() in others and not registry.led_by(self.id, others),
                30,
                lambda: f"brokers {others} to take over from {self.name}, which led {registry.led_by(self.id, others)}",
            )

    def _properties(self) -> dict[str, str]:
        found = {
            "broker.id": str(self.id),
            "log.dirs": str(self.data),
            "zookeeper.connect": self.zookeeper,
            **releases.listener(self.release, ports.ANY if self.advertise else ports.HOST, self.port, self.advertised),
            **releases.applying(releases.SETTINGS, self.release),
            **releases.applying(releases.ZOOKEEPER_SETTINGS, self.release),
            **self.settings,
        }
        return found if self.secure is None else self.secure.extended(found, self.release)

    def _command(self, config: Path) -> list[str]:
        flags = [*self.flags, *(self.secure.flags(self.release) if self.secure is not None else ())]
        return backend.command(self.release, MAIN, [str(config)], flags, level="INFO")
