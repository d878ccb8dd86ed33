"""A real Kafka cluster of child processes: ZooKeeper (its own or a shared one) and brokers on 127.0.0.1.

with Cluster(version="0.8.2.2", brokers=2) as cluster:
    cluster.create_topic("orders", partitions=4, replication=2)
    client = Whatever(cluster.brokers, cluster.zookeeper)
    cluster.node(0).kill()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localkafka import backend, java, releases
from localkafka.client import ClusterClient, text_of
from localkafka.errors import LocalKafkaError
from localkafka.node import Node
from localkafka.owncluster import OwnCluster
from localkafka.proxy import Proxy
from localkafka.zookeeper import ZooKeeperAt, ZooKeeperEnsemble, ZooKeeperServer


class Cluster(OwnCluster[Node], ClusterClient):
    """ZooKeeper and brokers, started by `with` or start(), ended by the end of `with` or by close().

    version    one of localkafka.releases.STARTABLE          brokers    number of brokers; their ids count from 0
    settings   additional broker settings                    flags      flags of the JVMs (default: java.SMALL)
    proxied    a proxy with faults before each broker: node(i).proxy; clients and the other brokers connect through it
    port       port of broker 0, the others follow; 0: any free ones
    advertise  host name for clients on other hosts: brokers and ZooKeeper then listen on every address
    chroot, zookeeper, zookeeper_port, keep    as for every OwnCluster
    """

    def __init__(
        self,
        version: str = releases.DEFAULT,
        brokers: int = 1,
        chroot: str | None = None,
        *,
        zookeeper: ZooKeeperServer | ZooKeeperEnsemble | ZooKeeperAt | None = None,
        settings: Mapping[str, object] | None = None,
        flags: Sequence[str] = java.SMALL,
        tick_ms: int = 500,
        proxied: bool = False,
        keep: bool = False,
        port: int = 0,
        zookeeper_port: int = 0,
        advertise: str | None = None,
    ) -> None:
        if brokers < 1:
            raise LocalKafkaError(f"a cluster of {brokers} brokers: at least one is needed")
        self.release = releases.startable(version)
        if proxied and advertise:
            raise LocalKafkaError("a proxy listens on 127.0.0.1: proxied and advertise exclude each other")
        super().__init__(
            version,
            chroot,
            zookeeper,
            tick_ms=tick_ms,
            keep=keep,
            zookeeper_port=zookeeper_port,
            advertise=advertise,
        )
        texts = {key: text_of(value) for key, value in (settings or {}).items()}
        self.nodes = [
            Node(
                release=self.release,
                broker=n,
                folder=self.folder / f"broker-{n}",
                zookeeper=self.zookeeper,
                registry=self.registry,
                nodes=lambda: self.nodes,
                settings=texts,
                flags=flags,
                proxied=proxied,
                port=port + n if port else 0,
                advertise=advertise,
            )
            for n in range(brokers)
        ]

    def zookeeper_through(self, proxy: Proxy) -> str:
        """Return the connect string through a proxy before ZooKeeper: Proxy(cluster.zookeeper_address)."""
        return proxy.connect + self.chroot

    @property
    def zookeeper_address(self) -> tuple[str, int]:
        return self._server.address

    def _expected_brokers(self) -> int:
        return sum(node.wanted for node in self.nodes)  # without those that a test has stopped or killed

    def _check(self) -> None:
        backend.ready(self.release)
