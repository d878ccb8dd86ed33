"""A real Kafka cluster of child processes: ZooKeeper (its own or a shared one) and brokers on 127.0.0.1.

with Cluster(version="0.8.2.2", brokers=2) as cluster:
    cluster.create_topic("orders", partitions=4, replication=2)
    client = Whatever(cluster.brokers, cluster.zookeeper)
    cluster.node(0).kill()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localkafka import java, releases
from localkafka.client import ClusterClient, text_of
from localkafka.errors import LocalKafkaError
from localkafka.node import Node
from localkafka.owncluster import OwnCluster
from localkafka.proxy import Proxy
from localkafka.zookeeper import ZooKeeperAt, ZooKeeperServer


class Cluster(OwnCluster[Node], ClusterClient):
    """ZooKeeper and brokers, started by `with` or start(), ended by leaving it or by close().

    version    one of localkafka.releases.STARTABLE          brokers    how many; their ids count from 0
    settings   broker settings on top of the usual ones          flags    of its JVMs (usual: java.SMALL)
    proxied    a proxy with faults before each broker: node(i).proxy; clients and the other brokers go through it
    chroot, zookeeper, keep    of every OwnCluster
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
        super().__init__(version, chroot, zookeeper, tick_ms, keep)
        texts = {key: text_of(value) for key, value in (settings or {}).items()}
        self.nodes = [self._node(n, texts, flags, proxied) for n in range(brokers)]

    def _node(self, broker: int, settings: Mapping[str, str], flags: Sequence[str], proxied: bool) -> Node:
        folder = self.folder / f"broker-{broker}"
        common = (self.zookeeper, self.registry, lambda: self.nodes, settings, flags, proxied)
        return Node(self.release, broker, folder, *common)

    def zookeeper_through(self, proxy: Proxy) -> str:
        """The connect string that goes through a proxy before ZooKeeper: Proxy(cluster.zookeeper_address)."""
        return proxy.connect + self.chroot

    @property
    def zookeeper_address(self) -> tuple[str, int]:
        return self._server.address

    def _check(self) -> None:
        java.ready(self.release)
