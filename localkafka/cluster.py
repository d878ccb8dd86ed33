"""A real Kafka cluster of child processes: ZooKeeper (its own or a shared one) and brokers on 127.0.0.1.

with Cluster(version="0.8.2.2", brokers=2) as cluster:
    cluster.create_topic("orders", partitions=4, replication=2)
    client = Whatever(cluster.brokers, cluster.zookeeper)
    cluster.node(0).kill()
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType

from localkafka import java, releases
from localkafka.client import ClusterClient, started_client, text_of
from localkafka.errors import LocalKafkaError
from localkafka.node import Node
from localkafka.proxy import Proxy
from localkafka.workfolder import WorkFolder
from localkafka.zookeeper import ZooKeeperAt, ZooKeeperServer


class Cluster(ClusterClient):
    """ZooKeeper and brokers, started by `with` or start(), ended by leaving it or by close().

    version    one of localkafka.releases.STARTABLE          brokers    how many; their ids count from 0
    chroot     path under which all its znodes are; None: "/kafka", or a name of its own on a shared ZooKeeper
    zookeeper  the ZooKeeper to share (another cluster's .zookeeper_server); None: one of its own
    settings   broker settings on top of the usual ones          flags    of its JVMs (usual: java.SMALL)
    proxied    a proxy with faults before each broker: node(i).proxy; clients and the other brokers go through it
    keep       leave the work folder behind when it ends

    A folder is also kept when the start failed: the error names the log in it.
    """

    def __init__(
        self,
        version: str = releases.DEFAULT,
        brokers: int = 1,
        chroot: str | None = None,
        zookeeper: ZooKeeperServer | ZooKeeperAt | None = None,
        settings: Mapping[str, object] | None = None,
        flags: Sequence[str] = java.SMALL,
        tick_ms: int = 500,
        proxied: bool = False,
        keep: bool = False,
    ) -> None:
        if brokers < 1:
            raise LocalKafkaError(f"a cluster of {brokers} brokers: at least one is needed")
        self.release = releases.startable(version)
        self.keep = keep
        self.chroot = _chroot(chroot, shared=zookeeper is not None)
        self._work = WorkFolder()
        folder = self._work.path
        self._server = zookeeper or ZooKeeperServer(folder / "zookeeper", tick_ms=tick_ms)
        self._owns_server = zookeeper is None
        super().__init__(version, self._server.connect + self.chroot, "", folder)
        texts = {key: text_of(value) for key, value in (settings or {}).items()}
        self.nodes = [self._node(n, texts, flags, proxied) for n in range(brokers)]

    def _node(self, broker: int, settings: Mapping[str, str], flags: Sequence[str], proxied: bool) -> Node:
        folder = self.folder / f"broker-{broker}"
        common = (self.zookeeper, self.registry, lambda: self.nodes, settings, flags, proxied)
        return Node(self.release, broker, folder, *common)

    @property
    def brokers(self) -> str:
        """The bootstrap list as it is now: a broker may be restarted on another port."""
        return ",".join(node.address for node in self.nodes)

    @property
    def zookeeper_server(self) -> ZooKeeperServer:
        """The ZooKeeper process, to stop it or to share it.  Raises LocalKafkaError when another process runs it."""
        if not isinstance(self._server, ZooKeeperServer):
            raise LocalKafkaError(f"ZooKeeper at {self.zookeeper} belongs to another process")
        return self._server

    def zookeeper_through(self, proxy: Proxy) -> str:
        """The connect string that goes through a proxy before ZooKeeper: Proxy(cluster.zookeeper_address)."""
        return proxy.connect + self.chroot

    @property
    def zookeeper_address(self) -> tuple[str, int]:
        return self._server.address

    def node(self, broker: int) -> Node:
        """The broker of this id."""
        return self.nodes[broker]

    def start(self, timeout_s: float = 60) -> Cluster:
        """Start everything and wait until every broker is registered.  Raises LocalKafkaError, having ended all again:
        without java, Maven or the jars before anything was started; later with the folder kept for its logs."""
        try:
            for version in {self.version, releases.ZOOKEEPER_FROM} if self._owns_server else {self.version}:
                java.ready(releases.release(version))
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
        """Wait until every broker that was started, and not stopped or killed by us, is registered and answers."""
        for node in self.nodes:
            if node.wanted:
                node.wait_registered(timeout_s)

    def close(self) -> None:
        """End every process and client of it; the folder goes, unless keep."""
        super().close()
        for node in self.nodes:
            node.close()
        if self._owns_server:
            self.zookeeper_server.close()
        self._work.close(self.keep)

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _make_chroot(self) -> None:
        """0.8.1 brokers do not, and a chroot that was used before would bring another cluster's topics along."""
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
