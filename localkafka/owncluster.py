"""Base of clusters of child processes: ZooKeeper (its own or a shared one), brokers, start and end."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from localkafka import backend, releases
from localkafka.client import Described, started_client
from localkafka.errors import LocalKafkaError
from localkafka.workfolder import WorkFolder
from localkafka.zookeeper import ZooKeeperAt, ZooKeeperEnsemble, ZooKeeperServer


class BrokerProcess(Protocol):
    """A broker process as its cluster uses it."""

    id: int
    wanted: bool

    @property
    def address(self) -> str: ...

    def start(self) -> None: ...

    def wait_registered(self, timeout_s: float = 60) -> None: ...

    def close(self) -> None: ...


B = TypeVar("B", bound=BrokerProcess)


class OwnCluster(Described, ABC, Generic[B]):
    """ZooKeeper and brokers, started by `with` or start(), ended by the end of `with` or by close().

    chroot     path of all its znodes; None: "/kafka", or a unique path on a shared ZooKeeper
    zookeeper  a ZooKeeper to share (another cluster's .zookeeper_server); None: its own
    keep       keep the work folder when it ends
    zookeeper_port, advertise   of its own ZooKeeper: see ZooKeeperServer

    The folder is also kept when the start fails: the error names the log in it.
    """

    nodes: Sequence[B]  # created by the subclass

    def __init__(
        self,
        version: str,
        chroot: str | None,
        zookeeper: ZooKeeperServer | ZooKeeperEnsemble | ZooKeeperAt | None,
        *,
        tick_ms: int,
        keep: bool,
        zookeeper_port: int = 0,
        advertise: str | None = None,
    ) -> None:
        self.keep = keep
        self.chroot = _chroot(chroot, shared=zookeeper is not None)
        self._work = WorkFolder()
        folder = self._work.path
        self._server = zookeeper or ZooKeeperServer(
            folder / "zookeeper", zookeeper_port, tick_ms=tick_ms, advertise=advertise
        )
        self._owns_server = zookeeper is None
        super().__init__(version, self._server.connect + self.chroot, "", folder)

    @property
    def brokers(self) -> str:
        """Return the current bootstrap list: a broker may be restarted on another port."""
        return ",".join(node.address for node in self.nodes)

    @property
    def zookeeper_server(self) -> ZooKeeperServer:
        """Return the ZooKeeper process, for stopping or sharing it.  Raises LocalKafkaError if another process runs
        it."""
        if not isinstance(self._server, ZooKeeperServer):
            raise LocalKafkaError(f"ZooKeeper at {self.zookeeper} belongs to another process")
        return self._server

    def node(self, broker: int) -> B:
        """Return the broker with this id."""
        return next(node for node in self.nodes if node.id == broker)

    def start(self, timeout_s: float = 60) -> Self:
        """Start everything and wait until every broker is registered.  Raises LocalKafkaError after ending what was
        started: at once when java, Maven or jars are missing; later with the folder kept for its logs."""
        try:
            if self._owns_server:
                backend.ready(releases.release(releases.ZOOKEEPER_FROM))
            self._check()
        except BaseException:
            self.close()
            raise
        try:
            if self._owns_server:
                self.zookeeper_server.start(timeout_s)
            self._make_chroot()
            for node in self.nodes:
                node.start()
            self.wait_registered(timeout_s)
        except BaseException:
            self.keep = True
            self.close()
            raise
        return self

    def wait_registered(self, timeout_s: float = 60) -> None:
        """Wait until every broker that was started, and not stopped or killed, is registered and accepts
        connections."""
        for node in self.nodes:
            if node.wanted:
                node.wait_registered(timeout_s)

    def close(self) -> None:
        """End every process and client of it; remove the folder unless keep."""
        super().close()
        for node in self.nodes:
            node.close()
        if self._owns_server:
            self.zookeeper_server.close()
        self._work.close(self.keep)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @abstractmethod
    def _check(self) -> None:
        """Raise LocalKafkaError when java, Maven or jars are missing, before anything is started."""

    def _make_chroot(self) -> None:
        """Create the chroot, which 0.8.1 brokers do not, and refuse a used one, which may hold another cluster's
        topics."""
        client = started_client(self._server.connect)
        try:
            if client.exists(f"{self.chroot}/brokers/topics"):
                raise LocalKafkaError(
                    f"ZooKeeper {self._server.connect} holds a cluster under {self.chroot or '/'} already; "
                    "give another chroot"
                )
            client.ensure_path(self.chroot or "/")
        finally:
            client.stop()
            client.close()


def _chroot(wanted: str | None, shared: bool) -> str:
    if wanted is None:
        return f"/kafka-{uuid.uuid4().hex[:8]}" if shared else "/kafka"
    if wanted in ("", "/"):
        return ""
    if not wanted.startswith("/") or wanted.endswith("/"):
        raise LocalKafkaError(f"chroot {wanted!r} must begin with / and not end with it")
    return wanted
